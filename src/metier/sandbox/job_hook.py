"""The parts of a job that only a hook has: its event, the output of the tool it is about, and the form of its result.

The arguments of such a call are `event` and, where the event is about a tool, `tool_output`. The first becomes the
`hook` of the job's context, the second the variable `CLAUDE_TOOL_OUTPUT`: on events about tools, and on no other.
"""

from collections.abc import Mapping
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.model.digest import Json
from metier.model.entry import Entry, ScriptHandler
from metier.model.hook import HOOK, HookContext, HookEvent
from metier.model.job import Job
from metier.model.text import one_line

TOOL_OUTPUT: Final = "CLAUDE_TOOL_OUTPUT"


@final
class Hooked(Struct, frozen=True, kw_only=True):
    """What a hook's job has that no other has."""

    environment: dict[str, str]
    context: dict[str, Json]


def hook_of(entry: Entry, arguments: Mapping[str, Json]) -> Hooked | str | None:
    """The parts of a hook, or why there are none; None where the entry is no hook."""
    if not isinstance(entry, ScriptHandler) or not entry.hook:
        return None
    given, output = arguments.get("event"), arguments.get("tool_output", "")
    try:
        event = msgspec.convert(given, HookEvent)
    except msgspec.ValidationError as error:
        return f"what the hook would be given is no event: {one_line(str(error), 300)}"
    about_tool = event.type == "tool"
    if not isinstance(output, str) or (output and not about_tool):
        return "the output of a tool is a text, and goes only with an event about a tool"
    return Hooked(environment={TOOL_OUTPUT: output} if about_tool else {}, context={HOOK: given})


def unfit_context(job: Job, value: Json) -> str:
    """Why `value` is not what a hook leaves; empty when it is, or when the job is no hook."""
    if HOOK not in job.context:
        return ""
    event = msgspec.convert(job.context[HOOK], HookEvent)
    try:
        left = msgspec.convert(value, HookContext)
    except msgspec.ValidationError as error:
        return f"the hook left a context that is none: {one_line(str(error), 300)}"
    if left.workspace_dir not in (msgspec.UNSET, event.context.workspace_dir):
        return (
            "the hook left another workspaceDir than it was given; where the workspace is, is not its to say"
        )
    return ""
