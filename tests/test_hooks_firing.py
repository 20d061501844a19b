"""Hooks fire around tool calls: gates can only make an answer stricter, who looks on changes nothing."""

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from lookout import BOIL, PASS, Lookout, hook_text
from metier.hooks import firing, observers, together
from metier.model.approval import Approval
from metier.model.job import Fault, Report
from metier.model.outcome import GATE_HOOK, GATE_HOOK_UNHEARD, Completed, Failed, Outcome, Pending, Refused
from metier.model.verdict import Verdict
from metier.record.database import Database
from metier.record.deciding import decide
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner
from yard import DECIDER

SECRET = "sk-live-0123456789abcdefghij"
TOKEN = "ghp_0123456789abcdefghijklmnop"


@pytest.fixture
def lookout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lookout:
    return Lookout(tmp_path, monkeypatch)


@pytest.fixture
def pretended(lookout: Lookout) -> Lookout:
    lookout.pretend()
    return lookout


def says(**left: Any) -> Any:
    return lambda _skill, event: {**event["context"], **left}


def refused(outcome: Outcome) -> str:
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "forbidden"
    return "; ".join(outcome.reasons)


# --- real hooks


GATE = """
import type { HookEvent } from 'openclaw/hooks';
export default async (event: HookEvent) => {
  const { toolName, params, callId, skill } = event.context as any;
  if (params.cups > 9) { event.context.decision = 'deny'; event.context.reason = `${toolName} of ${skill}: ${params.cups} cups`; }
  if (params.cups > 5 && params.cups <= 9) { event.context.decision = 'ask'; event.context.reason = 'many cups'; }
  if (params.note === 'throw') throw new Error('no idea');
};
"""


def test_a_real_gate_hook_lets_a_call_pass_has_it_asked_or_refuses_it(lookout: Lookout) -> None:
    lookout.guard(GATE)
    lookout.gate("guard")

    async def act(runtime: Runtime) -> list[Outcome]:
        calls = ({"cups": 2}, {"cups": 7}, {"cups": 10}, {"cups": 1, "note": "throw"})
        return [await runtime.call(BOIL, each) for each in calls]

    passed, asked, denied, broke = lookout.opened(act)
    assert isinstance(passed, Completed), passed
    assert isinstance(asked, Pending), asked
    assert asked.reasons == ("the gate hook of skill 'guard' wants it asked about: many cups",)
    assert refused(denied) == "the gate hook of skill 'guard' refuses: kettle/boil of kettle: 10 cups"
    assert refused(broke).startswith("the gate hook of skill 'guard' failed: raised: ")
    told = [each.remedy for each in (denied, broke) if isinstance(each, Refused)]
    assert told == [GATE_HOOK, GATE_HOOK_UNHEARD], "a no is one thing, and nobody to ask another"
    records = lookout.records()
    assert [each.tool for each in records if each.event == "skill_executed"].count(BOIL) == 1
    blocked = [each for each in records if each.event == "skill_execution_blocked"]
    assert [each.reasons for each in blocked] == [denied.reasons, broke.reasons]
    asked_about = [each.parent for each in records if each.tool == "hooks.run"]
    assert set(asked_about) == {each.call_id for each in (passed, asked, denied, broke)}


LOOKS_ON = """
export default async (event: any) => {
  const said = Deno.env.get('CLAUDE_TOOL_OUTPUT');
  throw new Error(JSON.stringify({ on: `${event.type}:${event.action}`, context: event.context, said }));
};
"""


def test_real_hooks_that_look_on_see_the_call_and_its_output_and_change_nothing(
    lookout: Lookout, caplog: pytest.LogCaptureFixture
) -> None:
    lookout.guard(LOOKS_ON, hook_text('["tool"]'))
    outcome = lookout.boil(api_key=SECRET)
    assert isinstance(outcome, Completed), outcome
    assert outcome.value == {"cups": 2, "token": TOKEN}, "the caller has his result"
    told = "\n".join(caplog.messages)
    assert "on tool:before: raised" in told
    assert '\\"toolName\\":\\"kettle/boil\\"' in told or '"toolName":"kettle/boil"' in told
    events = [each.event for each in lookout.records()]
    assert events.count("skill_execution_error") == 2, "both firings are on the record, and failed"
    assert events.count("skill_executed") == 1


