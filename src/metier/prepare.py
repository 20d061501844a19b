"""ApprovedCall → Ready: the first half of running a call, before its intent is recorded.

It finds out what would run the call: an operation of ours, or a sandbox that keeps every promise the call needs, with the
`Job` for it. What cannot be given is refused, and nothing ran.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeAlias, final

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import asdict

from metier.catalog.bundle import Snapshot
from metier.config.gateway import OperatorSettings
from metier.errors import MetierError
from metier.gate.checked_paths import from_root, needed_least, written_paths
from metier.host.running import Disable, Running
from metier.model.call import ApprovedCall, AuthorizedCall, Call
from metier.model.digest import Json
from metier.model.entry import (
    Command,
    Entry,
    InlineCode,
    Operation,
    Program,
    PythonHandler,
    RemoteTool,
    ScriptHandler,
    WasmModule,
)
from metier.model.guarantee import Guarantee, needed
from metier.model.in_skill import files_of
from metier.model.interpreters import hides_interpreter
from metier.model.job import Job
from metier.model.outcome import REMEDIES, RefusalCode, Refused
from metier.model.permission import PermissionSet
from metier.model.ports import Host, Lives
from metier.model.skill import Limits, Skill, Tool
from metier.record.chain import NOT_RUN, Ran
from metier.sandbox.job_amber import amber_context
from metier.sandbox.job_argv import filled
from metier.sandbox.job_binaries import keeps_to_itself, real_programs
from metier.sandbox.job_environment import granted_variables
from metier.sandbox.job_hook import hook_of
from metier.sandbox.job_limits import CAPS, bounded
from metier.sandbox.job_operator_programs import granted_programs, started
from metier.sandbox.job_packages import installed, is_python
from metier.sandbox.job_places import NoPlace, inside, places, started_in, told_workspace
from metier.sandbox.job_program import program_of
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
    operator: OperatorSettings = OperatorSettings()
    """Who he is, as far as running code is told."""
    environ: Mapping[str, str] = {}
    """Of the operator; a run sees the variables that were granted by name."""
    running: Running
    life: Lives | None = None
    """Who is told when a skill that lives is ready; None where nothing but runs that end by themselves are made."""


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


async def nowhere(authorized: AuthorizedCall, workshop: Workshop) -> Refused | None:
    """Why no sandbox here runs such a call, as far as it can be told before anybody is asked about it; None when one would."""
    valid = authorized.valid
    entry, network = valid.tool.entry, bool(valid.permissions.hosts)
    if isinstance(entry, Operation | Program):  # what a program needs depends on its file
        return None
    if isinstance(entry, Command) and (named := workshop.ground.programs.get(entry.argv[0])):
        network = network or bool(named.hosts)
    try:
        job = trial(entry, network=network, call_id=valid.call.id)
        placed = await to_thread.run_sync(_placed, job, workshop.sandboxes())
    except MetierError as error:
        return _refused(valid.call, "not_runnable", error.message, remedy=error.remedy)
    return placed if isinstance(placed, Refused) else None


def trial(entry: Entry, *, network: bool = False, call_id: str = "trial") -> Job:
    """A job that is never run, to ask the sandboxes what they would do with this kind of entry."""
    return Job(
        call_id=call_id,
        entry=entry,
        arguments={},
        permissions=PermissionSet(hosts=frozenset({"example.com"})) if network else PermissionSet(),
        limits=Limits(),
        needs=needed(entry, network=network),
    )


def program_job(
    approved: ApprovedCall,
    entry: Program,
    bundle: str,
    *,
    granted: PermissionSet,
    limits: Limits,
    ground: Ground,
    environment: Mapping[str, str],
) -> Job | NoPlace:
    """What an operation of ours has run in a sandbox: a file of the folder `bundle`, as a program that may touch what is granted
    here and nothing else. Blocking."""
    found = places(granted, ground, bundle=bundle)
    if isinstance(found, NoPlace):
        return found
    return Job(
        call_id=approved.authorized.valid.call.id,
        skill=skill_of(approved),
        entry=entry,
        arguments={},
        bundle=bundle,
        places=found,
        keep=ground.workspace,
        environment=dict(environment),
        permissions=granted,
        limits=limits,
        needs=needed(entry, network=bool(granted.hosts)),
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
    arguments = from_root(tool, valid.arguments, workshop.ground)
    snapshot = workshop.snapshot(found.digest) if found is not None else None
    if snapshot is None and skill is not None:
        return _refused(call, "not_runnable", "the stored copy of the skill is gone", remedy="Call again")
    bundle = snapshot.folder if snapshot is not None else ""
    limits = bounded(tool.limits, workshop.caps)
    if isinstance(limits, str):
        return _refused(call, "not_runnable", limits, remedy=f"Mend the limits of {tool.name!r}")
    own = skill.location if skill else ""
    granted_places = places(granted, workshop.ground, bundle=bundle, own=own)
    if isinstance(granted_places, NoPlace) and granted == tool.permissions:
        # A folder that cannot be written now is no reason to refuse what is written to another.
        granted = needed_least(tool, valid.arguments, workshop.ground)
        ours = skill is not None and skill.source == "bundled"
        written = written_paths(tool, valid.arguments, workshop.ground) if ours else ()
        granted_places = places(granted, workshop.ground, bundle=bundle, own=own, written=written)
    if isinstance(granted_places, NoPlace):
        return _refused(call, granted_places.code, granted_places.reason, remedy=granted_places.remedy)
    environment = granted_variables(granted.env, workshop.environ)
    if isinstance(environment, str):
        return _refused(call, "forbidden", environment, remedy="Take that variable out of what it asks for")
    programs = granted_programs(granted.binaries, workshop.ground, workshop.environ)
    if isinstance(programs, NoPlace):
        return _refused(call, programs.code, programs.reason, remedy=programs.remedy)
    binaries = real_programs(
        granted.binaries - workshop.ground.programs.keys(), workshop.environ.get("PATH", "")
    )
    if skill is not None and (reason := _hidden_interpreter(binaries, workshop.ground)):
        remedy = (
            "To let skills be granted it, the operator names it in [binaries] interpreters of his metier.toml"
        )
        return _refused(call, "forbidden", reason, remedy=remedy)
    files = {**binaries, **{name: each.file for name, each in programs.items()}}
    entry = _entry(tool.entry, arguments, files, snapshot)
    if isinstance(entry, str):
        return _refused(
            call, "not_runnable", entry, remedy="`metier skills check` says what is missing on this machine"
        )
    in_skill = isinstance(tool.entry, Program)
    # A server lives on when the call is over, so it does not start where that is made.
    cwd: str | NoPlace = "" if in_skill or isinstance(entry, RemoteTool) else inside(call.cwd, granted_places)
    if own_start := _starts_in(entry):
        cwd = started_in(own_start, granted_places, workshop.ground, bundle=bundle)
    if isinstance(cwd, NoPlace):
        return _refused(call, cwd.code, cwd.reason, remedy=cwd.remedy)
    hook = hook_of(entry, valid.arguments)
    if isinstance(hook, str):
        return _refused(call, "not_runnable", hook, remedy="Give it an event, as `metier.hooks` does")
    packages = installed(workshop.packages, workshop.ground) if is_python(entry) else ()
    if isinstance(packages, str):
        return _refused(call, "not_runnable", packages, remedy="Mend [python] packages in metier.toml")
    job = Job(
        call_id=call.id,
        skill=skill.name if skill else "",
        packages=packages,
        entry=entry,
        arguments=arguments if hook is None else {},
        bundle=bundle,
        places=granted_places,
        cwd=cwd,
        files=files_of(valid.arguments) if in_skill else {},
        keep=workshop.ground.workspace,
        environment=environment if hook is None else {**environment, **hook.environment},
        binaries=binaries,
        programs=programs,
        permissions=granted,
        limits=limits,
        needs=_needs(entry, files, granted),
        context={
            **(_told(call, tool, workshop.operator) if hook is None else {**_context(call), **hook.context}),
            **told_workspace(granted, workshop.ground),
            **_self(entry, skill),
            **({"replaces": approved.replaces} if approved.replaces else {}),
            **({"agent": approved.agent} if approved.agent else {}),
        },
    )
    if isinstance(entry, Command) and entry.argv[0] in programs:
        return started(job, entry.argv[0], entry.argv[1:])
    return job


def _entry(
    entry: Entry, arguments: Mapping[str, Json], binaries: Mapping[str, str], snapshot: Snapshot | None
) -> Entry | str:
    """The entry as it will run: a command's line is filled in, a call may name a program, all others stay as they are."""
    if isinstance(entry, Program):
        return program_of(arguments, snapshot, binaries)
    if isinstance(entry, RemoteTool) and entry.reached is not None:
        return _not_there(entry.reached.argv[:1], binaries) or entry
    if not isinstance(entry, Command):
        return entry
    line = filled(entry.argv, arguments)
    if isinstance(line, str):
        return line
    return _not_there(line[:1], binaries) or Command(argv=line, cwd=entry.cwd)


