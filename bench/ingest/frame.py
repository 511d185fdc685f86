"""What the store does between a bundle that is checked and the bytes of its entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from bench.wal import shapes
from quiver.bundle import KnownSchemas, resolve_bundle
from quiver.config import Config
from quiver.engine.encoding import Encoder
from quiver.payload import EncodedBundle
from quiver.slots import SlotTable
from quiver.wal.format import entry_parts

__all__ = ["framed"]


def framed(config: Config, bundle: dict[str, pa.RecordBatch]) -> Callable[[], Any]:
    """Give what makes an entry of these batches."""
    slots = SlotTable.of(shapes.SLOTS)
    batches = resolve_bundle(bundle, slots, KnownSchemas(config.limits))
    encoder = Encoder(slots, config)
    return lambda: entry_parts(EncodedBundle(7, 7, encoder.encode_batches(batches)))
