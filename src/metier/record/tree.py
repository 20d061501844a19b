"""The tree over the records, as RFC 6962 has it: one short hash for all of them, with short proofs.

A leaf is a record's hash in the chain, so the tree covers each record's bytes, its number and everything before it. Pure:
hashes in, hashes out. Nothing here keeps more than one hash for each level of the tree.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, final

EMPTY: Final = hashlib.sha256(b"").digest()
"""The root over nothing."""
Range: TypeAlias = tuple[int, int]
"""Leaves from the first number up to, and without, the second; counted from zero."""

_BLOCK: Final = 256
_LEAF: Final = b"\x00"
_NODE: Final = b"\x01"


def leaf(data: bytes) -> bytes:
    """The hash of one leaf."""
    return hashlib.sha256(_LEAF + data).digest()


def node(left: bytes, right: bytes) -> bytes:
    """The hash of what stands above two others."""
    return hashlib.sha256(_NODE + left + right).digest()


@final
class Tree:
    """A tree that grows leaf by leaf and remembers only what its root needs."""

    __slots__ = ("_block", "_done", "_peaks")

    def __init__(self) -> None:
        self._done = 0
        self._peaks: list[bytes] = []
        """Roots of the full subtrees of whole blocks, largest first: one for each one in the binary number of blocks."""
        self._block: list[bytes] = []
        """Leaves that do not fill a block yet. Many at once are hashed in half the time of one by one."""

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return self._done + len(self._block)

    def add(self, data: bytes) -> None:
        """One more leaf."""
        block = self._block
        block.append(data)
        if len(block) == _BLOCK:
            top = _folded(block)
            blocks = self._done // _BLOCK
            while blocks & 1:
                top = node(self._peaks.pop(), top)
                blocks >>= 1
            self._peaks.append(top)
            self._done += _BLOCK
            block.clear()

    def root(self) -> bytes:
        """The hash over all leaves so far."""
        tops = [*self._peaks]
        begun, left = 0, len(self._block)
        while left:
            full = 1 << left.bit_length() - 1
            tops.append(_folded(self._block[begun : begun + full]))
            begun, left = begun + full, left - full
        if not tops:
            return EMPTY
        top = tops[-1]
        for peak in tops[-2::-1]:
            top = node(peak, top)
        return top


def _folded(leaves: list[bytes]) -> bytes:
    """The root over leaves whose number is a power of two."""
    sha256 = hashlib.sha256
    level = [sha256(b"\x00" + each).digest() for each in leaves]
    while len(level) > 1:
        pairs = iter(level)
        level = [sha256(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]
    return level[0]


def roots(leaves: Iterable[bytes], ranges: Sequence[Range]) -> list[bytes]:
    """The roots over each of `ranges`, which do not overlap, in one pass over the leaves."""
    order = sorted(range(len(ranges)), key=lambda place: ranges[place])
    trees = [Tree() for _ in ranges]
    waiting = iter(order)
    current = next(waiting, None)
    for number, data in enumerate(leaves):
        while current is not None and number >= ranges[current][1]:
            current = next(waiting, None)
        if current is None:
            break
        if number >= ranges[current][0]:
            trees[current].add(data)
    return [tree.root() for tree in trees]


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Whose roots prove that leaf `index` is in the tree of `size` leaves, from the leaf up."""
    return _path(index, 0, size)


def consistency_ranges(first: int, second: int) -> list[Range]:
    """Whose roots prove that the tree of `second` leaves begins with that of `first`."""
    return [] if first in (0, second) else _subproof(first, 0, second, whole=True)


def includes(root: bytes, size: int, index: int, data: bytes, path: Sequence[bytes]) -> bool:
    """Does `path` lead from leaf `index` to `root`?"""
    if not 0 <= index < size:
        return False
    place, last, top = index, size - 1, leaf(data)
    for sibling in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            top = node(sibling, top)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            top = node(top, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and top == root


def consistent(old: bytes, first: int, new: bytes, second: int, path: Sequence[bytes]) -> bool:
    """Does `path` show that the tree of `second` leaves with root `new` begins with that of `first` with root `old`?"""
    if not 0 < first <= second:
        return False
    if first == second:
        return not path and old == new
    steps = [old, *path] if first & (first - 1) == 0 else list(path)
    if not steps:
        return False
    place, last = first - 1, second - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    top_old = top_new = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            top_old, top_new = node(step, top_old), node(step, top_new)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            top_new = node(top_new, step)
        place, last = place >> 1, last >> 1
    return last == 0 and top_old == old and top_new == new


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def _path(index: int, start: int, end: int) -> list[Range]:
    if end - start <= 1:
        return []
    middle = start + _split(end - start)
    if start + index < middle:
        return [*_path(index, start, middle), (middle, end)]
    return [*_path(start + index - middle, middle, end), (start, middle)]


def _subproof(first: int, start: int, end: int, *, whole: bool) -> list[Range]:
    """`whole`: the part so far is the old tree itself, whose root is known already."""
    if first == end - start:
        return [] if whole else [(start, end)]
    middle = start + _split(end - start)
    if start + first <= middle:
        return [*_subproof(first, start, middle, whole=whole), (middle, end)]
    return [*_subproof(start + first - middle, middle, end, whole=False), (start, middle)]
