"""The bytes of one page: its layout, its checksum, its columns, its ScanTree."""
