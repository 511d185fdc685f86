"""One small column of each Arrow type, no luck needed, and an extension type that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings

from quiver.testing.drawn_types import INDEX_TYPES, LEAVES
from quiver.testing.drawn_values import arrays

ROWS = 3


class Colour(pa.ExtensionType):
    """An extension type of the tests, with a parameter in its metadata."""

    def __init__(self, storage: Any = pa.int32(), space: str = "rgb") -> None:  # noqa: B008
        self.space = space
        super().__init__(storage, "quiver.tests.colour")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.space.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Colour:
        return cls(storage, serialized.decode())


@contextmanager
def known(kind: pa.ExtensionType) -> Iterator[None]:
    """Let Arrow know an extension type for the length of a block."""
    pa.register_extension_type(kind)
    try:
        yield
    finally:
        pa.unregister_extension_type(kind.extension_name)


def _nested(inner: Any) -> list[Any]:
    field = pa.field("x", inner)
    return [
        pa.list_(field),
        pa.large_list(field),
        pa.list_(field, 2),
        pa.list_(field, 0),
        pa.list_view(field),
        pa.large_list_view(field),
        pa.struct([field, pa.field("x", pa.int8(), nullable=False)]),
        pa.map_(pa.string(), inner),
        pa.map_(pa.string(), inner, keys_sorted=True),
        pa.sparse_union([field, pa.field("y", pa.string())], [3, 100]),
        pa.dense_union([field, pa.field("y", pa.string())]),
        *(pa.run_end_encoded(ends, inner) for ends in (pa.int16(), pa.int32(), pa.int64())),
    ]


WORDS = pa.dictionary(pa.int32(), pa.string())

TYPES: list[Any] = [
    *LEAVES,
    *(
        pa.dictionary(i, v, o)
        for i in INDEX_TYPES
        for v in (pa.string(), pa.float64())
        for o in (0, 1)
    ),
    *(pa.dictionary(pa.int16(), kind) for kind in LEAVES),
    *(pa.dictionary(pa.int32(), kind) for kind in _nested(pa.float32())),
    *_nested(pa.int16()),
    *_nested(WORDS),
    *_nested(pa.uuid()),
    pa.struct([]),
    pa.sparse_union([]),
    pa.dense_union([]),
    pa.uuid(),
    pa.bool8(),
    pa.json_(),
    pa.opaque(WORDS, "type", "vendor"),
    pa.opaque(pa.struct([("words", WORDS)]), "type", "vendor"),
    pa.fixed_shape_tensor(pa.float32(), (2, 3), dim_names=["r", "c"], permutation=[1, 0]),
]


def draw_once(strategy: Any, number: int) -> Any:
    """Draw one value, always the same for the same number."""
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=2,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found[-1]


def column(kind: Any, number: int) -> Any:
    """Draw a column of a type; none has rows that cannot have any."""
    rows = 0 if pa.types.is_union(kind) and not kind.num_fields else ROWS
    return draw_once(arrays(kind, rows), number)
