"""What the commands, the loader and the data source for Spark use of a store in addition to
`pagestore.host`.

They belong to this project, change with it, and are the only ones to import from here: nothing here
is public.
"""

from pagestore.admin.history import VersionInfo
from pagestore.admin.merge import Merge as Merge
from pagestore.admin.tree_check import Walk
from pagestore.pages.layout import PAGE_SIZE_DEFAULT
from pagestore.relations.bags import additions, removals, repeated
from pagestore.relations.relation import BAG_ROWS
from pagestore.relations.snapshot import changes_between, values_of_both, was_made_anew
from pagestore.relations.texts import end_words
from pagestore.runtime.library import library
from pagestore.storage.file import beside, neighbours, sync_folder, written
from pagestore.storage.system import in_words
from pagestore.store import empty_store
from pagestore.trees.build import Segment, build_segment
from pagestore.trees.edit import apply
from pagestore.trees.folds import Rows, overlaps_counted
from pagestore.trees.read import LARGE_WORDS, batch_rows, read
from pagestore.trees.scratch import applications
from pagestore.trees.tree import naming_path
from pagestore.values.codec import beyond, bounds_of, holding, interned_as, numbers_of
from pagestore.values.dictionary import is_utf8
from pagestore.values.exact import damage_of
from pagestore.values.row_formats import unnamed_index
from pagestore.values.types import KINDS, type_of_arrow
from pagestore.versions.catalog import is_own, whole_of
from pagestore.versions.hosts import hosts

__all__ = [
    "BAG_ROWS", "KINDS", "LARGE_WORDS", "PAGE_SIZE_DEFAULT", "Rows", "Segment",
    "VersionInfo", "Walk", "additions", "applications", "apply", "batch_rows", "beside",
    "beyond", "bounds_of", "build_segment", "changes_between", "damage_of", "empty_store",
    "end_words", "holding", "hosts", "in_words", "interned_as", "is_own", "is_utf8", "library", "naming_path",
    "neighbours", "numbers_of", "overlaps_counted", "read", "removals", "repeated", "sync_folder",
    "type_of_arrow", "unnamed_index", "values_of_both", "was_made_anew", "whole_of", "written",
]  # fmt: skip
