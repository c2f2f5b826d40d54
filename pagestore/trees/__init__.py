"""Copy-on-write B-trees as values: built, read, edited, compared, folded."""
