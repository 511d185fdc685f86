"""Keyed commands become a differential collection, by feedback through its own output.

A command says that a key has a value from now on, or none. What comes out are differences: rows of
a key and its value, each with a time and +1 or -1, which add up to one row for each living key at
every time. What a key had before is looked up in what was persisted, and nowhere else.

============  ==========================================================================
room          what it does
============  ==========================================================================
``rows``      commands and differences as Arrow tables; keys, their hashes, their order
``stash``     keeps one command for each key and time until its time has come
``operator``  stash, frontiers and look-ups together: commands in, differences out
``persist``   the collection in a folder or an object store: files and one manifest
``tending``   folds runs into bases, forgets history, sweeps what nobody names
``feeding``   a store's subscriber at one end, a collection at the other
============  ==========================================================================
"""
