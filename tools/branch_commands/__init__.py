"""The commands of `pagestore` about branches, of one store or of two copies of it, one file each."""
