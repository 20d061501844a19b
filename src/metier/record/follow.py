"""What the tables beside the chain must hold if the chain is right: trust, disabled skills, settings, principals,
tokens, credentials, words, intents.

The walk hands over one record after the other; at the end the tables are compared with what followed from
them. What is kept meanwhile grows with what is trusted and open, not with the log. Each table of its own room has its ledger
there.
"""

import sqlite3
from typing import Final, Protocol

from metier.record.approval_ledger import ApprovalLedger
from metier.record.chain import grant_digest
from metier.record.credentials import credential_ledger
from metier.record.glance import Glance, rows_since
from metier.record.principals import PrincipalLedger
from metier.record.schema import KNOWS_DISABLED, KNOWS_SETTING
from metier.record.signed_head import HeadLedger
from metier.record.standing import StandingLedger
from metier.record.tokens import token_ledger

_GRANTS: Final = ("skill_trusted", "skill_pinned")
_OF_KEYS: Final = ("head_signed", "key_rotated")
_BY_POLICY: Final = ("", "policy")
"""Evidence that uses nothing up."""


class TableLedger(Protocol):
    """What one table must hold."""

    def take(self, record: Glance) -> str | None:
        """Follow one more record. A text says why it cannot follow on the others."""
        ...

    def problem(self, connection: sqlite3.Connection) -> str:
        """Where the table says something else than the records; empty when it does not."""
        ...


class Ledger:
    """What followed from the records so far."""

    def __init__(self, connection: sqlite3.Connection, heads: HeadLedger) -> None:
        self._heads = heads
        self.open: dict[int, str] = {}
        """By the record that began it: the call."""
        self._unnamed: set[int] = set()
        """Those that older versions began: they have no call in the table."""
        self._cancelled: dict[int, str] = {}
        """By the record that began it: who wanted the call ended last."""
        self.erasures = 0
        """How many records say that payloads were erased."""
        self._begun = BegunLedger(connection)
        self._tables: tuple[TableLedger, ...] = (
            TrustLedger(),
            DisabledLedger(),
            SettingLedger(),
            PrincipalLedger(),
            StandingLedger(),
            ApprovalLedger(),
            token_ledger(),
            credential_ledger(),
        )

    def take(self, record: Glance) -> str:
        """Follow one more record. Gives why it cannot follow on the others; empty when it can."""
        event = record.event
        if event == "skill_execution_started":
            self.open[record.seq] = record.call_id
            if not record.evidence:
                self._unnamed.add(record.seq)
            self._begun.take(record)
        elif event == "skill_executed" or event == "skill_execution_error":
            if record.about not in self.open:
                return f"record {record.seq} is the outcome of an intent that does not wait for one"
            del self.open[record.about]
            self._unnamed.discard(record.about)
            self._cancelled.pop(record.about, None)
            return ""
        elif event != "skill_execution_blocked":
            return self._told(record)
        return self._told(record) if record.approval or record.evidence not in _BY_POLICY else ""

    def problem(self, connection: sqlite3.Connection) -> str:
        """Where the tables say something else than the records. The connection gives text as bytes."""
        if problem := self._heads.problem():
            return problem
        for table in self._tables:
            if problem := table.problem(connection):
                return problem
        return self._begun.problem() or self._open_problem(connection)

    def _told(self, record: Glance) -> str:
        if record.event in _OF_KEYS:
            return self._heads.take(record)
        if record.event == "payload_erased":
            self.erasures += 1
        elif record.event == "call_cancelled":
            ended = [seq for seq, call in self.open.items() if call == record.call_id]
            self._cancelled.update(dict.fromkeys(ended, record.principal))
        for table in self._tables:
            if problem := table.take(record):
                return problem
        return ""

    def _open_problem(self, connection: sqlite3.Connection) -> str:
        waiting = {seq for (seq,) in connection.execute("SELECT seq FROM open_intent")}
        if differ := sorted(waiting ^ self.open.keys()):
            state = "waits for an outcome" if differ[0] in self.open else "does not wait for an outcome"
            return f"record {differ[0]} {state}, and the table of open intents says otherwise"
        for seq, call, by in rows_since(
            KNOWS_SETTING, connection, "SELECT seq, call_id, cancelled_by FROM open_intent"
        ):
            if _text(call) != self.open[seq] and (call or seq not in self._unnamed):
                return f"the table of open intents names another call than record {seq}"
            if by and _text(by) != self._cancelled.get(seq):
                return f"the call of record {seq} is being cancelled, and no record says by whom; cancel it again to settle it"
        return ""


class TrustLedger:
    """Trust in skills, and trust taken back."""

    def __init__(self) -> None:
        self._trusted: dict[str, dict[str, str]] = {}
        """By name and digest of the skill: the digest of the grant."""
        self._revoked: dict[str, tuple[str, str]] = {}
        """By name: when and by whom."""

    def take(self, record: Glance) -> None:
        """Trust given and taken."""
        if record.event in _GRANTS:
            self._revoked.pop(record.skill, None)
            self._trusted.setdefault(record.skill, {})[record.skill_digest] = record.grant
        elif record.event == "skill_untrusted":
            self._trusted.pop(record.skill, None)
            self._revoked[record.skill] = (record.at, record.principal)

    def problem(self, connection: sqlite3.Connection) -> str:
        """Where the tables differ."""
        return self._trust_problem(connection) or self._revoked_problem(connection)

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


