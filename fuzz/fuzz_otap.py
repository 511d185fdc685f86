"""A stream of OTAP: any bytes are batches or a refusal, and what is taken can be sent on.

::

    flags u8 | messages, each behind its length as u32
"""

from __future__ import annotations

import struct

from quiver.errors import CapacityError, InputError
from quiver.otel.otap.format import (
    BatchStatus,
    decode_records,
    decode_status,
    encode_records,
    encode_status,
)
from quiver.otel.otap.reading import BrokenStreamError, StreamLimits, StreamReader
from quiver.otel.otap.writing import StreamWriter
from quiver.otel.signals import Signal

SIGNALS = (Signal.LOGS, Signal.TRACES, Signal.METRICS)
LIMITS = StreamLimits(
    decoded_bytes=1 << 20, dictionary_bytes=1 << 16, rows=1 << 16, columns=64, schemas=4
)
MESSAGES_MAX = 8


def messages(data: bytes) -> list[bytes]:
    found = []
    while len(data) >= 4 and len(found) < MESSAGES_MAX:
        (size,) = struct.unpack_from("<I", data)
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


def status(data: bytes) -> None:
    try:
        found = decode_status(data)
    except InputError:
        return
    again = decode_status(encode_status(found))
    assert again == BatchStatus(found.batch_id, found.code, found.message)


def one_input(data: bytes) -> None:
    if not data:
        return
    signal = SIGNALS[data[0] % len(SIGNALS)]
    reader, writer, other = StreamReader(signal, LIMITS), StreamWriter(signal), StreamReader(signal)
    for message in messages(data[1:]):
        status(message)
        try:
            records = decode_records(message)
            assert decode_records(encode_records(records)) == records
            batch = reader.read(records)
        except BrokenStreamError:
            return
        except InputError:
            continue
        except CapacityError:
            return
        sent = other.read(decode_records(encode_records(writer.write(batch))))
        assert sent.items == batch.items
        for slot, rows in sent.bundle.items():
            rows.validate(full=True)
            assert rows.schema.names == batch.bundle[slot].schema.names
