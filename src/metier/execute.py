"""ApprovedCall → Outcome, in two halves around the record of the intent.

`prepare` finds out, before anything is announced, what would run the call: an operation of ours, or a sandbox that keeps
every promise the call needs, with the `Job` for it. What cannot be given is refused, and nothing ran. `execute` then runs
it. A run that did what no skill may ever do bars its skill at that moment, ends the other runs of it, and disables it
before its outcome is told.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, TypeAlias, final

from anyio import to_thread
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Struct
from msgspec.structs import asdict

from metier.catalog.bundle import Snapshot
from metier.errors import MetierError
from metier.host.asked import Noting
from metier.host.running import STOPPED, Disable, Running
from metier.model.call import ApprovedCall, Call
from metier.model.digest import Json
from metier.model.entry import Command, Entry, InlineCode, Operation, PythonHandler, ScriptHandler, WasmModule
from metier.model.guarantee import Guarantee, needed
from metier.model.job import Job, Report
from metier.model.outcome import REMEDIES, Completed, Failed, RefusalCode, Refused
from metier.model.permission import PermissionSet
from metier.model.ports import Host, Operations
from metier.model.skill import Limits
from metier.record.chain import NOT_RUN, Ran
from metier.sandbox.ending import NOTHING_ASKED, Violations, outcome_of, violated
from metier.sandbox.job_argv import filled
from metier.sandbox.job_binaries import keeps_to_itself, real_programs
from metier.sandbox.job_environment import granted_variables
from metier.sandbox.job_hook import hook_of, unfit_context
from metier.sandbox.job_limits import CAPS, bounded
from metier.sandbox.job_packages import installed, is_python
from metier.sandbox.job_places import NoPlace, inside, places
from metier.sandbox.job_protected import Ground
from metier.sandbox.protocol import Sandbox
from metier.sandbox.select import Unavailable, select

_log: Final = logging.getLogger("metier.execute")

HostFor: TypeAlias = Callable[[Job], AbstractAsyncContextManager[Host | None]]
"""Who answers what a run asks, for as long as it runs; the job given has no host yet."""
Ended: TypeAlias = Callable[[Completed | Failed], None]
"""Takes how a run ended, at the moment it did."""


@final
class Workshop(Struct, frozen=True, kw_only=True):
    """What runs are made of on this machine. Left as it is, nothing can be run."""

    sandboxes: Callable[[], Sequence[Sandbox]] = tuple
    """Quickest first; made when they are first needed."""
    snapshot: Callable[[str], Snapshot | None] = lambda _digest: None
    """The stored bundle of a digest."""
    bind: Callable[[ApprovedCall], bool] = lambda _approved: False
    """Binds a skill to the bytes of its first use."""
    disable: Disable = lambda _skill, _call_id, _why, _digest: None
    host: HostFor = lambda _job: nullcontext()
    ground: Ground = Ground()
    caps: Limits = CAPS
    packages: tuple[str, ...] = ()
    """Folders of installed packages that Python code may import, as the operator configured them."""
    environ: Mapping[str, str] = {}
    """Of the operator; a run sees the variables that were granted by name."""
    running: Running


@final
class Check(Struct, frozen=True):
    """The skill's own code that is shown the arguments before anything else of it runs."""

    sandbox: Sandbox
    job: Job


@final
class Ready(Struct, frozen=True, kw_only=True):
    """An approved call, and what will run it."""

    approved: ApprovedCall
    mark: int = 0
    """When it was prepared: a stop of its skill after that ends it, also before it begins."""
    sandbox: Sandbox | None = None
    job: Job | None = None
    """Both None for an operation of ours."""
    check: Check | None = None
    """What looks at the arguments first."""

    @property
    def ran(self) -> Ran:
        """By what it is run, for the record."""
        if self.sandbox is None:
            return NOT_RUN
        promised = tuple(sorted(str(each.value) for each in self.sandbox.guarantees()))
        return Ran(sandbox=self.sandbox.name, guarantees=promised)


