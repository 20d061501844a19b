"""Whose a channel is: who may register one, set it up, take in messages for it, send on it and read what was said there.

Who registers a channel owns it, and nobody else gets to it by another spelling of its name. A skill owns only channels that it
declared; where it declared none, only one that is called like its own module.
"""

import re
from typing import Final, final

from msgspec import Struct

from metier.dialects.names import skeleton
from metier.gate.principals import HOST
from metier.kernel.operation import OperationError
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.skill import Skill
from metier.model.text import hidden, one_line
from metier.record.redact import redact

BAD_PARAMS: Final = "E_CHANNELS_BAD_PARAMS"
UNKNOWN: Final = "E_CHANNELS_UNKNOWN"
CONFLICT: Final = "E_CHANNELS_CONFLICT"
FULL: Final = "E_CHANNELS_FULL"
BROKEN: Final = "E_CHANNELS_BROKEN"
FORBIDDEN: Final = "E_AGENT_FORBIDDEN"
OURS: Final = {"telegram": "@xpell/agent-skill-telegram"}
"""Channels of our own doors, and the shipped skill that may register each beside us."""
RESERVED: Final = frozenset({"metier", "host", "terminal", "cli", "webhook", "api", "console"})
"""Names that no channel has, so that nobody takes one for us."""
MOST_TEXT: Final = 65_536
"""Bytes of one message."""
MOST_DATA: Final = 16_384
"""Bytes of what a channel tells beside the text, and of a configuration."""
LONGEST_ID: Final = 256
LONGEST_AUTHOR: Final = 200
TAKE_IN: Final = "channels.route_inbound_message"
_SAID: Final = frozenset({"text", "author", "data"})
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_UNFIT: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_REFERENCE: Final = re.compile(r"(?:env|file|keyring|sealed)://[!-~]{1,400}", re.ASCII)


@final
class Channel(Struct, frozen=True, kw_only=True):
    """One channel as it is known."""

    name: str
    skill: str = ""
    """Who registered it; empty for one of our own doors that no skill registered."""
    connector: str = ""
    """The module of that skill which sends."""
    config: dict[str, Json] = {}
    problem: str = ""
    """Why it cannot be used: what is kept of it cannot be read."""

    @property
    def ours(self) -> bool:
        """Whether one of our own doors sends and takes in."""
        return self.name in OURS

    @property
    def is_off(self) -> bool:
        """Whether its skill was disabled: it keeps the name, and nothing comes in or goes out."""
        return bool(self.skill) and not self.connector and not self.ours

    @property
    def owner(self) -> str:
        """Whose conversations on it are: the skill's, or nobody's but ours."""
        return "" if self.ours else self.skill


def channel_name(given: Json) -> str:
    """The name as it was given.

    Raises:
        OperationError: for what is no name, is reserved, or looks like one of ours.
    """
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        shown = one_line(given, 60) if isinstance(given, str) else "what was given"
        raise OperationError(BAD_PARAMS, f"{shown!r} is no name of a channel: letters, digits, _ and -")
    look = skeleton(given)
    if any(skeleton(each) == look for each in RESERVED):
        raise OperationError(CONFLICT, f"no channel may be called {given!r}; give it another name")
    if given not in OURS and any(skeleton(each) == look for each in OURS):
        raise OperationError(
            CONFLICT, f"{given!r} looks like a channel of Metier's own; give it another name"
        )
    return given


def skill_of(principal: Principal) -> str:
    """The name of the skill that asks; empty when it is somebody else."""
    kind, _, name = principal.id.partition(":")
    return name if principal.kind == "skill" and kind == "skill" else ""


def require_ownable(name: str, connector: str, skill: Skill) -> None:
    """Refuse a channel that this skill may not have.

    Raises:
        OperationError: saying what it would have to declare.
    """
    reserved_for = OURS.get(name)
    if reserved_for is not None and (skill.key != reserved_for or skill.source != "bundled"):
        raise OperationError(FORBIDDEN, f"the channel {name!r} is Metier's own, and no other skill gets it")
    declared = skill.permissions.channels
    if declared and name not in declared:
        listed = one_line(", ".join(sorted(declared)), 200)
        raise OperationError(
            FORBIDDEN,
            f"the skill declares the channels {listed} and not {name!r}; add it to capabilities.channels",
        )
    if not declared and name != connector:
        raise OperationError(
            FORBIDDEN,
            f"the skill declares no channels, so its channel is called like its module: {connector!r}; "
            f"declare {name!r} in capabilities.channels to have it",
        )


