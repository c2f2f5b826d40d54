"""Shared by all commands: the table of commands, answers, progress, and files that are written
atomically.
"""