async def prepare(approved: ApprovedCall, workshop: Workshop) -> Ready | Refused:
    """Find what will run the call, or say why nothing can."""
    call, skill = approved.authorized.valid.call, _skill(approved)
    mark = workshop.running.mark(skill)
    if why := workshop.running.barred(skill, _digest(approved)):
        reason = f"skill {skill!r} is disabled: {why}"
        return _refused(call, "skill_disabled", reason, remedy=REMEDIES["skill_disabled"])
    tool = approved.authorized.valid.tool
    if isinstance(tool.entry, Operation) and tool.validator is None:
        return Ready(approved=approved, mark=mark)
    try:
        sandboxes = workshop.sandboxes()  # here and not in the thread: what they keep belongs to this loop
        return await to_thread.run_sync(_find, approved, workshop, sandboxes, mark)
    except MetierError as error:
        return _refused(call, "not_runnable", error.message, remedy=error.remedy)


async def execute(ready: Ready, operations: Operations, workshop: Workshop) -> Completed | Failed:
    """Run the call. Whatever goes wrong inside is a `Failed`; only a cancellation comes out as an exception."""
    valid = ready.approved.authorized.valid
    try:
        return await _under_way(ready, operations, workshop)
    except MetierError as error:
        return Failed(call_id=valid.call.id, code="internal", message=str(error))
    except Exception:  # noqa: BLE001  what runs here is not ours to know, and its caller is owed an outcome
        _log.exception("call %s of %s failed", valid.call.id, valid.tool.name)
        message = (
            f"{valid.tool.name!r} failed with an error of its own; the log of the program has the details"
        )
        return Failed(call_id=valid.call.id, code="internal", message=message)


def trial(entry: Entry, *, network: bool = False) -> Job:
    """A job that is never run, to ask the sandboxes what they would do with this kind of entry."""
    return Job(
        call_id="trial",
        entry=entry,
        arguments={},
        permissions=PermissionSet(hosts=frozenset({"example.com"})) if network else PermissionSet(),
        limits=Limits(),
        needs=needed(entry, network=network),
    )


async def _under_way(ready: Ready, operations: Operations, workshop: Workshop) -> Completed | Failed:
    """Run it so that it ends when its skill is stopped."""
    skill, call = _skill(ready.approved), ready.approved.authorized.valid.call
    outcome: Completed | Failed = Failed(call_id=call.id, code="interrupted", message=STOPPED)
    told = Violations()
    reported = False

    def ended(how: Completed | Failed) -> None:
        # Nothing waits between the report and the bar, so no run of the skill gets in between.
        nonlocal outcome, reported
        outcome, reported = violated(how, told.seen), True
        if outcome.run is not None and outcome.run.violations:
            kinds = sorted({each.kind for each in outcome.run.violations})
            why = f"it tried what no skill may ever do: {', '.join(kinds)}"
            workshop.running.bar(skill, call.id, why, _digest(ready.approved))

    try:
        with workshop.running.under(skill, call.id, ready.mark) as this:
            if not this.why:
                await _begin(ready, operations, workshop, told, ended)
        if not reported and this.why:
            outcome = Failed(call_id=call.id, code="interrupted", message=this.why)
    finally:
        if not reported and told.seen:  # cancelled: there is no report, and yet it is known
            ended(outcome)
        await workshop.running.settle(workshop.disable)
    return outcome


async def _begin(
    ready: Ready, operations: Operations, workshop: Workshop, told: Violations, ended: Ended
) -> None:
    sandbox, job, found = ready.sandbox, ready.job, ready.approved.authorized.bytes
    first = ready.check.job if ready.check is not None else job
    first_use = first is not None and bool(first.skill) and found is not None and found.first_use
    if first_use and not await to_thread.run_sync(workshop.bind, ready.approved):
        message = "the skill was bound to other bytes meanwhile"
        call_id = ready.approved.authorized.valid.call.id
        ended(Failed(call_id=call_id, code="interrupted", message=message))
        return
    if ready.check is not None and (failed := await _checked(ready.check, told)) is not None:
        ended(failed)
        return
    if sandbox is None or job is None:
        ended(await _operate(ready.approved, operations))
        return
    async with workshop.host(job) as host:
        noting = Noting(host, told.add) if host is not None else None
        fields: dict[str, Any] = {**asdict(job), "host": noting, "alarm": told.add}
        await checkpoint_if_cancelled()  # stopped meanwhile: not even a moment of it
        report = await sandbox.run(Job(**fields))
        ended(_outcome(job, report, sandbox, noting))


