"""One file: its map, its pages, which of them are free."""
