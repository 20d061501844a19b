"""The two skills of Amber's document, in its own text and in ours, run from the call to the calendar and the operator.

Everything is real: the manifest is read, the gate is asked, the handler runs in Deno, `ical-query` in a sandbox of its own.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metier.model.outcome import Completed, Failed, Refused
from metier.testing.gateway import FakeGateway
from phone import Phone, seed_skill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("icalendar") is None, reason="the extra `calendar` is not installed"
    ),
]
DENTIST = "\r\n".join(
    (
        *("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN", "BEGIN:VEVENT", "UID:1@test"),
        *("DTSTAMP:20260101T000000Z", "DTSTART:20260222T140000Z", "DTEND:20260222T150000Z"),
        *("SUMMARY:Dentist", "LOCATION:Main Street", "END:VEVENT", "END:VCALENDAR", ""),
    )
)
DAY = "2026-02-22"
TEA = {"action": "create", "title": "Tea", "start": f"{DAY}T10:00", "end": f"{DAY}T11:00"}
MESSAGE = {
    "message": "Call me\u0007 back",
    "caller_name": "Ada",
    "callback_number": "+1 555",
    "urgency": "urgent",
}


@pytest.fixture(params=["its own text", "ours"])
def phone(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    texts = {
        "calendar": seed_skill("Calendar Skill"),
        "send-message": seed_skill("Send Message Skill"),
    } if request.param == "its own text" else {}  # fmt: skip
    made = Phone(tmp_path, monkeypatch)
    for name, files in texts.items():
        made.install(name, files)
    return made


@pytest.fixture
def gateway(phone: Phone) -> Iterator[FakeGateway]:
    with FakeGateway() as made:
        phone.patch.setenv("OPENCLAW_GATEWAY_URL", made.url)
        phone.patch.setenv("OPENCLAW_GATEWAY_TOKEN", made.token)
        phone.patch.setenv("OPERATOR_NAME", "Grace")
        phone.patch.setenv("OPERATOR_TELEGRAM_ID", "4711")
        yield made


def done(outcome: Any) -> dict[str, Any]:
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    return outcome.value


def test_both_skills_are_usable_as_they_stand(phone: Phone) -> None:
    for name in ("calendar", "send-message"):
        told = phone.machine.json("skills", "info", name, "--json")
        assert (told["status"], told["dialect"]) == ("usable", "amber")
        assert not [each for each in told["diagnostics"] if each["severity"] != "info"]


def test_a_lookup_says_what_the_calendar_holds_in_the_operators_time(phone: Phone) -> None:
    phone.write_calendar(DENTIST)
    said = phone.asked("calendar_query", {"action": "lookup", "range": DAY})
    assert said["success"] is True
    assert "15:00–16:00" in said["response"], "14:00 to 15:00 UTC in Berlin, in winter"
    assert "Dentist" in said["response"]
    assert "Main Street" in said["response"]
    assert "result" not in said, "what was found goes to the record"


def test_the_time_zone_that_the_operator_gives_the_program_comes_before_that_of_his_shell(
    phone: Phone,
) -> None:
    phone.configure('[binaries.programs.ical-query]\nenvironment = { TZ = "Asia/Tokyo" }\n')
    phone.write_calendar(DENTIST)
    said = phone.asked("calendar_query", {"action": "lookup", "range": DAY})
    assert "23:00" in said["response"], "14:00 UTC in Tokyo"


def test_a_lookup_that_finds_nothing_says_so_and_returns_an_empty_list(phone: Phone) -> None:
    phone.write_calendar(DENTIST)
    value = done(phone.call("calendar_query", {"action": "lookup", "range": "2026-02-23"}))
    assert value["result"] == {"events": []}
    assert "2026-02-23" in value["message"]


def test_what_is_created_is_in_the_calendar_and_in_the_log_of_the_call(phone: Phone) -> None:
    outcome = phone.call("calendar_query", {**TEA, "location": "Kitchen", "notes": "bring; cake, two"})
    assert done(outcome)["result"]["created"] is True
    (entry,) = phone.logged(outcome)
    assert (entry["type"], entry["title"], entry["start"]) == ("skill.calendar.create", "Tea", TEA["start"])
    assert "SUMMARY:Tea" in phone.calendar.read_text()
    assert "DTSTART:20260222T090000Z" in phone.calendar.read_text(), "10:00 in Berlin, in winter"
    value = done(phone.call("calendar_query", {"action": "lookup", "range": DAY}))
    assert "10:00" in value["message"]
    assert "Kitchen" in value["message"]


def test_a_named_calendar_is_another_file_beside_the_primary_one(phone: Phone) -> None:
    phone.calendar.parents[1].mkdir(mode=0o700, exist_ok=True)
    phone.calendar.parent.mkdir(mode=0o700)
    (phone.calendar.parent / "work.ics").touch(0o600)
    done(phone.call("calendar_query", {**TEA, "calendar": "work"}))
    assert "SUMMARY:Tea" in (phone.calendar.parent / "work.ics").read_text()
    assert not phone.calendar.exists()
    value = done(phone.call("calendar_query", {"action": "lookup", "range": DAY, "calendar": "work"}))
    assert "Tea" in value["message"]


def test_an_event_for_a_calendar_that_is_not_there_begins_none(phone: Phone) -> None:
    outcome = phone.call("calendar_query", {**TEA, "calendar": "wrok"})
    assert isinstance(outcome, Failed), outcome
    assert "There is no calendar of that name" in outcome.message
    assert list(phone.calendar.parent.glob("*.ics")) == []


def test_a_program_that_fails_rejects_with_its_own_words_and_the_caller_hears_a_sentence(
    phone: Phone,
) -> None:
    phone.write_calendar("BEGIN:VCALENDAR\r\nthis is no calendar\r\n")
    before = phone.calendar.read_bytes()
    outcome = phone.call("calendar_query", TEA)
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "reported"
    assert "metier-ical-query:" in outcome.message, "what the program wrote as errors"
    assert isinstance(outcome.value, dict)
    assert "Error" not in outcome.value["message"]
    assert phone.logged(outcome) == []
    assert phone.calendar.read_bytes() == before
    said = phone.asked("calendar_query", TEA)
    assert (said["success"], said["response"]) == (False, outcome.value["message"])


def test_an_event_without_a_title_is_not_tried(phone: Phone) -> None:
    outcome = phone.call("calendar_query", {**TEA, "title": ""})
    assert isinstance(outcome, Failed), outcome
    assert "title" in outcome.message
    assert not phone.calendar.exists()


def test_no_word_of_a_caller_is_read_by_a_shell(phone: Phone) -> None:
    title = "x; rm -rf / $(id) `id` ' && id"
    done(phone.call("calendar_query", {**TEA, "title": title}))
    value = done(phone.call("calendar_query", {"action": "lookup", "range": DAY}))
    assert title in value["message"]


def test_an_unknown_action_is_refused_before_anything_runs(phone: Phone) -> None:
    outcome = phone.call("calendar_query", {"action": "delete"})
    assert isinstance(outcome, Refused)
    assert outcome.code == "invalid_arguments"


def test_a_message_nobody_confirmed_is_not_taken_and_the_model_is_told_what_to_ask(
    phone: Phone, gateway: FakeGateway
) -> None:
    said = phone.asked("send_message", MESSAGE)
    assert (said["success"], said["requires_confirmation"]) == (False, True)
    assert said["response"].endswith("message?")
    assert gateway.requests == []
    assert not (phone.machine.state / "calls").exists()


def test_a_confirmed_message_is_written_down_first_and_then_passed_on(
    phone: Phone, gateway: FakeGateway
) -> None:
    outcome = phone.call("send_message", {**MESSAGE, "confirmed": True})
    assert done(outcome)["result"] == {"logged": True, "delivered": True}
    kinds = [entry["type"] for entry in phone.logged(outcome)]
    assert kinds[0] == "skill.send_message"
    assert phone.logged(outcome)[0]["delivery_status"] == "pending"
    assert "Call me back" in str(phone.logged(outcome)[0]["message"])
    assert len(gateway.requests) == 1
    sent = str(gateway.requests[0].body)
    assert "Call me back" in sent
    assert "4711" in sent, "to whom it goes is the configuration's word"
    assert "telegram" not in done(outcome)["message"].lower()


def test_a_message_that_cannot_be_passed_on_is_kept_marked_and_still_noted(
    phone: Phone, gateway: FakeGateway
) -> None:
    gateway.status = 500
    outcome = phone.call("send_message", {**MESSAGE, "confirmed": True})
    assert done(outcome)["result"] == {"logged": True, "delivered": False}
    assert "telegram" not in done(outcome)["message"].lower()
    assert phone.logged(outcome)[0]["type"] == "skill.send_message"
    listed = phone.machine.metier("messages", "undelivered", check=1)
    assert "Call me back" in listed.stdout


def test_the_word_of_the_model_alone_is_no_confirmation_where_turns_are_known(
    phone: Phone, gateway: FakeGateway
) -> None:
    agreed = {**MESSAGE, "confirmed": True}
    on_call = {"call_id": "phone-1", "session": "phone-1", "channel": "voice"}
    early = phone.call("send_message", agreed, turn=1, **on_call)
    assert isinstance(early, Refused)
    assert early.code == "confirmation_required", (
        "the model says yes, and the caller had no turn since it was asked"
    )
    again = phone.call("send_message", agreed, turn=1, **on_call)
    assert isinstance(again, Refused)
    assert gateway.requests == []
    done(phone.call("send_message", agreed, turn=2, **on_call))
    assert len(gateway.requests) == 1
