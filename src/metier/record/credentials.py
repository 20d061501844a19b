"""What people show to sign in: a password, as its argon2 hash, or an account at an identity provider. Every change is on the record.

A password is one person's. An account elsewhere (issuer and subject, never a name or an address of mail, which others may have
tomorrow) stands for one person here; a person may have several. The owner of this state signs in by a link, and can have both too.
"""

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, final

import msgspec

from metier.errors import RecordError, StateError
from metier.model.role import Registered
from metier.record.registered import registered_in
from metier.record.row_ledger import RowLedger, row_digest
from metier.record.schema import KNOWS_TOKEN

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

CredentialKind: TypeAlias = Literal["password", "oidc"]
_COLUMNS: Final = "kind, name, principal, body, set_at, set_by, revoked_at, revoked_by"
_READ: Final = f"SELECT {_COLUMNS} FROM credential"  # noqa: S608  a constant
_WRITE: Final = "INSERT OR REPLACE INTO credential VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_Row: TypeAlias = tuple[str, str, str, bytes, str, str, str, str]
_LONGEST: Final = 2_048
"""Bytes: all of it goes into the record of it."""


@final
class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """One way for one person to sign in."""

    kind: CredentialKind
    name: str
    principal: str
    body: bytes
    """The hash of a password; empty for an account elsewhere."""
    set_at: str
    """Also tells it from the one it replaced: who signed in by that is signed in no longer."""
    set_by: str

    def __repr__(self) -> str:
        return f"Credential({self.kind}, {self.principal})"


def oidc_name(issuer: str, subject: str) -> str:
    """How an account elsewhere is written down: an issuer is an address, so there is no space in it."""
    return f"{issuer} {subject}"


def person_problem(principal: str, registered: dict[str, Registered], owner: str) -> str:
    """Why `principal` cannot sign in; empty when it can."""
    known = registered.get(principal) if principal.isprintable() else None
    if known is not None and known.revoked:
        return f"{principal} was revoked; whoever manages principals can add it again"
    if principal == owner or (known is not None and known.kind == "human"):
        return ""
    if known is not None or principal.startswith("agent:"):
        return f"{principal[:80]} is not a person, and only people sign in; a program has tokens (`metier tokens add`)"
    return f"{principal[:80]!r} is not registered; `metier principals add` registers it"


def set_credential(
    database: "Database", kind: CredentialKind, *, name: str, principal: str, body: bytes, by: str, owner: str
) -> str:
    """Let a person sign in so. Gives why that was not done; empty when it was.

    Raises:
        StateError: when it cannot be written or recorded; then nothing changed.
    """
    from metier.record.chain import Act, append, now

    if not name.isprintable() or not 0 < len(name.encode()) <= _LONGEST or len(body) > _LONGEST:
        return "that is no credential: it is too long, or no plain text"
    with database.transaction() as connection:
        if problem := person_problem(principal, registered_in(connection), owner):
            return problem
        known = credential_in(connection, kind, name)
        if known is not None and known.principal != principal:
            return f"this account is {known.principal}'s already; remove it there first"
        at = now()
        row: _Row = (kind, name, principal, body, at, by, "", "")
        connection.execute(_WRITE, row)
        append(
            connection,
            "credential_set",
            Act(principal=by),
            at=at,
            code=f"{kind} {name}",
            reasons=(f"for: {principal}",),
            grant=row_digest(row),
        )
    return ""


def revoke_credential(database: "Database", kind: CredentialKind, *, name: str, by: str) -> str:
    """Let nobody sign in so any more. Gives why that was not done; empty when it was.

    Raises:
        RecordError: when it is revoked but could not be recorded. Revoking never waits.
        StateError: when it could not be revoked.
    """
    from metier.record.chain import now

    at = now()
    try:
        with database.transaction() as connection:
            if not _revoke(connection, kind, name, at=at, by=by, record=True):
                return f"there is no {'password' if kind == 'password' else 'account'} to remove for {name[:200]!r}"
    except StateError as error:
        with database.transaction() as connection:
            _revoke(connection, kind, name, at=at, by=by, record=False)
        raise RecordError(
            f"it is removed, but that could not be recorded: {error.message}", remedy=error.remedy
        ) from error
    return ""


def revoke_credentials_of(connection: "sqlite3.Connection", principal: str, *, at: str, by: str) -> None:
    """Every way to sign in of somebody, in the transaction of what ends them: an id that comes back may be somebody else."""
    for each in credentials_in(connection):
        if each.principal == principal:
            _revoke(connection, each.kind, each.name, at=at, by=by, record=True)


def credential_in(connection: "sqlite3.Connection", kind: CredentialKind, name: str) -> Credential | None:
    """The one of this name, if it was not revoked."""
    if not _known(connection) or not name.isprintable():
        return None
    row = connection.execute(
        f"{_READ} WHERE kind = ? AND name = ? AND revoked_at = ''", (kind, name)
    ).fetchone()
    return None if row is None else _credential(row)


def credentials_in(connection: "sqlite3.Connection") -> list[Credential]:
    """All that were not revoked."""
    if not _known(connection):
        return []
    rows = connection.execute(f"{_READ} WHERE revoked_at = '' ORDER BY principal, kind, name")
    return [each for each in map(_credential, rows) if each is not None]


def credential_ledger() -> RowLedger:
    """Which ones there must be if the chain is right."""
    events = ("credential_set", "credential_revoked")
    return RowLedger("credential", events, f"{_READ} ORDER BY kind, name", keys=2)


def _known(connection: "sqlite3.Connection") -> bool:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version >= KNOWS_TOKEN


def _revoke(
    connection: "sqlite3.Connection", kind: str, name: str, *, at: str, by: str, record: bool
) -> bool:
    from metier.record.chain import Act, append

    if not _known(connection) or not name.isprintable():
        return False
    found: tuple[object, ...] | None = connection.execute(
        f"{_READ} WHERE kind = ? AND name = ?", (kind, name)
    ).fetchone()
    if found is None:
        return False
    row = (*found[:3], b"", *found[4:6], at, by)  # nothing is left that could be guessed at
    connection.execute(_WRITE, row)
    if record:
        append(
            connection,
            "credential_revoked",
            Act(principal=by),
            at=at,
            code=f"{kind} {name}",
            grant=row_digest(row),
        )
    return True


def _credential(row: tuple[object, ...]) -> Credential | None:
    """One entry; None for what cannot be understood, which lets nobody in."""
    kind, name, principal, body, set_at, set_by, *_ = row
    texts = (kind, name, principal, set_at, set_by)
    if not all(isinstance(part, str) for part in texts) or not isinstance(body, bytes):
        return None
    return Credential(
        kind=cast("CredentialKind", kind),
        name=cast("str", name),
        principal=cast("str", principal),
        body=body,
        set_at=cast("str", set_at),
        set_by=cast("str", set_by),
    )
