"""Standing grants: somebody's word for acts like one he was asked about. Each is shown before it is given.

Giving one is in the transaction of its record or it is not given. Taking one back never waits for the record. The exact
arguments a grant is for are kept as a keyed digest; the key ends with the grant.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec

from metier.errors import RecordError, StateError
from metier.model.approval import Scope, Shown, StandingGrant
from metier.model.digest import Json, canonical
from metier.model.interpreters import is_interpreter
from metier.model.text import one_line
from metier.record.approval_clock import BACK_SECONDS, Moment, moment
from metier.record.chain import Act, append, grant_digest, keyed_digest
from metier.record.glance import UNDECODABLE, rows_since
from metier.record.registered import may_approve
from metier.record.schema import KNOWS_SETTING

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database
    from metier.record.glance import Glance

SESSION_SECONDS: Final = 86_400.0
"""How long a grant for a session lives at most, whatever becomes of the session."""
Lasting: TypeAlias = Literal["session", "always"]
_FIELDS: Final = "id, body, given_at, given_by, revoked_at, revoked_by, uses_left, record"
_grant: Final = msgspec.json.Decoder(StandingGrant)


class _Row(NamedTuple):
    id: str
    body: bytes
    given_at: str
    given_by: str
    revoked_at: str
    revoked_by: str
    uses_left: int | None
    record: int


def proposed_grant(
    shown: Shown,
    scope: Lasting,
    *,
    approval: str,
    by: str,
    now: float | Moment | None = None,
    any_arguments: bool = False,
    uses: int | None = None,
    days: float | None = None,
) -> StandingGrant | str:
    """The grant that approving `shown` with this scope would give, to be shown first; or why there is none."""
    import secrets

    at = moment(now)
    if scope == "session" and not shown.session:
        return "this call belongs to no session, so there is none to grant it for"
    if any_arguments and (why := only_as_asked(shown.permissions.get("binaries", ()), shown.interpreter)):
        return why
    if uses is not None and uses < 1:
        return "a grant is for one use or more"
    if days is not None and not 0 < days <= 36_500:
        return "a grant lasts for more than no days and at most 36,500"
    seconds = None if days is None else days * 86_400.0
    if scope == "session":
        seconds = min(SESSION_SECONDS, seconds or SESSION_SECONDS)
    key = "" if any_arguments else secrets.token_hex(32)
    return StandingGrant(
        id=f"grt_{secrets.token_hex(12)}",
        tool=shown.tool,
        principal=shown.principal,
        on_behalf_of=shown.on_behalf_of,
        definition=shown.definition,
        skill=shown.skill,
        skill_digest=shown.skill_digest,
        file=shown.file,
        arguments=arguments_digest(key, shown.arguments) if key else "",
        key=key,
        permissions=shown.permissions,
        cwd=shown.place,
        programs=shown.programs,
        session=shown.session if scope == "session" else "",
        risk="high" if shown.risk == "high" else "medium",
        names_tool=shown.always_asks,
        expires_at=None if seconds is None else at.wall + seconds,
        given_by=by,
        given_at=at.text,
        approval=approval,
        uses_left=uses,
    )


def only_as_asked(programs: Iterable[str], interpreter: str) -> str:
    """Why a call that uses these programs can be granted for its exact arguments only; empty when it need not be. `interpreter` is
    one that goes by another name. Whatever one may tell a shell is whatever there is."""
    name = interpreter or next((each for each in sorted(programs) if is_interpreter(each)), "")
    return (
        f"{one_line(name, 80)!r} runs whatever it is told, so it is granted for exact arguments only"
        if name
        else ""
    )


def arguments_digest(key: str, arguments: dict[str, Json]) -> str:
    """How a grant remembers exact arguments."""
    return keyed_digest(bytes.fromhex(key), canonical(arguments))


def fits(grant: StandingGrant, shown: Shown, scope: Scope, *, approval: str, by: str) -> str:
    """Why `grant` is not one that approving `shown` may give; empty when it is."""
    expected = {
        "tool": shown.tool,
        "principal": shown.principal,
        "on_behalf_of": shown.on_behalf_of,
        "definition": shown.definition,
        "skill": shown.skill,
        "skill_digest": shown.skill_digest,
        "file": shown.file,
        "permissions": shown.permissions,
        "cwd": shown.place,
        "programs": shown.programs,
        "session": shown.session if scope == "session" else "",
        "names_tool": shown.always_asks,
        "risk": "high" if shown.risk == "high" else "medium",
        "given_by": by,
        "approval": approval,
    }
    for name, value in expected.items():
        if getattr(grant, name) != value:
            return f"the standing grant is not for what was asked: its {name} differs"
    if scope == "session" and not shown.session:
        return "this call belongs to no session"
    programs = shown.permissions.get("binaries", ())
    if not grant.arguments and (why := only_as_asked(programs, shown.interpreter)):
        return why
    if bool(grant.arguments) != bool(grant.key) or (
        grant.key and grant.arguments != arguments_digest(grant.key, shown.arguments)
    ):
        return "the standing grant is not for these arguments"
    return ""


def grants_in(connection: "sqlite3.Connection") -> tuple[StandingGrant, ...]:
    """Those that were not revoked, oldest first. One that cannot be understood answers nothing."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_SETTING:
        return ()
    rows = connection.execute(f"SELECT {_FIELDS} FROM standing WHERE revoked_at = '' ORDER BY given_at, id")  # noqa: S608
    return tuple(grant for row in rows if (grant := _read(_Row(*row))) is not None)


