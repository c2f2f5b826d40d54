"""Values of terms: constants as words, and what rules compute of them, batch by batch."""
