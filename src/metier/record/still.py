"""What must still be so when an act begins: asked inside the intent's own transaction, so what was stopped, disabled,
revoked or taken back a moment ago counts.

Most calls begin before anybody wrote anything since they were judged. `written` tells, and then there is nothing to ask
again.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, TypeAlias

from metier.record.audit import IntentDenied
from metier.record.held import Held
from metier.record.steering import Steering, steering_in

if TYPE_CHECKING:
    import sqlite3

Written: TypeAlias = tuple[int, int]


def written(connection: "sqlite3.Connection") -> Written:
    """Something else whenever anything at all was written, by others (the first part) or over this connection."""
    if isinstance(connection, Held):
        return connection.version, connection.total_changes
    return connection.execute("PRAGMA data_version").fetchone()[0], connection.total_changes


def steered(connection: "sqlite3.Connection") -> Written | None:
    """Something else whenever an operator may have changed anything; None where that cannot be told."""
    return (connection.version, connection.changes) if isinstance(connection, Held) else None


def steering_problem(
    connection: "sqlite3.Connection",
    judged: Steering,
    ids: Collection[str],
    token: str = "",
    *,
    while_stopped: bool = False,
) -> IntentDenied | None:
    """Whether operators changed who may do what since a call was judged. `ids`: who asks, and for whom. `token`: what it was
    let in by, if it was one. `while_stopped`: a stop does not refuse it."""
    now = steering_in(connection)
    if token and token not in now.tokens:
        return IntentDenied(f"the token {token!r} it came with was revoked", "forbidden")
    for each in ids:
        known = now.principals.get(each)
        if known is not None and known.revoked:
            return IntentDenied(f"{each!r} was revoked", "forbidden")
    if now.stopped and not while_stopped:
        return IntentDenied(f"everything is stopped: {now.stopped}", "stopped")
    if now.principals != judged.principals:
        return IntentDenied("who may do what was changed just now", "changed_meanwhile")
    if now.level != judged.level:
        return IntentDenied(f"the trust level was changed to {now.level!r} just now", "changed_meanwhile")
    return None


def skill_problem(
    connection: "sqlite3.Connection", name: str, digest: str, *, bundled: bool, first_use: bool
) -> IntentDenied | None:
    """Whether these bytes of a skill may no longer be used."""
    if connection.execute("SELECT 1 FROM disabled WHERE name = ?", (name,)).fetchone():
        return IntentDenied(f"skill {name!r}: it was disabled just now", "skill_disabled")
    if connection.execute("SELECT 1 FROM disabled_bytes WHERE digest = ?", (digest,)).fetchone():
        return IntentDenied(f"skill {name!r}: these bytes were disabled under another name", "skill_disabled")
    if bundled:
        return None
    if connection.execute("SELECT 1 FROM revoked WHERE name = ?", (name,)).fetchone():
        return IntentDenied(f"skill {name!r}: its trust was taken back just now")
    held = connection.execute("SELECT 1 FROM trust WHERE name = ? AND digest = ?", (name, digest)).fetchone()
    if held is None and not first_use:
        return IntentDenied(f"skill {name!r}: these bytes are no longer trusted")
    return None
