"""`metier messages undelivered`: what waits for the operator, as a person and as a program reads it."""

import json
from typing import Any

import anyio

from machine import Machine
from metier.doors.cli import exits
from metier.host.call_log import CallLog

ID = "call_0123456789abcdef01234567"


def write(machine: Machine, *entries: dict[str, Any], call: str = ID) -> None:
    async def main() -> None:
        for entry in entries:
            assert await CallLog(str(machine.state), call, "send-message").append(entry) is None

    anyio.run(main)


def test_nothing_undelivered_is_said_and_is_in_order(machine: Machine) -> None:
    done = machine.metier("messages", "undelivered")
    assert (done.stdout, "was delivered" in done.stderr) == ("", True)
    assert machine.metier("messages", "undelivered", "--json").stdout == ""


def test_an_undelivered_message_is_shown_with_what_to_do_about_it(machine: Machine) -> None:
    note = {
        "message": "call\nme \x1b[31m back",
        "caller_name": "Bob",
        "callback_number": "0171",
        "urgency": "urgent",
    }
    write(
        machine,
        {"type": "skill.send_message", **note},
        {"type": "skill.send_message.delivery_failed", "error": "The gateway is down"},
    )
    done = machine.metier("messages", "undelivered", check=exits.PROBLEM)
    first, second = done.stdout.splitlines()
    assert first.startswith("URGENT 20")
    assert "Bob (0171): call me \\u{1b}[31m back" in first
    assert "The gateway is down" in second
    assert f"metier calls log {ID}" in second


def test_programs_get_one_object_a_line(machine: Machine) -> None:
    for number in range(2):
        write(machine, {"type": "skill.send_message", "message": f"m{number} ü"}, call=f"call_{number}")
    done = machine.metier("messages", "undelivered", "--json", check=exits.PROBLEM)
    assert done.stdout.isascii()
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["message"], each["state"], each["call_id"]) for each in found] == [
        ("m0 ü", "unknown", "call_0"),
        ("m1 ü", "unknown", "call_1"),
    ]


def test_a_message_that_the_operator_has_is_taken_off_the_list_and_that_is_on_the_record(
    machine: Machine,
) -> None:
    note = {"type": "skill.send_message", "message": "call me back"}
    machine.metier("trust", "set", "suggest")  # there is a state
    write(machine, note, note)
    write(machine, note, call="call_2")
    shown = machine.metier("messages", "undelivered", check=exits.PROBLEM)
    assert shown.stdout.count("call me back") == 3
    assert "metier messages done" in shown.stderr
    assert "2 messages are no longer listed" in machine.metier("messages", "done", ID).stdout
    left = machine.metier("messages", "undelivered", "--json", check=exits.PROBLEM).stdout
    assert [json.loads(line)["call_id"] for line in left.splitlines()] == ["call_2"]
    machine.metier("messages", "done", "call_2")
    machine.metier("messages", "undelivered")
    records = [json.loads(line) for line in machine.metier("audit", "tail", "--json").stdout.splitlines()]
    assert [(each["event"], each["call_id"]) for each in records[1:]] == [
        ("message_done", ID),
        ("message_done", "call_2"),
    ]
    assert all(each["principal"].startswith("human:") for each in records)
    assert "nothing changed" in machine.metier("audit", "verify").stdout


def test_only_what_is_on_the_list_can_be_taken_off_it(machine: Machine) -> None:
    write(machine, {"type": "skill.send_message", "message": "x"}, {"type": "skill.send_message.delivered"})
    for call in (ID, "call_2", "../x", "", "ü"):
        assert "undelivered" in machine.metier("messages", "done", call, check=exits.USAGE).stderr
    assert not (machine.state / "state.db").exists(), "and nothing was written"


def test_where_nothing_is_kept_that_is_said(machine: Machine) -> None:
    machine.state.mkdir()
    (machine.state / "metier.toml").write_text('[audit]\npayloads = "hashes"\n', encoding="utf-8")
    assert "hashes" in machine.metier("messages", "undelivered").stderr


def test_a_log_that_cannot_be_read_is_no_good_news(machine: Machine) -> None:
    write(machine, {"type": "skill.send_message.delivered"})
    (machine.state / "calls" / f"{ID}.jsonl").write_text("changed\n", encoding="utf-8")
    done = machine.metier("messages", "undelivered", check=exits.PROBLEM)
    assert "was changed" in done.stderr
    assert "was delivered" not in done.stderr
