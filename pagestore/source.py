"""What a relation reads from: a snapshot, or a transaction with its own edits."""

from typing import Protocol

from .dictionary import Dictionary
from .tree import Finder as TreeFinder
from .tree import Pages, Tree


class Source(Protocol):
    """A version's trees and texts, as relations ask for them."""

    @property
    def pages(self) -> Pages: ...
    @property
    def dictionary(self) -> Dictionary: ...
    @property
    def threads(self) -> int: ...
    def tree(self, name: str) -> Tree: ...
    def finder(self, name: str) -> TreeFinder: ...
