"""Spark reads a store and the same rows as Parquet: time and CPU, job by job."""
