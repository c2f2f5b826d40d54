"""How DuckDB names columns that a query does not name."""
