"""Permissions are a lattice; these laws are what the gate relies on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model.permission import PermissionSet

NAMES = st.frozensets(st.sampled_from(["git", "gh", "curl", "jq"]), max_size=3)
PATHS = st.frozensets(
    st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab", "{baseDir}", "{baseDir}/x", "{workspace}/memory"]),
    max_size=4,
)


def sets() -> st.SearchStrategy[PermissionSet]:
    return st.builds(
        PermissionSet,
        binaries=NAMES,
        reads=PATHS,
        writes=PATHS,
        hosts=NAMES,
        env=NAMES,
        secrets=NAMES,
        operations=NAMES,
        channels=NAMES,
    )


@given(sets())
def test_every_set_covers_itself_and_the_empty_set(one: PermissionSet) -> None:
    assert one.covers(one)
    assert one.covers(PermissionSet())
    assert PermissionSet().covers(one) == (not one)


@given(sets(), sets(), sets())
def test_covering_is_transitive(one: PermissionSet, two: PermissionSet, three: PermissionSet) -> None:
    if one.covers(two) and two.covers(three):
        assert one.covers(three)


@given(sets(), sets())
def test_a_join_is_the_least_that_covers_both(one: PermissionSet, two: PermissionSet) -> None:
    join = one | two
    assert join.covers(one)
    assert join.covers(two)
    assert join.covers(two | one)
    assert (two | one).covers(join)


@given(sets(), sets(), sets())
def test_whatever_covers_both_covers_the_join(
    one: PermissionSet, two: PermissionSet, three: PermissionSet
) -> None:
    if three.covers(one) and three.covers(two):
        assert three.covers(one | two)


@given(sets(), sets(), sets())
def test_a_meet_is_the_greatest_below_both(
    one: PermissionSet, two: PermissionSet, three: PermissionSet
) -> None:
    meet = one & two
    assert one.covers(meet)
    assert two.covers(meet)
    if one.covers(three) and two.covers(three):
        assert meet.covers(three)


@given(sets(), sets())
def test_absorption(one: PermissionSet, two: PermissionSet) -> None:
    for same in (one & (one | two), one | (one & two)):
        assert same.covers(one)
        assert one.covers(same)


@given(sets(), sets())
def test_a_diff_is_empty_exactly_when_both_cover_each_other(one: PermissionSet, two: PermissionSet) -> None:
    assert bool(one.diff(two)) == (not (one.covers(two) and two.covers(one)))


@given(sets(), sets())
def test_what_a_diff_adds_is_what_was_not_covered(one: PermissionSet, two: PermissionSet) -> None:
    diff = one.diff(two)
    assert (one | diff.added).covers(two)
    assert (two | diff.removed).covers(one)
    assert one.covers(two) == (not diff.added)


def test_a_folder_covers_what_lies_below_it_and_not_what_only_begins_alike() -> None:
    folder = PermissionSet(reads=frozenset({"/data/app"}))
    assert folder.covers(PermissionSet(reads=frozenset({"/data/app/file"})))
    assert not folder.covers(PermissionSet(reads=frozenset({"/data/app-secrets"})))
    assert not folder.covers(PermissionSet(writes=frozenset({"/data/app"})))
    assert "/data/app-secrets".startswith("/data/app")  # which is how it is often done wrongly


@pytest.mark.parametrize(
    "path", ["../x", "/a/../b", "a", "", "/a//b", "/a/./b", "/a/", "~/x", "{other}/x", "/a\0b"]
)
def test_a_path_that_is_not_in_normal_form_is_no_permission(path: str) -> None:
    with pytest.raises(ValueError, match="permission path"):
        PermissionSet(reads=frozenset({path}))


@pytest.mark.parametrize("name", ["*", "**", ""])
def test_nothing_means_all(name: str) -> None:
    with pytest.raises(ValueError, match="not a permission"):
        PermissionSet(hosts=frozenset({name}))
