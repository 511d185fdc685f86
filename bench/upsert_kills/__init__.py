"""A writer that appends and tends, who reads and who follows, and the server of objects between
them, each killed at random and in the middle of its acts, over one collection of upserts; what
anybody reads as of an epoch is what a dictionary has by then.

What any such play has is in ``bench.kills``.

============  ===================================================================
``setup``     what all of the play have to know: where, limits, the commands
``model``     a dictionary, and what it comes to as of each epoch
``writing``   looks up, writes runs, appends, tends; says who appended what
``reading``   who reads as of any epoch, and who follows the changes
``nursery``   the process that they are forked from
``rounds``    the parts, and how a play comes to its end
``witness``   sees each state of the manifest
``judge``     what was read against the dictionary, and what is left over
============  ===================================================================
"""
