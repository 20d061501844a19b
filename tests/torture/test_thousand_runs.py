"""Many runs of every temper, several at once, leave nothing behind; and nothing outlives its host."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUNS = int(os.environ.get("METIER_TORTURE_RUNS", "100"))
SEED = int(os.environ.get("METIER_TORTURE_SEED", "1"))
HERE = Path(__file__).parent
SECONDS = 120 + RUNS
"""Far more than it takes: what is slow here is found out by the time limits of the runs themselves."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS)]


def program(name: str, *arguments: str, folder: Path) -> dict[str, Any]:
    """What a program of this folder prints; its temporary folders lie below `folder`."""
    temporary = folder / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, str(HERE / name), *arguments, str(folder)],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    if found.get("absent"):
        pytest.skip(found["absent"])
    return found


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def storm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One storm behind each wall, looked at by several tests."""
    folder = tmp_path_factory.mktemp(request.param)
    return program("storm.py", request.param, str(RUNS), str(SEED), folder=folder)


def test_every_run_of_a_storm_ends_as_its_kind_does(storm: dict[str, Any]) -> None:
    assert storm["wrong"] == []
    assert storm["runs"] == RUNS
    # The storm was one: all the ways to end that matter happened.
    assert {"returned", "raised", "signalled", "timed_out", "cancelled"} <= set(storm["endings"])


def test_no_run_of_a_storm_outlives_its_limit_by_more_than_a_second(storm: dict[str, Any]) -> None:
    assert storm["late"] == []
    assert storm["endings"]["timed_out"] >= RUNS // 10


@pytest.mark.parametrize("what", ["processes", "mounts", "temporary", "groups", "descriptors"])
def test_rel_17_a_thousand_runs_leave_nothing_behind(storm: dict[str, Any], what: str) -> None:
    assert storm[what] == []


def test_the_memory_of_the_host_stays_flat_in_a_storm(storm: dict[str, Any]) -> None:
    assert storm["memory_mb"] <= 50


@pytest.mark.parametrize("wall", ["bubblewrap", "landlock"])
def test_nothing_outlives_a_host_that_was_killed(wall: str, tmp_path: Path) -> None:
    found = program("killed.py", wall, folder=tmp_path)
    assert found["before"] >= found["expected"], "the host had its runs under way when it was killed"
    assert found["left"] == []


def test_the_census_sees_a_daemon_that_left_its_parent() -> None:
    """The positive control: with no sandbox around it, a daemon of the storm's kind is found."""
    text = "import census, os\ncensus.adopt_orphans()\nos.system('setsid sleep 30 &')\n"
    text += "print(census.within(0.2, lambda: census.alive(census.below(os.getpid()))))\n"
    text += "[os.kill(each, 9) for each in census.below(os.getpid())]"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=HERE, capture_output=True, text=True, timeout=30, check=True
    )
    assert "sleep 30" in done.stdout
