"""What plays in which everybody is killed at random have in common.

==============  =================================================================
``play``        who is killed when, and how; what differs is said by a subclass
``processes``   starts actors, kills them
``nursery``     the process that they are forked from
``traffic``     stands before the server: spoils answers, and stops who is to die
``servers``     the server of objects, and the proxy before it
``log``         what an actor says, and what it said
==============  =================================================================
"""
