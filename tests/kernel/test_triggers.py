"""Triggers: what sets them off, in which order, on whose behalf, how often, and what they can never do."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from firing_kit import OWNER, Book, Desk, Made, valid_call
from metier.kernel.firing_rate import DEEPEST, MOST_ROUNDS, PER_SOURCE
from metier.kernel.operation import OperationError
from metier.kernel.trigger_around import in_place_of
from metier.kernel.trigger_store import all_triggers
from metier.model.call import Cause
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Refused

DONE = Completed(call_id="call_outer", value={"said": "fine"})


async def refused(desk: Desk, operation: str, by: str = OWNER, **arguments: Json) -> OperationError:
    with pytest.raises(OperationError) as error:
        await desk.do(operation, by=by, **arguments)
    return error.value


async def listed(desk: Desk, id: str) -> dict[str, Any]:
    return await desk.do("get", id=id)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mode", "pattern", "text", "fires"),
    [
        ("contains", "weather", "What WEATHER today?", True),
        ("contains", "weather", "wetter", False),
        ("exact", "status", " Status ", True),
        ("exact", "status", "status please", False),
        ("startsWith", "/remind", "/Remind me", True),
        ("startsWith", "/remind", "please /remind", False),
        ("regex", r"^order \d+$", "ORDER 12", True),
        ("regex", r"^order \d+$", "order twelve", False),
    ],
)
async def test_a_message_sets_off_the_triggers_whose_pattern_it_fits(
    tmp_path: Path, mode: str, pattern: str, text: str, fires: bool
) -> None:
    desk = Desk(tmp_path)
    await desk.create(
        type="message",
        patterns=["never-said", pattern],
        matchMode=mode,
        tool="a/b",
        arguments={"q": "{{message.text}}"},
    )
    async with desk.running():
        await desk.message(text)
    assert [each.arguments for each in desk.book.made] == ([{"q": text}] if fires else [])
    assert desk.inbox.kept == desk.inbox.handled == [1], "either way it was handled"


@pytest.mark.anyio
async def test_case_counts_where_it_is_said_and_only_in_the_channels_that_are_named(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="message", patterns=["Hi"], caseSensitive=True, tool="a/case")
    await desk.create(type="message", patterns=["hi"], channels=["elsewhere"], tool="a/elsewhere")
    await desk.create(type="message", patterns=["hi"], channels=["ch*"], tool="a/here")
    async with desk.running():
        await desk.message("hi")
    assert desk.book.tools == ["a/here"]


@pytest.mark.anyio
async def test_a_firing_is_a_call_by_the_trigger_on_behalf_of_who_set_it_up(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    id = await desk.create(by="human:anna", type="message", patterns=["hi"], tool="a/b")
    async with desk.running():
        await desk.message("hi")
    (made,) = desk.book.made
    assert (made.principal.id, made.principal.kind, made.principal.on_behalf_of) == (
        f"agent:trigger/{id}",
        "agent",
        "human:anna",
    )
    assert made.unattended
    assert made.surroundings.channel == "chat"
    assert made.surroundings.session == "chat/7"


@pytest.mark.anyio
async def test_before_comes_first_then_by_priority_and_instead_keeps_the_rest_from_firing(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    for tool, timing, priority in [
        ("low", "after", 0),
        ("high", "after", 9),
        ("second", "before", -1),
        ("first", "before", 5),
    ]:
        await desk.create(type="message", patterns=["x"], tool=tool, timing=timing, priority=priority)
    async with desk.running():
        await desk.message("x")
        assert desk.book.tools == ["first", "second", "high", "low"]
        desk.book.made.clear()
        await desk.create(type="message", patterns=["x"], tool="instead", timing="instead")
        await desk.message("x", 2)
    assert desk.book.tools == ["first", "second", "instead"]


@pytest.mark.anyio
async def test_the_result_is_sent_to_the_chat_once_however_often_the_message_is_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    id = await desk.create(
        type="message",
        patterns=["x"],
        tool="a/b",
        contextTemplate="{{message.author}}: {{result.said}}{{result.no}}",
    )

    async def answer(made: Made) -> Json:
        return {"said": "fine"}

    desk.book.answer = answer
    async with desk.running():
        await desk.message("x", 5)
        await desk.message("x", 5)
    assert desk.book.tools == ["a/b", "channels.send_message"]
    assert desk.book.made[1].arguments == {
        "channel": "chat", "chat_id": "7", "text": "anna: fine", "key": f"{id}:5",
    }  # fmt: skip
    assert desk.book.made[1].principal.id == f"agent:trigger/{id}"
    assert "nothing was there for result.no" in (await listed(desk, id))["last_outcome"]


@pytest.mark.anyio
async def test_a_message_whose_handling_was_cut_off_is_handled_again_with_the_same_key(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    id = await desk.create(
        type="message", patterns=["x"], tool="a/b", contextTemplate="{{result}}", cooldownMs=600_000
    )
    reached = anyio.Event()

    async def hangs(made: Made) -> Json:
        reached.set()
        await anyio.sleep_forever()

    desk.book.answer = hangs
    async with anyio.create_task_group() as tasks, desk.running():
        tasks.start_soon(desk.message, "x", 5)
        await reached.wait()
        tasks.cancel_scope.cancel()  # the host is gone
    again = Desk(tmp_path)
    async with again.running():
        await again.message("x", 5)
    assert again.book.tools == ["a/b", "channels.send_message"], (
        "the rest it takes between firings is not counted"
    )
    assert again.book.made[1].arguments["key"] == f"{id}:5"
    assert again.inbox.handled == [5]


@pytest.mark.anyio
async def test_a_chat_hears_nothing_of_a_failure_unless_the_template_speaks_of_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="message", patterns=["a"], tool="a/b", contextTemplate="{{result}}")
    await desk.create(type="message", patterns=["b"], tool="a/b", contextTemplate="{{outcome}}")

    async def fails(made: Made) -> Json | Failed:
        return (
            Failed(call_id="call_1", code="raised", message="a path: /home/x") if made.tool == "a/b" else None
        )

    desk.book.answer = fails
    async with desk.running():
        await desk.message("a", 1)
        assert desk.book.tools == ["a/b"]
        await desk.message("b", 2)
    assert desk.book.made[-1].arguments["text"] == "failed"


@pytest.mark.anyio
async def test_what_is_filled_in_stays_a_text_and_is_not_filled_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(
        type="message",
        patterns=["x"],
        tool="a/b",
        arguments={"{{message.text}}": [1, "<{{message.text}}>", {"deep": "{{ message.data }}"}], "n": 3},
    )
    async with desk.running():
        await desk.message('x","admin":true {{message.author}}')
    assert desk.book.made[0].arguments == {
        "{{message.text}}": [1, '<x","admin":true {{message.author}}>', {"deep": ""}],
        "n": 3,
    }


@pytest.mark.anyio
async def test_an_event_of_a_skill_is_not_taken_for_ours(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="event", events=["error_occurred"], tool="ours")
    await desk.create(type="event", events=["error_occurred"], sources=["echo-skill"], tool="theirs")
    await desk.create(type="message", patterns=["x"], tool="message")
    await desk.create(
        type="condition",
        conditions=[{"field": "event.payload.code", "operator": "eq", "value": "raised"}],
        tool="cond",
    )
    payload: Json = {"call_id": "call_1", "code": "raised"}
    async with desk.running():
        await desk.happens("error_occurred", payload, source="echo-skill")
        assert desk.book.tools == ["theirs"]
        told: Json = {"channel": "chat", "chat": "7", "message": 1, "text": "x"}
        await desk.happens("channels.message.received", told, source="echo-skill")
        assert desk.book.tools == ["theirs"], "a skill cannot make a message of an event"
        assert desk.inbox.kept == []
        await desk.happens("error_occurred", payload)  # the control: ours does set them off
    assert sorted(desk.book.tools[1:]) == ["cond", "ours"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"field": "event.payload.n", "operator": "eq", "value": 5}, True),
        ({"field": "event.payload.n", "operator": "ne", "value": 5}, False),
        ({"field": "event.payload.n", "operator": "gt", "value": 4}, True),
        ({"field": "event.payload.n", "operator": "lt", "value": 5}, False),
        ({"field": "event.payload.n", "operator": "gte", "value": 5}, True),
        ({"field": "event.payload.n", "operator": "lte", "value": 4.5}, False),
        ({"field": "event.payload.n", "operator": "between", "value": [5, 6]}, True),
        ({"field": "event.payload.n", "operator": "between", "value": [6, 7]}, False),
        ({"field": "event.payload.n", "operator": "gt", "value": "4"}, False),
        ({"field": "event.payload.not.there", "operator": "ne", "value": 1}, False),
        ({"field": "event.payload.list.1", "operator": "eq", "value": "b"}, True),
    ],
)
async def test_a_condition_compares_like_with_like(
    tmp_path: Path, condition: dict[str, Json], holds: bool
) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="condition", conditions=[condition], tool="a/b")
    other: Json = {"field": "event.name", "operator": "eq", "value": "another"}
    await desk.create(type="condition", conditions=[condition, other], tool="both")
    await desk.create(type="condition", conditions=[condition, other], logical="OR", tool="either")
    async with desk.running():
        await desk.happens("measured", {"n": 5, "list": ["a", "b"]})
    assert desk.book.tools == (["a/b", "either"] if holds else [])


@pytest.mark.anyio
async def test_a_tool_call_sets_off_what_is_to_happen_before_after_and_in_its_place(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(
        type="tool_use", toolNames=["notes/*"], tool="after", arguments={"r": "{{tool.result.said}}"}
    )
    await desk.create(type="tool_use", toolNames=["notes/add"], before=True, after=False, tool="before")
    async with desk.running():
        assert await desk.triggers.before(valid_call("notes/add")) is None
        assert desk.book.tools == [], "nobody knows yet whether it will run"
        await desk.triggers.begins(valid_call("notes/add"))
        assert desk.book.tools == ["before"]
        desk.triggers.after(valid_call("notes/add"), DONE)
        desk.triggers.after(valid_call("other/add"), DONE)
        await desk.triggers.drain(30)
        assert desk.book.tools == ["before", "after"]
        assert desk.book.made[1].arguments == {"r": "fine"}
        assert desk.book.made[1].parent == "call_outer"
        id = await desk.create(type="tool_use", toolNames=["notes/add"], timing="instead", tool="instead")
        replaced = await desk.triggers.before(valid_call("notes/add"))
    assert isinstance(replaced, Refused)
    assert replaced.code == "replaced"
    assert id in replaced.reasons[0]
    assert desk.book.tools[-1] == "instead"


@pytest.mark.anyio
async def test_what_stands_in_place_of_a_call_holds_though_it_may_not_fire_again_so_soon(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    await desk.create(
        type="tool_use", toolNames=["x/y"], timing="instead", tool="instead", cooldownMs=600_000
    )
    for _ in range(3):
        assert isinstance(await desk.triggers.before(valid_call("x/y")), Refused)
    assert desk.book.tools == ["instead"]
    kept = all_triggers(desk.store)
    assert "stands in place of 'x/y'" in in_place_of(kept, valid_call("x/y"), OWNER)
    assert in_place_of(kept, valid_call("x/z"), OWNER) == ""
    # What the trigger calls itself is not replaced by it.
    (row,) = (await desk.do("list"))["triggers"]
    own = valid_call("x/y", by=f"agent:trigger/{row['id']}", cause=Cause(firings=1, root="x", by=row["id"]))
    assert await desk.triggers.before(own) is None


@pytest.mark.anyio
async def test_nothing_stands_before_after_or_in_place_of_what_people_steer_by(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for timing in ("before", "after", "instead"):
        await desk.create(type="tool_use", toolNames=["*"], timing=timing, tool=timing)
    async with desk.running():
        for changed in ({"audience": "operator"}, {"privileged": True}):
            valid = valid_call("skills.disable", **changed)
            assert await desk.triggers.before(valid) is None
            await desk.triggers.begins(valid)
            desk.triggers.after(valid, DONE)
        await desk.triggers.drain(30)
        assert desk.book.made == []
        assert await desk.triggers.before(valid_call("a/b")) is not None, "the control"


@pytest.mark.anyio
async def test_nobody_sees_or_replaces_the_calls_of_others_by_a_trigger(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for timing in ("before", "instead", "after"):
        await desk.create(by="human:anna", type="tool_use", toolNames=["*"], timing=timing, tool=timing)
    async with desk.running():
        assert await desk.triggers.before(valid_call("a/b", behalf=OWNER)) is None
        await desk.triggers.begins(valid_call("a/b", behalf=OWNER))
        desk.triggers.after(valid_call("a/b", behalf=OWNER), DONE)
        await desk.triggers.drain(30)
        assert desk.book.made == []
        assert await desk.triggers.before(valid_call("a/b", behalf="human:anna")) is not None, (
            "the control: her own"
        )


@pytest.mark.anyio
async def test_what_triggers_set_off_in_each_other_comes_to_an_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each firing is an event for the other; without the bound on depth this would go on for ever."""
    desk = Desk(tmp_path)
    await desk.create(
        name="ping", type="event", events=["start", "triggers.fired"], tool="ping", perMinute=6000
    )
    await desk.create(name="pong", type="event", events=["triggers.fired"], tool="pong", perMinute=6000)
    async with desk.running():
        await desk.happens("start")
    assert 0 < len(desk.book.made) <= 2**DEEPEST
    assert f"{DEEPEST} firings lie behind" in caplog.text


