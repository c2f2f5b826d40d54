"""Values as words: types, texts and their dictionary, rows in every form."""