class DisabledLedger:
    """Skills disabled after a violation, and the bytes that were disabled with them."""

    def __init__(self) -> None:
        self._disabled: dict[str, tuple[str, str]] = {}
        """By name: when and by which call."""
        self._bytes: set[tuple[str, str]] = set()
        """Name and digest."""

    def take(self, record: Glance) -> None:
        """Disabled and enabled."""
        if record.event == "skill_disabled":
            self._disabled[record.skill] = (record.at, record.call_id)
            if record.skill_digest:
                self._bytes.add((record.skill, record.skill_digest))
        elif record.event == "skill_enabled":
            self._disabled.pop(record.skill, None)
            self._bytes = {each for each in self._bytes if each[0] != record.skill}

    def problem(self, connection: sqlite3.Connection) -> str:
        """Where the table differs."""
        missing = set(self._disabled)
        for row in rows_since(
            KNOWS_DISABLED, connection, "SELECT name, disabled_at, call_id FROM disabled ORDER BY name"
        ):
            name, at, call = map(_text, row)
            if self._disabled.get(name) != (at, call):
                return f"{name!r} is disabled, and not as a record says; enable it to settle it"
            missing.discard(name)
        if missing:
            return f"{min(missing)!r} was disabled on the record, and the table forgot it; do not use it"
        return self._bytes_problem(connection)

    def _bytes_problem(self, connection: sqlite3.Connection) -> str:
        rows = rows_since(KNOWS_SETTING, connection, "SELECT name, digest FROM disabled_bytes")
        stored = {(_text(name), _text(digest)) for name, digest in rows}
        if differ := sorted(stored ^ self._bytes):
            how = "and not as a record says" if differ[0] in stored else "and the table forgot it"
            return f"bytes of {differ[0][0]!r} are disabled, {how}; disable or enable it again to settle it"
        return ""


class SettingLedger:
    """The trust level, the stop button and which rules were seen last. What somebody said when he stopped everything is his word, and not compared."""

    def __init__(self) -> None:
        self._set: dict[str, tuple[str | None, str, str]] = {}
        """By name: the value if the record has it, when and by whom."""

    def take(self, record: Glance) -> None:
        """The level changed, everything stopped, everything resumed."""
        if record.event == "trust_level_changed":
            self._set["trust_level"] = (record.code, record.at, record.principal)
        elif record.event == "stopped" or record.event == "state_restored":
            self._set["stopped"] = (None, record.at, record.principal)
        elif record.event == "resumed":
            self._set.pop("stopped", None)
        elif record.event == "policy_changed":
            self._set["policy"] = (record.code, record.at, record.principal)

    def problem(self, connection: sqlite3.Connection) -> str:
        """Where the table differs."""
        missing = set(self._set)
        for row in rows_since(
            KNOWS_SETTING, connection, "SELECT name, value, changed_at, changed_by FROM setting ORDER BY name"
        ):
            name, value, at, by = map(_text, row)
            recorded = self._set.get(name)
            if recorded is None or recorded[1:] != (at, by) or recorded[0] not in (None, value):
                return f"the setting {name!r} is not as a record says; {_SETTLE.get(name, 'find out who wrote it')}"
            missing.discard(name)
        if missing:
            name = min(missing)
            return f"the setting {name!r} is on the record, and the table forgot it; {_SETTLE[name]}"
        return ""


class BegunLedger:
    """Each attempt of a call begins once: the table that sees to it is walked in step with the intents."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        rows = rows_since(KNOWS_SETTING, connection, "SELECT call_id, attempt, seq FROM begun ORDER BY seq")
        self._rows = iter(rows)
        self._next = next(self._rows, None)
        self._problem = ""
        self._any = False
        """State of an older version has intents from before there was such a table, and only before."""

    def take(self, record: Glance) -> None:
        """One more intent."""
        row = self._next
        if row is None or row[2] != record.seq:
            if self._any or record.evidence:
                self._say(f"that record {record.seq} began is not in the table of begun calls")
            return
        if row[0] != record.call_id or row[1] != record.attempt:
            self._say(f"the table of begun calls says something else than record {record.seq}")
        self._any = True
        self._next = next(self._rows, None)

    def problem(self) -> str:
        """The first thing that was wrong, or a row that no intent stands for."""
        if self._next is not None:
            self._say(
                f"the table of begun calls has one for record {_text(self._next[2])}, which began nothing"
            )
        return self._problem

    def _say(self, problem: str) -> None:
        self._problem = self._problem or problem


_REMEDY: Final = "trust it or take the trust back again to settle it"
_SETTLE: Final = {
    "trust_level": "set the level again to settle it",
    "stopped": "stop or resume again to settle it",
    "policy": "see with `metier policy check` which rules there are",
}


def _text(stored: object) -> str:
    return stored.decode("utf-8", "replace") if isinstance(stored, bytes) else repr(stored)
