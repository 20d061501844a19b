"""Sandboxes with one fault each, for the contract kit to find out.

Each fault is small, has a name, and sits before a sandbox that is otherwise in order; or there is no wall at all.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from kit_backends import Alone, bubblewrap_native
from metier.model.entry import Command, ScriptHandler
from metier.model.guarantee import Guarantee
from metier.model.job import Ending, Event, Job, Report, Usage
from metier.model.ports import Answered, Host, NotAnswered
from metier.model.skill import Limits
from metier.sandbox.protocol import Missing, Sandbox
from metier.testing.sandbox_kit.backend import Backend, Opened
from metier.testing.sandbox_kit.granted_names import OTHER, Names
from metier.testing.sandbox_kit.outside import outside
from metier.testing.sandbox_kit.probes_python import NativeGuest


class NoSandbox:
    """Promises everything and does nothing but start the program."""

    name = "none"

    def takes(self, job: Job) -> bool:
        return True

    def guarantees(self) -> frozenset[Guarantee]:
        return frozenset(Guarantee)

    def missing(self) -> tuple[Missing, ...]:
        return ()

    async def run(self, job: Job) -> Report:
        with tempfile.TemporaryDirectory(prefix="none-", ignore_cleanup_errors=True) as folder:
            return await self.run_in(folder, job)

    async def run_in(self, folder: str, job: Job) -> Report:
        assert isinstance(job.entry, Command)
        around = {"TMPDIR": folder, "HOME": folder, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        environment = {**around, **job.environment}
        seconds = job.limits.timeout
        done = await outside(job.entry.argv, cwd=job.cwd or folder, seconds=seconds, environment=environment)
        ending: Ending = "exited"
        if done.exit_code is None:
            ending = "timed_out"
        elif done.exit_code == 0:
            ending = "returned"
        elif done.exit_code < 0:
            ending = "signalled"
        told = done.stdout.decode(errors="replace")
        signal = -(done.exit_code or 0) if ending == "signalled" else None
        return Report(ending=ending, exit_code=done.exit_code, signal=signal, stdout=told)

    async def aclose(self) -> None:
        """Nothing is kept."""


class OneFolderForAll(NoSandbox):
    """Every run has the temporary folder of the one before."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="none-")

    async def run(self, job: Job) -> Report:
        return await self.run_in(self._folder, job)

    async def aclose(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Faulty:
    """A sandbox in order; a subclass gets one thing wrong."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.name = opened.sandbox.name

    def takes(self, job: Job) -> bool:
        return self._opened.sandbox.takes(job)

    def guarantees(self) -> frozenset[Guarantee]:
        return self._opened.sandbox.guarantees()

    def missing(self) -> tuple[Missing, ...]:
        return self._opened.sandbox.missing()

    async def run(self, job: Job) -> Report:
        return await self._opened.sandbox.run(job)

    async def aclose(self) -> None:
        await self._opened.aclose()


# What it says of itself


class SaysTooLittle(Faulty):
    """Does not promise what it has, and does not say what would be missing for it."""

    def guarantees(self) -> frozenset[Guarantee]:
        return super().guarantees() - {Guarantee.CONTENTS}


class SaysTooMuch(Faulty):
    """Promises also what it is known not to do."""

    def guarantees(self) -> frozenset[Guarantee]:
        return frozenset(Guarantee)


class AllAlike(Faulty):
    """Tells every end in the same words."""

    async def run(self, job: Job) -> Report:
        await super().run(job)
        return Report(ending="exited", exit_code=1)


class Free(Faulty):
    """Says that nothing costs anything."""

    async def run(self, job: Job) -> Report:
        return replace(await super().run(job), usage=Usage())


class AlwaysWell(Faulty):
    """Says that everything went well."""

    async def run(self, job: Job) -> Report:
        return replace(await super().run(job), ending="returned")


# Limits, arguments, time


class Limitless(Faulty):
    """Does not look at the limits it is given."""

    async def run(self, job: Job) -> Report:
        return await super().run(replace(job, limits=Limits(timeout=10.0)))


class TakesOptions(Faulty):
    """Takes what begins like an option for one of its own."""

    async def run(self, job: Job) -> Report:
        arguments = {name: value for name, value in job.arguments.items() if not _like_an_option(value)}
        entry = job.entry
        if isinstance(entry, Command):
            entry = replace(entry, argv=tuple(each for each in entry.argv if not _like_an_option(each)))
        return await super().run(replace(job, entry=entry, arguments=arguments))


def _like_an_option(value: object) -> bool:
    return isinstance(value, str) and value.startswith("--")


class Late(Faulty):
    """Gives every run two seconds more than it has."""

    async def run(self, job: Job) -> Report:
        return await super().run(replace(job, limits=replace(job.limits, timeout=job.limits.timeout + 2)))


class HoldsTheLoop(Faulty):
    """Lets nobody else go on while the host answers."""

    async def run(self, job: Job) -> Report:
        return await super().run(replace(job, host=_Through(job.host, self._hold)))

    def _hold(self, answer: Answered | NotAnswered | None) -> None:
        if answer is None:
            time.sleep(1.5)


class ByTheWall(Faulty):
    """Believes the clock on the wall, which can be set."""

    async def run(self, job: Job) -> Report:
        until = time.time() + job.limits.timeout
        reports: list[Report] = []

        async def watch(scope: anyio.CancelScope) -> None:
            while time.time() < until:
                await anyio.sleep(0.02)
            scope.cancel()

        longer = replace(job.limits, timeout=job.limits.timeout + 2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, tasks.cancel_scope)
            reports.append(await super().run(replace(job, limits=longer)))
            tasks.cancel_scope.cancel()
        return reports[0] if reports else Report(ending="timed_out")


class InItsOwnFolder(Faulty):
    """Starts a program where it likes, not where it was told to."""

    async def run(self, job: Job) -> Report:
        return await super().run(replace(job, cwd=""))


class OneForAll(Faulty):
    """Whose time is up takes the others along."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._running: set[anyio.CancelScope] = set()

    async def run(self, job: Job) -> Report:
        report = Report(ending="signalled", signal=9)
        with anyio.CancelScope() as mine:
            self._running.add(mine)
            report = await super().run(job)
        self._running.discard(mine)
        if report.ending == "timed_out":
            for each in self._running:
                each.cancel()
        return report


class GoesOn(Faulty):
    """Does not stop a call that was cancelled, for two seconds."""

    async def run(self, job: Job) -> Report:
        with anyio.move_on_after(2, shield=True):
            return await super().run(job)
        return Report(ending="timed_out")


# Results


class Believing(Faulty):
    """Takes for the result whatever is written like one."""

    async def run(self, job: Job) -> Report:
        report = await super().run(job)
        for line in report.stdout.splitlines():
            if line.startswith('{"jsonrpc"'):
                return replace(report, ending="returned", value=msgspec.json.decode(line)["result"])
        return report


class Lenient(Faulty):
    """Makes a value of a result that is none, in the host."""

    async def run(self, job: Job) -> Report:
        report = await super().run(job)
        if report.ending in ("bad_result", "raised"):
            return replace(report, ending="returned", value="ran in the host")
        return report


class Shortens(Faulty):
    """Keeps the beginning of what was printed, and does not say so."""

    async def run(self, job: Job) -> Report:
        report = await super().run(job)
        return replace(report, stdout=report.stdout[:1_000])


class OfTheOneBefore(Faulty):
    """Gives each run the report of the one that ended before it."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._last: Report | None = None

    async def run(self, job: Job) -> Report:
        mine = await super().run(job)
        before, self._last = self._last, mine
        return before or mine


class NeverBusy(Faulty):
    """Has whoever is too many wait, instead of telling them."""

    async def run(self, job: Job) -> Report:
        report = await super().run(job)
        if report.ending == "busy":
            await anyio.sleep_forever()
        return report


# Where it may go


class LetsAllThrough(Faulty):
    """Takes one grant for all of them."""

    async def run(self, job: Job) -> Report:
        hosts = job.permissions.hosts
        all_there_are = hosts | {OTHER, f"http://{OTHER}"} if hosts else hosts
        return await super().run(replace(job, permissions=replace(job.permissions, hosts=all_there_are)))


class NoWayOut(Faulty):
    """Promises what is granted, and gives none of it."""

    async def run(self, job: Job) -> Report:
        return await super().run(replace(job, permissions=replace(job.permissions, hosts=frozenset())))


# The host, and what it is told


class _Through:
    """A host whose answers somebody has a hand in: told of the question with None, then of the answer."""

    def __init__(self, host: Host | None, seen: Callable[[Answered | NotAnswered | None], Any]) -> None:
        self._host = host
        self._seen = seen

    async def ask(self, method: str, params: dict[str, Any]) -> Answered | NotAnswered:
        self._seen(None)
        nobody = NotAnswered(name="Nobody", message="nobody answers")
        answer = await self._host.ask(method, params) if self._host else nobody
        return self._seen(answer) or answer


class HostOfAnother(Faulty):
    """Of the calls that run at once, the first one's host answers all."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._running: list[Host | None] = []

    async def run(self, job: Job) -> Report:
        self._running.append(job.host)
        try:
            return await super().run(replace(job, host=self._running[0]))
        finally:
            self._running.remove(job.host)


class TellsAll(Faulty):
    """Adds to an error of the host where it came from."""

    async def run(self, job: Job) -> Report:
        return await super().run(replace(job, host=_Through(job.host, self._where)))

    def _where(self, answer: Answered | NotAnswered | None) -> Answered | NotAnswered | None:
        if isinstance(answer, NotAnswered):
            trace = 'Traceback (most recent call last):\n  File "metier/host/bridge.py"'
            return replace(answer, message=f"{answer.message}\n{trace}")
        return answer


class Silent(Faulty):
    """Keeps violations to itself."""

    async def run(self, job: Job) -> Report:
        return replace(await super().run(job), violations=())


class Alarmed(Faulty):
    """Takes everything for a violation."""

    async def run(self, job: Job) -> Report:
        report = await super().run(job)
        return replace(report, violations=(*report.violations, Event(kind="read", detail="it read")))


# What a skill ships


class TakesTheShippedMap(Faulty):
    """Resolves what a handler imports by the configuration that lies beside it."""

    async def run(self, job: Job) -> Report:
        if isinstance(job.entry, ScriptHandler):
            path = os.path.join(job.bundle, job.entry.path)
            with open(os.path.join(job.bundle, "deno.json"), "rb") as file:
                names: dict[str, str] = msgspec.json.decode(file.read())["imports"]
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for name, where in names.items():
                text = text.replace(f'"{name}"', f'"{where}"')
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return await super().run(job)


# What is left


class LeavesAProcess(Faulty):
    """One that sleeps, for each run."""

    async def run(self, job: Job) -> Report:
        await anyio.to_thread.run_sync(os.posix_spawn, "/bin/sleep", ["sleep", "60"], {})
        return await super().run(job)


class LeavesADescriptor(Faulty):
    """One for each run, until it is closed."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._held: list[int] = []

    async def run(self, job: Job) -> Report:
        self._held.append(os.open("/dev/null", os.O_RDONLY))
        return await super().run(job)

    async def aclose(self) -> None:
        await super().aclose()
        for each in self._held:
            os.close(each)


class LeavesAFolder(Faulty):
    """One for each run."""

    async def run(self, job: Job) -> Report:
        tempfile.mkdtemp(prefix="metier-run-")
        return await super().run(job)


# Backends for the kit


def no_sandbox() -> Backend:
    nothing = Alone(NoSandbox())
    return Backend(
        name="nothing",
        open=lambda folder: nothing,
        guest=NativeGuest(),
        small_files=1,
        names=Names(),
        elsewhere=f"{os.path.realpath(__file__)}:no_sandbox",
    )


def one_folder_for_all() -> Backend:
    def opened(folder: str) -> Opened:
        return Alone(OneFolderForAll())

    return replace(no_sandbox(), open=opened)


def runs_all_the_same() -> Backend:
    """Lacks a part, and runs the job all the same."""
    whole = bubblewrap_native()
    return replace(whole, without={"bubblewrap": whole.open})


def nothing_taken_away() -> Backend:
    """Does not say how it is without any of its parts, so that nobody could ask."""
    return replace(bubblewrap_native(), without={})


def with_fault(fault: Callable[[Opened], Sandbox], make: Callable[[], Backend]) -> Callable[[], Backend]:
    def backend() -> Backend:
        whole = make()

        def opened(folder: str) -> Opened:
            return Alone(fault(whole.open(folder)))

        return replace(whole, open=opened)

    return backend
