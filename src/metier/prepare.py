"""ApprovedCall → Ready: the first half of running a call, before its intent is recorded.

It finds out what would run the call: an operation of ours, or a sandbox that keeps every promise the call needs, with the
`Job` for it. What cannot be given is refused, and nothing ran.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeAlias, final

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import asdict

from metier.catalog.bundle import Snapshot
from metier.errors import MetierError
from metier.host.running import Disable, Running
from metier.model.call import ApprovedCall, Call
from metier.model.digest import Json
from metier.model.entry import Command, Entry, InlineCode, Operation, PythonHandler, ScriptHandler, WasmModule
from metier.model.guarantee import Guarantee, needed
from metier.model.job import Job
from metier.model.outcome import REMEDIES, RefusalCode, Refused
from metier.model.permission import PermissionSet
from metier.model.ports import Host
from metier.model.skill import Limits
from metier.record.chain import NOT_RUN, Ran
from metier.sandbox.job_argv import filled
from metier.sandbox.job_binaries import keeps_to_itself, real_programs
from metier.sandbox.job_environment import granted_variables
from metier.sandbox.job_hook import hook_of
from metier.sandbox.job_limits import CAPS, bounded
from metier.sandbox.job_packages import installed, is_python
from metier.sandbox.job_places import NoPlace, inside, places
from metier.sandbox.job_protected import Ground
from metier.sandbox.protocol import Sandbox
from metier.sandbox.select import Unavailable, select

HostFor: TypeAlias = Callable[[Job], AbstractAsyncContextManager[Host | None]]
"""Who answers what a run asks, for as long as it runs; the job given has no host yet."""


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
    call, skill = approved.authorized.valid.call, skill_of(approved)
    mark = workshop.running.mark(skill)
    if why := workshop.running.barred(skill, digest_of(approved)):
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


def skill_of(approved: ApprovedCall) -> str:
    """The name of the skill it is a call of; empty for what belongs to none."""
    skill = approved.authorized.valid.skill
    return skill.name if skill is not None else ""


def digest_of(approved: ApprovedCall) -> str:
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
