"""What is kept on disk, opened once, and the operations of Metier's own that work on it."""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Self, final

from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Catalog
from metier.catalog.catalog import load as load_catalog
from metier.catalog.here import environment_here, owner
from metier.catalog.hold import bind_first, declared_by, hold
from metier.catalog.journal import tell
from metier.catalog.listed import Listed
from metier.catalog.scripts import can_run_something
from metier.config.ground import POLICY, ground_of
from metier.config.settings import Settings
from metier.dialects.manifest import instructions
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.disclosure.read_skill import hand_out, read_skill
from metier.disclosure.run_in_skill import TOOL as RUN_IN_SKILL
from metier.errors import BundleError, ConfigError
from metier.gate.agent_bytes import named_agent
from metier.gate.around import around
from metier.gate.budget import scopes
from metier.gate.confirmation import question
from metier.gate.rule_file import load_rules
from metier.gate.rules import Rules
from metier.gate.situation import NOT_LOOKED_AT, Facts, Programs, Situation, situation
from metier.gate.situation import Bytes as Found
from metier.model.approval import StandingGrant
from metier.model.call import ApprovedCall, Bytes, ValidCall
from metier.model.ground import Ground
from metier.model.outcome import Completed, Failed
from metier.model.ports import OperationFunction
from metier.model.ports import Operations as OperationsPort
from metier.model.skill import Tool
from metier.openfile import Signature, signature_at
from metier.record import confirmations
from metier.record.approval_clock import moment
from metier.record.approvals import decider_of
from metier.record.audit import AuditLog
from metier.record.budgets import Moment as Running
from metier.record.budgets import exhausted_in
from metier.record.database import Database
from metier.record.disabling import BY, disable
from metier.record.policy import NONE, UNREADABLE, last_policy, note_policy
from metier.record.standing import answering_in
from metier.record.steering import steering_in
from metier.record.still import steered, written
from metier.record.trust import NO_TRUSTS, Trusts, TrustStore
from metier.runtime.inner_tools import INNER_TOOLS
from metier.runtime.unusable import without_places
from metier.sandbox.job_operator_programs import real_files

_MOST_LOOKS: Final = 20
_GONE: Final = (
    "policy.toml was there and is gone. Put it back, or say with `metier policy forget` that there are none"
)
OWN_TOOLS: Final[Mapping[str, Tool]] = {each.name: each for each in (READ_SKILL, RUN_IN_SKILL)}
"""What models can call that belongs to no skill. No skill takes one of these names: its tools have its own before theirs."""


@final
class Seen(Struct, frozen=True, kw_only=True):
    """What was loaded at one moment, and how to tell that it is no longer so."""

    settings: Settings
    files: tuple[Signature | None, ...]
    """Of the configuration files."""
    catalog: Catalog
    tools: Mapping[str, Tool] = field(default_factory=lambda: OWN_TOOLS)
    """Of ours and of every skill."""
    trusts: Trusts
    rules: Rules
    ground: Ground
    scripts: bool = False
    """Whether a skill that can be used has something for `run_in_skill`."""
    version: int
    """Of the database."""

    def internal(self, name: str) -> str:
        """The name of the tool that is meant, also where somebody says it as models are told it."""
        return name if name in self.tools else self.catalog.functions.get(name, name)

    @classmethod
    def of(cls, settings: Settings, rules: Rules) -> Self:
        """What there is to see without looking for skills."""
        return cls(
            settings=settings,
            files=(),
            catalog=Catalog(),
            trusts=NO_TRUSTS,
            rules=rules,
            ground=ground_of(settings),
            version=-1,
        )


@final
class Trouble(Struct, frozen=True, kw_only=True):
    """What keeps everything from being done."""

    why: str = ""
    """Empty where nothing does."""
    rules: bool = False
    """Whether it is the rules, and not the configuration."""


NO_TROUBLE: Final = Trouble()


