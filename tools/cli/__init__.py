"""What all commands share: the table of them, answers, progress, files made whole."""
