"""Who erases a call, or what was said in a conversation, erases the copies too: what hooks were told of it, what triggers made of it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import metier.record.erasure
from firing_kit import Desk
from lookout import BOIL, Lookout, hook_text
from metier.catalog.here import owner
from metier.errors import RecordError
from metier.host.call_log import CallLog
from metier.kernel.conversation_forget import forget_thread
from metier.model.outcome import Completed, Outcome
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.erasure import erase_call, erase_calls
from metier.record.inside import with_inner
from metier.record.verify import verify
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner

WORDS = "remarkable-words-of-a-caller"
EVERY = hook_text('["message", "tool:before", "tool:after"]')


@pytest.fixture
def lookout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lookout:
    made = Lookout(tmp_path, monkeypatch)
    made.machine.state.chmod(0o700)
    made.pretend()
    made.guard(text=EVERY)
    return made


def files_with(lookout: Lookout, words: str = WORDS) -> list[str]:
    return sorted(
        each.name
        for each in lookout.machine.state.rglob("*")
        if each.is_file() and words.encode() in each.read_bytes()
    )


def holding(lookout: Lookout, words: str = WORDS) -> set[str]:
    """The tools of which some call still holds the words in the record."""
    with Database.open(lookout.machine.settings().database) as database, database.reading() as connection:
        rows = connection.execute("SELECT body, kept FROM audit WHERE kept IS NOT NULL").fetchall()
    return {json.loads(body)["tool"] for body, kept in rows if words.encode() in kept}


def said(lookout: Lookout, text: str) -> None:
    """It comes in, twice, sets off a trigger that answers, and is told to a hook."""
    trigger: dict[str, Any] = {
        "name": "boils", "type": "message", "patterns": ["words"], "tool": BOIL,
        "arguments": {"cups": 1, "note": "{{message.text}}"}, "contextTemplate": "done: {{message.text}}",
    }  # fmt: skip

    async def main() -> None:
        async with Runtime.open(project=str(lookout.machine.project), watch=False, host=True) as runtime:
            done(await call_as_owner(runtime, "triggers.create", {"trigger": trigger}))
            message: dict[str, Any] = {"channel": "telegram", "chat_id": 42, "message_id": 1, "text": text}
            for _ in range(2):
                done(await call_as_owner(runtime, "channels.route_inbound_message", message))
            private: Any = runtime
            with anyio.fail_after(60):
                while not await handled(runtime):
                    await anyio.sleep(0.02)
            await private._engine.kernel._kernel.parts.triggers.drain(30)

    anyio.run(main)


async def handled(runtime: Runtime) -> bool:
    outcome = await call_as_owner(runtime, "conv.get_thread", {"thread_id": 1})
    messages: Any = done(outcome)["messages"]
    return messages[0]["state"] == "handled"


def done(outcome: Outcome) -> Any:
    assert isinstance(outcome, Completed), outcome
    return outcome.value


COPIES = {
    "channels.route_inbound_message", "channels.send_message", "conv.get_thread", "hooks.run", BOIL,
}  # fmt: skip


def test_aud_16_erasing_a_conversation_reaches_what_hooks_and_triggers_were_told(lookout: Lookout) -> None:
    said(lookout, WORDS)
    assert holding(lookout) == COPIES, "the control: they all hold a copy"
    assert {each.split(" ")[1] for each in lookout.fired} == {"message:received", "tool:before", "tool:after"}
    ended = lookout.machine.metier("conversations", "erase", "1", "--yes")
    assert ended.stderr == ""
    assert holding(lookout) == set()
    assert files_with(lookout) == []
    assert verify(lookout.machine.settings().database).ok


def test_aud_16_control_without_it_the_copies_are_found(
    lookout: Lookout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what messages came and went by, as it was before: then a hook's copy and a trigger's stay."""
    said(lookout, WORDS)
    with Database.open(lookout.machine.settings().database) as database:
        with database.reading() as connection:
            rows = connection.execute("SELECT body FROM audit").fetchall()
        calls = frozenset(
            each["call_id"]
            for each in (json.loads(body) for (body,) in rows)
            if each.get("tool") in ("channels.route_inbound_message", "channels.send_message")
        )
        with monkeypatch.context() as patch:
            patch.setattr(metier.record.erasure, "with_inner", lambda _connection, calls: calls)
            forget_thread(database, 7, calls, owner(), str(lookout.machine.state))
        assert holding(lookout) == {"conv.get_thread", "hooks.run", BOIL}
        assert forget_thread(database, 7, calls, owner(), str(lookout.machine.state)) == len(calls)
        assert holding(lookout) == {"conv.get_thread"}, "it read another one than 7"
        assert forget_thread(database, 1, calls, owner(), str(lookout.machine.state)) == len(calls)
        assert holding(lookout) == set()


