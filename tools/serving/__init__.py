"""A store shown to a browser (`ivm studio`) and to agents (`ivm mcp`), both by what
inspection.py says of it.
"""
