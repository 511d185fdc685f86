"""Parquet files by payload type and day, each row once.

============  ==========================================================
``days``      which day a row belongs to
``plain``     columns as a table keeps them, and where a row comes from
``names``     what files are called, and what they say of themselves
``folder``    whose a folder is, and what it has already
``exporter``  batches -> files -> outcomes
============  ==========================================================
"""

from quiver.otel.exporters.parquet.exporter import Codec, ParquetExporter

__all__ = ["Codec", "ParquetExporter"]