def test_aud_16_erasing_a_call_reaches_what_hooks_were_told_of_it(lookout: Lookout) -> None:
    outcome = lookout.boil(note=WORDS)
    lookout.boil(note="of another call")
    assert holding(lookout) == {BOIL, "hooks.run"}, "the control"
    ended = lookout.machine.metier("audit", "erase", "--call", outcome.call_id, "--yes")
    assert "and of 2 that came of it" in ended.stdout
    assert holding(lookout) == set()
    assert files_with(lookout) == []
    assert holding(lookout, "of another call") == {BOIL, "hooks.run"}, "others are left alone"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    (tmp_path / "state").mkdir(mode=0o700)
    with Database.open(str(tmp_path / "state" / "state.db")) as opened:
        yield opened


@pytest.fixture
def begun(database: Database) -> Callable[[str, str], None]:
    def begin(call_id: str, parent: str) -> None:
        act = Act(principal="agent:x", call_id=call_id, parent=parent, tool="t")
        made = AuditLog(database).intent(act, payloads={"arguments": f"words of {call_id}."})
        assert isinstance(made, Intent)

    return begin


def left(database: Database) -> set[str]:
    with database.reading() as connection:
        rows = connection.execute("SELECT kept FROM audit WHERE kept IS NOT NULL").fetchall()
    texts = [kept.decode() for (kept,) in rows]
    return {name for name in "abcdefg" if any(f"words of {name}." in text for text in texts)}


def test_calls_inside_of_calls_are_reached_however_deep_and_in_whatever_order_they_are_recorded(
    database: Database, begun: Callable[[str, str], None]
) -> None:
    for call, parent in (("d", "c"), ("c", "b"), ("b", "a"), ("a", ""), ("e", "a"), ("f", ""), ("g", "f")):
        begun(call, parent)
    assert erase_call(database, "a", by="human:x") == 5
    assert left(database) == {"f", "g"}
    assert verify(database).ok
    assert erase_call(database, "a", by="human:x") == 0, "again is nothing"


def test_calls_that_lead_back_into_each_other_are_each_erased_once(
    database: Database, begun: Callable[[str, str], None]
) -> None:
    for call, parent in (("a", "b"), ("b", "a"), ("c", "c")):
        begun(call, parent)
    with database.reading() as connection:
        assert with_inner(connection, frozenset({"a"})) == {"a", "b"}
        assert with_inner(connection, frozenset()) == frozenset()
    assert erase_call(database, "a", by="human:x") == 2


def test_what_a_skill_wrote_into_the_log_of_a_call_that_came_of_it_goes_too(
    database: Database, begun: Callable[[str, str], None], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    for call, parent in (("call_a", ""), ("call_b", "call_a"), ("call_c", "")):
        begun(call, parent)
        assert anyio.run(CallLog(str(state), call, "s").append, "canary") is None
    assert forget_thread(database, 1, frozenset({"call_a", "call_x"}), "human:x", str(state)) == 1
    assert [each.stem for each in (state / "calls").iterdir()] == ["call_c"]


def test_one_that_waits_for_a_decision_is_named_and_keeps_no_other_from_being_erased(
    database: Database, begun: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for call, parent in (("a", ""), ("b", "a"), ("c", "a")):
        begun(call, parent)
    waits: Any = lambda _connection, calls: {"b": "apr_1"} if "b" in calls else {}  # noqa: E731
    monkeypatch.setattr(metier.record.erasure, "_waiting", waits)
    with pytest.raises(RecordError, match=r"a call that came of it \(b\) has not run yet") as refused:
        erase_calls(database, frozenset({"a"}), by="human:x")
    assert "metier approvals deny apr_1" in (refused.value.remedy or "")
    assert left(database) == {"b"}
    with pytest.raises(RecordError, match=r"\(b\) has not run yet"):
        erase_call(database, "a", by="human:x")


@pytest.mark.parametrize(("source", "parent"), [("metier", "call_m"), ("some-skill", None)])
def test_what_a_message_or_an_event_sets_off_is_part_of_its_call_where_metier_says_so_itself(
    tmp_path: Path, source: str, parent: str | None
) -> None:
    """Else a skill could have calls of its own making erased with those of others, or looked at as part of them."""
    desk = Desk(tmp_path)

    async def main() -> None:
        await desk.create(type="event", events=["channels.message.*"], sources=["*"], tool="a/b")
        async with desk.running():
            for name in ("channels.message.received", "channels.message.sent"):
                payload = {"channel": "chat", "chat": "7", "message": 1, "text": "x", "call_id": "call_m"}
                await desk.happens(name, payload, source=source)

    anyio.run(main)
    assert [each.parent for each in desk.book.made] == [parent] * 2
