"""`tests.json`: what a skill's author expects of it. Reading and judging; nothing is called here.

A case calls one tool of the skill and says how that ends, or it says what the skill itself is. It can name no tool but the skill's own
and `read_skill` of the skill itself, so whoever runs it runs nothing else.
"""

from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.errors import ConfigError
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.skill import Skill, Tool
from metier.model.text import one_line

FILE: Final = "tests.json"
MOST: Final = 1_000
_REMEDY: Final = "docs/cli.md says what may stand there"
_ENDS: Final[dict[type[Outcome], str]] = {
    Completed: "completed",
    Failed: "failed",
    Refused: "refused",
    Pending: "pending",
}
End: TypeAlias = Literal["completed", "failed", "refused"]


@final
class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that is expected."""

    about: str
    """In a sentence, for whoever reads that it does not hold."""
    tool: str = ""
    """Of this skill, without the skill's name; or `read_skill`."""
    arguments: dict[str, Any] = {}
    outcome: End = "completed"
    code: str | None = None
    """Of a refusal or a failure."""
    value: Any = msgspec.UNSET
    """What comes back, exactly."""
    contains: str = ""
    """A text in what comes back."""
    says: dict[str, Any] = {}
    """Instead of a call: fields of the skill as Metier reads it, with their values."""


def read_cases(data: bytes) -> tuple[Case, ...]:
    """The cases of a file, in their order.

    Raises:
        ConfigError: when it is not what it may be.
    """
    try:
        cases = msgspec.convert(strictjson.loads(data), tuple[Case, ...])
    except ValueError as error:
        raise ConfigError(f"{FILE} cannot be read: {one_line(str(error), 300)}", remedy=_REMEDY) from None
    if not 0 < len(cases) <= MOST:
        raise ConfigError(f"{FILE} has {len(cases)} cases; write 1 to {MOST}", remedy=_REMEDY)
    for each in cases:
        if bool(each.tool) == bool(each.says):
            about = one_line(each.about, 80)
            raise ConfigError(
                f"{FILE}: {about!r} has to say either `tool` or `says`, one of the two", remedy=_REMEDY
            )
    return cases


def meant(case: Case, skill: Skill) -> tuple[Tool, dict[str, Json]]:
    """The tool that a case calls, and with what.

    Raises:
        ConfigError: when the skill has no such tool.
    """
    if case.tool == READ_SKILL.name:
        return READ_SKILL, {**case.arguments, "name": skill.name}
    for tool in skill.tools:
        if case.tool in (tool.name, tool.name.removeprefix(f"{skill.name}/")):
            return tool, case.arguments
    names = ", ".join([*(tool.name.removeprefix(f"{skill.name}/") for tool in skill.tools), READ_SKILL.name])
    about, tool_name = one_line(case.about, 80), one_line(case.tool, 80)
    raise ConfigError(f"{FILE}: {about!r} calls {tool_name!r}; this skill has {one_line(names, 300)}")


def not_as_expected(case: Case, outcome: Outcome) -> str:
    """What is otherwise than the case says; empty when nothing is."""
    ended = _ENDS[type(outcome)]
    if ended != case.outcome:
        return f"it was to be {case.outcome} and {_how(outcome)}"
    code = outcome.code if isinstance(outcome, Refused | Failed) else None
    if case.code is not None and code != case.code:
        return f"it was to end with the code {case.code!r} and {_how(outcome)}"
    value = outcome.value if isinstance(outcome, Completed | Failed) else None
    if case.value is not msgspec.UNSET and not _same(value, case.value):
        return f"it was to give {_shown(case.value)} and gave {_shown(value)}"
    if case.contains and case.contains not in (value if isinstance(value, str) else _json(value)):
        return f"what it gave does not contain {one_line(case.contains, 200)!r}: {_shown(value)}"
    return ""


def not_said(case: Case, skill: Skill) -> str:
    """Which field of the skill is otherwise than the case says; empty when none is."""
    said = msgspec.to_builtins(skill)
    for name, wanted in case.says.items():
        if not _same(said.get(name), wanted):
            return f"`{one_line(name, 60)}` was to be {_shown(wanted)} and is {_shown(said.get(name))}"
    return ""


def _same(one: Any, other: Any) -> bool:
    """As JSON has it: `1` and `true` are two things, whatever Python says."""
    return _json(one) == _json(other)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode("utf-8")


def _shown(value: Any) -> str:
    return one_line(_json(value), 300)


def _how(outcome: Outcome) -> str:
    match outcome:
        case Completed(value=value):
            return f"completed, with {_shown(value)}"
        case Failed(code=code, message=message):
            return f"failed ({code}): {one_line(message, 300)}"
        case Refused(code=code, reasons=reasons, remedy=remedy):
            why = one_line("; ".join(filter(None, (*reasons, remedy))), 400)
            return f"was refused ({code}): {why}"
        case Pending(reasons=reasons):
            return f"waits for an approval: {one_line('; '.join(reasons), 300)}"