def answering_in(connection: "sqlite3.Connection") -> tuple[StandingGrant, ...]:
    """Of these, those whose giver may still approve. For what the others would have answered somebody is asked again."""
    grants = grants_in(connection)
    may = {giver: may_approve(connection, giver) for giver in {grant.given_by for grant in grants}}
    return tuple(grant for grant in grants if may[grant.given_by])


def _read(row: _Row) -> StandingGrant | None:
    try:
        grant = _grant.decode(row.body)
    except UNDECODABLE:
        return None
    counted = grant.uses_left is not None
    if grant.id != row.id or counted != isinstance(row.uses_left, int):
        return None
    return msgspec.structs.replace(grant, uses_left=row.uses_left)


def expired(grant: StandingGrant, now: Moment) -> bool:
    """Whether its time is over, or the clock was set back to before it was given."""
    from datetime import datetime

    try:
        given = datetime.fromisoformat(grant.given_at).timestamp()
    except (ValueError, OverflowError):
        return True
    return not now.wall >= given - BACK_SECONDS or (
        grant.expires_at is not None and not now.wall < grant.expires_at
    )


def grant_problem(connection: "sqlite3.Connection", grant: str, now: float | Moment | None = None) -> str:
    """Why a standing grant can no longer be used; empty when it can."""
    row = _row(connection, grant)
    found = None if row is None else _read(row)
    if row is None or found is None:
        return "there is no such standing grant"
    if row.revoked_at:
        return "the standing grant was revoked"
    if expired(found, moment(now)):
        return "the standing grant has expired"
    if found.uses_left is not None and found.uses_left < 1:
        return "the standing grant is used up"
    if not may_approve(connection, row.given_by):
        return "whoever gave the standing grant may approve nothing any more"
    return ""


def take_grant(connection: "sqlite3.Connection", grant: str) -> None:
    """Count one use, where uses are counted."""
    connection.execute("UPDATE standing SET uses_left = uses_left - 1 WHERE id = ?", (grant,))


def give(database: "Database", grant: StandingGrant) -> None:
    """Give a grant by itself, without a request.

    Raises:
        StateError: when it cannot be written or recorded; then it is not given.
    """
    with database.transaction() as connection:
        give_in(connection, grant, at=grant.given_at, about=None)


