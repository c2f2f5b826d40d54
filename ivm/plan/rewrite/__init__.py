"""Rules rewritten into several: negations, computed keys, existentials, failures."""
