"""The tree is that of RFC 6962: it is held against the RFC's own recursive definitions, written down here once more."""

import hashlib

import pytest

from metier.record.tree import (
    EMPTY,
    Tree,
    consistency_ranges,
    consistent,
    includes,
    inclusion_ranges,
    roots,
)


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def power_below(size: int) -> int:
    power = 1
    while power * 2 < size:
        power *= 2
    return power


def mth(leaves: list[bytes]) -> bytes:
    """MTH of section 2.1."""
    if not leaves:
        return digest(b"")
    if len(leaves) == 1:
        return digest(b"\x00" + leaves[0])
    middle = power_below(len(leaves))
    return digest(b"\x01" + mth(leaves[:middle]) + mth(leaves[middle:]))


def path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of section 2.1.1."""
    if len(leaves) == 1:
        return []
    middle = power_below(len(leaves))
    if index < middle:
        return [*path(index, leaves[:middle]), mth(leaves[middle:])]
    return [*path(index - middle, leaves[middle:]), mth(leaves[:middle])]


def subproof(first: int, leaves: list[bytes], whole: bool) -> list[bytes]:
    """SUBPROOF of section 2.1.2."""
    if first == len(leaves):
        return [] if whole else [mth(leaves)]
    middle = power_below(len(leaves))
    if first <= middle:
        return [*subproof(first, leaves[:middle], whole), mth(leaves[middle:])]
    return [*subproof(first - middle, leaves[middle:], False), mth(leaves[:middle])]


def leaves_of(size: int) -> list[bytes]:
    return [digest(f"record {number}".encode()) for number in range(size)]


SIZES = range(1, 41)


def test_the_root_over_nothing_is_the_hash_of_nothing() -> None:
    assert Tree().root() == EMPTY == mth([])
    assert EMPTY.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_one_leaf_and_two_spelled_out() -> None:
    tree = Tree()
    tree.add(b"")
    assert tree.root() == digest(b"\x00")
    tree.add(b"x")
    assert tree.root() == digest(b"\x01" + digest(b"\x00") + digest(b"\x00x"))


def test_the_root_is_the_same_at_every_size_on_the_way() -> None:
    tree, leaves = Tree(), leaves_of(1100)
    looked = {*range(1, 70), *range(250, 265), 511, 512, 513, 767, 768, 769, 1023, 1024, 1025, 1100}
    for size, leaf in enumerate(leaves, start=1):
        tree.add(leaf)
        assert tree.size == size
        if size in looked:
            assert tree.root() == mth(leaves[:size]), size


def test_every_inclusion_proof_is_that_of_the_rfc_and_holds() -> None:
    for size in SIZES:
        leaves = leaves_of(size)
        root = mth(leaves)
        for index in range(size):
            proof = roots(leaves, inclusion_ranges(index, size))
            assert proof == path(index, leaves)
            assert includes(root, size, index, leaves[index], proof)


def test_every_consistency_proof_is_that_of_the_rfc_and_holds() -> None:
    for second in SIZES:
        leaves = leaves_of(second)
        for first in range(1, second + 1):
            proof = roots(leaves, consistency_ranges(first, second))
            assert proof == ([] if first == second else subproof(first, leaves, True))
            assert consistent(mth(leaves[:first]), first, mth(leaves), second, proof)


def test_a_proof_holds_for_nothing_else() -> None:
    for size in (1, 2, 3, 7, 8, 13):
        leaves = leaves_of(size)
        root = mth(leaves)
        for index in range(size):
            proof = path(index, leaves)
            for other in range(-1, size + 2):
                held = other == index
                assert includes(root, size, other, leaves[index], proof) is held, (size, index, other)
            assert not includes(root, size, index, b"another", proof)
            assert not includes(bytes(32), size, index, leaves[index], proof)
            assert not includes(root, size, index, leaves[index], [*proof, bytes(32)])
            for place in range(len(proof)):
                changed = [*proof]
                changed[place] = digest(changed[place])
                assert not includes(root, size, index, leaves[index], changed)
                assert not includes(root, size, index, leaves[index], proof[:place] + proof[place + 1 :])


def test_a_log_that_was_rewritten_is_consistent_with_nothing() -> None:
    for second in (2, 3, 7, 8, 13):
        leaves = leaves_of(second)
        for first in range(1, second):
            proof = subproof(first, leaves, True)
            old, new = mth(leaves[:first]), mth(leaves)
            forged = mth([*leaves[: first - 1], b"forged"])
            assert not consistent(forged, first, new, second, proof)
            assert not consistent(old, first, mth([b"forged", *leaves[1:]]), second, proof)
            assert not consistent(old, first, new, second, [*proof, bytes(32)])
            assert not consistent(old, first, new, second, proof[:-1])
            assert not consistent(old, 0, new, second, proof)
            assert not consistent(new, second, old, first, proof)
            for place in range(len(proof)):
                changed = [*proof]
                changed[place] = digest(changed[place])
                assert not consistent(old, first, new, second, changed)


@pytest.mark.parametrize("first", [1, 2, 5])
def test_the_same_size_needs_no_proof_and_takes_none(first: int) -> None:
    root = mth(leaves_of(first))
    assert consistent(root, first, root, first, [])
    assert not consistent(root, first, root, first, [root])
    assert not consistent(root, first, bytes(32), first, [])
