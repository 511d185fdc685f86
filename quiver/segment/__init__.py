"""Segments: immutable files that hold many bundles as Arrow streams, read in place.

================  ============================================================================
``format``        footer, trailer and name, as pure bytes; ``FORMAT.md`` describes the file
``tables``        what the rows of directory and manifest mean
``directory``     one row for each stream, and what the store is
``mould``         directories of one shape, decoded once
``manifest``      one row for each bundle
``stream``        chunks of one schema become Arrow files, their dictionaries united
``gather``        payloads grouped by what may share a stream
``builder``       the streams of a segment, of bundles that come some at a time
``keeper``        the same of payloads that are kept as they came
``kept``          payloads as Arrow files of their own, uncopied, where there is no time for that
``small``         small payloads united in a few calls, then
``open_segment``  bundles in memory until they are a file
``writer``        bundles to a file, durable in one step
``reader``        a file, mapped, checked as far as it is used
``memory``        a file that is in memory, read the same way
``alike``         streams of one payload each, read many at a time
``relabel``       a file under other numbers
``glance``        a file's directory alone, not mapped
``catalog``       which segments there are
================  ============================================================================
"""

from quiver.segment.builder import Builder, SegmentBuilder
from quiver.segment.catalog import Catalog, SegmentInfo, read_info, read_noted
from quiver.segment.directory import Description
from quiver.segment.format import Extension, Footer, parse_segment_name, segment_name
from quiver.segment.glance import Glance, glance
from quiver.segment.keeper import Keeper
from quiver.segment.memory import open_bytes
from quiver.segment.open_segment import OpenSegment
from quiver.segment.reader import SegmentReader
from quiver.segment.relabel import write_relabelled
from quiver.segment.rest import Rest, no_rest
from quiver.segment.tables import BundleEntry, SlotRef, StreamEntry
from quiver.segment.writer import SegmentLabel, encode_segment, write_segment

__all__ = [
    "Builder",
    "BundleEntry",
    "Catalog",
    "Description",
    "Extension",
    "Footer",
    "Glance",
    "Keeper",
    "OpenSegment",
    "Rest",
    "SegmentBuilder",
    "SegmentInfo",
    "SegmentLabel",
    "SegmentReader",
    "SlotRef",
    "StreamEntry",
    "encode_segment",
    "glance",
    "no_rest",
    "open_bytes",
    "parse_segment_name",
    "read_info",
    "read_noted",
    "segment_name",
    "write_relabelled",
    "write_segment",
]
