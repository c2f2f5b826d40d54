"""The API for hosts, programs that store data of their own in a store: trees, differences, folds,
edits.

`pagestore` itself has what users of a store need. A host works on words and trees below relations;
it imports from here and from `pagestore.compiled`, and from nothing else of pagestore.
docs/embedding.md has a worked host.
"""

from pagestore.admin.tree_check import Violation
from pagestore.pages.layout import KEYS_MAX, WORD_MAX, WORD_MIN, Pages
from pagestore.pages.operators import (
    CARRY,
    CHECKSUM,
    COUNT,
    MAX,
    MIN,
    SUM,
    THEN,
    Operator,
    has_inverse,
    is_operator,
    is_semilattice,
    operator,
)
from pagestore.pages.operators import code_of as operator_code
from pagestore.printable import message, printable
from pagestore.relations.bags import row_changes
from pagestore.relations.frames import ROWS_SHOWN, Frames, html_table
from pagestore.relations.prepared import ACTIONS, PreparedSeries, RowWords
from pagestore.relations.relation import Relation
from pagestore.relations.rope import Rope
from pagestore.relations.snapshot import (
    Snapshot,
    as_inserted,
    catalog_of,
    changes_table,
    differing,
    pages_of_both,
)
from pagestore.relations.transaction import EphemeralTransaction, Transaction
from pagestore.relations.turn import Turn
from pagestore.relations.writable import WritableRelation
from pagestore.runtime.buffers import pooled
from pagestore.runtime.code_cache import folder_named, user_cache
from pagestore.runtime.forks import thread_lock
from pagestore.runtime.parallel import Stoppable, Stopped, refuse_stopped, to_its_end, together
from pagestore.sorting.runs import Runs, external_sort
from pagestore.sorting.tuples import (
    FEW,
    Coded,
    Coding,
    ascending,
    begins,
    coding_within,
    columns_of,
    distinct,
    in_order,
    repeats,
    sort_order,
)
from pagestore.storage.file import local_path
from pagestore.store import Store
from pagestore.trees.build import bulk, bulk_all
from pagestore.trees.compare import Complement, Delta, accountable, accounted, delta, pays
from pagestore.trees.edit import ALONE, MOST, EditQueue, Edits, compose_edits, one_batch
from pagestore.trees.folds import (
    fold_many,
    interval_spec,
    ranks,
    rows_of,
    select,
    select_weighted,
    stab_many,
)
from pagestore.trees.kernels.cursor import TREE_WORDS
from pagestore.trees.kernels.node_buffer import ADD, ERASE, INSERT, SET
from pagestore.trees.read import Blocks, count_prefixes, first_from, get, last_before, read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.values.codec import (
    NULL,
    YEARS,
    encode,
    flags_of,
    float_values,
    float_words,
    narrowed,
    numbers_of,
    typed,
    value_of_word,
)
from pagestore.values.dictionary import TextFinder
from pagestore.values.objects import of_texts, with_nulls
from pagestore.values.row_formats import given_rows
from pagestore.values.types import Column, Schema, Type, may_be_narrow, of_numbers
from pagestore.versions.catalog import MAIN, Dependants, recorded_dependants
from pagestore.versions.hosts import Computed, record_dependants, register_host
from pagestore.versions.offers import Offered
from pagestore.versions.series import Edit as PreparedEdit
from pagestore.versions.series import Short
from pagestore.versions.sync_queue import SyncQueue

__all__ = [
    "ACTIONS", "ADD", "ALONE", "CARRY", "CHECKSUM", "COUNT", "ERASE", "FEW", "INSERT", "KEYS_MAX",
    "MAIN", "MAX", "MIN", "MOST", "NULL", "ROWS_SHOWN", "SET", "SUM", "THEN", "TREE_WORDS",
    "WORD_MAX", "WORD_MIN", "YEARS", "Blocks", "Coded", "Coding", "Column", "Complement", "Computed",
    "Delta", "Dependants", "EditQueue", "Edits", "EphemeralTransaction", "Frames", "Offered", "Operator",
    "Pages", "PreparedEdit", "PreparedSeries", "Relation", "Rope", "RowWords", "Runs", "Schema",
    "Short", "Snapshot", "Spec", "Stoppable", "Stopped", "Store", "SyncQueue", "TextFinder", "Transaction",
    "Tree", "Turn", "Type", "Violation", "WritableRelation", "accountable", "accounted",
    "as_inserted", "ascending", "begins", "bulk", "bulk_all", "catalog_of", "changes_table",
    "coding_within", "columns_of", "compose_edits", "count_prefixes", "delta", "differing",
    "distinct", "encode", "external_sort", "first_from", "flags_of", "float_values", "float_words",
    "fold_many", "folder_named", "get", "given_rows", "has_inverse", "html_table", "in_order",
    "interval_spec", "is_operator", "is_semilattice", "last_before", "local_path", "may_be_narrow",
    "message", "narrowed", "numbers_of", "of_numbers", "of_texts", "one_batch", "operator",
    "operator_code", "pages_of_both", "pays", "pooled", "printable", "ranks", "read_batches",
    "record_dependants", "recorded_dependants", "refuse_stopped", "register_host",
    "repeats", "row_changes", "rows_of", "select", "select_weighted", "sort_order", "stab_many",
    "thread_lock", "to_its_end", "together", "typed", "user_cache", "value_of_word", "with_nulls",
]  # fmt: skip
