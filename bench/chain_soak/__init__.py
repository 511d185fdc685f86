"""Nodes of a chain as processes, loaders and live cursors; faults of every kind at random.

Where root may make network namespaces, each node has one of its own: its link goes down, and what
one of them sends another vanishes. Elsewhere nodes are cut off by a link of ours, and that is said.

===============  ================================================================
``settings``     what all of the play have to know, certificates among it
``network``      namespaces, or links of ours; said which it is
``nodes``        the nodes as processes, one of them on a small disk
``writer``       a loader as a process, through its lives
``readers``      live cursors
``faults``       each kind of fault, and how it is taken back
``play``         a cluster from its start to its verdict
``judge``        what was acknowledged against what is there, copy by copy
``pauses``       how long nothing was acknowledged behind each fault
===============  ================================================================
"""
