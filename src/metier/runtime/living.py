"""The call of a life: a skill that lives does so inside of one call, made by whoever enabled it. Its intent is recorded when it begins
and its outcome when it ends; what the skill asks for meanwhile are calls of their own, made inside of that one.
"""

import os
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, final

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from metier.catalog.catalog import Catalog
from metier.catalog.here import owner
from metier.catalog.listed import Listed
from metier.config.settings import Settings
from metier.dialects.code_manifest import entry_of
from metier.dialects.frontmatter import MAX_BYTES
from metier.gate.explain import explain
from metier.gate.principals import standing
from metier.gate.situation import Situation
from metier.host.living import services_of
from metier.host.running import Running
from metier.kernel.behalf import Behalf, somebody_else
from metier.kernel.channel_rules import TAKE_IN, taken_in
from metier.kernel.resident_life import Resident
from metier.kernel.residents import broken_in
from metier.kernel.skill_record import Status
from metier.model.call import Call, Principal, ValidCall
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.entry import PythonHandler
from metier.model.job import Job
from metier.model.outcome import Outcome, Refused
from metier.model.ports import Answered, Host, NotAnswered, Operate
from metier.model.role import STEER
from metier.model.skill import Limits, Skill, Tool
from metier.openfile import read_small
from metier.pipeline import House, run
from metier.record.database import Database
from metier.record.registered import registered_in, since_in
from metier.record.steering import Steering, steering
from metier.record.stop import stopped_in
from metier.record.turn import Busy
from metier.runtime.inner import Inner, by_skill, inner_call
from metier.runtime.probing import module_name
from metier.runtime.sandboxes import Sandboxes
from metier.sandbox.given import Given, told_to
from metier.sandbox.given_secrets import mask_of, masked
from metier.sandbox.secret import Mask

NAME: Final = "skills.live"
LIMITS: Final = Limits(memory_mb=512, output_bytes=262_144)
"""A life has no time limit; its processor time is bounded where it runs."""
_VERSION_SECONDS: Final = 0.5
"""So old may be what is known of whether anything was written."""
_PARAMETERS: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"skill": {"type": "string"}},
    "required": ["skill"],
    "additionalProperties": False,
}


@final
class _Judged(Struct, frozen=True, kw_only=True):
    """One life as it was judged, and what things were like when it was last found to be as it should."""

    valid: ValidCall
    catalog: Catalog
    steered: Steering
    given: tuple[object, ...]
    at: int | None = None
    """Version of the state when it was last found so; None where that is not known."""


