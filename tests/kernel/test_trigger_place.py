"""What stands in place of a call does so by every name of the tool, for everybody behind a call, at once, and where it is broken too;
and what is made of one person's calls is told to no other."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firing_kit import OWNER, Desk, valid_call
from metier.catalog.catalog import Catalog
from metier.kernel.schedule import read as read_schedule
from metier.kernel.schedule_firing import ScheduleFiring
from metier.kernel.trigger_around import in_place_of
from metier.kernel.trigger_store import all_triggers
from metier.kernel.triggers import Triggers
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.entry import Command
from metier.model.outcome import Completed, Refused
from metier.model.skill import Tool

ANNA = "human:anna"
INSTEAD: dict[str, Json] = {"type": "tool_use", "timing": "instead", "tool": "safer"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def reading() -> Catalog:
    tool = Tool(
        name="fs_read/execute",
        description="",
        parameters={"type": "object"},
        entry=Command(argv=("true",)),
        outward="fs_read",
    )
    return Catalog(tools={tool.name: tool}, functions={"fs_read": tool.name})


def fs_read(**how: Any) -> Any:
    return valid_call("fs_read/execute", outward="fs_read", **how)


# --- by every name


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["fs_read", "fs_read/execute", "fs_*", "fs_read/*"])
async def test_a_tool_is_meant_by_the_name_that_people_call_it_by(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, reading)
    made = await desk.do("create", trigger={"name": "n", "toolNames": [name], **INSTEAD})
    assert made["note"] == ""
    for said in ("fs_read", "fs_read/execute"):
        answer = await desk.do("test", tool=said, phase="instead")
        assert [each["name"] for each in answer["would_fire"]] == ["n"]
        assert answer["note"] == ""
    refused = await desk.triggers.before(fs_read())
    assert isinstance(refused, Refused)
    assert refused.code == "replaced"
    assert await desk.triggers.before(valid_call("other/execute")) is None, "the control"


@pytest.mark.anyio
async def test_a_trigger_calls_a_tool_by_the_name_that_people_call_it_by(tmp_path: Path) -> None:
    desk = Desk(tmp_path, reading)
    await desk.create(type="event", events=["e"], tool="fs_read")
    await desk.create(type="event", events=["e"], tool="not/there")
    async with desk.running():
        await desk.happens("e")
    assert desk.book.tools == ["fs_read/execute", "not/there"]
    teller: Any = None
    firing = ScheduleFiring(
        store=desk.store, events=desk.events, calls=desk.book, catalog=reading, teller=teller
    )
    schedule = read_schedule({"name": "s", "type": "interval", "intervalMs": 60_000, "tool": "fs_read"})
    kept: Any = SimpleNamespace(id="sch_1", owner=OWNER, last_outcome="")
    await firing.call(kept, schedule, 0.0)
    assert desk.book.tools[-1] == "fs_read/execute", "and so does a schedule"


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["skills.disable", "nobody/knows", "fs_raed"])
async def test_who_waits_for_calls_that_nobody_can_make_is_told_so(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, reading)
    made = await desk.do("create", trigger={"name": "n", "toolNames": ["fs_read", name], **INSTEAD})
    assert name in made["note"]
    assert name in (await desk.do("test", tool=name))["note"]
    other = await desk.do("create", trigger={"name": "o", "toolNames": ["fs_*", "echo.ring"], **INSTEAD})
    assert other["note"] == "", "the control: what a living skill offers, and what may come later"


@pytest.mark.anyio
async def test_a_dry_run_knows_whose_channel_it_is(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(name="everywhere", type="message", patterns=["x"], tool="t")
    await desk.create(name="there", type="message", patterns=["x"], tool="t", channels=["loop"])
    with desk.store.writing() as connection:
        connection.execute("INSERT INTO channel VALUES ('loop', 'loop', 'echo-skill', 'echo', '{}', 0)")

    async def named(**given: Json) -> tuple[list[str], str]:
        answer = await desk.do("test", text="x", **given)
        return [each["name"] for each in answer["would_fire"]], answer["note"]

    assert await named() == (["everywhere"], "")
    assert await named(channel="telegram") == (["everywhere"], "")
    assert await named(channel="loop") == (["there"], ""), "its messages are the skill's words"
    assert await named(channel="nowhere") == (["everywhere"], "there is no channel 'nowhere' now")


# --- for everybody behind a call


def desk_of_anna(top: Path) -> Desk:
    """One on which Anna has an agent."""
    desk = Desk(top)

    def behind(by: Principal) -> tuple[str, ...]:
        chain = {"skill:z": ("agent:x", ANNA), "agent:x": (ANNA,)}
        return chain.get(by.id, ()) if by.on_behalf_of == chain.get(by.id, ("",))[0] else ()

    desk.triggers = Triggers(
        store=desk.store, events=desk.events, calls=desk.book, catalog=Catalog, owner=OWNER, behind=behind
    )
    return desk


@pytest.mark.anyio
async def test_what_somebody_set_up_holds_for_what_skills_call_inside_of_his_agents_calls(
    tmp_path: Path,
) -> None:
    desk = desk_of_anna(tmp_path)
    await desk.create(by=ANNA, toolNames=["a/b"], **INSTEAD)
    for timing in ("before", "after"):
        await desk.create(by=ANNA, type="tool_use", toolNames=["a/c"], timing=timing, tool=timing)
    done = Completed(call_id="call_outer", value=None)
    async with desk.running():
        for by, behalf in (("agent:x", ANNA), ("skill:z", "agent:x")):
            desk.book.made.clear()
            assert isinstance(await desk.triggers.before(valid_call("a/b", by=by, behalf=behalf)), Refused)
            inner = valid_call("a/c", by=by, behalf=behalf)
            await desk.triggers.begins(inner)
            desk.triggers.after(inner, done)
            await desk.triggers.drain(30)
            assert desk.book.tools == ["safer", "before", "after"]
        desk.book.made.clear()
        for by, behalf in (("agent:cli", OWNER), ("skill:z", "agent:cli")):
            assert await desk.triggers.before(valid_call("a/b", by=by, behalf=behalf)) is None
            await desk.triggers.begins(valid_call("a/c", by=by, behalf=behalf))
            desk.triggers.after(valid_call("a/c", by=by, behalf=behalf), done)
        await desk.triggers.drain(30)
    assert desk.book.made == [], "the control: nobody sees what others call"


# --- at once


@pytest.mark.anyio
async def test_what_another_process_sets_up_stands_in_place_of_the_very_next_call(tmp_path: Path) -> None:
    one, two = Desk(tmp_path), Desk(tmp_path)
    async with one.running():
        assert await one.triggers.before(valid_call("a/b")) is None
        id = await two.create(toolNames=["a/b"], **INSTEAD)
        assert isinstance(await one.triggers.before(valid_call("a/b")), Refused)
        await two.do("disable", id=id)
        assert await one.triggers.before(valid_call("a/b")) is None


# --- where it is broken


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("stored", "stopped"),
    [
        ('{"type":"tool_use","timing":"instead","toolNames":["a/b"],"tool":"safer","name":"n","newer":1}', {"a/b"}),
        ('{"type":"tool_use","timing":"instead","toolNames":["a/*"],"newer":1}', {"a/b", "a/c"}),
        ('{"type":"tool_use","timing":"ins', {"a/b", "a/c", "x/y"}),
        ('{"type":"tool_use","timing":"instead","toolNames":"a/b"}', {"a/b", "a/c", "x/y"}),
        ('{"type":"newer"}', {"a/b", "a/c", "x/y"}),
        ("[]", {"a/b", "a/c", "x/y"}),
        ('{"type":"tool_use","timing":"after","toolNames":["a/b"],"newer":1}', set()),
        ('{"type":"message","patterns":[]}', set()),
    ],
)  # fmt: skip
async def test_a_call_is_refused_in_whose_place_something_broken_may_stand(
    tmp_path: Path, stored: str, stopped: set[str]
) -> None:
    desk = Desk(tmp_path)
    id = await desk.create(by=ANNA, toolNames=["a/b"], **INSTEAD)
    with desk.store.writing() as connection:
        connection.execute("UPDATE trigger SET definition = ?", (stored,))
    async with desk.running():
        found: set[str] = set()
        for tool in ("a/b", "a/c", "x/y"):
            valid = valid_call(tool, by=ANNA)
            refused = await desk.triggers.before(valid)
            if refused is not None:
                found.add(tool)
                assert refused.code == "setup_unusable"
                assert id in refused.reasons[0]
                assert "remove" in refused.remedy
            assert bool(refused) == bool(in_place_of(all_triggers(desk.store), valid, OWNER)), "explain knows"
            others = await desk.triggers.before(valid_call(tool, by="agent:cli", behalf="human:ben"))
            assert others is None, "it is none of other people's"
        assert found == stopped
        steering = valid_call("a/b", by=ANNA, audience="operator")
        assert await desk.triggers.before(steering) is None, "and what people steer by is never stopped"
        await desk.do("disable", id=id)
        assert await desk.triggers.before(valid_call("a/b", by=ANNA)) is None


@pytest.mark.anyio
async def test_what_is_broken_and_nobodys_any_more_stops_everybody(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.create(by=ANNA, toolNames=["a/b"], **INSTEAD)
    with desk.store.writing() as connection:
        connection.execute("UPDATE trigger SET owner = CAST(x'ff68' AS TEXT), since = '2026'")
    refused = await desk.triggers.before(valid_call("a/b", by="agent:cli", behalf="human:ben"))
    assert isinstance(refused, Refused)
    assert refused.code == "setup_unusable"


# --- told to no other


@pytest.mark.anyio
@pytest.mark.parametrize("event", ["triggers.fired", "schedules.fired"])
async def test_what_is_made_of_somebodys_calls_is_told_to_his_own_triggers_only(
    tmp_path: Path, event: str
) -> None:
    desk = Desk(tmp_path)
    for who in (OWNER, ANNA, "human:ben"):
        await desk.create(by=who, type="event", events=[event], tool=f"heard by {who}")
        await desk.create(
            by=who,
            type="condition",
            conditions=[{"field": "event.payload.context", "operator": "eq", "value": "my pin"}],
            tool=f"noticed by {who}",
        )
    if event == "triggers.fired":
        await desk.create(
            by=ANNA,
            type="event",
            events=["rang"],
            contextTemplate="my pin",
            sendTo={"channel": "c", "chat": "1"},
        )
    async with desk.running():
        if event == "triggers.fired":
            await desk.happens("rang")
        else:
            await desk.happens(event, {"owner": ANNA, "context": "my pin"})
    heard = {each.tool for each in desk.book.made if "by" in each.tool and each.cause.firings <= 2}
    assert heard == {f"{word} by {who}" for word in ("heard", "noticed") for who in (OWNER, ANNA)}
