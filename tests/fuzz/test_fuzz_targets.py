"""The fuzz targets keep what they promise: on their seeds, and on mutants of these in a child.

``make fuzz`` looks for new inputs; this looks at the same ones each time, at four times as many in
``make crash``, which sets ``QUIVER_MUTANTS``.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from quiver.testing.arrow_mutants import arrow_mutants

FUZZ = Path(__file__).parents[2] / "fuzz"
TARGETS = (
    "acks",
    "batch",
    "copies",
    "ipc",
    "ledger",
    "otap",
    "persist",
    "progress",
    "queue",
    "record",
    "retention",
    "segment",
    "shipper",
    "source",
    "subscribing",
    "timeline",
    "upstream",
    "wal",
    "wire",
)
MUTANTS = int(os.environ.get("QUIVER_MUTANTS", "150"))
SECONDS_MAX = 100
MEMORY_MAX = 2 << 30


@pytest.fixture(scope="module")
def fuzz() -> Iterator[Callable[[str], ModuleType]]:
    """Import a module of the fuzz folder, which is no package."""
    sys.path.insert(0, str(FUZZ))
    yield __import__
    sys.path.remove(str(FUZZ))


def corpus(target: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((FUZZ / "corpus" / target).iterdir())}


def mutants(target: str, count: int) -> list[bytes]:
    """Change seeds by bits, special bytes, 32- and 64-bit extremes, cuts, repeats and splices."""
    rng = random.Random(target)
    seeds = list(corpus(target).values())
    found = []
    for number in range(count):
        data = bytearray(seeds[number % len(seeds)])
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            size = rng.choice([1, 2, 4, 8])
            match rng.randrange(6):
                case 0:
                    data[place] ^= 1 << rng.randrange(8)
                case 1:
                    data[place] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
                case 2:
                    value = rng.choice([0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1), len(data)])
                    data[place : place + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
                case 3:
                    del data[place : place + rng.choice([1, 64, len(data)])]
                case 4:
                    data[place:place] = data[place : place + rng.choice([1, 64, 200])]
                case 5:
                    other = rng.choice(seeds)
                    start = rng.randrange(len(other))
                    data[place : place + 64] = other[start : start + 64]
            if not data:
                break
        found.append(bytes(data))
    return found


def ipc_mutants(count: int) -> list[bytes]:
    """Change the Arrow data behind the flags of each seed where it hurts."""
    seeds = corpus("ipc").values()
    each = -(-count // len(seeds))
    herds = [(data[:1], arrow_mutants(data[1:], seed=1, count=each)) for data in seeds]
    return [flags + mutant for flags, herd in herds for mutant in herd]


def run_in_child(one_input: Callable[[bytes], None], inputs: list[bytes], log: Path) -> str:
    """Feed inputs to a target in one child; say what ended it, "" if it came to its end.

    The child is bounded in memory and time. It writes down which input it is at before it
    starts on it, so that the input that killed it is known.
    """
    gc.collect()
    child = os.fork()
    if child == 0:
        code = 1
        gc.freeze()  # Servers of tests before have threads that are not here: to end them ends it.
        with log.open("w", buffering=1) as out:
            try:
                faulthandler.disable()  # A death is told by its signal.
                with open("/proc/self/statm") as file:
                    now = int(file.read().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_MAX,) * 2)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, SECONDS_MAX)
                for number, data in enumerate(inputs):
                    out.write(f"input {number}\n")
                    one_input(data)
                code = 0
            except BaseException:  # noqa: BLE001
                out.write(traceback.format_exc())
            finally:
                os._exit(code)
    _, status = os.waitpid(child, 0)
    if status == 0:
        return ""
    how = f"killed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else ""
    text = log.read_text()
    return f"{how} at {text[text.rindex('input ') :]}"


@pytest.mark.parametrize("target", TARGETS)
def test_every_seed_is_taken(target: str, fuzz: Callable[[str], ModuleType]) -> None:
    seeds = corpus(target)
    assert len(seeds) >= 4
    one_input = fuzz(f"fuzz_{target}").one_input
    for data in (b"", b"\0", *seeds.values()):
        one_input(data)


@pytest.mark.parametrize(
    ("target", "batches"),
    [
        ("ipc", dict.fromkeys(corpus("ipc"), 1) | {"alike": 4}),
        ("segment", {"golden": 3, "foreign": 1}),
    ],
)
def test_seeds_reach_the_last_value_also_with_checksums_repaired(
    target: str,
    batches: dict[str, int],
    fuzz: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = fuzz(f"fuzz_{target}")
    used: list[object] = []
    monkeypatch.setattr(module, "use", used.append)
    for name, data in corpus(target).items():
        used.clear()
        module.one_input(data)
        assert len(used) == batches[name.removesuffix("-repaired")]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # The child only reads and ends.
@pytest.mark.parametrize("target", TARGETS)
def test_mutants_are_refused_by_name_and_kill_nothing(
    target: str, fuzz: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    one_input = fuzz(f"fuzz_{target}").one_input
    inputs = ipc_mutants(MUTANTS) if target == "ipc" else mutants(target, MUTANTS)
    assert run_in_child(one_input, inputs, tmp_path / "log") == ""


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # The child only reads and ends.
@pytest.mark.parametrize(
    ("act", "wanted"),
    [
        (lambda data: os.kill(os.getpid(), signal.SIGSEGV) if data == b"c" else None, "SIGSEGV"),
        (lambda data: {}[data], "KeyError: b'a'"),
        (lambda data: bytearray(2 * MEMORY_MAX), "MemoryError"),
    ],
    ids=["signal", "error", "memory"],
)
def test_the_guard_sees_how_a_child_ends(act, wanted: str, tmp_path: Path) -> None:
    ended = run_in_child(act, [b"a", b"b", b"c"], tmp_path / "log")
    assert wanted in ended
    assert f"input {2 if wanted == 'SIGSEGV' else 0}\n" in ended


def wrong_place(decode: Callable) -> Callable:
    def act(data: bytes):
        place = decode(data)
        return place._replace(offset=place.offset + 1)

    return act


def wrong_error(decode: Callable) -> Callable:
    def act(*values, **named):
        try:
            return decode(*values, **named)
        except Exception as error:
            raise IndexError from error

    return act


def one_more(decode: Callable) -> Callable:
    return lambda *values: decode(*values) + 1


@pytest.mark.parametrize(
    ("target", "name", "defect"),
    [
        ("wal", "decode_sidecar", wrong_place),
        ("wal", "frame_at", wrong_error),
        ("acks", "decode_header", one_more),
        ("acks", "decode_frame", wrong_error),
        ("ledger", "decode_header", wrong_error),
        ("retention", "decode_ages", wrong_error),
        ("subscribing", "decode_record", wrong_error),
        ("timeline", "decode_timeline", wrong_error),
        ("timeline", "encode_timeline", lambda _: lambda _: bytes(60)),
        ("progress", "decode_note", wrong_error),
        ("progress", "encode_copy", lambda _: lambda *_, **__: b""),
        ("ledger", "encode_record", lambda _: lambda *_: bytes(64)),
        ("segment", "encode_tail", lambda _: lambda *_: bytes(126)),
        ("segment", "decode_trailer", wrong_error),
        ("shipper", "decode_payload", wrong_error),
        ("shipper", "encode_payload", lambda _: lambda _: bytes(60)),
        ("source", "decode_line", wrong_error),
        ("persist", "decode_manifest", wrong_error),
        ("persist", "encode_manifest", lambda _: lambda _: bytes(60)),
        ("record", "decode_page", wrong_error),
        ("record", "encode_record", lambda _: lambda _: bytes(60)),
        ("wire", "decode_message", wrong_error),
        ("wire", "encode_frame", lambda _: lambda _: bytes(56)),
        ("wire", "to_text", lambda _: lambda _: ""),
        ("upstream", "decode_cursor", one_more),
        ("upstream", "decode_progress", wrong_error),
        ("upstream", "find", lambda _: lambda _: None),
        ("ipc", "decode_stream", wrong_error),
        ("ipc", "stream_decoded_bytes", lambda _: lambda _: -1),
    ],
)
def test_a_planted_defect_is_found_by_the_seeds_and_their_halves(
    target: str,
    name: str,
    defect: Callable,
    fuzz: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = fuzz(f"fuzz_{target}")
    monkeypatch.setattr(module, name, defect(getattr(module, name)))
    with pytest.raises((AssertionError, IndexError)):
        for data in corpus(target).values():
            module.one_input(data)
            module.one_input(data[: len(data) // 2])


def test_the_seeds_are_what_the_golden_files_give(fuzz: Callable[[str], ModuleType]) -> None:
    made = fuzz("make_corpus").SEEDS
    assert set(made) == set(TARGETS)
    for target, seeds in made.items():
        stored = corpus(target)
        for name, data in seeds().items():
            assert name in stored
            # Arrow bytes made afresh depend on the version of Arrow.
            if target not in ("ipc", "segment") or name.startswith("golden"):
                assert stored[name] == data
