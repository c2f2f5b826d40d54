"""Operations that Python and numba lack: a load from and a store to any byte, a prefetch, a copy past
the cache, a choice without a branch, a step of crc32c, the bits of a word, a call of an address, and
arrays made from an address.

These are the versions for kernels run as plain Python; jit/llvm.py has those for compiled kernels.
"""

import ctypes
import os
from typing import Any

import numpy as np

from pagestore.runtime.kernel import intrinsic
from pagestore.runtime.types import LINE

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@intrinsic
def word_at(words: np.ndarray, byte: int) -> np.int64:
    """Return the eight bytes from `byte` on, as a little-endian word."""
    word: np.int64 = words.view(np.uint8)[byte : byte + 8].view(np.int64)[0]
    return word


@intrinsic
def put_word(data: np.ndarray, byte: int, word: int) -> None:
    """Write a word to the eight bytes from `byte` on, the lowest first."""
    data.view(np.uint8)[byte : byte + 8].view(np.int64)[0] = word


@intrinsic
def either(condition: bool, a: int, b: int) -> int:
    """Return a if the condition holds, else b.

    Without the hint LLVM makes a branch, which a binary search over random keys mispredicts every
    other time: searching 1,300 values took 47 ns with the branch, and takes 10 ns without it.
    """
    return a if condition else b


@intrinsic
def prefetch(words: np.ndarray, i: int) -> None:
    """Begin to load words[i] without waiting for it; an index outside the array does no harm."""


@intrinsic
def copy_past(to: int, at: int) -> None:
    """Copy a cache line from address `at` to address `to`, a multiple of LINE words, past the
    cache.
    """
    ctypes.memmove(int(to), int(at), LINE * 8)


@intrinsic
def fence() -> None:
    """Make every earlier `copy_past` visible to any thread that sees a later store."""


@intrinsic
def memcpy(to: int, at: int, count: int) -> int:
    """Copy bytes from one address to another, like C's memcpy."""
    ctypes.memmove(int(to), int(at), int(count))
    return to


@intrinsic
def pwrite(fd: int, at: int, count: int, offset: int) -> int:
    """Write the bytes at an address to a file, like the system call; return how many were written."""
    return os.pwrite(fd, ctypes.string_at(int(at), int(count)), int(offset))


@intrinsic
def has_crc_instruction() -> bool:
    """Return whether the target processor has an instruction that adds a word to a crc32c."""
    return False


@intrinsic
def crc_of_word(crc: int, word: int) -> int:
    """Extend the crc32c `crc` of some bytes by one word; only if the processor has an
    instruction for it.
    """
    raise NotImplementedError


@intrinsic
def float_of_bits(bits: int) -> float:
    """Return the float64 with some bits."""
    return float(np.int64(bits).view(np.float64))


@intrinsic
def float_to_bits(value: float) -> int:
    """Return the bits of a float64, as a word."""
    return int(np.float64(value).view(np.int64))


@intrinsic
def words_at(address: int, n: int) -> np.ndarray:
    """Return the n words from an address on; if n is 0, the address may be anything."""
    return _array(address, n, np.int64)


@intrinsic
def mapped_at(address: int, n: int) -> np.ndarray:
    """Return the n words from an address on, which are read only, as those of a map are."""
    words = _array(address, n, np.int64)
    words.flags.writeable = False
    return words


@intrinsic
def bytes_at(address: int, n: int) -> np.ndarray:
    """Return the n bytes from an address on."""
    return _array(address, n, np.uint8)


def _array(address: int, n: int, dtype: Any) -> np.ndarray:
    size = int(n) * np.dtype(dtype).itemsize
    return (
        np.frombuffer((ctypes.c_uint8 * size).from_address(int(address)), dtype)
        if n
        else np.empty(0, dtype)
    )


@intrinsic
def as_array(words: tuple[int, ...]) -> np.ndarray:
    """Return a tuple of words as an array, valid during the call only."""
    return np.array(words, np.int64)


@intrinsic
def borrowed(array: np.ndarray) -> np.ndarray:
    """Return a view that keeps nothing alive and must not outlive the call.  It is read-only if the
    array is.

    numba counts references to every array that passes through a call or a loop, with one locked
    instruction each time; that took 60 % of a join's time.  The caller of an entry kernel holds the
    arrays anyway.  A kernel that makes no arrays counts no references in the first place
    (kernel.py).
    """
    return array


@intrinsic
def call_operator(address: int, a: int, b: int) -> int:
    """Call a compiled int64 function of two words by its address."""
    return int(CALLBACK(int(address))(int(a), int(b)))


@intrinsic
def population(word: int) -> int:
    """Return how many bits of an int64 are set."""
    return (int(word) & 0xFFFFFFFFFFFFFFFF).bit_count()


@intrinsic
def lowest(word: int) -> int:
    """Return the index of the lowest set bit of an int64 that is not 0."""
    return (int(word) & -int(word)).bit_length() - 1
