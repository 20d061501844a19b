"""run_agent runs programs of the workspace, each in a sandbox of its own and once at a time, and none outlives Metier."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

from core_desk import BUNDLED, DECIDER, Desk, value, why
from machine import approve_all
from metier.catalog.agent_files import find_agent
from metier.catalog.here import owner
from metier.host.agent_lock import hold, running
from metier.model.approval import Approval, StandingGrant
from metier.model.call import Call, Principal
from metier.model.outcome import Failed, Outcome, Pending, Refused
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.deciding import decide
from metier.record.standing import proposed_grant
from metier.runtime import Runtime
from metier.runtime.inner import by_skill, inner_call
from metier.runtime.inner_tools import AGENTS_RUN

RUN = "run_agent/execute"
LIBRARY = Principal(id="agent:library", kind="agent", on_behalf_of=owner())


def sha256_of(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    (made.workspace / "brain" / "agents").mkdir(mode=0o700)
    yield made
    made.close()


def agent(desk: Desk, name: str, text: str) -> Path:
    path = desk.workspace / "brain" / "agents" / name
    path.write_text(text)
    return path


def ran(desk: Desk, name: str, **more: Any) -> dict[str, Any]:
    return value(desk.approved(RUN, agentName=name, wait=True, **more))


def records(desk: Desk) -> list[Record]:
    with desk.database() as database:
        return AuditLog(database).tail(1000)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


HOLDS = """
import os, time
here = os.environ["METIER_WORKSPACE"]
open(f"{here}/logs/began", "a").write("x")
while not os.path.exists(f"{here}/memory/go"):
    time.sleep(0.02)
open(f"{here}/logs/done", "a").write("x")
"""
"""Begins, waits to be let go, and is done."""


def test_who_waits_is_told_the_process_the_exit_code_and_what_was_said(desk: Desk) -> None:
    agent(desk, "organizer.py", "import os, sys\nprint('organized')\nsys.exit(3)\n")
    told = ran(desk, "organizer")
    assert told.pop("pid") > 1
    assert told == {"success": True, "exitCode": 3, "output": "organized\n"}


def test_it_is_asked_every_time_and_runs_as_a_call_inside_the_approved_one(desk: Desk) -> None:
    agent(desk, "organizer.py", "")
    desk.level("bounded_auto")
    outcome = desk.call(RUN, agentName="organizer", wait=True)
    assert isinstance(outcome, Pending)
    assert value(desk.approve(outcome))["exitCode"] == 0
    outer, inner = [each for each in records(desk) if each.event == "skill_executed"][::-1]
    assert (outer.tool, inner.tool) == (RUN, "agents.run")
    assert inner.parent == outer.call_id
    assert (inner.principal, inner.on_behalf_of) == ("skill:run_agent", "agent:library")


def test_who_does_not_wait_is_told_the_process_and_how_it_ended_is_recorded(desk: Desk) -> None:
    agent(desk, "organizer.py", HOLDS)
    told = value(desk.approved(RUN, agentName="organizer"))
    assert told.keys() == {"success", "pid"}
    assert lives(told["pid"])
    assert running(str(desk.machine.state), "organizer") == told["pid"]
    (desk.workspace / "memory" / "go").touch()
    until(lambda: running(str(desk.machine.state), "organizer") is None)

    def ended() -> bool:
        found = [
            each for each in records(desk) if each.tool == "agents.run" and each.event == "skill_executed"
        ]
        return len(found) == 2

    until(ended)
    assert (desk.workspace / "logs" / "done").read_text() == "x"
    until(lambda: not lives(told["pid"]))


TRIES = """
import json, os, sys
here = os.environ["METIER_WORKSPACE"]
done = {}
def attempt(name, act):
    try:
        act()
        done[name] = True
    except OSError:
        done[name] = False
for folder in ("memory", "persona", "docs", "etc", "brain/agents", "logs", "out"):
    attempt(f"read {folder}", lambda: open(f"{here}/{folder}/note").read())
for folder in ("memory", "out", "logs", "persona", "docs", "brain", "brain/agents", "etc"):
    attempt(f"write {folder}", lambda: open(f"{here}/{folder}/made", "w").write("x"))
attempt("read secret", lambda: open(sys.argv[1] if len(sys.argv) > 1 else SECRET).read())
attempt("list state", lambda: os.listdir(os.path.dirname(here)) and open(os.path.dirname(here) + "/state.db", "rb").read(1))
import socket
def reach():
    with socket.create_connection(("127.0.0.1", PORT), 2):
        pass