@pytest.mark.anyio
async def test_a_skill_that_answers_each_firing_with_an_event_does_not_go_round_for_ever(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="event", events=["rang"], sources=["echo-skill"], tool="echo.ring", perMinute=6000)

    async def rings(made: Made) -> Json:
        desk.events.emit("rang", {}, source="echo-skill")
        return None

    desk.book.answer = rings
    async with desk.running():
        await desk.happens("rang", {}, source="echo-skill")
    assert desk.book.tools == ["echo.ring"] * MOST_ROUNDS


@pytest.mark.anyio
async def test_a_trigger_on_errors_is_not_set_off_by_its_own_for_ever(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="event", events=["error_occurred"], tool="a/b", perMinute=6000)

    async def fails(made: Made) -> Failed:
        told: Json = {"call_id": made.call_id, "code": "raised", "principal": made.principal.id}
        desk.events.emit("error_occurred", told)
        return Failed(call_id=made.call_id, code="raised", message="no")

    desk.book.answer = fails
    async with desk.running():
        await desk.happens("error_occurred", {"call_id": "c", "code": "raised", "principal": "agent:cli"})
    assert len(desk.book.made) == DEEPEST


@pytest.mark.anyio
@pytest.mark.parametrize("by_its_tool", [False, True])
async def test_a_trigger_on_what_was_sent_does_not_send_for_ever(tmp_path: Path, by_its_tool: bool) -> None:
    desk = Desk(tmp_path)
    send: dict[str, Json] = {"contextTemplate": "again", "sendTo": {"channel": "chat", "chat": "7"}}
    if by_its_tool:
        send = {
            "tool": "channels.send_message",
            "arguments": {"channel": "chat", "chat_id": "7", "text": "again"},
        }
    await desk.create(type="event", events=["channels.message.sent"], perMinute=6000, **send)

    async def sent(made: Made) -> Json:
        told: Json = {"channel": "chat", "chat": "7", "message": 3, "call_id": made.call_id}
        desk.events.emit("channels.message.sent", told)
        return None

    desk.book.answer = sent
    async with desk.running():
        await desk.happens("channels.message.sent", {"channel": "chat", "chat": "7", "message": 2})
    assert desk.book.tools == ["channels.send_message"] * DEEPEST


