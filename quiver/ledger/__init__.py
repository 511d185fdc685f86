"""How much of a shared cap each core has claimed: a hint in one small file, never the truth.

==========  ======================================================================
``format``  the bytes of the file ``ledger``
``claims``  pure: announce, then look; give back; ask
``file``    reading and writing it, whatever is there
==========  ======================================================================
"""

from quiver.ledger.claims import Claims, Steps, View
from quiver.ledger.file import LEDGER_NAME, read_ledger, write_record
from quiver.ledger.format import Record

__all__ = ["LEDGER_NAME", "Claims", "Record", "Steps", "View", "read_ledger", "write_record"]
