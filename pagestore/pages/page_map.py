"""TODO: pagestore/pages/page_map.py."""

from typing import NamedTuple

import numpy as np


class Pages(NamedTuple):
    """What every reading kernel knows: the map, how many columns verified pages have, and the words of a page."""

    words: np.ndarray
    seen: np.ndarray
    page_words: int
