"""What was used, by whom and when; and a checkpoint to be kept elsewhere: operations behind the gate."""

import time
from pathlib import Path

import pytest

from metier.model.call import Principal
from metier.record.chain import Act, append
from metier.record.checkpoint import Checkpoint, read_checkpoint
from metier.record.database import Database
from metier.record.usage import Usage
from office import AGENT, APPROVER, NARROW, OPERATOR, OWNER, SKILL, VIEWER, Office

READ = {"name": "writing-skills"}


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(tmp_path, monkeypatch)


def test_calls_refusals_and_time_are_summed_by_day_skill_principal_and_tool(office: Office) -> None:
    async def act(office: Office) -> None:
        for _ in range(3):
            await office.call("read_skill", AGENT, **READ)
        await office.call("runtime.stop", AGENT)
        used = await office.ask("audit.usage", VIEWER)
        by_who = {each["principal"]: each for each in used["by_principal"]["rows"]}
        agent = by_who[AGENT.id]
        assert (agent["calls"], agent["completed"], agent["refused"], agent["failed"]) == (3, 3, 1, 0)
        by_skill = {each["skill"]: each for each in used["by_skill"]["rows"]}
        assert by_skill["writing-skills"]["calls"] == 3
        by_tool = {each["tool"]: each for each in used["by_tool"]["rows"]}
        assert by_tool["read_skill"]["seconds"] > 0
        today = time.strftime("%Y-%m-%d", time.gmtime())
        assert [each["day"] for each in used["by_day"]["rows"]][-1] == today
        assert used["total"]["calls"] == sum(each["calls"] for each in used["by_principal"]["rows"])
        assert (await office.ask("audit.usage", until="2001-01-01"))["total"]["calls"] == 0
        assert (await office.ask("audit.usage", since=today))["total"]["calls"] > 3
        assert (await office.no("audit.usage", since="2026-02-01", until="2026-01-01"))[0] == "E_BAD_PARAMS"
        assert (await office.no("audit.usage", since="yesterday"))[0] == "invalid_arguments"

    office.run(act)


def test_who_may_not_read_the_record_is_told_no_sums(office: Office) -> None:
    async def act(office: Office) -> None:
        for by in (AGENT, SKILL, NARROW):
            assert (await office.no("audit.usage", by))[0] == "forbidden"

    office.run(act)


def filled(path: Path, calls: int, *, at: str = "2026-11-16T10:00:00.000000Z") -> Database:
    database = Database.open(str(path / "state.db"))
    with database.transaction() as connection:
        for number in range(calls):
            act = Act(principal=f"agent:{number % 20}", tool=f"s{number % 50}/t", skill=f"s{number % 50}")
            append(connection, "skill_execution_started", act, at=at)
            append(connection, "skill_executed", act, at=at)
    return database


def test_the_sums_are_carried_on_and_not_made_anew(tmp_path: Path) -> None:
    with filled(tmp_path, 300) as database:
        usage = Usage(database)
        assert sum(each.calls for each in usage.between()) == 300
        first = usage.through
        with database.transaction() as connection:
            append(connection, "skill_execution_blocked", Act(principal="agent:0"), at="2026-11-17T00:00:00Z")
        assert sum(each.refused for each in usage.between("2026-11-17")) == 1
        assert usage.through == first + 1
        assert [each.day for each in usage.between("2026-11-17", "2026-11-17")] == ["2026-11-17"]


def test_a_record_that_was_put_back_is_summed_anew(tmp_path: Path) -> None:
    with filled(tmp_path, 10) as database:
        usage = Usage(database)
        assert sum(each.calls for each in usage.between()) == 10
        with database.transaction() as connection:
            connection.execute("DELETE FROM audit WHERE seq > 10")
        assert sum(each.calls for each in usage.between()) == 5


def test_what_cannot_be_read_is_counted_and_the_rest_summed(tmp_path: Path) -> None:
    with filled(tmp_path, 10) as database:
        with database.transaction() as connection:
            connection.execute("UPDATE audit SET body = x'ff' WHERE seq = 1")
            connection.execute("UPDATE audit SET body = 7 WHERE seq = 3")
        usage = Usage(database)
        assert sum(each.calls for each in usage.between()) == 8
        assert usage.unreadable == 2


@pytest.mark.slow
def test_a_long_record_is_told_at_once_when_it_was_summed_before(tmp_path: Path) -> None:
    with filled(tmp_path, 50_000) as database:
        usage = Usage(database)
        usage.between()
        began = time.perf_counter()
        assert sum(each.calls for each in usage.between()) == 50_000
        assert time.perf_counter() - began < 0.1


def test_the_owner_takes_a_signed_checkpoint_away(office: Office) -> None:
    async def act(office: Office) -> None:
        made = await office.ask("audit.checkpoint", OWNER)
        found = read_checkpoint(made["text"])
        assert isinstance(found, Checkpoint)
        assert (found.size, found.head.hex()) == (made["size"], made["head"])

    office.run(act)
    assert [each.principal for each in office.records() if each.event == "head_signed"] == [OWNER.id]


@pytest.mark.parametrize(
    "by", [AGENT, SKILL, VIEWER, APPROVER, OPERATOR, NARROW], ids=lambda each: f"{each.id}{each.scopes or ''}"
)
def test_nobody_signs_who_does_not_keep_the_record(office: Office, by: Principal) -> None:
    async def act(office: Office) -> None:
        assert (await office.no("audit.checkpoint", by))[0] == "forbidden"

    office.run(act)
    assert not [each for each in office.records() if each.event == "head_signed"]
