"""What was approved is taken up under the restrictions it was asked under, by whoever comes first, and whoever cannot is told why."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import Machine, write_skill
from metier import Completed, Pending, Refused
from metier.catalog.here import owner
from metier.model.approval import Approval, StandingGrant
from metier.model.outcome import Outcome
from metier.model.role import ROLES
from metier.record.approvals import find
from metier.record.database import Database
from metier.record.deciding import Decider, Undecided, decide
from metier.record.principals import revoke_principal
from metier.record.standing import grants_in, proposed_grant
from metier.runtime import Runtime
from parlour import OWNER, Parlour, tool

ASK = '[[rule]]\ndecision = "ask"\nbecause = "to be sure"\ntool = "read_skill"\n'
READ = '{"name": "tea"}'
FOUR_EYES = "[approvals]\nfour_eyes = true\n"
BOB = "human:bob"
HERE = Decider(id=owner(), kind="human", rights=ROLES["owner"])


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Reading a skill has to be asked first. There is another folder beside the project."""
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    write_skill(made.skills / "tea", body="Boil, then pour.")
    file = made.state / "policy.toml"
    file.write_text(ASK, encoding="utf-8")
    file.chmod(0o600)
    (tmp_path / "other").mkdir()
    return made


def asked(machine: Machine) -> str:
    machine.metier("call", "read_skill", READ, check=4)
    return machine.json("approvals", "list", "--json")[-1]["id"]


def restricted(machine: Machine, text: str) -> None:
    (machine.project / "metier.toml").write_text(text, encoding="utf-8")


class Elsewhere(Machine):
    """The same machine, for who stands in another folder."""

    @property
    def project(self) -> Path:
        return self.top / "other"


def from_another_folder(machine: Machine, approval: str) -> tuple[int, str]:
    done = Elsewhere(machine.top).metier("approvals", "approve", approval, check=None)
    return done.returncode, done.stdout + done.stderr


def state(machine: Machine, approval: str) -> str:
    return machine.json("approvals", "show", approval, "--json")["state"]


# --- the project it was asked in


def test_what_was_asked_in_one_folder_is_approved_from_another_and_runs(asking: Machine) -> None:
    approval = asked(asking)
    status, said = from_another_folder(asking, approval)
    assert (status, "Boil, then pour." in said) == (0, True)
    assert state(asking, approval) == "spent"


def test_apr_18_four_eyes_of_a_project_hold_wherever_the_approver_stands(asking: Machine) -> None:
    restricted(asking, FOUR_EYES)
    approval = asked(asking)
    status, said = from_another_folder(asking, approval)
    assert (status, "a second person has to decide" in said) == (1, True)
    assert state(asking, approval) == "pending"
    assert "second person" in asking.metier("approvals", "show", approval).stdout


def test_four_eyes_that_were_asked_for_are_not_undone_by_editing_the_project(asking: Machine) -> None:
    restricted(asking, FOUR_EYES)
    approval = asked(asking)
    restricted(asking, "")
    said = asking.metier("approvals", "approve", approval, check=1).stderr
    assert "four_eyes was on when it was asked" in said
    assert state(asking, approval) == "pending"


def test_four_eyes_that_came_after_it_was_asked_hold_too(asking: Machine) -> None:
    approval = asked(asking)
    restricted(asking, FOUR_EYES)
    status, said = from_another_folder(asking, approval)
    assert (status, "four_eyes is on" in said) == (1, True)


def test_a_skill_that_its_project_disabled_since_does_not_run_when_it_is_approved_from_elsewhere(
    asking: Machine,
) -> None:
    approval = asked(asking)
    restricted(asking, '[skills]\ndisabled = ["tea"]\n')
    status, said = from_another_folder(asking, approval)
    assert (status, "skill_disabled" in said, "Boil" in said) == (3, True, False)


def test_where_the_project_is_gone_or_cannot_be_understood_nothing_is_decided(asking: Machine) -> None:
    approval = asked(asking)
    restricted(asking, "[approvals")
    status, said = from_another_folder(asking, approval)
    assert (status, "not valid TOML" in said) == (5, True)
    os.rename(asking.project, asking.top / "moved")
    status, said = from_another_folder(asking, approval)
    assert (status, "that folder is gone" in said, "approvals deny" in said) == (5, True, True)
    os.rename(asking.top / "moved", asking.project)
    assert state(Elsewhere(asking.top), approval) == "pending"


def test_a_link_that_leads_to_another_project_since_is_another_project(asking: Machine) -> None:
    link, strict = asking.top / "link", asking.top / "strict"
    strict.mkdir()
    link.symlink_to(asking.top / "other")

    def resumed(approval: str) -> Outcome:
        return with_runtime(link, lambda runtime: runtime.resume(approval))

    pending = with_runtime(link, lambda runtime: runtime.call("read_skill", {"name": "tea"}))
    assert isinstance(pending, Pending)
    approve(asking, pending)
    link.unlink()
    link.symlink_to(strict)
    outcome = resumed(pending.approval_id)
    assert isinstance(outcome, Refused)
    assert outcome.code == "approval_void"
    link.unlink()
    link.symlink_to(asking.top / "other")
    assert isinstance(resumed(pending.approval_id), Completed)


def with_runtime(project: Path, act: Callable[[Runtime], Awaitable[Outcome]]) -> Outcome:
    async def main() -> Outcome:
        async with Runtime.open(project=str(project), watch=False) as runtime:
            return await act(runtime)

    return anyio.run(main)


def approve(machine: Machine, pending: Pending, **more: Any) -> None:
    with Database.open(str(machine.state / "state.db")) as database:
        given: dict[str, Any] = {"by": HERE, "decision": "approve", **more}
        assert isinstance(decide(database, pending.approval_id, **given), Approval)


