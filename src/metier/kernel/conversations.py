"""The module `conv`: what was said on every channel. For people, and for skills that were granted it.

A skill reads what was said on channels of its own, and on those that it declared it needs. Of all others it does not even learn
that they are there.
"""

import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar, final

from anyio import to_thread

import metier.kernel.conversation_rows as rows
import metier.kernel.delivery_rows as outbound
from metier.kernel.channel_rows import channel_in
from metier.kernel.channel_rules import BAD_PARAMS, UNKNOWN, id_of, skill_of, text_of
from metier.kernel.channels import Channels
from metier.kernel.conversation_erase import drive_out, erase_thread
from metier.kernel.conversation_shown import message_shown, thread_shown
from metier.kernel.deliveries import Deliveries
from metier.kernel.operation import Asked, Module, OperationError, module, offered
from metier.kernel.store import Store
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.role import KEEP_AUDIT

MOST: Final = 200
"""Threads or messages in one answer."""
_USUAL: Final = 50
_MOST_BYTES: Final = 700_000
"""Of the texts in one answer: what does not fit is asked for with `before`."""
_TEXT: Final[dict[str, Json]] = {"type": "string"}
_ID: Final[dict[str, Json]] = {"type": ["string", "integer"]}
_NUMBER: Final[dict[str, Json]] = {"type": "integer", "minimum": 1}
_LIMIT: Final[dict[str, Json]] = {"type": "integer", "minimum": 1, "maximum": MOST}
_T = TypeVar("_T")


