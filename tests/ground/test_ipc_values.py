"""What is said of a table at once is what Arrow's full validation says of it chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quiver import ipc_values
from quiver.errors import DamagedEntry
from quiver.ipc import ARROW_FAULTS
from quiver.ipc_file import ArrowFile
from quiver.testing.arrow_mutants import arrow_mutants
from quiver.testing.children import run_in_children

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

ROWS = 300
WORDS = 200
MEMORY = 2 << 30


def words(kind: pa.DataType, count: int = WORDS) -> pa.Array:
    texts = [f"word {number}" for number in range(count)]
    if pa.types.is_floating(kind):
        return pa.array([float("nan"), *range(count - 1)], kind)
    if pa.types.is_list(kind):
        return pa.array([[text] for text in texts], kind)
    return pa.array(texts, kind)


def file_of(
    kind: pa.DataType,
    index: pa.DataType,
    *,
    nulls: Sequence[int | None] = (),
    chunks: int = 3,
) -> bytes:
    """Write chunks of one dictionary column, beside one of numbers; some chunks have nulls."""
    own = words(kind)
    schema = pa.schema({"d": pa.dictionary(index, own.type), "n": pa.int32()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for chunk in range(chunks):
            numbers = [(row * 7 + chunk) % (WORDS // 2) for row in range(ROWS)]
            mask = np.array([chunk in nulls and row % 3 == 0 for row in range(ROWS)])
            indices = pa.array(numbers, index, mask=mask)
            column = pa.DictionaryArray.from_arrays(indices, own)
            rows = pa.array(range(ROWS), pa.int32())
            writer.write_batch(pa.record_batch([column, rows], schema=schema))
    return sink.getvalue().to_pybytes()


def texts_of(texts: Sequence[str | None], chunks: int = 2) -> bytes:
    """Write chunks of one column of texts, each so long that it is looked at as a whole."""
    rows = ipc_values._LONG
    column = pa.array([texts[row % len(texts)] for row in range(rows + chunks)], pa.string())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema({"t": pa.string()})) as writer:
        for chunk in range(chunks):
            writer.write_batch(pa.record_batch({"t": column.slice(chunk, rows)}))
    return sink.getvalue().to_pybytes()


def verdict(act: Callable[[], object]) -> bool:
    try:
        act()
    except ARROW_FAULTS:
        return False
    return True


def hold_together(data: bytes) -> bool | None:
    """Hold what we say of a file's table against what Arrow does; None if there is no table."""
    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    except ARROW_FAULTS:
        return None
    ours = verdict(lambda: ipc_values.validate_table(table))
    assert ours == verdict(lambda: table.validate(full=True))
    reader = pa.ipc.open_file(pa.py_buffer(data))
    first, *later = map(reader.get_batch, range(reader.num_record_batches))
    named = verdict(lambda: first.columns)  # A schema whose names are no text is refused before.
    if named and verdict(lambda: first.validate(full=True)):
        for batch in later:
            found = verdict(lambda batch=batch: ipc_values.validate_later(batch))
            assert found == verdict(lambda batch=batch: batch.validate(full=True))
    return ours


KINDS = [pa.string(), pa.large_string(), pa.float64(), pa.list_(pa.string())]
FILES = {
    "plain": file_of(pa.string(), pa.uint8()),
    "nulls": file_of(pa.string(), pa.int16(), nulls=[1]),
    "all nulls": file_of(pa.string(), pa.int64(), nulls=[0, 1, 2]),
    "not a number": file_of(pa.float64(), pa.int8()),
    "texts": texts_of(["a", "", "bc"]),
}


