"""What statements of Spark, PostgreSQL and SQLite mean in DuckDB's terms: a table for each."""
