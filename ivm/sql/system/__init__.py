"""What clients ask of a database before they ask for rows: `session.py` who and when, `settings.py`
what is set, `information_schema.py` and `postgres.py` which tables and views there are.
"""
