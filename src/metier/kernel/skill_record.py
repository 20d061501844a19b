"""What is kept of skills that live: which are enabled and by whom, how they fare, what they registered, and their own state.

Everything here blocks; call it in a thread.
"""

import os
import time
from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from metier.catalog.xbot_shipped import SHIPPED
from metier.config.settings import Settings
from metier.dialects.xbot import plain_name
from metier.kernel.operation import OperationError
from metier.kernel.store import FILE, Store
from metier.kernel.store_faults import is_broken
from metier.model.digest import Json
from metier.model.text import one_line

Status: TypeAlias = Literal["loaded", "error", "disabled"]
BAD_PARAMS: Final = "E_SKILLS_BAD_PARAMS"
PERSIST_FAILED: Final = "E_SKILLS_PERSIST_FAILED"
MOST_KEYS: Final = 1_000
"""Of one skill's state."""
LONGEST_KEY: Final = 256
MOST_BYTES: Final = 65_536
"""Of one value."""
STARTING: Final = "it is being started"
_LONGEST_ERROR: Final = 500
_NOBODY_SAID: Final = 2
_SAID: Final = {0: False, 1: True}
_DAMAGED: Final = "what is kept of it in kernel.db is damaged, so it does not live; enable it again"
_STATUSES: Final[dict[str, Status]] = {"loaded": "loaded", "error": "error", "disabled": "disabled"}


@final
class Life(Struct, frozen=True, kw_only=True):
    """What is kept of one skill that lives, or shall not."""

    skill: str
    enabled: bool | None
    """What a person said; None where nobody did, and the configuration decides."""
    status: Status = "disabled"
    error: str = ""
    """Why it does not live, in words for people."""
    digest: str = ""
    changed_at: float = 0.0
    changed_by: str = ""
    """Who enabled or disabled it; a life is lived on behalf of that person."""
    since: str = ""
    """When he was registered (`behalf`)."""


def lives(store: Store) -> dict[str, Life]:
    """Everything there is, by the name of the skill. A row that is damaged is one that does not live, and says so."""
    with store.reading() as connection:
        rows = connection.execute(
            "SELECT skill, enabled, status, error, digest, changed_at, changed_by, since FROM skill_life"
        ).fetchall()
    return {row[0]: _life(*row) for row in rows}


def _life(
    skill: str,
    enabled: int,
    status: str,
    error: str,
    digest: str,
    changed_at: float,
    changed_by: str,
    since: str,
) -> Life:
    if is_broken(skill, status, digest, changed_by, since):  # nobody can tell on whose behalf it would live
        return Life(skill=skill, enabled=False, status="error", error=_DAMAGED, changed_at=changed_at)
    return Life(
        skill=skill,
        enabled=_SAID.get(enabled),
        status=_STATUSES.get(status, "error"),
        error=error,
        digest=digest,
        changed_at=changed_at,
        changed_by=changed_by,
        since=since,
    )


def wish(store: Store, skill: str, *, enabled: bool | None, by: str, since: str = "") -> None:
    """Keep that a person wants the skill to live, or not to; None: that nobody said anything. `since` is when he was registered."""
    with store.writing() as connection:
        connection.execute(
            "INSERT INTO skill_life VALUES (?, ?, 'disabled', '', '', ?, ?, ?) ON CONFLICT (skill) DO UPDATE SET enabled ="
            " excluded.enabled, changed_at = excluded.changed_at, changed_by = excluded.changed_by, since = excluded.since",
            (skill, _NOBODY_SAID if enabled is None else int(enabled), time.time(), by, since),
        )


def fares(store: Store, skill: str, status: Status, error: str = "", *, digest: str = "") -> None:
    """Keep how it fares. `digest` is of the bytes that live, where any do."""
    with store.writing() as connection:
        connection.execute(
            "INSERT INTO skill_life VALUES (?, ?, ?, ?, ?, ?, '', '') ON CONFLICT (skill) DO UPDATE SET"
            " status = excluded.status, error = excluded.error, digest = excluded.digest",
            (skill, _NOBODY_SAID, status, one_line(error, _LONGEST_ERROR), digest, time.time()),
        )


def all_start(store: Store, skills: Collection[str]) -> None:
    """These are being started, and what was said of skills under an earlier host is over."""
    with store.writing() as connection:
        connection.execute("UPDATE skill_life SET status = 'disabled', error = '', digest = ''")
        connection.execute("DELETE FROM module")
        connection.executemany(
            "INSERT INTO skill_life VALUES (?, ?, 'disabled', ?, '', ?, '', '') ON CONFLICT (skill) DO UPDATE SET error = excluded.error",
            [(skill, _NOBODY_SAID, STARTING, time.time()) for skill in skills],
        )


def all_down(store: Store, why: str) -> None:
    """Nothing lives any more."""
    with store.writing() as connection:
        connection.execute(
            "UPDATE skill_life SET status = 'error', error = ? WHERE status = 'loaded' OR error = ?",
            (why, STARTING),
        )
        connection.execute("DELETE FROM module")


