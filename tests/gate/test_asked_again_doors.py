"""The same act asked again takes up a yes that nobody used, by every door and from every process; and nothing else does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from msgspec import structs

from machine import Machine, write_skill
from metier import Completed, Pending
from metier.blocking import SyncRuntime
from metier.catalog.here import owner
from metier.model.approval import Approval
from metier.model.call import Surroundings
from metier.model.job import Report
from metier.model.role import ROLES
from metier.pipeline import run
from metier.record.approvals import approvals_in, find
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.deciding import Decider, decide
from metier.record.standing import proposed_grant, revoke
from metier.record.verify import verify
from parlour import OWNER, Parlour, tool
from serve_kit import WRITE, Premises

ASK = '[[rule]]\ndecision = "ask"\nbecause = "to be sure"\ntool = "read_skill"\n'
FOUR_EYES = "[approvals]\nfour_eyes = true\n"
CALL = ("call", "read_skill", '{"name": "tea"}', "--json")
HERE = Decider(id=owner(), kind="human", rights=ROLES["owner"])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Reading a skill has to be asked first."""
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    for name in ("tea", "coffee"):
        write_skill(made.skills / name, body="Boil, then pour.")
    file = made.state / "policy.toml"
    file.write_text(ASK, encoding="utf-8")
    file.chmod(0o600)
    return made


def called(machine: Machine, *args: str) -> Any:
    """How a command ended, in a process of its own."""
    return machine.json(*(args or CALL), check=None)


def said_yes(machine: Machine, approval: str, **more: Any) -> None:
    """Somebody decided where nothing is run by it, as an approver in a chat of another machine does."""
    with Database.open(str(machine.state / "state.db")) as database:
        given: dict[str, Any] = {"by": HERE, "decision": "approve", **more}
        assert isinstance(decide(database, approval, **given), Approval)


def begun(machine: Machine) -> int:
    with Database.open(str(machine.state / "state.db")) as database:
        assert verify(database).ok
        return [each.event for each in AuditLog(database).tail(100)].count("skill_execution_started")


# --- at the terminal, where each command is a process


def test_a_command_that_is_given_again_runs_on_the_yes_that_was_given_meanwhile_once(
    machine: Machine,
) -> None:
    first = called(machine)
    assert first["outcome"] == "pending"
    said_yes(machine, first["approval_id"])
    again = called(machine)
    assert again["outcome"] == "completed", again
    assert "Boil, then pour." in json.dumps(again["value"])
    assert again["call_id"] != first["call_id"]
    assert called(machine)["outcome"] == "pending", "the yes was for once"
    assert begun(machine) == 1


