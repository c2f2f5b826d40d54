"""Rules as text: its syntax, and the passes that make checked rules of it, in the order of
ivm/rules/compile.py.
"""
