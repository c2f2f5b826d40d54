"""What all commands share: the table of commands, answers, progress, and files that are written whole."""
