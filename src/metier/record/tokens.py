"""API tokens: what a program shows to be let in as somebody. Every change is on the record, the token itself is nowhere.

A token is `metier_<id>_<secret>`. It is shown once, when it is made; only its SHA-256 is kept. It belongs to one principal and has
scopes, the rights it can use at most: what its principal may not do, no token lets it do. It always ends: on its day, when it is
revoked, and when its principal is.
"""

import hashlib
import hmac
import re
import secrets
import time
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

import msgspec

from metier.errors import RecordError, StateError
from metier.model.role import ROLES, Registered
from metier.record.glance import UNDECODABLE
from metier.record.registered import BUILT_IN_AGENTS, registered_in
from metier.record.row_ledger import RowLedger, row_digest
from metier.record.schema import KNOWS_TOKEN

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from metier.record.database import Database

RIGHTS: Final = frozenset[str]().union(*ROLES.values())
"""Everything a scope can be."""
MOST_DAYS: Final = 366
MOST: Final = 1_000
"""How many can be in use at once: all of them are looked through whenever somebody changed something."""
NEVER: Final = frozenset({"agent:host"})
"""Who can have none: what the host does by itself, nobody from outside may do in its name."""
_FORM: Final = re.compile(r"metier_([0-9a-f]{12})_[0-9a-f]{64}", re.ASCII)
_NAME_LENGTH: Final = 80
_DOMAIN: Final = b"metier token 1\0"
_COLUMNS: Final = "id, principal, name, hash, scopes, expires_at, added_at, added_by, revoked_at, revoked_by"
_READ: Final = f"SELECT {_COLUMNS} FROM token"  # noqa: S608  a constant
_WRITE: Final = "INSERT OR REPLACE INTO token VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_Row: TypeAlias = tuple[str, str, str, bytes, bytes, int, str, str, str, str]
_scopes: Final = msgspec.json.Decoder(frozenset[str])


@final
class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One token, without what would let anybody in."""

    id: str
    principal: str
    name: str
    scopes: frozenset[str]
    expires_at: int
    """In seconds, as the clock on the wall counts them."""
    added_at: str
    added_by: str
    hash: bytes
    revoked: bool = False

    def is_over(self, now: float) -> bool:
        """Whether nobody is let in by it any more."""
        return self.revoked or now >= self.expires_at


@final
class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A new token, and the only time that its text is seen."""

    token: Token
    text: str

    def __repr__(self) -> str:
        return f"Made({self.token.id})"


def token_id(text: str) -> str:
    """The id in the text of a token; empty where it cannot be one."""
    found = _FORM.fullmatch(text)
    return found[1] if found else ""


def fits(token: Token | None, text: str) -> bool:
    """Whether `text` is this token. It takes as long where it is not."""
    return (
        hmac.compare_digest(token.hash if token is not None else bytes(32), _hash(text)) and token is not None
    )


def add_problem(
    principal: str,
    name: str,
    scopes: frozenset[str],
    expires_at: float,
    *,
    registered: dict[str, Registered],
    owner: str,
    now: float,
) -> str:
    """Why there can be no such token; empty when there can."""
    if problem := holder_problem(principal, registered, owner):
        return problem
    if not name or len(name) > _NAME_LENGTH or not name.isprintable() or name != name.strip():
        return f"a token needs a name of one line and at most {_NAME_LENGTH} characters, so that you know it again"
    if not scopes or not scopes <= RIGHTS:
        return f"a token needs one or more of these scopes, and no other: {', '.join(sorted(RIGHTS))}"
    if not now < expires_at <= now + MOST_DAYS * 86_400:
        return f"a token ends: after 1 to {MOST_DAYS} days"
    return ""


def holder_problem(principal: str, registered: dict[str, Registered], owner: str) -> str:
    """Why `principal` can have no token; empty when it can."""
    known = registered.get(principal) if principal.isprintable() else None
    if known is not None and known.revoked:
        return f"{principal} was revoked; whoever manages principals can add it again"
    if principal in NEVER:
        return f"{principal} is Metier's own host, and nobody from outside speaks for it"
    if principal == owner or known is not None or principal in BUILT_IN_AGENTS:
        return ""
    return f"{principal[:80]!r} is not registered; `metier principals add` registers it"


