"""A machine with one skill that is only a text with scripts beside it, and an operator who approves what is asked."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import Machine, write_skill
from metier.catalog.here import owner
from metier.model.approval import Approval
from metier.model.outcome import Outcome, Pending
from metier.model.role import ROLES
from metier.record.database import Database
from metier.record.deciding import Decider, decide
from metier.runtime import Runtime

DECIDER = Decider(id=owner(), kind="human", rights=ROLES["owner"])


class Shop:
    """Real sandboxes, a real record, and one skill called `tea`."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(top)
        monkeypatch.setenv("HOME", str(self.machine.home))
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        monkeypatch.delenv("METIER_HOME", raising=False)
        monkeypatch.chdir(self.machine.project)
        self.folder = self.machine.skills / "tea"
        self.declares()

    def declares(self, *programs: str) -> None:
        needs = {
            "metadata": '{"openclaw": {"requires": {"bins": ' + f"{[*programs]}".replace("'", '"') + "}}}"
        }
        write_skill(self.folder, **(needs if programs else {}))

    def script(self, name: str, text: str) -> str:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return name

    @property
    def workspace(self) -> Path:
        return self.machine.state / "workspace"

    def kept(self) -> list[str]:
        """Every file below the workspace's `out`."""
        top = self.workspace / "out"
        return sorted(
            os.path.relpath(os.path.join(at, name), top) for at, _, names in os.walk(top) for name in names
        )

    def with_runtime(self, act: Callable[[Runtime], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with Runtime.open(project=str(self.machine.project), watch=False) as runtime:
                return await act(runtime)

        return anyio.run(main)

    def run(self, **arguments: Any) -> Outcome:
        """How a call of `run_in_skill` ends once the operator said yes, where he is asked at all."""
        return self.with_runtime(lambda runtime: self.approved(runtime, **arguments))

    async def approved(self, runtime: Runtime, **arguments: Any) -> Outcome:
        outcome = await runtime.call("run_in_skill", {"name": "tea", **arguments})
        if not isinstance(outcome, Pending):
            return outcome
        with Database.open(self.machine.settings().database) as database:
            made = decide(database, outcome.approval_id, by=DECIDER, decision="approve")
            assert isinstance(made, Approval), made
        return await runtime.resume(outcome.approval_id)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, monkeypatch)
