"""`policy.toml` → `Rules`. One thing wrong anywhere, and none of it counts: then everything is denied, and said why.

The file is the operator's: his or root's, closed to others, in the state folder and nowhere else. Every rule says why it is there, and
carries calls that it must and must not match; they are tried when the file is loaded. A project has no such file:
whoever can write into a project could forbid everything there, or have us evaluate what he likes.
"""

import os
import re
import stat
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, cast, final

from msgspec import Struct
from msgspec.structs import replace

from metier.config.ground import POLICY
from metier.config.settings import Settings
from metier.gate.rule_written import REMEDY, WrongRuleError, written_rule
from metier.gate.rules import Rule, Rules
from metier.model import stricttoml
from metier.model.diagnostic import Diagnostic
from metier.model.digest import digest_bytes
from metier.model.text import one_line
from metier.openfile import has_second_name, read_small

MAX_BYTES: Final = 1_048_576


@final
class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with the file."""

    message: str
    remedy: str = REMEDY
    rule: int = 0
    """Which rule, from 1; 0 for the file itself."""
    line: int = 0
    """0 when nobody can say."""

    def __str__(self) -> str:
        place = [POLICY]
        if self.line:
            place.append(f"line {self.line}")
        if self.rule:
            place.append(f"rule {self.rule}")
        return f"{', '.join(place)}: {self.message}"


GONE: Final = Problem(
    message="it was there and is gone",
    remedy="Put it back, or say with `metier policy forget` that there are no rules",
)


@final
class Examined(Struct, frozen=True, kw_only=True):
    """What a file says, and everything that is wrong with it."""

    rules: Rules = Rules()
    problems: tuple[Problem, ...] = ()
    examples: int = 0
    """How many were tried."""
    written: tuple[dict[str, Any], ...] = ()
    """Every rule as it stands in the file, also one that something is wrong with; for people to read."""
    lines: tuple[int, ...] = ()
    """Where each of them stands; 0 when nobody can say."""


def policy_file(settings: Settings) -> str:
    """Where the operator's rules lie."""
    return os.path.join(settings.home, POLICY)


def load_rules(settings: Settings) -> Rules:
    """The operator's rules: none when there is no file, and a no to everything when there is one that cannot be used."""
    return examine(policy_file(settings)).rules


def examine(path: str) -> Examined:
    """Read a file of rules and say everything that is wrong with it. Blocking: it reads the disk."""
    found = read_small(path, most=MAX_BYTES, hard_links=True, links=True)
    if isinstance(found, Diagnostic):
        if found.code == "missing" and not os.path.lexists(path):
            return Examined()
        remedy = "Make it a readable file, or remove it if there are to be no rules"
        return _unusable((Problem(message=found.message, remedy=remedy),), "")
    data, status = found
    problem = _open_to_others(path, status)
    return _unusable((problem,), digest_bytes(data)) if problem else _examined(data)


