"""The actions of a friday skill as tools: code, HTTP and shell, written flat or with the kind as a map of its own.

A flat action is `{type: "http", url: …}`, a wrapped one `{id, type: "http", http: {url: …}}`. Both mean the same.
"""

import re
from typing import Final, Literal, TypeAlias, cast

from metier.dialects.about import check_hidden
from metier.dialects.friday_http import effect_of, request
from metier.dialects.friday_part import Part
from metier.dialects.friday_schemas import LONGEST_DESCRIPTION, NOT_DESCRIBED, Described, schema_in
from metier.dialects.friday_shell import command
from metier.dialects.risk import default_risk
from metier.dialects.written_secrets import looks_secret
from metier.model.digest import Json
from metier.model.entry import Entry, HttpRequest, InlineCode
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.skill import Limits, Tool
from metier.model.text import one_line

MOST_ACTIONS: Final = 100
LONGEST_CODE: Final = 10_000
LONGEST_MS: Final = 300_000
DEFAULT_MS: Final = 30_000
MOST_MEMORY_MB: Final = 65_536
Kind: TypeAlias = Literal["code", "http", "shell"]
KINDS: Final[tuple[Kind, ...]] = ("code", "http", "shell")
_SILENT: Final = frozenset({"name", "tools.type"})
"""Kept without a word: they are of no use to anybody but people."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_Made: TypeAlias = tuple[Entry, PermissionSet] | None


def tools_of(whole: Part, skill: str, tools: dict[str, Described], *, approval: bool) -> tuple[Tool, ...]:
    """A tool for each action. What is wrong with one is said; then the skill is refused.

    Args:
        tools: how a model is told to call the action of each name.
        approval: whether the skill wants every action of it approved.
    """
    made: list[Tool] = []
    seen: set[str] = set()
    names: set[str] = set()
    for at, fields in enumerate(whole.maps("actions", MOST_ACTIONS), 1):
        part = Part(whole.draft, fields, f"action {at}", "actions")
        kind = cast(Kind | Literal[""], part.one_of("type", KINDS, needed=True))
        name = _id_of(part, kind, at)
        if name and name.casefold() in seen:
            part.note("bad_action", "error", "another action has this id; give each its own")
        seen.add(name.casefold())
        names.add(name)
        if kind:
            told = tools.get(name, NOT_DESCRIBED)
            block = _block(part, kind)
            tool = _tool(part, block, kind, name, skill, told, approval=approval)
            made += [tool] if tool is not None else []
            _keep(part, block, kind, name, told)
        whole.sound = whole.sound and part.sound
    _keep_tools(whole, tools, names)
    return tuple(made)


def _id_of(part: Part, kind: str, at: int) -> str:
    written = part.text("id", 200).strip()
    if not written and kind:
        written = f"{kind}-{at}"
        part.note("action_unnamed", "info", f"it has no id and is called `{written}`; give it one that stays")
    elif written and not _ID.fullmatch(written):
        message = f"the id {one_line(written, 80)!r} is refused; use 1 to 64 of A-Z a-z 0-9 _ -"
        part.note("bad_action", "error", message)
    if written:
        part.label = f"action {one_line(written, 64)}"
    return written


def _tool(
    part: Part, block: Part, kind: Kind, name: str, skill: str, told: Described, *, approval: bool
) -> Tool | None:
    described = part.text("description", LONGEST_DESCRIPTION).strip()
    asked = part.flag("requireApproval")
    enabled = part.flag("enabled")
    limits = _limits(part, block)
    # What a program or a server gives back comes with its exit or status; a schema is for what code returns.
    returns = (schema_in(part, "outputSchema") or told.returns) if kind == "code" else None
    made = _made(block, kind, told.parameters)
    part.sound = part.sound and block.sound
    if made is None or not part.sound:
        return None
    if enabled is False:
        part.note("action_disabled", "info", "it says `enabled: false`, so it is not offered")
        return None
    entry, permissions = made
    effect = effect_of(entry.method) if isinstance(entry, HttpRequest) else "act"
    description = told.description or described or f"The {kind} action {name} of the skill {skill}."
    check_hidden(part.draft, "description", description)
    return Tool(
        name=f"{skill}/{name}",
        skill=skill,
        description=description,
        parameters=told.parameters,
        returns=returns,
        effect=effect,
        risk=default_risk(effect=effect, entry=entry, permissions=permissions),
        minimum_trust="observe" if effect == "read" else "supervised_auto",
        approval="always" if approval or asked else "policy",
        permissions=permissions,
        limits=limits,
        entry=entry,
    )


def _block(part: Part, kind: Kind) -> Part:
    """Where the fields of the kind stand: in a map of that name, or beside the type."""
    others = [other for other in KINDS if other != kind and part.fields.get(other) is not None]
    if others:
        message = f"its type is {kind}, but it has `{others[0]}` too; one action does one thing"
        part.note("bad_action", "error", message)
    if isinstance(part.fields.get(kind), dict):
        return part.part(kind) or part
    return part


def _limits(part: Part, block: Part) -> Limits:
    """The stricter of two times, where both maps have one."""
    given = [
        each for each in (part.number("timeoutMs", LONGEST_MS), block.number("timeoutMs", LONGEST_MS)) if each
    ]
    memory = block.whole("memoryLimitMb", 1, MOST_MEMORY_MB)
    timeout = min(given, default=DEFAULT_MS) / 1000
    return Limits(timeout=timeout) if memory is None else Limits(timeout=timeout, memory_mb=memory)


def _made(block: Part, kind: Kind, parameters: dict[str, Json]) -> _Made:
    match kind:
        case "code":
            return _code(block)
        case "http":
            return request(block, parameters)
        case "shell":
            return command(block, parameters)


def _code(block: Part) -> _Made:
    language = block.one_of("language", ("javascript", "python"), needed=True)
    source = block.text("code", LONGEST_CODE, needed=True)
    if looks_secret(source):
        message = "the code seems to hold a credential in plain sight; store it as a secret"
        block.note("credential_written", "warning", message)
    if not block.sound:
        return None
    return InlineCode(language="python" if language == "python" else "javascript", source=source), OWN_FOLDER


def _keep(part: Part, block: Part, kind: Kind, name: str, told: Described) -> None:
    """Nothing is dropped: what no one asked for goes to `extra.actions`, by id."""
    rest = part.unread()
    if block is not part:
        rest |= {f"{kind}.{key}": value for key, value in block.unread().items()}
    rest |= {f"tools.{key}": value for key, value in told.rest.items()}
    if kind != "code" and told.returns is not None:
        rest["tools.outputSchema"] = told.returns
    if not rest:
        return
    if strange := [one_line(key, 40) for key in rest if key not in _SILENT]:
        part.note("unknown_field", "info", f"{', '.join(strange[:5])} is kept and shown, nothing more")
    kept = part.draft.extra.setdefault("actions", {})
    if isinstance(kept, dict):
        kept[name] = rest


def _keep_tools(whole: Part, tools: dict[str, Described], names: set[str]) -> None:
    """Tools that no action stands behind: F.R.I.D.A.Y. has them from elsewhere."""
    lone = {name: told.written for name, told in tools.items() if name not in names}
    if not lone:
        return
    shown = ", ".join(one_line(name, 40) for name in [*lone][:5])
    message = f"no action has the name of the tool {shown}, so nothing here runs it; it is kept and shown"
    whole.note("tool_without_action", "info", message, "tools")
    whole.draft.extra["tools"] = [*lone.values()]
