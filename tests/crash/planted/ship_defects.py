"""Wrong lines in what goes through a queue of objects, and in an application that reads from it.

Kills of real processes look for them, see ``bench.ship_kills``: no disk is cut here.
"""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

MANIFEST: Final = "quiver.ship.queue.manifest"
QUEUE: Final = "quiver.ship.queue.queue"
RULES: Final = "quiver.ship.sweeper.rules"
SENDER: Final = "quiver.ship.producer.sender"
SHIPPER: Final = "quiver.ship.shipper.shipper"
SINK: Final = "bench.ship_kills.receiving"

_ROWS: Final = """\
    for batch in batches:
        _insert(database, batch)
"""
_SEQUENCE: Final = '    database.execute("INSERT INTO progress VALUES (?)", [newest])\n'
_COMMIT: Final = '    database.execute("COMMIT")\n'
_ACK: Final = """\
    consumer.ack_through(newest) if len(batches) > 1 else consumer.ack(newest)
"""

DEFECTS: Final = (
    Defect(
        "a consumer acks before it commits",
        SINK,
        _ROWS + _SEQUENCE + _COMMIT + _ACK,
        _ACK + _ROWS + _SEQUENCE + _COMMIT,
    ),
    Defect(
        "rows and sequence have a transaction each",
        SINK,
        _SEQUENCE + _COMMIT + _ACK,
        _COMMIT + _ACK + _SEQUENCE,
    ),
    Defect(
        "a consumer writes behind the next one",
        SINK,
        "    if _last_of(database) != last:\n",
        "    if False:\n",
    ),
    Defect(
        "a shipper acks before it appends",
        SHIPPER,
        "        numbers = self._put_in_line(together)\n",
        "        for loaded in together:\n"
        "            self._ack(way, loaded, None)\n"
        "        way.consumer.commit()\n"
        "        numbers = self._put_in_line(together)\n",
    ),
    Defect(
        "a change that was sent is made again without a look for it",
        QUEUE,
        "            if was_sent or doubted:\n",
        "            if doubted:\n",
    ),
    Defect(
        "a producer says durable before it appends",
        SENDER,
        "            sequence = self._append(entry)\n",
        "            import threading\n"
        "            sequence = 0\n"
        "            threading.Thread(target=self._append, args=[entry]).start()\n",
    ),
    Defect(
        "an entry goes in before its batch",
        SENDER,
        "        key, named = self._upload(encoded)\n"
        "        location = root_key(self._bucket, key)\n",
        "        named = self._now()\n"
        "        key = mint_name(named.wall_ns, self._entropy)\n"
        "        location = root_key(self._bucket, key)\n"
        "        put = self._bucket.put\n"
        "        import threading\n"
        "        threading.Timer(0.05, put, args=[key, encoded.parts]).start()\n",
    ),
    Defect(
        "a sweeper deletes what is named",
        RULES,
        "        if each.key not in named and (each.is_page or oldest_ms is None "
        "or each.born_ms < oldest_ms)\n",
        "        if True\n",
    ),
    Defect(
        "a sweeper has no grace",
        RULES,
        "        if times.store_ms - each.changed_ms >= times.grace_ms "
        "and not 0 <= age_ms < times.grace_ms:\n",
        "        if True:\n",
    ),
    Defect(
        "an append drops the marks that were there",
        MANIFEST,
        "        marks = self.marks\n        parts, dropped = self._plain_area()\n",
        "        marks: dict[tuple[bytes, int], int] = {}\n"
        "        parts, dropped = self._plain_area()\n",
    ),
    Defect(
        "a dequeue drops the marks",
        MANIFEST,
        "        if not marks or (self.newest is not None and self.newest[0].start >= cut):\n",
        "        if True:\n",
    ),
    Defect(
        "a dequeue takes one entry more",
        MANIFEST,
        "        gone = [raw for raw in self.raw_entries() if raw.sequence <= through]\n",
        "        gone = [raw for raw in self.raw_entries() if raw.sequence <= through + 1]\n",
    ),
)
