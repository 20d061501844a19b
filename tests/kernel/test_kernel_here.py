"""The modules as a runtime uses them: nobody pays for what he does not need, one process is the host, and all go through the gate."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from machine import Machine
from metier.errors import StateError
from metier.kernel.host_role import HostRole
from metier.kernel.residents import Residents
from metier.kernel.store import Store
from metier.kernel.triggers import Triggers
from metier.model.outcome import Completed, Outcome, Refused
from metier.record.database import Database
from metier.record.search import Query, search
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner, operate
from metier.runtime.kernel_parts import Parts

T = TypeVar("T")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@asynccontextmanager
async def opened(machine: Machine, **more: Any) -> AsyncGenerator[Runtime]:
    async with Runtime.open(
        home=str(machine.state), project=str(machine.project), watch=False, **more
    ) as runtime:
        yield runtime


def with_host(machine: Machine, act: Callable[[Runtime], Awaitable[T]]) -> T:
    async def main() -> T:
        async with opened(machine, host=True) as runtime:
            assert runtime.is_host
            return await act(runtime)

    return anyio.run(main)


def test_who_needs_no_module_loads_none_and_keeps_nothing_for_one(machine: Machine) -> None:
    code = (
        "import sys, anyio\n"
        "from metier.runtime import Runtime\n"
        "async def main():\n"
        f"    async with Runtime.open(home={str(machine.state)!r}, project={str(machine.project)!r}, watch=False) as it:\n"
        "        print(await it.call('read_skill', {'name': 'writing-skills'}))\n"
        "        print(await it.call('nobody.knows', {}))\n"
        "anyio.run(main)\n"
        "print(sorted(name for name in sys.modules if name.startswith('metier.kernel.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Completed" in done.stdout
    assert "unknown_tool" in done.stdout
    assert done.stdout.splitlines()[-1] == "['metier.kernel.lives']"
    assert not (machine.state / "kernel.db").exists()


def test_one_process_is_the_host_and_when_it_ends_another_can_be(machine: Machine) -> None:
    async def main() -> None:
        async with opened(machine, host=True) as first:
            assert first.is_host
            async with opened(machine, host=True) as second:
                assert not second.is_host
                assert isinstance(await second.call("channels.list", {}), Completed), "all else works"
        async with opened(machine, host=True) as third:
            assert third.is_host

    anyio.run(main)


@pytest.mark.parametrize("where", ["made", "expecting", "background"])
def test_who_cannot_be_the_host_after_all_gives_the_role_back_at_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fails(*_: object) -> object:
        raise StateError("not today", remedy="")

    async def fails_later(*_: object) -> None:
        raise StateError("not today", remedy="")

    broken = {
        "made": (Triggers, "load", fails_later),
        "expecting": (Residents, "expect", fails_later),
        "background": (Parts, "background", fails),
    }[where]
    closed: list[Store] = []
    monkeypatch.setattr(Store, "close", lambda store, close=Store.close: (closed.append(store), close(store)))

    async def main() -> None:
        with monkeypatch.context() as patch, pytest.raises(StateError, match="not today") as kept:
            patch.setattr(*broken)
            async with opened(machine, host=True):
                raise AssertionError("it is the host")
        role = HostRole.try_take(str(machine.state))
        assert isinstance(role, HostRole), "while somebody still looks at the error"
        role.release()
        assert kept.value.message == "not today"
        assert len(closed) == 1
        async with opened(machine, host=True) as runtime:  # the control
            assert runtime.is_host

    anyio.run(main)


def test_an_operation_is_judged_and_recorded_like_every_call(machine: Machine) -> None:
    done = anyio.run(operate, machine.settings(), "triggers.list", {})
    assert isinstance(done, Completed)
    with Database.open(str(machine.state / "state.db")) as database:
        found = [each.event for each in search(database, Query(), 1_000) if each.call_id == done.call_id]
    assert found == ["skill_execution_started", "skill_executed"]


@pytest.mark.parametrize("tool", ["conv.list_threads", "settings.set_skill", "secrets.list", "skills.enable"])
def test_an_agent_gets_nothing_that_is_for_people(machine: Machine, tool: str) -> None:
    async def both(runtime: Runtime) -> tuple[Outcome, Outcome]:
        arguments: dict[str, Any] = {
            "settings.set_skill": {"skill_id": "x", "patch": {}},
            "skills.enable": {"skill_id": "x"},
        }.get(tool, {})
        return await runtime.call(tool, arguments), await call_as_owner(runtime, tool, arguments)

    agents, owners = with_host(machine, both)
    assert isinstance(agents, Refused)
    assert agents.code == "forbidden"
    assert not isinstance(owners, Refused), "control: a person may"


def test_what_is_kept_for_modules_and_cannot_be_read_is_said_and_lets_nothing_run(machine: Machine) -> None:
    with_host(machine, lambda runtime: runtime.call("channels.list", {}))
    (machine.state / "kernel.db").write_bytes(b"no database at all" * 500)

    async def main() -> Outcome:
        async with opened(machine) as runtime:
            return await runtime.call("read_skill", {"name": "writing-skills"})

    with pytest.raises(StateError, match=r"kernel\.db"):
        anyio.run(main)


def test_no_kernel_operation_is_offered_to_a_model(machine: Machine) -> None:
    async def names(runtime: Runtime) -> set[str]:
        await runtime.call("channels.list", {})
        return {str(each) for each in runtime.tools("mcp")}

    shown = with_host(machine, names)
    assert shown
    assert not [each for each in shown if "channels" in each or "secrets" in each or "triggers" in each]
