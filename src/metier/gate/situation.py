"""The facts an authorization rests on, gathered when it is made: what lies on disk now, who asks and what he may do
today, what operators switched, and what they granted."""

import time
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, final

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Catalog
from metier.catalog.hold import Held, hold
from metier.config.settings import ApprovalSettings, BudgetSettings
from metier.gate.agent_bytes import NO_AGENT, NamedAgent
from metier.gate.fingerprint import CwdIdentity, cwd_identity
from metier.gate.principals import standing, token_problem
from metier.gate.rules import NO_RULES, Rules
from metier.model.approval import StandingGrant
from metier.model.call import Principal, ValidCall
from metier.model.digest import Json
from metier.model.ground import Ground
from metier.model.permission import PermissionSet
from metier.model.requirement import RequirementError
from metier.model.role import Standing
from metier.model.trust_level import LEAST, TrustLevel
from metier.model.verdict import Verdict
from metier.record.approval_clock import Moment
from metier.record.steering import NO_STEERING, Steering
from metier.record.still import Written
from metier.record.trust import TrustStore

Programs: TypeAlias = Callable[[Collection[str]], Mapping[str, str]]


def no_programs(_names: Collection[str]) -> Mapping[str, str]:
    """Where nobody can say, none is there."""
    return {}


MOST_PRINCIPALS: Final = 1024
NO_PERMISSIONS: Final = PermissionSet()
NOT_LOOKED_AT: Final = "what it depends on was not looked at"
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
NEVER: Final = Moment(wall=0.0, boot="", running=0.0)


@final
class Situation(Struct, frozen=True, kw_only=True):
    """What is the case while one call is judged. Left as it is, nobody may do anything."""

    held: Held | None = None
    """The skill's bytes as they are now; None when the call concerns no skill."""
    granted: PermissionSet = NO_PERMISSIONS
    """What the operator lets that skill do."""
    missing: tuple[RequirementError, ...] = ()
    stopped: str = ""
    """Why nothing at all may run."""
    standing: Standing = Standing()
    """What the principal may do today."""
    steering: Steering = NO_STEERING
    """What operators had decided, all of one moment."""
    steered: Written | None = None
    """Which moment."""
    level: TrustLevel = LEAST
    """How far agents are trusted now."""
    rules: Rules = NO_RULES
    budgets: BudgetSettings = BudgetSettings()
    exhausted: tuple[str, ...] = ()
    """Budgets that are used up, in words."""
    grants: tuple[StandingGrant, ...] = ()
    """Answers given in advance."""
    ground: Ground = Ground()
    approvals: ApprovalSettings = ApprovalSettings()
    project: str = ""
    """Folder whose configuration restricts the call."""
    cwd: str = ""
    """What the working directory is: real path, device and inode; empty when there is none."""
    cwd_problem: str = ""
    """Why that cannot be told."""
    now: Moment = NEVER
    programs: Programs = no_programs
    """Which real file each name of a program stands for now."""
    environ: Mapping[str, str] = {}
    """Of the operator; a run sees the variables that were granted by name."""
    around: dict[str, Json] | str = NOT_LOOKED_AT
    """What a call that is taken up again depends on now, or why that cannot be told."""
    agent: NamedAgent = NO_AGENT
    """The agent that the call names, as it lay there."""
    asked_in: int | None = None
    """The turn in which the caller was asked to confirm this very act; None when he was not."""
    decided_by: str = ""
    """Who approved the call that is taken up again."""
    heard: Verdict | None = None
    """What those said who stand around the call, hooks and triggers; None where nobody was asked."""
    written: Written | None = None
    """What had been written when stop, principals and budgets were looked at, and nothing of them was in the way. Else
    None."""


def hearing(situation: Situation, said: Verdict) -> Situation:
    """The same, and what those said who stand around the call."""
    return replace(situation, heard=said)


