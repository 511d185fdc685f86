"""Upserts of a million keys and more: what a batch costs, and what memory does.

==============  ==================================================================
``load``        the commands that all sides take
``ours``        the way without Spark
``spark_side``  the way with Spark, from a store
``delta``       MERGE of delta-rs
``sides``       all of them, in turn
``batches``     batches of several sizes, and many of one
``large``       larger collections, and an initial snapshot
``gauges``      memory of processes
``plots``       the picture
==============  ==================================================================
"""
