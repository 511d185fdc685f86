"""Two writers, a shipper, a producer, a consumer, a sweeper and the server of objects between them,
each killed at random, in the middle of its requests; in the end each record is in the sink once.

What any such play has is in ``bench.kills``.

===============  ================================================================
``setup``        what all of the play have to know, and where its files are
``sending``      the writers, the shipper and the producer, as processes
``receiving``    the consumer, which keeps rows and sequence in one transaction
``sweeping``     the sweeper, with a grace of seconds
``nursery``      the process that they are forked from
``rounds``       the parts, and what must hold after each kill
``witness``      sees each state of the queue
``judge``        what is in the sink against what was said to be in the queue
===============  ================================================================
"""