def give_in(connection: "sqlite3.Connection", grant: StandingGrant, *, at: str, about: int | None) -> None:
    """Give a grant in the transaction of the decision that gives it, which is record `about`."""
    row = _Row(
        grant.id, msgspec.json.encode(grant), grant.given_at, grant.given_by, "", "", grant.uses_left, 0
    )
    act = Act(principal=grant.given_by, tool=grant.tool, skill=grant.skill, skill_digest=grant.skill_digest)
    seq = append(
        connection,
        "grant_given",
        act,
        at=at,
        code="session" if grant.session else "always",
        reasons=(f"{grant.id} for {grant.principal}",),
        about=about,
        grant=_digest(row),
        approval=grant.approval,
    )
    connection.execute(
        f"INSERT INTO standing ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        row._replace(record=seq),
    )


def revoke(database: "Database", grant: str, *, by: str, now: float | Moment | None = None) -> bool:
    """Take a standing grant back, at once; False when there is none that could be taken back.

    Raises:
        RecordError: when it is revoked, but that could not be recorded.
        StateError: when it could not be revoked.
    """
    at = moment(now).text
    try:
        with database.transaction() as connection:
            row = _row(connection, grant)
            if row is None or (row.revoked_at and not _unsettled(connection, row)):
                return False
            _revoke(connection, row, at=at, by=by, record=True)
    except StateError as error:
        with database.transaction() as connection:
            row = _row(connection, grant)
            if row is None:
                return False
            _revoke(connection, row, at=at, by=by, record=False)
        raise RecordError(
            f"{grant} is revoked, but that could not be recorded: {error.message}", remedy=error.remedy
        ) from error
    return True


def revoke_all(connection: "sqlite3.Connection", *, at: str, by: str) -> int:
    """Revoke every grant, in the transaction of a restore: an older state knows neither how often they were used since
    nor which were revoked. Gives how many there were."""
    rows = connection.execute(f"SELECT {_FIELDS} FROM standing WHERE revoked_at = ''").fetchall()  # noqa: S608
    for row in rows:
        _revoke(connection, _Row(*row), at=at, by=by, record=True)
    return len(rows)


def revoke_of(connection: "sqlite3.Connection", id: str, *, at: str, by: str) -> int:
    """Revoke what somebody gave or was given, in the transaction of what ends it. Gives how many there were."""
    given = [
        grant.id
        for grant in grants_in(connection)
        if id in (grant.given_by, grant.principal, grant.on_behalf_of)
    ]
    for each in given:
        row = _row(connection, each)
        if row is not None:
            _revoke(connection, row, at=at, by=by, record=True)
    return len(given)


def _row(connection: "sqlite3.Connection", grant: str) -> _Row | None:
    if not grant.isascii():  # our ids are, and a driver takes no broken text
        return None
    found = connection.execute(f"SELECT {_FIELDS} FROM standing WHERE id = ?", (grant,)).fetchone()  # noqa: S608
    return None if found is None else _Row(*found)


def _revoke(connection: "sqlite3.Connection", row: _Row, *, at: str, by: str, record: bool) -> None:
    made = row._replace(body=_without_key(row.body), revoked_at=at, revoked_by=by)
    if record:
        found = _read(row)
        act = Act(
            principal=by,
            tool=found.tool if found else "",
            skill=found.skill if found else "",
            skill_digest=found.skill_digest if found else "",
        )
        seq = append(
            connection,
            "grant_revoked",
            act,
            at=at,
            reasons=(row.id,),
            about=row.record,
            grant=_digest(made),
            approval=found.approval if found else "",
        )
        made = made._replace(record=seq)
    _store(connection, made)


def _store(connection: "sqlite3.Connection", row: _Row) -> None:
    connection.execute(
        "UPDATE standing SET body = ?, revoked_at = ?, revoked_by = ?, record = ? WHERE id = ?",
        (row.body, row.revoked_at, row.revoked_by, row.record, row.id),
    )


