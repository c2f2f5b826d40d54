"""The steps of a few edits, in one call."""
