"""Loops of recursion from scratch."""