@pytest.fixture
def taken_apart(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the columns that Arrow was spared."""
    found: list[int] = []
    sound = ipc_values._is_sound

    def counted(column: Any) -> bool:
        spared = sound(column)
        found.append(spared)
        return spared

    monkeypatch.setattr(ipc_values, "_is_sound", counted)
    return found


@pytest.mark.parametrize("nulls", [[], [1], [0, 1, 2]])
@pytest.mark.parametrize("index", [pa.uint8(), pa.int16(), pa.uint32(), pa.int64()], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_sound_dictionaries_are_looked_at_once(
    taken_apart: list[int], kind: pa.DataType, index: pa.DataType, nulls: list[int | None]
) -> None:
    table = ArrowFile(file_of(kind, index, nulls=nulls)).table()
    assert taken_apart == [True]
    assert table.column("d").null_count == len(nulls) * ROWS // 3


def test_what_is_too_large_to_be_copied_is_looked_at_in_place(
    taken_apart: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ipc_values, "_JOINED_BITS_MAX", 8 * ROWS)
    ArrowFile(FILES["plain"]).table()
    assert taken_apart == [True]


def test_small_chunks_and_few_words_are_left_to_arrow(taken_apart: list[int]) -> None:
    column = pa.array(["a", "b"]).dictionary_encode()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema({"d": column.type})) as writer:
        for _ in range(3):
            writer.write_batch(pa.record_batch({"d": column}))
    assert ArrowFile(sink.getvalue()).table().num_rows == 6
    assert taken_apart == [False]


@pytest.mark.parametrize(
    ("texts", "is_spared"),
    [
        (["a", "", "~"], [True]),
        (["a", "\x7f\0"], [True]),
        (["", ""], [True]),
        (["a", "\u00e9"], [False]),
        (["a", None], [False]),
    ],
)
def test_texts_in_ascii_are_looked_at_together(
    monkeypatch: pytest.MonkeyPatch, texts: list[str | None], is_spared: list[bool]
) -> None:
    known = ipc_values._is_known
    spared: list[bool] = []
    monkeypatch.setattr(ipc_values, "_is_known", lambda c: spared.append(known(c)) or spared[-1])
    table = ArrowFile(texts_of(texts, chunks=1)).table()
    assert spared == is_spared
    assert table.column("t").to_pylist()[:2] == texts[:2]


@pytest.mark.parametrize("chunk", [0, 1])
def test_a_text_that_ends_before_it_begins_is_found_in_any_chunk(chunk: int) -> None:
    data = bytearray(texts_of(["ab"]))
    assert hold_together(bytes(data)) is True
    ends = [
        part.buffers()[1].to_pybytes()
        for part in pa.ipc.open_file(pa.py_buffer(bytes(data))).read_all().column("t").chunks
    ]
    place = bytes(data).find(ends[0])
    if chunk:
        place = bytes(data).find(ends[1], place + len(ends[0]))
    data[place + 40 : place + 44] = (10).to_bytes(4, "little")
    assert hold_together(bytes(data)) is False
    with pytest.raises(DamagedEntry, match="cannot be read"):
        ArrowFile(bytes(data)).table()


@pytest.mark.parametrize("chunk", [0, 1, 2])
@pytest.mark.parametrize("number", [-1, WORDS, 127 + WORDS], ids=str)
@pytest.mark.parametrize("nulls", [[], [1]])
def test_an_index_of_no_word_is_found_in_any_chunk(
    chunk: int, number: int, nulls: list[int | None]
) -> None:
    data = bytearray(file_of(pa.string(), pa.int16(), nulls=nulls))
    reader = pa.ipc.open_file(pa.py_buffer(bytes(data)))
    assert hold_together(bytes(data)) is True
    indices = reader.read_all().column("d").chunk(chunk).indices.buffers()[1]
    place = bytes(data).find(indices.to_pybytes())
    data[place + 2 : place + 4] = number.to_bytes(2, "little", signed=True)
    assert hold_together(bytes(data)) is False
    with pytest.raises(DamagedEntry, match="cannot be read"):
        ArrowFile(bytes(data)).table()


@pytest.mark.parametrize("nulls", [[], [1]])
def test_words_are_looked_at_with_the_first_chunk_alone_and_indices_with_each(
    monkeypatch: pytest.MonkeyPatch, nulls: list[int]
) -> None:
    spared: list[bool] = []
    fits = ipc_values._fits
    monkeypatch.setattr(ipc_values, "_fits", lambda one: spared.append(fits(one)) or spared[-1])
    data = bytearray(file_of(pa.string(), pa.int16(), nulls=nulls))
    whole = ArrowFile(bytes(data))
    assert [whole.chunk(place).num_rows for place in (2, 0, 1, 2)] == [ROWS] * 4
    assert spared == [True, True]
    last = pa.ipc.open_file(pa.py_buffer(bytes(data))).get_batch(2).column(0).indices
    place = bytes(data).find(last.buffers()[1].to_pybytes())
    data[place : place + 2] = WORDS.to_bytes(2, "little")
    wrong = ArrowFile(bytes(data))
    assert wrong.chunk(0).num_rows == ROWS
    with pytest.raises(DamagedEntry, match="chunk 2 cannot be read"):
        wrong.chunk(2)


def test_what_stands_in_place_of_a_null_may_be_any_number() -> None:
    data = bytearray(FILES["nulls"])
    chunk = pa.ipc.open_file(pa.py_buffer(bytes(data))).read_all().column("d").chunk(1)
    assert not chunk[0].is_valid
    place = bytes(data).find(chunk.indices.buffers()[1].to_pybytes())
    data[place : place + 2] = b"\xff\x7f"
    assert hold_together(bytes(data)) is True


def test_words_that_are_no_text_are_found() -> None:
    data = FILES["plain"].replace(b"word 10word 11", b"word 10\xff\xfe\xfdd 11")
    assert data != FILES["plain"]
    assert hold_together(data) is False


@pytest.mark.parametrize("name", FILES)
def test_whatever_byte_is_changed_arrow_says_the_same(name: str) -> None:
    good = FILES[name]
    found = set()
    for at in range(len(name), len(good), 7):
        for change in (0xFF, 0x01):
            data = bytearray(good)
            data[at] ^= change
            found.add(hold_together(bytes(data)))
    assert found == {True, False, None}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FILES)
def test_no_mutant_of_a_file_is_judged_otherwise_or_kills_who_judges(name: str) -> None:
    mutants = list(arrow_mutants(FILES[name], seed=5, count=1500))
    tally = run_in_children(mutants, hold_together, memory=MEMORY, seconds=20)
    assert not tally.killed
    assert not tally.raised, tally.raised[0][1]
    assert tally.passed == len(mutants)


def test_all_chunks_of_a_file_have_the_same_words() -> None:
    """Also where words come bit by bit: Arrow has read all of them before it gives a chunk."""
    kind = pa.dictionary(pa.int8(), pa.string())
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_file(sink, pa.schema({"d": kind}), options=options) as writer:
        for count in (2, 3, 5):
            column = pa.DictionaryArray.from_arrays(
                pa.array([count - 1], pa.int8()), list("abcde"[:count])
            )
            writer.write_batch(pa.record_batch({"d": column}))
    chunks = pa.ipc.open_file(sink.getvalue()).read_all().column("d").chunks
    assert [chunk.to_pylist() for chunk in chunks] == [["b"], ["c"], ["e"]]
    assert len({chunk.dictionary.buffers()[2].address for chunk in chunks}) == 1
