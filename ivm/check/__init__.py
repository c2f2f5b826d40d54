"""Check that everything stored for rules follows from the relations, and rebuild it."""
