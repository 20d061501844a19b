"""The kit finds what is wrong: each of its behaviours can fail, and a gap that is none is found out."""

import ctypes
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit_backends import (
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
from kit_fault_table import FAULTS, WITHOUT_A_WALL, Fault
from kit_faults import NoSandbox, no_sandbox
from metier.model.guarantee import Guarantee
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.guest.syscall_filter import VIOLATIONS
from metier.testing.sandbox_kit import bench, checks_host, host_process, leftovers, only_outside
from metier.testing.sandbox_kit.backend import Backend, Gap
from metier.testing.sandbox_kit.behaviour import Behaviour, Control, behaviour
from metier.testing.sandbox_kit.bench import Bench, KitFailure
from metier.testing.sandbox_kit.checks_files import SECRET
from metier.testing.sandbox_kit.checks_walls import CALLS
from metier.testing.sandbox_kit.kit import BEHAVIOURS, NUMBERED, verify
from metier.testing.sandbox_kit.probes_python import acts

pytestmark = pytest.mark.slow

EVERY = (
    *(bubblewrap_native, bubblewrap_straight, bubblewrap_python, bubblewrap_deno),
    *(landlock_native, landlock_python, landlock_deno, wasm, http),
)
# What cannot be shown outside, because it is about what a backend says or how it treats several runs.
ONLY_BY_A_FAULT = (2, 3, 10, 31, 57, 58, 60)
CONTROLS: dict[int, Control] = {
    **dict.fromkeys(range(1, 61), "outside"),
    **dict.fromkeys(ONLY_BY_A_FAULT, "fault"),
}
# Where a run without a wall leaves a mark.
MARKED = ("/tmp/mark", "/var/tmp/mark", "/dev/shm/mark")


def test_there_are_sixty_behaviours_and_each_is_named_once() -> None:
    assert [each.number for each in BEHAVIOURS] == list(range(1, 61))
    assert len({each.name for each in BEHAVIOURS}) == 60
    assert all(each.name == each.check.__name__ for each in BEHAVIOURS)


def test_every_guarantee_has_a_behaviour_that_would_find_it_broken() -> None:
    proven = frozenset[Guarantee]().union(*(each.guarantees for each in BEHAVIOURS))
    assert proven == frozenset(Guarantee)


def test_every_act_says_what_it_is_for_or_is_a_line() -> None:
    assert len(acts()) > 40


def test_it_is_said_of_every_behaviour_how_it_is_known_that_it_can_fail() -> None:
    assert {each.number: each.control for each in BEHAVIOURS} == CONTROLS


def test_for_every_behaviour_that_has_no_control_outside_there_is_a_fault() -> None:
    found = {fault.number for fault in FAULTS} | set(WITHOUT_A_WALL)
    assert set(ONLY_BY_A_FAULT) <= found
    assert found <= set(NUMBERED)
    assert all(fault.broken for fault in FAULTS)
    assert all(WITHOUT_A_WALL.values())


def test_every_call_that_no_skill_ever_has_a_reason_for_is_tried() -> None:
    assert set(CALLS) == VIOLATIONS | {"clone"}


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=str)
def test_the_control_is_made_outside_before_anything_runs_inside(
    behaviour: Behaviour, tmp_path: Path
) -> None:
    nothing = Bench(NoSandbox(), bubblewrap_native(), str(tmp_path))
    made = anyio.run(only_outside.controls, behaviour, nothing)
    assert bool(made) == (behaviour.control == "outside")


async def makes_no_control(bench: Bench) -> None:
    await bench.value("echo")


async def controls_what_does_not_happen(bench: Bench) -> None:
    bench.prove(False, "nothing happens outside either")


def test_a_behaviour_that_makes_no_control_shows_nothing(tmp_path: Path) -> None:
    with pytest.raises(KitFailure, match="no control was made"):
        anyio.run(verify, behaviour(36, makes_no_control), bubblewrap_native(), str(tmp_path))


