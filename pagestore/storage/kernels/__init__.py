"""Loops over lists of pages: pages to write, free pages, pages of a commit record."""