def test_of_processes_that_ask_again_at_the_same_time_one_runs(machine: Machine) -> None:
    said_yes(machine, called(machine)["approval_id"])
    line = [str(Path(sys.executable).with_name("metier")), *CALL]
    env = {**machine.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    asking = [
        subprocess.Popen(
            line, cwd=machine.project, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for _ in range(4)
    ]
    ended = [json.loads(each.communicate(timeout=50)[0]) for each in asking]
    outcomes = sorted(each["outcome"] for each in ended)
    assert outcomes.count("completed") == 1, ended
    assert all(each["outcome"] != "refused" or each["code"] == "approval_void" for each in ended), ended
    assert begun(machine) == 1


@pytest.mark.parametrize("decided", ["denied", "over", "another"])
def test_a_no_a_yes_that_is_over_and_one_to_something_else_let_no_command_run(
    machine: Machine, decided: str
) -> None:
    other = ("call", "read_skill", '{"name": "coffee"}', "--json")
    first = called(machine, *(other if decided == "another" else CALL))
    given: dict[str, Any] = {"denied": {"decision": "deny"}, "over": {"use_within": 0.0}}.get(decided, {})
    said_yes(machine, first["approval_id"], **given)
    assert called(machine)["outcome"] == "pending"
    assert begun(machine) == 0
    if decided == "another":
        assert called(machine, *other)["outcome"] == "completed", "control: that yes is there"


def test_a_skill_whose_bytes_are_others_since_is_asked_anew(machine: Machine) -> None:
    first = called(machine)
    said_yes(machine, first["approval_id"])
    write_skill(machine.skills / "tea", body="Spill it.")
    machine.metier("skills", "trust", "tea", "--yes")
    again = called(machine)
    assert again["outcome"] == "pending", again
    assert begun(machine) == 0


def test_when_the_rule_that_had_it_asked_is_another_it_is_asked_anew(machine: Machine) -> None:
    said_yes(machine, called(machine)["approval_id"])
    policy = machine.state / "policy.toml"
    policy.write_text(ASK.replace('"read_skill"', '["read_skill", "fs_read/execute"]'), encoding="utf-8")
    assert called(machine)["outcome"] == "pending", "though it says the same in words"
    assert begun(machine) == 0
    more = '[[rule]]\ndecision = "deny"\nbecause = "not here"\ntool = "fs_write/execute"\n'
    policy.write_text(ASK + more, encoding="utf-8")
    assert called(machine)["outcome"] == "completed", "a rule about something else changes nothing"


def test_another_project_has_its_own_word_for_it(machine: Machine) -> None:
    class Elsewhere(Machine):
        @property
        def project(self) -> Path:
            return self.top / "other"

    for folder in (machine.project, machine.top / "other"):
        folder.mkdir(exist_ok=True)
        (folder / "metier.toml").write_text('[skills]\ndisabled = ["coffee"]\n', encoding="utf-8")
    said_yes(machine, called(machine)["approval_id"])
    assert called(Elsewhere(machine.top))["outcome"] == "pending"
    assert called(machine)["outcome"] == "completed"


def test_a_yes_of_one_is_not_enough_once_it_takes_a_second_person(machine: Machine) -> None:
    said_yes(machine, called(machine)["approval_id"])
    (machine.project / "metier.toml").write_text(FOUR_EYES, encoding="utf-8")
    assert called(machine)["outcome"] == "pending"
    assert begun(machine) == 0


# --- in a program


def test_a_program_that_is_started_again_runs_what_was_approved_meanwhile(machine: Machine) -> None:
    def asked() -> Any:
        with SyncRuntime.open(home=str(machine.state), project=str(machine.project)) as runtime:
            return runtime.call("read_skill", {"name": "tea"})

    first = asked()
    assert isinstance(first, Pending), first
    said_yes(machine, first.approval_id)
    assert called(machine)["outcome"] == "pending", "the terminal is another agent of the same person"
    again = asked()
    assert isinstance(again, Completed), again
    assert again.earlier is None, "it ran now"
    assert isinstance(asked(), Pending)
    assert begun(machine) == 1


def test_what_a_program_under_way_asks_again_runs_on_a_yes_given_in_another_process(machine: Machine) -> None:
    with SyncRuntime.open(home=str(machine.state), project=str(machine.project)) as runtime:
        first = runtime.call("read_skill", {"name": "tea"})
        assert isinstance(first, Pending), first
        code = (
            "import sys\nfrom metier.catalog.here import owner\nfrom metier.model.role import ROLES\n"
            "from metier.record.database import Database\nfrom metier.record.deciding import Decider, decide\n"
            "with Database.open(sys.argv[1]) as database:\n"
            "    by = Decider(id=owner(), kind='human', rights=ROLES['owner'])\n"
            "    decide(database, sys.argv[2], by=by, decision='approve')\n"
        )
        given = [sys.executable, "-c", code, str(machine.state / "state.db"), first.approval_id]
        subprocess.run(given, check=True, timeout=50)
        assert isinstance(runtime.call("read_skill", {"name": "tea"}), Completed)
        assert isinstance(runtime.call("read_skill", {"name": "coffee"}), Pending)


# --- over HTTP, without a key


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {"bytes": 3}})
    return made


