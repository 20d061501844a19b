"""What a pressed button says to the desk. A yes rests on the configuration as it is at that moment, of the operator and of the project the
request comes from; what cannot be read says no yes. A no waits for neither, nor for the record. Blocking.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from msgspec import Struct

from metier.config.again import read_again, read_where_asked
from metier.config.settings import Settings
from metier.doors.telegram.request import ended
from metier.errors import ConfigError, MetierError, RecordError
from metier.gate.principals import standing
from metier.kernel.telegram_buttons import Button, Buttons, Yes
from metier.model.approval import Approval, Scope, StandingGrant
from metier.model.call import Principal
from metier.model.role import APPROVE
from metier.record.approvals import find
from metier.record.database import Database
from metier.record.decider import Decider
from metier.record.deciding import Undecided, decide
from metier.record.principals import registered_in
from metier.record.standing import proposed_grant

_GONE: Final = Undecided(code="unknown", reason="there is no such request any more", state="void")
_log: Final = logging.getLogger("metier.telegram")


@final
class Said(Struct, frozen=True, kw_only=True):
    """What came of it."""

    answer: str
    """For who pressed."""
    over: str = ""
    """What became of the request, where it is decided by now."""
    yes: Yes | None = None
    """What is to run."""
    noted: str = ""
    """What is to stand on the record about who pressed."""


NOT_HIS: Final = Said(
    answer="This is not yours to decide.", noted="a button was pressed that is not for who pressed it"
)


@final
class Word:
    """Takes people's words to the desk. Safe to be used by several threads."""

    def __init__(self, buttons: Buttons, settings: Callable[[], Settings], owner: str) -> None:
        self._buttons = buttons
        self._settings = settings
        self._owner = owner

    def yes(self, button: Button, user: int, session: bool) -> Said:
        """He approves it; with `session` also what is like it, for its session."""
        try:
            settings = read_again(self._settings())
        except ConfigError as problem:
            _log.warning("nobody says yes by Telegram now: %s", problem)
            return Said(
                answer="Nothing was approved: the configuration cannot be read. Deny works. Any `metier` command says what "
                "is wrong; mend it and press again."
            )
        human = settings.telegram.approvers.get(str(user))
        if human is None:
            return NOT_HIS
        try:
            made = self._approve(settings, button, human, session=session)
        except ConfigError as problem:
            _log.warning("%s cannot be approved: %s", button.approval, problem)
            return Said(
                answer="Nothing was approved: the project it was asked in is gone, or its metier.toml cannot be read. Deny works; "
                "the host's log says more."
            )
        except MetierError as problem:
            return _unwritten(problem)
        if isinstance(made, Undecided):
            return self._undecided(button, made)
        self._over(button)
        done = Yes(approval=made.id, recipient=user, title=button.title, by=human)
        return Said(answer="Approved.", over=ended(made), yes=done)

    def no(self, button: Button, user: int, human: str) -> Said:
        """He denies it. `human` is who he was when the configuration could last be read."""
        try:
            human = read_again(self._settings()).telegram.approvers.get(str(user), "")
        except ConfigError as problem:
            _log.warning("a no by Telegram is taken all the same: %s", problem)
        if not human:
            return NOT_HIS
        try:
            made = self._deny(button, human)
        except RecordError as problem:
            _log.warning("%s: %s", button.approval, problem.message)
            self._over(button)
            return Said(
                answer="Denied. But that could not be recorded; deny it once more at the terminal when the record works.",
                over=f"denied by {human}. That could not be recorded.",
            )
        except MetierError as problem:
            return _unwritten(problem)
        if isinstance(made, Undecided):
            return self._undecided(button, made)
        self._over(button)
        return Said(answer="Denied.", over=ended(made))

    def _approve(
        self, settings: Settings, button: Button, human: str, *, session: bool
    ) -> Approval | Undecided:
        """
        Raises:
            ConfigError: when what restricts it cannot be had.
            StateError: when it could not be written or recorded.
        """
        with Database.open(settings.database) as database:
            found = find(database, button.approval)
            if found is None or found.fingerprint != button.fingerprint:
                return _GONE
            there = read_where_asked(settings, found.shown.project if found.shown is not None else "")
            scope: Scope = "session" if session else "once"
            grant: StandingGrant | None = None
            if session and found.shown is not None:
                proposed = proposed_grant(found.shown, "session", approval=found.id, by=human)
                if isinstance(proposed, str):
                    return Undecided(code="bad_grant", reason=proposed)
                grant = proposed
            # First, so that a yes which is cut off right after it was written down is known as one of ours.
            self._buttons.about_to(button, human)
            made = decide(
                database,
                found.id,
                by=self._decider(database, settings, human),
                decision="approve",
                scope=scope,
                grant=grant,
                four_eyes=settings.approvals.four_eyes or there.approvals.four_eyes,
            )
        if isinstance(made, Undecided) and made.state not in ("approved", "spent"):
            self._buttons.about_to(
                button, ""
            )  # else it may be an earlier yes of his, which is still to be followed
        return made

    def _deny(self, button: Button, human: str) -> Approval | Undecided:
        """
        Raises:
            RecordError: when it is denied, and that could not be recorded.
            StateError: when it could not be denied.
        """
        settings = self._settings()
        database, doubt = Database.to_refuse(settings.database)
        if doubt:
            _log.warning("%s", doubt)
        with database:
            found = find(database, button.approval)
            if found is None or found.fingerprint != button.fingerprint:
                return _GONE
            return decide(database, found.id, by=self._decider(database, settings, human), decision="deny")

    def may_decide(self, human: str) -> bool:
        """Whether this person's word would count now: what is asked is shown to nobody else.

        Raises:
            MetierError: when that cannot be looked up.
        """
        settings = self._settings()
        with Database.open(settings.database) as database:
            return APPROVE in self._decider(database, settings, human).rights

    def _decider(self, database: Database, settings: Settings, human: str) -> Decider:
        """Who he is, with what he may do today."""
        with database.reading() as connection:
            registered = registered_in(connection)
        rights = standing(Principal(id=human, kind="human"), registered, self._owner).rights
        return Decider(id=human, kind="human", rights=rights, chats=settings.telegram.chats_of(human))

    def _undecided(self, button: Button, why: Undecided) -> Said:
        answer = f"Nothing was changed: {why.reason}."
        if why.state in ("", "pending"):
            return Said(answer=answer)
        self._over(button)
        return Said(answer=answer, over=f"{why.reason}.")

    def _over(self, button: Button) -> None:
        try:
            self._buttons.over(button.approval)
        except MetierError as problem:  # the desk knows it, and says so to whoever presses again
            _log.warning("that %s is decided could not be kept: %s", button.approval, problem.message)


def _unwritten(problem: MetierError) -> Said:
    _log.warning("a word given by Telegram could not be kept: %s", problem.message)
    return Said(answer="It could not be written down, so nothing was decided. Try again.")
