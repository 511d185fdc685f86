"""Folders of Parquet, Arrow, CSV and NDJSON files, each read once it is whole.

===============  ====================================================================
``connector``    the options; makes enumerators and readers
``register``     which files there are: each gets its number, once and for ever
``copies``         the register is there twice, and each copy mends the other
``finding``      what is new in the folders, and whether it is whole
``reader``       one split: every n-th file of the register, in order
``opened``       a file that is read through the disk, and must not change meanwhile
``shapes``       pieces of a file by its format, from any place on
``lines``        where CSV and NDJSON may be cut
===============  ====================================================================
"""

from quiver.source.files.connector import FilesConnector, FilesOptions

__all__ = ["FilesConnector", "FilesOptions"]
