"""What Amber's document promises of a call and of the two skills that ship, from the model to the handler and the record."""

import importlib.util
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from metier.model.answer import NOT_DONE
from metier.model.outcome import Completed, Failed, Outcome, Run
from metier.runtime import Runtime
from metier.testing.gateway import FakeGateway
from phone import Phone, amber_skill

pytestmark = pytest.mark.slow
needs_calendar = pytest.mark.skipif(
    importlib.util.find_spec("icalendar") is None, reason="the extra `calendar` is not installed"
)
DAY = "2026-02-22"
LOOKUP = {"action": "lookup", "range": DAY}
TEA = {"action": "create", "title": "Tea", "start": f"{DAY}T10:00", "end": f"{DAY}T11:00"}
MESSAGE = {"message": "Call me back", "caller_name": "Ada", "confirmed": True}
FINE = 'module.exports = async () => ({ success: true, message: "all is well" });\n'


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    return Phone(tmp_path, monkeypatch)


@pytest.fixture
def gateway(phone: Phone) -> Iterator[FakeGateway]:
    with FakeGateway() as made:
        for name, value in {
            **made.environment,
            "OPERATOR_NAME": "Grace",
            "OPERATOR_TELEGRAM_ID": "1",
        }.items():
            phone.patch.setenv(name, value)
        yield made


def ran(outcome: Outcome) -> Run:
    assert isinstance(outcome, Completed | Failed) and outcome.run is not None, outcome
    return outcome.run


def asked_of_the_host(outcome: Outcome) -> set[str]:
    """What a run asked for, with the program where it was one; that nothing was refused it is checked on the way."""
    run = ran(outcome)
    assert (run.denials, run.violations, run.requests_unlisted) == ((), (), 0)
    return {
        f"exec {each.detail.split(',')[0]}" if each.method == "exec" else each.method for each in run.requests
    }


def records(phone: Phone, call_id: str) -> list[dict[str, Any]]:
    shown = phone.machine.metier("audit", "tail", "--call", call_id, "--json").stdout
    return [json.loads(line) for line in shown.splitlines()]


