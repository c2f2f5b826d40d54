"""Commands over `pagestore` and `ivm`, one file each; installed as `pagestore_tools`."""
