"""The commands of `pagestore`, one file each."""
