"""The commands of `ivm`, one file each."""