@pytest.mark.anyio
async def test_what_is_said_on_a_skills_channel_is_heard_by_who_names_that_skill_and_by_no_other(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    received = "channels.message.received"
    await desk.create(type="event", events=[received], sources=["bell-skill"], tool="names-it")
    await desk.create(type="event", events=[received], tool="means-ours")
    said: dict[str, Json] = {"channel": "bell", "chat": "7", "author": "x", "text": "ding", "thread": 1}
    async with desk.running():
        await desk.happens(received, {**said, "message": 1, "skill": "bell-skill"})
        assert desk.book.tools == ["names-it"]
        await desk.happens(received, {**said, "message": 2, "skill": ""})
    assert desk.book.tools == ["names-it", "means-ours"]


@pytest.mark.anyio
async def test_a_skill_that_tells_without_end_keeps_nobody_from_being_heard(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(type="event", events=["e"], tool="ours")
    await desk.create(type="event", events=["f"], sources=["loud-skill"], tool="theirs", cooldownMs=600_000)
    await desk.create(type="message", patterns=["x"], tool="message")
    async with desk.running():
        for _ in range(12_000):
            desk.events.emit("e", {}, source="loud-skill")  # nobody means these
            desk.events.emit("f", {}, source="loud-skill")  # and of these only so many wait
        desk.events.emit("e")
        await desk.message("x")
    assert sorted(desk.book.tools) == ["message", "ours", "theirs"]
    assert desk.inbox.handled == [1]


@pytest.mark.anyio
async def test_a_message_that_could_not_be_handled_is_taken_up_again_once_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.trigger_rounds._PAUSE", 0.01)
    desk = Desk(tmp_path)
    await desk.create(type="message", patterns=["x"], tool="a/b")
    async with desk.running():
        await desk.message("x", 1)
        with desk.store.writing() as connection:
            connection.execute("ALTER TABLE firing RENAME TO elsewhere")
        await desk.message("x", 2)
        assert desk.inbox.handled == [1]
        with desk.store.writing() as connection:
            connection.execute("ALTER TABLE elsewhere RENAME TO firing")
        await desk.message("x", 3)
        with anyio.fail_after(10):
            while 2 not in desk.inbox.handled:
                await anyio.sleep(0.01)
    assert desk.inbox.kept == [1, 2, 3]
    assert sorted(desk.inbox.handled) == [1, 2, 3]
    assert desk.book.tools == ["a/b"] * 3, "and each was handled once"


@pytest.mark.anyio
async def test_nothing_fires_more_often_than_it_may(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    rests = await desk.create(type="event", events=["e"], tool="rests", cooldownMs=600_000)
    often = await desk.create(type="event", events=["e"], tool="often", perMinute=5)
    async with desk.running():
        for _ in range(20):
            await desk.happens("e")
    assert desk.book.tools.count("rests") == 1
    assert desk.book.tools.count("often") == 5
    assert "it rests for 600 s" in (await listed(desk, rests))["last_outcome"]
    assert "fired 5 times in the last minute" in (await listed(desk, often))["last_outcome"]
    again = Desk(tmp_path)  # the rest it takes outlives the host
    async with again.running():
        await again.happens("e")
    assert again.book.tools.count("rests") == 0


@pytest.mark.anyio
async def test_one_source_does_not_use_up_what_others_set_off(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for number in range(4):
        await desk.create(type="event", events=["e"], sources=["*"], tool=f"t{number}")
    async with desk.running():
        for _ in range(PER_SOURCE):
            desk.events.emit("e", {}, source="loud-skill")
        await desk.triggers.drain(30)
        assert len(desk.book.made) == PER_SOURCE
        await desk.happens("e", {}, source="quiet-skill")
    assert len(desk.book.made) == PER_SOURCE + 4


@pytest.mark.anyio
async def test_a_row_that_cannot_be_read_is_listed_and_keeps_nobody_else_from_firing(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    bad = await desk.create(type="message", patterns=["x"], tool="bad")
    other = await desk.create(type="message", patterns=["x"], tool="other")
    await desk.create(type="message", patterns=["x"], tool="good")
    with desk.store.writing() as connection:
        connection.execute("UPDATE trigger SET definition = '{\"type\": 3' WHERE id = ?", (bad,))
        connection.execute('UPDATE trigger SET definition = \'{"type": "message"}\' WHERE id = ?', (other,))
    async with desk.running():
        await desk.message("x")
    assert desk.book.tools == ["good"]
    rows = {row["id"]: row for row in (await desk.do("list"))["triggers"]}
    assert rows[bad]["status"] == rows[other]["status"] == "broken"
    assert "no JSON" in rows[bad]["problem"]
    assert "name" in rows[other]["problem"]
    await desk.do("remove", id=bad)


@pytest.mark.anyio
async def test_what_is_disabled_or_removed_does_not_fire_and_others_changes_are_noticed(
    tmp_path: Path,
) -> None:
    desk, elsewhere = Desk(tmp_path), Desk(tmp_path)
    id = await desk.create(type="message", patterns=["x"], tool="a/b")
    async with desk.running():
        await desk.do("disable", id=id)
        await desk.message("x", 1)
        assert desk.book.made == []
        assert desk.inbox.kept == [], "nobody wants it, so nobody keeps it"
        await desk.do("enable", id=id)
        await desk.message("x", 2)
        assert desk.book.tools == ["a/b"]
        await elsewhere.do("remove", id=id)
        with anyio.fail_after(20):
            number = 3
            while desk.inbox.kept[-1:] == [number - 1]:
                await anyio.sleep(0.2)
                await desk.message("x", number)
                number += 1
    assert (await desk.do("list"))["triggers"] == []


@pytest.mark.anyio
async def test_what_another_process_disabled_fires_no_more_from_that_moment_on(tmp_path: Path) -> None:
    desk, elsewhere = Desk(tmp_path), Desk(tmp_path)
    id = await desk.create(type="message", patterns=["x"], tool="a/b")
    async with desk.running():
        await desk.message("x", 1)
        await elsewhere.do("disable", id=id)
        await desk.message("x", 2)
    assert desk.book.tools == ["a/b"]


@pytest.mark.anyio
async def test_what_is_made_of_it_is_told_to_who_listens(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(
        name="n", type="event", events=["e"], tool="a/b", contextTemplate="{{event.name}}: {{result}}"
    )
    heard: list[Any] = []
    with desk.events.listening(heard.append):
        async with desk.running():
            await desk.happens("e")
    assert [each.name for each in heard] == ["e", "triggers.fired"]
    assert heard[1].payload["context"] == "e: done"
    assert heard[1].depth == 1


@pytest.mark.anyio
async def test_only_who_set_it_up_or_the_owner_lets_a_trigger_fire_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    id = await desk.create(by="human:anna", type="message", patterns=["x"], tool="a/b")
    await desk.do("disable", by="human:bert", id=id)  # to stop something is everybody's right
    assert (await refused(desk, "enable", by="human:bert", id=id)).code == "E_AGENT_FORBIDDEN"
    assert (await refused(desk, "remove", by="human:bert", id=id)).code == "E_AGENT_FORBIDDEN"
    await desk.do("enable", by="human:anna", id=id)
    await desk.do("remove", by=OWNER, id=id)


@pytest.mark.anyio
async def test_a_dry_run_says_what_would_fire_and_fires_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(
        name="m", type="message", patterns=["x"], tool="a/b", arguments={"q": "{{message.text}}"}
    )
    await desk.create(
        name="e", type="event", events=["made.*"], tool="a/c", arguments={"q": "{{event.payload.no}}"}
    )
    await desk.create(name="t", type="tool_use", toolNames=["n/o"], tool="a/d")
    (row,) = (await desk.do("test", text="xyz"))["would_fire"]
    assert (row["name"], row["arguments"]) == ("m", {"q": "xyz"})
    (row,) = (await desk.do("test", event="made.it", payload={}))["would_fire"]
    assert (row["name"], row["missing"]) == ("e", ["event.payload.no"])
    assert (await desk.do("test", event="made.it", source="a-skill"))["would_fire"] == []
    (row,) = (await desk.do("test", tool="n/o"))["would_fire"]
    assert row["name"] == "t"
    assert desk.book.made == []
    assert (await refused(desk, "test")).code == "E_TRIGGERS_BAD_PARAMS"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ({"type": "nothing"}, "message, tool_use, event, condition"),
        ({"type": "message", "patterns": ["a"]}, "it does nothing"),
        ({"type": "message", "patterns": [], "tool": "t"}, "patterns"),
        ({"type": "message", "patterns": [" "], "tool": "t"}, "blanks"),
        ({"type": "message", "patterns": ["(a"], "matchMode": "regex", "tool": "t"}, "missing )"),
        ({"type": "message", "patterns": ["(.{20}){30}"], "matchMode": "regex", "tool": "t"}, "too large"),
        ({"type": "message", "patterns": ["a"], "tool": "t", "sudo": True}, "sudo"),
        ({"type": "message", "patterns": ["a"], "tool": "t", "actionId": "x"}, "leave one of them out"),
        (
            {"type": "message", "patterns": ["a"], "tool": "t", "contextTemplate": "x" * 2_001},
            "contextTemplate",
        ),
        ({"type": "message", "patterns": ["a"], "tool": "t", "arguments": {"a": "{{env.HOME}}"}}, "no place"),
        ({"type": "event", "events": ["a"], "tool": "t", "reply": True}, "sendTo"),
        ({"type": "tool_use", "toolNames": ["a b"], "tool": "t"}, "no name"),
        ({"type": "tool_use", "toolNames": ["a"], "after": False, "tool": "t"}, "neither before nor after"),
        ({"type": "event", "events": ["a*b"], "tool": "t"}, "no name"),
        (
            {
                "type": "condition",
                "conditions": [{"field": "a", "operator": "between", "value": 1}],
                "tool": "t",
            },
            "two numbers",
        ),
        ({"type": "event", "events": ["a"], "tool": "t", "priority": "high"}, "priority"),
        ({"type": "event", "events": ["a"], "tool": "t", "timing": "never"}, "timing"),
    ],
)
async def test_what_would_never_fire_is_refused_with_the_reason(
    tmp_path: Path, trigger: dict[str, Json], said: str
) -> None:
    desk = Desk(tmp_path)
    error = await refused(desk, "create", trigger={"name": "n", **trigger})
    assert error.code == "E_TRIGGERS_BAD_PARAMS"
    assert said in error.message


@pytest.mark.anyio
async def test_a_name_is_taken_once_and_a_new_trigger_never_has_an_old_ones_id(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    first = await desk.create(name="one", type="message", patterns=["x"], tool="a/b")
    again: Json = {"name": "one", "type": "message", "patterns": ["x"], "tool": "a/b"}
    assert "already" in (await refused(desk, "create", trigger=again)).message
    await desk.do("remove", id="one")
    assert await desk.create(name="one", type="message", patterns=["x"], tool="a/b") != first


@pytest.mark.anyio
async def test_the_heartbeat_is_emitted_only_where_a_trigger_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.kernel.trigger_rounds._BEAT", 0.02)
    desk = Desk(tmp_path)
    heard: list[str] = []
    beaten = anyio.Event()

    def listen(happened: Any) -> None:
        heard.append(happened.name)
        beaten.set()

    with desk.events.listening(listen):
        async with desk.running():
            await anyio.sleep(0.1)
            assert heard == []
            await desk.create(type="event", events=["heartbeat_check"], tool="a/b")
            with anyio.fail_after(10):
                await beaten.wait()
    assert heard[0] == "heartbeat_check"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_the_book_of_these_tests_is_what_calls_are() -> None:
    from metier.kernel.calling import Calls

    calls: Calls = Book()
    assert calls is not None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("went: {{\terror }}", True),
        ("{{\n outcome}}", True),
        ("{{error}}", True),
        ("{{result.error}}", False),
    ],
)
async def test_a_failure_is_told_where_a_place_speaks_of_it_however_that_is_written(
    tmp_path: Path, template: str, told: bool
) -> None:
    desk = Desk(tmp_path)

    async def fails(made: Made) -> Json | Failed | Refused:
        return Failed(call_id="c", code="raised", message="no") if made.tool == "act" else "ok"

    desk.book.answer = fails
    await desk.create(type="message", patterns=["x"], tool="act", contextTemplate=template)
    async with desk.running():
        await desk.message("x", 4)
    assert desk.book.tools == ["act"] + ["channels.send_message"] * told


@pytest.mark.anyio
async def test_a_regular_expression_that_is_too_large_where_case_does_not_count_is_refused_there(
    tmp_path: Path,
) -> None:
    words = "погода|прогноз|температура|дождь|снег|ветер|солнце|облачно|гроза|туман|метель|радуга|жара|холод|влажность"
    large: dict[str, Json] = {"type": "message", "matchMode": "regex", "patterns": [words * 2], "tool": "act"}
    desk = Desk(tmp_path)
    with pytest.raises(OperationError, match="too large"):
        await desk.create(**large)
    await desk.create(**{**large, "caseSensitive": True})
    async with desk.running():
        await desk.message("какая погода", 5)
    assert desk.book.tools == ["act"], "the control: it fits where it is accepted"


@pytest.mark.anyio
async def test_what_was_cut_off_is_said_unless_it_is_taken_up_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    event = await desk.create(type="event", events=["e"], tool="act")
    message = await desk.create(type="message", patterns=["x"], tool="act")
    began = anyio.Event()

    async def for_ever(_: Made) -> Json | Failed | Refused:
        if len(desk.book.made) == 2:
            began.set()
        await anyio.sleep_forever()
        raise AssertionError

    desk.book.answer = for_ever
    async with desk.running():
        desk.events.emit("e")
        desk.events.emit(
            "channels.message.received",
            {"channel": "chat", "thread": 1, "message": 1, "chat": "7", "author": "anna", "text": "x"},
        )
        await began.wait()
    (said,) = (await desk.do("get", id=event))["firings"]
    assert said["outcome"].startswith("cut off")
    (open,) = (await desk.do("get", id=message))["firings"]
    assert open["outcome"] == "under way, or cut off"
    again = Desk(tmp_path)
    async with again.running():
        await again.message("x", 1)
    assert again.book.tools == ["act"]


@pytest.mark.anyio
async def test_who_is_refused_is_not_told_of_a_call_that_was_not_made(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(
        type="tool_use",
        toolNames=["a/b"],
        timing="instead",
        contextTemplate="t",
        sendTo={"channel": "c", "chat": "1"},
    )
    refused = await desk.triggers.before(valid_call("a/b"))
    assert isinstance(refused, Refused)
    assert refused.reasons[0].endswith("; it fired")
