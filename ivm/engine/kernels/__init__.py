"""Maintain views for a few edits in one kernel call."""