attempt("network", reach)
print(json.dumps(done))
"""
MAY = {
    *("read memory", "read persona", "read docs", "read logs", "read out"),
    *("write memory", "write logs"),
}


def test_an_agent_reads_and_writes_its_part_of_the_workspace_and_nothing_else(desk: Desk) -> None:
    secret = desk.machine.top / "secret"
    secret.write_text("nobody's business")
    for folder in ("memory", "persona", "docs", "etc", "brain/agents", "logs", "out"):
        (desk.workspace / folder / "note").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"SECRET, PORT = {str(secret)!r}, {server.getsockname()[1]}\n{TRIES}"
        agent(desk, "curious.py", code)
        done = json.loads(ran(desk, "curious")["output"])
        # Outside of a sandbox the same program can do all of it.
        free = subprocess.run(
            [sys.executable, "-c", code],
            env={"METIER_WORKSPACE": str(desk.workspace)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert {name for name, could in done.items() if could} == MAY
    assert all(json.loads(free.stdout).values())


def test_an_agent_gets_nothing_of_the_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush-hush-hush")
    agent(desk, "curious.py", "import os\nprint(sorted(os.environ))\n")
    assert "SECRET_TOKEN" not in ran(desk, "curious")["output"]


def test_a_second_start_is_refused_while_one_runs(desk: Desk) -> None:
    agent(desk, "organizer.py", HOLDS)
    first = value(desk.approved(RUN, agentName="organizer"))
    for wait in (True, False):
        said = why(desk.approved(RUN, agentName="organizer", wait=wait))
        assert "is running already" in said
    (desk.workspace / "memory" / "go").touch()
    until(lambda: running(str(desk.machine.state), "organizer") is None)
    assert ran(desk, "organizer")["exitCode"] == 0
    assert (desk.workspace / "logs" / "began").read_text() == "xx"
    assert first["pid"]


def test_another_process_of_metier_that_runs_it_counts_too(desk: Desk) -> None:
    agent(desk, "organizer.py", "")
    held = hold(str(desk.machine.state), "organizer")
    assert held is not None
    assert "is running already" in why(desk.approved(RUN, agentName="organizer", wait=True))
    held.release()
    assert ran(desk, "organizer")["exitCode"] == 0


def test_an_agent_ends_with_metier_and_the_record_says_so(desk: Desk) -> None:
    agent(desk, "organizer.py", HOLDS)
    pid = value(desk.approved(RUN, agentName="organizer"))["pid"]
    until(lambda: (desk.workspace / "logs" / "began").exists())
    assert lives(pid)
    desk.close()
    assert not lives(pid)
    last = [each for each in records(desk) if each.tool == "agents.run"][-1]
    assert (last.event, last.code) == ("skill_execution_error", "interrupted")
    assert running(str(desk.machine.state), "organizer") is None
    assert not (desk.workspace / "logs" / "done").exists()


def test_a_metier_that_was_killed_locks_nobody_out(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom metier.host.agent_lock import hold\n"
        f"held = hold({str(tmp_path / 'state')!r}, 'organizer')\nprint(held is not None, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert hold(str(tmp_path / "state"), "organizer") is None
        other.kill()
    held = hold(str(tmp_path / "state"), "organizer")
    assert held is not None
    held.release()


@pytest.mark.parametrize(
    "name", ["nobody", "../agents/organizer", "organizer.py", "/etc/passwd", "", "a b", "organizer\n", "-x"]
)
def test_what_is_no_agent_is_refused_before_anybody_is_asked(desk: Desk, name: str) -> None:
    agent(desk, "organizer.py", "")
    outcome = desk.call(RUN, agentName=name)
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "invalid_arguments"


def test_a_link_among_the_agents_is_none(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("print('ran')\n")
    (desk.workspace / "brain" / "agents" / "organizer.py").symlink_to(outside)
    outcome = desk.call(RUN, agentName="organizer")
    assert isinstance(outcome, Refused)
    assert "names no agent" in outcome.reasons[0]
    (desk.workspace / "brain" / "agents" / "organizer.py").unlink()
    agent(desk, "organizer.py", outside.read_text())
    assert ran(desk, "organizer")["output"] == "ran\n"


def test_an_agent_with_a_second_name_or_in_two_forms_is_not_run(desk: Desk, tmp_path: Path) -> None:
    path = agent(desk, "organizer.py", "print('ran')\n")
    os.link(path, tmp_path / "second")
    assert "second name" in why(desk.approved(RUN, agentName="organizer", wait=True))
    (tmp_path / "second").unlink()
    other = agent(desk, "organizer.md", "Organize.\n")
    assert "several agents" in why(desk.approved(RUN, agentName="organizer", wait=True))
    other.unlink()
    assert ran(desk, "organizer")["output"] == "ran\n"


def test_another_kind_of_file_is_no_agent(desk: Desk) -> None:
    agent(desk, "organizer.sh", "echo ran\n")
    outcome = desk.call(RUN, agentName="organizer", wait=True)
    assert isinstance(outcome, Refused)
    assert "names no agent" in outcome.reasons[0]
    assert "no such .py, .ts or .md file" in str(find_agent(str(desk.workspace), "organizer"))


def test_whoever_agreed_agreed_to_the_bytes_he_could_see(desk: Desk) -> None:
    path = agent(desk, "organizer.py", "print('harmless')\n")
    asked = desk.call(RUN, agentName="organizer", wait=True)
    outcome = desk.approve(asked, meanwhile=lambda: path.write_text("print('harmful')\n"))
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "approval_void"
    assert ran(desk, "organizer")["output"] == "harmful\n"


def test_apr_09_an_agent_that_was_swapped_at_the_last_moment_does_not_run(desk: Desk) -> None:
    """As `run_agent` asks, with what was agreed to; what lies there may have changed since."""
    agent(desk, "organizer.py", "print('harmful')\n")
    outer = Call(id="call_1", principal=LIBRARY, tool=RUN, arguments={})

    async def asked(digest: str, wait: bool) -> Outcome:
        arguments: dict[str, Any] = {"agentName": "organizer", "digest": digest, "wait": wait}
        async with Runtime.open(project=str(desk.machine.project), watch=False) as runtime:
            return await runtime._engine.run(
                inner_call(outer, by_skill("run_agent", LIBRARY), AGENTS_RUN, arguments)
            )

    for wait in (True, False):
        swapped = anyio.run(asked, sha256_of(b"print('harmless')\n"), wait)
        assert isinstance(swapped, Failed)
        assert "no longer the one that was agreed to" in swapped.message
    agreed = anyio.run(asked, sha256_of(b"print('harmful')\n"), True)
    assert value(agreed)["output"] == "harmful\n"


def test_apr_22_a_lasting_yes_to_an_agent_is_for_its_bytes_and_for_no_others(desk: Desk) -> None:
    path = agent(desk, "organizer.py", "print('harmless')\n")
    asked = desk.call(RUN, agentName="organizer", wait=True)
    assert isinstance(asked, Pending)
    with desk.database() as database:
        grant = proposed_grant(desk.shown(asked), "always", approval=asked.approval_id, by=DECIDER.id)
        assert isinstance(grant, StandingGrant)
        decided = decide(
            database, asked.approval_id, by=DECIDER, decision="approve", scope="always", grant=grant
        )
        assert isinstance(decided, Approval), decided
    assert value(desk.call(RUN, agentName="organizer", wait=True))["output"] == "harmless\n"
    path.write_text("print('harmful')\n")
    assert isinstance(desk.call(RUN, agentName="organizer", wait=True), Pending)
    path.write_text("print('harmless')\n")
    assert value(desk.call(RUN, agentName="organizer", wait=True))["output"] == "harmless\n"


def test_who_is_asked_sees_which_file_it_is_and_what_a_text_may_use(desk: Desk) -> None:
    agent(desk, "organizer.py", "print('harmless')\n")
    asked = desk.call(RUN, agentName="organizer", wait=True)
    digest = sha256_of(b"print('harmless')\n")
    line = f"organizer is brain/agents/organizer.py: 18 bytes, {digest}"
    assert desk.shown(asked).stands_for == (line,)
    assert isinstance(asked, Pending)
    assert line in desk.machine.metier("approvals", "show", asked.approval_id).stdout
    agent(desk, "writer.md", "---\nmodel: big-1\nskills: [fs_read, fs_write]\n---\nWrite.\n")
    (text,) = desk.shown(desk.call(RUN, agentName="writer")).stands_for
    assert text.endswith("; a text for big-1 with the skills fs_read, fs_write")
    agent(desk, "plain.md", "---\nname: plain\n---\nSay hello.\n")
    (text,) = desk.shown(desk.call(RUN, agentName="plain")).stands_for
    assert text.endswith("; a text for the model of [agents] with no skills")


def test_about_what_cannot_be_run_nobody_is_asked(desk: Desk) -> None:
    agent(desk, "writer.md", "---\nallow: everything\n---\nWrite.\n")
    outcome = desk.call(RUN, agentName="writer")
    assert isinstance(outcome, Refused)
    assert "'allow'" in outcome.reasons[0]


# --- what an agent does is its own doing

TRIES_THE_FORBIDDEN = "import ctypes\nctypes.CDLL(None).unshare(0x10000000)\n"


def test_an_agent_that_does_what_none_may_is_disabled_and_nothing_else_is(desk: Desk) -> None:
    bad = agent(desk, "bad.py", TRIES_THE_FORBIDDEN)
    agent(desk, "good.py", "print('fine')\n")
    assert "the agent 'bad' is disabled" in why(desk.approved(RUN, agentName="bad", wait=True))
    assert ran(desk, "good")["output"] == "fine\n"
    bad.write_text("print('mended')\n")
    assert "'bad' is disabled" in why(desk.approved(RUN, agentName="bad", wait=True))
    bad.rename(bad.with_name("worse.py"))
    bad.with_name("worse.py").write_text(TRIES_THE_FORBIDDEN)
    said = why(desk.approved(RUN, agentName="worse", wait=True))
    assert "disabled as agent:brain/bad" in said, "the same bytes under another name"
    (disabled,) = [each for each in records(desk) if each.event == "skill_disabled"]
    assert disabled.skill == "agent:brain/bad"
    desk.machine.metier("skills", "enable", "agent:brain/bad")
    agent(desk, "bad.py", "print('mended')\n")
    assert ran(desk, "bad")["output"] == "mended\n"


HELPER = """---
name: helper
description: Helps.
metadata:
  metier:
    tools:
      - name: go
        description: Goes.
        effect: act
        risk: medium
        parameters: {type: object, properties: {}}
        permissions: {operations: [agents.OPERATION]}
        entry: {kind: python, path: go.py, function: go}
