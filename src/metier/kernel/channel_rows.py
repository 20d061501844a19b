"""The channels that are known, as they are kept. Blocking.

A row that cannot be read is a channel that cannot be used, and says why; the others are none the worse for it.
"""

import sqlite3
from typing import Any, Final

import msgspec

from metier.dialects.names import skeleton
from metier.kernel.channel_rules import CONFLICT, FULL, OURS, Channel
from metier.kernel.operation import OperationError
from metier.kernel.store_faults import is_broken
from metier.model.digest import Json

MOST_CHANNELS: Final = 256
MOST_OF_ONE: Final = 16
"""Of one skill."""
_FIELDS: Final = "name, skill, connector, config"
_config: Final = msgspec.json.Decoder(dict[str, Any])


def channel_in(connection: sqlite3.Connection, name: str) -> Channel | None:
    """The channel of exactly this name."""
    row = connection.execute(f"SELECT {_FIELDS} FROM channel WHERE name = ?", (name,)).fetchone()  # noqa: S608
    if row is not None:
        return _channel(row)
    return Channel(name=name) if name in OURS else None


def channels_in(connection: sqlite3.Connection) -> list[Channel]:
    """Every channel, by name."""
    found = {
        each.name: each
        for each in map(_channel, connection.execute(f"SELECT {_FIELDS} FROM channel"))  # noqa: S608
    }
    return [each for _, each in sorted({**{name: Channel(name=name) for name in OURS}, **found}.items())]


def put_channel(connection: sqlite3.Connection, channel: Channel, now: float) -> None:
    """Give the channel to its skill. What was configured stays where it had it already.

    A name is free once a person says so, and never because its skill is not found: it may be unreadable for a while, or its host was
    started elsewhere, and whoever took the name then would get what is meant for it.

    Raises:
        OperationError: where another skill has it, or one that looks like it, or there are too many.
    """
    rows = connection.execute("SELECT name, look, skill FROM channel").fetchall()
    look = skeleton(channel.name)
    same = next((row for row in rows if row[1] == look or row[0] == channel.name), None)
    if same is not None and (same[0] != channel.name or same[2] != channel.skill):
        raise OperationError(
            CONFLICT,
            f"there is a channel {same[0]!r} already, of the skill {same[2]!r}, also while that one is not started or not found; give "
            "yours another name, or have a person remove it: `metier channels remove`",
        )
    if same is not None:
        connection.execute(
            "UPDATE channel SET look = ?, connector = ?, changed_at = ? WHERE name = ?",
            (look, channel.connector, now, channel.name),
        )
        return
    if len(rows) >= MOST_CHANNELS or sum(row[2] == channel.skill for row in rows) >= MOST_OF_ONE:
        raise OperationError(
            FULL,
            f"a skill has at most {MOST_OF_ONE} channels, and all together at most {MOST_CHANNELS}, also those that are not used now; "
            "`metier channels remove` forgets one",
        )
    connection.execute(
        "INSERT INTO channel (name, look, skill, connector, config, changed_at) VALUES (?, ?, ?, ?, '{}', ?)",
        (channel.name, look, channel.skill, channel.connector, now),
    )


def configure(connection: sqlite3.Connection, name: str, config: dict[str, Json], now: float) -> None:
    """Keep this configuration instead of the one before."""
    connection.execute(
        "UPDATE channel SET config = ?, changed_at = ? WHERE name = ?",
        (msgspec.json.encode(config).decode(), now, name),
    )


def switch_off(connection: sqlite3.Connection, skill: str) -> None:
    """Have nobody send for the channels that the skill registered. Their names stay its own, so that nobody takes them while it is
    down and gets what is meant for it. Those of our own doors are nobody else's anyway."""
    connection.executemany(
        "DELETE FROM channel WHERE skill = ? AND name = ?", [(skill, name) for name in OURS]
    )
    connection.execute("UPDATE channel SET connector = '' WHERE skill = ?", (skill,))


def names_of(connection: sqlite3.Connection, skill: str) -> frozenset[str]:
    """The channels that the skill registered."""
    return frozenset(
        name for (name,) in connection.execute("SELECT name FROM channel WHERE skill = ?", (skill,))
    )


def remove(connection: sqlite3.Connection, name: str) -> int:
    """Forget one channel, also one whose name is damaged: by what is shown of it."""
    rows = connection.execute("SELECT rowid, name FROM channel").fetchall()
    meant = [(row,) for row, shown in rows if shown == name]
    return connection.executemany("DELETE FROM channel WHERE rowid = ?", meant).rowcount if meant else 0


def _channel(row: tuple[str, str, str, str]) -> Channel:
    name, skill, connector, config = row
    if is_broken(name, skill, connector):
        problem = "what is kept of it is damaged; remove it: `metier channels remove`"
        return Channel(name=name, skill=skill, connector=connector, problem=problem)
    try:
        known: dict[str, Json] = _config.decode(config)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        problem = (
            "its configuration cannot be read; configure it anew, or remove it: `metier channels remove`"
        )
        return Channel(name=name, skill=skill, connector=connector, problem=problem)
    return Channel(name=name, skill=skill, connector=connector, config=known)