def examine_text(text: str) -> Examined:
    """The same for rules that lie in no file, as somebody tries them."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > MAX_BYTES:
        problem = Problem(message=f"it has more than {MAX_BYTES:,} bytes", remedy="Write fewer rules")
        return _unusable((problem,), "")
    return _examined(data)


def _open_to_others(path: str, status: os.stat_result) -> Problem | None:
    if status.st_uid not in (os.geteuid(), 0):
        return Problem(
            message=f"it belongs to user {status.st_uid}, neither to you nor to root",
            remedy="Look at what is in it, then make it your own",
        )
    if status.st_mode & 0o022:
        return Problem(
            message="other users can change it, so it is not read",
            remedy=f"Look at what is in it, then: chmod go-w '{path}'",
        )
    if has_second_name(status):
        return Problem(
            message="it has a second name somewhere (a hard link), and could be changed from there, so it is not read",
            remedy=f"Look at what is in it, then put a copy in its place: cp -p '{path}' '{path}.copy' && mv '{path}.copy' '{path}'",
        )
    folder = os.path.dirname(os.path.realpath(path))
    try:
        mode = os.stat(folder).st_mode
    except OSError as error:
        return Problem(
            message=f"its folder cannot be looked at: {error.strerror}", remedy="Look at that folder"
        )
    if mode & 0o022 and not mode & stat.S_ISVTX:
        return Problem(
            message="other users can put another file in its place, so it is not read",
            remedy=f"Run: chmod go-w '{folder}'",
        )
    return None


def _unusable(problems: Sequence[Problem], digest: str) -> Examined:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    said = f"{problems[0]}{more}. `metier policy check` shows everything"
    return Examined(rules=Rules(digest=digest, problem=said), problems=tuple(problems))


@lru_cache(maxsize=2)
def _examined(data: bytes) -> Examined:
    digest = digest_bytes(data)
    tree = _parsed(data)
    if isinstance(tree, Problem):
        return _unusable((tree,), digest)
    written = tree.get("rule")
    unknown = sorted(tree.keys() - {"rule"})
    if unknown or not isinstance(written, list) or not written:
        message = (
            f"unknown key {one_line(unknown[0], 60)!r}; there is nothing but [[rule]]"
            if unknown
            else "there is no [[rule]] in it"
        )
        remedy = "Write [[rule]] above every rule; remove the file if there are to be none"
        return _unusable((Problem(message=message, remedy=remedy),), digest)
    lines = _Lines(data.decode("utf-8"), len(cast("list[Any]", written)))
    rules: list[Rule] = []
    problems: list[Problem] = []
    examples = 0
    for number, each in enumerate(cast("list[Any]", written), 1):
        try:
            rule, tried = written_rule(each, number, lines.of(number))
            rules.append(rule)
            examples += tried
        except WrongRuleError as error:
            line = lines.of(number, error.key)
            problems.append(Problem(message=str(error), remedy=error.remedy, rule=number, line=line))
    problems += _given_twice(rules)
    each_written = tuple(
        cast("dict[str, Any]", each) if isinstance(each, dict) else {} for each in cast("list[Any]", written)
    )
    places = tuple(lines.of(number) for number in range(1, len(each_written) + 1))
    if problems:
        found = _unusable(sorted(problems, key=lambda each: each.rule), digest)
        return replace(found, written=each_written, lines=places)
    return Examined(
        rules=Rules(rules=tuple(rules), digest=digest),
        examples=examples,
        written=each_written,
        lines=places,
    )


def _parsed(data: bytes) -> dict[str, Any] | Problem:
    try:
        return stricttoml.loads(data)
    except stricttoml.TomlError as error:
        return Problem(message=one_line(str(error), 200), remedy=error.remedy, line=error.line)


def _given_twice(rules: list[Rule]) -> list[Problem]:
    seen: dict[str, int] = {}
    problems: list[Problem] = []
    for rule in rules:
        first = seen.setdefault(rule.name, rule.number)
        if rule.name and first != rule.number:
            message = f"rule {first} is called {rule.name!r} too"
            problems.append(
                Problem(message=message, remedy="Give each its own name", rule=rule.number, line=rule.line)
            )
    return problems


@final
class _Lines:
    """In which line each rule stands. TOML readers do not tell, so the heads are counted; when that does not come out
    even (a head inside a text, rules written as one list) nobody claims to know."""

    def __init__(self, text: str, rules: int) -> None:
        self._lines = text.split("\n")
        heads = [n for n, line in enumerate(self._lines, 1) if re.match(r"\s*\[\[\s*rule\s*\]\]", line)]
        self._heads = heads if len(heads) == rules else []

    def of(self, number: int, key: str = "") -> int:
        """The line of a rule, or of one of its keys where it can be found."""
        if not self._heads:
            return 0
        first = self._heads[number - 1]
        after = self._heads[number] if number < len(self._heads) else len(self._lines) + 1
        for line in range(first + 1, after) if key else ():
            if re.match(rf"\s*{re.escape(key)}\s*[=.]", self._lines[line - 1]):
                return line
        return first
