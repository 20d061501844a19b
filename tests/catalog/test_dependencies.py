"""Skills that depend on others: how long it may take to find out, and what is said about circles."""

import time
from collections.abc import Mapping, Sequence

import pytest

from metier.catalog.dependencies import with_dependencies
from metier.catalog.listed import Listed
from metier.config.settings import Root
from metier.model.skill import Skill

MANY = 20_000
ROOT = Root(path="/x", kind="extra", trusted=False)


def skills(
    wants: Mapping[str, Sequence[str]], gives: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Listed]:
    return {
        name: Listed(
            name=name,
            folder="/x",
            root=ROOT,
            skill=Skill(
                name=name,
                description="d",
                dialect="friday",
                depends_on=tuple(wanted),
                provides=tuple((gives or {}).get(name, ())),
            ),
        )
        for name, wanted in wants.items()
    }


def chain(last: Sequence[str]) -> dict[str, Sequence[str]]:
    return {f"s{at}": [f"s{at + 1}"] if at + 1 < MANY else last for at in range(MANY)}


ALL = [f"s{at}" for at in range(MANY)]
TREES = {
    "a chain": (chain([]), None, "usable"),
    "a chain backwards": (dict(reversed(chain([]).items())), None, "usable"),
    "a chain whose end is missing": (chain(["gone"]), None, "unavailable"),
    "one large circle": (chain(["s0"]), None, "unavailable"),
    "all want what all provide": ({name: ["tea"] for name in ALL}, {name: ["tea"] for name in ALL}, "unavailable"),
    "all want what one has, who wants all": ({name: ["s0"] for name in ALL} | {"s0": ALL[1:]}, None, "unavailable"),
}  # fmt: skip


@pytest.mark.parametrize("tree", TREES)
def test_many_skills_that_depend_on_each_other_take_no_more_than_their_number(tree: str) -> None:
    wants, gives, shown = TREES[tree]
    began = time.process_time()
    found = with_dependencies(skills(wants, gives))
    assert time.process_time() - began < 10
    assert {each.shown for each in found.values()} == {shown}
    assert sum(len(str(error)) for each in found.values() for error in each.missing) < 300 * MANY


def test_only_who_is_in_a_circle_is_told_of_one() -> None:
    wants = {
        "before": ["one"],
        "one": ["two"],
        "two": ["one", "between"],
        "between": ["self"],
        "self": ["self"],
    }
    found = with_dependencies(skills(wants))
    said = {name: [error.name for error in each.missing] for name, each in found.items()}
    assert said == {
        "before": ["one, which is unavailable"],
        "one": ["one, two (a circle)"],
        "two": ["one, two (a circle)"],
        "between": ["self, which is unavailable"],
        "self": ["self (a circle)"],
    }


def test_a_capability_is_there_as_long_as_one_who_provides_it_can_be_used() -> None:
    wants = {"reader": ["papers"], "shelf": ["gone"], "drawer": [], "asker": ["reader"]}
    one = with_dependencies(skills(wants, {"shelf": ["papers"], "drawer": ["papers"]}))
    assert {name: each.shown for name, each in one.items()} == {
        "reader": "usable",
        "shelf": "unavailable",
        "drawer": "usable",
        "asker": "usable",
    }
    none = with_dependencies(skills(wants, {"shelf": ["papers"]}))
    assert [error.name for error in none["reader"].missing] == [
        "papers, which none that can be used provides"
    ]
    assert [error.name for error in none["asker"].missing] == ["reader, which is unavailable"]