def add_token(
    database: "Database",
    *,
    principal: str,
    name: str,
    scopes: frozenset[str],
    expires_at: float,
    by: str,
    owner: str,
    unless: "Callable[[dict[str, Registered]], str] | None" = None,
) -> Made | str:
    """Make a token, or say why there can be none.

    Args:
        unless: of those who are registered as it is made, why there is none all the same; empty when there can be.

    Raises:
        StateError: when it cannot be written or recorded; then there is none.
    """
    from metier.record.chain import Act, append, now

    with database.transaction() as connection:
        clock, known = time.time(), registered_in(connection)
        if problem := add_problem(
            principal, name, scopes, expires_at, registered=known, owner=owner, now=clock
        ):
            return problem
        if unless is not None and (problem := unless(known)):
            return problem
        if sum(not each.is_over(clock) for each in tokens_in(connection).values()) >= MOST:
            return f"there are {MOST} tokens in use, and no more can be; revoke some first"
        at, id = now(), secrets.token_hex(6)
        text = f"metier_{id}_{secrets.token_hex(32)}"
        row: _Row = (
            *(id, principal, name, _hash(text), msgspec.json.encode(sorted(scopes)), int(expires_at)),
            *(at, by, "", ""),
        )
        if connection.execute("SELECT 1 FROM token WHERE id = ?", (id,)).fetchone():  # 2**48 of them
            return "that did not work; try again"
        connection.execute(_WRITE, row)
        words = (f"for: {principal}", f"scopes: {', '.join(sorted(scopes))}", f"until: {int(expires_at)}")
        append(
            connection,
            "token_added",
            Act(principal=by),
            at=at,
            code=id,
            reasons=words,
            grant=row_digest(row),
        )
    return Made(token=_token(row), text=text)


def revoke_token(database: "Database", id: str, *, by: str) -> str:
    """Let nobody in by it any more. Gives why that was not done; empty when it was.

    Raises:
        RecordError: when it is revoked but could not be recorded. Revoking never waits.
        StateError: when it could not be revoked.
    """
    from metier.record.chain import now

    at = now()
    try:
        with database.transaction() as connection:
            if not _revoke(connection, id, at=at, by=by, record=True):
                return f"there is no token {id[:80]!r}"
    except StateError as error:
        with database.transaction() as connection:
            _revoke(connection, id, at=at, by=by, record=False)
        raise RecordError(
            f"the token {id} is revoked, but that could not be recorded: {error.message}", remedy=error.remedy
        ) from error
    return ""


def revoke_tokens_of(connection: "sqlite3.Connection", principal: str, *, at: str, by: str) -> None:
    """Every token of somebody, in the transaction of what ends them: an id that comes back may be somebody else."""
    for each in tokens_in(connection).values():
        if each.principal == principal and not each.revoked:
            _revoke(connection, each.id, at=at, by=by, record=True)


def tokens_in(connection: "sqlite3.Connection", *, all: bool = False) -> dict[str, Token]:
    """The tokens that were not revoked, by id; with `all` every one there was. One that cannot be understood is revoked."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < KNOWS_TOKEN:
        return {}
    rows = connection.execute(_READ if all else f"{_READ} WHERE revoked_at = ''")
    found = {each.id: each for each in map(_token, rows)}
    return found if all else {id: each for id, each in found.items() if not each.revoked}


def token_ledger() -> RowLedger:
    """Which tokens there must be if the chain is right."""
    return RowLedger("token", ("token_added", "token_revoked"), f"{_READ} ORDER BY id", keys=1)


def _revoke(connection: "sqlite3.Connection", id: str, *, at: str, by: str, record: bool) -> bool:
    from metier.record.chain import Act, append

    if not id.isascii():  # our ids are, and a driver takes no broken text
        return False
    found: tuple[object, ...] | None = connection.execute(f"{_READ} WHERE id = ?", (id,)).fetchone()
    if found is None:
        return False
    row = (*found[:8], at, by)
    connection.execute(_WRITE, row)
    if record:
        append(connection, "token_revoked", Act(principal=by), at=at, code=id, grant=row_digest(row))
    return True


def _token(row: tuple[object, ...]) -> Token:
    """One entry. What it is not certain of, lets nobody in."""
    id, principal, name, hash, scopes, expires, added_at, added_by, revoked_at, _ = row
    nothing = Token(
        id=str(id), principal="", name="", scopes=frozenset(), expires_at=0, added_at="", added_by="",
        hash=b"", revoked=True,
    )  # fmt: skip
    texts = (id, principal, name, added_at, added_by, revoked_at)
    if not all(isinstance(part, str) for part in texts) or not isinstance(expires, int):
        return nothing
    if not isinstance(hash, bytes) or len(hash) != 32 or not isinstance(scopes, bytes):
        return nothing
    try:
        rights = _scopes.decode(scopes)
    except UNDECODABLE:
        return nothing
    return Token(
        id=cast("str", id),
        principal=cast("str", principal),
        name=cast("str", name),
        scopes=rights,
        expires_at=expires,
        added_at=cast("str", added_at),
        added_by=cast("str", added_by),
        hash=hash,
        revoked=revoked_at != "",
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(_DOMAIN + text.encode("utf-8", "surrogatepass")).digest()
