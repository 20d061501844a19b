"""Whether the other skills are there that a skill depends on. A name stands for a skill, or for what some skill provides.

Anybody's project may hold tens of thousands of them, so all of it takes time in proportion to how many names are written down.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

from msgspec.structs import replace

from metier.catalog.listed import Listed
from metier.model.requirement import RequirementError

_MOST_NAMED: Final = 8


def with_dependencies(by_name: Mapping[str, Listed]) -> dict[str, Listed]:
    """The same skills; whoever depends on what is missing, not usable or depends on him in turn is unavailable."""
    return _Found(by_name).settled()


@final
class _Found:
    def __init__(self, by_name: Mapping[str, Listed]) -> None:
        self.listed = dict(by_name)
        self.wanting: dict[str, list[str]] = {}
        """By what is wanted: who wants it."""
        self.given: dict[str, list[str]] = {}
        """By what is provided and is no skill's name: who provides it."""
        for name in by_name:
            for wanted in self.wants(name):
                self.wanting.setdefault(wanted, []).append(name)
            for capability in self.provides(name):
                self.given.setdefault(capability, []).append(name)
        self.usable_givers = {
            each: sum(self.listed[name].shown == "usable" for name in names)
            for each, names in self.given.items()
        }

    def wants(self, name: str) -> Sequence[str]:
        skill = self.listed[name].skill
        return skill.depends_on if skill else ()

    def provides(self, name: str) -> list[str]:
        skill = self.listed[name].skill
        return [each for each in (skill.provides if skill else ()) if each not in self.listed]

    def settled(self) -> dict[str, Listed]:
        lost: list[str] = []
        follow = {name: self.wants(name) for name in self.listed if self.wants(name)} | self.given
        for circle in _circles(follow):
            members = [name for name in circle if name in self.listed]
            more = ", …" if len(members) > _MOST_NAMED else ""
            lost += [name for name in members if self.listed[name].shown == "usable"]
            for name in members:
                self.lacks(name, f"{', '.join(members[:_MOST_NAMED])}{more} (a circle)")
        lost += [name for name in self.listed if self.is_lost(name)]
        while lost:  # who depends on one that has just become unavailable is unavailable too
            gone = lost.pop()
            without = [gone]
            for capability in self.provides(gone):
                self.usable_givers[capability] -= 1
                without += [] if self.usable_givers[capability] else [capability]
            for wanted in without:
                lost += [name for name in self.wanting.get(wanted, ()) if self.is_lost(name)]
        return self.listed

    def is_lost(self, name: str) -> bool:
        """Whether a skill that was usable up to now lacks something; then it says so from now on."""
        if self.listed[name].shown != "usable":
            return False
        missing = [why for wanted in self.wants(name) if (why := self.why_missing(wanted))]
        self.lacks(name, *missing)
        return bool(missing)

    def lacks(self, name: str, *what: str) -> None:
        missing = tuple(RequirementError(type="skill", name=each, skill=name) for each in what)
        self.listed[name] = replace(self.listed[name], missing=(*self.listed[name].missing, *missing))

    def why_missing(self, wanted: str) -> str:
        if wanted in self.listed:
            shown = self.listed[wanted].shown
            return "" if shown == "usable" else f"{wanted}, which is {shown.replace('_', ' ')}"
        if wanted not in self.given:
            return f"{wanted}, which is not there"
        return "" if self.usable_givers[wanted] else f"{wanted}, which none that can be used provides"


def _circles(follow: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Those that lead to each other, and those that lead to themselves (Tarjan's algorithm, without recursion)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    for start in follow:
        if start in number:
            continue
        ways = [(start, iter(follow[start]))]
        while ways:
            node, way = ways[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                path.append(node)
            onward = next(way, None)
            if onward is not None:
                if onward not in number and onward in follow:
                    ways.append((onward, iter(follow[onward])))
                elif onward in lowest:  # it is on the path
                    lowest[node] = min(lowest[node], number[onward])
                continue
            ways.pop()
            if ways:
                before = ways[-1][0]
                lowest[before] = min(lowest[before], lowest[node])
            if lowest[node] == number[node]:
                together: list[str] = []
                while not together or together[-1] != node:
                    together.append(path.pop())
                    del lowest[together[-1]]
                if len(together) > 1 or node in follow[node]:
                    yield together[::-1]