def test_nor_does_one_whose_control_does_not_hold(tmp_path: Path) -> None:
    with pytest.raises(KitFailure, match="could not be tried: control: nothing happens outside either"):
        anyio.run(verify, behaviour(36, controls_what_does_not_happen), bubblewrap_native(), str(tmp_path))


def test_nor_where_the_backend_has_nothing_to_try_it_with(tmp_path: Path) -> None:
    """A gap excuses from the behaviour, not from its control."""
    with pytest.raises(KitFailure, match="no control was made"):
        anyio.run(verify, behaviour(36, makes_no_control), http(), str(tmp_path))


# Each has its control or its fault as well, so a sample is enough where time is short.
@pytest.mark.parametrize("number", list(WITHOUT_A_WALL)[:: 1 if bench.TORTURE else 4])
def test_without_a_wall_the_behaviour_fails(number: int, tmp_path: Path) -> None:
    _is_found_out(number, no_sandbox(), WITHOUT_A_WALL[number], tmp_path)


def _in_this_run() -> list[Fault]:
    """All that behaviours without a control outside have nothing else but, and of the others, where time is short, every
    second."""
    extra = [fault for fault in FAULTS if fault.number not in ONLY_BY_A_FAULT]
    left_out = [] if bench.TORTURE else extra[1::2]
    return [fault for fault in FAULTS if fault not in left_out]


@pytest.mark.parametrize("fault", _in_this_run(), ids=str)
def test_a_fault_is_found_out(fault: Fault, tmp_path: Path) -> None:
    _is_found_out(fault.number, fault.backend(), fault.broken, tmp_path)


def _is_found_out(number: int, backend: Backend, broken: Sequence[str], tmp_path: Path) -> None:
    few = changed(bench, "TORTURE", False)  # a fault is found out at once, or never
    with few, _adopting(), pytest.raises(KitFailure) as failure:
        anyio.run(verify, NUMBERED[number], backend, str(tmp_path))
    words = str(failure.value)
    assert "could not be tried" not in words
    for each in broken:
        assert f"\n  {each}: " in words


@contextmanager
def _adopting() -> Iterator[None]:
    """What is left without a parent comes to us, also of another host that was killed, and is ended afterwards."""
    prctl, adopts = ctypes.CDLL(None).prctl, 36
    prctl(adopts, 1, 0, 0, 0)
    try:
        yield
    finally:
        _put_down()
        prctl(adopts, 0, 0, 0, 0)


def _put_down() -> None:
    """End and remove what the behaviour rightly found left behind."""
    rounds = 10  # whoever loses a parent in one comes to us for the next
    while (found := leftovers.ours()) and (rounds := rounds - 1):
        for each in found:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(each.pid, signal.SIGKILL)
                os.waitpid(each.pid, 0)
    for path in MARKED:
        if os.path.exists(path) and Path(path).read_text() == "was here":
            os.unlink(path)


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
        assert f", {make.__name__}, " in tried


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


DOCUMENT = (Path(__file__).parents[2] / "docs" / "sandboxes.md").read_text(encoding="utf-8")


# What a backend is asked about itself: a missing part, its promises, its own files, its names, another host of it.
@pytest.mark.parametrize("number", [1, 2, 25, 38, 47, 49, 52])
def test_the_backend_that_the_documentation_shows_passes(number: int, tmp_path: Path) -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "my_backend.py").write_text(shown)
    backend = host_process.load(f"{tmp_path.resolve()}/my_backend.py:mine")
    anyio.run(verify, NUMBERED[number], backend, str(tmp_path))


def test_the_documentation_names_every_field_of_a_backend_and_every_guest() -> None:
    first = set(re.findall(r"^\| `(\w+)", DOCUMENT, re.MULTILINE))
    assert set(Backend.__struct_fields__) <= first
    assert {type(make().guest).__name__ for make in EVERY} <= first
    for name in Gap.__struct_fields__:
        assert f"`{name}`" in DOCUMENT.partition("A `Gap` has")[2]
