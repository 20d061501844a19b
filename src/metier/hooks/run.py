"""The hook runner: a hook of a skill is called with an event, and gives back the event's context as it left it.

A hook runs by a call like any other, through every stage and onto the record. It may read the workspace and the
skill's own files, sees `CLAUDE_TOOL_OUTPUT` on events about tools, and has nothing else: no network, no program, no
other variable, whatever its skill was granted. Only what lies in the `hooks` folder of a skill is a hook, and only an
operator may have one run: an event is something that happened, not something that an agent says.
"""

import re
import secrets
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from metier.gate.budget import HOOK
from metier.gate.situation import Situation
from metier.model.call import Call, Principal, ValidCall
from metier.model.digest import Json
from metier.model.entry import ScriptHandler
from metier.model.hook import HookEvent
from metier.model.outcome import Outcome
from metier.model.permission import WORKSPACE, PermissionSet
from metier.model.skill import Limits, Tool
from metier.pipeline import House, run

NAME: Final = HOOK
LIMITS: Final = Limits(timeout=10.0)
MOST_OUTPUT: Final = 262_144
"""Characters of a tool's output that a hook is shown."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_FILE: Final = r"^hooks/(?:[^/.][^/]*/)*[^/.][^/]*\.[cm]?[jt]s$"
_DEFINITIONS: Final = msgspec.json.schema_components([HookEvent], ref_template="#/$defs/{name}")[1]
_PARAMETERS: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "skill": {"type": "string"},
        "hook": {"type": "string", "pattern": _FILE},
        "event": {"$ref": "#/$defs/HookEvent"},
        "tool_output": {"type": "string"},
    },
    "required": ["skill", "hook", "event"],
    "additionalProperties": False,
    "if": {"properties": {"event": {"properties": {"type": {"const": "tool"}}}}},
    "else": {"properties": {"tool_output": False}},
    "$defs": _DEFINITIONS,
}


async def run_hook(
    house: House,
    *,
    skill: str,
    hook: str,
    event: Json,
    principal: Principal,
    workspace: str = "",
    tool_output: str | None = None,
    limits: Limits = LIMITS,
    export: str = "default",
    inside: str = "",
    fired: bool = False,
) -> Outcome:
    """Call one hook. The value of a `Completed` is a context of the same form as the one in `event`.

    Args:
        hook: the file below the skill's folder, for example `hooks/openclaw/handler.ts`.
        event: `type`, `action`, `sessionKey` and `context`; anything else refuses the call.
        workspace: the one folder it may read, absolute; the operator's workspace when empty. The event's context says
            it as `workspaceDir`.
        tool_output: what the tool said, where the event is about one. On any other event it refuses the call.
        export: which function of the file it is.
        inside: the id of the call that the event is about, where it is about one.
        fired: whether it happened, and nobody asked for it; then it is not counted as something `principal` does.

    Raises:
        ValueError: when `workspace` is not an absolute path in its normal form.
    """
    contract = PermissionSet(reads=frozenset({workspace or WORKSPACE}))
    tool = Tool(
        name=NAME,
        description="Call a hook of a skill with an event.",
        parameters=_PARAMETERS,
        audience="operator",
        subject="skill",
        permissions=contract,
        limits=limits,
        entry=ScriptHandler(path=hook, language=_language(hook), export=export, hook=True),
    )
    arguments: dict[str, Json] = {
        "skill": skill,
        "hook": hook,
        "event": _with_workspace(event, workspace or house.workshop.ground.workspace),
    }
    if tool_output is not None:
        arguments["tool_output"] = shown(tool_output)
    call = Call(
        id=f"call_{secrets.token_hex(12)}",
        principal=principal,
        tool=NAME,
        arguments=arguments,
        parent=inside or None,
        unattended=fired,
        fleeting=True,
    )

    async def look(valid: ValidCall) -> Situation:
        # To bring a hook is to ask for what every hook is given, so the operator's trust in these bytes grants it.
        found = await house.look(valid)
        return replace(found, granted=found.granted | contract)

    return await run(
        call,
        House(  # with nobody around it: a hook sets off no hooks
            tools={NAME: tool},
            catalog=house.catalog,
            look=look,
            operations=house.operations,
            recorder=house.recorder,
            workshop=house.workshop,
        ),
    )


def _language(hook: str) -> Literal["javascript", "typescript"]:
    return "typescript" if hook.endswith("ts") else "javascript"


def _with_workspace(event: Json, workspace: str) -> Json:
    """The event, saying where the workspace is. What is no event is left as it is, for the gate to refuse."""
    context = event.get("context") if isinstance(event, dict) else None
    if not isinstance(event, dict) or not isinstance(context, dict) or not workspace:
        return event
    return {**event, "context": {**context, "workspaceDir": workspace}}


def shown(output: str) -> str:
    """Output as a variable can hold it: what moves a cursor, and half a character, are marked; the end is cut off."""
    text = _CONTROL.sub("\ufffd", output[:MOST_OUTPUT])
    return text if len(output) <= MOST_OUTPUT else f"{text}… [cut, {len(output):,} characters]"
