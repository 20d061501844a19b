"""What running code asks of the host, all the way: from the code of either language to the log and the record."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import Machine
from metier.host.asked import MOST
from metier.host.call_log import read_log
from metier.model.entry import Entry, PythonHandler, ScriptHandler
from metier.model.outcome import Completed, Failed, Request
from metier.model.permission import PermissionSet
from metier.runtime.own import OwnRun, run_own

PYTHON = PythonHandler(path="main.py")
JAVASCRIPT = ScriptHandler(path="main.mjs", language="javascript")
LS = PermissionSet(binaries=frozenset({"ls"}))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine(Path(os.path.realpath(tmp_path)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    yield made


def run(machine: Machine, entry: Entry, source: str, **given: Any) -> Completed | Failed:
    wanted = OwnRun(name=entry.path, data=source.encode(), entry=entry, **given)  # type: ignore[union-attr]
    outcome = anyio.run(run_own, machine.settings(), wanted)
    assert isinstance(outcome, Completed | Failed), outcome
    return outcome


def logged(machine: Machine, outcome: Completed | Failed) -> list[Any]:
    log = read_log(str(machine.state), outcome.call_id)
    return [line.entry for line in log.lines] if log is not None else []


def asked(outcome: Completed | Failed) -> tuple[Request, ...]:
    assert outcome.run is not None
    return outcome.run.requests


LOGS = [
    (
        PYTHON,
        'async def main(params, context):\n    said = await context.log("info", "working", n=1)\n'
        '    context.log("warn", "not awaited")\n    return said',
    ),
    (
        JAVASCRIPT,
        'export default async (params, context) => { const said = await context.log("info", "working", { n: 1 });'
        ' context.log("warn", "not awaited"); return said }',
    ),
]


@pytest.mark.parametrize(("entry", "source"), LOGS)
def test_what_code_logs_is_in_the_log_of_its_call_and_not_in_its_output(
    machine: Machine, entry: Entry, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="metier.skill"):
        outcome = run(machine, entry, source)
    assert isinstance(outcome, Completed), outcome
    assert outcome.value is None
    assert logged(machine, outcome) == [
        {"level": "info", "message": "working", "meta": {"n": 1}},
        {"level": "warn", "message": "not awaited"},
    ]
    assert outcome.run is not None
    assert (outcome.run.stdout, outcome.run.stderr) == ("", "")
    assert [record.levelname for record in caplog.records if record.name == "metier.skill"] == [
        "INFO",
        "WARNING",
    ]


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        (
            PYTHON,
            """
def main(params, context):
    for number in range(30):
        context.log("error", str(number))
    raise OSError("x")
""",
        ),
        (
            JAVASCRIPT,
            """
export default (params, context) => {
  for (let number = 0; number < 30; number++) context.log("error", String(number));
  throw new Error("x");
}
""",
        ),
    ],
)
def test_what_was_logged_right_before_the_end_is_kept(machine: Machine, entry: Entry, source: str) -> None:
    outcome = run(machine, entry, source)
    assert isinstance(outcome, Failed)
    assert outcome.code == "raised"
    assert {each["message"] for each in logged(machine, outcome)} == set(map(str, range(30)))


def test_python_that_logs_much_at_once_loses_nothing(machine: Machine) -> None:
    source = 'def main(params, context):\n    for number in range(300):\n        context.log("info", str(number))\n'
    outcome = run(machine, PYTHON, source)
    assert sorted(int(each["message"]) for each in logged(machine, outcome)) == list(range(300))


def test_a_refused_line_can_be_looked_at_in_python(machine: Machine) -> None:
    source = """
async def main(params, context):
    try:
        await context.log("shout", "x")
    except Exception as error:
        return [type(error).__name__, error.name]