def test_a_second_request_without_a_key_runs_on_the_yes_and_only_who_asked_gets_it(
    premises: Premises,
) -> None:
    agent, other, ann = premises.agent(), premises.agent("other"), premises.person("ann", "approver")
    another_token = premises.token("agent:bot", *ROLES["agent"])
    else_ = {**WRITE, "arguments": {**WRITE["arguments"], "content": "coffee"}}

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            first = (await client.post("/api/v1/calls", json=WRITE)).json()
            path = f"/api/v1/approvals/{first['approval_id']}"
            shown = (await person.get(path)).json()
            yes = await person.post(f"{path}/approve", json={"fingerprint": shown["fingerprint"]})
            assert yes.json()["state"] == "approved"
            for token, body in ((other, WRITE), (another_token, WRITE), (agent, else_)):
                async with house.client(token) as stranger:
                    assert (await stranger.post("/api/v1/calls", json=body)).status_code == 202
            assert premises.box.jobs == []
            ended: list[str] = []

            async def ask() -> None:
                ended.append((await client.post("/api/v1/calls", json=WRITE)).json()["outcome"])

            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(ask)
            assert ended.count("completed") == 1, ended
            assert len(premises.box.jobs) == 1

    anyio.run(main)


# --- at the gate


@pytest.fixture
def parlour(tmp_path: Path) -> Parlour:
    return Parlour(tmp_path, tool(approval="always"))


def waits(parlour: Parlour, **more: Any) -> Pending:
    pending = parlour.call(**more)
    assert isinstance(pending, Pending), pending
    return pending


@pytest.mark.parametrize("scope", ["session", "always"])
def test_when_a_grant_is_taken_back_the_yes_it_came_with_lets_nothing_run(
    parlour: Parlour, scope: Literal["session", "always"]
) -> None:
    with_session = {"surroundings": Surroundings(channel="voice", call_id="line_1", session="s_1")}
    pending = waits(parlour, **with_session)
    found = find(parlour.database, pending.approval_id)
    assert found is not None and found.shown is not None
    grant = proposed_grant(found.shown, scope, approval=pending.approval_id, by=OWNER)
    assert isinstance(parlour.decided(pending, scope=scope, grant=grant), Approval)
    assert revoke(parlour.database, grant.id, by=OWNER)
    assert waits(parlour, **with_session).approval_id != pending.approval_id
    assert parlour.ran == []


@pytest.mark.parametrize(
    "bound", [{"token": "tok_2"}, {"scopes": frozenset({"skills:execute"})}, {"on_behalf_of": None}], ids=str
)
def test_the_same_agent_with_another_token_or_for_somebody_else_asks_for_itself(
    parlour: Parlour, bound: dict[str, Any]
) -> None:
    assert isinstance(parlour.decided(waits(parlour)), Approval)
    call = parlour.made()
    other = structs.replace(call, principal=structs.replace(call.principal, **bound))
    assert not isinstance(anyio.run(run, other, parlour.house), Completed)
    assert parlour.ran == []
    assert isinstance(parlour.call(), Completed), "control: the yes is there"


@pytest.mark.parametrize(
    "there", [{"session": "another"}, {"caller_id": "+49"}, {"channel": "chat"}], ids=str
)
def test_who_comes_another_way_asks_for_himself(parlour: Parlour, there: dict[str, Any]) -> None:
    here = Surroundings(channel="voice", call_id="line_1")
    assert isinstance(parlour.decided(waits(parlour, surroundings=here)), Approval)
    assert isinstance(parlour.call(surroundings=structs.replace(here, **there)), Pending)
    assert parlour.ran == []
    assert isinstance(parlour.call(surroundings=here), Completed)


def test_what_a_trigger_asked_is_not_taken_up_by_who_asks_the_same_himself(parlour: Parlour) -> None:
    from metier.model.call import Cause

    fired = waits(parlour, cause=Cause(firings=1, root="x", by="trg_1"))
    assert isinstance(parlour.decided(fired), Approval)
    assert isinstance(parlour.call(), Pending)
    assert parlour.ran == []


def test_who_may_approve_nothing_any_more_has_given_no_yes_either(parlour: Parlour) -> None:
    from metier.record.principals import revoke_principal

    parlour.add("human:bob", "approver")
    assert isinstance(parlour.decided(waits(parlour), by="human:bob", role="approver"), Approval)
    assert revoke_principal(parlour.database, "human:bob", by=OWNER, owner=OWNER) == ""
    assert isinstance(parlour.call(), Pending)
    assert parlour.ran == []


def test_nobody_joins_a_request_that_is_not_decided_yet(parlour: Parlour) -> None:
    first, second = waits(parlour), waits(parlour)
    assert first.approval_id != second.approval_id
    with parlour.database.reading() as connection:
        assert len(approvals_in(connection)) == 2
