"""The command line: one file a verb, none of them loaded before it is asked for.

============  ====================================================================
``main``      the entry point
``program``   the table of verbs, the options that all share, errors to exit codes
``exits``     the exit codes, in one table
``output``    results on stdout, talk on stderr, JSON, tables, bars
``inspect``   a store seen read-only and without its lock, for ``info`` and ``ls``
``audit``     everything that can be checked without a change, for ``check``
``dissect``   any file of a store, item by item, for ``dump``
``sources``   files that ``ingest`` reads, and ``align``, which makes bundles of them
``rows``      Arrow values as JSON and CSV values, for ``cat``
``live``      a store seen live, for ``top``
============  ====================================================================

``JSON.md`` lists the fields of each ``--json`` document.
"""

__all__ = ()