def forget_modules(store: Store, skill: str) -> None:
    """What the skill registered is gone."""
    with store.writing() as connection:
        connection.execute("DELETE FROM module WHERE skill = ?", (skill,))


def keep_module(
    store: Store, skill: str, name: str, operations: tuple[str, ...], kept: Collection[str]
) -> None:
    """Let other processes know what is registered here. `kept` are all names that are the skill's from now on, alive or not."""
    with store.writing() as connection:
        written = msgspec.json.encode(operations).decode()
        connection.execute("INSERT OR REPLACE INTO module VALUES (?, ?, ?)", (name, skill, written))
        connection.execute("DELETE FROM module_kept WHERE skill = ?", (skill,))
        connection.executemany(
            "INSERT OR REPLACE INTO module_kept VALUES (?, ?)", [(each, skill) for each in kept]
        )


def kept_names(store: Store) -> dict[str, str]:
    """The names of modules that are kept for a skill, whether it lives or not, and for which."""
    with store.reading() as connection:
        rows = connection.execute("SELECT name, skill FROM module_kept ORDER BY rowid").fetchall()
    return {name: skill for name, skill in rows if not is_broken(name, skill)}


def let_go(store: Store, skills: Collection[str]) -> None:
    """Nothing is kept for these any more."""
    with store.writing() as connection:
        connection.executemany("DELETE FROM module_kept WHERE skill = ?", [(each,) for each in skills])


def registered(store: Store) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Every module that a skill registered: the skill, and the operations. A row that cannot be read is left out."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    with store.reading() as connection:
        rows = connection.execute("SELECT name, skill, operations FROM module ORDER BY rowid").fetchall()
    for name, skill, written in rows:
        if is_broken(name, skill):
            continue
        try:
            found[name] = (skill, msgspec.json.decode(written, type=tuple[str, ...]))
        except msgspec.DecodeError:
            continue
    return found


def counted(settings: Settings) -> Settings:
    """The settings, with what people enabled since they were written. Only what is allowed can be enabled.

    Raises:
        StateError: when that cannot be read.
    """
    if not os.path.exists(os.path.join(settings.home, FILE)):
        return settings
    store = Store(settings.home)
    try:
        kept = lives(store)
    finally:
        store.close()
    more = enabled_since(settings, kept)
    if not more:
        return settings
    wanted = settings.xbot
    return replace(settings, xbot=replace(wanted, enabled=(wanted.enabled or frozenset()) | more))


def enabled_since(settings: Settings, kept: Mapping[str, Life]) -> frozenset[str]:
    """The packages that people enabled and the settings do not name."""
    allowed = (settings.xbot.allow or frozenset()) | SHIPPED
    said = {name for name, life in kept.items() if life.enabled is True}
    return frozenset(each for each in allowed if plain_name(each) in said) - (
        settings.xbot.enabled or frozenset()
    )


def enabled_by(store: Store, skill: str, owner: str) -> str:
    """On whose behalf the skill lives: who enabled it, or the owner where the configuration did."""
    life = lives(store).get(skill)
    return life.changed_by if life is not None and life.changed_by else owner


def state_get(store: Store, skill: str, key: str) -> Json:
    """What the skill kept under `key`; None where there is nothing.

    Raises:
        OperationError: for a key that is none, or where it cannot be read any more.
    """
    _good(key)
    with store.reading() as connection:
        row = connection.execute(
            "SELECT value FROM skill_state WHERE skill = ? AND key = ?", (skill, key)
        ).fetchone()
    try:
        return msgspec.json.decode(row[0]) if row is not None else None
    except msgspec.DecodeError:
        raise OperationError(PERSIST_FAILED, f"what is kept under {key!r} cannot be read any more") from None


def state_set(store: Store, skill: str, key: str, value: Json) -> None:
    """Keep `value` for the skill; None lets go of what was kept.

    Raises:
        OperationError: for what is too large, or too much.
    """
    _good(key)
    try:
        written = msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError):
        raise OperationError(BAD_PARAMS, "a value of the state is plain JSON") from None
    if len(written) > MOST_BYTES:
        raise OperationError(
            BAD_PARAMS, f"a value of the state has at most {MOST_BYTES:,} bytes, this one {len(written):,}"
        )
    with store.writing() as connection:
        if value is None:
            connection.execute("DELETE FROM skill_state WHERE skill = ? AND key = ?", (skill, key))
            return
        (count,) = connection.execute(
            "SELECT count(*) FROM skill_state WHERE skill = ? AND key <> ?", (skill, key)
        ).fetchone()
        if count >= MOST_KEYS:
            raise OperationError(
                BAD_PARAMS, f"a skill keeps at most {MOST_KEYS:,} keys; let go of one with null"
            )
        connection.execute(
            "INSERT OR REPLACE INTO skill_state VALUES (?, ?, ?, ?)",
            (skill, key, written.decode(), time.time()),
        )


def _good(key: str) -> None:
    if not key or len(key) > LONGEST_KEY or not key.isprintable():
        raise OperationError(BAD_PARAMS, f"a key is a text of 1 to {LONGEST_KEY} printable characters")
