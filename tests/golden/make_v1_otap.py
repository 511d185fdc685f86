"""Write the golden messages of OTAP streams, once: what our writer sends, and an answer.

The bytes of Arrow's own messages are those of one version of pyarrow: read, never compared.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "kit"))

from otap_kit import drawn_batch

from quiver.otel import Signal
from quiver.otel.otap.format import BatchStatus, StatusCode, encode_records, encode_status
from quiver.otel.otap.writing import StreamWriter

HERE = Path(__file__).parent / "v1" / "otap"
SEEDS, ROWS = (1, 2), 2
STATUS = BatchStatus(-2, StatusCode.RESOURCE_EXHAUSTED, "no room für it")


def main() -> None:
    HERE.mkdir(parents=True)
    for signal in Signal:
        writer, data = StreamWriter(signal), b""
        for seed in SEEDS:
            message = encode_records(writer.write(drawn_batch(signal, seed, rows=ROWS)))
            data += struct.pack("<I", len(message)) + message
        (HERE / f"{signal}.stream").write_bytes(data)
    (HERE / "status").write_bytes(encode_status(STATUS))


if __name__ == "__main__":
    if HERE.exists():
        sys.exit(f"{HERE} is there already: golden files are never written again")
    main()
