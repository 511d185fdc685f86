"""Two machines, as processes, write a store each; what they write goes through a queue in an object
store into one streaming query of Spark, while one of each kind of process is killed.

==========  ==================================================================
``writer``  appends its half of a year of flights to a store of its own
``query``   the streaming query: from the queue to Parquet
``play``    who is started, who is killed when, and when all is through
==========  ==================================================================

The shippers are ``quiver ship --follow``, as anybody would start them.
"""
