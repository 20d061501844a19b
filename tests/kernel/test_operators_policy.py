"""The rules with their examples, what every layer would say to a call, and other rules over the past: operations behind the gate."""

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from metier.config.ground import POLICY
from metier.gate.rule_file import examine_text
from metier.kernel import policy_desk
from metier.kernel.replaying import Bounds, replayed
from office import AGENT, NARROW, SKILL, VIEWER, Office

READ = {"name": "writing-skills"}
RULE = """
[[rule]]
name = "no-reading"
decision = "deny"
because = "not here"
tool = "read_skill"
when = 'args.name == "writing-skills"'
match = [{ tool = "read_skill", args = { name = "writing-skills" } }]
not_match = [{ tool = "read_skill", args = { name = "other" } }]
"""


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(tmp_path, monkeypatch)


def ruled(office: Office, text: str) -> None:
    (office.machine.state / POLICY).write_text(text, encoding="utf-8")
    (office.machine.state / POLICY).chmod(0o600)


def test_every_rule_is_told_with_its_examples_and_whether_they_hold(office: Office) -> None:
    ruled(office, RULE + '\n[[rule]]\ndecision = "ask"\nbecause = "typo"\ntool = "fs_writ"\n')

    async def act(office: Office) -> None:
        told = await office.ask("policy.rules", VIEWER)
        assert (told["there"], told["ok"], told["examples"]) == (True, True, 2)
        assert told["counts"] == {"allow": 0, "ask": 1, "deny": 1}
        first, second = told["rules"]
        assert (first["name"], first["decision"], first["ok"], first["problems"]) == (
            "no-reading",
            "deny",
            True,
            [],
        )
        assert first["about"] == {"tool": ["read_skill"]}
        assert first["match"] == [{"tool": "read_skill", "args": {"name": "writing-skills"}}]
        assert first["not_match"][0]["args"] == {"name": "other"}
        assert first["line"] == 2
        assert "no such tool" in second["idle"]

    office.run(act)


def test_a_rule_whose_example_does_not_hold_is_told_as_such(office: Office) -> None:
    async def act(office: Office) -> None:
        assert (await office.ask("policy.rules"))["there"] is False
        ruled(office, RULE.replace('args = { name = "other" }', 'args = { name = "writing-skills" }'))
        # Rules that cannot be used deny everything but looking at them: somebody has to mend them.
        told = await office.ask("policy.rules")
        assert (told["ok"], told["rules"][0]["ok"]) == (False, False)

    office.run(act)
    found = examine_text(RULE.replace('args = { name = "other" }', 'args = { name = "writing-skills" }'))
    assert found.problems[0].rule == 1
    assert found.written[0]["name"] == "no-reading"


def test_every_layer_says_what_it_would_to_a_call_that_is_not_made(office: Office) -> None:
    ruled(office, RULE)

    async def act(office: Office) -> None:
        told = await office.ask("policy.explain", VIEWER, tool="read_skill", arguments=READ)
        assert (told["ends"], told["principal"], told["refused"]) == ("refused", "agent:cli", None)
        layers = {each["layer"]: each for each in told["layers"]}
        assert layers["rules"]["decision"] == "deny"
        assert layers["stop button"]["decision"] == "abstain"
        other = await office.ask("policy.explain", tool="runtime.stop", arguments={}, **{"as": "human:vera"})
        assert (other["ends"], other["code"]) == ("refused", "forbidden")
        mine = await office.ask("policy.explain", tool="runtime.stop", **{"as": "human:opal"})
        assert mine["ends"] == "runs"
        none = await office.ask("policy.explain", tool="no/such")
        assert (none["refused"]["code"], none["layers"]) == ("unknown_tool", [])
        odd = await office.ask("policy.explain", tool="read_skill", **{"as": "*"})
        assert odd["refused"]["code"] == "forbidden"

    office.run(act)
    assert not [each for each in office.records() if each.tool == "read_skill"]  # nothing of it was a call


