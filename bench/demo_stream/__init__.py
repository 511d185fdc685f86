"""A store that is written live and read by a streaming query, while each part of it keeps being
killed: the writers, the driver of the query with its JVM, and Spark's Python processes.

=============  ==================================================================
``writer``     appends rows without end, on one core
``query``      the streaming query: store to Parquet, as a subscriber
``processes``  starts them, kills them, starts them again
``rounds``     which is killed when, and what must hold after each kill
``compare``    what came out against what was appended, value for value
``stage``      what any play has: actors, waiting, telling; other demonstrations use it
``running``    what any query has: its session, and how it is followed
``telling``    how a process tells how far it is
=============  ==================================================================
"""
