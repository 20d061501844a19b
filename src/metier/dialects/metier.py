"""The `metadata.metier` block, our own: any number of tools, each with everything that can be said about one.

What it does not know inside a tool is an error, because a misspelt restriction would be none. Left out, a tool acts, its
risk is what it can do at worst, and it may touch only the skill's own folder and what its entry names.
"""

import re
from typing import Final, Literal

from metier.dialects.block_fields import Fields, kind, shown
from metier.dialects.draft import MOST_NOTES, Draft
from metier.dialects.metier_entry import entry_of
from metier.dialects.metier_grants import A_VARIABLE, VARIABLE, limits_of, permissions_of
from metier.dialects.metier_http import origin_of, secrets_of
from metier.dialects.names import skeleton
from metier.dialects.risk import RISKS, Effect, Risk, default_risk, raised
from metier.dialects.settings_names import check_names
from metier.dialects.tool_words import BINARY, PLAIN_BINARY, bring
from metier.model.digest import Json
from metier.model.entry import Command, Entry, HttpRequest
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.requirement import Requirements
from metier.model.skill import Limits, Tool
from metier.model.text import one_line
from metier.model.trust_level import LEVELS

MOST_TOOLS: Final = 100
LONGEST_DESCRIPTION: Final = 4_000
LONGEST_PROMPT: Final = 1_000
_BLOCK: Final = "metadata.metier"
_TOOL: Final = re.compile(r"[a-z0-9_-]{1,64}", re.ASCII)
_OS: Final = re.compile(r"[a-z0-9]{1,32}", re.ASCII)
_CONFIG: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){0,15}", re.ASCII)
_SKILL: Final = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*", re.ASCII)
_FIELDS: Final = (
    "name, description, parameters, returns, audience, effect, risk, cost, minimum_trust, approval, confirmation, permissions, "
    "limits and entry"
)


def apply(draft: Draft, block: Json, name: str) -> None:
    """Put the tools of the skill `name` into the draft, and say what is wrong with the block."""
    given = Fields(draft, _BLOCK, block)
    if not isinstance(block, dict):
        return
    network = given.flag("asks_network")
    tools = _tools(draft, given, name, network=network)
    wide = permissions_of(given.inner("permissions"))
    required = _requires(given.inner("requires"), tools)
    bring(draft, tools, wide, required)
    if network:
        draft.words["asks_network"] = True
    if (settings := given.schema("settings")) is not None:
        draft.words["settings_schema"] = settings
        check_names(draft, settings)
    for key in ("depends_on", "provides"):
        if found := given.texts(key, _SKILL, "write lower-case words joined by hyphens"):
            draft.words[key] = found
    if left := given.rest():
        draft.extra["metier"] = left
        listed = ", ".join(f'"{one_line(key, 60)}"' for key in [*left][:5])
        message = f"{_BLOCK}: {listed} is no field that Metier knows; it is kept and shown, nothing more"
        draft.note("unknown_field", "info", message, "metadata")


def _tools(draft: Draft, given: Fields, skill: str, *, network: bool) -> tuple[Tool, ...]:
    written = given.take("tools") if "tools" in given else []
    if not isinstance(written, list):
        given.wrong("tools", f"is {kind(written)}; write a list of tools")
        return ()
    if len(written) > MOST_TOOLS:
        given.wrong("tools", f"has {len(written):,} of them; {MOST_TOOLS} are the most, make several skills")
        return ()
    tools: list[Tool] = []
    taken: dict[str, str] = {}
    for number, each in enumerate(written, 1):
        where = _where(number, each)
        fields = Fields(draft, where, each)
        tool = _tool(draft, fields, skill, where, network=network) if isinstance(each, dict) else None
        if tool is not None:
            own = tool.name.removeprefix(f"{skill}/")
            other = taken.setdefault(skeleton(own), own)
            if any(tool.name == before.name for before in tools) or other != own:
                fields.wrong(
                    "name", f'is easily taken for "{other}", another tool of this skill; choose another'
                )
            tools.append(tool)
        if sum(note.severity == "error" for note in draft.notes) >= MOST_NOTES:
            break  # it is refused by now, and errors are always said
    return tuple(tools)


def _where(number: int, written: Json) -> str:
    name = written.get("name") if isinstance(written, dict) else None
    return f"{_BLOCK}: tool {number}" + (f' ("{one_line(name, 40)}")' if isinstance(name, str) else "")


