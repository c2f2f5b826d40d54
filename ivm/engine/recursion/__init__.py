"""Views that read themselves: evaluated in rounds, and maintained by ranks (docs/recursion.md)."""