@final
class Conversations:
    """Belongs to one loop."""

    def __init__(
        self,
        store: Store,
        channels: Channels,
        deliveries: Deliveries,
        forget: Callable[[int, Sequence[str]], Awaitable[int]] | None = None,
    ) -> None:
        """`forget` erases from the record what it kept of a thread with these calls, and gives of how many of them."""
        self._store = store
        self._channels = channels
        self._deliveries = deliveries
        self._forget = forget

    def module(self) -> Module:
        """The operations."""
        return module(
            "conv",
            offered(
                "conv.list_threads",
                self._list,
                "List conversations, the one with the newest message first.",
                _object({"channel": _TEXT, "limit": _LIMIT, "before": _NUMBER}),
                privileged=True,
                effect="read",
            ),
            offered(
                "conv.get_thread",
                self._get,
                "Read a conversation, by its id or by its channel and chat: the newest messages, oldest first.",
                _object(
                    {
                        "thread_id": _NUMBER,
                        "channel": _TEXT,
                        "chat_id": _ID,
                        "limit": _LIMIT,
                        "before": _NUMBER,
                    }
                ),
                privileged=True,
                effect="read",
            ),
            offered(
                "conv.append",
                self._append,
                "Write a note into a conversation. It is sent to nobody.",
                _object({"thread_id": _NUMBER, "text": _TEXT, "author": _TEXT}, "thread_id", "text"),
                privileged=True,
            ),
            offered(
                "conv.undelivered",
                self._undelivered,
                "List the messages that did not reach whom they were for, or not yet.",
                _object({"channel": _TEXT, "limit": _LIMIT}),
                privileged=True,
                effect="read",
                audience="operator",
            ),
            offered(
                "conv.retry",
                self._retry,
                "Try again to send a message that failed, or that waits.",
                _object({"message_id": _NUMBER}, "message_id"),
                audience="operator",
            ),
            offered(
                "conv.erase",
                self._erase,
                "Erase what was said in a conversation, here and in the record.",
                _object({"thread_id": _NUMBER}, "thread_id"),
                audience="operator",
                permission=KEEP_AUDIT,
                risk="high",
            ),
        )

    async def _list(self, asked: Asked) -> Json:
        channel, limit, before = (
            asked.arguments.get("channel"),
            asked.arguments.get("limit"),
            asked.arguments.get("before"),
        )
        seen_by = await self._seen_by(asked.principal)
        found = await self._reading(
            lambda connection: rows.threads_in(
                connection,
                channel=channel if isinstance(channel, str) else "",
                seen_by=seen_by,
                limit=_int(limit, _USUAL),
                before=_int(before, 0),
            )
        )
        return {"threads": [thread_shown(each) for each in found]}

    async def _get(self, asked: Asked) -> Json:
        thread = await self._thread(asked)
        limit, before = _int(asked.arguments.get("limit"), _USUAL), _int(asked.arguments.get("before"), 0)
        found = await self._reading(
            lambda connection: rows.messages_in(connection, thread.id, limit=limit + 1, before=before)
        )
        kept: list[Json] = []
        room = _MOST_BYTES
        for each in reversed(found):
            room -= len(each.text.encode("utf-8", "surrogatepass")) + len(each.data)
            if len(kept) == limit or (room < 0 and kept):
                break
            kept.append(message_shown(each))
        return {"thread": thread_shown(thread), "messages": kept[::-1], "more": len(kept) < len(found)}

    async def _append(self, asked: Asked) -> Json:
        thread = await self._thread(asked)
        author = asked.arguments.get("author")
        asker = asked.principal
        says = id_of(author, "author") if author is not None else asker.id
        human = asker.kind == "human"
        new = rows.New(
            channel=thread.channel,
            owner=thread.owner,
            chat=thread.chat,
            author=says if human else asker.id,  # a skill does not speak in another's name
            data=None if human or author is None else {"author": says},
            text=text_of(asked.arguments["text"]),
            call_id=asked.call_id,
            skill=skill_of(asker),
        )
        stored = await self._writing(lambda connection: rows.put_note(connection, thread, new, time.time()))
        return {"ok": True, "thread_id": thread.id, "message_id": stored.message}

    async def _undelivered(self, asked: Asked) -> Json:
        channel, limit = asked.arguments.get("channel"), _int(asked.arguments.get("limit"), _USUAL)
        found = await self._reading(
            lambda connection: outbound.undelivered(
                connection, channel=channel if isinstance(channel, str) else "", limit=limit
            )
        )
        return {"messages": [message_shown(each) for each in found]}

    async def _retry(self, asked: Asked) -> Json:
        id = _int(asked.arguments["message_id"], 0)
        if not await self._writing(lambda connection: outbound.retry(connection, id, time.time())):
            raise OperationError(
                UNKNOWN,
                f"no message {id} failed or waits; `metier conversations undelivered` lists those that do",
            )
        self._deliveries.poke()
        return {"ok": True, "message_id": id}

    async def _erase(self, asked: Asked) -> Json:
        thread = await self._thread(asked)
        many, calls = await to_thread.run_sync(erase_thread, self._store, thread.id)
        await to_thread.run_sync(drive_out, self._store)
        erased = await self._forget(thread.id, calls) if self._forget is not None else 0
        return {
            "ok": True,
            "thread_id": thread.id,
            "messages": many,
            "calls": len(calls),
            "calls_erased": erased,
        }

    async def _thread(self, asked: Asked) -> rows.Thread:
        """The thread that is meant, if who asks may see it.

        Raises:
            OperationError: the same for one that is not there and for one that is not his.
        """
        arguments = asked.arguments
        seen_by = await self._seen_by(asked.principal)
        if "thread_id" in arguments:
            id = _int(arguments["thread_id"], 0)
            found = await self._reading(lambda connection: rows.thread_in(connection, id))
        elif "channel" in arguments and "chat_id" in arguments:
            channel = await self._channels.known(arguments["channel"])
            chat = id_of(arguments["chat_id"], "chat_id")
            found = await self._reading(
                lambda connection: rows.thread_of(connection, channel.name, channel.owner, chat)
            )
        else:
            raise OperationError(BAD_PARAMS, "say which conversation: thread_id, or channel and chat_id")
        if found is None or not (seen_by is None or seen_by.sees(found)):
            raise OperationError(UNKNOWN, "there is no such conversation")
        return found

    async def _seen_by(self, principal: Principal) -> rows.SeenBy | None:
        """What a skill sees; None for a person, who sees all."""
        if principal.kind == "human":
            return None
        skill = self._channels.skill(skill_of(principal))
        if skill is None:
            return rows.SeenBy(skill="\0")
        declared = skill.permissions.channels
        found = await self._reading(
            lambda connection: [channel_in(connection, each) for each in sorted(declared)]
        )
        owned = frozenset((each.name, each.owner) for each in found if each is not None)
        return rows.SeenBy(skill=skill.name, channels=owned)

    async def _reading(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def read() -> _T:
            with self._store.reading() as connection:
                return work(connection)

        return await to_thread.run_sync(read)

    async def _writing(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def write() -> _T:
            with self._store.writing() as connection:
                return work(connection)

        return await to_thread.run_sync(write)


def _int(given: Json, otherwise: int) -> int:
    return given if isinstance(given, int) and not isinstance(given, bool) else otherwise


def _object(properties: dict[str, Json], *required: str) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list[Json](required),
        "additionalProperties": False,
    }