def test_a_program_in_another_project_does_not_take_up_what_was_asked_in_this_one(asking: Machine) -> None:
    restricted(asking, '[skills]\ndisabled = ["other"]\n')
    pending = with_runtime(asking.project, lambda runtime: runtime.call("read_skill", {"name": "tea"}))
    assert isinstance(pending, Pending)
    approve(asking, pending)
    outcome = with_runtime(asking.top / "other", lambda runtime: runtime.resume(pending.approval_id))
    assert isinstance(outcome, Refused)
    assert (outcome.code, str(asking.project) in outcome.reasons[0]) == ("approval_void", True)
    assert isinstance(
        with_runtime(asking.project, lambda runtime: runtime.resume(pending.approval_id)), Completed
    )


# --- once more


def test_a_yes_whose_run_was_refused_for_a_while_is_taken_up_later(asking: Machine) -> None:
    approval = asked(asking)
    asking.metier("stop")
    assert "Refused (stopped)" in asking.metier("approvals", "approve", approval, check=3).stderr
    said = asking.metier("approvals", "show", approval).stdout
    assert "It has not run" in said
    assert f"Take it up: metier approvals approve {approval}" in said
    asking.metier("resume")
    assert "Boil, then pour." in asking.metier("approvals", "approve", approval).stdout
    assert "begun already" in asking.metier("approvals", "approve", approval, check=1).stderr


def test_what_changed_since_it_was_approved_does_not_run_when_it_is_taken_up_later(asking: Machine) -> None:
    approval = asked(asking)
    asking.metier("stop")
    asking.metier("approvals", "approve", approval, check=3)
    asking.metier("resume")
    write_skill(asking.skills / "tea", body="Spill it.")
    asking.metier("skills", "trust", "tea", "--yes")
    done = asking.metier("approvals", "approve", approval, check=3)
    assert "approval_void" in done.stderr
    assert "Spill" not in done.stdout


def test_a_grant_is_not_given_with_what_was_approved_before(asking: Machine) -> None:
    approval = asked(asking)
    asking.metier("stop")
    asking.metier("approvals", "approve", approval, check=3)
    said = asking.metier("approvals", "approve", approval, "--always", "--yes", check=1).stderr
    assert "approved already" in said
    assert asking.json("grants", "list", "--json") == []


def test_who_takes_up_what_was_denied_is_told_the_word(asking: Machine) -> None:
    pending = with_runtime(asking.project, lambda runtime: runtime.call("read_skill", {"name": "tea"}))
    assert isinstance(pending, Pending)
    approve(asking, pending, decision="deny", word="use the archive")
    outcome = with_runtime(asking.project, lambda runtime: runtime.resume(pending.approval_id))
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.call_id) == ("approval_denied", pending.call_id)
    assert outcome.reasons == ("it was denied: use the archive",)


def test_apr_17_what_became_of_anothers_request_is_told_to_nobody(asking: Machine) -> None:
    approval = asked(asking)
    asking.metier("approvals", "deny", approval, "--word", "for agent:cli alone")
    outcome = with_runtime(asking.project, lambda runtime: runtime.resume(approval))
    unknown = with_runtime(asking.project, lambda runtime: runtime.resume("apr_none"))
    assert outcome == unknown


# --- who approved it


def by_bob(parlour: Parlour, pending: Outcome, **more: Any) -> Approval | Undecided:
    return parlour.decided(pending, by=BOB, role="operator", **more)


def come_back(parlour: Parlour) -> None:
    assert revoke_principal(parlour.database, BOB, by=OWNER, owner=OWNER) == ""
    parlour.add(BOB, "operator")


def test_apr_21_what_a_revoked_approver_approved_does_not_come_back_with_his_id(tmp_path: Path) -> None:
    parlour = Parlour(tmp_path, tool(effect="act", risk="medium"))
    parlour.add(BOB, "operator")
    before, control = parlour.call(), parlour.call()
    assert isinstance(by_bob(parlour, control), Approval)
    assert isinstance(parlour.resume(control), Completed)
    assert isinstance(by_bob(parlour, before), Approval)
    come_back(parlour)
    assert parlour.resume(before) is None
    assert isinstance(before, Pending)
    found = find(parlour.database, before.approval_id)
    assert found is not None
    assert found.state == "void"
    assert len(parlour.ran) == 1
    assert parlour.events(before) == ["skill_approval_queued", "skill_approved", "skill_rejected"]
    again = parlour.call()
    assert isinstance(by_bob(parlour, again), Approval), "what he says from now on counts"
    assert isinstance(parlour.resume(again), Completed)


def test_apr_21_the_standing_grants_of_a_revoked_approver_do_not_come_back_with_his_id(
    tmp_path: Path,
) -> None:
    parlour = Parlour(tmp_path, tool(effect="act", risk="medium"))
    parlour.add(BOB, "operator")
    pending = parlour.call()
    assert isinstance(pending, Pending)
    found = find(parlour.database, pending.approval_id)
    assert found is not None
    assert found.shown is not None
    grant = proposed_grant(found.shown, "always", approval=pending.approval_id, by=BOB)
    assert isinstance(grant, StandingGrant)
    assert isinstance(by_bob(parlour, pending, scope="always", grant=grant), Approval)
    assert isinstance(parlour.call(), Completed)
    come_back(parlour)
    assert isinstance(parlour.call(), Pending)
    with parlour.database.reading() as connection:
        assert grants_in(connection) == ()
    assert [line["event"] for line in parlour.lines()][-2:] == ["grant_revoked", "skill_approval_queued"]
