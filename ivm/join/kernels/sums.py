"""Sums by code: each row has a small number, and values of rows with equal numbers are added up."""

from pagestore.compiled import MappedWords, Words, kernel


@kernel
def add_by_code(codes: MappedWords, values: MappedWords, sums: Words):
    """Add values[n] to sums[code] of each row's code; no sum may exceed 64 bits.  O(n)."""
    for i in range(len(codes)):
        sums[codes[i]] += values[i]
