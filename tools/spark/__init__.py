"""Spark, where it is installed: a local session, and the job that writes Parquet for the demo."""
