"""Messages that were noted and did not arrive, as the logs of calls have them."""

import os
from pathlib import Path
from typing import Any

import anyio

from metier.host.call_log import CallLog
from metier.host.undelivered import DELIVERED, FAILED, TAKEN, UNKNOWN, Undelivered, undelivered

SENT = {"type": DELIVERED}
LOST = {"type": FAILED, "error": "The gateway is down"}


def taken(message: str, **more: Any) -> dict[str, Any]:
    return {"type": TAKEN, "message": message, "delivery_status": "pending", **more}


def write(state: Path, call_id: str, *entries: Any, skill: str = "send-message") -> None:
    async def main() -> None:
        for entry in entries:
            assert await CallLog(str(state), call_id, skill).append(entry) is None

    anyio.run(main)


def listed(state: Path, **more: Any) -> list[tuple[str, str]]:
    return [(each.message, each.state) for each in undelivered(str(state), **more).messages]


def test_where_nothing_was_noted_nothing_is_undelivered(tmp_path: Path) -> None:
    assert listed(tmp_path / "absent") == []
    write(tmp_path, "call_1", {"type": "skill.calendar.create"}, "words", 5, None, ["x"], SENT, LOST)
    assert listed(tmp_path) == []


def test_what_failed_and_what_was_never_finished_is_listed_and_what_arrived_is_not(tmp_path: Path) -> None:
    write(tmp_path, "call_1", taken("arrived"), SENT)
    write(tmp_path, "call_2", taken("failed"), LOST)
    write(tmp_path, "call_3", taken("cut off"))
    assert listed(tmp_path) == [("failed", "failed"), ("cut off", "unknown")]


def test_of_what_may_have_arrived_it_is_said_that_nobody_knows(tmp_path: Path) -> None:
    write(
        tmp_path, "call_1", taken("late"), {"type": UNKNOWN, "error": "no answer in time"}, taken("b"), SENT
    )
    (found,) = undelivered(str(tmp_path)).messages
    assert (found.message, found.state, found.error) == ("late", "unknown", "no answer in time")


def test_several_messages_of_one_call_are_told_apart(tmp_path: Path) -> None:
    write(
        tmp_path,
        "call_1",
        taken("a"),
        SENT,
        taken("b"),
        LOST,
        taken("c"),
        {"type": "other"},
        SENT,
        taken("d"),
    )
    assert listed(tmp_path) == [("b", "failed"), ("d", "unknown")]


def test_how_a_delivery_went_is_said_of_the_last_message_that_waits(tmp_path: Path) -> None:
    write(tmp_path, "call_1", taken("a"), taken("b"), SENT)
    write(tmp_path, "call_2", taken("c"), taken("d"), LOST, SENT)
    assert listed(tmp_path) == [("a", "unknown"), ("d", "failed")]


def test_a_message_is_listed_with_all_that_was_noted(tmp_path: Path) -> None:
    noted = taken("call me", caller_name="Bob", callback_number="0171 1", urgency="urgent")
    write(tmp_path, "call_1", noted, LOST)
    (found,) = undelivered(str(tmp_path)).messages
    assert found.at
    assert found == Undelivered(
        call_id="call_1",
        at=found.at,
        skill="send-message",
        message="call me",
        caller_name="Bob",
        callback_number="0171 1",
        urgency="urgent",
        state="failed",
        error="The gateway is down",
    )


def test_an_entry_of_another_shape_hides_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    write(
        tmp_path, "call_1", {"type": TAKEN, "message": {"a": 1}, "urgency": 5}, {"type": FAILED, "error": 5}
    )
    (found,) = undelivered(str(tmp_path)).messages
    assert (found.message, found.urgency, found.state, found.error) == ("", "normal", "failed", "")


def test_what_a_running_call_noted_is_still_under_way(tmp_path: Path) -> None:
    write(tmp_path, "call_1", taken("soon"))
    assert listed(tmp_path, without=frozenset({"call_1"})) == []
    assert listed(tmp_path, without=frozenset({"call_2"})) == [("soon", "unknown")]


def test_a_log_that_cannot_be_read_is_said_and_hides_no_other(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, f"call_{number}", taken(f"m{number}"))
    (tmp_path / "calls" / "call_0.jsonl").write_text("changed\n", encoding="utf-8")
    (tmp_path / "calls" / "call_1.jsonl").chmod(0o666)
    os.symlink("/etc/passwd", tmp_path / "calls" / "call_9.jsonl")
    for name in ("notes.txt", "call_5.jsonl.old", "..jsonl", ".jsonl"):
        (tmp_path / "calls" / name).write_text("x", encoding="utf-8")
    found = undelivered(str(tmp_path))
    assert [each.message for each in found.messages] == ["m2", "m3"]
    assert len(found.unreadable) == 3


def test_a_line_that_was_cut_off_takes_no_other_along(tmp_path: Path) -> None:
    write(tmp_path, "call_1", taken("whole"))
    with (tmp_path / "calls" / "call_1.jsonl").open("ab") as file:
        file.write(b'{"at": "2026')
    assert listed(tmp_path) == [("whole", "unknown")]
