"""From Parquet folders to relations."""