def depending_on(situation: Situation, around: dict[str, Json]) -> Situation:
    """The same, and what the call depends on, which was looked at when somebody was to be asked."""
    return replace(situation, around=around)


@final
class Bytes(Struct, frozen=True, kw_only=True):
    """What is known of a skill's bytes. The part of a situation that has to be read from the disk."""

    held: Held | None = None
    missing: tuple[RequirementError, ...] = ()


NO_SKILL: Final = Bytes()


def look(valid: ValidCall, *, catalog: Catalog, trust: TrustStore, bundles: BundleStore) -> Bytes:
    """Look at the skill a call concerns. Blocking: it reads the disk."""
    listed = catalog.get(valid.skill.name) if valid.skill is not None else None
    if listed is None:
        return NO_SKILL
    held = hold(listed, trust=trust, bundles=bundles, now_ns=time.time_ns())
    return Bytes(held=held, missing=listed.missing)


@final
class Facts(Struct, frozen=True, kw_only=True):
    """What holds for every call of one moment. Left as it is, nobody is known and nothing is trusted."""

    steering: Steering = NO_STEERING
    rules: Rules = NO_RULES
    owner: str = ""
    """The human this machine belongs to."""
    budgets: BudgetSettings = BudgetSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    project: str = ""
    ground: Ground = Ground()
    steered: Written | None = None
    """As of when `steering` was read."""
    known: dict[tuple[str, str, str | None, str, frozenset[str] | None], Situation] = {}
    """Made here: what was found out about principals so far."""

    def __post_init__(self) -> None:
        force_setattr(self, "known", {})

    def situation_of(self, principal: Principal) -> Situation:
        """What is the case for every call of `principal`, as far as these facts tell. The same ones ask again and again, and
        of one moment the answer is the same."""
        who = (principal.id, principal.kind, principal.on_behalf_of, principal.token, principal.scopes)
        known = self.known.get(who)
        if known is None:
            if len(self.known) >= MOST_PRINCIPALS:
                self.known.clear()
            known = self.known[who] = self._situation_of(principal)
        if principal.token and (problem := token_problem(principal, self.steering.tokens)):
            return replace(known, standing=Standing(problem=problem), steered=None)
        return known

    def _situation_of(self, principal: Principal) -> Situation:
        steering, who = self.steering, standing(principal, self.steering.principals, self.owner)
        return Situation(
            stopped=steering.stopped,
            standing=who,
            steering=steering,
            steered=None if steering.stopped or who.problem else self.steered,
            level=steering.level,
            rules=self.rules,
            budgets=self.budgets,
            grants=steering.grants,
            ground=self.ground,
            approvals=self.approvals,
            project=self.project,
        )


def situation(
    valid: ValidCall,
    found: Bytes,
    facts: Facts,
    *,
    now: Moment,
    exhausted: tuple[str, ...] = (),
    grants: tuple[StandingGrant, ...] | None = None,
    programs: Programs = no_programs,
    environ: Mapping[str, str] = NOTHING,
    asked_in: int | None = None,
    decided_by: str = "",
    around: dict[str, Json] | str = NOT_LOOKED_AT,
    agent: NamedAgent = NO_AGENT,
    written: Written | None = None,
) -> Situation:
    """Put the facts together for one call."""
    known = facts.situation_of(valid.call.principal)
    place = cwd_identity(valid.call.cwd) if valid.call.cwd is not None else ""
    return replace(
        known,
        held=found.held,
        granted=found.held.granted if found.held is not None else NO_PERMISSIONS,
        missing=found.missing,
        exhausted=exhausted,
        grants=known.grants if grants is None else grants,
        cwd=place.text if isinstance(place, CwdIdentity) else "",
        cwd_problem="" if isinstance(place, CwdIdentity) else place,
        now=now,
        programs=programs,
        environ=environ,
        asked_in=asked_in,
        decided_by=decided_by,
        around=around,
        agent=agent,
        written=None if known.stopped or known.standing.problem or exhausted else written,
    )
