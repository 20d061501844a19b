"""Which skills are trusted, as which bytes, with which permissions; and where a bundle was last seen.

Trust is in a name and a digest together: changed bytes are a stranger. Every grant and every revocation is
recorded in the transaction that makes it, so there is no trust without a record.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

import msgspec

from metier.errors import RecordError, StateError
from metier.model.permission import PermissionSet
from metier.record.disabling import all_disabled, bytes_disabled
from metier.record.glance import UNDECODABLE

if TYPE_CHECKING:
    import sqlite3

    from metier.record.database import Database

How: TypeAlias = Literal["operator", "first_use", "manifest", "release"]
"""On whose word: a person said so, or it was bound to the bytes seen first, or it came with Metier."""

_BOUND_TO_FIRST_BYTES: Final = ("first_use", "manifest")


@final
class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle as it lay at a path. Equal signatures mean nobody touched it and it need not be hashed again."""

    path: str
    name: str
    digest: str
    manifest_signature: str
    tree_signature: str


@final
class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Trust in one bundle."""

    name: str
    digest: str
    permissions: PermissionSet
    version: str
    granted_at: str
    granted_by: str
    how: How


@final
class Trusts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the store knew at one moment."""

    trusted: frozenset[tuple[str, str]] = frozenset()
    """Each trusted name with its digest."""
    permissions: dict[tuple[str, str], PermissionSet] = {}
    """What was granted, by name and digest."""
    grants: dict[tuple[str, str], Grant] = {}
    """The whole of it, by name and digest."""
    revoked: frozenset[str] = frozenset()
    """Names a person took the trust from. Only a person gives it back."""
    disabled: dict[str, str] = {}
    """Names that are disabled after a violation, each with the reason. Only a person enables them again."""
    disabled_bytes: dict[str, str] = {}
    """Digests of what was disabled after a violation, each with the name it had. They run under no name."""
    seen: dict[str, Seen] = {}
    """By path."""
    problems: tuple[str, ...] = ()
    """Grants that could not be read, and so do not count."""


NO_TRUSTS: Final = Trusts()
"""What is known where there is no state yet."""


@final
class TrustStore:
    """Reads and changes trust in a database."""

    def __init__(self, database: "Database") -> None:
        self._database = database

    def all(self) -> Trusts:
        """Everything, in one cheap read of one moment."""
        grants: dict[tuple[str, str], Grant] = {}
        problems: list[str] = []
        with self._database.reading() as connection:
            for row in connection.execute(f"SELECT {_GRANT} FROM trust"):  # noqa: S608  a constant
                try:
                    grants[row[0], row[1]] = _grant(row)
                except UNDECODABLE as error:
                    problems.append(f"the trust in {row[0]!r} cannot be read and does not count: {error}")
            revoked = frozenset(name for (name,) in connection.execute("SELECT name FROM revoked"))
            disabled = all_disabled(connection)
            disabled_bytes = bytes_disabled(connection)
            seen = {
                path: Seen(
                    path=path, name=name, digest=digest, manifest_signature=manifest, tree_signature=tree
                )
                for path, name, digest, manifest, tree in (
                    (_text(row[0]), *row[1:])
                    for row in connection.execute(f"SELECT {_SEEN} FROM seen")  # noqa: S608
                )
            }
        return Trusts(
            trusted=frozenset(grants),
            permissions={key: grant.permissions for key, grant in grants.items()},
            grants=grants,
            revoked=revoked,
            disabled=disabled,
            disabled_bytes=disabled_bytes,
            seen=seen,
            problems=tuple(problems),
        )

    def grant(
        self,
        name: str,
        digest: str,
        *,
        permissions: PermissionSet,
        by: str,
        how: How,
        version: str = "",
        path: str = "",
        manifest_signature: str = "",
        tree_signature: str = "",
    ) -> bool:
        """Trust the bytes `digest` under `name`, seen at `path` if one is given. Gives whether that is so now.

        Only a person's word overrules. Trust that comes by itself changes nothing, and the answer is False,
        when a person revoked the name or has settled these bytes himself, or when first bytes are to be
        bound and other bytes were already bound at that path.

        Raises:
            StateError: when it cannot be written or recorded; then nothing changed.
        """
        from metier.record.chain import Act, append, grant_digest, now

        at = now()
        _require_text(name, digest, version, by)
        row = (name, digest, version, _stored(permissions), at, by, how)
        with self._database.transaction() as connection:
            answer = None if how == "operator" else _settled(connection, name, digest, permissions, how, path)
            if answer is False:
                return False
            if path:
                seen = (_raw(path), name, digest, manifest_signature, tree_signature)
                connection.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?)", seen)
            if answer is True:
                return True
            connection.execute("DELETE FROM revoked WHERE name = ?", (name,))
            connection.execute("INSERT OR REPLACE INTO trust VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            append(
                connection,
                "skill_pinned" if how in _BOUND_TO_FIRST_BYTES else "skill_trusted",
                Act(principal=by, skill=name, skill_digest=digest),
                at=at,
                reasons=(f"on the word of: {how}", *_granted(permissions)),
                grant=grant_digest(*(part.encode() if isinstance(part, str) else part for part in row)),
            )
        return True

    def revoke(self, name: str, *, by: str, path: str = "") -> int:
        """Trust no bytes under `name` any more until a person trusts it again. Gives how many grants ended.

        What lies at `path` counts as seen from now on, so it cannot have a first use any more.

        Raises:
            RecordError: when it is revoked but could not be recorded. Taking trust away never waits.
            StateError: when it could not be revoked.
        """
        from metier.record.chain import Act, append, now

        at = now()
        _require_text(name, by)
        try:
            with self._database.transaction() as connection:
                ended = _revoke(connection, name, at, by, path)
                append(connection, "skill_untrusted", Act(principal=by, skill=name), at=at)
        except StateError as error:
            with self._database.transaction() as connection:
                _revoke(connection, name, at, by, path)
            raise RecordError(
                f"{name} is no longer trusted, but that could not be recorded: {error.message}",
                remedy=error.remedy,
            ) from error
        return ended

    def see(self, bundles: Iterable[Seen]) -> None:
        """Remember where bundles lie and how they looked, all in one transaction."""
        rows = [
            (_raw(one.path), one.name, one.digest, one.manifest_signature, one.tree_signature)
            for one in bundles
        ]
        for _, *texts in rows:
            _require_text(*texts)
        with self._database.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?)", rows)


