"""The module `channels`: who has which channel, and the one way in and out for messages.

Whatever comes in is stored before anybody hears of it, and whatever goes out before it is sent; both are done by the host, so these
operations only write, in whichever process.
"""

import time
from collections.abc import Callable
from typing import Final, final

from anyio import to_thread
from msgspec import json

import metier.kernel.channel_rows as rows
from metier.catalog.catalog import Catalog
from metier.kernel.channel_rules import (
    BAD_PARAMS,
    BROKEN,
    FORBIDDEN,
    MOST_DATA,
    TAKE_IN,
    UNKNOWN,
    Channel,
    author_of,
    channel_name,
    id_of,
    require_no_secrets,
    require_ownable,
    require_owner,
    require_sender,
    require_source,
    skill_of,
    text_of,
)
from metier.kernel.conversation_inbox import Inbox
from metier.kernel.conversation_rows import New, Stored, put_out, take_in
from metier.kernel.deliveries import Deliveries
from metier.kernel.modules import Modules
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module, offered
from metier.kernel.store import Store
from metier.model.digest import Json
from metier.model.role import SETTINGS, STEER
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.record.redact import redact

_TEXT: Final[dict[str, Json]] = {"type": "string"}
_ID: Final[dict[str, Json]] = {"type": ["string", "integer"]}


