"""Rewrite a rule into several: negations, computed keys, existentials, failures."""