---
Go.
"""
GO = """
def go(inputs, context):
    return context.operate("agents.status", {"agentName": "organizer"}).wait()
"""


@pytest.mark.parametrize("operation", ["run", "status"])
def test_cap_07_no_other_skill_borrows_the_rights_of_an_agent(desk: Desk, operation: str) -> None:
    agent(desk, "organizer.py", "print('ran')\n")
    folder = desk.machine.skills / "helper"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(HELPER.replace("OPERATION", operation))
    (folder / "go.py").write_text(GO)
    approve_all(desk.machine.skills)
    outcome = desk.approved("helper/go")
    if operation == "status":
        assert value(outcome) == {"running": False}
        return
    assert isinstance(outcome, Refused)
    assert outcome.code == "forbidden"
    assert "'agents.run' is for the skill 'run_agent'" in outcome.reasons[0]
    assert "reserved_operation" in desk.machine.metier("skills", "info", "helper").stdout
    assert "reserved_operation" not in desk.machine.metier("skills", "info", "run_agent").stdout


def test_cap_07_only_the_run_agent_that_ships_with_metier_runs_agents(desk: Desk) -> None:
    agent(desk, "organizer.py", "print('ran')\n")
    assert ran(desk, "organizer")["output"] == "ran\n"
    desk.reopen()
    shutil.copytree(BUNDLED / "run_agent", desk.machine.skills / "run_agent")
    assert isinstance(desk.call(RUN, agentName="organizer", wait=True), Pending), "nobody trusted the copy"
    trusted = desk.machine.metier("skills", "trust", "run_agent", "--yes")
    assert trusted.returncode == 0, trusted.stderr
    desk.reopen()
    outcome = desk.call(RUN, agentName="organizer", wait=True)
    assert isinstance(outcome, Refused)
    assert "ships with Metier" in "; ".join(outcome.reasons)


def test_to_ask_whether_an_agent_runs_leaves_nothing_behind(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert running(str(state), "nobody") is None
    assert not state.exists()
    held = hold(str(state), "organizer")
    assert held is not None
    held.note(4711)
    assert running(str(state), "organizer") == 4711
    assert running(str(state), "nobody") is None
    held.release()
    assert running(str(state), "organizer") is None
    assert [each.name for each in (state / "agents").iterdir()] == ["organizer.lock"]


def test_an_agent_that_dies_is_a_clear_error(desk: Desk) -> None:
    agent(desk, "organizer.py", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert "crashed" in why(desk.approved(RUN, agentName="organizer", wait=True))


def test_much_output_is_cut_for_the_caller(desk: Desk) -> None:
    agent(desk, "organizer.py", "print('x' * 100_000 + 'end')\n")
    told = ran(desk, "organizer")["output"]
    assert told.endswith("xend\n")
    assert len(told) < 10_000


def test_what_an_agent_leaves_is_kept_under_its_call(desk: Desk) -> None:
    code = "import os\nopen(os.environ['METIER_OUT'] + '/report.txt', 'w').write('tea')\n"
    agent(desk, "organizer.py", code)
    told = ran(desk, "organizer")
    inner = next(each for each in records(desk) if each.tool == "agents.run")
    assert (desk.workspace / "out" / inner.call_id / "report.txt").read_text() == "tea"
    path = f"out/{inner.call_id}/report.txt"
    assert told["artifacts"] == [{"path": path, "type": "text/plain", "size": 3}], "the caller finds it"
    other = f"import os\nopen(os.environ['METIER_WORKSPACE'] + '/{path}', 'MODE')\nprint('done')\n"
    agent(desk, "reader.py", other.replace("MODE", "r"))
    assert ran(desk, "reader")["output"] == "done\n"
    agent(desk, "forger.py", other.replace("MODE", "w"))
    assert ran(desk, "forger")["exitCode"] == 1
    assert (desk.workspace / path).read_text() == "tea", "what a call left is nobody else's to change"


@pytest.mark.slow
def test_an_agent_in_typescript_runs_likewise(desk: Desk) -> None:
    code = (
        "const here: string = Deno.env.get('METIER_WORKSPACE')!;\n"
        "Deno.writeTextFileSync(`${here}/logs/made`, 'tea');\n"
        "let could = true;\n"
        "try { Deno.readDirSync(`${here}/brain`); for (const _ of Deno.readDirSync(`${here}/brain`)); } catch { could = false; }\n"
        "console.log(could);\nDeno.exit(4);\n"
    )
    agent(desk, "organizer.ts", code)
    told = ran(desk, "organizer")
    assert (told["exitCode"], told["output"]) == (4, "false\n")
    assert (desk.workspace / "logs" / "made").read_text() == "tea"
    assert told["pid"] > 1


def test_the_operation_behind_it_is_nobody_elses(desk: Desk) -> None:
    agent(desk, "organizer.py", "")
    outcome: Outcome = desk.call("agents.run", agentName="organizer", digest=sha256_of(b""))
    assert isinstance(outcome, Refused)
    assert outcome.code == "forbidden"


def test_it_is_of_medium_risk_expensive_and_always_asks(desk: Desk) -> None:
    (tool,) = [each for skill in desk.runtime.skills for each in skill.tools if each.name == RUN]
    assert (tool.risk, tool.cost, tool.minimum_trust, tool.approval) == (
        "medium",
        "expensive",
        "supervised_auto",
        "always",
    )
    assert tool.permissions.plain() == {"operations": ["agents.run", "agents.status"]}


@pytest.mark.parametrize("more", [{"code": "print(1)"}, {"args": ["-c", "print(1)"]}, {"path": "/tmp/x.py"}])
def test_nothing_of_what_is_run_comes_from_the_caller(desk: Desk, more: dict[str, Any]) -> None:
    agent(desk, "organizer.py", "")
    outcome = desk.call(RUN, agentName="organizer", wait=True, **more)
    assert isinstance(outcome, Refused)
    assert outcome.code == "invalid_arguments"


@pytest.mark.parametrize("name", [".git", "AGENTS.md", "sub/.git"])
def test_what_others_run_in_memory_is_only_read_and_stops_no_agent(desk: Desk, name: str) -> None:
    made = desk.workspace / "memory" / name
    agent(desk, "makes.py", f"import os\nos.makedirs({str(made)!r})\nprint('made')\n")
    assert ran(desk, "makes")["output"] == "made\n"
    tries = """import os
for name in ("memory", "logs"):
    try:
        open(f"{os.environ['METIER_WORKSPACE']}/{name}/x", "w").close()
        print(name, "written")
    except OSError:
        print(name, "not written", len(os.listdir(f"{os.environ['METIER_WORKSPACE']}/memory")))
"""
    agent(desk, "tries.py", tries)
    said = ran(desk, "tries")["output"]
    first, *rest = said.splitlines()
    assert "memory' cannot be written" in first
    assert rest == ["memory not written 1", "logs written"]