async def _checked(check: Check, told: Violations) -> Failed | None:
    """Show the arguments to the skill's own check; only when it returns `true` the call goes on. Nobody answers what it
    asks, and it may touch nothing."""
    job = check.job
    await checkpoint_if_cancelled()
    fields: dict[str, Any] = {**asdict(job), "alarm": told.add}
    outcome = outcome_of(job, await check.sandbox.run(Job(**fields)), sandbox=check.sandbox.name)
    if isinstance(outcome, Completed):
        if outcome.value is True:
            return None
        message = "the skill's own check did not let these arguments pass"
        return Failed(call_id=job.call_id, code="invalid_input", message=message, run=outcome.run)
    message = f"the skill's own check of the arguments: {outcome.message}"
    code = "invalid_input" if outcome.code == "raised" else outcome.code
    return Failed(call_id=job.call_id, code=code, message=message, run=outcome.run)


def _outcome(job: Job, report: Report, sandbox: Sandbox, noting: Noting | None) -> Completed | Failed:
    asked = noting.asked if noting is not None else NOTHING_ASKED
    outcome = outcome_of(job, report, sandbox=sandbox.name, asked=asked)
    problem = unfit_context(job, outcome.value) if isinstance(outcome, Completed) else ""
    if problem:
        return Failed(call_id=job.call_id, code="bad_result", message=problem, run=outcome.run)
    return outcome


async def _operate(approved: ApprovedCall, operations: Operations) -> Completed | Failed:
    valid = approved.authorized.valid
    entry = valid.tool.entry
    function = operations.find(entry.module, entry.operation) if isinstance(entry, Operation) else None
    if function is None:
        message = f"nothing here can run {valid.tool.name!r}: no module offers its operation"
        return Failed(call_id=valid.call.id, code="internal", message=message)
    await checkpoint_if_cancelled()
    return await function(approved)


def _skill(approved: ApprovedCall) -> str:
    """The name of the skill it is a call of; empty for what belongs to none."""
    skill = approved.authorized.valid.skill
    return skill.name if skill is not None else ""


def _digest(approved: ApprovedCall) -> str:
    """Of the skill's bytes; empty for what belongs to none."""
    found = approved.authorized.bytes
    return found.digest if found is not None and approved.authorized.valid.skill is not None else ""


def _find(
    approved: ApprovedCall, workshop: Workshop, sandboxes: Sequence[Sandbox], mark: int
) -> Ready | Refused:
    tool, check = approved.authorized.valid.tool, None
    if tool.validator is not None:
        checked = _placed(_check_job(approved, workshop), sandboxes)
        if isinstance(checked, Refused):
            return checked
        check = Check(*checked)
    if isinstance(tool.entry, Operation):
        return Ready(approved=approved, mark=mark, check=check)
    placed = _placed(_job(approved, workshop), sandboxes)
    if isinstance(placed, Refused):
        return placed
    sandbox, job = placed
    return Ready(approved=approved, mark=mark, sandbox=sandbox, job=job, check=check)


def _placed(job: Job | Refused, sandboxes: Sequence[Sandbox]) -> tuple[Sandbox, Job] | Refused:
    if isinstance(job, Refused):
        return job
    sandbox = select(job, sandboxes)
    if isinstance(sandbox, Unavailable):
        return Refused(
            call_id=job.call_id, code="sandbox_unavailable", reasons=sandbox.reasons, remedy=sandbox.remedy
        )
    return sandbox, job


def _check_job(approved: ApprovedCall, workshop: Workshop) -> Job | Refused:
    """What the skill's own check of the arguments is given: them, and its own folder."""
    valid, found = approved.authorized.valid, approved.authorized.bytes
    call, tool, skill, entry = valid.call, valid.tool, valid.skill, valid.tool.validator
    if not isinstance(entry, ScriptHandler | PythonHandler | WasmModule | InlineCode):
        return _refused(
            call,
            "not_runnable",
            f"what should check the arguments of {tool.name!r} is no code",
            remedy="Mend the skill",
        )
    snapshot = workshop.snapshot(found.digest) if found is not None else None
    if snapshot is None and skill is not None:
        return _refused(call, "not_runnable", "the stored copy of the skill is gone", remedy="Call again")
    limits = bounded(tool.limits, workshop.caps)
    if isinstance(limits, str):
        return _refused(call, "not_runnable", limits, remedy=f"Mend the limits of {tool.name!r}")
    packages = installed(workshop.packages, workshop.ground) if is_python(entry) else ()
    if isinstance(packages, str):
        return _refused(call, "not_runnable", packages, remedy="Mend [python] packages in metier.toml")
    return Job(
        call_id=call.id,
        skill=skill.name if skill else "",
        packages=packages,
        entry=entry,
        arguments=valid.arguments,
        bundle=snapshot.folder if snapshot is not None else "",
        permissions=PermissionSet(),
        limits=limits,
        needs=needed(entry, network=False),
    )