# --- gates


@pytest.mark.parametrize(
    ("left", "why"),
    [
        (Report(ending="timed_out"), "failed: timed_out"),
        (Report(ending="out_of_memory"), "failed: out_of_memory"),
        (5, "failed: bad_result"),
        ({"bootstrapFiles": [], "decision": "maybe"}, "failed: bad_result"),
        ({"bootstrapFiles": [], "decision": True}, "failed: bad_result"),
        ({"bootstrapFiles": [], "verdict": "deny"}, "failed: bad_result"),
        ({"bootstrapFiles": [], "reason": "I do not like it"}, "it left a reason and no decision"),
        ({"bootstrapFiles": [], "decision": "deny"}, "refuses: it does not say why"),
    ],
    ids=["late", "memory", "number", "nonsense", "boolean", "unknown", "half", "no-reason"],
)
def test_a_gate_hook_that_does_not_answer_refuses(pretended: Lookout, left: Any, why: str) -> None:
    pretended.guard()
    pretended.gate("guard")
    assert isinstance(pretended.boil(), Completed), "one that answers lets it pass"
    pretended.says = lambda _skill, _event: left
    assert why in refused(pretended.boil())
    assert pretended.boiled == 1


def test_a_gate_that_is_not_there_lets_nothing_pass(pretended: Lookout) -> None:
    pretended.gate("guard")
    assert "no such skill that is trusted" in refused(pretended.boil())
    pretended.guard(trusted=False)
    assert "no such skill that is trusted" in refused(pretended.boil())
    pretended.trust("guard")
    assert isinstance(pretended.boil(), Completed)
    pretended.write("guard/hooks/openclaw/handler.ts", "export default async () => { /* other */ }\n")
    assert "the gate hook of skill 'guard' failed" in refused(pretended.boil())
    pretended.trust("guard")
    assert isinstance(pretended.boil(), Completed)
    pretended.guard(text=hook_text('["tool:after"]'))
    assert "has a hook on tool:before" in refused(pretended.boil())
    pretended.guard(text=hook_text("[]"))
    assert "names no events" in refused(pretended.boil())
    assert pretended.boiled == 2


def test_one_broken_hook_of_a_gate_lets_nothing_pass_and_one_that_is_switched_off_is_no_fault(
    pretended: Lookout,
) -> None:
    pretended.guard()
    pretended.write("guard/hooks/second/handler.js", PASS)
    pretended.write("guard/hooks/second/HOOK.md", hook_text(more="enabled: false\n"))
    pretended.trust("guard")
    pretended.gate("guard")
    assert isinstance(pretended.boil(), Completed)
    for text, why in (
        ("no text", "cannot be read"),
        (hook_text('["tool:before"], "requires": {"bins": ["node"]}'), "it needs node"),
        (hook_text("[]"), "names no events"),
    ):
        pretended.write("guard/hooks/second/HOOK.md", text)
        pretended.trust("guard")
        assert why in refused(pretended.boil())
    assert pretended.boiled == 1


def test_a_gate_hook_never_makes_an_answer_weaker(pretended: Lookout) -> None:
    pretended.guard()
    pretended.gate("guard")
    pretended.says = says(decision="allow", reason="go on")
    rule = '[[rule]]\ndecision = "{}"\nbecause = "so it is"\ntool = "kettle/boil"\n'
    policy = pretended.machine.state / "policy.toml"
    for decision, kind in (("deny", Refused), ("ask", Pending)):
        policy.write_text(rule.format(decision), encoding="utf-8")
        policy.chmod(0o600)
        assert isinstance(pretended.boil(), kind)
    assert pretended.fired == ["guard tool:before"], "it is not even asked about what is refused"
    policy.write_text(rule.format("allow"), encoding="utf-8")
    assert isinstance(pretended.boil(), Completed)
    pretended.says = says(decision="deny", reason="no")
    assert refused(pretended.boil()).endswith("refuses: no"), (
        "and the operator's own allow does not outvote it"
    )