@final
class State:
    """What is kept on disk, opened once."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = lambda: _counted(settings())
        first = settings()
        self.database = Database.open(first.database)
        self.trust = TrustStore(self.database)
        self.bundles = BundleStore(first.bundles)
        self.log = AuditLog(self.database, payloads=first.audit.payloads)
        self._facts = Facts()
        self._steered_at = -1
        self._steered_for: Seen | None = None

    def look(self) -> Seen:
        """Read the configuration and every root."""
        began = time.perf_counter()
        settings, files, rules = self._written_down()
        rules = self._noted(rules)
        version = self.database.data_version()  # first: what changes while we look is looked at again
        trusts = self.trust.all()
        catalog = load_catalog(settings, trusts=trusts, environment=environment_here(settings))
        tell(catalog, seconds=time.perf_counter() - began)
        return Seen(
            settings=settings,
            files=files,
            catalog=catalog,
            tools={**catalog.tools, **OWN_TOOLS, **INNER_TOOLS},
            trusts=trusts,
            rules=rules,
            ground=ground_of(settings),
            scripts=can_run_something(catalog.usable()),
            version=version,
        )

    def seen_without_skills(self, settings: Settings) -> Seen:
        """What there is to see for who needs no skills. Blocking."""
        return Seen.of(settings, self._noted(load_rules(settings)))

    def _written_down(self) -> tuple[Settings, tuple[Signature | None, ...], Rules]:
        """Configuration and rules, and how their files looked before and after they were read.

        Raises:
            ConfigError: when they change faster than they can be read.
        """
        settings = self._settings()
        for _ in range(_MOST_LOOKS):
            files = _signatures(settings)
            settings = self._settings()
            rules = load_rules(settings)
            if _signatures(settings) == files:
                return settings, files, rules
        raise ConfigError("the configuration keeps changing while it is read", remedy="Wait, then try again")

    def _noted(self, rules: Rules) -> Rules:
        """The rules, with every change of them on the record. A file that is gone does not mean that there are none.

        Raises:
            StateError: when it cannot be recorded; then nothing is judged by them.
        """
        if rules.digest or rules.problem:
            note_policy(self.database, rules.digest or UNREADABLE, by=BY)
            return rules
        if last_policy(self.database) == NONE:
            return rules
        return Rules(problem=_GONE)

    def trouble(self, seen: Seen) -> "Trouble":
        """Why nothing is judged at the moment: configuration or rules that cannot be used. Only reads. Blocking.

        Raises:
            StateError: when the state cannot be read.
        """
        if not seen.rules.problem and _signatures(seen.settings) == seen.files:
            return NO_TROUBLE
        try:
            rules = self._written_down()[2]
        except ConfigError as error:
            return Trouble(why=without_places(f"{error.message}. {error.remedy}", seen.settings))
        gone = not rules.digest and not rules.problem and last_policy(self.database) != NONE
        return Trouble(why=_GONE if gone else without_places(rules.problem, seen.settings), rules=True)

    def files_of(self, seen: Seen) -> tuple[Signature | None, ...]:
        """How the configuration and the rules lie there now. Blocking."""
        return _signatures(seen.settings)

    def is_as_seen(self, seen: Seen) -> bool:
        """Whether nothing changed at all, as far as one look tells. Never waits.

        Raises:
            Busy: when somebody is reading or writing right now.
        """
        if _signatures(seen.settings) != seen.files:
            return False
        return self.database.data_version(wait=False) == seen.version

    def up_to_date(self, seen: Seen) -> Seen | None:
        """`seen` as of now; None when a configuration file changed, another process gave or took trust, or rules that
        cannot be used may be settled."""
        if _signatures(seen.settings) != seen.files:
            return None
        version = self.database.data_version()
        if version == seen.version:
            return seen
        if seen.rules.problem:  # somebody may have said meanwhile that there are none
            return None
        return replace(seen, version=version) if self.trust.all() == seen.trusts else None

    def body(self, listed: Listed) -> str | None:
        """The instructions of a skill from its snapshot; using it for the first time binds it to its bytes."""
        held = hold(listed, trust=self.trust, bundles=self.bundles, now_ns=time.time_ns())
        if held.bytes is None or held.broken or held.refusal:
            return None
        snapshot = self.bundles.open(held.bytes.digest)
        if snapshot is None or (held.bytes.first_use and not self.bind(listed, held.bytes, by=owner())):
            return None
        data = snapshot.read(listed.manifest)
        return None if data is None else instructions(data, listed.manifest)

    def bind(self, listed: Listed, found: Bytes, *, by: str) -> bool:
        """Bind a skill to the bytes of its first use."""
        snapshot = self.bundles.open(found.digest)
        declared = declared_by(snapshot, listed.manifest, folder=listed.folder) if snapshot else None
        if declared is None:
            return False
        return bind_first(listed, declared, found, trust=self.trust, by=by)

    def look_at(
        self, valid: ValidCall, seen: Seen, found: Found, environ: Mapping[str, str], *, wait: bool
    ) -> Situation:
        """The situation of one call, with what operators changed up to this moment.

        Raises:
            Busy: where `wait` is False, and somebody is reading or writing right now.
            MetierError: when it cannot be read; then nothing may run.
        """
        now = moment()
        asked = question(valid, found.held.bytes if found.held is not None else None)
        with self.database.glance(wait=wait) as connection:
            if self.database.version != self._steered_at or seen is not self._steered_for:
                self._steer(seen, wait=wait)
            facts, before = self._facts, written(connection)
            exhausted = exhausted_in(connection, scopes(valid, facts.budgets), Running(now.running))
            grants = _current(connection, facts.steering.grants, valid.tool.name)
            asked_in = confirmations.asked_in(connection, asked[0], asked[1], now.wall) if asked else None
            decided_by = decider_of(connection, valid.call.approval) if valid.call.approval else ""
        resumed, agent = valid.call.approval is not None, named_agent(valid, seen.ground)
        return situation(
            valid,
            found,
            facts,
            now=now,
            exhausted=exhausted,
            grants=grants,
            programs=programs_on(environ, seen.ground),
            environ=environ,
            asked_in=asked_in,
            decided_by=decided_by,
            around=around(valid, programs_on(environ, seen.ground), environ, seen.ground, agent)
            if resumed
            else NOT_LOOKED_AT,
            agent=agent,
            written=before,
        )

    def _steer(self, seen: Seen, *, wait: bool) -> None:
        """Read what operators changed, all of one moment."""
        with self.database.reading(wait=wait) as connection:
            self._facts = Facts(
                steering=steering_in(connection),
                rules=seen.rules,
                owner=owner(),
                budgets=seen.settings.budgets,
                approvals=seen.settings.approvals,
                project=seen.settings.project,
                ground=seen.ground,
                steered=steered(connection),
            )
            self._steered_at, self._steered_for = self.database.version, seen

    def disable(self, skill: str, call_id: str, why: str, digest: str) -> None:
        """Disable a skill for what a call of it did."""
        disable(self.database, skill, call_id=call_id, why=why, digest=digest)


def _counted(settings: Settings) -> Settings:
    """With the packages that were enabled since."""
    if not settings.xbot.allow:
        return settings
    from metier.kernel.skill_record import counted  # most installations have none

    return counted(settings)


def programs_on(environ: Mapping[str, str], ground: Ground) -> Programs:
    """Which real file each program is, as the operator says it or these surroundings have it."""
    return lambda names: real_files(names, ground.programs, environ.get("PATH", ""))


def _current(
    connection: "sqlite3.Connection", grants: tuple[StandingGrant, ...], tool: str
) -> tuple[StandingGrant, ...]:
    """Uses are counted by the calls themselves, so those of counted grants are read each time."""
    if not grants or not any(grant.uses_left is not None and grant.tool == tool for grant in grants):
        return grants
    return answering_in(connection)


@final
class Operations:
    """The operations of Metier's own modules, for the catalog one call started with."""

    def __init__(
        self,
        state: State,
        catalog: Catalog,
        more: Mapping[tuple[str, str], OperationFunction] = MappingProxyType({}),
        kernel: OperationsPort | None = None,
    ) -> None:
        """`more` are those that a running program of ours offers besides, `kernel` knows those of modules."""
        self._state = state
        self._catalog = catalog
        self._more = more
        self._kernel = kernel

    def find(self, module: str, operation: str) -> OperationFunction | None:
        if (module, operation) == ("skills", "read"):
            return self._read_skill
        found = self._more.get((module, operation))
        if found is None and self._kernel is not None:
            return self._kernel.find(module, operation)
        return found

    async def _read_skill(self, approved: ApprovedCall) -> Completed | Failed:
        return await to_thread.run_sync(self._read, approved)

    def _read(self, approved: ApprovedCall) -> Completed | Failed:
        valid, found = approved.authorized.valid, approved.authorized.bytes
        listed = self._catalog.get(valid.skill.name) if valid.skill else None
        if valid.skill is None or listed is None or found is None:
            return Failed(call_id=valid.call.id, code="internal", message="the call names no skill")
        snapshot = self._state.bundles.open(found.digest)
        if snapshot is None:
            raise BundleError("the snapshot this call was judged with is gone", remedy="Call again")
        if found.first_use and not self._state.bind(listed, found, by=valid.call.principal.id):
            return Failed(
                call_id=valid.call.id,
                code="interrupted",
                message="the skill was bound to other bytes meanwhile",
            )
        path = valid.arguments.get("path")
        if isinstance(path, str) and valid.call.surroundings.takes_bytes:
            return hand_out(valid.call.id, valid.skill, snapshot, path)
        return read_skill(valid.call.id, valid.skill, snapshot, path if isinstance(path, str) else None)


def _signatures(settings: Settings) -> tuple[Signature | None, ...]:
    """How the files look that decide what is allowed."""
    return tuple(map(signature_at, (*settings.files, os.path.join(settings.home, POLICY))))
