"""What a chain of three nodes on one machine costs beside one store, and how long faults stop it.

============  ===================================================================
``nodes``     processes of ``quiver node``, started, killed and stopped
``links``     everything that is said to a node goes through one, and can be cut
``writing``   throughput and latency of appends with one, two, three copies
``tail``      how far a live cursor is behind the acknowledgements
``follower``  that cursor, a process of its own
``faults``    the longest time without an acknowledgement behind each fault
``metadata``  a seek and a roll in a partition of ten thousand blocks
``plots``     the picture
============  ===================================================================
"""
