"""Resource attacks on a sandbox, by case. Each is a behaviour of the contract kit, tried here on the wall that has
most to do for it; `test_kit_*.py` tries it on all of them."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kit_backends import (
    bubblewrap_deno,
    bubblewrap_native,
    bubblewrap_python,
    bubblewrap_straight,
    holds,
    landlock_native,
    landlock_python,
)
from metier.sandbox import bounds, wasm_wasi
from metier.testing.sandbox_kit.backend import Backend

Make = Callable[[], Backend]
walls = pytest.mark.parametrize("make", [bubblewrap_native, landlock_native])
languages = pytest.mark.parametrize("make", [bubblewrap_native, landlock_python])


@pytest.mark.slow
@languages
def test_res_01_an_endless_loop_is_over_a_second_after_its_limit(make: Make, tmp_path: Path) -> None:
    holds(5, make, tmp_path)


@languages
def test_res_01_a_timeout_leaves_the_neighbour_running(make: Make, tmp_path: Path) -> None:
    holds(10, make, tmp_path)


@languages
def test_res_02_sleeping_past_the_limit_is_over_a_second_after_it(make: Make, tmp_path: Path) -> None:
    holds(6, make, tmp_path)


@walls
def test_res_03_a_fork_bomb_is_bounded(make: Make, tmp_path: Path) -> None:
    holds(15, make, tmp_path)


def interpreter_for_everybody() -> str | None:
    """A Python of this version that every user can start."""
    for path in (os.path.realpath(sys.executable), shutil.which("python3", path="/usr/bin") or ""):
        if not path or not os.path.exists(path):
            continue
        asked = [path, "-c", "import sys; print(sys.version_info[:2] == tuple(map(int, sys.argv[1:])))"]
        asked += [str(each) for each in sys.version_info[:2]]
        try:
            done = subprocess.run(
                asked, user=65534, group=65534, capture_output=True, env={}, cwd="/", timeout=20
            )
        except OSError:
            continue
        if done.stdout.strip() == b"True":
            return path
    return None


AS_A_USER = """
import os, sys
sys.path[:0] = sys.argv[2:]
import anyio, kit_backends
from metier.testing.sandbox_kit.kit import NUMBERED, verify
for name in ("bubblewrap_native", "landlock_native"):
    folder = os.path.join(sys.argv[1], name)
    os.mkdir(folder)
    anyio.run(verify, NUMBERED[15], getattr(kit_backends, name)(), folder)
print("held")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the test above already ran as an ordinary user")
def test_res_03_a_fork_bomb_is_bounded_when_the_host_is_an_ordinary_user(tmp_path: Path) -> None:
    python = interpreter_for_everybody()
    if python is None:
        pytest.skip(f"no Python {sys.version_info[:2]} here that another user may start")
    here = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    source = os.path.join(os.path.dirname(here), "src")
    packages = [path for path in sys.path if path.endswith("site-packages")]
    with tempfile.TemporaryDirectory(prefix="kit-user-") as folder:
        os.chown(folder, 65534, 65534)
        done = subprocess.run(
            [python, "-c", AS_A_USER, folder, source, here, *packages],
            user=65534, group=65534, extra_groups=[], capture_output=True, text=True,
            env={"HOME": folder, "TMPDIR": folder, "PATH": "/usr/bin:/bin"}, cwd=folder, timeout=50,
        )  # fmt: skip
    assert done.stdout.endswith("held\n"), done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("make", [landlock_native])
def test_res_04_a_kill_ends_daemons_that_left_their_session(make: Make, tmp_path: Path) -> None:
    holds(21, make, tmp_path)


@languages
def test_res_04_daemons_are_gone_after_a_normal_end(make: Make, tmp_path: Path) -> None:
    holds(23, make, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("make", [landlock_python])
def test_res_04_a_cancelled_call_leaves_nothing(make: Make, tmp_path: Path) -> None:
    holds(26, make, tmp_path)


@walls
def test_res_05_a_guest_that_blocks_every_signal_is_killed(make: Make, tmp_path: Path) -> None:
    holds(22, make, tmp_path)


@pytest.mark.parametrize("make", [bubblewrap_native])
def test_res_06_a_flood_of_zombies_is_buried(make: Make, tmp_path: Path) -> None:
    holds(23, make, tmp_path)


@walls
def test_res_07_a_grandchild_that_keeps_the_output_open_does_not_hold_the_call(
    make: Make, tmp_path: Path
) -> None:
    holds(24, make, tmp_path)


@languages
def test_res_08_a_flood_of_output_is_cut_and_the_host_stays_flat(make: Make, tmp_path: Path) -> None:
    holds(27, make, tmp_path)


@languages
def test_res_09_a_memory_bomb_is_stopped_and_the_host_stays_flat(make: Make, tmp_path: Path) -> None:
    holds(11, make, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [11, 12])
def test_res_09_javascript_has_no_more_memory_than_others(number: int, tmp_path: Path) -> None:
    holds(number, bubblewrap_deno, tmp_path)


@walls
def test_res_09_memory_beside_the_heap_counts(make: Make, tmp_path: Path) -> None:
    holds(12, make, tmp_path)


@pytest.mark.parametrize("make", [bubblewrap_native])
def test_res_09_ten_children_have_one_limit_together(make: Make, tmp_path: Path) -> None:
    holds(14, make, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("make", [bubblewrap_straight])
def test_res_10_the_disk_cannot_be_filled(make: Make, tmp_path: Path) -> None:
    holds(17, make, tmp_path)


def test_res_10_the_number_of_files_is_one_that_a_disk_can_take() -> None:
    """The behaviour above lowers it but for torture, so it must not be forgotten here."""
    assert max(bounds.FILES_MOST, wasm_wasi.ENTRIES) <= 100_000
    assert bounds.Bounds.__init__.__kwdefaults__ == {
        **bounds.Bounds.__init__.__kwdefaults__,
        "files_most": bounds.FILES_MOST,
    }


@walls
def test_res_11_a_guest_that_runs_out_of_descriptors_takes_none_of_ours(make: Make, tmp_path: Path) -> None:
    holds(18, make, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("make", [bubblewrap_native])
def test_res_11_a_thousand_calls_at_once_are_told_to_come_back_later(make: Make, tmp_path: Path) -> None:
    holds(57, make, tmp_path)


@walls
def test_res_12_a_thread_bomb_is_bounded(make: Make, tmp_path: Path) -> None:
    holds(16, make, tmp_path)


@languages
def test_res_12_a_terabyte_at_once_and_locked_memory_are_refused(make: Make, tmp_path: Path) -> None:
    holds(13, make, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("make", [bubblewrap_native])
def test_res_24_a_guest_that_stops_itself_still_times_out(make: Make, tmp_path: Path) -> None:
    holds(8, make, tmp_path)


@pytest.mark.parametrize("make", [bubblewrap_native, bubblewrap_straight, landlock_native])
def test_res_25_a_crash_leaves_no_core_file(make: Make, tmp_path: Path) -> None:
    holds(20, make, tmp_path)


@languages
def test_res_26_a_clock_that_jumps_changes_no_limit(make: Make, tmp_path: Path) -> None:
    holds(9, make, tmp_path)


@pytest.mark.slow
def test_res_01_what_a_run_used_is_told_for_every_ending(tmp_path: Path) -> None:
    holds(60, bubblewrap_python, tmp_path)