_GRANT: Final = "name, digest, permissions, version, granted_at, granted_by, how"
_SEEN: Final = "path, name, digest, manifest_signature, tree_signature"
_permissions: Final = msgspec.json.Decoder(PermissionSet)


def _grant(row: tuple[str, str, bytes, str, str, str, How]) -> Grant:
    name, digest, permissions, version, at, by, how = row
    return Grant(
        name=name,
        digest=digest,
        permissions=_permissions.decode(permissions),
        version=version,
        granted_at=at,
        granted_by=by,
        how=how,
    )


def _settled(
    connection: "sqlite3.Connection", name: str, digest: str, permissions: PermissionSet, how: How, path: str
) -> bool | None:
    """The answer to a grant that came by itself, where an earlier word already gives one."""
    if connection.execute("SELECT 1 FROM revoked WHERE name = ?", (name,)).fetchone():
        return False
    if how in _BOUND_TO_FIRST_BYTES and path:
        bound = connection.execute("SELECT name, digest FROM seen WHERE path = ?", (_raw(path),)).fetchone()
        if bound is not None and bound != (name, digest):
            return False
    row = connection.execute(
        "SELECT how, permissions FROM trust WHERE name = ? AND digest = ?", (name, digest)
    ).fetchone()
    if row is None:
        return None
    if row[0] == "operator":
        return False
    return True if row == (how, _stored(permissions)) else None


def _revoke(connection: "sqlite3.Connection", name: str, at: str, by: str, path: str) -> int:
    connection.execute("INSERT OR REPLACE INTO revoked VALUES (?, ?, ?)", (name, at, by))
    if path:
        connection.execute("INSERT OR IGNORE INTO seen VALUES (?, ?, '', '', '')", (_raw(path), name))
    return connection.execute("DELETE FROM trust WHERE name = ?", (name,)).rowcount


def _stored(permissions: PermissionSet) -> bytes:
    return msgspec.json.encode(permissions.plain())


def _granted(permissions: PermissionSet) -> tuple[str, ...]:
    # A record masks what stands behind `secrets:`; these are names, and open nothing.
    kinds = {"secrets": "secrets (by name)"}
    lines = tuple(
        f"{kinds.get(kind, kind)}: {', '.join(names)}" for kind, names in permissions.plain().items()
    )
    return lines or ("no permissions",)


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogatepass")


def _require_text(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise StateError(
                f"{text!r} is not valid text and cannot be stored", remedy="Rename the skill"
            ) from None
