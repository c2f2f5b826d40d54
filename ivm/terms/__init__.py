"""Values of terms: constants as words, and what rules compute of them, batch by batch.

The functions of terms are known once the files that define them are imported here.
"""

from ivm.terms import datetimes, decimals, dialects, members, nested, numbers, postgres, texts

__all__ = ["datetimes", "decimals", "dialects", "members", "nested", "numbers", "postgres", "texts"]
