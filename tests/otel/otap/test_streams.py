"""What is written on a stream is read from it as it was, through every change of a schema."""

import pytest
from otap_kit import drawn_batch, told

from quiver.errors import InputError
from quiver.otel import Signal
from quiver.otel.batch import of_request
from quiver.otel.otap.format import decode_records, encode_records
from quiver.otel.otap.reading import StreamReader
from quiver.otel.otap.writing import StreamWriter

CASES = [(signal, "none") for signal in Signal] + [(Signal.LOGS, "lz4"), (Signal.LOGS, "zstd")]


@pytest.mark.parametrize(("signal", "compression"), CASES)
def test_batches_come_as_they_went(signal: Signal, compression) -> None:
    reader, writer = StreamReader(signal), StreamWriter(signal, compression)
    schemas, payloads = set(), 0
    for seed in range(12):
        batch = drawn_batch(signal, seed, rows=10)
        records = decode_records(encode_records(writer.write(batch)))
        assert records.batch_id == seed + 1
        assert told(reader.read(records)) == told(batch)
        schemas |= {(each.kind, each.schema_id) for each in records.payloads}
        payloads += len(records.payloads)
    # Schemas changed again and again, and some went on.
    assert len({kind for kind, _ in schemas}) * 2 < len(schemas) < payloads


def test_a_stream_takes_only_arrow_of_its_signal() -> None:
    with pytest.raises(InputError, match="takes Arrow payloads"):
        StreamWriter(Signal.LOGS).write(drawn_batch(Signal.TRACES, 1))
    with pytest.raises(InputError, match="takes Arrow payloads"):
        StreamWriter(Signal.LOGS).write(of_request(Signal.LOGS, b"", 0))