def test_other_rules_are_tried_on_the_past(office: Office) -> None:
    async def act(office: Office) -> None:
        for _ in range(2):
            await office.call("read_skill", AGENT, **READ)
        told = await office.ask("policy.replay", VIEWER, rules=RULE)
        assert (told["ok"], told["summary"]["otherwise"], told["cut"]) == (True, 2, "")
        assert {"from": "allow", "to": ["deny"], "calls": 2} in told["kinds"]
        call = told["calls"][0]
        assert (call["tool"], call["was"], call["would_be"]) == ("read_skill", "allow", ["deny"])
        assert "not here" in call["rules"][0]
        same = await office.ask("policy.replay")
        assert same["summary"]["otherwise"] == 0
        assert (await office.ask("policy.replay", until="2001-01-01", rules=RULE))["summary"]["judged"] == 0
        broken = await office.ask("policy.replay", rules="nonsense = [")
        assert (broken["ok"], broken["summary"]["judged"]) == (False, 0)
        assert broken["problems"]
        assert (await office.no("policy.replay", since="2026-02", until="2026-01"))[0] == "E_BAD_PARAMS"
        rules = examine_text(RULE).rules
        catalog, database = office.engine.seen.catalog, office.engine.state.database
        assert replayed(database, rules, catalog, Bounds(records=1))["cut"] == "rows"
        assert replayed(database, rules, catalog, Bounds(seconds=-1.0))["cut"] == "time"

    office.run(act)


def test_the_past_is_gone_through_in_parts_and_each_call_is_judged_in_one_of_them(office: Office) -> None:
    async def act(office: Office) -> None:
        for _ in range(5):
            await office.call("read_skill", AGENT, **READ)
        rules, catalog, database = (
            examine_text(RULE).rules,
            office.engine.seen.catalog,
            office.engine.state.database,
        )
        whole = replayed(database, rules, catalog, Bounds())
        seen: list[object] = []
        before = 0
        while True:
            part: Any = replayed(
                database, rules, catalog, Bounds(newest_first=True, before=before, seconds=-1.0)
            )
            seen += part["calls"]
            if not part["cut"]:
                break
            assert part["cut"] == "time" and part["through_at"].startswith("20")
            assert not before or part["through"] < before, "it comes further each time"
            before = part["through"]
        assert seen[::-1] == whole["calls"]
        assert len(seen) == 5
        last = await office.ask(
            "policy.replay", VIEWER, rules=RULE, newest_first=True, before=before, seconds=0.5
        )
        assert (last["cut"], last["through_at"]) == ("", "")
        newest = await office.ask("policy.replay", rules=RULE, newest_first=True)
        assert newest["calls"] == seen
        for odd in ({"seconds": 0}, {"seconds": 11}, {"before": -1}, {"newest_first": 1}):
            assert (await office.no("policy.replay", **odd))[0] == "invalid_arguments"

    office.run(act)


def test_a_short_walk_does_not_wait_for_a_long_one(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, begun = threading.Event(), threading.Event()

    def slow(*given: Any) -> dict[str, Any]:
        if given[-1].seconds > 1:
            begun.set()
            assert ended.wait(20)
        return replayed(*given)

    monkeypatch.setattr(policy_desk, "replayed", slow)

    async def act(office: Office) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(office.ask, "policy.replay")
            assert await to_thread.run_sync(begun.wait, 20)
            assert (await office.ask("policy.replay", seconds=0.1))["ok"] is True
            ended.set()

    office.run(act)


@pytest.mark.parametrize("operation", ["policy.rules", "policy.explain", "policy.replay"])
def test_policy_is_not_told_to_who_may_not_read_the_record(office: Office, operation: str) -> None:
    given = {"tool": "read_skill"} if operation == "policy.explain" else {}

    async def act(office: Office) -> None:
        for by in (AGENT, SKILL, NARROW):
            assert (await office.no(operation, by, **given))[0] == "forbidden"

    office.run(act)


def test_rules_to_try_that_cost_too_much_to_parse_are_refused_to_a_viewer_at_once(office: Office) -> None:
    async def act(office: Office) -> None:
        told = await office.ask("policy.replay", VIEWER, rules="a" + ".a" * 6_000 + "=1")
        assert "more than 32 parts" in str(told)

    office.run(act)