def _tool(draft: Draft, given: Fields, skill: str, where: str, *, network: bool) -> Tool | None:
    name = given.word("name", _TOOL, "a name of 1 to 64 lower-case letters, digits, - and _")
    description = given.text("description", most=LONGEST_DESCRIPTION)
    parameters = given.schema("parameters") or {"type": "object", "properties": {}}
    returns = given.schema("returns", of_arguments=False)
    _audience(given)
    effect: Effect = given.choice("effect", ("read", "act"), "act")
    cost: Literal["free", "cheap", "expensive"] = given.choice("cost", ("free", "cheap", "expensive"), "free")
    trust = given.choice("minimum_trust", LEVELS, "observe" if effect == "read" else "supervised_auto")
    approval: Literal["policy", "always"] = given.choice("approval", ("policy", "always"), "policy")
    confirmation = _confirmation(given)
    asked = permissions_of(given.inner("permissions"))
    limits = limits_of(given.inner("limits")) if "limits" in given else Limits()
    if "entry" not in given:
        given.wrong(
            "entry", 'is missing; write what runs it, for example {"kind": "python", "path": "tool.py"}'
        )
        return None
    entry = entry_of(given.inner("entry"), parameters)
    if entry is None:
        return None
    permissions = OWN_FOLDER | asked | _implied(entry)
    _check_effect(given, effect, permissions)
    _check_start(given, entry, permissions)
    worst = default_risk(effect=effect, entry=entry, permissions=permissions, network=network)
    risk = _risk(draft, given, where, worst)
    given.no_more(_FIELDS)
    return Tool(
        name=f"{skill}/{name}",
        skill=skill,
        description=description,
        parameters=parameters,
        returns=returns,
        effect=effect,
        risk=risk,
        cost=cost,
        minimum_trust=trust,
        approval=approval,
        confirmation=confirmation,
        permissions=permissions,
        limits=limits,
        entry=entry,
    )


def _audience(given: Fields) -> None:
    if "audience" in given and (audience := given.take("audience")) != "model":
        given.wrong(
            "audience",
            f"is {shown(audience)}; tools of skills are for models, those for operators are Metier's own",
        )


def _confirmation(given: Fields) -> str | None:
    """What the caller is asked first; None when nobody is."""
    if "confirmation" not in given:
        return None
    if isinstance(given.peek("confirmation"), bool):
        return "" if given.flag("confirmation") else None
    return given.text("confirmation", most=LONGEST_PROMPT).strip()


def _implied(entry: Entry) -> PermissionSet:
    """What the entry itself names, and so asks for."""
    if isinstance(entry, Command):
        return PermissionSet(binaries=frozenset(entry.argv[:1]))
    if isinstance(entry, HttpRequest):
        return PermissionSet(hosts=frozenset({origin_of(entry)}), secrets=secrets_of(entry))
    return PermissionSet()


def _check_effect(given: Fields, effect: Effect, permissions: PermissionSet) -> None:
    if effect == "read" and (permissions.writes or permissions.channels):
        given.wrong(
            "effect", "is read, and it may write files or send messages; write act, or take those out"
        )


def _check_start(given: Fields, entry: Entry, permissions: PermissionSet) -> None:
    """A command starts in a folder it may see, or where the call is made."""
    if not isinstance(entry, Command) or not entry.cwd:
        return
    try:
        start = PermissionSet(reads=frozenset({entry.cwd}))
    except ValueError as error:
        given.wrong("entry: cwd", f"is none: {one_line(str(error), 200)}")
        return
    if not PermissionSet(reads=permissions.reads | permissions.writes).covers(start):
        given.wrong(
            "entry: cwd", f"is {shown(entry.cwd)}, which it may not read; add it to permissions: reads"
        )


def _risk(draft: Draft, given: Fields, where: str, default: Risk) -> Risk:
    declared: Risk = given.choice("risk", RISKS, default)
    if declared != raised(declared, default):
        message = (
            f"{where}: risk is {declared}, but by its effect, entry and permissions it is {default}, and that counts;"
            f" write {default}, or let it do less"
        )
        draft.note("risk_raised", "warning", message, "metadata")
    return raised(declared, default)


def _requires(given: Fields, tools: tuple[Tool, ...]) -> Requirements:
    """What must be there. A tool that is a command needs its program."""
    own = (tool.entry.argv[0] for tool in tools if isinstance(tool.entry, Command))
    found = Requirements(
        binaries=tuple(dict.fromkeys((*given.texts("binaries", BINARY, PLAIN_BINARY), *own))),
        any_binaries=given.texts("any_binaries", BINARY, PLAIN_BINARY),
        env=given.texts("env", VARIABLE, A_VARIABLE),
        config=given.texts("config", _CONFIG, "write a dotted path such as channels.telegram"),
        os=given.texts("os", _OS, "write linux, darwin or win32"),
        always=given.flag("always"),
    )
    given.no_more("binaries, any_binaries, env, config, os and always")
    return found
