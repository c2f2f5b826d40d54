"""Statements that edit a table: their rows, what conflicts, and what RETURNING says of them."""
