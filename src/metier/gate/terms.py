"""What an approved call uses up when it begins, and what must still be so at that moment.

Each term is asked, and then taken, inside the transaction that records the intent.
"""

from typing import TYPE_CHECKING, final

from msgspec import Struct

from metier.gate.around import lasting
from metier.gate.budget import scopes
from metier.gate.confirmation import question
from metier.gate.fingerprint import fingerprint
from metier.gate.reachable import while_stopped
from metier.gate.shown import real_project
from metier.gate.situation import Situation
from metier.model.call import ApprovedCall
from metier.model.digest import Json
from metier.record.approval_clock import Moment, moment
from metier.record.approvals import claim_problem, take_claim
from metier.record.audit import Condition, IntentDenied
from metier.record.budgets import Moment as Running
from metier.record.budgets import Scope, budget_problem, take_budget
from metier.record.confirmations import answer_problem, take_answer
from metier.record.late import owe
from metier.record.standing import grant_problem, take_grant
from metier.record.steering import Steering
from metier.record.still import Written, skill_problem, steered, steering_problem, written

if TYPE_CHECKING:
    import sqlite3


def terms(approved: ApprovedCall, situation: Situation) -> tuple[Condition, ...]:
    """Everything that must hold when this call begins."""
    valid = approved.authorized.valid
    made: list[Condition] = [
        Allowed(approved, situation.steering, situation.steered, situation.standing.behind),
        Within(scopes(valid, situation.budgets), situation.now, situation.written),
    ]
    if valid.call.approval is not None or approved.asked_as is not None:
        made.append(Decided(approved, situation.cwd, situation.around, situation.project))
    elif approved.evidence != "policy":
        made.append(Granted(approved.evidence))
    if valid.confirmed and valid.call.approval is None:
        asked = question(valid, approved.authorized.bytes)
        if asked is not None:
            made.append(Confirmed(asked[0], asked[1]))
    return tuple(made)


@final
class Allowed(Struct, frozen=True):
    """Nothing is stopped, nobody concerned was revoked, and the skill may still be used."""

    approved: ApprovedCall
    judged: Steering
    """What operators had decided when the layers were asked."""
    steered: Written | None = None
    """As of when."""
    behind: tuple[str, ...] = ()
    """Everybody on whose behalf it is called."""

    def problem(self, connection: "sqlite3.Connection") -> IntentDenied | None:
        valid, found = self.approved.authorized.valid, self.approved.authorized.bytes
        skill = valid.skill
        if self.steered is None or self.steered != steered(connection):
            principal = valid.call.principal
            ids = (principal.id, principal.on_behalf_of or "", *self.behind)
            denied = steering_problem(
                connection, self.judged, ids, principal.token, while_stopped=while_stopped(valid.tool)
            )
            if denied is not None:
                return denied
        if skill is None or found is None:
            return None
        bundled = skill.source == "bundled"
        return skill_problem(connection, skill.name, found.digest, bundled=bundled, first_use=found.first_use)

    def take(self, connection: "sqlite3.Connection", intent: int) -> None:
        """Uses nothing up."""


@final
class Within(Struct, frozen=True):
    """No budget is used up."""

    scopes: tuple[Scope, ...]
    now: Moment
    judged: Written | None = None
    """What had been written when they were counted."""

    def problem(self, connection: "sqlite3.Connection") -> IntentDenied | None:
        if self.judged is not None and self.judged == written(connection):
            return None
        why = budget_problem(connection, self.scopes, Running(self.now.running))
        return IntentDenied(why, "budget_exceeded") if why else None

    def take(self, connection: "sqlite3.Connection", intent: int) -> None:
        take_budget(connection, self.scopes, Running(self.now.running))


@final
class Decided(Struct, frozen=True):
    """Somebody approved exactly this act, for this principal, and it was not used yet."""

    approved: ApprovedCall
    cwd: str
    around: dict[str, Json] | str
    project: str = ""
    """By whose configuration it was judged now."""

    def problem(self, connection: "sqlite3.Connection") -> IntentDenied | None:
        if isinstance(self.around, str):
            return IntentDenied(self.around, "approval_void")
        authorized, around = self.approved.authorized, self.around
        why = claim_problem(
            connection,
            self.approved.evidence,
            authorized.valid.call.principal.id,
            lambda key: fingerprint(
                authorized, cwd=self.cwd, key=key, around=around, asked_as=self.approved.asked_as
            ),
            moment(),
            project=real_project(self.project),
        )
        return IntentDenied(why, "approval_void") if why else None

    def take(self, connection: "sqlite3.Connection", intent: int) -> None:
        authorized = self.approved.authorized
        if authorized.valid.call.by_decider and isinstance(self.around, dict):
            around = lasting(self.around)
            owe(
                connection,
                self.approved.evidence,
                authorized.valid.call,
                lambda key: fingerprint(authorized, cwd=self.cwd, key=key, around=around),
            )
        take_claim(connection, self.approved.evidence, intent)


@final
class Granted(Struct, frozen=True):
    """The standing grant that answered was not revoked or used up since."""

    grant: str

    def problem(self, connection: "sqlite3.Connection") -> IntentDenied | None:
        why = grant_problem(connection, self.grant, moment())
        return IntentDenied(why, "approval_required") if why else None

    def take(self, connection: "sqlite3.Connection", intent: int) -> None:
        take_grant(connection, self.grant)


@final
class Confirmed(Struct, frozen=True):
    """The caller's word for this act was not used yet."""

    conversation: str
    act: str

    def problem(self, connection: "sqlite3.Connection") -> IntentDenied | None:
        return answer_problem(connection, self.conversation, self.act)

    def take(self, connection: "sqlite3.Connection", intent: int) -> None:
        take_answer(connection, self.conversation, self.act)
