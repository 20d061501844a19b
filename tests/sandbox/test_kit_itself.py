"""The kit finds what is wrong: without a wall its behaviours fail, and a gap that is none is found out."""

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit_backends import (
    Alone,
    bubblewrap_deno,
    bubblewrap_native,
    bubblewrap_python,
    bubblewrap_straight,
    changed,
    http,
    landlock_deno,
    landlock_native,
    landlock_python,
    wasm,
)
from metier.model.entry import Command
from metier.model.guarantee import Guarantee
from metier.model.job import Ending, Job, Report
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.protocol import Missing
from metier.testing.sandbox_kit import checks_host, leftovers
from metier.testing.sandbox_kit.backend import Backend, Gap
from metier.testing.sandbox_kit.bench import KitFailure
from metier.testing.sandbox_kit.checks_files import SECRET
from metier.testing.sandbox_kit.kit import BEHAVIOURS, NUMBERED, verify
from metier.testing.sandbox_kit.outside import outside
from metier.testing.sandbox_kit.probes_python import NativeGuest, acts

pytestmark = pytest.mark.slow

EVERY = (
    *(bubblewrap_native, bubblewrap_straight, bubblewrap_python, bubblewrap_deno),
    *(landlock_native, landlock_python, landlock_deno, wasm, http),
)
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
    nothing = Alone(NoSandbox())
    return Backend(name="nothing", open=lambda folder: nothing, guest=NativeGuest(), small_files=1)


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


def test_a_gap_for_what_the_guest_can_do_is_found_out(tmp_path: Path) -> None:
    wrong = Gap(behaviour=28, needs=("talk",), reason="it only seems so")
    backend = bubblewrap_native()
    with pytest.raises(KitFailure, match="the guest can talk"):
        anyio.run(
            verify,
            NUMBERED[28],
            Backend(name=backend.name, open=backend.open, guest=backend.guest, gaps=(wrong,)),
            str(tmp_path),
        )


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_every_gap_is_about_a_behaviour_and_says_why(make: Callable[[], Backend]) -> None:
    for gap in make().gaps:
        assert gap.behaviour in NUMBERED
        assert len(gap.reason) > 20
        assert gap.what or gap.needs or gap.guarantee
        assert not (gap.what and gap.needs)


def test_every_sandbox_there_is_has_a_kit() -> None:
    """What `metier doctor` lists, with each wall and start that a backend has."""
    kits = {make().guest.name for make in EVERY}
    assert kits == {"native", "python", "javascript", "wasm", "http"}
    files = {path.name for path in Path(__file__).parent.glob("test_kit_*.py")}
    tried = "".join((Path(__file__).parent / name).read_text() for name in files - {Path(__file__).name})
    for make in EVERY:
        assert f"{make.__name__}()" in tried


def test_a_service_that_raises_would_be_found_out(tmp_path: Path) -> None:
    """Were its words to cross, behaviour 55 would say so."""

    class Talkative:
        async def ask(self, method: str, params: dict[str, Any]) -> Answered | NotAnswered:
            return NotAnswered(name="HostError", message=f"{SECRET} in {checks_host.__file__}")

        async def __aenter__(self) -> "Talkative":
            return self

        async def __aexit__(self, *_: object) -> None:
            return None

    with (
        changed(checks_host, "Bridge", lambda *_: Talkative()),
        pytest.raises(KitFailure, match="nothing_more"),
    ):
        anyio.run(verify, NUMBERED[55], bubblewrap_python(), str(tmp_path))


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
