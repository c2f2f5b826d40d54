"""Fill the views of all rules, and maintain them transaction by transaction."""
