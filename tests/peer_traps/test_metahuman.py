"""Where trust, approvals and folders went wrong elsewhere, with skills whose own code checks nothing at all.

The code below opens whatever path it is given and asks for whatever program it is told. What holds it is the gate and the
sandbox, as it must be for a skill whose author forgot.
"""

import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from core_desk import Desk, value
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.skill import Limits
from metier.pipeline import run
from metier.runtime import Runtime

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no wall for Python code here")

PEEK = """
def execute(inputs):
    try:
        with open(inputs["path"]) as file:
            return {"success": True, "content": file.read()}
    except OSError as error:
        return {"success": False, "error": type(error).__name__}
"""
TELL = """
def execute(inputs, context):
    context.log("info", "told " + inputs["text"])
    return {"success": True, "told": inputs["text"]}
"""
ASK = """
def execute(inputs, context):
    try:
        return {"success": True, "said": context.exec([inputs["program"], *inputs["args"]]).wait()}
    except context.Error as error:
        return {"success": False, "error": error.name}
"""


NAMED = {
    name: {"type": "string", "required": True, "description": "A word"}
    for name in ("text", "password", "plain")
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    yield made
    made.close()


def an_input(kind: str = "string", **more: Any) -> dict[str, Any]:
    return {"type": kind, "required": True, "description": "What is meant", **more}


def install(desk: Desk, name: str, code: str, inputs: dict[str, Any], **fields: Any) -> None:
    manifest = {
        "id": name,
        "name": name,
        "description": "Does it.",
        "category": "fs",
        "inputs": inputs,
        "outputs": {},
        "risk": "low",
        "cost": "free",
        "minTrustLevel": "observe",
        "requiresApproval": False,
        **fields,
    }
    folder = desk.machine.skills / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(manifest))
    (folder / f"{name}.py").write_text(code)


# --- folders


def peeking(desk: Desk, *, checked: bool) -> None:
    check = {"validation": "isWithinAllowedDirectory"} if checked else {}
    install(desk, "peek", PEEK, {"path": an_input(**check)}, allowedDirectories=["docs/"])
    (desk.workspace / "docs" / "note").write_text("for all")
    for name in ("docs-private", "docsx", "doc"):
        (desk.workspace / name).mkdir()
        (desk.workspace / name / "note").write_text("private")
    (desk.workspace / "note").write_text("private")
    (desk.workspace / "docs" / "link").symlink_to(desk.workspace / "docs-private")
    (desk.workspace / "docs" / "linked").symlink_to(desk.workspace / "note")


