"""Write into a store from many places at once, and let all of it in at one moment.

::

    task --> staging/...qseg --.
    task --> staging/...qseg ---+--> commit: the next segments of one core, and a record of the sink
    task --> staging/...qseg --'

===========  =====================================================================
``names``    what sinks, jobs and their files are called
``stage``    rows become finished segment files that no reader sees
``commits``  all of them become segments, once; or they go
``tidy``     what nobody will commit any more
===========  =====================================================================

Knows no Spark: a task is whoever stages, the driver whoever commits.
"""

from quiver.sink.commits import Committed, abort, commit, settle_cores
from quiver.sink.names import Job, check_sink
from quiver.sink.stage import Stage, Staged
from quiver.sink.tidy import GRACE, Tidied, tidy

__all__ = [
    "GRACE",
    "Committed",
    "Job",
    "Stage",
    "Staged",
    "Tidied",
    "abort",
    "check_sink",
    "commit",
    "settle_cores",
    "tidy",
]
