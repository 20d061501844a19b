"""The module `policy`: the rules with their examples, what every layer would say to a call, and other rules over the past.

Nothing here changes a rule: they are in a file of the operator's, and nowhere else.
"""

import os
from typing import Any, Final, cast, final

import msgspec
from anyio import CapacityLimiter, to_thread

from metier.gate.explain import Explained
from metier.gate.rule_file import GONE, Examined, Problem, examine, examine_text, policy_file
from metier.gate.rules import FIELDS
from metier.kernel.idle_rules import idle_rules
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module
from metier.kernel.operators import BAD_PARAMS, Desk, for_operators, taking, text
from metier.kernel.replaying import MOST_SECONDS, Bounds, replayed
from metier.model.digest import Json
from metier.model.outcome import Refused
from metier.model.role import APPROVE, READ_AUDIT
from metier.model.trust_level import LEVELS
from metier.model.verdict import Decision
from metier.record.policy import NONE, last_policy

_TOOL: Final[dict[str, Json]] = {"type": "string", "minLength": 1, "maxLength": 300}
_WHO: Final[dict[str, Json]] = {"type": "string", "maxLength": 200}
_LEVEL: Final[dict[str, Json]] = {"enum": ["", *LEVELS]}
_ANYTHING: Final[dict[str, Json]] = {"type": "object"}
_WHEN: Final[dict[str, Json]] = {
    "type": "string",
    "pattern": "^([0-9]{4}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2}(:[0-9]{2}(:[0-9]{2})?)?)?)?)?)?$",
}
_SECONDS: Final[dict[str, Json]] = {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_SECONDS}
_NUMBER: Final[dict[str, Json]] = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
_YES: Final[dict[str, Json]] = {"type": "boolean"}
_BRIEF: Final = 1.0
"""Seconds. What takes no longer does not wait for what may."""
_RULES: Final[dict[str, Json]] = {"type": "string", "maxLength": 1_048_576}
_DECISIONS: Final = (Decision.ALLOW, Decision.ASK, Decision.DENY)


