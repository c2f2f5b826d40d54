"""Loops of maintenance."""
