"""Loads folders of Parquet files into relations."""
