"""All rules of a program: filled, and maintained transaction by transaction."""
