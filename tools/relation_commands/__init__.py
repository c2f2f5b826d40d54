"""The commands of `pagestore` that make, fill, print and remove relations, one file each."""
