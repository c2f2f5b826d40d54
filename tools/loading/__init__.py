"""Load Parquet, Arrow, CSV and JSON files into relations."""
