"""`exec`: only declared programs, in a sandbox of their own, within the time that is left."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.host.exec import Exec
from metier.model.entry import Command, ScriptHandler
from metier.model.guarantee import Guarantee, needed
from metier.model.job import Event, Fault, Job, Place, Report
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.skill import Limits

ENTRY = ScriptHandler(path="handler.js", language="javascript")
PERMISSIONS = PermissionSet(
    binaries=frozenset({"ical-query"}),
    reads=frozenset({"/srv/data"}),
    env=frozenset({"LANG"}),
    secrets=frozenset({"token"}),
    channels=frozenset({"telegram"}),
)


def job(**more: Any) -> Job:
    given: dict[str, Any] = {
        "call_id": "call_1",
        "skill": "calendar",
        "entry": ENTRY,
        "arguments": {"secret": "argument"},
        "places": (Place(path="/srv/data"),),
        "cwd": "/srv/data",
        "environment": {"LANG": "C"},
        "binaries": {"ical-query": "/opt/metier/bin/ical-query", "other": "/usr/bin/other"},
        "permissions": PERMISSIONS,
        "limits": Limits(timeout=10.0),
        "needs": needed(ENTRY, network=False),
        "context": {"call": {"id": "x"}},
    }
    return Job(**{**given, **more})


class Runs:
    """Stands in for the native backend."""

    def __init__(self, report: Report) -> None:
        self.jobs: list[Job] = []
        self._report = report

    async def __call__(self, job: Job) -> Report:
        self.jobs.append(job)
        return self._report


DONE = Report(ending="returned", stdout="12:00 lunch\n", exit_code=0)


def ask(params: dict[str, Any], report: Report = DONE, **more: Any) -> tuple[Answered | NotAnswered, Runs]:
    runs = Runs(report)
    return anyio.run(Exec(job(**more), runs).answer, params), runs


@pytest.mark.parametrize("program", ["ical-query", "/opt/metier/bin/ical-query"])
def test_a_declared_program_runs_by_its_name_or_its_very_file_and_gives_its_output(program: str) -> None:
    answer, runs = ask({"argv": [program, "--calendar", "$(id); rm -rf /"]})
    assert answer == Answered(value="12:00 lunch\n")
    (nested,) = runs.jobs
    assert nested.entry == Command(argv=("ical-query", "--calendar", "$(id); rm -rf /"))


def test_the_program_gets_the_same_places_and_no_further_right() -> None:
    _, runs = ask({"argv": ["ical-query"]})
    (nested,) = runs.jobs
    outer = job()
    assert (nested.places, nested.cwd, nested.environment) == (outer.places, outer.cwd, outer.environment)
    assert nested.binaries == {"ical-query": "/opt/metier/bin/ical-query"}
    assert PERMISSIONS.covers(nested.permissions)
    assert not nested.permissions.secrets | nested.permissions.channels | nested.permissions.operations
    assert nested.host is None


def test_no_guarantee_is_lost_on_the_way_to_the_program() -> None:
    more = needed(ENTRY, network=False) | {Guarantee.MEMORY_EXACT, Guarantee.EXISTENCE}
    _, runs = ask({"argv": ["ical-query"]}, needs=more)
    assert runs.jobs[0].needs == needed(runs.jobs[0].entry, network=False) | {
        Guarantee.MEMORY_EXACT,
        Guarantee.EXISTENCE,
        Guarantee.VIOLATIONS_SEEN,
    }
    hosts = PermissionSet(binaries=frozenset({"ical-query"}), hosts=frozenset({"a.example"}))
    _, runs = ask({"argv": ["ical-query"]}, permissions=hosts, needs=needed(ENTRY, network=True))
    assert Guarantee.NETWORK_BY_GRANT in runs.jobs[0].needs
    assert Guarantee.NO_NETWORK not in runs.jobs[0].needs


def test_a_program_that_may_start_others_is_watched_like_code_of_the_skill() -> None:
    for name, watched in (("bash", True), ("find", True), ("cat", False)):
        given = PermissionSet(binaries=frozenset({name}))
        _, runs = ask({"argv": [name]}, permissions=given, binaries={name: f"/usr/bin/{name}"})
        assert (Guarantee.VIOLATIONS_SEEN in runs.jobs[0].needs) == watched


@pytest.mark.parametrize(
    "program",
    [
        "ls",
        "sh",
        "other",
        "/usr/bin/other",
        "/elsewhere/ical-query",
        "./ical-query",
        "../ical-query",
        "/opt/metier/bin/../bin/ical-query",
        "ICAL-QUERY",
        "ical-query ",
    ],
)
def test_an_undeclared_program_is_a_violation_and_does_not_run(program: str) -> None:
    answer, runs = ask({"argv": [program, "x"]})
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("PermissionDenied", "violation")
    assert runs.jobs == []


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"tool": "rm"}, "denied"),
        ({"lines": [["rm -rf /"]]}, "denied"),
        ({"line": "sudo 'rm' -rf /"}, "denied"),
        ({"tool": "rmdir", "why": "farm"}, "violation"),
        ({}, "violation"),
    ],
)
def test_an_undeclared_program_that_the_caller_named_is_only_denied(given: dict[str, Any], kind: str) -> None:
    answer, runs = ask({"argv": ["rm", "x"]}, arguments=given)
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("PermissionDenied", kind)
    assert runs.jobs == []


def test_what_the_call_was_given_goes_with_the_program_for_who_judges_its_addresses() -> None:
    more = {
        "arguments": {"url": "http://127.0.0.1/"},
        "context": {"call": {"id": "x", "transcript": "hello"}},
    }
    _, runs = ask({"argv": ["ical-query"]}, **more)
    (nested,) = runs.jobs
    assert (nested.arguments, nested.context) == (more["arguments"], more["context"])
    assert nested.entry == Command(argv=("ical-query",)), "the program itself is told nothing of it"


def test_a_program_that_failed_where_an_address_was_denied_is_counted_as_denied() -> None:
    event = Event(kind="egress", detail="127.0.0.1 is loopback")
    failed = Report(ending="exited", exit_code=22, stderr="refused", denials=(event,))
    answer, _ = ask({"argv": ["ical-query"]}, failed)
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.message, answer.kind) == ("CommandFailed", "refused", "denied")


def test_a_call_without_any_program_may_not_ask_at_all() -> None:
    service = Exec(job(), Runs(DONE))
    assert not service.allowed(PermissionSet())
    assert service.allowed(PERMISSIONS)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"argv": "ical-query --all"},
        {"argv": []},
        {"argv": [""]},
        {"argv": ["ical-query", 1]},
        {"argv": ["ical-query", "a\0b"]},
        {"argv": ["ical-query", *["x"] * 2_000]},
        {"argv": ["ical-query", "x" * 200_000]},
        {"argv": ["ical-query"], "stdin": "x"},
        {"argv": ["ical-query"], "timeout_ms": True},
        {"argv": ["ical-query"], "timeout_ms": -1},
        {"argv": ["ical-query"], "timeout_ms": "5"},
    ],
)
def test_what_is_no_list_of_texts_is_refused_and_is_no_violation(params: dict[str, Any]) -> None:
    answer, runs = ask(params)
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("InvalidRequest", "failed")
    assert runs.jobs == []


@pytest.mark.parametrize(
    ("report", "name", "words"),
    [
        (
            Report(ending="exited", exit_code=3, stderr="no such calendar\n"),
            "CommandFailed",
            "no such calendar",
        ),
        (Report(ending="exited", exit_code=3), "CommandFailed", "exit status 3"),
        (Report(ending="signalled", signal=11), "CommandFailed", "signal 11"),
        (Report(ending="timed_out"), "TimedOut", "too long"),
        (Report(ending="out_of_memory"), "OutOfMemory", "memory"),
        (Report(ending="busy"), "Busy", "at once"),
        (
            Report(ending="not_started", fault=Fault(name="NotStarted", message="there is no wall here")),
            "CommandFailed",
            "there is no wall here",
        ),
    ],
)
def test_anything_but_success_rejects_with_the_reason(report: Report, name: str, words: str) -> None:
    answer, _ = ask({"argv": ["ical-query"]}, report)
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == (name, "failed")
    assert words in answer.message


def test_what_a_program_prints_as_errors_is_capped() -> None:
    answer, _ = ask({"argv": ["ical-query"]}, Report(ending="exited", exit_code=1, stderr="x" * 1_000_000))
    assert isinstance(answer, NotAnswered)
    assert len(answer.message) < 10_000


def test_a_violation_of_the_program_is_one_of_the_call() -> None:
    event = Event(kind="syscall", detail="mount")
    answer, _ = ask({"argv": ["ical-query"]}, Report(ending="stopped", violations=(event,)))
    assert isinstance(answer, NotAnswered)
    assert answer.kind == "violation"
    assert "mount" in answer.message


def test_a_program_has_only_what_is_left_of_the_time() -> None:
    _, runs = ask({"argv": ["ical-query"], "timeout_ms": 3_600_000})
    assert 0 < runs.jobs[0].limits.timeout <= 10
    _, runs = ask({"argv": ["ical-query"], "timeout_ms": 500})
    assert runs.jobs[0].limits.timeout == 0.5
    answer, runs = ask({"argv": ["ical-query"]}, limits=Limits(timeout=0.0))
    assert isinstance(answer, NotAnswered)
    assert answer.name == "TimedOut"
    assert runs.jobs == []


def test_cmd_42_a_folder_that_is_reached_by_a_link_is_not_the_one_that_was_judged(tmp_path: Path) -> None:
    top = tmp_path.resolve()
    for name in ("inside", "outside"):
        (top / name / "sub").mkdir(parents=True)
    (top / "inside" / "link").symlink_to("sub")
    (top / "inside" / "out").symlink_to("../outside")
    (top / "link").symlink_to("inside")
    granted = {"places": (Place(path=str(top / "inside")),), "cwd": ""}
    for cwd in (
        "inside/link",
        "inside/out",
        "inside/out/sub",
        "link",
        "link/sub",
        "outside",
        "inside/../outside",
    ):
        answer, runs = ask({"argv": ["ical-query"], "cwd": f"{top}/{cwd}"}, **granted)
        assert isinstance(answer, NotAnswered), cwd
        assert "without any link" in answer.message
        assert runs.jobs == []
    for cwd in ("inside", "inside/sub"):
        answer, runs = ask({"argv": ["ical-query"], "cwd": f"{top}/{cwd}"}, **granted)
        assert [nested.cwd for nested in runs.jobs] == [f"{top}/{cwd}"]


def test_a_granted_program_that_is_not_installed_is_not_found_and_no_violation() -> None:
    answer, runs = ask({"argv": ["ical-query"]}, binaries={})
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("NotFound", "failed")
    assert "installed" in answer.message
    assert runs.jobs == []


def test_another_name_of_the_very_same_file_is_the_same_program(tmp_path: Path) -> None:
    real = tmp_path / "real" / "tool"
    real.parent.mkdir()
    real.touch()
    (tmp_path / "link").symlink_to("real")
    granted = {"binaries": {"ical-query": str(real.resolve())}}
    answer, runs = ask({"argv": [f"{tmp_path.resolve()}/link/tool", "x"]}, **granted)
    assert isinstance(answer, Answered)
    assert [given.entry.argv for given in runs.jobs] == [("ical-query", "x")]
