"""MySQL's protocol, framed by `mysql_mimic`: `translate.py` puts MySQL's SQL in DuckDB's terms,
`values.py` has columns of answers and values of parameters, `session.py` is one client's
statements, `connection.py` its messages, `server.py` listens.
"""
