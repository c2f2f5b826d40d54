"""Shared by all commands: their table, answers, progress, and files written atomically."""
