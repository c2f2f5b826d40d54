"""Values of terms: constants as words, and what rules compute of them, batch by batch.

The functions of terms are known once the files that define them are imported here.
"""

# isort: off
from ivm.terms import datetimes, decimals, dialects, given, members
from ivm.terms import nested, numbers, postgres, texts

# isort: on
__all__ = ["datetimes", "decimals", "dialects", "given", "members", "nested"]
__all__ += ["numbers", "postgres", "texts"]
