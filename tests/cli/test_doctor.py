"""`metier doctor`: what each sandbox can promise here, and what would add what is missing."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from boxes import EVERYTHING, Box
from machine import Machine
from metier.doors.cli import metier
from metier.doors.cli.doctor import KINDS
from metier.model.entry import Command, HttpRequest
from metier.model.guarantee import MEANING, Guarantee
from metier.runtime import sandboxes
from metier.sandbox.protocol import Missing

Start = Callable[..., Result]
LOST = frozenset({Guarantee.NO_PRIVILEGE, Guarantee.NETWORK_BY_GRANT})
WHY = Missing(
    what="bubblewrap",
    why="no bwrap that only root can write was found in any of the usual places of this machine",
    remedy="apt install bubblewrap",
    costs=LOST,
)


@pytest.fixture
def start(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    monkeypatch.chdir(machine.project)

    def run(boxes: tuple[Box, ...], *args: str, status: int, color: bool = False) -> Result:
        monkeypatch.setattr(sandboxes, "make_sandboxes", lambda settings, tasks=None, watch=None: (boxes, ()))
        done = CliRunner().invoke(metier, ["doctor", *args], color=color)
        assert done.exit_code == status, (done.exit_code, done.output, done.exception)
        assert all(box.closed == 1 for box in boxes), "nothing is kept warm afterwards"
        assert all(box.jobs == [] for box in boxes), "and nothing was run"
        return done

    return run


def test_a_machine_that_can_run_everything_is_fine(start: Start) -> None:
    done = start((Box("all"),), status=0)
    for kind in KINDS:
        assert f"✓ {kind:11} all" in done.stdout
    assert "✗" not in done.stdout
    assert "missing" not in done.stdout


def test_what_is_missing_is_named_once_with_the_command_that_adds_it(start: Start) -> None:
    native = Box(
        "native", promises=EVERYTHING - LOST, lacks=(WHY,), takes=lambda job: isinstance(job.entry, Command)
    )
    web = Box("http", takes=lambda job: isinstance(job.entry, HttpRequest))
    second = Box("second", promises=frozenset(), lacks=(WHY,), takes=lambda job: False)
    done = start((web, native, second), status=1)
    assert "✗ command     nothing here can run it safely" in done.stdout
    assert "no privilege to gain" in done.stdout
    assert "✓ http        http" in done.stdout
    part = done.stdout[done.stdout.index("What is missing") :]
    assert part.count("→ apt install bubblewrap") == 1
    assert "for native, second" in part
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_every_guarantee_of_every_sandbox_is_shown(start: Start) -> None:
    done = start((Box("one"), Box("two", promises=EVERYTHING - LOST)), status=0)
    rows = {words[2]: words[:2] for line in done.stdout.splitlines() if len(words := line.split()) > 2}
    for guarantee in Guarantee:
        assert rows[f"{guarantee.value}:"] == ["✓", "✗" if guarantee in LOST else "✓"]
        assert " ".join(MEANING[guarantee].split()) in " ".join(done.stdout.split())


def test_a_kind_that_runs_without_a_way_out_says_so_and_is_no_problem(start: Start) -> None:
    box = Box("walled", promises=EVERYTHING - {Guarantee.NETWORK_BY_GRANT}, takes=lambda job: job.skill == "")
    web = Box("http", takes=lambda job: isinstance(job.entry, HttpRequest))
    done = start((web, box), status=0)
    assert "✓ python      walled, without network" in done.stdout


def test_for_programs_all_of_it_is_one_object(start: Start) -> None:
    box = Box("native", promises=EVERYTHING - LOST, lacks=(WHY,))
    said: dict[str, Any] = json.loads(start((box,), "--json", status=1).stdout)
    assert said["ok"] is False
    told = {"system", "kernel", "landlock_abi", "cgroups", "bubblewrap", "follows_links_out"}
    assert set(said["machine"]) == told
    [sandbox] = said["sandboxes"]
    assert {name for name, kept in sandbox["guarantees"].items() if not kept} == {each.value for each in LOST}
    assert sandbox["missing"] == [
        {
            "what": WHY.what,
            "why": WHY.why,
            "remedy": "apt install bubblewrap",
            "costs": ["network_by_grant", "no_privilege"],
        }
    ]
    command = next(kind for kind in said["kinds"] if kind["name"] == "command")
    assert command["sandbox"] is None
    assert command["remedy"] == "apt install bubblewrap"


def test_colours_are_for_terminals_only(start: Start) -> None:
    assert "\x1b" not in start((Box(),), status=0).stdout
    assert "\x1b" in start((Box(),), status=0, color=True).stdout
