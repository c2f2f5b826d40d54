"""Statements that are asked again: their texts without the values in them, and how the tables' keys
answer them.
"""