async def told(runtime: Runtime, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a model is answered that calls it in a runtime that stays open."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    (answer,) = await runtime.handle([{"id": "call_1", "type": "function", "function": function}])
    assert isinstance(answer["content"], str)
    return json.loads(answer["content"])


# --- what is shown to a model


def test_the_skills_are_there_from_the_start_and_among_the_tools_in_openais_shape(phone: Phone) -> None:
    phone.install("kettle", amber_skill("kettle", FINE, function_schema={
        "name": "boil_water", "description": "Boil it.", "parameters": {"type": "object", "properties": {}},
    }))  # fmt: skip

    async def work(runtime: Runtime) -> tuple[list[Any], dict[str, Any]]:
        return runtime.tools("openai"), await told(runtime, "boil_water")

    tools, answer = phone.open(work)
    assert {each["type"] for each in tools} == {"function"}
    shown = {each["function"]["name"]: each["function"] for each in tools}
    assert {"calendar_query", "send_message", "boil_water"} <= shown.keys()
    assert shown["boil_water"] == {
        "name": "boil_water",
        "description": "Boil it.",
        "parameters": {"type": "object", "properties": {}},
    }
    own = {"type": "function", "function": {"name": "ask_openclaw", "parameters": {"type": "object"}}}
    names = [each["function"]["name"] for each in (own, *tools)]
    assert len(set(names)) == len(names), "an agent's own tools go beside them"
    assert answer == {"response": "all is well", "success": True}, "found by the name of its function"


# --- the two skills that ship


@needs_calendar
def test_the_calendar_uses_its_program_and_its_log_and_nothing_else(phone: Phone) -> None:
    assert asked_of_the_host(phone.call("calendar_query", LOOKUP)) == {"exec ical-query"}
    assert asked_of_the_host(phone.call("calendar_query", TEA)) == {"exec ical-query", "call_log.write"}
    assert asked_of_the_host(phone.call("calendar_query", {"action": "create"})) == set()


@pytest.mark.parametrize("status", [200, 500])
def test_taking_a_message_uses_its_log_and_the_way_to_the_operator_and_nothing_else(
    phone: Phone, gateway: FakeGateway, status: int
) -> None:
    gateway.status = status
    outcome = phone.call("send_message", MESSAGE)
    assert asked_of_the_host(outcome) == {"call_log.write", "gateway.send_message"}


def test_a_skill_that_used_more_than_it_declared_would_be_seen(phone: Phone) -> None:
    reads = 'module.exports = async () => { try { Deno.readTextFileSync("/etc/passwd") } catch {} return { success: true } };'
    phone.install("reads", amber_skill("reads", reads))
    assert ran(phone.call("reads", {})).denials
    fetches = """
module.exports = async (params, context) => {
  await context.http.request({ url: "https://tea.invalid/" }).catch(() => 0);
  return { success: true };
};
"""
    phone.install("fetches", amber_skill("fetches", fetches, permissions={"network": False}))
    run = ran(phone.call("fetches", {}))
    assert [(each.method, each.answer) for each in run.requests] == [("http", "PermissionDenied (denied)")]


@needs_calendar
def test_a_lookup_needs_no_gateway_and_asks_none_that_is_there(phone: Phone, gateway: FakeGateway) -> None:
    outcome = phone.call("calendar_query", LOOKUP)
    assert isinstance(outcome, Completed), outcome
    assert [each.method for each in ran(outcome).requests] == ["exec"]
    assert gateway.requests == []
    assert isinstance(phone.call("send_message", MESSAGE), Completed)
    assert len(gateway.requests) == 1, "control: it would have been seen"


@needs_calendar
def test_a_lookup_is_about_today_tomorrow_the_week_or_one_date_and_about_today_if_nothing_is_said(
    phone: Phone,
) -> None:
    def today() -> datetime:
        return datetime.now(ZoneInfo("Europe/Berlin"))

    began = today()
    days = {offset: f"{began + timedelta(days=offset):%Y%m%d}" for offset in (-1, 0, 1, 5, 9)}
    events = "".join(
        f"BEGIN:VEVENT\r\nUID:{offset}@test\r\nDTSTAMP:20260101T000000Z\r\n"
        f"DTSTART;VALUE=DATE:{day}\r\nSUMMARY:day {offset}\r\nEND:VEVENT\r\n"
        for offset, day in days.items()
    )
    phone.write_calendar(f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\n{events}END:VCALENDAR\r\n")
    heard = {}
    date = f"{began + timedelta(days=9):%Y-%m-%d}"
    for words in ({}, {"range": "today"}, {"range": "tomorrow"}, {"range": "week"}, {"range": date}):
        said = phone.asked("calendar_query", {"action": "lookup", **words})
        assert said["success"] is True, said
        heard[words.get("range", "")] = {
            offset for offset in days if f"day {offset} " in f"{said['response']} "
        }
    if today().date() != began.date():
        pytest.skip("the day ended meanwhile")
    assert heard == {"": {0}, "today": {0}, "tomorrow": {1}, "week": {0, 1, 5}, date: {9}}


@needs_calendar
@pytest.mark.parametrize(
    "arguments", [{"action": "delete"}, {"action": "create", "title": "Tea"}, {**LOOKUP, "calendar": "../x"}]
)
def test_what_the_calendar_cannot_do_is_an_error_for_the_model_and_a_sentence_for_the_caller(
    phone: Phone, arguments: dict[str, Any]
) -> None:
    said = phone.asked("calendar_query", arguments)
    assert said["success"] is False
    assert said["error"]
    assert said["response"].endswith((".", "?"))
    assert "Error" not in said["response"] and "ical-query" not in said["response"]


def test_what_a_caller_says_is_cleaned_and_cut_on_its_way_to_the_log_and_to_the_operator(
    phone: Phone, gateway: FakeGateway
) -> None:
    given = {
        "message": "\u0007" + "m\u0000" * 1_500,
        "caller_name": "\u001b" + "n\u0001" * 300,
        "callback_number": "+\u0008" + "1\u001f" * 300,
    }
    outcome = phone.call("send_message", {**given, "confirmed": True})
    noted = phone.logged(outcome)[0]
    cut = ("m" * 1_000, "n" * 100, "+" + "1" * 19)
    assert (noted["message"], noted["caller_name"], noted["callback_number"]) == cut
    assert noted["urgency"] == "normal", "nobody said that it is urgent"
    (letter,) = gateway.messages
    assert all(part in letter for part in cut)
    assert not any(each < " " and each != "\n" for each in letter)
    for sign, part in zip("mn1", cut, strict=True):
        assert part + sign not in letter


# --- the handler and its context


def test_what_was_said_goes_to_the_model_and_the_raw_result_to_the_record(phone: Phone) -> None:
    handler = (
        'module.exports = async () => ({ success: true, message: "spoken", result: { leaves: "oolong-7" } });'
    )
    phone.install("kettle", amber_skill("kettle", handler))
    said = phone.asked("kettle", {})
    assert said == {"response": "spoken", "success": True}
    outcome = phone.call("kettle", {})
    (kept,) = [
        each["kept"]["result"]
        for each in records(phone, outcome.call_id)
        if each["event"] == "skill_executed"
    ]
    assert kept["result"] == {"leaves": "oolong-7"}


@pytest.mark.parametrize(
    ("returned", "code"),
    [
        (
            '{ success: false, error: "cold", message: "It is cold.", result: { leaves: "oolong-7" } }',
            "reported",
        ),
        ('{ success: "yes", result: { leaves: "oolong-7" } }', "bad_result"),
    ],
    ids=["says no", "another shape"],
)
def test_the_raw_result_goes_to_the_record_also_where_it_is_no_success(
    phone: Phone, returned: str, code: str
) -> None:
    phone.install("kettle", amber_skill("kettle", f"module.exports = async () => ({returned});"))
    assert "oolong-7" not in json.dumps(phone.asked("kettle", {}))
    outcome = phone.call("kettle", {})
    assert isinstance(outcome, Failed) and outcome.code == code, outcome
    last = records(phone, outcome.call_id)[-1]
    assert last["event"] == "skill_execution_error"
    assert last["kept"]["result"]["result"] == {"leaves": "oolong-7"}


@pytest.mark.parametrize("name", ["id", "callerId", "transcript"])
def test_nothing_of_the_call_can_be_written_over(phone: Phone, name: str) -> None:
    handler = """
"use strict";
module.exports = async ({ name }, context) => {
  const tried = [
    () => { context.call[name] = "forged"; },
    () => { delete context.call[name]; },
    () => { Object.defineProperty(context.call, name, { value: "forged" }); },
    () => { context.call = { [name]: "forged" }; },
    () => { Object.setPrototypeOf(context.call, { [name]: "forged" }); },
  ].map((act) => { try { act(); return "done"; } catch { return "refused"; } });
  return { success: true, result: [context.call[name], tried] };
};
"""
    parameters = {"type": "object", "properties": {"name": {"type": "string"}}}
    phone.install("shows", amber_skill("shows", handler, parameters))
    around = {"call_id": "CA12", "caller_id": "+4917112", "transcript": "hello?"}
    outcome = phone.call("shows", {"name": name}, **around)
    assert isinstance(outcome, Completed) and isinstance(outcome.value, dict), outcome
    told_ = {"id": "CA12", "callerId": "+4917112", "transcript": "hello?"}[name]
    assert outcome.value["result"] == [told_, ["refused"] * 5]


def test_every_invocation_has_a_context_of_its_own_and_nothing_of_the_one_before(phone: Phone) -> None:
    handler = """
let calls = 0;
module.exports = async (params, context) => {
  calls += 1;
  const before = [globalThis.left ?? null, Array.prototype.left ?? null, globalThis.kept === context];
  globalThis.left = Array.prototype.left = "something";
  globalThis.kept = context;
  try { before.push(Deno.readTextFileSync("left")); } catch { before.push(null); }
  Deno.writeTextFileSync("left", "something");
  return { success: true, message: JSON.stringify([calls, before, context.call.id]) };
};
"""
    phone.install("counts", amber_skill("counts", handler))

    async def work(runtime: Runtime) -> list[Any]:
        return [json.loads((await told(runtime, "counts"))["response"]) for _ in range(4)]

    seen = phone.open(work)
    assert [each[:2] for each in seen] == [[1, [None, None, False, None]]] * 4
    assert len({each[2] for each in seen}) == 4, "each is told of its own call"


# --- handlers that go wrong

WRONG: dict[str, str] = {
    "throws": 'throw new Error("kettle-9")',
    "throws nothing": "throw undefined",
    "throws a thing that cannot be shown": "throw { toString() { throw 1 }, get message() { throw 2 } }",
    "rejects": 'return Promise.reject("kettle-9")',
    "fails elsewhere": 'setTimeout(() => { throw new Error("kettle-9") }, 0); await new Promise(() => setTimeout(() => 0, 60000))',
    "leaves": "process.exit(0)",
    "leaves as the engine has it": "Deno.exit(3)",
    "goes too deep": "const f = () => f() + 1; f()",
    "never ends": "for (;;);",
    "never answers": "await new Promise(() => setTimeout(() => 0, 60000))",
    "waits for nothing": "await new Promise(() => 0)",
    "returns nothing": "",
    "returns a text": 'return "kettle-9"',
    "returns another shape": 'return { success: "yes", message: "kettle-9" }',
    "returns what is no JSON": "const it = { success: true }; it.it = it; return it",
    "returns far too much": 'return { success: true, message: "x".repeat(100_000_000) }',
    "says no and not why": "return { success: false }",
}


@pytest.mark.parametrize("at_once", [False, True], ids=["one after the other", "at once"])
def test_no_handler_brings_the_runtime_down_and_the_model_hears_a_sentence_each_time(
    phone: Phone, at_once: bool
) -> None:
    phone.install("fine", amber_skill("fine", FINE, timeout_ms=40_000))
    names = {f"wrong_{number}": how for number, how in enumerate(WRONG)}
    for name, how in names.items():
        handler = f"module.exports = async (params, context) => {{ {WRONG[how]} }};"
        phone.install(name, amber_skill(name, handler, timeout_ms=1500))
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for each in names
        for name in (each, "fine")
    ]

    async def work(runtime: Runtime) -> list[tuple[str, Any]]:
        groups = [calls] if at_once else [[each] for each in calls]
        answers = [answer for group in groups for answer in await runtime.handle(group)]
        return [(each["tool_call_id"], json.loads(each["content"])) for each in answers]

    answers = phone.open(work)
    assert [name for name, _ in answers] == [each["id"] for each in calls]
    for name, said in answers:
        if name == "fine":
            assert said == {"response": "all is well", "success": True}
            continue
        assert (said["success"], said["response"]) == (False, NOT_DONE), names[name]
        assert said["error"], names[name]
        assert str(phone.machine.top) not in said["error"]


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ('throw new Error("kettle-9")', "raised", "kettle-9"),
        ("for (;;);", "timed_out", "0.7"),
        (
            'return { success: false, error: "kettle-9", message: "The kettle is cold." }',
            "reported",
            "kettle-9",
        ),
    ],
    ids=["throws", "never ends", "says no"],
)
def test_a_failure_is_a_sentence_for_the_model_and_an_error_in_the_record(
    phone: Phone, body: str, code: str, words: str
) -> None:
    handler = f"module.exports = async () => {{ {body} }};"
    phone.install("kettle", amber_skill("kettle", handler, timeout_ms=700 if code == "timed_out" else 20_000))
    said = phone.asked("kettle", {})
    assert said["success"] is False
    assert said["response"] == ("The kettle is cold." if code == "reported" else NOT_DONE)
    outcome = phone.call("kettle", {})
    assert isinstance(outcome, Failed) and outcome.code == code, outcome
    last = records(phone, outcome.call_id)[-1]
    assert (last["event"], last["level"], last["code"]) == ("skill_execution_error", "error", code)
    assert words in last["kept"]["message"]
