"""Every knob, in sections named after the rooms; loaded strictly, immutable once made.

Sizes are bytes and durations nanoseconds in the dataclasses; a mapping (YAML, TOML, JSON) may
spell them ``"32MB"`` and ``"25ms"``. An unknown key is an error that suggests the nearest one.
``CONFIG.md`` says what each is for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, cast, get_args

from quiver.config_keys import PATH, read_keys, shown
from quiver.errors import ConfigError
from quiver.units import MILLISECOND, SECOND, parse_bytes, parse_duration

__all__ = [
    "DICTIONARY_CARDINALITY",
    "HARD_LIMITS",
    "OPTIONS",
    "AcksConfig",
    "Compression",
    "Config",
    "Coordination",
    "Dictionaries",
    "Durability",
    "LimitsConfig",
    "Reclaim",
    "RecoveryConfig",
    "RecoveryPolicy",
    "RetentionConfig",
    "SchemaMetadata",
    "SegmentConfig",
    "SizeCapPolicy",
    "SubscriberConfig",
    "TimeRule",
    "WalConfig",
]

Durability = Literal["sync", "interval", "segment"]
SizeCapPolicy = Literal["backpressure", "drop_oldest"]
RecoveryPolicy = Literal["salvage", "strict"]
Reclaim = Literal["punch", "copy", "recycle"]
Compression = Literal["none", "lz4", "zstd"]
SchemaMetadata = Literal["keep", "drop"]
Dictionaries = Literal["auto", "unite", "keep"]
Coordination = Literal["static", "shared"]
TimeRule = Literal["clock", "writer", "caller"]

_MIB: Final = 1 << 20
_BYTES: Final = {"kind": "bytes"}
_DURATION: Final = {"kind": "duration"}
_HOURS: Final = {"kind": "hours"}


def _count(unit: str) -> dict[str, str]:
    return {"kind": "count", "unit": unit}


DICTIONARY_CARDINALITY: Final = 65_536
"""How many values a dictionary gathers unless ``segment.dictionary_cardinality`` says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalConfig:
    """The write-ahead log: what an acknowledged append survives, and how large the log may get.

    ``durability``: ``sync`` returns from append after fdatasync; ``interval`` once the operating
    system has the bytes, which survives a kill but not a power cut younger than
    ``flush_interval``; ``segment`` writes no log, so what is not finalized dies with the process.
    ``reclaim``: the part of the active file that segments hold is punched out of it, or what is
    behind it copied to a new file; where no holes can be punched it is copied anyway. With
    ``recycle`` the file is rotated, and written over once segments hold all of it.
    A receipt that nobody waits on is durable after ``flush_interval`` with ``sync`` as well.
    """

    durability: Durability = "sync"
    max_size: int = field(default=512 * _MIB, metadata=_BYTES)
    rotate_size: int = field(default=64 * _MIB, metadata=_BYTES)
    max_chunks: int = field(default=10, metadata=_count("files"))
    reclaim: Reclaim = "punch"
    reclaim_size: int = field(default=_MIB, metadata=_BYTES)
    flush_interval: int = field(default=25 * MILLISECOND, metadata=_DURATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentConfig:
    """When the open segment becomes a file (size in memory, age, number of streams), and how.

    ``compression`` is that of Arrow's buffers in the streams. Compressed ones are read into memory
    first; others are used where they lie in the file.
    ``dictionary_cardinality``: how many values the dictionary of a column may gather in a segment
    before its stream is followed by a fresh one; a single bundle may bring more.
    ``schema_metadata``: ``drop`` takes the metadata of schemas and fields off at append, so that
    producers who write something new there each time do not make a stream of each bundle.
    ``dictionaries``: ``unite`` makes one of those that the bundles of a segment bring for a column,
    ``keep`` leaves each payload the stream that it came as, and ``auto`` unites them unless bundles
    come too fast for that.
    ``time``: what bundles bear as the time of their ingestion. ``clock`` is the wall clock, which
    may be set back; ``writer`` goes on behind the bundle before whatever the clock says, and
    ``caller`` is given with each append and refused if it falls. Both make the segments of a core
    blocks of time that never overlap, which cursors seek in.
    """

    target_size: int = field(default=32 * _MIB, metadata=_BYTES)
    compression: Compression = "none"
    max_open_duration: int = field(default=5 * SECOND, metadata=_DURATION)
    max_streams: int = field(default=512, metadata=_count("streams"))
    dictionary_cardinality: int = field(default=DICTIONARY_CARDINALITY, metadata=_count("values"))
    schema_metadata: SchemaMetadata = "keep"
    dictionaries: Dictionaries = "auto"
    time: TimeRule = "clock"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberConfig:
    """How soon a bundle that was nacked is offered again: doubling from first to max.

    Up to a fifth is taken off each delay, so that what failed together does not come again
    together. ``max_attempts``: after so many failed deliveries a bundle is given up: it is set
    aside as a dead letter and never delivered to that subscriber again. 0 never gives up.
    ``orphan_timeout``: a subscriber that holds bundles back and was not seen for so long, while
    the store was open, is unregistered, and what only it needed is deleted. 0 keeps everybody.
    """

    retry_first: int = field(default=SECOND, metadata=_DURATION)
    retry_max: int = field(default=30 * SECOND, metadata=_DURATION)
    max_attempts: int = field(default=0, metadata=_count("deliveries"))
    orphan_timeout: int = field(default=0, metadata=_DURATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcksConfig:
    """How large ack.log may grow before a checkpoint starts it afresh."""

    max_size: int = field(default=4 * _MIB, metadata=_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """How much disk the store may use, and what gives way when it is used up.

    ``size_cap`` 0 means no cap. ``backpressure`` makes appends wait for ``block_timeout`` and then
    refuses them, and never deletes what a subscriber still needs; ``drop_oldest`` deletes it, after
    writing down that it did. ``steady_state_headroom``: so much of what everybody has is kept, the
    newest of it, while there is room below the cap. ``max_retain_after_ingestion_hours``: what was
    ingested longer ago than that goes, whoever still needs it; 0 keeps it. ``coordination``: with
    ``static`` the cores share the cap evenly; with ``shared`` each takes what the others leave.
    """

    size_cap: int = field(default=0, metadata=_BYTES)
    size_cap_policy: SizeCapPolicy = "backpressure"
    block_timeout: int = field(default=0, metadata=_DURATION)
    steady_state_headroom: int = field(default=0, metadata=_BYTES)
    max_retain_after_ingestion_hours: float = field(default=0, metadata=_HOURS)
    coordination: Coordination = "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryConfig:
    """What an opening does with damage.

    ``salvage`` copies it to quarantine, reports it and goes on with all that is sound; ``strict``
    refuses to open at the first damage it meets and leaves it as it is. What an append leaves that
    a crash cut short is no damage; but a power cut may fill what was never synced with garbage,
    as long as an entry, and nobody can tell that from rot.
    """

    policy: RecoveryPolicy = "salvage"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """The largest things that an append may bring, checked before anything is written.

    What a store holds is read by ``for_reading``: a limit that was lowered since must not turn
    good data into damage. ``decoded_bytes`` bounds what the compressed bodies of one payload, or
    of one chunk and its dictionaries, decode to when read. Quiver writes none, but other writers
    of segments do.
    """

    entry_bytes: int = field(default=256 * _MIB, metadata=_BYTES)
    decoded_bytes: int = field(default=1024 * _MIB, metadata=_BYTES)
    rows: int = field(default=100_000_000, metadata=_count("rows"))
    columns: int = field(default=10_000, metadata=_count("columns"))
    nesting: int = field(default=48, metadata=_count("levels"))

    def for_reading(self) -> LimitsConfig:
        """Give what bytes on disk are held to: all that any writer may have written."""
        return dataclasses.replace(HARD_LIMITS, decoded_bytes=self.decoded_bytes)


HARD_LIMITS: Final = LimitsConfig(
    entry_bytes=0xFFFF_FFF7, decoded_bytes=1 << 40, rows=1 << 40, columns=100_000, nesting=64
)
"""What a store may hold at most; no option goes beyond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All sections together. ``Config()`` is safe: it syncs each append and drops nothing."""

    wal: WalConfig = field(default_factory=WalConfig)
    segment: SegmentConfig = field(default_factory=SegmentConfig)
    subscriber: SubscriberConfig = field(default_factory=SubscriberConfig)
    acks: AcksConfig = field(default_factory=AcksConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    recovery: RecoveryConfig = field(default_factory=RecoveryConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)

    def __post_init__(self) -> None:
        """Check each knob, however it was set, and what no single knob can say."""
        sections = {name: getattr(self, name) for name in _SECTIONS}
        for key, knob in OPTIONS.items():
            _check(knob, getattr(sections[key.partition(".")[0]], knob.name), key)
        for error in conflicts(sections):
            raise error

    @property
    def size_cap_min(self) -> int:
        """The least cap that one core can work with, in bytes."""
        return _size_cap_min(self.wal, self.segment)

    @classmethod
    def of(cls, value: Config | Mapping[str, Any] | None) -> Config:
        """Make a config from a mapping of sections, or take a ready one; None is the default.

        Keys may be dotted, and stand where ``config_keys`` says; ``path`` is passed over.
        """
        if isinstance(value, Config):
            return value
        given, faults = read_keys({} if value is None else value, OPTIONS)
        for fault in faults:
            raise ConfigError(fault.text, hint=fault.hint)
        return cls(**sections_of({k: read_option(k, g.value) for k, g in given.items()}))


_SECTIONS: Final = {s.name: cast("type[Any]", s.default_factory) for s in fields(Config)}

OPTIONS: Final[Mapping[str, dataclasses.Field[Any]]] = {
    f"{name}.{knob.name}": knob for name, kind in _SECTIONS.items() for knob in fields(kind)
}
"""Every option by its dotted key, in flow order."""


def read_option(key: str, value: object, *, name: str = "") -> object:
    """Read what an option is given and check it; ``name`` is what an error calls it."""
    if key == PATH:
        if isinstance(value, str) and value and "\0" not in value:
            return value
        raise ConfigError(f"{name or key}: {shown(value)} is not the name of a folder")
    knob = OPTIONS[key]
    parse = _PARSERS.get(knob.metadata.get("kind", ""))
    read = value if parse is None else parse(value, name or key)
    _check(knob, read, name or key)
    return read


def sections_of(values: Mapping[str, object]) -> dict[str, Any]:
    """Make the sections that values by dotted keys belong to; the rest is the default."""
    given: dict[str, dict[str, object]] = {name: {} for name in _SECTIONS}
    for key in OPTIONS.keys() & values.keys():
        section, _, option = key.partition(".")
        given[section][option] = values[key]
    return {name: kind(**given[name]) for name, kind in _SECTIONS.items()}


def conflicts(sections: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Find what no option can say by itself, in sections of which each option is right."""
    wal, segment, limits = sections["wal"], sections["segment"], sections["limits"]
    for knob in fields(HARD_LIMITS):
        most = getattr(HARD_LIMITS, knob.name)
        if getattr(limits, knob.name) > most:
            yield ConfigError(f"limits.{knob.name}: at most {most:,}")
    if sections["acks"].max_size > ACK_LOG_BYTES_MAX:
        yield ConfigError(f"acks.max_size: at most {ACK_LOG_BYTES_MAX:,}")
    if wal.max_size < limits.entry_bytes:
        yield ConfigError(
            f"wal.max_size ({wal.max_size}) is below limits.entry_bytes "
            f"({limits.entry_bytes}): the largest bundle would never fit",
            hint="raise wal.max_size or lower limits.entry_bytes",
        )
    least, cap = _size_cap_min(wal, segment), sections["retention"].size_cap
    if 0 < cap < least:
        yield ConfigError(
            f"retention.size_cap ({cap}) is below {least}",
            hint="it must hold wal.max_size, unless wal.durability is segment, two of "
            "segment.target_size, and 128 KiB",
        )


def _size_cap_min(wal: WalConfig, segment: SegmentConfig) -> int:
    log = 0 if wal.durability == "segment" else wal.max_size
    return log + 2 * segment.target_size + (128 << 10)


_HOURS_MAX: Final = 1_000_000
"""More than a century, and nanoseconds still fit."""

_MOST: Final = 1 << 62
"""Of bytes, nanoseconds (146 years) or things: the double still fits in 64 bits."""

ACK_LOG_BYTES_MAX: Final = 128 * _MIB
"""Half of what ack.log is allowed to reach, so that a checkpoint is made in time."""


def _check(knob: dataclasses.Field[Any], value: object, key: str) -> None:
    if "kind" not in knob.metadata:
        choices = get_args(_CHOICES[knob.name])
        if value not in choices:
            raise ConfigError(f"{key}: {shown(value)} is none of {', '.join(choices)}")
        return
    if knob.metadata["kind"] == "hours":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{key}: {shown(value)} is not a number of hours")
        if not 0 <= value <= _HOURS_MAX:
            raise ConfigError(f"{key}: {shown(value)} is not between 0 and {_HOURS_MAX:,} hours")
        return
    if isinstance(value, bool) or not isinstance(value, int):
        text = f"{key}: {shown(value)} is not a whole number"
        has_unit = knob.metadata["kind"] != "count"
        raise ConfigError(text, hint="Config.of reads '32MB'" if has_unit else "")
    least = 0 if knob.default == 0 else 1
    if value < least:
        raise ConfigError(f"{key}: must be {'above zero' if least else 'zero or more'}")
    if value > _MOST:
        raise ConfigError(f"{key}: {shown(value)} is too much", hint=f"at most {_MOST:,}")


_CHOICES: Final[dict[str, Any]] = {
    "durability": Durability,
    "size_cap_policy": SizeCapPolicy,
    "coordination": Coordination,
    "policy": RecoveryPolicy,
    "reclaim": Reclaim,
    "compression": Compression,
    "schema_metadata": SchemaMetadata,
    "dictionaries": Dictionaries,
    "time": TimeRule,
}
_PARSERS: Final[dict[str, Callable[[Any, str], int]]] = {
    "bytes": lambda value, key: parse_bytes(value, key=key),
    "duration": lambda value, key: parse_duration(value, key=key),
}