def _not_there(names: Sequence[str], binaries: Mapping[str, str]) -> str:
    """Why one of the programs cannot be started; empty when all can."""
    for name in names:
        if name not in binaries:
            return (
                f"the program {name!r} is not declared, or not found in a folder of your path that only you and root "
                "can write to"
            )
    return ""


def _starts_in(entry: Entry) -> str:
    """The folder that an entry itself names; empty where it names none."""
    if isinstance(entry, RemoteTool):
        return entry.reached.cwd if entry.reached is not None else ""
    return entry.cwd if isinstance(entry, Command) else ""


def _hidden_interpreter(binaries: Mapping[str, str], ground: Ground) -> str:
    """A program that the gate, which knows its name alone, took for another."""
    for name, file in binaries.items():
        if hides_interpreter(name, file) and name not in ground.interpreters:
            return f"{name!r} is another name for {os.path.basename(file)!r}, which runs whatever it is told"
    return ""


def _needs(entry: Entry, binaries: Mapping[str, str], granted: PermissionSet) -> frozenset[Guarantee]:
    """What a run of the entry needs. A program that may start others is watched as code is."""
    needs = needed(entry, network=bool(granted.hosts))
    if isinstance(entry, Command) and not keeps_to_itself(binaries[entry.argv[0]]):
        return needs | {Guarantee.VIOLATIONS_SEEN}
    return needs


def _self(entry: Entry, skill: Skill | None) -> dict[str, Json]:
    """What a skill that lives is told of itself: never more than it said itself, and never by itself."""
    lives = isinstance(entry, ScriptHandler | PythonHandler) and entry.life
    return {"skill": {"id": skill.key or skill.name, "version": skill.version}} if lives and skill else {}


def _told(call: Call, tool: Tool, operator: OperatorSettings) -> dict[str, Json]:
    """What the code of a skill is told of its call, in the words of its dialect."""
    return amber_context(call, operator) if tool.answer == "amber" else _context(call)


def _context(call: Call) -> dict[str, Json]:
    around = {
        name: value
        for name, value in asdict(call.surroundings).items()
        if value is not None and name != "takes_bytes"
    }
    return {
        "call": {**around, "id": call.id},
        "operator": {"id": call.principal.on_behalf_of or call.principal.id},
    }


def _refused(call: Call, code: RefusalCode, *reasons: str, remedy: str) -> Refused:
    return Refused(call_id=call.id, code=code, reasons=reasons, remedy=remedy)
