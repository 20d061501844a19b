"""Call → ValidCall: the tool exists, the skill it concerns is known, the arguments fit the schema.

What comes out is in its one form, as if parsed back from its canonical bytes, so what is bound, shown and run is one and
the same. The caller's word (`confirmed`) is no longer among the arguments.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from metier.catalog.catalog import Catalog
from metier.dialects.names import skeleton
from metier.gate.checked_paths import spelled_once
from metier.gate.claims import claim_in_kept, without_claims
from metier.gate.in_skill import needed_in
from metier.gate.ladder import is_disclosure, is_inner, is_operation
from metier.gate.named_checks import check_problem
from metier.gate.no_such_tool import why_not
from metier.gate.sanitize import sanitized
from metier.gate.schema import problem_with, schema_problem
from metier.model.call import Call, Principal, ValidCall
from metier.model.confirmation_flag import FLAG, parameters_of, without_flag
from metier.model.digest import Json
from metier.model.ground import Ground
from metier.model.outcome import Refused
from metier.model.permission import PermissionSet
from metier.model.settled import settled
from metier.model.skill import Skill, Tool
from metier.model.skill_path import path_in
from metier.model.strictjson import MAX_BYTES
from metier.model.text import one_line

_NOWHERE: Final = Ground()
MAX_DEPTH: Final = 8
"""How many running calls a call can be made inside of."""


def validate(
    call: Call, *, tools: Mapping[str, Tool], catalog: Catalog, ground: Ground = _NOWHERE
) -> ValidCall | Refused:
    """The call with arguments that can be relied on, or why there is none.

    Args:
        ground: where the paths lie that named checks of a tool ask for; for such a tool the disk is looked at.
    """
    if not 0 <= call.depth <= MAX_DEPTH:
        return Refused(
            call_id=call.id,
            code="not_runnable",
            reasons=(f"calls made inside calls are {MAX_DEPTH} deep at most, and this one is {call.depth}",),
            remedy="Find out which tools call each other in a circle",
        )
    tool = tools.get(call.tool)
    if tool is None:
        if (refused := why_not(call, catalog)) is not None:
            return refused
        known = _known(tools, call.principal, catalog)
        return Refused(
            call_id=call.id,
            code="unknown_tool",
            reasons=(f"there is no tool {one_line(call.tool[:200], 80)!r}",),
            remedy=_nearest(call.tool, known) or _some(known, tools, call.principal),
        )
    judged = _arguments(call.arguments, tool, ground)
    if isinstance(judged, str):
        remedy = f"Send a JSON object that fits the schema of {tool.name!r}"
        return Refused(call_id=call.id, code="invalid_arguments", reasons=(judged,), remedy=remedy)
    arguments, confirmed = judged
    skill: Skill | None = None
    by_code = is_operation(tool) and call.principal.kind == "skill" and call.principal.id.startswith("skill:")
    if tool.skill or tool.subject or by_code:
        # What the code of a skill asks of us runs under the skill's name, and within what the skill was granted.
        given = call.principal.id.partition(":")[2] if by_code else tool.skill or arguments.get(tool.subject)
        name = given if isinstance(given, str) else ""
        found = catalog.get(name)
        if found is None or found.skill is None:
            return Refused(
                call_id=call.id,
                code="unknown_skill",
                reasons=(f"there is no skill {one_line(name[:200], 80)!r}",),
                remedy=_nearest(
                    name, (each for each in catalog.by_name if _may_hear(call.principal, each, catalog))
                )
                or "`metier skills list` shows all, `metier skills check` why one is missing",
            )
        skill = found.skill
        if skill.source == "community" and not is_disclosure(tool):
            return Refused(
                call_id=call.id,
                code="not_runnable",
                reasons=(
                    f"skill {skill.name!r} is from the community: it is read, and nothing in it is run",
                ),
                remedy="Look at what it brings; to run that, make the skill your own and take `source` out of its file",
            )
        file = arguments.get(tool.subject_file) if tool.subject_file else None
        if isinstance(file, str):
            arguments = {**arguments, tool.subject_file: path_in(skill, file)}
    permissions = tool.permissions
    if tool.as_subject and skill is not None:
        needed = needed_in(skill, arguments, ground)
        if isinstance(needed, str):
            remedy = f"Mend the arguments of {tool.name!r}; `read_skill` shows what the skill has"
            return Refused(call_id=call.id, code="invalid_arguments", reasons=(needed,), remedy=remedy)
        permissions = needed
    if by_code and skill is not None and tool.skill not in ("", skill.name):
        permissions = _through(skill, tool, catalog)
    return ValidCall(
        call=call,
        tool=tool,
        arguments=arguments,
        skill=skill,
        permissions=permissions,
        confirmed=confirmed,
    )


def _through(skill: Skill, tool: Tool, catalog: Catalog) -> PermissionSet:
    """What a skill needs to have another do something for it: to have been granted that very operation, or whatever the other may
    do, so that nobody gets by way of another what he has not."""
    other = catalog.get(tool.skill)
    if tool.name in skill.permissions.operations or other is None or other.skill is None:
        return PermissionSet(operations=frozenset({tool.name}))
    return other.skill.permissions


def _arguments(given: Json, tool: Tool, ground: Ground) -> tuple[dict[str, Json], bool | None] | str:
    """The arguments, and the caller's word where the tool needs it; or what is wrong with them."""
    if not isinstance(given, dict):
        return "arguments must be a JSON object"
    try:
        arguments = cast("dict[str, Json]", settled(given, unclean=tool.sanitize))
    except ValueError as error:
        return f"arguments are not strict JSON: {error}"
    if is_operation(tool):
        if lost := claim_in_kept(tool.name, arguments):
            return lost
        arguments = without_claims(arguments)
    size = len(msgspec.json.encode(arguments))
    if size > MAX_BYTES:
        return f"arguments have {size:,} bytes; at most {MAX_BYTES:,} are taken"
    confirmed: bool | None = None
    if tool.confirmation is not None:
        arguments, flag = without_flag(arguments)
        if not isinstance(flag, bool):
            return f"argument {FLAG!r} can only be the JSON value true or false"
        confirmed = flag
        if alike := _alike(arguments, tool):
            return f"argument {one_line(alike, 80)!r} looks like {FLAG!r} and is not it"
    try:
        if tool.sanitize:
            if why := schema_problem(tool.parameters):
                raise ValueError(why)
            arguments = sanitized(arguments, tool.parameters)
        problem = _unfit(arguments, tool)
    except ValueError as error:
        return f"{tool.name!r} cannot be called: {error}"
    if not problem and tool.checks:
        problem = check_problem(tool, arguments, ground)
        arguments = arguments if problem else spelled_once(tool, arguments, ground)
    return problem or (arguments, confirmed)


