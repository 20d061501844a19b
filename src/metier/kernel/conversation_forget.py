"""What the record kept of a conversation is erased with it: of the calls by which messages came and went, of what those set off (what
hooks were told, what triggers did, what connectors sent), and of the calls by which it was read, or a message came a second time. The
records themselves stay."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from anyio import to_thread

from metier.host.call_log import erase_log
from metier.record.database import Database
from metier.record.doors_db import erase_answers
from metier.record.erasure import erase_calls
from metier.record.glance import Glance, glance

_NAMING: Final = """SELECT body FROM audit WHERE typeof(body) = 'blob' AND kept IS NOT NULL
    AND (instr(kept, ?) > 0 OR instr(kept, ?) > 0)"""
_WITH_WORDS: Final = frozenset(
    {"conv.get_thread", "conv.undelivered", "conv.append"}
    | {"channels.route_inbound_message", "channels.send_message"}
)
"""Operations that are given what is said, or answer with it."""


def forgetting(database: Database, owner: str, home: str) -> Callable[[int, Sequence[str]], Awaitable[int]]:
    """What `Conversations` forgets with: gives of how many of the calls there is nothing left."""

    async def forget(thread: int, calls: Sequence[str]) -> int:
        return await to_thread.run_sync(forget_thread, database, thread, frozenset(calls), owner, home)

    return forget


def forget_thread(database: Database, thread: int, calls: frozenset[str], by: str, home: str) -> int:
    """Erase the payloads of every record of these calls, of those made inside of them and of those that had to do with the thread,
    what skills wrote into their logs, and what was answered to them over HTTP. Blocking.

    Raises:
        RecordError, StateError: as `erase_calls`.
    """
    about = calls | _about(database, thread)
    erased = erase_calls(database, about, by=by)
    for each in erased:
        erase_log(home, each)
    # Whoever asked over HTTP with a key could be told it again, for a day.
    erase_answers(home, about | erased)
    return len(erased & calls)


def _about(database: Database, thread: int) -> frozenset[str]:
    """The calls that name the thread, or were answered with its number: what is kept is stored as JSON has it. A message that comes a
    second time is not kept a second time, so no message tells of its call."""
    needles = (f'"thread_id":{thread},'.encode(), f'"thread_id":{thread}}}'.encode())
    with database.reading() as connection:
        seen = [glance(body) for (body,) in connection.execute(_NAMING, needles)]
    return frozenset(each.call_id for each in seen if isinstance(each, Glance) and each.tool in _WITH_WORDS)
