"""A year of flights in a chain of three nodes, which are killed and stopped while it is written and
read, one for good: another one takes its place, and the nodes make its copies anew.

===========  ==================================================================
``loader``   appends the year, and writes down what was acknowledged when
``reader``   a live cursor, whose bundles go into a store of its own
``query``    Spark counts what is in that store
``journal``  numbers of bundles with the time when each was noted
``copies``   which copies there are, and the digests of all
``play``     who is started, who is killed when, and when all is through
``blocks``   the map: which node has which block
``picture``  the map before and after, as SVG
``judge``    what came out against the year, row for row
===========  ==================================================================
"""