@final
class Living:
    """Makes lives, for one runtime."""

    def __init__(
        self,
        house: Callable[[], House],
        inner: Inner,
        running: Running,
        sandboxes: Sandboxes,
        settings: Callable[[], Settings],
        refresh: Callable[[], Awaitable[None]],
        reload: Callable[[], Awaitable[None]],
        database: Database,
    ) -> None:
        self._house = house
        self._inner = inner
        self._running = running
        self._sandboxes = sandboxes
        self._settings = settings
        self._refresh = refresh
        self._reload = reload
        self._database = database
        self._asked = 0.0
        self._known: int | None = None
        self._judged: dict[str, _Judged] = {}
        """The lives under way, by call."""

    async def reload(self) -> None:
        """What was enabled, trusted or changed counts from now on."""
        await self._reload()

    async def problem(self, skill: str, behalf: Behalf) -> tuple[Status, str] | None:
        """Why the skill may not live now on behalf of that person."""
        await self._refresh()
        if stopped := await to_thread.run_sync(self._stopped):
            return "error", f"everything is stopped: {stopped}; `metier resume` lets things run again"
        if (problem := _problem(self._house().catalog, skill)) is not None:
            return problem
        lost = await to_thread.run_sync(self._lost, behalf)
        return ("error", lost) if lost else None

    async def outdated(self, resident: Resident) -> str:
        """Why this life is not of what is trusted and granted now, or lived for somebody who may not have it. It is judged anew
        where anything changed by which it was judged; else no file is looked at, and while nothing at all was written not even that."""
        at, house, judged = self._version(), self._house(), self._judged.get(resident.call_id)
        if judged is not None and at is not None and at == judged.at and house.catalog is judged.catalog:
            return ""
        if lost := await to_thread.run_sync(self._lost, resident.by):
            return lost
        steered = await to_thread.run_sync(steering, self._database)
        if judged is None:
            return ""
        if house.catalog is judged.catalog and steered == judged.steered:
            self._found_well(resident, replace(judged, at=at))
            return ""
        if (problem := _problem(house.catalog, resident.skill.name)) is not None:
            return problem[1]
        found = await house.look(judged.valid)
        held = found.held
        if held is None or held.broken or held.bytes is None:
            return ""  # it is being changed right now: the next look tells
        if held.refusal or held.bytes.digest != resident.digest:
            return held.refusal or "it was changed, and what is trusted now begins"
        listed = house.catalog.get(resident.skill.name)
        skill = listed.skill if listed is not None else None
        if skill is None or self._given(skill) != judged.given:
            return "what it was granted changed, and what is granted now counts"
        # That so many calls were begun is no reason to end one.
        ends = explain(replace(judged.valid, skill=skill), replace(found, exhausted=()))
        if ends.ends != "runs":
            return f"it may not live any more: {'; '.join(ends.reasons)}"
        self._found_well(resident, replace(judged, catalog=house.catalog, steered=steered, at=at))
        return ""

    def _found_well(self, resident: Resident, judged: _Judged) -> None:
        if resident.call_id in self._judged:  # else it ended meanwhile
            self._judged[resident.call_id] = judged

    def _version(self) -> int | None:
        """Of everything that is on record; None while somebody writes. Asked for all lives together, not for each."""
        now = time.monotonic()
        if now - self._asked >= _VERSION_SECONDS:
            self._asked = now
            try:
                with self._database.glance(wait=False):
                    self._known = self._database.version
            except Busy:
                self._known = None
        return self._known

    def _given(self, skill: Skill) -> tuple[object, ...]:
        """What a life of it is begun with and keeps until it ends."""
        settings = self._settings()
        entries = tuple(settings.skills.entries.get(each) for each in (skill.name, skill.key))
        return skill.permissions, settings.secrets, settings.gateway, settings.operator, entries

    def known(self, skill: str) -> Skill | None:
        """The skill of this name."""
        listed = self._house().catalog.get(skill)
        return listed.skill if listed is not None else None

    def end(self, call_id: str, by: str) -> None:
        """End the run of a call."""
        self._running.cancel(call_id, by)

    async def live(self, resident: Resident) -> Outcome:
        """Make the call. It lasts as long as the skill lives."""
        house, skill = self._house(), resident.skill
        call = Call(
            id=f"call_{secrets.token_hex(12)}",
            principal=Principal(id=resident.by.id, kind="human"),
            tool=NAME,
            arguments={"skill": skill.name},
            fleeting=True,
        )
        listed = house.catalog.get(skill.name)
        tool = await to_thread.run_sync(_tool, listed) if listed is not None else None
        if tool is None:
            reason = "its file changed while it was being read"
            return Refused(call_id=call.id, code="changed_meanwhile", reasons=(reason,), remedy="")
        resident.call_id, given = call.id, self._given(skill)
        life = _Life(resident, call, self._inner)

        async def look(valid: ValidCall) -> Situation:
            found = await house.look(valid)
            if found.held is not None and found.held.bytes is not None:
                resident.digest = found.held.bytes.digest
                self._judged[call.id] = _Judged(
                    valid=valid, catalog=house.catalog, steered=found.steering, given=given
                )
            return found

        def host(job: Job) -> AbstractAsyncContextManager[Host]:
            life.mask = mask_of(job)
            more = services_of(life, life.mask)
            if isinstance(
                job.entry, PythonHandler
            ):  # what it fetches is not seen here, so nobody knows what it is told
                return self._sandboxes.host(job, self._settings(), None, more)
            life.told = told_to(job)
            return _heard(self._sandboxes.host(job, self._settings(), None, more, life.told), life.told)

        lived = replace(
            house, tools={NAME: tool}, look=look, workshop=replace(house.workshop, host=host, life=life)
        )
        try:
            with self._inner.under(call):
                return await run(call, lived)
        finally:
            self._judged.pop(call.id, None)

    def _lost(self, behalf: Behalf) -> str:
        """Why nothing lives on behalf of that person any more; empty where it may. Blocking."""
        with self._database.reading() as connection:
            known, now = registered_in(connection), since_in(connection, behalf.id)
        found = standing(Principal(id=behalf.id, kind="human"), known, owner())
        why = found.problem or somebody_else(behalf, now)
        if not why and STEER not in found.rights:
            why = f"{behalf.id!r} has lost the right {STEER!r}"
        return f"who started it cannot have it live: {why}; somebody else can start it" if why else ""

    def _stopped(self) -> str:
        with self._database.reading() as connection:
            return stopped_in(connection)


