"""The kit finds what is wrong: without a wall its behaviours fail, and a gap that is none is found out."""

import os
import signal
import tempfile
from pathlib import Path

import anyio
import pytest

from kit_backends import Alone, bubblewrap_native
from metier.model.entry import Command
from metier.model.guarantee import Guarantee
from metier.model.job import Ending, Job, Report
from metier.sandbox.protocol import Missing
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.backend import Backend, Gap
from metier.testing.sandbox_kit.bench import KitFailure
from metier.testing.sandbox_kit.kit import BEHAVIOURS, NUMBERED, verify
from metier.testing.sandbox_kit.outside import outside
from metier.testing.sandbox_kit.probes_python import NativeGuest, acts

pytestmark = pytest.mark.slow

# What a program without any wall is not stopped from.
BROKEN_WITHOUT_A_WALL = (
    *(11, 12, 13, 14, 15, 16, 17, 18, 21, 23, 37, 38, 39, 40, 41, 44, 46, 47, 48, 49, 50, 51, 53, 56),
)


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
        assert isinstance(job.entry, Command)
        with tempfile.TemporaryDirectory(prefix="none-", ignore_cleanup_errors=True) as folder:
            around = {"TMPDIR": folder, "HOME": folder, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
            environment = {**around, **job.environment}
            seconds = job.limits.timeout
            done = await outside(
                job.entry.argv, cwd=job.cwd or folder, seconds=seconds, environment=environment
            )
        ending: Ending = "exited"
        if done.exit_code is None:
            ending = "timed_out"
        elif done.exit_code == 0:
            ending = "returned"
        elif done.exit_code < 0:
            ending = "signalled"
        return Report(ending=ending, exit_code=done.exit_code, stdout=done.stdout.decode(errors="replace"))

    async def aclose(self) -> None:
        """Nothing is kept."""


def no_sandbox() -> Backend:
    return Backend(name="nothing", open=lambda folder: Alone(NoSandbox()), guest=NativeGuest())


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
