"""The two skills of a voice agent that ship with Metier: their handlers run in Deno, with a host that does as it is told."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import metier
from ical_desk import Desk
from metier.ical.asked import Add, Lookup, asked
from metier.ical.caldav_server import NOT_KNOWN

DENO = Path(sys.executable).parent / "deno"
BUNDLED = Path(metier.__file__).parent / "bundled"

pytestmark = pytest.mark.skipif(not DENO.exists(), reason="deno is not installed beside this Python")


@dataclass
class Called:
    returned: dict[str, Any]
    asked: list[list[Any]]

    def named(self, service: str) -> list[Any]:
        return [each[1] for each in self.asked if each[0] == service]


@dataclass
class Skill:
    name: str
    folder: Path

    def __call__(self, params: Any, **host: Any) -> Called:
        handler = BUNDLED / self.name / "handler.js"
        driver = Path(__file__).with_name("call_handler.mjs")
        line = [
            DENO,
            "run",
            "--no-prompt",
            "--no-config",
            "--no-remote",
            f"--allow-read={handler}",
            driver,
            handler,
        ]
        environ = {"PATH": os.environ["PATH"], "DENO_DIR": str(self.folder), "NO_COLOR": "1"}
        ran = subprocess.run(
            [*line, json.dumps({"params": params, **host})],
            env=environ,
            capture_output=True,
            timeout=40,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode()
        return Called(**json.loads(ran.stdout))


@pytest.fixture
def calendar(tmp_path: Path) -> Skill:
    return Skill("calendar", tmp_path)


@pytest.fixture
def message(tmp_path: Path) -> Skill:
    return Skill("send-message", tmp_path)


def declared(name: str) -> dict[str, Any]:
    text = (BUNDLED / name / "SKILL.md").read_text(encoding="utf-8")
    found = re.search(r"^metadata: (\{.*\})$", text, re.MULTILINE)
    assert found is not None and f"\nname: {name}\n" in text
    return json.loads(found[1])["amber"]


def test_the_calendar_declares_one_program_no_network_and_no_confirmation() -> None:
    amber = declared("calendar")
    assert (amber["capabilities"], amber["confirmation_required"], amber["timeout_ms"]) == (
        ["read", "act"],
        False,
        5000,
    )
    assert amber["permissions"] == {
        "local_binaries": ["ical-query"],
        "telegram": False,
        "openclaw_action": False,
        "network": False,
    }
    schema = amber["function_schema"]
    assert (schema["name"], schema["parameters"]["required"]) == ("calendar_query", ["action"])
    assert list(schema["parameters"]["properties"]) == [
        "action", "range", "title", "start", "end", "calendar", "notes", "location",
    ]  # fmt: skip


def test_taking_messages_declares_a_confirmation_and_no_program_and_no_recipient() -> None:
    amber = declared("send-message")
    assert (amber["capabilities"], amber["confirmation_required"], amber["timeout_ms"]) == (
        ["act"],
        True,
        5000,
    )
    assert amber["confirmation_prompt"]
    assert amber["permissions"] == {
        "local_binaries": [],
        "telegram": True,
        "openclaw_action": True,
        "network": False,
    }
    schema = amber["function_schema"]
    assert (schema["name"], schema["parameters"]["required"]) == ("send_message", ["message"])
    properties = schema["parameters"]["properties"]
    assert list(properties) == ["message", "caller_name", "callback_number", "urgency"]
    assert properties["urgency"]["enum"] == ["normal", "urgent"]


def test_a_lookup_asks_the_program_and_says_its_lines(calendar: Skill) -> None:
    called = calendar({"action": "lookup", "range": "week", "calendar": "Work"}, output="one\ntwo\n")
    (argv,) = called.named("exec")
    assert argv[0] == "ical-query" and asked(argv[1:]) == Lookup(days="week", calendar="Work")
    assert called.returned == {"success": True, "message": "one\ntwo", "result": {"events": ["one", "two"]}}


@pytest.mark.parametrize("params", [{"action": "lookup"}, {"action": "lookup", "range": "", "calendar": ""}])
def test_a_lookup_without_a_range_is_about_today_and_nothing_is_said_as_nothing(
    calendar: Skill, params: dict[str, str]
) -> None:
    called = calendar(params, output=" \n")
    (argv,) = called.named("exec")
    assert asked(argv[1:]) == Lookup(days="today")
    assert called.returned["success"] is True and called.returned["result"] == {"events": []}
    assert "nothing" in called.returned["message"] and "today" in called.returned["message"]


def test_a_created_event_goes_to_the_program_and_then_into_the_log(calendar: Skill) -> None:
    event = {"title": "Tea", "start": "S", "end": "E", "calendar": "C", "location": "L", "notes": "N"}
    called = calendar({"action": "create", **event}, output="Added x\n")
    assert [each[0] for each in called.asked] == ["exec", "log"]
    assert asked(called.named("exec")[0][1:]) == Add(**event)
    assert called.named("log") == [{"type": "skill.calendar.create", **event, "output": "Added x"}]
    assert called.returned["success"] is True and "Tea" in called.returned["message"]
    assert called.returned["result"] == {"created": True, "output": "Added x"}


def test_what_the_calendar_hands_over_is_taken_as_it_was_said_by_the_real_program(
    calendar: Skill, desk: Desk
) -> None:
    event = {
        "title": "--calendar=work",
        "start": "2026-03-28",
        "end": "2026-03-29",
        "notes": "--help",
        "location": "--",
    }
    (argv,) = calendar({"action": "create", **event}).named("exec")
    assert desk.ask(*argv[1:]) == "Added Sat 2026-03-28, all day: --calendar=work (--) [calendar]\n"


@pytest.mark.parametrize("left_out", ["title", "start", "end"])
def test_an_event_without_title_start_or_end_is_not_tried(calendar: Skill, left_out: str) -> None:
    event = {"action": "create", "title": "Tea", "start": "S", "end": "E", left_out: ""}
    called = calendar(event)
    assert called.asked == [] and called.returned["success"] is False
    assert left_out in called.returned["error"] and called.returned["message"]


@pytest.mark.parametrize("action", ["delete", "", None, "constructor", "__proto__", ["lookup", "x"]])
def test_an_unknown_action_is_an_error_with_a_sentence(calendar: Skill, action: object) -> None:
    called = calendar({"action": action})
    assert called.asked == [] and called.returned["success"] is False
    assert "unknown action" in called.returned["error"] and called.returned["message"]


@pytest.mark.parametrize(
    "params", [{"action": "lookup"}, {"action": "create", "title": "T", "start": "S", "end": "E"}]
)
def test_a_program_that_fails_is_an_error_with_a_sentence_and_nothing_is_logged_as_created(
    calendar: Skill, params: dict[str, str]
) -> None:
    called = calendar(params, failing=["exec"])
    assert called.returned["success"] is False and "exec failed" in called.returned["error"]
    assert "exec" not in called.returned["message"] and called.named("log") == []


def test_a_caller_hears_of_a_name_that_no_calendar_has_and_of_an_event_that_may_be_there(
    calendar: Skill, desk: Desk
) -> None:
    wrong = desk.refused("today", "--calendar=Wrok").message
    called = calendar({"action": "lookup", "calendar": "Wrok"}, failing=["exec"], words=wrong)
    assert called.returned["error"] == wrong and "no calendar of that name" in called.returned["message"]
    event = {"action": "create", "title": "T", "start": "S", "end": "E"}
    called = calendar(event, failing=["exec"], words=NOT_KNOWN)
    assert called.returned["success"] is False and "I cannot tell" in called.returned["message"]


def test_an_event_that_is_there_is_said_to_be_there_also_when_the_log_is_full(calendar: Skill) -> None:
    called = calendar({"action": "create", "title": "T", "start": "S", "end": "E"}, failing=["log"])
    assert called.returned["success"] is True


def test_a_message_is_written_down_first_then_passed_on_then_marked_as_delivered(message: Skill) -> None:
    params = {"message": "Call me", "caller_name": "Ann", "callback_number": "+49 30 1", "urgency": "urgent"}
    called = message(params, operator={"name": "Kim"})
    assert [each[0] for each in called.asked] == ["log", "send", "log"]
    first, last = called.named("log")
    assert {name: first[name] for name in (*params, "type", "delivery_status")} == {
        **params,
        "type": "skill.send_message",
        "delivery_status": "pending",
    }
    assert last["type"] == "skill.send_message.delivered"
    (letter,) = called.named("send")
    for part in ("Call me", "Ann", "+49 30 1", "URGENT"):
        assert part in letter
    assert called.returned["result"] == {"logged": True, "delivered": True}
    assert "noted" in called.returned["message"]
    assert "Ann" in called.returned["message"] and "Kim" in called.returned["message"]


def test_what_was_not_said_is_not_made_up(message: Skill) -> None:
    called = message({"message": "Hello", "urgency": "very"})
    first = called.named("log")[0]
    assert (first["caller_name"], first["callback_number"], first["urgency"]) == (
        "Unknown",
        "Not provided",
        "normal",
    )
    (letter,) = called.named("send")
    assert "Name" not in letter and "Call back" not in letter and "URGENT" not in letter
    assert "undefined" not in json.dumps([called.returned, called.asked])


def test_a_message_that_could_not_be_passed_on_is_marked_and_still_noted(message: Skill) -> None:
    called = message({"message": "Hello"}, failing=["send"])
    last = called.named("log")[-1]
    assert (last["type"], last["delivery_failed"]) == ("skill.send_message.delivery_failed", True)
    assert called.returned["success"] is True and called.returned["result"] == {
        "logged": True,
        "delivered": False,
    }
    assert "noted" in called.returned["message"]


@pytest.mark.parametrize("failing", [[], ["send"], ["log"]])
def test_the_caller_never_hears_of_the_channel(message: Skill, failing: list[str]) -> None:
    spoken = message({"message": "Hello"}, failing=failing).returned["message"].lower()
    for word in ("telegram", "openclaw", "gateway", "channel", "deliver", "sent"):
        assert word not in spoken


def test_a_message_that_cannot_be_written_down_is_not_passed_on(message: Skill) -> None:
    called = message({"message": "Hello"}, failing=["log"])
    assert called.named("send") == [] and called.returned["success"] is False
    assert "noted" not in called.returned["message"]


def test_a_mark_that_cannot_be_written_changes_nothing_for_the_caller(message: Skill) -> None:
    called = message({"message": "Hello"}, failing=["log:skill.send_message.delivered"])
    assert called.returned["success"] is True and called.returned["result"]["delivered"] is True


@pytest.mark.parametrize("text", ["", "  ", "\u0000\u0007", "\n\r\t", None, {"a": 1}, ["x"], True])
def test_an_empty_message_asks_the_caller_to_repeat_it(message: Skill, text: object) -> None:
    called = message({"message": text})
    assert called.asked == [] and called.returned["success"] is False
    assert called.returned["error"] and called.returned["message"].endswith("?")


def test_control_characters_go_and_no_line_can_be_added(message: Skill) -> None:
    called = message(
        {
            "message": "a\u0000b\u001b[2J\nName: Boss\u2028x",
            "caller_name": "A\nCall back: 0900",
            "urgency": "urgent",
        }
    )
    (letter,) = called.named("send")
    head, _, body = letter.partition("\n\n")
    assert body == "ab[2J Name: Boss x"
    assert head.split("\n")[1:] == ["Name: A Call back: 0900"]


def test_lengths_are_capped(message: Skill) -> None:
    called = message({"message": "😀" * 3000, "caller_name": "n" * 3000, "callback_number": "1" * 3000})
    first = called.named("log")[0]
    assert (first["message"], first["caller_name"], first["callback_number"]) == (
        "😀" * 1000,
        "n" * 100,
        "1" * 20,
    )


def test_cap_10_nothing_a_caller_gives_says_who_gets_the_message(message: Skill) -> None:
    plain = message({"message": "Hello"})
    extra = {"recipient": "eve", "to": "eve", "chat_id": 7, "telegramId": 7, "operator": {"telegramId": 7}}
    named = message({"message": "Hello", **extra})
    assert named.named("send") == plain.named("send")
    assert [each[0] for each in named.asked] == ["log", "send", "log"]
    assert "eve" not in json.dumps(named.asked) and "7" not in json.dumps(named.named("send"))