@final
class _Life:
    """Between the sandbox and the resident: what is asked becomes calls, and what comes back is without secrets."""

    def __init__(self, resident: Resident, call: Call, inner: Inner) -> None:
        self.mask = Mask()
        self.told: Given | None = None
        """What it was told, where all of that is seen."""
        self._resident = resident
        self._call = call
        self._inner = inner

    def ready(self, operate: Operate) -> None:
        async def without_secrets(params: dict[str, Json], seconds: float) -> Answered | NotAnswered:
            if self.told is not None:
                self.told.hear(params)
            answer = await operate(params, seconds)
            if not self.mask:
                return answer
            if isinstance(answer, Answered):
                return replace(answer, value=await to_thread.run_sync(masked, answer.value, self.mask))
            hide = self.mask.text
            return replace(answer, name=hide(answer.name), message=hide(answer.message))

        self._resident.ready(without_secrets)

    async def call(self, tool: str, arguments: dict[str, Json], inside: str) -> Outcome:
        asked = by_skill(self._resident.skill.name, self._call.principal)
        if tool == TAKE_IN:
            arguments = await to_thread.run_sync(taken_in, arguments)
        made = inner_call(self._call, asked, tool, arguments)
        resident = self._resident
        return await self._inner.run(
            replace(made, depth=resident.depth_in(inside), cause=resident.cause_in(inside))
        )

    async def register(self, name: str, operations: Sequence[str], *, hears: bool) -> NotAnswered | None:
        return await self._resident.register(name, operations, hears=hears)

    def emit(self, name: str, payload: Json, inside: str) -> NotAnswered | None:
        return self._resident.emit(name, payload, inside)

    async def state_get(self, key: str) -> Answered | NotAnswered:
        return await self._resident.state_get(key)

    async def state_set(self, key: str, value: Json) -> Answered | NotAnswered:
        return await self._resident.state_set(key, value)


@final
class _Hearing:
    """A host whose answers are kept account of: what stands in them the code did not come up with."""

    def __init__(self, host: Host, told: Given) -> None:
        self._host = host
        self._told = told

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        answer = await self._host.ask(method, params)
        self._told.hear(answer.value if isinstance(answer, Answered) else answer.message)
        return answer


@asynccontextmanager
async def _heard(host: AbstractAsyncContextManager[Host], told: Given) -> AsyncGenerator[Host]:
    async with host as opened:
        yield _Hearing(opened, told)


def _problem(catalog: Catalog, skill: str) -> tuple[Status, str] | None:
    listed = catalog.get(skill) or broken_in(catalog, skill)
    if listed is None:
        return "error", "there is no such skill here; is it in [xbot] allow? `metier skills check` says more"
    if listed.shown != "usable":
        return ("disabled" if listed.shown == "disabled" else "error"), listed.why
    return None


def _tool(listed: Listed) -> Tool | None:
    """What the gate judges: everything that the skill declares, and the file that its package names now. Blocking."""
    skill = listed.skill
    alone = listed.folder.endswith(f"/{listed.manifest}")
    path = listed.folder if alone else os.path.join(listed.folder, listed.manifest)
    found = read_small(path, most=MAX_BYTES, hard_links=listed.root.hard_links)
    entry = "" if isinstance(found, Diagnostic) else entry_of(found[0], listed.manifest)
    if isinstance(entry, str) or skill is None:
        return None
    if isinstance(entry, PythonHandler):
        entry = replace(entry, function="main", life=True, module=module_name(listed))
    else:
        entry = replace(entry, export="default", life=True)
    return Tool(
        name=NAME,
        description="A skill lives: it is enabled, answers operations, and is disabled.",
        parameters=_PARAMETERS,
        audience="operator",
        permission=STEER,
        subject="skill",
        permissions=skill.permissions,
        limits=LIMITS,
        entry=entry,
    )