def test_of_two_gates_the_stricter_one_wins(pretended: Lookout) -> None:
    for name in ("guard", "other"):
        pretended.guard(name=name)
    pretended.gate("guard", "other")
    pretended.says = lambda skill, event: {
        **event["context"],
        **({"decision": "ask"} if skill == "guard" else {}),
    }
    assert isinstance(pretended.boil(), Pending)
    pretended.says = lambda skill, event: {
        **event["context"],
        "decision": "ask" if skill == "guard" else "deny",
        "reason": skill,
    }
    assert refused(pretended.boil()) == "the gate hook of skill 'other' refuses: other"


def test_what_a_gate_hook_says_is_one_bounded_line_without_secrets(pretended: Lookout) -> None:
    pretended.guard()
    pretended.gate("guard")
    pretended.says = says(decision="deny", reason=f"api_key={SECRET}\n\x1b[31m{'x' * 5000}")
    said = refused(pretended.boil())
    assert SECRET not in said
    assert "\n" not in said and "\x1b" not in said
    assert len(said) < 300


def test_arguments_that_cannot_be_shown_whole_pass_no_gate(
    pretended: Lookout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.hooks.happening.MOST_PARAMS", 100)
    pretended.guard()
    pretended.gate("guard")
    assert isinstance(pretended.boil(), Completed)
    assert "cannot be shown arguments" in refused(pretended.boil(note="x" * 200))


@pytest.mark.parametrize(
    "given",
    [
        {"note": "secret=forbidden"},
        {"note": "password=forbidden_rm"},
        {"api_key": "forbidden"},
        {"note": "Bearer forbidden"},
    ],
    ids=["looks-like-one", "password", "called-one", "bearer"],
)
def test_nothing_that_looks_like_a_secret_is_hidden_from_a_gate(
    pretended: Lookout, given: dict[str, str]
) -> None:
    pretended.guard()
    pretended.gate("guard")

    def objects(_skill: str, event: dict[str, Any]) -> dict[str, Any]:
        context = event["context"]
        said = {"decision": "deny", "reason": "no"} if "forbidden" in str(context["params"]) else {}
        return {**context, **said}

    pretended.says = objects
    assert isinstance(pretended.boil(note="harmless"), Completed)
    assert refused(pretended.boil(**given)).endswith("refuses: no")
    assert pretended.boiled == 1


def test_what_a_gate_is_shown_is_masked_where_it_is_kept(pretended: Lookout) -> None:
    pretended.guard()
    pretended.gate("guard")
    assert isinstance(pretended.boil(api_key=SECRET, note=f"password={SECRET}"), Completed)
    (_, before, _) = pretended.events[0]
    assert before["context"]["params"] == {"cups": 2, "api_key": SECRET, "note": f"password={SECRET}"}
    for file in pretended.machine.state.rglob("state.db*"):
        assert SECRET.encode() not in file.read_bytes(), file


def test_what_is_shown_to_a_gate_alone_is_in_no_reason_that_it_gives(pretended: Lookout) -> None:
    """A reason stays on the record for good, and a key that is opaque looks like nothing in it."""
    pretended.guard()
    pretended.gate("guard")
    pretended.says = lambda _skill, event: {
        **event["context"],
        "decision": "deny",
        "reason": f"not with {event['context']['params']['api_key']} and {event['context']['params']['note'][9:17]}, {BOIL}",
    }
    said = refused(pretended.boil(api_key="opaque words", note="password=plainish, please"))
    assert said == f"the gate hook of skill 'guard' refuses: not with •••••••• and ••••••••, {BOIL}"


def test_a_gate_holds_for_people_too_and_for_whatever_is_taken_up_again(pretended: Lookout) -> None:
    pretended.guard()
    pretended.gate("guard")
    pretended.says = says(decision="deny", reason="no")
    assert refused(pretended.opened(lambda runtime: call_as_owner(runtime, BOIL, {"cups": 1})))
    assert pretended.boiled == 0


def test_a_gate_hook_that_hangs_is_given_up(pretended: Lookout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing, "SECONDS", 0.2)
    pretended.guard()
    pretended.gate("guard")
    pretended.says = lambda _skill, _event: anyio.sleep_forever()
    assert "did not end within 0.2 s" in refused(pretended.boil())


def test_explain_says_whose_gate_hooks_are_asked(pretended: Lookout) -> None:
    pretended.guard()
    pretended.gate("guard")
    explained = pretended.machine.json("explain", BOIL, '{"cups": 1}', "--json")
    (layer,) = [each for each in explained["layers"] if each["layer"] == "hooks"]
    assert (layer["decision"], layer["reasons"]) == (
        "abstain",
        ["asked when it is called: the gate hooks of guard"],
    )
    assert pretended.fired == []


# --- who looks on


def test_who_looks_on_is_told_before_and_after_with_secrets_masked(pretended: Lookout) -> None:
    pretended.guard()
    outcome = pretended.boil(api_key=SECRET)
    assert isinstance(outcome, Completed)
    assert pretended.fired == ["guard tool:before", "guard tool:after"]
    (_, before, _), (_, after, environment) = pretended.events
    assert before["context"]["toolName"] == BOIL
    assert before["context"]["params"] == {"cups": 2, "api_key": "••••••••"}
    assert before["context"]["callId"] == outcome.call_id
    assert after["context"]["outcome"] == "completed"
    assert json.loads(environment["CLAUDE_TOOL_OUTPUT"]) == {"cups": 2, "token": "••••••••"}


def test_the_word_of_one_that_looks_on_counts_for_nothing(pretended: Lookout) -> None:
    pretended.guard()
    pretended.says = says(decision="deny", reason="I am a gate")
    assert isinstance(pretended.boil(), Completed)


def test_a_gate_hook_is_asked_once_and_also_told_how_it_ended(pretended: Lookout) -> None:
    for name in ("guard", "other"):
        pretended.guard(name=name)
    pretended.gate("guard")
    assert isinstance(pretended.boil(), Completed)
    assert sorted(pretended.fired) == [
        "guard tool:after", "guard tool:before", "other tool:after", "other tool:before",
    ]  # fmt: skip


def test_one_that_fails_is_counted_and_keeps_nobody_else_from_being_told(
    pretended: Lookout, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a-broken", "guard"):
        pretended.guard(name=name)
    pretended.says = lambda skill, event: (
        Report(ending="out_of_memory") if skill == "a-broken" else event["context"]
    )

    async def act(runtime: Runtime) -> tuple[Outcome, Any]:
        return await runtime.call(BOIL, {"cups": 1}), runtime._engine.hooks

    outcome, hooks = pretended.opened(act)
    assert isinstance(outcome, Completed)
    assert hooks.failures == 2
    assert pretended.fired.count("guard tool:after") == 1
    assert "'a-broken' failed on tool:before: out_of_memory" in caplog.text


def test_the_outcome_waits_for_nobody_who_looks_on(pretended: Lookout) -> None:
    pretended.guard(text=hook_text('["tool:after"]'))
    may_go_on: list[anyio.Event] = []

    async def slow(event: Any) -> Any:
        may_go_on.append(anyio.Event())
        await may_go_on[-1].wait()
        return event["context"]

    pretended.says = lambda _skill, event: slow(event)

    async def act(runtime: Runtime) -> Outcome:
        outcome = await runtime.call(BOIL, {"cups": 1})
        with anyio.fail_after(10):
            while not may_go_on:
                await anyio.sleep(0.01)
        assert [each.event for each in pretended.records() if each.tool == BOIL][-1] == "skill_executed"
        may_go_on[-1].set()
        return outcome

    assert isinstance(pretended.opened(act), Completed)


def test_when_too_many_wait_the_rest_is_dropped_and_counted(
    pretended: Lookout, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(observers, "MOST_WAITING", 2)
    monkeypatch.setattr(firing, "_CLOSING", 0.05)
    pretended.guard(text=hook_text('["tool:after"]'))
    pretended.says = lambda _skill, _event: anyio.sleep_forever()

    async def act(runtime: Runtime) -> Any:
        for _ in range(8):
            assert isinstance(await runtime.call(BOIL, {"cups": 1}), Completed)
        return runtime._engine.hooks

    hooks = pretended.opened(act)
    assert hooks.observers.dropped == 8 - 2
    assert "were not told to them" in caplog.text


def test_a_call_that_is_refused_or_waits_is_told_to_nobody_as_ended(pretended: Lookout) -> None:
    pretended.guard()
    assert isinstance(pretended.opened(lambda runtime: runtime.call(BOIL, {"cups": "two"})), Refused)
    assert pretended.fired == []


# --- which hooks, and on what


def test_only_skills_that_a_person_trusts_have_their_hooks_fired(pretended: Lookout) -> None:
    pretended.guard(trusted=False)
    assert isinstance(pretended.boil(), Completed)
    assert pretended.fired == [], "that it lies in a folder of the operator's is no word for it"
    pretended.trust("guard")
    assert isinstance(pretended.boil(), Completed)
    assert len(pretended.fired) == 2
    pretended.configured('[skills]\ndisabled = ["guard"]\n')
    assert isinstance(pretended.boil(), Completed)
    pretended.configured("")
    pretended.write("guard/notes.md", "changed since\n")
    assert isinstance(pretended.boil(), Completed)
    assert len(pretended.fired) == 2


@pytest.mark.parametrize(
    ("text", "fired", "said"),
    [
        (None, ["tool:before", "tool:after"], ""),
        (hook_text('["tool"]'), ["tool:before", "tool:after"], ""),
        (hook_text('["tool:after", "message:received"]'), ["tool:after"], ""),
        (hook_text('["command:new", "tool:before"]'), ["tool:before"], ""),
        (hook_text('["command:new"]'), [], "none happens here"),
        (hook_text("[]"), [], "names no events"),
        ("no frontmatter at all\n", [], "cannot be read"),
        ("---\nname: [\n---\n", [], "HOOK.md"),
        (hook_text(more="enabled: false\n"), [], "not enabled"),
        (hook_text('["tool"], "os": ["darwin"]'), [], "for darwin only"),
        (hook_text('["tool"], "requires": {"bins": ["node"], "env": ["X"]}'), [], "it needs node, X"),
        (hook_text('["tool"], "export": "no good"'), [], "no name of a function"),
    ],
    ids=[
        "none", "type", "some", "foreign-too", "foreign", "empty", "no-text", "broken", "off", "system", "needs", "export",
    ],
)  # fmt: skip
def test_the_text_of_a_hook_says_on_what_it_is_fired(
    pretended: Lookout, caplog: pytest.LogCaptureFixture, text: str | None, fired: list[str], said: str
) -> None:
    pretended.guard(text=text)
    assert isinstance(pretended.boil(), Completed)
    assert pretended.fired == [f"guard {each}" for each in fired]
    assert said in caplog.text


def test_a_folder_of_hooks_without_a_text_brings_none_and_one_with_it_does(pretended: Lookout) -> None:
    pretended.guard(text=hook_text('["message"]'))
    pretended.write("guard/hooks/mine/handler.js", PASS)
    pretended.write("guard/hooks/deep/er/handler.js", PASS)
    pretended.trust("guard")
    pretended.boil()
    assert pretended.fired == []
    pretended.write("guard/hooks/mine/HOOK.md", hook_text('["tool:after"], "export": "seen"'))
    pretended.trust("guard")
    pretended.boil()
    assert pretended.fired == ["guard tool:after"]
    entry: Any = pretended.box.jobs[-1].entry
    assert (entry.path, entry.export) == ("hooks/mine/handler.js", "seen")


def test_a_skill_has_so_many_hooks_and_no_more(pretended: Lookout, caplog: pytest.LogCaptureFixture) -> None:
    pretended.guard(text=hook_text('["message"]'))
    for number in range(20):
        pretended.write(f"guard/hooks/h{number}/handler.js", PASS)
        pretended.write(f"guard/hooks/h{number}/HOOK.md", hook_text('["tool:after"]'))
    pretended.trust("guard")
    pretended.boil()
    assert len(pretended.fired) == 16
    assert "more than 16 hooks" in caplog.text


def test_reading_a_skill_and_running_a_hook_set_off_no_hooks(pretended: Lookout) -> None:
    pretended.guard()
    pretended.gate("guard")
    pretended.says = says(decision="deny", reason="no")
    read = pretended.opened(lambda runtime: runtime.call("read_skill", {"name": "kettle"}))
    assert isinstance(read, Completed), read
    assert pretended.fired == []
    refused(pretended.boil())
    assert pretended.fired == ["guard tool:before"], "and the firing itself fired nothing"


def test_a_gate_hook_sees_what_models_run_in_a_skill(pretended: Lookout) -> None:
    pretended.write("texts/SKILL.md", "---\nname: texts\ndescription: Has a script.\n---\n\nRun it.\n")
    pretended.write("texts/scripts/x.sh", "#!/bin/sh\necho x\n")
    pretended.trust("texts")
    pretended.guard()
    pretended.gate("guard")
    asked = {"name": "texts", "script": "scripts/x.sh"}
    assert isinstance(pretended.opened(lambda runtime: runtime.call("run_in_skill", asked)), Pending)
    pretended.says = says(decision="deny", reason="no scripts")
    assert refused(pretended.opened(lambda runtime: runtime.call("run_in_skill", asked))).endswith(
        "no scripts"
    )


# --- what it costs others


def test_hooks_use_up_nobody_elses_budget(pretended: Lookout) -> None:
    pretended.guard()
    pretended.configured('[hooks]\ngate = ["guard"]\n\n[budgets.principal]\ncalls = 4\nseconds = 86400\n')

    async def act(runtime: Runtime) -> list[Outcome]:
        mine = [await runtime.call(BOIL, {"cups": each}) for each in range(5)]
        return [*mine, await call_as_owner(runtime, BOIL, {"cups": 1})]

    *mine, owners = pretended.opened(act)
    assert [type(each) for each in mine] == [*[Completed] * 4, Refused], "the agent's own budget still counts"
    assert isinstance(owners, Completed), "what agents call does not use up what the owner may do"
    assert len(pretended.fired) == 4 * 2 + 2


def test_where_there_are_no_hooks_nobody_stands_around_calls(pretended: Lookout) -> None:
    async def act(runtime: Runtime) -> tuple[Any, Any]:
        assert isinstance(await runtime.call(BOIL, {"cups": 1}), Completed)
        return runtime._engine.house().around, runtime._engine.hooks

    around, hooks = pretended.opened(act)
    assert around is None
    assert hooks.observers.dropped == 0


def test_a_fault_of_ours_in_a_hook_ends_neither_the_call_nor_the_runtime(
    pretended: Lookout, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_given: Any, **_named: Any) -> Any:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(firing, "run_hook", broken)
    pretended.guard()
    with caplog.at_level(logging.WARNING):
        assert isinstance(pretended.boil(), Completed)
    assert "broke Metier" in caplog.text
    pretended.gate("guard")
    assert "a fault of Metier" in refused(pretended.boil())


def test_a_failure_is_told_with_its_code_and_its_words_masked(pretended: Lookout) -> None:
    pretended.guard(text=hook_text('["tool:after"]'))
    real = pretended.box._report

    async def fails(job: Any) -> Report:
        if "hook" in job.context:
            return await real(job)  # type: ignore[operator]
        return Report(ending="raised", fault=Fault(name="Error", message=f"password={SECRET}"))

    pretended.box._report = fails
    assert isinstance(pretended.boil(), Failed)
    ((_, event, environment),) = pretended.events
    assert (event["context"]["outcome"], event["context"]["error"]) == ("failed", "raised")
    assert SECRET not in environment["CLAUDE_TOOL_OUTPUT"]
    assert "password=" in environment["CLAUDE_TOOL_OUTPUT"]


def test_each_skill_is_told_in_order_and_a_slow_one_holds_up_no_other(pretended: Lookout) -> None:
    for name in ("quick", "slow"):
        pretended.guard(name=name)
    may_go_on: list[anyio.Event] = []

    async def slow(event: Any) -> Any:
        may_go_on.append(anyio.Event())
        await may_go_on[0].wait()
        return event["context"]

    pretended.says = lambda skill, event: slow(event) if skill == "slow" else event["context"]

    async def act(runtime: Runtime) -> None:
        for cups in range(3):
            assert isinstance(await runtime.call(BOIL, {"cups": cups}), Completed)
        with anyio.fail_after(20):
            while sum(each.startswith("quick") for each in pretended.fired) < 6:
                await anyio.sleep(0.01)
        assert pretended.fired.count("slow tool:before") == 1, "it is still at its first"
        may_go_on[0].set()

    pretended.opened(act)
    for name in ("quick", "slow"):
        told = [
            (each, event["context"]["params"]["cups"])
            for each, (skill, event, _) in zip(pretended.fired, pretended.events, strict=True)
            if skill == name
        ]
        wanted = [(f"{name} tool:{when}", cups) for cups in range(3) for when in ("before", "after")]
        assert told == wanted


def test_what_breaks_while_hooks_are_looked_for_is_a_no_where_one_has_to_agree(
    pretended: Lookout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: Any) -> Any:
        raise OSError("the disk is gone")

    pretended.guard()
    monkeypatch.setattr(firing, "installed", broken)
    assert isinstance(pretended.boil(), Completed), "who only looks on is not missed"
    pretended.gate("guard")
    assert "a fault of Metier" in refused(pretended.boil())


def test_a_call_that_a_gate_hook_had_asked_is_judged_by_it_again_when_it_is_taken_up(
    pretended: Lookout,
) -> None:
    pretended.guard()
    pretended.gate("guard")
    pretended.says = says(decision="ask", reason="look at it")

    async def act(runtime: Runtime) -> tuple[Outcome, Outcome]:
        ends: list[Outcome] = []
        for left in (says(decision="ask", reason="look at it"), says(decision="deny", reason="not any more")):
            pretended.says = says(decision="ask", reason="look at it")
            pending = await runtime.call(BOIL, {"cups": 1})
            assert isinstance(pending, Pending)
            with Database.open(pretended.machine.settings().database) as database:
                assert isinstance(
                    decide(database, pending.approval_id, by=DECIDER, decision="approve"), Approval
                )
            pretended.says = left
            ends.append(await runtime.resume(pending.approval_id))
        return ends[0], ends[1]

    ran, not_run = pretended.opened(act)
    assert isinstance(ran, Completed), "somebody's word answers what the hook asked"
    assert refused(not_run).endswith("refuses: not any more"), "and does not outvote its no"
    assert pretended.boiled == 1


def test_who_looks_on_is_told_of_a_call_once_it_runs_and_nothing_of_one_that_waits_or_is_denied(
    pretended: Lookout,
) -> None:
    pretended.guard()
    pretended.guard(name="other")
    pretended.gate("guard")
    pretended.says = lambda skill, event: (
        says(decision="ask", reason="look at it")(skill, event) if skill == "guard" else event["context"]
    )

    async def act(runtime: Runtime) -> None:
        for decision in ("deny", "approve"):
            pending = await runtime.call(BOIL, {"cups": 1})
            assert isinstance(pending, Pending)
            with Database.open(pretended.machine.settings().database) as database:
                word: Any = {"by": DECIDER, "decision": decision}
                assert isinstance(decide(database, pending.approval_id, **word), Approval)
            outcome = await runtime.resume(pending.approval_id)
            assert isinstance(outcome, Completed) is (decision == "approve")

    pretended.opened(act)
    others = [each for each in pretended.fired if each.startswith("other")]
    assert others == ["other tool:before", "other tool:after"]
    assert pretended.boiled == 1


def test_a_refusal_by_a_gate_hook_says_what_to_do(pretended: Lookout) -> None:
    pretended.guard()
    pretended.gate("guard")
    pretended.says = says(decision="deny", reason="no")
    outcome = pretended.boil()
    assert isinstance(outcome, Refused)
    assert "[hooks] gate in metier.toml" in outcome.remedy


# --- several around one call


class Says:
    """Somebody around calls who always says the same."""

    def __init__(self, word: Verdict | Refused | None) -> None:
        self.word = word
        self.heard: list[str] = []

    async def before(self, valid: Any) -> Verdict | Refused | None:
        self.heard.append("before")
        return self.word

    async def begins(self, valid: Any) -> None:
        self.heard.append("begins")

    def after(self, valid: Any, outcome: Any) -> None:
        self.heard.append("after")


def test_of_several_around_a_call_the_strictest_counts_and_after_a_no_nobody_else_is_asked() -> None:
    call: Any = None
    assert together() is None and together(None) is None
    one = Says(None)
    assert together(None, one) is one
    ask, deny, last = Says(Verdict.ask("look")), Says(Verdict.deny("no")), Says(Verdict.allow("yes"))
    both = together(ask, deny, last)
    assert both is not None
    assert anyio.run(both.before, call) == Verdict.deny("no")
    assert (ask.heard, deny.heard, last.heard) == (["before"], ["before"], [])
    refusal = Refused(call_id="1", code="forbidden", reasons=("instead",))
    both = together(ask, Says(refusal), last)
    assert both is not None
    assert anyio.run(both.before, call) is refusal
    assert last.heard == []
    both = together(one, last, ask)
    assert both is not None
    assert anyio.run(both.before, call) == Verdict.ask("look")
    anyio.run(both.begins, call)
    assert one.heard[-1] == last.heard[-1] == ask.heard[-1] == "begins"
    both.after(call, call)
    assert one.heard[-1] == last.heard[-1] == ask.heard[-1] == "after"


UNREAD_WORDS = {
    "returned": "export default async (e: any) => ({ decision: 'deny' });",
    "returned as the event": "export default async (e: any) => ({ context: { ...e.context, decision: 'deny' } });",
    "returned false": "export default async (e: any) => false;",
    "on the event": "export default async (e: any) => { e.decision = 'deny'; };",
    "not to be counted": "export default async (e: any) => { Object.defineProperty(e.context, 'decision', { value: 'deny' }); };",
    "inherited": "export default async (e: any) => { Object.setPrototypeOf(e.context, { decision: 'deny' }); };",
    "a symbol": "export default async (e: any) => { e.context[Symbol('decision')] = 'deny'; };",
    "failed and not waited for": "export default async (e: any) => { Promise.reject(new Error('no')); };",
    "failed late and not waited for": """export default async (e: any) => {
        (async () => {
            for (let turn = 0; turn < 40; turn++) await null;
            for (const began = Date.now(); Date.now() - began < 30; ) {}
            throw new Error('no');
        })();
    };""",
    "failed later and not waited for": "export default async (e: any) => { (async () => { await null; throw new Error('no'); })(); };",
}


@pytest.mark.parametrize("code", UNREAD_WORDS.values(), ids=UNREAD_WORDS)
def test_a_gate_hook_whose_no_stands_where_nobody_reads_it_refuses(lookout: Lookout, code: str) -> None:
    lookout.guard(code)
    lookout.gate("guard")
    assert refused(lookout.boil()).startswith("the gate hook of skill 'guard' failed: ")


def test_a_gate_hook_that_returns_nothing_and_leaves_nothing_has_no_objection(lookout: Lookout) -> None:
    lookout.guard("export default async (e: any) => { await null; };")
    lookout.gate("guard")
    assert isinstance(lookout.boil(), Completed)
