"""A machine on which skills live: packages in the project, trusted, and every part that keeps them alive, as the host has it."""

import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, chdir
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from click.testing import CliRunner
from msgspec.structs import replace

from machine import Machine
from metier.catalog.here import owner
from metier.doors.cli import metier as command
from metier.kernel.behalf import since_of
from metier.kernel.calling import NO_SURROUNDINGS
from metier.kernel.capability import Capability
from metier.kernel.events import Events, Happened
from metier.kernel.host_role import HostRole
from metier.kernel.modules import Modules
from metier.kernel.operation import Asked, Module, OperationError, module, offered
from metier.kernel.resident_keeper import Patience
from metier.kernel.residents import Residents
from metier.kernel.skills import Skills
from metier.kernel.store import Store
from metier.model.call import ApprovedCall, Call, Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Outcome
from metier.model.ports import OperationFunction, Operations
from metier.pipeline import House, run
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.runtime import Runtime
from metier.runtime.inner import Inner
from metier.runtime.living import Living

QUICK = Patience(first=0.02, longest=0.1, refused=0.05, longest_refused=0.1, look=0.1)
AGENT = Principal(id="agent:library", kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
OWNER = Principal(id=owner(), kind="human")


def python_package(machine: Machine, name: str, text: str) -> Path:
    """A Python package of the project, configured as a local path."""
    folder = machine.project / "packages" / name.replace("-", "_")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(text, encoding="utf-8")
    return folder


def script_package(machine: Machine, name: str, text: str, *, main: str = "index.ts", **more: str) -> Path:
    """A package in TypeScript or JavaScript, configured as a local path."""
    folder = machine.project / "packages" / name.rpartition("/")[2]
    folder.mkdir(parents=True, exist_ok=True)
    said = {"name": name, "version": "1.0.0", "type": "module", "main": main}
    (folder / "package.json").write_text(json.dumps(said), encoding="utf-8")
    for file, body in {main: text, **more}.items():
        (folder / file).write_text(body, encoding="utf-8")
    return folder


def configured(machine: Machine, *names: str, enabled: Sequence[str] = ()) -> None:
    """Allow these, in XBot's own file, wherever below `packages` they lie."""
    paths = [f"packages/{each.name}" for each in (machine.project / "packages").iterdir()]
    skills = {"allow": names, "enabled": [*enabled], "resolve": {"local_paths": sorted(paths)}}
    (machine.project / "agent.config.json").write_text(json.dumps({"skills": skills}), encoding="utf-8")


def trusted(machine: Machine, *names: str) -> None:
    """The operator looked at them, and trusts them. In this process, whose home is the machine's; not while a loop runs."""
    with chdir(machine.project):
        done = CliRunner().invoke(command, ["skills", "trust", *names, "--yes"])
    assert done.exit_code == 0, done.output


class Household:
    """The parts, wired as a host has them."""

    def __init__(
        self,
        runtime: Runtime,
        tasks: TaskGroup,
        machine: Machine,
        store: Store,
        own: Sequence[Module],
        patience: Patience,
    ) -> None:
        self.runtime = runtime
        self.machine = machine
        self.store = store
        self.events = Events()
        self.heard: list[Happened] = []
        self.depths: list[tuple[str, int]] = []
        """How deep each call of an operation of modules was."""
        self.capability = Capability()
        self.inner = Inner(self.run, tasks)
        private: Any = runtime._engine
        self.living = Living(
            self.house,
            self.inner,
            private.running,
            private.sandboxes,
            lambda: private.seen.settings,
            private.refresh,
            runtime.reload,
            private.state.database,
        )
        self.removed: list[str] = []
        self.residents = Residents(
            self.living,
            self.store,
            lambda: self.modules,
            self.events,
            lambda: runtime.catalog,
            lambda: private.seen.settings,
            owner(),
            None,
            self._removed,
            patience,
            since_of(private.state.database),
        )
        skills = Skills(
            self.residents,
            self.store,
            lambda: self.modules,
            lambda: runtime.catalog,
            lambda: private.seen.settings,
            lambda: self,
        )
        self.modules = Modules([skills.module(), *own], self.capability)

    async def _removed(self, skill: str) -> None:
        self.removed.append(skill)

    def house(self) -> House:
        private: Any = self.runtime._engine
        made: House = private.house()
        return replace(
            made, tools={**made.tools, **self.modules.tools}, operations=_Both(made.operations, self._do)
        )

    async def run(self, call: Call) -> Outcome:
        private: Any = self.runtime._engine
        await private.refresh()
        with self.inner.under(call):
            return await run(call, self.house())

    async def call(
        self,
        principal: Principal,
        tool: str,
        arguments: dict[str, Any],
        *,
        parent: str | None = None,
        surroundings: Surroundings = NO_SURROUNDINGS,
        unattended: bool = True,
        cause: Cause | None = None,
        id: str = "",
    ) -> Outcome:
        made = Call(
            id=id or f"call_{secrets.token_hex(12)}",
            principal=principal,
            tool=tool,
            arguments=arguments,
            parent=parent,
            depth=1 if parent else 0,
            surroundings=surroundings,
            unattended=unattended,
            cause=cause or self.inner.cause_of(parent or ""),
        )
        return await self.run(made)

    async def ask(self, tool: str, by: Principal = OWNER, /, **arguments: Any) -> Any:
        """What the operation gave; what kept it from being done is the test's failure."""
        outcome = await self.call(by, tool, arguments)
        assert isinstance(outcome, Completed), outcome
        return outcome.value

    async def no(self, tool: str, by: Principal = OWNER, /, **arguments: Any) -> tuple[str, str]:
        """Why it was not done: a code and a sentence."""
        outcome = await self.call(by, tool, arguments)
        match outcome:
            case Failed(value={"code": str(code), "message": str(message)}):
                return code, message
            case Failed(code=code, message=message):
                return code, message
            case Completed():
                raise AssertionError(outcome)
            case _:
                return getattr(outcome, "code", "pending"), "; ".join(outcome.reasons)

    async def info(self, id: str) -> dict[str, Any]:
        return await self.ask("skills.info", skill_id=id)

    async def until(self, id: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The record of a skill, once something is so."""
        with anyio.fail_after(30):
            while not is_so(found := await self.info(id)):
                await anyio.sleep(0.02)
        return found

    def _do(self, module: str, operation: str) -> OperationFunction | None:
        if not self.modules.knows(module, operation):
            return None

        async def perform(approved: ApprovedCall) -> Completed | Failed:
            valid = approved.authorized.valid
            self.depths.append((valid.tool.name, valid.call.depth))
            asked = Asked(
                call_id=valid.call.id,
                principal=valid.call.principal,
                module=module,
                operation=operation,
                arguments=valid.arguments,
                skill=valid.tool.skill,
                surroundings=valid.call.surroundings,
                depth=valid.call.depth,
                cause=valid.call.cause,
                unattended=valid.call.unattended,
            )
            try:
                value = await self.modules.do(asked, self.capability)
            except OperationError as error:
                said: Any = {"code": error.code, "message": error.message}
                return Failed(call_id=valid.call.id, code="reported", message=error.message, value=said)
            return Completed(call_id=valid.call.id, value=value)

        return perform


class _Both:
    def __init__(self, first: Operations, second: Callable[[str, str], OperationFunction | None]) -> None:
        self._first = first
        self._second = second

    def find(self, module: str, operation: str) -> OperationFunction | None:
        return self._first.find(module, operation) or self._second(module, operation)


@asynccontextmanager
async def household(
    machine: Machine, *own: Module, patience: Patience = QUICK, boot: bool = True
) -> AsyncGenerator[Household]:
    """Everything opened, and the residents running."""
    role = HostRole.try_take(str(machine.state))
    assert isinstance(role, HostRole), role
    store = Store(str(machine.state))
    try:
        async with (
            Runtime.open(project=str(machine.project), home=str(machine.state), watch=False) as runtime,
            anyio.create_task_group() as tasks,
        ):
            made = Household(runtime, tasks, machine, store, own, patience)
            with made.events.listening(made.heard.append):
                if boot:
                    tasks.start_soon(made.residents.run)
                    with anyio.fail_after(5):
                        residents: Any = made.residents
                        while residents._tasks is None:
                            await anyio.sleep(0.001)
                yield made
            tasks.cancel_scope.cancel()
    finally:
        store.close()
        role.release()


def alive(machine: Machine, act: Callable[[Household], Awaitable[None]], *own: Module, **more: Any) -> None:
    """Do something in a household."""

    async def main() -> None:
        async with household(machine, *own, **more) as made:
            await act(made)

    anyio.run(main)


KETTLE = """
import asyncio, os
class Kettle:
    name = 'kettle'
    def __init__(self, ctx): self._ctx = ctx
    async def boil(self, params, meta): return {'boiled': params, 'meta': meta}
    async def die(self, params, meta): os._exit(3)
    async def hang(self, params, meta): await asyncio.sleep(3600)
    async def fail(self, params, meta): raise ValueError('no water')
    async def ask(self, params, meta):
        try:
            return await self._ctx.execute(params['module'], params['op'], params.get('params', {}), {'actor': 'root'})
        except Exception as error:
            return {'refused': [error.name, str(error)]}
    async def emit(self, params, meta): return await self._ctx.emit(params['name'], params.get('payload'))
    async def keep(self, params, meta):
        await self._ctx.state_set(params['key'], params['value'])
        return await self._ctx.state_get(params['key'])
    async def read(self, params, meta): return await self._ctx.state_get(params['key'])
async def on_enable(ctx):
    ctx.register_module(Kettle(ctx))
async def on_disable(ctx):
    ctx.emit('kettle.goodbye')
skill = {'id': 'kettle', 'version': '1.0.0', 'on_enable': on_enable, 'on_disable': on_disable,
         'capabilities': {'kernel_ops': ['locks.open']}}
"""
"""A skill with an operation for everything a test may want."""


def kettle(top: Path, text: str = KETTLE, *, enabled: bool = True, **others: str) -> Machine:
    """A machine with the kettle on it, and others, all trusted."""
    machine = Machine(top)
    every = {"kettle": text, **others}
    for name, body in every.items():
        python_package(machine, name, body)
    # What is not enabled is not run, so it could not be read when it is trusted.
    configured(machine, *every, enabled=[*every])
    trusted(machine, *every)
    if not enabled:
        configured(machine, *every)
    return machine


POT = KETTLE.replace("kettle", "pot").replace("['locks.open']", "[]")
"""Another, which declares nothing."""


def locks() -> tuple[Module, list[str]]:
    """A module of ours with a privileged operation, and who had it done."""
    opened: list[str] = []

    async def does(asked: Asked) -> Json:
        opened.append(asked.principal.id)
        return {"open": True, "asked": asked.arguments}

    anything: dict[str, Json] = {"type": "object"}
    made = module(
        "locks",
        offered("locks.open", does, "Opens.", anything, privileged=True),
        offered("locks.Open", does, "Opens another.", anything, privileged=True),
        offered("locks.look", does, "Looks.", anything, effect="read", risk="low"),
    )
    return made, opened


async def loaded(house: Household, *names: str) -> None:
    for name in names or ("kettle",):
        await house.until(name, lambda record: record["status"] == "loaded")


def records(machine: Machine) -> list[Record]:
    with Database.open(machine.settings().database) as database:
        return [each for each in AuditLog(database).tail(1000) if each.call_id]
