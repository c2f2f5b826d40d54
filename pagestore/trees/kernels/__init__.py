"""Loops over the pages of trees."""
