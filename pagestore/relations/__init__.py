"""What users hold: snapshots, transactions, relations, ranges, differences."""
