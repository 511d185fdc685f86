"""What Quiver reads from: splits that go on where a state says, for whatever runs them.

====================  ======================================================================
``protocols``         what a connector is: ``Connector``, ``SplitEnumerator``, ``SplitReader``
``states``            states as text: canonical JSON with its connector and version
``discovery``         which splits there are, asked again and again; who reads which
``connector_source``  many splits as one source, a thread for each (``lane``)
``parser``            raw messages as columns (``messages``: JSON, CSV, bytes)
``executor``          data and ``barriers`` as one stream; on a failure it goes back
``snapshots``         the states of all splits at each barrier, on disk
``acker``             tells a source what is committed
``feeder``            a source into a store, each row once
====================  ======================================================================

A connector is a folder of its own in here. Nothing in this room knows Spark.
"""

from quiver.source.acker import Acker
from quiver.source.barriers import AssignSplits, Barrier, BarrierPassed, Pause, Resume
from quiver.source.connector_source import ConnectorSource, SourceLimits
from quiver.source.discovery import Discovery, assign
from quiver.source.executor import SourceExecutor, SourceOptions, SourceOutput
from quiver.source.feeder import Fed, Feeder
from quiver.source.format import SplitState
from quiver.source.lane import SourceChunk
from quiver.source.parser import DEAD_LETTERS, DeadLetter, MessageParser, Parsed, Parser
from quiver.source.protocols import (
    Connector,
    Split,
    SplitBatch,
    SplitEnumerator,
    SplitReader,
    States,
)
from quiver.source.snapshots import Snapshots
from quiver.source.states import decode_state, encode_state

__all__ = [
    "DEAD_LETTERS",
    "Acker",
    "AssignSplits",
    "Barrier",
    "BarrierPassed",
    "Connector",
    "ConnectorSource",
    "DeadLetter",
    "Discovery",
    "Fed",
    "Feeder",
    "MessageParser",
    "Parsed",
    "Parser",
    "Pause",
    "Resume",
    "Snapshots",
    "SourceChunk",
    "SourceExecutor",
    "SourceLimits",
    "SourceOptions",
    "SourceOutput",
    "Split",
    "SplitBatch",
    "SplitEnumerator",
    "SplitReader",
    "SplitState",
    "States",
    "assign",
    "decode_state",
    "encode_state",
]
