"""`metier channels` and `metier conversations`: what was said, what did not arrive, trying again and erasing."""

import json
import time
from typing import Any

import anyio
import pytest

from machine import Machine
from metier import Runtime
from metier.doors.cli import exits
from metier.kernel.channel_rows import configure, put_channel
from metier.kernel.channel_rules import Channel
from metier.kernel.store import Store
from metier.model.outcome import Completed
from metier.runtime.as_owner import call_as_owner

PLANTED = "123456:AAabcdefghijklmnopqrstuvwxyz0123456789"


def said(machine: Machine, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Have these messages come in or go out, through the whole gate."""

    async def main() -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        async with Runtime.open(home=str(machine.state), project=str(machine.project)) as runtime:
            for each in messages:
                tool = "channels.route_inbound_message" if "message_id" in each else "channels.send_message"
                outcome = await call_as_owner(runtime, tool, {"channel": "telegram", "chat_id": 42, **each})
                assert isinstance(outcome, Completed), outcome
                answers.append(outcome.value)  # pyright: ignore[reportArgumentType]
        return answers

    return anyio.run(main)


def failed(machine: Machine, id: int, why: str) -> None:
    store = Store(str(machine.state))
    with store.writing() as connection:
        connection.execute(
            "UPDATE message SET state = 'failed', attempts = 3, error = ? WHERE id = ?", (why, id)
        )
    store.close()


def test_nothing_was_said_yet(machine: Machine) -> None:
    assert "no conversations" in machine.metier("conversations", "list").stderr
    assert "was sent" in machine.metier("conversations", "undelivered").stderr
    assert "No skill has a channel" in machine.metier("channels", "list").stderr
    assert (
        "There is no conversation 7" in machine.metier("conversations", "show", "7", check=exits.USAGE).stderr
    )
    assert not (machine.state / "kernel.db").exists(), "looking makes nothing"


def test_conversations_are_listed_and_shown_with_what_became_of_each_message(machine: Machine) -> None:
    said(machine, {"message_id": 1, "author": 5, "text": "two\nlines \u202e!"}, {"text": "answer"})
    (row,) = machine.metier("conversations", "list").stdout.splitlines()
    assert row.split()[:3] == ["1", "telegram", "42"]
    shown = machine.metier("conversations", "show", "1").stdout
    assert "→ 5 [received]: two\n    lines \\u{202e}!" in shown
    assert "[waiting]: answer" in shown
    done = machine.metier("conversations", "show", "1", "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["direction"], first["channel_message_id"], first["text"]) == (
        "in",
        "1",
        "two\nlines \u202e!",
    )
    assert (second["direction"], second["state"]) == ("out", "waiting")
    assert done.stdout.isascii()


def test_sec_02_what_looks_like_a_secret_is_masked_where_conversations_are_shown(machine: Machine) -> None:
    said(machine, {"message_id": 1, "text": f"my token is {PLANTED}"})
    for command in (("list",), ("show", "1"), ("show", "1", "--json")):
        done = machine.metier("conversations", *command)
        assert PLANTED not in done.stdout + done.stderr
    assert "••••••••" in machine.metier("conversations", "show", "1").stdout


def test_what_did_not_arrive_is_listed_with_the_reason_and_tried_again(machine: Machine) -> None:
    (sent,) = said(machine, {"text": "hello"})
    failed(machine, sent["message_id"], "bot was blocked")
    done = machine.metier("conversations", "undelivered", check=exits.PROBLEM)
    assert "telegram 42:" in done.stdout
    assert "3 attempts, bot was blocked" in done.stdout
    machine.metier("conversations", "retry", str(sent["message_id"]))
    (row,) = machine.metier("conversations", "undelivered", "--json", check=exits.PROBLEM).stdout.splitlines()
    assert json.loads(row)["state"] == "waiting"
    refused = machine.metier("conversations", "retry", "999", check=exits.PROBLEM)
    assert "no message 999 failed or waits" in refused.stderr


def test_what_was_said_is_erased_here_and_in_the_record(machine: Machine) -> None:
    words = "remarkable-words-of-a-caller"
    said(machine, {"message_id": 1, "text": words}, {"text": words})

    def found() -> list[str]:
        return [
            each.name
            for each in machine.state.rglob("*")
            if each.is_file() and words.encode() in each.read_bytes()
        ]

    assert found(), "the control: before it is erased it is there"
    done = machine.metier("conversations", "erase", "1", "--yes")
    assert "Erased the words of 2 messages" in done.stdout
    assert done.stderr == ""
    assert found() == []
    assert "(erased)" in machine.metier("conversations", "show", "1").stdout
    machine.metier("audit", "verify")


def test_erasing_a_call_erases_what_it_took_in(machine: Machine) -> None:
    words = "remarkable-words-of-a-caller"
    said(machine, {"message_id": 1, "text": words}, {"message_id": 2, "text": "stays"})
    store = Store(str(machine.state))
    with store.reading() as connection:
        (call,) = connection.execute("SELECT call_id FROM message WHERE channel_message = '1'").fetchone()
    store.close()
    machine.metier("audit", "erase", "--call", call, "--yes")
    shown = machine.metier("conversations", "show", "1").stdout
    assert words not in shown
    assert "stays" in shown


def test_nothing_is_erased_that_nobody_confirmed(machine: Machine) -> None:
    said(machine, {"message_id": 1, "text": "stays"})
    machine.metier("conversations", "erase", "1", check=None, stdin="n\n")
    assert "stays" in machine.metier("conversations", "show", "1").stdout


@pytest.fixture
def with_channel(machine: Machine) -> Machine:
    machine.state.mkdir(mode=0o700)
    store = Store(str(machine.state))
    with store.writing() as connection:
        put_channel(connection, Channel(name="echo", skill="echo-skill", connector="echo"), time.time())
        configure(connection, "echo", {"mode": "echo", "ref": "env://KEY"}, time.time())
        put_channel(connection, Channel(name="odd", skill="odd-skill", connector="odd"), time.time())
        connection.execute("UPDATE channel SET config = '[' WHERE name = 'odd'")
    store.close()
    return machine


def test_channels_are_listed_with_whose_they_are_and_why_one_cannot_be_used(with_channel: Machine) -> None:
    shown = with_channel.metier("channels", "list").stdout
    assert 'skill echo-skill, sends by echo.send, {"mode":"echo","ref":"env://KEY"}' in shown
    assert "cannot be used: its configuration cannot be read" in shown
    rows = [json.loads(row) for row in with_channel.metier("channels", "list", "--json").stdout.splitlines()]
    assert [(each["channel"], each["door"]) for each in rows] == [
        ("echo", False),
        ("odd", False),
        ("telegram", True),
    ]


def test_a_channel_is_forgotten_by_a_person(with_channel: Machine) -> None:
    with_channel.metier("channels", "remove", "odd")
    assert "odd" not in with_channel.metier("channels", "list").stdout
    assert (
        "E_CHANNELS_UNKNOWN" in with_channel.metier("channels", "remove", "odd", check=exits.PROBLEM).stderr
    )


def test_a_person_sends_a_message_once_however_often_he_says_it_with_the_same_key(machine: Machine) -> None:
    send = ("conversations", "send", "telegram", "42")
    assert "Message 1 waits" in machine.metier(*send, "hello", "--key", "k").stdout
    assert "Message 1 was there already; it is waiting" in machine.metier(*send, "hello", "--key", "k").stdout
    assert "Message 2 waits" in machine.metier(*send, "-", stdin="from a pipe").stdout
    shown = machine.metier("conversations", "show", "1").stdout
    assert "hello" in shown
    assert "from a pipe" in shown
    assert (
        "E_CHANNELS_UNKNOWN"
        in machine.metier("conversations", "send", "no", "1", "x", check=exits.PROBLEM).stderr
    )
