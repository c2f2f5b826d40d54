"""What a query reads beside the tables of the newest version: `rows.py` puts it there."""
