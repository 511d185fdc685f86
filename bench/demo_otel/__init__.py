"""Telemetry through Quiver, with collectors that no one here wrote.

A log grows; OpenTelemetry's collector tails it and sends it to ``quiver run``, which writes Parquet
and gives everything to a second collector. Quiver gets SIGKILL twice, the second collector is away
for a while. In the end everybody has each line, and Spark counts them in the store.
"""
