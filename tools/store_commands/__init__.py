"""The commands of `pagestore` for a store as a whole, one file each."""