"""
    outcome = run(machine, PYTHON, source)
    assert isinstance(outcome, Completed), outcome
    assert outcome.value == ["HostError", "InvalidRequest"]


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        (PYTHON, 'def main(params, context):\n    context.exec(["ls", "/"])\n    return 1\n'),
        (JAVASCRIPT, 'export default (params, context) => { context.exec(["ls", "/"]); return 1 }'),
    ],
)
def test_what_was_asked_for_before_the_end_is_done_before_the_end(
    machine: Machine, entry: Entry, source: str
) -> None:
    outcome = run(machine, entry, source, permissions=LS)
    assert asked(outcome) == (Request(method="exec", detail="ls, 1 argument", answer="answered"),)


def test_a_line_that_is_no_json_is_the_codes_own_error_and_holds_nothing_up(machine: Machine) -> None:
    source = """
def main(params, context):
    try:
        context.log("info", "x", odd=object())
    except TypeError:
        return "told"
"""
    outcome = run(machine, PYTHON, source)
    assert isinstance(outcome, Completed), outcome
    assert outcome.value == "told"


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        (
            PYTHON,
            """
async def main(params, context):
    await context.exec(["ls", "--", "/"])
    await context.exec(["ls", "--", "/"])
    try:
        await context.http.get("https://example.invalid/path?token=s3cret")
    except Exception:
        pass
    await context.call_log.write({"kept": "elsewhere"})
""",
        ),
        (
            JAVASCRIPT,
            """
export default async (params, context) => {
  await context.exec(["ls", "--", "/"]);
  await context.exec(["ls", "--", "/"]);
  await context.http.request({ url: "https://example.invalid/path?token=s3cret" }).catch(() => 0);
  await context.callLog.write({ kept: "elsewhere" });
}
""",
        ),
    ],
)
def test_what_code_asked_of_the_host_is_on_the_record(machine: Machine, entry: Entry, source: str) -> None:
    outcome = run(machine, entry, source, permissions=LS)
    assert isinstance(outcome, Completed), outcome
    assert asked(outcome) == (
        Request(method="exec", detail="ls, 2 arguments", answer="answered", count=2),
        Request(method="http", detail="GET https://example.invalid/path", answer="PermissionDenied (denied)"),
        Request(method="call_log.write", answer="answered"),
    )
    shown = machine.metier("audit", "tail", "--call", outcome.call_id, "--json").stdout
    kept = [json.loads(line).get("kept", {}) for line in shown.splitlines()]
    assert kept[-1]["run"]["requests"][0] == {
        "method": "exec",
        "detail": "ls, 2 arguments",
        "answer": "answered",
        "count": 2,
    }
    assert "s3cret" not in shown


def test_a_request_outside_the_permissions_is_listed_with_the_violation(machine: Machine) -> None:
    outcome = run(machine, PYTHON, 'async def main(params, context):\n    await context.exec(["ls"])\n')
    assert isinstance(outcome, Failed)
    assert outcome.code == "violation"
    assert asked(outcome) == (
        Request(method="exec", detail="ls, 0 arguments", answer="PermissionDenied (violation)"),
    )


def test_of_very_many_requests_the_first_are_listed_and_the_rest_counted(machine: Machine) -> None:
    source = f"""
async def main(params, context):
    for number in range({MOST + 6}):
        try:
            await context.http.get(f"https://example.invalid/{{number}}")
        except Exception:
            pass
"""
    outcome = run(machine, PYTHON, source)
    assert len(asked(outcome)) == MOST
    assert asked(outcome)[0].detail == "GET https://example.invalid/0"
    assert outcome.run is not None
    assert outcome.run.requests_unlisted == 6


def test_a_run_that_asks_nothing_says_nothing_of_it(machine: Machine) -> None:
    outcome = run(machine, PYTHON, "def main(params):\n    return 1\n")
    shown = machine.metier("audit", "tail", "--call", outcome.call_id, "--json").stdout
    assert "requests" not in shown


def test_what_a_program_was_refused_is_told_with_the_run_that_had_it_run(machine: Machine) -> None:
    source = """import json
async def main(params, context):
    try:
        await context.exec(["python3", "-c", "import socket; socket.socket()"])
    except Exception as error:
        return type(error).__name__
"""
    outcome = run(machine, PYTHON, source, permissions=PermissionSet(binaries=frozenset({"python3"})))
    assert isinstance(outcome, Completed), outcome
    assert outcome.run is not None
    assert [(each.kind, each.detail) for each in outcome.run.denials] == [("socket", "AF_INET")]
