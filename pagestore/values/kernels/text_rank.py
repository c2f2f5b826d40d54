"""Ranks of texts: how many texts of a dictionary are below each."""

from pagestore.pages.page import field
from pagestore.runtime.intrinsics import bytes_at, words_at
from pagestore.runtime.kernel import kernel
from pagestore.trees.kernels.batch_lookup import HEIGHT, PAGE_WORDS, READY, ROOT, SEEN, SEEN_AT, WORDS, WORDS_AT
from pagestore.trees.kernels.rank_select import select
from pagestore.values.kernels.text_lookup import compare_text

ORDER_KEYS, ORDER_ID = 1, 1  # of a record (label) -> id


@kernel
def rank_text(order, texts, data, length, low, high):
    """Return how many texts are below the one of `length` bytes at address `data`, known to be `low` to `high`.

    `order` and `texts` are addresses of packed trees, and the order's first scan is a count.  Returns ``-page_id`` for
    a bad page, UNREADABLE where it would compare a long text.  O(log texts) steps of O(log texts).
    """
    ready, text = words_at(order, READY), bytes_at(data, length)
    words, seen = words_at(ready[WORDS_AT], ready[WORDS]), bytes_at(ready[SEEN_AT], ready[SEEN])
    root, height, page_words = ready[ROOT], ready[HEIGHT], ready[PAGE_WORDS]
    while low < high:
        middle = (low + high) >> 1
        page, slot = select(words, seen, page_words, root, height, ORDER_KEYS, 0, middle)
        below = compare_text(texts, field(words, page, ORDER_ID, slot), text, length) if page > 0 else page
        if below < 0:
            return below
        if below:
            low = middle + 1
        else:
            high = middle
    return low