def _job(approved: ApprovedCall, workshop: Workshop) -> Job | Refused:
    """Everything the call may touch, as real things of this machine."""
    valid, found = approved.authorized.valid, approved.authorized.bytes
    call, tool, skill, granted = valid.call, valid.tool, valid.skill, valid.permissions
    snapshot = workshop.snapshot(found.digest) if found is not None else None
    if snapshot is None and skill is not None:
        return _refused(call, "not_runnable", "the stored copy of the skill is gone", remedy="Call again")
    bundle = snapshot.folder if snapshot is not None else ""
    limits = bounded(tool.limits, workshop.caps)
    if isinstance(limits, str):
        return _refused(call, "not_runnable", limits, remedy=f"Mend the limits of {tool.name!r}")
    granted_places = places(granted, workshop.ground, bundle=bundle, own=skill.location if skill else "")
    if isinstance(granted_places, NoPlace):
        return _refused(call, granted_places.code, granted_places.reason, remedy=granted_places.remedy)
    environment = granted_variables(granted.env, workshop.environ)
    if isinstance(environment, str):
        return _refused(call, "forbidden", environment, remedy="Take that variable out of what it asks for")
    binaries = real_programs(granted.binaries, workshop.environ.get("PATH", ""))
    entry = _entry(tool.entry, valid.arguments, binaries)
    if isinstance(entry, str):
        return _refused(
            call, "not_runnable", entry, remedy="`metier skills check` says what is missing on this machine"
        )
    hook = hook_of(entry, valid.arguments)
    if isinstance(hook, str):
        return _refused(call, "not_runnable", hook, remedy="Give it an event, as `metier.hooks` does")
    packages = installed(workshop.packages, workshop.ground) if is_python(entry) else ()
    if isinstance(packages, str):
        return _refused(call, "not_runnable", packages, remedy="Mend [python] packages in metier.toml")
    return Job(
        call_id=call.id,
        skill=skill.name if skill else "",
        packages=packages,
        entry=entry,
        arguments=valid.arguments if hook is None else {},
        bundle=bundle,
        places=granted_places,
        cwd=inside(call.cwd, granted_places),
        environment=environment if hook is None else {**environment, **hook.environment},
        binaries=binaries,
        permissions=granted,
        limits=limits,
        needs=_needs(entry, binaries, granted),
        context=_context(call) if hook is None else {**_context(call), **hook.context},
    )


def _entry(entry: Entry, arguments: Mapping[str, Json], binaries: Mapping[str, str]) -> Entry | str:
    """The entry as it will run: a command's line is filled in, all others stay as they are."""
    if not isinstance(entry, Command):
        return entry
    line = filled(entry.argv, arguments)
    if isinstance(line, str):
        return line
    if line[0] not in binaries:
        return (
            f"the program {line[0]!r} is not declared, or not found in a folder of your path that only you and root "
            "can write to"
        )
    return Command(argv=line)


def _needs(entry: Entry, binaries: Mapping[str, str], granted: PermissionSet) -> frozenset[Guarantee]:
    """What a run of the entry needs. A program that may start others is watched as code is."""
    needs = needed(entry, network=bool(granted.hosts))
    if isinstance(entry, Command) and not keeps_to_itself(binaries[entry.argv[0]]):
        return needs | {Guarantee.VIOLATIONS_SEEN}
    return needs


def _context(call: Call) -> dict[str, Json]:
    around = {name: value for name, value in asdict(call.surroundings).items() if value is not None}
    return {
        "call": {**around, "id": call.id},
        "operator": {"id": call.principal.on_behalf_of or call.principal.id},
    }


def _refused(call: Call, code: RefusalCode, *reasons: str, remedy: str) -> Refused:
    return Refused(call_id=call.id, code=code, reasons=reasons, remedy=remedy)
