"""The demo: a year of flights."""
