"""Waiting for somebody's word. A pending call holds nothing; only who chooses to wait for it does, and he alone."""

import time
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio
from anyio import to_thread

from metier.model.approval import Approval
from metier.model.outcome import Outcome, Pending, Refused
from metier.record.approval_clock import moment
from metier.record.approvals import find, keep_waiting
from metier.record.database import Database
from metier.record.turn import Busy

POLL_SECONDS: Final = 0.1
LEASE_SECONDS: Final = 3.0
"""For how long whoever decides may count on the waiting one to run it himself."""


@final
class Words:
    """Wakes who waits here for somebody's word. What is decided in another process is found by looking. Belongs to one loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[anyio.Event]] = {}
        self.closed = False
        """Nobody waits any more: this process is about to end."""

    def said(self, approval: str) -> None:
        """Somebody decided here."""
        for each in self._waiting.get(approval, ()):
            each.set()

    def close(self) -> None:
        """Send everybody home, with what they have."""
        self.closed = True
        for approval in tuple(self._waiting):
            self.said(approval)

    async def heard(self, approval: str, seconds: float) -> bool:
        """Wait for a word, at most so long; whether one came."""
        event = anyio.Event()
        self._waiting.setdefault(approval, set()).add(event)
        try:
            with anyio.move_on_after(seconds):
                await event.wait()
        finally:
            others = self._waiting[approval]
            others.discard(event)
            if not others:
                del self._waiting[approval]
        return event.is_set()


async def decided(
    pending: Pending,
    seconds: float,
    *,
    database: Database,
    words: Words,
    resume: Callable[[str], Awaitable[Outcome]],
) -> Outcome:
    """How it ends, if it is decided within `seconds`; else `pending` as it was.

    Raises:
        MetierError: when the state cannot be read any more.
    """
    give_up = time.monotonic() + seconds
    version, leased_until = -1, 0.0
    while True:
        now = time.monotonic()
        if now > leased_until - LEASE_SECONDS / 3:
            until = moment().running + LEASE_SECONDS
            await to_thread.run_sync(keep_waiting, database, pending.approval_id, until)
            leased_until = now + LEASE_SECONDS
            version = -1
        if (current := _version(database)) != version:
            version = current
            found = await to_thread.run_sync(find, database, pending.approval_id)
            if found is not None and found.state == "approved":
                return await resume(pending.approval_id)
            if found is None or found.state != "pending":
                return refusal(pending.call_id, found)
        if now >= give_up or words.closed:
            # Nobody waits here any more: who asks the same again, or decides, need not wait for that.
            await to_thread.run_sync(keep_waiting, database, pending.approval_id, 0.0)
            return pending
        if await words.heard(pending.approval_id, min(POLL_SECONDS, max(give_up - now, 0))):
            version = -1


def refusal(call_id: str, found: Approval | None) -> Refused:
    """What the caller is told when it will not run."""
    match found.state if found is not None else "":
        case "denied":
            word = found.word if found is not None else ""
            reason = f"it was denied: {word}" if word else "it was denied"
            return Refused(call_id=call_id, code="approval_denied", reasons=(reason,))
        case "expired":
            decided = found is not None and found.scope
            reason = "it was approved, and not used in time" if decided else "nobody decided in time"
            return Refused(call_id=call_id, code="approval_expired", reasons=(reason,))
        case _:
            return Refused(
                call_id=call_id,
                code="approval_void",
                reasons=("it was taken up elsewhere, or is void",),
                remedy="Call the same again: if it ran where it was approved, you are given how it ended, and nothing runs twice; "
                f"`metier audit search --call {call_id}` shows what became of it",
            )


def not_taken_up(database: Database, approval_id: str, of: str | None) -> Refused:
    """What is told to who wants to take up what cannot be. Of another's request nobody learns anything. Blocking.

    Args:
        of: whose request it must be; None for anybody's.
    """
    found = find(database, approval_id)
    if found is not None and of in (None, found.principal) and found.state not in ("pending", "approved"):
        return refusal(found.call_id, found)
    return Refused(
        call_id="",
        code="approval_void",
        reasons=("there is no approved call of that name that has not run yet",),
        remedy="`metier approvals list` shows what waits",
    )


def _version(database: Database) -> int:
    try:
        return database.data_version(wait=False)
    except Busy:
        return -2
