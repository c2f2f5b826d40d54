"""The objects that users work with: snapshots, transactions, relations, ranges, differences."""