@final
class Channels:
    """Belongs to one loop."""

    def __init__(
        self,
        store: Store,
        modules: Callable[[], Modules],
        catalog: Callable[[], Catalog],
        inbox: Inbox,
        deliveries: Deliveries,
    ) -> None:
        self._store = store
        self._modules = modules
        self._catalog = catalog
        self._inbox = inbox
        self._deliveries = deliveries

    def module(self) -> Module:
        """The operations."""
        return module(
            "channels",
            offered(
                "channels.register",
                self._register,
                "Have a channel of your own, for which one of your modules sends.",
                _object({"channel": _TEXT, "connector_module": _TEXT}, "channel", "connector_module"),
                risk="low",
            ),
            offered(
                "channels.configure",
                self._configure,
                "Set up a channel.",
                _object({"channel": _TEXT, "config": {"type": "object"}}, "channel", "config"),
                privileged=True,
                permission=SETTINGS,
            ),
            offered(
                TAKE_IN,
                self._route,
                "Take in a message that arrived on a channel.",
                _object(
                    {
                        "channel": _TEXT,
                        "chat_id": _ID,
                        "message_id": _ID,
                        "author": _ID,
                        "text": _TEXT,
                        "data": {},
                    },
                    *("channel", "chat_id", "message_id", "text"),
                ),
                privileged=True,
                permission=STEER,
            ),
            offered(
                "channels.send_message",
                self._send,
                "Send a message on a channel.",
                _object(
                    {"channel": _TEXT, "chat_id": _ID, "text": _TEXT, "key": _TEXT, "reply_to": _ID},
                    *("channel", "chat_id", "text"),
                ),
                privileged=True,
            ),
            offered("channels.list", self._list, "List the channels.", NOTHING, effect="read", risk="low"),
            offered(
                "channels.remove",
                self._remove,
                "Forget a channel, so that another skill may have its name.",
                _object({"channel": _TEXT}, "channel"),
                audience="operator",
                permission=SETTINGS,
            ),
        )

    async def unregister(self, skill: str) -> None:
        """Take away what a skill registered, but for the names. What waits to be sent goes on waiting, and is not sent by anybody else."""
        await to_thread.run_sync(self._unregister, skill)
        self._deliveries.poke()

    async def known(self, name: Json) -> Channel:
        """The channel of this name.

        Raises:
            OperationError: where there is none, or it cannot be used.
        """
        wanted = channel_name(name)
        found = await to_thread.run_sync(self._read, wanted)
        if found is None:
            raise OperationError(
                UNKNOWN, f"there is no channel {wanted!r}; `channels.list` shows those there are"
            )
        if found.problem:
            raise OperationError(BROKEN, f"the channel {wanted!r} cannot be used: {found.problem}")
        if found.is_off:
            raise OperationError(
                UNKNOWN,
                f"the channel {wanted!r} is not there now: its skill {found.skill!r} is not started; "
                f"`metier skills start {found.skill}`",
            )
        return found

    def skill(self, name: str) -> Skill | None:
        """The skill of this name, as it is known now."""
        listed = self._catalog().get(name) if name else None
        return listed.skill if listed is not None else None

    async def _register(self, asked: Asked) -> Json:
        name = channel_name(asked.arguments["channel"])
        connector = str(asked.arguments["connector_module"])
        skill = self.skill(skill_of(asked.principal))
        if skill is None:
            raise OperationError(FORBIDDEN, "channels are registered by skills, each for itself")
        if self._modules().owner(connector) != skill.name:
            raise OperationError(
                FORBIDDEN,
                f"{one_line(connector, 60)!r} is no module of yours; register the module first, then its channel",
            )
        require_ownable(name, connector, skill)
        channel = Channel(name=name, skill=skill.name, connector=connector)
        await to_thread.run_sync(self._put, channel)
        self._deliveries.poke()
        return {"ok": True, "channel": name}

    async def _configure(self, asked: Asked) -> Json:
        given = asked.arguments["config"]
        config = given if isinstance(given, dict) else {}
        name = channel_name(asked.arguments["channel"])
        found = await to_thread.run_sync(self._read, name)
        if found is None or not found.skill:
            raise OperationError(UNKNOWN, f"there is no channel {name!r} that a skill registered")
        require_owner(found, asked.principal, "configure it")
        _require_small(config, "config")
        await to_thread.run_sync(require_no_secrets, config)
        await to_thread.run_sync(self._write_config, name, config)
        return {"ok": True, "channel": name}

    async def _route(self, asked: Asked) -> Json:
        arguments = asked.arguments
        channel = await self.known(arguments["channel"])
        require_source(channel, asked.principal)
        data = arguments.get("data")
        _require_small(data, "data")
        new = New(
            channel=channel.name,
            owner=channel.owner,
            chat=id_of(arguments["chat_id"], "chat_id"),
            id=id_of(arguments["message_id"], "message_id"),
            author=author_of(arguments.get("author")),
            text=text_of(arguments["text"]),
            data=data,
            call_id=asked.call_id,
            skill=skill_of(asked.principal),
        )
        stored = await to_thread.run_sync(self._stored, take_in, new)
        if not stored.duplicate:
            self._inbox.poke()
        return _told(stored)

    async def _send(self, asked: Asked) -> Json:
        arguments, principal = asked.arguments, asked.principal
        channel = await self.known(arguments["channel"])
        require_sender(channel, principal, self.skill(skill_of(principal)))
        reply_to = arguments.get("reply_to")
        # A key counts for its sender alone, so that nobody takes away another's message by guessing it.
        key = (
            f"{principal.id} {id_of(arguments['key'], 'key')}" if "key" in arguments else f"{asked.call_id} "
        )
        new = New(
            channel=channel.name,
            owner=channel.owner,
            chat=id_of(arguments["chat_id"], "chat_id"),
            id=None if reply_to is None else id_of(reply_to, "reply_to"),
            author=principal.id,
            text=text_of(arguments["text"]),
            key=key,
            call_id=asked.call_id,
            skill=skill_of(principal),
        )
        stored = await to_thread.run_sync(self._stored, put_out, new)
        self._deliveries.poke()
        return _told(stored)

    async def _list(self, asked: Asked) -> Json:
        found = await to_thread.run_sync(self._all)
        asker = skill_of(asked.principal)
        shown: list[Json] = []
        for each in found:
            if each.is_off:
                continue
            plain: dict[str, Json] = {
                "channel": each.name,
                "skill": each.skill,
                "connector_module": each.connector,
            }
            plain["status"], plain["why"] = self._status(each)
            if asked.principal.kind == "human" or (asker and asker == each.skill):
                plain["config"] = await to_thread.run_sync(redact, each.config)
            shown.append(plain)
        return {"channels": shown}

    async def _remove(self, asked: Asked) -> Json:
        name = channel_name(asked.arguments["channel"])
        if not await to_thread.run_sync(self._forget, name):
            raise OperationError(UNKNOWN, f"no skill registered a channel {name!r}")
        return {"ok": True, "channel": name}

    def _status(self, channel: Channel) -> tuple[str, str]:
        """One word, and why where it is not ready. As far as this process knows: skills live in the host."""
        modules = self._modules()
        if channel.problem:
            return "broken", channel.problem
        if channel.ours:
            return "door", ""
        if modules.owner(channel.connector) != channel.skill:
            return (
                "down",
                f"the skill {channel.skill!r} does not live here now; `metier host` runs those that are enabled",
            )
        if not modules.knows(channel.connector, "send"):
            return (
                "receives",
                f"its module {channel.connector!r} has no operation `send`, so nothing can be sent",
            )
        return "ready", ""

    def _read(self, name: str) -> Channel | None:
        with self._store.reading() as connection:
            return rows.channel_in(connection, name)

    def _all(self) -> list[Channel]:
        with self._store.reading() as connection:
            return rows.channels_in(connection)

    def _put(self, channel: Channel) -> None:
        with self._store.writing() as connection:
            rows.put_channel(connection, channel, time.time())

    def _write_config(self, name: str, config: dict[str, Json]) -> None:
        with self._store.writing() as connection:
            rows.configure(connection, name, config, time.time())

    def _unregister(self, skill: str) -> None:
        with self._store.writing() as connection:
            rows.switch_off(connection, skill)

    def _forget(self, name: str) -> bool:
        with self._store.writing() as connection:
            return rows.remove(connection, name) > 0

    def _stored(self, put: Callable[..., Stored], new: New) -> Stored:
        with self._store.writing() as connection:
            return put(connection, new, time.time())


def _object(properties: dict[str, Json], *required: str) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list[Json](required),
        "additionalProperties": False,
    }


def _told(stored: Stored) -> Json:
    return {
        "ok": True,
        "thread_id": stored.thread,
        "message_id": stored.message,
        "state": stored.state,
        "duplicate": stored.duplicate,
    }


def _require_small(given: Json, what: str) -> None:
    size = len(json.encode(given))
    if size > MOST_DATA:
        raise OperationError(BAD_PARAMS, f"{what} has {size:,} bytes; at most {MOST_DATA:,} are kept")
