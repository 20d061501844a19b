"""The kit finds what is wrong: without a wall its behaviours fail, and a gap that is none is found out."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from kit_backends import Walled, bubblewrap_native
from metier.model.guarantee import Guarantee
from metier.sandbox.native import NativeSandbox
from metier.sandbox.protocol import Missing
from metier.sandbox.wall import Code, Ended, Policy, Program
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.backend import Backend, Gap
from metier.testing.sandbox_kit.bench import KitFailure
from metier.testing.sandbox_kit.kit import BEHAVIOURS, NUMBERED, verify
from metier.testing.sandbox_kit.probes_python import NativeGuest, acts

# What a program without any wall is not stopped from.
BROKEN_WITHOUT_A_WALL = (
    *(11, 12, 13, 14, 15, 16, 17, 18, 21, 23, 37, 38, 39, 40, 41, 44, 46, 47, 48, 49, 50, 51, 53, 56),
)


class Loose:
    """A program that runs as it likes."""

    def __init__(self, program: "subprocess.Popen[bytes]", folder: str) -> None:
        self._program = program
        self._folder = folder
        self.shared_folders: list[str] = []
        self.proxy: socket.socket | None = None

    def own_disks(self) -> list[os.statvfs_result]:
        return []

    def strike(self) -> Ended | None:
        return None

    async def wait(self) -> Ended:
        return self._ended(await to_thread.run_sync(self._program.wait, abandon_on_cancel=True))

    async def kill(self) -> Ended:
        self._program.kill()
        return self._ended(self._program.wait())

    def _ended(self, code: int) -> Ended:
        shutil.rmtree(self._folder, ignore_errors=True)
        return Ended(exit_code=code) if code >= 0 else Ended(signal=-code)


class NoWall:
    """Promises everything and does nothing."""

    name = "none"

    def guarantees(self) -> frozenset[Guarantee]:
        return frozenset(Guarantee)

    def missing(self) -> tuple[Missing, ...]:
        return ()

    async def start(self, policy: Policy, program: Program) -> Loose:
        folder = tempfile.mkdtemp(prefix="nowall-")
        given: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": program.stdout,
            "stderr": program.stderr,
        }
        around = {"TMPDIR": folder, "HOME": folder, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        environment = {**around, **program.environment}
        return Loose(
            subprocess.Popen(program.argv, env=environment, cwd=program.cwd or folder, **given),  # noqa: ASYNC220
            folder,
        )

    async def fork(self, policy: Policy, code: Code) -> Loose:
        raise NotImplementedError

    async def aclose(self) -> None:
        """Nothing is kept."""


def no_sandbox() -> Backend:
    def opened(folder: str) -> Walled:
        wall = NoWall()
        return Walled(wall, NativeSandbox(wall))  # type: ignore[arg-type]

    return Backend(name="nothing", open=opened, guest=NativeGuest())


def test_there_are_sixty_behaviours_and_each_is_named_once() -> None:
    assert [each.number for each in BEHAVIOURS] == list(range(1, 61))
    assert len({each.name for each in BEHAVIOURS}) == 60
    assert all(each.name == each.check.__name__ for each in BEHAVIOURS)


def test_every_guarantee_has_a_behaviour_that_would_find_it_broken() -> None:
    proven = frozenset[Guarantee]().union(*(each.guarantees for each in BEHAVIOURS))
    assert proven == frozenset(Guarantee)


def test_every_act_says_what_it_is_for_or_is_a_line() -> None:
    assert len(acts()) > 40


@pytest.mark.slow
@pytest.mark.parametrize("number", BROKEN_WITHOUT_A_WALL)
def test_without_a_wall_the_behaviour_fails(number: int, tmp_path: Path) -> None:
    try:
        with pytest.raises(KitFailure) as failure:
            anyio.run(verify, NUMBERED[number], no_sandbox(), str(tmp_path))
        assert "could not be tried" not in str(failure.value)
    finally:
        _put_down()


def _put_down() -> None:
    """End what the behaviour rightly found left behind."""
    for pid in (each.pid for each in leftovers.ours()):
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


def test_a_gap_that_is_none_is_found_out(tmp_path: Path) -> None:
    wrong = Gap(behaviour=36, what=frozenset({"there"}), reason="it only seems so")
    backend = bubblewrap_native()
    with pytest.raises(KitFailure, match="listed as a gap, and yet it holds"):
        anyio.run(
            verify,
            NUMBERED[36],
            Backend(name=backend.name, open=backend.open, guest=backend.guest, gaps=(wrong,)),
            str(tmp_path),
        )


def test_a_gap_in_what_is_promised_is_found_out(tmp_path: Path) -> None:
    wrong = Gap(behaviour=38, what=frozenset(), reason="why not", guarantee=Guarantee.CONTENTS)
    backend = bubblewrap_native()
    with pytest.raises(KitFailure, match="gap: "):
        anyio.run(
            verify,
            NUMBERED[2],
            Backend(name=backend.name, open=backend.open, guest=backend.guest, gaps=(wrong,)),
            str(tmp_path),
        )
