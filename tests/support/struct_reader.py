"""Reads a store with nothing but struct, from docs/format.md alone: every relation of its newest
main version.
"""

import struct
import sys
from collections.abc import Iterator

Record = tuple[int, ...]


class Pages:
    """The file, its newest meta slot, and the words of pages."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            self.data = file.read()
        slots = [slot for slot in map(self._slot, (0, 4096)) if slot]
        if not slots:
            raise ValueError("no meta slot reads")
        self.page_size, _, self.state, self.words = max(slots, key=lambda slot: slot[1])

    def _slot(self, at: int) -> tuple[int, int, int, int] | None:
        magic, form, page_size = struct.unpack_from("<8sII", self.data, at)
        sequence, _, state, words = struct.unpack_from("<4q", self.data, at + 32)
        (checksum,) = struct.unpack_from("<I", self.data, at + 92)
        good = (
            magic == b"pageSTR\0"
            and form in (1, 2, 3, 4)
            and checksum == crc32c(self.data[at : at + 92])
        )
        return (page_size, sequence, state, words) if good else None

    def page(self, number: int) -> tuple[int, ...]:
        """The words of a page, its checksum verified."""
        data = self.data[number * self.page_size : (number + 1) * self.page_size]
        words = struct.unpack(f"<{self.page_size // 8}q", data)
        if words[0] != crc32c(data[8:]) or words[1] != number:
            raise ValueError(f"page {number} is damaged")
        return words

    def run(self, page: int, words: int) -> "Reader":
        """The record that starts at a page; its length, and above 32 bits the stamp of its
        pages, if that is known.
        """
        out: list[int] = []
        stamp = words >> 32
        while len(out) < words & 0xFFFFFFFF:
            content = self.page(page)
            if stamp and content[5] != stamp:
                raise ValueError(f"page {page} holds another record")
            out += content[8 : 8 + content[4] // 8]
            page += 1
        return Reader(out)


class Reader:
    """Takes words, texts and lists out of a record."""

    def __init__(self, words: list[int]):
        self.words, self.at = words, 0

    def take(self, n: int = 1) -> list[int]:
        self.at += n
        return self.words[self.at - n : self.at]

    def number(self) -> int:
        return self.take()[0]

    def text(self) -> bytes:
        n = self.number()
        return struct.pack(f"<{-(-n // 8)}q", *self.take(-(-n // 8)))[:n]

    def texts(self) -> list[str]:
        return [self.text().decode() for _ in range(self.number())]

    def rows(self, width: int) -> list[list[int]]:
        return [self.take(width) for _ in range(self.number())]


def commit(reader: Reader) -> dict:
    """The parts of a commit record that a reader needs."""
    assert reader.number() == 1
    reader.take(12)
    catalog = reader.take(2)
    reader.take(4)
    return {
        "catalog": catalog,
        "roots": reader.rows(4),
        "system": reader.rows(4),
        "branches": reader.rows(5),
    }


def catalog(reader: Reader) -> list[dict]:
    """The relations of a version."""
    assert reader.number() == 2
    relations = []
    for _ in range(reader.number()):
        name = reader.text().decode()
        tree, keys, _ = reader.take(3)
        reader.rows(2)
        columns = [(reader.text().decode(), reader.text().decode()) for _ in range(reader.number())]
        key = reader.texts()
        bag = reader.texts() == [""]
        relations.append(
            {"name": name, "tree": tree, "keys": keys, "columns": columns, "key": key, "bag": bag}
        )
    return relations


def column(page: tuple[int, ...], c: int, n: int) -> list[int]:
    """The values of one column of a page of n entries."""
    base, place = page[8 + 2 * c], page[9 + 2 * c]
    offset, width = place >> 8, place & 255
    bits = 0
    for i, word in enumerate(page[offset:]):
        bits |= (word & (1 << 64) - 1) << (64 * i)
        if 64 * (i + 1) >= n * width:
            break
    values = [(base + (bits >> (i * width) & (1 << width) - 1)) & (1 << 64) - 1 for i in range(n)]
    return [value - (1 << 64) if value >> 63 else value for value in values]


def records(pages: Pages, root: int, birth: int, keys: int) -> Iterator[Record]:
    """The records of a tree, in order. A version wrote its root; 0 if that is not known."""
    if not root:
        return
    page = pages.page(root)
    if birth and (page[2] - birth) % 2**19:
        raise ValueError(f"page {root} is another version's")
    kind, columns, folds = (
        page[3] & 15,
        page[3] >> 16 & 255 | (page[3] >> 4 & 15) << 8,
        page[3] >> 24 & 255,
    )
    entries = zip(*(column(page, c, page[4]) for c in range(columns)), strict=True)
    for entry in entries:
        if kind == 1:
            yield entry
        else:
            yield from records(
                pages, entry[keys], entry[-1] if columns == keys + 2 + folds else 0, keys
            )


def texts(pages: Pages, roots: dict[int, tuple[int, int]]) -> dict[int, bytes]:
    """The dictionary; a long text, which takes zstandard, reads as its length in brackets."""
    symbols = {
        (table, code): struct.pack("<q", word)[:size]
        for table, code, word, size in records(pages, *roots.get(7, (0, 0)), 2)
    }
    parts: dict[int, list[int]] = {}
    for id_, _, word in records(pages, *roots.get(1, (0, 0)), 2):
        parts.setdefault(id_, []).append(word)
    out = {}
    for id_, words in parts.items():
        length = words[0] & 0xFFFF
        raw = struct.pack(f"<{len(words)}q", *words)
        if length == 0xFFFF:
            out[id_] = b"<%d bytes>" % words[4]
        elif length & 0x8000:
            out[id_] = unpacked(raw[3:], raw[2], symbols)[: length & 0x7FFF]
        else:
            out[id_] = raw[2 : 2 + length]
    return out


def unpacked(codes: bytes, table: int, symbols: dict[tuple[int, int], bytes]) -> bytes:
    """What codes stand for, and those of the zeros that fill the last word."""
    out, rest = b"", iter(codes)
    for code in rest:
        out += bytes([next(rest, 0)]) if code == 255 else symbols[table, code]
    return out


def value(kind: str, word: int, dictionary: dict[int, bytes]) -> object:
    """A word as a plain Python value; dates, times and decimals stay numbers."""
    if kind.endswith("?"):
        return None if word == -(2**63) else value(kind[:-1], word, dictionary)
    if kind == "float64":
        return struct.unpack(
            "<d", struct.pack("<q", word if word >= 0 else word ^ 0x7FFFFFFFFFFFFFFF)
        )[0]
    if kind == "string":
        return dictionary[word].decode()
    if kind.startswith("decimal") and int(kind[8:].partition(",")[0]) > 18:
        return int.from_bytes(dictionary[word], "big") - 2**127
    return dictionary[word] if kind == "bytes" else bool(word) if kind == "bool" else word


def relations(path: str) -> dict[str, list[tuple]]:
    """Every relation of the newest version of the main branch: rows in the schema's column
    order.
    """
    pages = Pages(path)
    newest = commit(pages.run(pages.state, pages.words))
    head = next(branch for branch in newest["branches"] if branch[0] == 1)
    version = commit(pages.run(head[2], head[3]))
    roots = {
        tree: (root, height >> 8) for tree, root, height, _ in version["roots"] + version["system"]
    }
    dictionary = texts(pages, roots)
    out = {}
    for relation in catalog(pages.run(*version["catalog"])) if version["catalog"][0] else []:
        stored = relation["key"] + [
            name for name, _ in relation["columns"] if name not in relation["key"]
        ]
        rows = []
        for record in records(pages, *roots.get(relation["tree"], (0, 0)), relation["keys"]):
            words = dict(zip(stored, record, strict=False))
            row = tuple(value(kind, words[name], dictionary) for name, kind in relation["columns"])
            rows += [row] * (record[relation["keys"]] if relation["bag"] else 1)
        if relation["columns"]:
            out[relation["name"]] = rows
    return out


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


if __name__ == "__main__":
    for name, rows in relations(sys.argv[1]).items():
        print(name, len(rows), *rows[:10], sep="\n  ")