def require_owner(channel: Channel, principal: Principal, what: str) -> None:
    """Refuse a skill that did not register the channel. People are bound by their rights, which were looked at before.

    Raises:
        OperationError: for everybody else.
    """
    if principal.kind == "human" or (channel.skill and skill_of(principal) == channel.skill):
        return
    raise OperationError(
        FORBIDDEN, f"the channel {channel.name!r} is not yours; only who registered it may {what}"
    )


def require_source(channel: Channel, principal: Principal) -> None:
    """Refuse whoever may not say what came in on the channel: its owner may, and for our own doors the host.

    Raises:
        OperationError: for everybody else.
    """
    if principal.id == HOST and principal.kind == "agent" and channel.ours:
        return
    require_owner(channel, principal, "take in messages for it")


def require_sender(channel: Channel, principal: Principal, skill: Skill | None) -> None:
    """Refuse a skill that neither owns the channel nor declared that it needs it. Whoever else got past the gate may send.

    Raises:
        OperationError: for such a skill.
    """
    if not skill_of(principal) and principal.kind != "skill":
        return
    if skill is not None and channel.name in skill.permissions.channels:
        return
    require_owner(channel, principal, "send on it, and who declares it in capabilities.channels")


def text_of(given: Json, what: str = "text") -> str:
    """The text of a message.

    Raises:
        OperationError: for none, or one that is too long.
    """
    if not isinstance(given, str) or not given:
        raise OperationError(BAD_PARAMS, f"{what} is no text, or an empty one")
    size = len(given.encode("utf-8", "surrogatepass"))
    if size > MOST_TEXT:
        raise OperationError(BAD_PARAMS, f"{what} has {size:,} bytes; a message has at most {MOST_TEXT:,}")
    return given


def clean_text(text: str) -> str:
    """`text` as a call may carry it, for doors: people's messages hold whatever their programs put in. What is no character, or
    could move a cursor, is shown as one that could not be read; nothing else changes."""
    return _UNFIT.sub("\ufffd", text)


def taken_in(arguments: dict[str, Json]) -> dict[str, Json]:
    """The arguments with which a skill asks for `TAKE_IN`, as a call may carry them: the words, who said them and what came beside are
    cleaned, for they are other people's. Everything else is the skill's own, and is refused as it is. Blocking for long texts."""
    try:
        return {name: _clean(each) if name in _SAID else each for name, each in arguments.items()}
    except RecursionError:  # no call may carry that, and the gate says so
        return arguments


def _clean(value: Json) -> Json:
    if isinstance(value, dict):
        return {clean_text(name): _clean(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return clean_text(value) if isinstance(value, str) else value


def author_of(given: Json) -> str:
    """Who said it, as the channel names him: people give themselves whatever names they like, and their messages count all the same."""
    if not isinstance(given, str):
        return "" if given is None else id_of(given, "author")
    return "".join(
        each if each.isprintable() and not hidden(each) else "\ufffd" for each in given[:LONGEST_AUTHOR]
    )


def id_of(given: Json, what: str) -> str:
    """An id that a channel gave: a number or a short text.

    Raises:
        OperationError: for anything else.
    """
    text = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
    if (
        not isinstance(text, str)
        or not text.strip()
        or len(text) > LONGEST_ID
        or not text.isprintable()
        or hidden(text)
    ):
        raise OperationError(
            BAD_PARAMS, f"{what} is a number, or a text of 1 to {LONGEST_ID} visible characters"
        )
    return text


def require_no_secrets(config: dict[str, Json]) -> None:
    """Refuse a configuration that holds a secret in the clear. A reference to one may stand there, and stays one.

    Raises:
        OperationError: naming where it stands, never what.
    """
    bare = _without_references(config)
    found = redact(bare)
    if found != bare:
        where = _first_difference(bare, found)
        raise OperationError(
            BAD_PARAMS,
            f"config{where} looks like a secret, and none is kept in a channel's configuration; put it into the skill's "
            "settings, or write a reference such as env://NAME",
        )


def _without_references(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_references(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_references(each) for each in value]
    return None if isinstance(value, str) and _REFERENCE.fullmatch(value) else value


def _first_difference(one: Json, other: Json) -> str:
    """Where the two differ, as a path of names; a name that was itself masked is not told."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name, each in one.items():
            if name not in other:
                return " (one of its names)"
            if other[name] != each:
                return f".{one_line(name, 60)}{_first_difference(each, other[name])}"
    if isinstance(one, list) and isinstance(other, list):
        for place, (left, right) in enumerate(zip(one, other, strict=False)):
            if left != right:
                return f"[{place}]{_first_difference(left, right)}"
    return ""
