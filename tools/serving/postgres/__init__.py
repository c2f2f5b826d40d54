"""PostgreSQL's protocol 3.0: `messages.py` frames them, `values.py` writes and reads values,
`scram.py` checks passwords, `session.py` is one client, `server.py` listens.
"""