def _unfit(arguments: dict[str, Json], tool: Tool) -> str:
    if tool.confirmation is None:
        return problem_with(tool.parameters, arguments)
    # As they will be once they are confirmed: whoever leaves the word out is asked for it, not refused.
    return problem_with(parameters_of(tool), {**arguments, FLAG: True})


def _alike(arguments: dict[str, Json], tool: Tool) -> str:
    """An argument that could be taken for the caller's word, and that the tool does not name itself."""
    named = tool.parameters.get("properties")
    known = named if isinstance(named, dict) else {}
    like = skeleton(FLAG)
    return next((name for name in arguments if name not in known and skeleton(name.strip()) == like), "")


def _known(tools: Mapping[str, Tool], principal: Principal, catalog: Catalog) -> list[str]:
    """The tools that may be named to this principal: those for operators, and of skills that models may not invoke, are told to no
    model, those for the code of skills to nobody."""
    human = principal.kind == "human"
    return sorted(
        name
        for name, tool in tools.items()
        if (human or (tool.audience == "model" and not tool.privileged))
        and not is_inner(tool)
        and _may_hear(principal, tool.skill, catalog)
    )


def _some(known: list[str], tools: Mapping[str, Tool], principal: Principal) -> str:
    """Some of the tools there are. A model is shown no operations of modules, so here it is named none either."""
    human = principal.kind == "human"
    names = [name for name in known if human or not is_operation(tools[name])]
    return f"Tools are: {', '.join(names[:20])}"


def _may_hear(principal: Principal, skill: str, catalog: Catalog) -> bool:
    """Whether the name of a skill may be suggested to this principal."""
    found = catalog.get(skill) if skill else None
    return principal.kind == "human" or found is None or found.skill is None or found.skill.model_may_invoke


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name[:200], list(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""