OUTSIDE = [
    "docs-private/note",
    "docsx/note",
    "doc/note",
    "docs/../note",
    "docs/./../docs-private/note",
    "docs/link/note",
    "docs/linked",
    "docs/link/../note",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_only_begins_like_an_allowed_folder_or_leads_out_by_a_link_is_refused(
    desk: Desk, path: str
) -> None:
    peeking(desk, checked=True)
    whole = f"{desk.workspace}/{path}"
    assert "private" in Path(whole).read_text(), "outside, it is there to be read"
    assert f"{desk.workspace}/docs".startswith(f"{desk.workspace}/doc"), "and beginnings would be alike"
    outcome = desk.call("peek", path=whole)
    assert isinstance(outcome, Refused), outcome
    assert value(desk.call("peek", path=f"{desk.workspace}/docs/note"))["content"] == "for all"


@pytest.mark.parametrize("path", OUTSIDE)
def test_where_a_manifest_forgot_the_check_the_sandbox_holds_nothing_else(desk: Desk, path: str) -> None:
    peeking(desk, checked=False)
    outcome = desk.call("peek", path=f"{desk.workspace}/{path}")
    assert isinstance(outcome, Failed), outcome
    assert outcome.message in ("FileNotFoundError", "PermissionError")
    assert value(desk.call("peek", path=f"{desk.workspace}/docs/note"))["content"] == "for all"


# --- what was approved


def telling(desk: Desk, **fields: Any) -> None:
    needs = {"risk": "medium", "minTrustLevel": "supervised_auto", "requiresApproval": True, **fields}
    install(desk, "tell", TELL, {"text": an_input()}, **needs)


def lower(desk: Desk) -> None:
    desk.machine.metier("trust", "set", "observe")


def forbid(desk: Desk) -> None:
    rule = '[[rule]]\ndecision = "deny"\ntool = "tell/execute"\nbecause = "not today"\n'
    (desk.machine.state / "policy.toml").write_text(rule)


def rewrite(desk: Desk) -> None:
    (desk.machine.skills / "tell" / "tell.py").write_text(TELL.replace("told ", "shouted "))


def disable(desk: Desk) -> None:
    desk.machine.metier("skills", "disable", "tell")


def other_inputs(desk: Desk) -> None:
    with closing(sqlite3.connect(desk.machine.state / "state.db")) as state, state:
        cursor = state.execute(
            "UPDATE approval SET call = CAST(replace(CAST(call AS TEXT), 'tea', 'gin') AS BLOB)"
        )
        assert cursor.rowcount == 1
        (kept,) = state.execute("SELECT CAST(call AS TEXT) FROM approval").fetchone()
        assert "gin" in kept


@pytest.mark.parametrize("change", [lower, forbid, rewrite, disable, other_inputs])
def test_what_changed_between_the_yes_and_the_run_is_looked_at_again(
    desk: Desk, change: Callable[[Desk], None]
) -> None:
    telling(desk)
    pending = desk.call("tell", text="tea")
    assert isinstance(pending, Pending), pending
    outcome = desk.approve(pending, meanwhile=lambda: change(desk))
    assert isinstance(outcome, Refused), outcome
    assert not (desk.machine.state / "calls").exists(), "nothing ran"


def test_control_where_nothing_changed_the_approved_call_runs_and_only_once(desk: Desk) -> None:
    telling(desk)
    pending = desk.call("tell", text="tea")
    assert isinstance(pending, Pending)
    assert value(desk.approve(pending))["told"] == "tea"
    assert isinstance(desk.runtime.resume(pending.approval_id), Refused)


def test_what_is_asked_does_not_wait_for_ever(desk: Desk) -> None:
    telling(desk)
    pending = desk.call("tell", text="tea")
    assert isinstance(pending, Pending)
    (waiting,) = desk.machine.json("approvals", "list", "--json")
    assert pending.expires_at
    assert waiting["id"] == pending.approval_id
    with closing(sqlite3.connect(desk.machine.state / "state.db")) as state:
        (until,) = state.execute("SELECT expires_at FROM approval").fetchone()
    assert 0 < float(until) - time.time() <= 7 * 24 * 3600


# --- the policy


@pytest.mark.parametrize(
    ("fields", "level", "ends"),
    [
        ({"minTrustLevel": "bounded_auto"}, "supervised_auto", Refused),
        ({"requiresApproval": True}, "bounded_auto", Pending),
        ({"risk": "high"}, "bounded_auto", Pending),
        ({"risk": "medium"}, "suggest", Pending),
        ({}, "supervised_auto", Completed),
    ],
    ids=["the level", "the flag", "the risk", "medium below supervised", "control"],
)
def test_to_call_a_skill_is_to_ask_the_policy_first(
    desk: Desk, fields: dict[str, Any], level: Any, ends: type[Outcome]
) -> None:
    install(desk, "tell", TELL, {"text": an_input()}, **fields)
    desk.level(level)
    outcome = desk.call("tell", text="tea")
    assert isinstance(outcome, ends), outcome
    assert (desk.machine.state / "calls").exists() == (ends is Completed)


# --- programs


@pytest.mark.parametrize("program", ["cat", "/bin/cat", "sh", "./ls", "/tmp/ls"])
def test_code_has_only_the_programs_of_its_list_run(desk: Desk, program: str) -> None:
    inputs = {"program": an_input(), "args": an_input("array")}
    listed = {"category": "shell", "commandWhitelist": ["ls"], "allowedDirectories": ["docs/"]}
    install(desk, "ask", ASK, inputs, **listed)
    (desk.workspace / "docs" / "note").write_text("here")
    outcome = desk.approved("ask", program=program, args=[str(desk.workspace / "docs")])
    assert isinstance(outcome, Failed), outcome
    assert "PermissionDenied" in outcome.message
    assert "note" in value(desk.approved("ask", program="ls", args=[str(desk.workspace / "docs")]))["said"]


# --- time


def test_a_skill_that_says_nothing_of_time_has_thirty_seconds(desk: Desk) -> None:
    telling(desk)
    listed = desk.machine.catalog().get("tell")
    assert listed is not None
    assert listed.skill is not None
    assert [tool.limits.timeout for tool in listed.skill.tools] == [30.0]


def test_code_that_never_ends_is_ended_and_can_do_nothing_more(desk: Desk) -> None:
    endless = "def execute(inputs, context):\n    while True:\n        context.log('info', 'still here')\n"
    install(desk, "stay", endless, {})

    async def main() -> Outcome:
        async with Runtime.open(project=str(desk.machine.project), watch=False) as runtime:
            house: Any = runtime._engine.house()  # pyright: ignore[reportPrivateUsage]
            # The thirty seconds, brought down to what a test can wait for.
            hurried = structs.replace(house.workshop, caps=Limits(timeout=1.0))
            call = runtime._call("stay/execute", {})  # pyright: ignore[reportPrivateUsage]
            outcome = await run(call, structs.replace(house, workshop=hurried))
            log = desk.machine.state / "calls"
            before = {each: each.stat().st_size for each in log.rglob("*")}
            assert before
            for _ in range(10):
                assert {each: each.stat().st_size for each in log.rglob("*")} == before
                await anyio.sleep(0.02)
            return outcome

    outcome = anyio.run(main)
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "timed_out"


# --- the record


@pytest.mark.parametrize("payloads", ["redacted", "hashes", "full"])
def test_the_record_does_not_hold_a_secret_that_went_in_or_came_out(desk: Desk, payloads: str) -> None:
    token, password = "ghp_" + "a1B2" * 9, "hunter2-hunter2"
    (desk.machine.state / "metier.toml").write_text(f'[audit]\npayloads = "{payloads}"\n')
    install(desk, "tell", "def execute(inputs):\n    return {'success': True, **inputs}\n", NAMED)
    told = value(desk.call("tell", text=f"use {token}", password=password, plain="oolong"))
    assert told["text"].endswith(token)
    desk.close()
    held = b"".join(each.read_bytes() for each in desk.machine.state.glob("state.db*"))
    found = [each.encode() in held for each in (token, password, "oolong")]
    assert (
        found
        == {
            "redacted": [False, False, True],
            "hashes": [False, False, False],
            "full": [True, True, True],
        }[payloads]
    )


# --- where the table and a manifest say different things


@pytest.mark.parametrize(
    ("level", "read", "agent"),
    [
        ("observe", Pending, Refused),
        ("suggest", Pending, Pending),
        ("supervised_auto", Completed, Pending),
        ("bounded_auto", Completed, Pending),
    ],
)
def test_what_only_one_of_the_two_offers_is_asked_about_and_never_runs_by_itself(
    desk: Desk, level: Any, read: type[Outcome], agent: type[Outcome]
) -> None:
    (desk.workspace / "docs" / "note").write_text("tea")
    agents = desk.workspace / "brain" / "agents"
    agents.mkdir(exist_ok=True)
    (agents / "hello.py").write_text("print('hello')\n")
    desk.level(level)
    assert isinstance(desk.call("fs_read", path="docs/note"), read)
    assert isinstance(desk.call("run_agent", agentName="hello"), agent)