@final
class PolicyDesk:
    """Belongs to one loop."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._alone = CapacityLimiter(1)
        """One walk through the past at a time: each reads much."""
        self._brief = CapacityLimiter(1)
        """And one that is soon over."""

    def module(self) -> Module:
        """`policy.rules`, `explain` and `replay`."""
        return module(
            "policy",
            for_operators(
                "policy.rules",
                self._rules,
                "The operator's rules, each with its examples and whether they hold.",
                NOTHING,
                permission=READ_AUDIT,
                effect="read",
            ),
            for_operators(
                "policy.explain",
                self._explain,
                "What every layer would say to a call that is not made.",
                taking(["tool"], tool=_TOOL, arguments=_ANYTHING, level=_LEVEL, **{"as": _WHO}),
                permission=READ_AUDIT,
                effect="read",
            ),
            for_operators(
                "policy.replay",
                self._replay,
                "Which recorded calls would have ended otherwise under other rules, or under those of today.",
                taking(
                    since=_WHEN,
                    until=_WHEN,
                    rules=_RULES,
                    newest_first=_YES,
                    before=_NUMBER,
                    seconds=_SECONDS,
                ),
                permission=READ_AUDIT,
                effect="read",
            ),
        )

    async def _rules(self, asked: Asked) -> Json:
        return await to_thread.run_sync(self._shown)

    def _shown(self) -> Json:
        path = policy_file(self._desk.settings())
        found, there = self._today()
        idle = {rule.number: why for rule, why in idle_rules(found.rules.rules, self._desk.catalog())}
        decisions = [str(each.get("decision", "")) for each in found.written]
        counts: dict[str, Json] = {
            each.name.lower(): decisions.count(each.name.lower()) for each in _DECISIONS
        }
        return {
            "file": path,
            "there": there,
            "ok": not found.problems,
            "digest": found.rules.digest,
            "counts": counts,
            "examples": found.examples,
            "rules": [
                _rule(number, line, written, found.problems, idle.get(number, ""))
                for number, (line, written) in enumerate(zip(found.lines, found.written, strict=True), 1)
            ],
            "problems": [_problem(each) for each in found.problems if not each.rule],
        }

    def _today(self) -> tuple[Examined, bool]:
        """The rules there are. A file that is gone does not mean that there are none. Blocking."""
        path = policy_file(self._desk.settings())
        there = os.path.lexists(path)
        if not there and last_policy(self._desk.database) != NONE:
            return Examined(problems=(GONE,)), there
        return examine(path), there

    async def _explain(self, asked: Asked) -> Json:
        arguments = asked.arguments.get("arguments", {})
        found = await self._desk.explain(
            text(asked, "tool"),
            arguments,
            text(asked, "as"),
            text(asked, "level") or None,
            APPROVE in (await to_thread.run_sync(self._desk.decider, asked)).rights,
        )
        if isinstance(found, Explained):
            return {**cast("dict[str, Json]", msgspec.to_builtins(found)), "refused": None}
        return {**_NOT_ASKED, "refused": _refused(found), "ends": "refused", "code": found.code}

    async def _replay(self, asked: Asked) -> Json:
        since, until = text(asked, "since"), text(asked, "until")
        if until and since > until:
            raise OperationError(BAD_PARAMS, f"{since} is after {until}")
        rules = asked.arguments.get("rules")
        before, seconds = asked.arguments.get("before"), asked.arguments.get("seconds")
        bounds = Bounds(
            since=since,
            until=until,
            before=before if isinstance(before, int) else 0,
            newest_first=asked.arguments.get("newest_first") is True,
            seconds=float(seconds) if isinstance(seconds, int | float) else MOST_SECONDS,
        )
        return await to_thread.run_sync(
            self._replayed,
            rules if isinstance(rules, str) else None,
            bounds,
            limiter=self._brief if bounds.seconds <= _BRIEF else self._alone,
        )

    def _replayed(self, rules: str | None, bounds: Bounds) -> Json:
        found = examine_text(rules) if rules is not None else self._today()[0]
        about: dict[str, Json] = {
            "ok": not found.problems,
            "problems": [{**_problem(each), "rule": each.rule} for each in found.problems],
            "digest": found.rules.digest,
        }
        if found.problems:  # they would deny everything, and there is nothing to compare
            return {**about, **_NOTHING_REPLAYED}
        return {**about, **replayed(self._desk.database, found.rules, self._desk.catalog(), bounds)}


_NOT_ASKED: Final[dict[str, Json]] = {
    "tool": "",
    "skill": "",
    "principal": "",
    "trust_level": "",
    "layers": [],
    "reasons": [],
    "remedy": "",
    "grants": [],
}
_NOTHING_REPLAYED: Final[dict[str, Json]] = {
    "summary": {"judged": 0, "same": 0, "otherwise": 0, "undecidable": 0, "unasked": 0},
    "kinds": [],
    "calls": [],
    "calls_left_out": 0,
    "cut": "",
    "through": 0,
    "through_at": "",
}


def _refused(found: Refused) -> Json:
    return {"code": found.code, "reasons": [*found.reasons], "remedy": found.remedy}


def _problem(each: Problem) -> dict[str, Json]:
    return {"message": each.message, "remedy": each.remedy, "line": each.line}


def _rule(number: int, line: int, written: dict[str, Any], problems: tuple[Problem, ...], idle: str) -> Json:
    """A rule as it stands in the file, also one that something is wrong with: so it is read as it is, and cut to plain data."""
    wrong: list[Json] = [_problem(each) for each in problems if each.rule == number]
    about: dict[str, Json] = {}
    for field in FIELDS:
        if (named := written.get(field)) is not None:
            listed = cast("list[Any]", named) if isinstance(named, list) else [named]
            about[field] = [str(each) for each in listed]
    return {
        "number": number,
        "line": line,
        "name": str(written.get("name", "")),
        "decision": str(written.get("decision", "")),
        "because": str(written.get("because", "")),
        "about": about,
        "when": str(written.get("when", "")),
        "match": _examples(written.get("match")),
        "not_match": _examples(written.get("not_match")),
        "ok": not wrong,
        "problems": wrong,
        "idle": idle,
    }


def _examples(found: object) -> list[Json]:
    """TOML knows dates, which JSON does not: they become text."""
    listed = cast("list[Any]", found) if isinstance(found, list) else []
    return [cast("Json", msgspec.to_builtins(each, str_keys=True)) for each in listed]
