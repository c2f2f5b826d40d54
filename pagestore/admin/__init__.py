"""Care of a store: checks, backups, dumps, branches, tags, space."""
