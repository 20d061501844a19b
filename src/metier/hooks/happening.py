"""What hooks are told: events as JSON. Making one may take a while: it is done in a thread.

Who looks on sees a mask over what is likely a secret. Who has to agree sees the arguments as they will run: a mask that goes by how a
text looks would let who calls choose what is hidden from a gate. The record of its own call masks them as it does those of every call.

Around tool calls a hook is told of tools that skills bring, and of what models run in a skill. Reading a skill is no act; an operation
of a module is our own; what is for operators alone (a life, a hook itself, reading code by running it) sets off no hooks.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias, final

import msgspec
from msgspec import Struct

from metier.hooks.run import shown
from metier.model.call import ValidCall
from metier.model.digest import Json
from metier.model.entry import Operation
from metier.model.hook import BootstrapFile
from metier.model.outcome import Completed, Failed
from metier.record.redact import redact
from metier.record.secret_arguments import kept_arguments
from metier.record.secret_text import MASK

MOST_PARAMS: Final = 262_144
"""Bytes of arguments that a hook is shown."""
MOST_TEXT: Final = 65_536
"""Characters of a message that a hook is shown."""
MOST_KEY: Final = 1_000
MAIN: Final = "main"
_LEAST_HIDDEN: Final = 4
"""Shorter ones stand in half of all sentences."""
Words: TypeAlias = Mapping[str, str]


@final
class Fired(Struct, frozen=True, kw_only=True):
    """One event, as a hook is given it."""

    name: str
    """`type:action`."""
    event: dict[str, Json]
    tool_output: str | None = None
    inside: str = ""
    """The call it is about: who erases that erases what hooks were told of it."""
    cut: bool = False
    """Whether the arguments were too large to be shown."""
    hidden: tuple[str, ...] = ()
    """What of it nobody but a gate is shown. It is in no word that a gate hook says about the call."""


def is_told(valid: ValidCall) -> bool:
    """Whether hooks and triggers are told of this call."""
    tool = valid.tool
    return tool.audience == "model" and (bool(tool.skill) or not isinstance(tool.entry, Operation))


def before(valid: ValidCall, *, gate: bool = False) -> Fired:
    """A tool is about to be called. `gate`: it is for those who have to agree."""
    context, cut = _about(valid, whole=gate)
    params = context.get("params") if gate else None
    return Fired(
        name="tool:before",
        event=_event("tool", "before", _session(valid), context),
        inside=valid.call.id,
        cut=cut,
        hidden=tuple(dict.fromkeys(_hidden(params, redact(params)))),
    )


def after(valid: ValidCall, outcome: Completed | Failed) -> Fired:
    """A tool was called, and this is how it ended."""
    context, cut = _about(valid)
    if isinstance(outcome, Completed):
        context["outcome"], said = "completed", outcome.value
    else:
        context["outcome"], context["error"], said = "failed", outcome.code, outcome.message
    masked = redact(said)
    output = masked if isinstance(masked, str) else msgspec.json.encode(masked).decode()
    return Fired(
        name="tool:after",
        event=_event("tool", "after", _session(valid), context),
        tool_output=output,
        inside=valid.call.id,
        cut=cut,
    )


def message(action: str, session: str, words: Words, inside: str = "") -> Fired:
    """A message came in or went out: `words` are OpenClaw's names and what they stand for."""
    context: dict[str, Json] = {name: _clean(text) for name, text in words.items()}
    event = _event("message", action, _clean(session), context)
    return Fired(name=f"message:{action}", event=event, inside=inside)


def bootstrap(session: str, files: tuple[BootstrapFile, ...]) -> Fired:
    """An agent starts, with these files."""
    event = _event("agent", "bootstrap", _clean(session), {})
    event["context"] = {"bootstrapFiles": msgspec.to_builtins(files)}
    return Fired(name="agent:bootstrap", event=event)


def _event(kind: str, action: str, session: str, context: dict[str, Json]) -> dict[str, Json]:
    return {
        "type": kind,
        "action": action,
        "sessionKey": session[:MOST_KEY],
        "context": {"bootstrapFiles": [], **context},
    }


def _about(valid: ValidCall, *, whole: bool = False) -> tuple[dict[str, Json], bool]:
    context: dict[str, Json] = {"toolName": valid.tool.name, "callId": valid.call.id}
    if valid.skill is not None:
        context["skill"] = valid.skill.name
    cut = len(msgspec.json.encode(valid.arguments)) > MOST_PARAMS
    if not cut:
        kept = kept_arguments(valid.tool.name, valid.arguments)
        context["params"] = kept if whole else redact(kept)
    return context, cut


def _hidden(value: Json, masked: Json) -> Iterator[str]:
    """What lies under the masks."""
    if isinstance(value, dict) and isinstance(masked, dict):
        for name, item in value.items():
            yield from _hidden(item, masked.get(name, MASK))
    elif isinstance(value, list) and isinstance(masked, list):
        for item, shown_as in zip(value, masked, strict=False):
            yield from _hidden(item, shown_as)
    elif value != masked:
        yield from _under(value if isinstance(value, str) else msgspec.json.encode(value).decode(), masked)


def _under(text: str, masked: Json) -> Iterator[str]:
    first, *others = masked.split(MASK) if isinstance(masked, str) else ("", "")
    at = len(first)
    for after in others:
        end = text.find(after, at) if after else len(text)
        end = len(text) if end < 0 else end
        if end - at >= _LEAST_HIDDEN:
            yield text[at:end]
        at = end + len(after)


def _session(valid: ValidCall) -> str:
    return _clean(valid.call.surroundings.session or MAIN)


def _clean(text: str) -> str:
    masked = redact(text[:MOST_TEXT])
    return shown(masked) if isinstance(masked, str) else ""
