"""Whatever is asked, the answer is a value with a code and reasons, and it is in the record: once.

`METIER_BAD_CALLS` says how many calls are made up.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import metier.gate.schema as schema
import metier.gate.validate as validate
from bad_calls import CALLS, TOOLS
from fit import misfit
from hall import Hall
from machine import Machine, write_skill
from metier import Completed, Failed, Refused, SyncRuntime
from metier.model.outcome import Outcome
from metier.model.settled import settled
from naughty import ALL, NAUGHTY

MANY = int(os.environ.get("METIER_BAD_CALLS", "5000"))
AT_ONCE = 10

MISFITS: dict[str, tuple[str, Any]] = {
    "a wrong type": ("note", {"title": 7}),
    "something missing": ("note", {"count": 1}),
    "too many": ("note", {"title": "x", "tags": list("abcdef")}),
    "a name nobody knows": ("nothing", {"extra": 1}),
    "a name nobody knows in an object": ("trip", {"start": {"name": "x", "extra": 1}}),
    "one deeper": ("trip", {"start": {"at": {"x": 1, "z": 2}}}),
    "one in a list": ("trip", {"stops": [{"name": "x"}, {"nom": "y"}]}),
    "a schema that lies elsewhere": ("unusable", {}),
}
"""What no gate may let through, by tool and arguments."""


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path)
    yield made
    made.database.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_aud_20_every_bad_call_is_refused_with_a_reason_and_is_exactly_one_record(hall: Hall) -> None:
    @settings(
        max_examples=max(MANY // AT_ONCE, 1),
        deadline=None,
        database=None,
        phases=[
            Phase.generate
        ],  # a fault says what was asked, and all share one hall: nothing to make smaller
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(CALLS, min_size=AT_ONCE, max_size=AT_ONCE))
    def ask(asked: list[tuple[str, Any]]) -> None:
        anyio.run(hall.ask, asked)

    anyio.run(hall.ask, list(MISFITS.values()))  # chance need not find these
    ask()
    assert hall.asked >= MANY * 9 // 10
    assert hall.recorded() == hall.expected
    rare = {"confirmation_required"} if hall.asked < 2_000 else set[str]()
    ends = {"completed", "invalid_arguments", "unknown_tool", "confirmation_required"}
    assert ends - rare <= set(hall.ends) <= ends, "every end is met, and no other"
    assert min(hall.ends["completed"], hall.ends["invalid_arguments"]) > hall.asked // 20


@pytest.mark.parametrize("case", MISFITS)
def test_aud_20_what_does_not_fit_the_schema_of_a_tool_is_refused(hall: Hall, case: str) -> None:
    [outcome] = anyio.run(hall.ask, [MISFITS[case]])
    assert code_of(outcome) == "invalid_arguments"


@pytest.mark.parametrize("case", MISFITS)
def test_aud_20_a_gate_that_lets_it_through_is_found_out(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(validate, "_unfit", lambda _arguments, _tool: "")
    with pytest.raises(AssertionError, match="was not refused"):
        anyio.run(hall.ask, [MISFITS[case]])


@pytest.mark.parametrize("case", [each for each in MISFITS if MISFITS[each][0] == "trip"])
def test_aud_20_a_gate_that_leaves_inner_objects_open_is_found_out(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(schema, "close_nested", lambda *_, **__: None)
    schema._validator.cache_clear()
    try:
        with pytest.raises(AssertionError, match="was not refused"):
            anyio.run(hall.ask, [MISFITS[case]])
    finally:
        schema._validator.cache_clear()


@pytest.mark.slow
@settings(max_examples=1_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(CALLS)
def test_two_readings_of_a_schema_agree(asked: tuple[str, Any]) -> None:
    name, given = asked
    tool = next((each for each in TOOLS if each.name == name), None)
    if tool is None or tool.confirmation is not None or not isinstance(given, dict):
        return
    try:
        arguments = settled(given)
        said = schema.problem_with(tool.parameters, arguments)
    except ValueError:
        return  # nothing for a schema to judge, or no schema to judge it with
    assert bool(misfit(tool.parameters, given)) == bool(said), said


# --- the naughty strings, in every text field of the doors there are


def test_there_are_naughty_strings_of_many_kinds() -> None:
    assert len(NAUGHTY) >= 20
    assert len(set(ALL)) > 200


def test_inj_14_naughty_strings_in_names_keys_and_values_of_a_call_are_answered_with_a_value(
    hall: Hall,
) -> None:
    asked: list[tuple[str, Any]] = []
    for text in ALL:
        asked += [(text, {}), ("open", {"v": text}), ("open", {text: 1}), ("open", {"v": [{"w": text}]})]
        asked += [
            ("message", {"text": text}),
            ("read", {"path": text}),
            ("agent", {"agent": text}),
            ("note", text),
        ]
    outcomes = anyio.run(hall.ask, asked)
    assert hall.recorded() == hall.expected
    for (tool, arguments), outcome in zip(asked, outcomes, strict=True):
        if tool == "open" and isinstance(arguments.get("v"), str):
            refused = any(ord(each) < 0x20 and each not in "\t\n\r" for each in arguments["v"])
            refused = refused or any(
                "\ud800" <= each <= "\udfff" or each == "\x7f" for each in arguments["v"]
            )
            assert isinstance(outcome, Refused) == refused, "it is taken as it is, or refused; never changed"
        if tool in ("read", "agent"):
            assert isinstance(outcome, Refused), "none of them is a path inside, or an agent"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    write_skill(made.skills / "tea")
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.delenv("METIER_HOME", raising=False)
    return made


EXPECTED = {"unknown_tool", "unknown_skill", "invalid_arguments", "not_found", "budget_exceeded"}


def code_of(outcome: Outcome) -> str:
    if isinstance(outcome, Completed):
        return "completed"
    assert isinstance(outcome, Refused | Failed), outcome
    return outcome.code


@pytest.mark.slow
def test_inj_14_naughty_strings_through_the_library_are_answered_with_a_value(machine: Machine) -> None:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        for text in ALL:
            for tool, arguments in (
                (text, {}),
                ("read_skill", {"name": text}),
                ("read_skill", {"name": "tea", text: text}),
                ("read_skill", text),
            ):
                assert code_of(runtime.call(tool, arguments)) in EXPECTED
        assert code_of(runtime.call("read_skill", {"name": "tea"})) == "completed", "and it still works"


def shaped_calls(call_id: str, name: str, arguments: str, value: Any) -> list[dict[str, Any]]:
    return [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}},
        {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments},
        {"type": "tool_use", "id": call_id, "name": name, "input": value},
        {"method": "tools/call", "id": call_id, "params": {"name": name, "arguments": value}},
    ]


def said_in(message: dict[str, Any]) -> str:
    content = message.get("output", message.get("content"))
    while isinstance(content, list):
        [block] = content
        content = block.get("text", block.get("content"))
    assert isinstance(content, str)
    return content


@pytest.mark.slow
def test_inj_14_naughty_strings_in_a_models_tool_calls_are_answered_in_its_own_shape(
    machine: Machine,
) -> None:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        for text in ALL:
            written = json.dumps({"name": text, "extra": text})
            for call_id, name, arguments, value in (
                (text, "read_skill", written, {"name": text, "extra": text}),
                ("c1", text, "{}", {}),
                ("c1", "read_skill", text, {text: text}),
            ):
                for call in shaped_calls(call_id, name, arguments, value):
                    [answer] = runtime.handle([call])
                    assert json.loads(said_in(answer))["error"] in EXPECTED
                    given_back = answer.get("tool_call_id", answer.get("call_id", call_id))
                    assert given_back == call_id, "ids come back as they were"


@pytest.mark.slow
def test_inj_14_naughty_strings_at_the_terminal_are_answered_without_a_traceback(machine: Machine) -> None:
    picked = [texts[0] for texts in NAUGHTY.values()] + ["\x1b[2J", "-rf", "--help", "\u202eabc", "[" * 1_000]
    for text in picked:
        half = any("\ud800" <= each <= "\udfff" for each in text)
        done = machine.metier("call", "read_skill", "-", check=3, stdin=json.dumps({"name": text}))
        assert "nothing ran" in done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        if "\x00" not in text and not half:  # what no command line can hold
            done = machine.metier("call", "--", text, "{}", check=3)
            assert done.stderr.startswith("Refused (unknown_tool)")
            done = machine.metier("call", "--", "read_skill", text, check=None)
            assert done.returncode in (2, 3)


NOT_STRICT: dict[str, Any] = {
    '{"name": NaN}': {"name": float("nan")},
    '{"name": 9007199254740992}': {"name": 2**53},
    '{"name": {"a": [1e400]}}': {"name": {"a": [float("inf")]}},
    '{"name": "\\ud800"}': {"name": "\ud800"},
    '{"name": ' + "[" * 40 + "]" * 40 + "}": {"name": json.loads("[" * 40 + "]" * 40)},
    json.dumps({"name": "x" * 1_048_576}): {"name": "x" * 1_048_576},
    '{"name": "tea", "name": "tea"}': None,
    '{"name": "tea"} {}': None,
}


@pytest.mark.slow
def test_parse_11_no_door_lets_in_what_is_not_strict_json(machine: Machine) -> None:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        for text, value in NOT_STRICT.items():
            for call in shaped_calls("c1", "read_skill", text, value if value is not None else text):
                [answer] = runtime.handle([call])
                assert json.loads(said_in(answer))["error"] == "invalid_arguments"
            if value is not None:
                assert code_of(runtime.call("read_skill", value)) == "invalid_arguments"
    for text in NOT_STRICT:
        done = machine.metier("call", "read_skill", "-", check=3, stdin=text)
        assert "not strict JSON" in done.stderr
    for control in ("\x00", "\x1b", "\x7f"):
        given = json.dumps({"name": f"te{control}a"})
        done = machine.metier("call", "read_skill", "-", check=3, stdin=given)
        assert "control character" in done.stderr
    assert "Do it." in machine.metier("call", "read_skill", '{"name": "tea"}').stdout
