"""Loops over lists of pages: those to write, those that are free, those of a commit record."""
