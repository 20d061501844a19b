"""Programs that the operator named (`[binaries.programs]`): which file each is, and a run of one with what it alone is given.

A name stands for one file. It is called by that name, by a spelling the operator accepts, or by the very file where nothing
has to come before its arguments: never by how a path ends. The code that asks for a program holds none of what the program
is given, and the program asks nothing of the host.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from metier.errors import ConfigError
from metier.model.entry import Command
from metier.model.ground import Ground
from metier.model.guarantee import Guarantee, needed
from metier.model.job import Job, Place, ProgramGrant
from metier.model.permission import WORKSPACE, PermissionSet
from metier.model.program import OperatorProgram
from metier.record.private import make_private_folder
from metier.sandbox.job_binaries import is_program, keeps_to_itself, real_programs
from metier.sandbox.job_places import NoPlace, make_workspace, places


def program_file(program: OperatorProgram) -> str:
    """The real file, where it is a program that nobody but root and the operator can change; else nothing. Blocking."""
    real = os.path.realpath(program.file)
    return real if os.path.isfile(real) and is_program(real) else ""


def real_files(names: Iterable[str], programs: Mapping[str, OperatorProgram], path: str) -> dict[str, str]:
    """The file that each name stands for now: the operator's word, else what a safe folder of `path` has. Blocking."""
    wanted = frozenset(names)
    named = {name: program_file(programs[name]) for name in sorted(wanted & programs.keys())}
    found = real_programs(wanted - programs.keys(), path)
    return found | {name: file for name, file in named.items() if file}


def granted_programs(
    names: Iterable[str], ground: Ground, environ: Mapping[str, str]
) -> dict[str, ProgramGrant] | NoPlace:
    """Each of `names` that the operator named, with what he gives to it; or why that cannot be given. Blocking.

    Raises:
        StateError: when the workspace cannot be made.
    """
    found: dict[str, ProgramGrant] = {}
    for name in sorted(frozenset(names) & ground.programs.keys()):
        program = ground.programs[name]
        if not (file := program_file(program)):
            continue  # as with one that is not on the path: who calls it is told
        given = _places(program, ground)
        if isinstance(given, NoPlace):
            return replace(
                given, reason=f"the program {name!r} cannot be given what it needs: {given.reason}"
            )
        origin = _own_origin(name, program)
        if isinstance(origin, NoPlace):
            return origin
        workspace = os.path.realpath(ground.workspace)
        found[name] = ProgramGrant(
            file=file,
            spellings=program.spellings,
            before=program.before,
            places=given,
            hosts=program.hosts,
            own_origin=origin,
            environment={
                **{each: environ[each] for each in sorted(program.env) if each in environ},
                **{each: value.replace(WORKSPACE, workspace) for each, value in program.environment.items()},
            },
        )
    return found


def meant(text: str, job: Job) -> str | None:
    """The declared name that `text` calls, or None."""
    granted = job.permissions.binaries
    programs = {name: each for name, each in job.programs.items() if name in granted}
    binaries = {name: file for name, file in job.binaries.items() if name in granted}
    if text in programs or text in binaries:
        return text
    if spelled := next((name for name, each in programs.items() if text in each.spellings), None):
        return spelled
    # By another name of the very same file, as `/bin/ls` is where `/bin` is a link; never by how a name ends. A program with
    # arguments of its own is another one than the bare file.
    files = {**binaries, **{name: each.file for name, each in programs.items() if not each.before}}
    plain = text.startswith("/") and os.path.normpath(text) == text
    file = os.path.realpath(text) if plain else None
    # One file may be many programs: then the one called so is meant.
    same = (name for name, real in files.items() if real == file)
    return min(same, key=lambda name: name != os.path.basename(text), default=None)


def started(job: Job, name: str, words: Sequence[str]) -> Job:
    """A run of one declared program in the place of the job's own entry, with what the job may touch and what that program is
    given besides. It asks nothing of the host, and holds no further right. Arguments and context are not shown to a
    program; they tell who named an address that it tries to reach."""
    given = job.programs.get(name) or ProgramGrant(file=job.binaries[name])
    own, cwd = job.permissions, job.entry.cwd if isinstance(job.entry, Command) else ""
    # Which file the operator's own program is he said himself, so it is called by that.
    entry = Command(argv=(given.file if name in job.programs else name, *given.before, *words), cwd=cwd)
    # A service of the operator's own is reached alone: what a skill may reach is judged by other rules.
    hosts = given.hosts if given.own_origin else own.hosts | given.hosts
    # What its tool asked for beyond its kind is asked for here too.
    needs = needed(entry, network=bool(hosts)) | (job.needs - needed(job.entry, network=bool(own.hosts)))
    if not keeps_to_itself(given.file):
        needs |= {Guarantee.VIOLATIONS_SEEN}  # it may run what the skill tells it to
    return replace(
        job,
        entry=entry,
        packages=(),
        binaries={name: given.file},
        programs={},
        own_origin=given.own_origin,
        places=_joined(job.places, given.places),
        environment={**job.environment, **given.environment},
        permissions=PermissionSet(
            binaries=frozenset({name}),
            reads=own.reads | _paths(given.places, writable=False),
            writes=own.writes | _paths(given.places, writable=True),
            hosts=hosts,
            env=own.env | given.environment.keys(),
        ),
        needs=needs,
        host=None,
    )


def _places(program: OperatorProgram, ground: Ground) -> tuple[Place, ...] | NoPlace:
    if any(path.partition("/")[0] == WORKSPACE for path in program.writes):
        make_workspace(ground.workspace)
    for path in sorted(program.writes):
        head, _, rest = path.partition("/")
        folder = os.path.join(os.path.realpath(ground.workspace), rest)
        if head == WORKSPACE and rest and not os.path.lexists(folder):
            make_private_folder(folder)
    return places(PermissionSet(reads=program.reads, writes=program.writes), ground, bundle="")


def _own_origin(name: str, program: OperatorProgram) -> str | NoPlace:
    """The one host of a program where it lies where no skill may go; empty where all its hosts are as those of skills."""
    if not program.hosts:
        return ""
    from metier.sandbox.grants import read_grants  # most programs reach nothing
    from metier.sandbox.own_origin import read_own

    try:
        read_grants(program.hosts)
    except ConfigError as error:
        refused, host = error, min(program.hosts)
        if len(program.hosts) == 1:
            try:
                return read_own(host if "://" in host else f"https://{host}").origin
            except ConfigError as problem:
                refused = problem
        code: Literal["not_runnable"] = "not_runnable"
        return NoPlace(code=code, reason=f"the program {name!r}: {refused.message}", remedy=refused.remedy)
    return ""


def _joined(ones: Iterable[Place], others: Iterable[Place]) -> tuple[Place, ...]:
    """All of them; where both have a place, the one that may be written to."""
    found = {place.path: place for place in sorted((*ones, *others), key=lambda place: place.writable)}
    return tuple(sorted(found.values()))


def _paths(given: Iterable[Place], *, writable: bool) -> frozenset[str]:
    return frozenset(place.path for place in given if place.writable == writable)
