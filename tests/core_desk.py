"""A machine on which the skills that ship with Metier are called by an agent, and the owner says yes to what is asked."""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import metier
from machine import Machine
from metier.blocking import SyncRuntime
from metier.catalog.here import owner
from metier.model.approval import Approval, Shown
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.role import ROLES
from metier.model.trust_level import TrustLevel
from metier.record.approvals import find
from metier.record.database import Database
from metier.record.deciding import Decider, decide
from metier.record.level import set_level
from metier.sandbox.job_places import make_workspace

BUNDLED = Path(metier.__file__).parent / "bundled"
DECIDER = Decider(id=owner(), kind="human", rights=ROLES["owner"])


class Desk:
    """One runtime, opened when it is first used and closed with the test."""

    def __init__(self, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(Path(os.path.realpath(tmp_path)))
        self.patch = patch
        patch.setenv("HOME", str(self.machine.home))
        patch.setenv("PATH", f"{self.machine.bin}:/usr/bin:/bin")
        patch.delenv("METIER_HOME", raising=False)
        self._opened = ExitStack()
        self._runtime: SyncRuntime | None = None
        self.machine.state.mkdir(mode=0o700)
        make_workspace(str(self.workspace))

    @property
    def workspace(self) -> Path:
        return self.machine.state / "workspace"

    def close(self) -> None:
        self._opened.close()

    def reopen(self) -> None:
        """As a program that was started just now would be."""
        self.close()
        self._runtime = None

    @property
    def runtime(self) -> SyncRuntime:
        if self._runtime is None:
            opened = SyncRuntime.open(project=str(self.machine.project), watch=False)
            self._runtime = self._opened.enter_context(opened)
        return self._runtime

    def database(self) -> Database:
        """The state as another process would open it."""
        return Database.open(str(self.machine.state / "state.db"))

    def level(self, level: TrustLevel) -> None:
        assert self.runtime is not None  # the state is there
        with self.database() as database:
            set_level(database, level, by=owner())

    def call(self, tool: str, **arguments: Any) -> Outcome:
        return self.runtime.call(tool, arguments)

    def shown(self, pending: Outcome) -> Shown:
        assert isinstance(pending, Pending), pending
        with self.database() as database:
            found = find(database, pending.approval_id)
        assert found is not None
        assert found.shown is not None
        return found.shown

    def approve(self, pending: Outcome, meanwhile: Callable[[], object] = lambda: None) -> Outcome:
        """The owner says yes; then something may happen, and then it is taken up."""
        assert isinstance(pending, Pending), pending
        with self.database() as database:
            made = decide(database, pending.approval_id, by=DECIDER, decision="approve")
            assert isinstance(made, Approval), made
        meanwhile()
        return self.runtime.resume(pending.approval_id)

    def approved(self, tool: str, **arguments: Any) -> Outcome:
        """The call, and the owner's yes to it where he is asked."""
        outcome = self.call(tool, **arguments)
        return self.approve(outcome) if isinstance(outcome, Pending) else outcome


def value(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    return outcome.value


def why(outcome: Outcome) -> str:
    """Why nothing came of it."""
    if isinstance(outcome, Refused):
        return "; ".join(outcome.reasons)
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "reported", outcome
    return outcome.message


def code_of(skill: str, file: str = "") -> ModuleType:
    """The code of a skill, loaded as its sandbox loads it."""
    folder = BUNDLED / skill
    sys.path.append(str(folder))
    try:
        found = spec_from_file_location(f"core_{file or skill}", folder / f"{file or skill}.py")
        assert found is not None
        assert found.loader is not None
        module = module_from_spec(found)
        found.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))


class Told:
    """What a handler is told that needs nothing of the host."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = str(workspace)