def _without_key(body: bytes) -> bytes:
    """As long as before, so that it is overwritten where it lies."""
    try:
        key = _grant.decode(body).key
    except UNDECODABLE:
        return bytes(len(body))
    return body.replace(key.encode(), b"0" * len(key)) if key else body


def _unsettled(connection: "sqlite3.Connection", row: _Row) -> bool:
    """Whether it was revoked without a record, which can then be made up for."""
    from metier.record.glance import Glance, glance

    found = connection.execute("SELECT body FROM audit WHERE seq = ?", (row.record,)).fetchone()
    record = glance(found[0]) if found is not None and isinstance(found[0], bytes) else ""
    return isinstance(record, Glance) and record.event == "grant_given"


def _digest(row: _Row) -> str:
    """Over all but the count, which follows from how often it was used."""
    parts = (row.id, row.given_at, row.given_by, row.revoked_at, row.revoked_by)
    return grant_digest(row.body, *(str(part).encode("utf-8", "surrogatepass") for part in parts))


class StandingLedger:
    """What the table of standing grants must hold if the chain is right."""

    def __init__(self) -> None:
        self._grants: dict[int, tuple[str, bool]] = {}
        """By the record that made it what it is: its digest, and whether it was revoked."""
        self._used: dict[str, int] = {}

    def take(self, record: "Glance") -> str:
        """Follow one more record. Gives why it cannot follow on the others; empty when it can."""
        if record.event == "grant_given":
            self._grants[record.seq] = (record.grant, False)
        elif record.event == "grant_revoked":
            was = self._grants.pop(record.about or 0, None)
            if was is None or was[1]:
                return f"record {record.seq} revokes a standing grant that was not given"
            self._grants[record.seq] = (record.grant, True)
        elif record.event == "skill_execution_started" and record.evidence.startswith("grt_"):
            self._used[record.evidence] = self._used.get(record.evidence, 0) + 1
        return ""

    def problem(self, connection: "sqlite3.Connection") -> str:
        """Where the table says something else than the records. The connection gives text as bytes."""
        missing = dict(self._grants)
        for found in rows_since(KNOWS_SETTING, connection, f"SELECT {_FIELDS} FROM standing ORDER BY id"):  # noqa: S608
            row = _decoded(found)
            recorded = missing.pop(row.record, None)
            if recorded is None or bool(row.revoked_at) != recorded[1]:
                return f"the standing grant {row.id!r} is not as a record says; revoke it to settle it"
            if _digest(row) != recorded[0]:
                return (
                    f"the standing grant {row.id!r} is not the one that was recorded; revoke it to settle it"
                )
            if said := self._count_problem(row):
                return said
        return "a standing grant that was recorded is gone from its table" if missing else ""

    def _count_problem(self, row: _Row) -> str:
        try:
            first = _grant.decode(row.body).uses_left
        except UNDECODABLE:
            return f"the standing grant {row.id!r} cannot be read; revoke it to settle it"
        left = None if first is None else first - self._used.get(row.id, 0)
        if row.uses_left != left:
            return f"the standing grant {row.id!r} has {row.uses_left} uses left, and by the record {left}"
        return ""


def _decoded(found: tuple[object, ...]) -> _Row:
    """Text comes as bytes here, whatever it is; what is no text of ours then has another digest."""
    row = _Row(*found)  # pyright: ignore[reportArgumentType]  only compared, never relied on
    texts = {
        name: value.decode("utf-8", "replace")
        for name, value in row._asdict().items()
        if name not in ("body", "uses_left", "record") and isinstance(value, bytes)
    }
    body = row.body if isinstance(row.body, bytes) else b""  # pyright: ignore[reportUnnecessaryIsInstance]
    return row._replace(body=body, **texts)
