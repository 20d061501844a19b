"""What the tables beside the chain must hold if the chain is right: trust, revocations, disabled skills, open intents.

The walk hands over one record after the other; at the end the tables are compared with what followed from
them. What is kept meanwhile grows with what is trusted and open, not with the log.
"""

import sqlite3
from typing import Final

from metier.record.chain import grant_digest
from metier.record.glance import Glance
from metier.record.schema import KNOWS_DISABLED

_ENDINGS: Final = ("skill_executed", "skill_execution_error")
_GRANTS: Final = ("skill_trusted", "skill_pinned")


class Ledger:
    """What followed from the records so far."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self._trusted: dict[str, dict[str, str]] = {}
        """By name and digest of the skill: the digest of the grant."""
        self._revoked: dict[str, tuple[str, str]] = {}
        """By name: when and by whom."""
        self._disabled: dict[str, tuple[str, str]] = {}
        """By name: when and by which call."""

    def take(self, record: Glance) -> str:
        """Follow one more record. Gives why it cannot follow on the others; empty when it can."""
        if record.event == "skill_execution_started":
            self.open.add(record.seq)
        elif record.event in _ENDINGS:
            if record.about not in self.open:
                return f"record {record.seq} is the outcome of an intent that does not wait for one"
            self.open.remove(record.about)
        elif record.event in _GRANTS:
            self._revoked.pop(record.skill, None)
            self._trusted.setdefault(record.skill, {})[record.skill_digest] = record.grant
        elif record.event == "skill_untrusted":
            self._trusted.pop(record.skill, None)
            self._revoked[record.skill] = (record.at, record.principal)
        elif record.event == "skill_disabled":
            self._disabled[record.skill] = (record.at, record.call_id)
        elif record.event == "skill_enabled":
            self._disabled.pop(record.skill, None)
        return ""

    def problem(self, connection: sqlite3.Connection) -> str:
        """Where the tables say something else than the records. The connection gives text as bytes."""
        return (
            self._trust_problem(connection)
            or self._revoked_problem(connection)
            or self._disabled_problem(connection)
            or self._open_problem(connection)
        )

    def _trust_problem(self, connection: sqlite3.Connection) -> str:
        missing = {(name, digest) for name, digests in self._trusted.items() for digest in digests}
        for row in connection.execute(
            "SELECT name, digest, version, permissions, granted_at, granted_by, how FROM trust ORDER BY name, digest"
        ):
            name, digest = _text(row[0]), _text(row[1])
            recorded = self._trusted.get(name, {}).get(digest)
            if recorded is None:
                return f"{name!r} is trusted, and no record says so; {_REMEDY}"
            if not all(isinstance(part, bytes) for part in row) or grant_digest(*row) != recorded:
                return f"the trust in {name!r} is not the one that was recorded; {_REMEDY}"
            missing.discard((name, digest))
        return (
            f"{min(missing)[0]!r} was trusted on the record, and is not any more; {_REMEDY}"
            if missing
            else ""
        )

    def _revoked_problem(self, connection: sqlite3.Connection) -> str:
        missing = set(self._revoked)
        for row in connection.execute("SELECT name, revoked_at, revoked_by FROM revoked ORDER BY name"):
            name, at, by = map(_text, row)
            if self._revoked.get(name) != (at, by):
                return f"the trust in {name!r} was taken back, and not as a record says; {_REMEDY}"
            missing.discard(name)
        if missing:
            return f"the trust in {min(missing)!r} was taken back on the record, and the table forgot it; {_REMEDY}"
        return ""

    def _disabled_problem(self, connection: sqlite3.Connection) -> str:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < KNOWS_DISABLED:
            return ""
        missing = set(self._disabled)
        for row in connection.execute("SELECT name, disabled_at, call_id FROM disabled ORDER BY name"):
            name, at, call = map(_text, row)
            if self._disabled.get(name) != (at, call):
                return f"{name!r} is disabled, and not as a record says; enable it to settle it"
            missing.discard(name)
        if missing:
            return f"{min(missing)!r} was disabled on the record, and the table forgot it; do not use it"
        return ""

    def _open_problem(self, connection: sqlite3.Connection) -> str:
        waiting = {seq for (seq,) in connection.execute("SELECT seq FROM open_intent")}
        if differ := sorted(waiting ^ self.open):
            state = "waits for an outcome" if differ[0] in self.open else "does not wait for an outcome"
            return f"record {differ[0]} {state}, and the table of open intents says otherwise"
        return ""


_REMEDY: Final = "trust it or take the trust back again to settle it"


def _text(stored: object) -> str:
    return stored.decode("utf-8", "replace") if isinstance(stored, bytes) else repr(stored)
