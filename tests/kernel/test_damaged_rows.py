"""A row of kernel.db that is damaged is that row's matter: it is listed as broken, and everything else goes on."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine import Machine
from metier.kernel import schedule_store, skill_record, trigger_store
from metier.kernel.channel_rows import channel_in, channels_in, put_channel, remove
from metier.kernel.channel_rules import Channel
from metier.kernel.host_about import about
from metier.kernel.operation import OperationError
from metier.kernel.schedule import read as read_schedule
from metier.kernel.store import Store
from metier.kernel.trigger import read as read_trigger
from metier.model.digest import Json
from settings_kit import BOT, BOT_ID, Desk

CANARY = "CANARY-IN-A-ROW"
TRIGGER: dict[str, Json] = {"type": "event", "name": "t", "events": ["x"], "tool": "read_skill"}
SCHEDULE: dict[str, Json] = {"type": "once", "name": "s", "timestamp": 4102444800000, "tool": "read_skill"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    home = tmp_path / "state"
    home.mkdir(mode=0o700)
    made = Store(str(home))
    yield made
    made.close()


def damage(store: Store, table: str, column: str, where: str) -> None:
    """A byte of the stored text is no UTF-8 any more."""
    with store.writing() as connection:
        done = connection.execute(
            f"UPDATE {table} SET {column} = CAST(CAST({column} AS BLOB) || x'ff' AS TEXT) WHERE {where}"  # noqa: S608
        )
        assert done.rowcount == 1


@pytest.mark.parametrize("column", ["name", "skill", "operations"])
def test_a_module_whose_row_is_damaged_is_not_there_and_the_others_are(store: Store, column: str) -> None:
    skill_record.keep_module(store, "one", "first", ("a", "b"), ("first",))
    skill_record.keep_module(store, "two", "second", ("c",), ("second",))
    damage(store, "module", column, "name = 'first'")
    assert skill_record.registered(store) == {"second": ("two", ("c",))}


@pytest.mark.parametrize("column", ["name", "skill"])
def test_a_name_whose_row_is_damaged_is_kept_for_nobody_and_the_others_are(store: Store, column: str) -> None:
    skill_record.keep_module(store, "one", "first", ("a", "b"), ("first",))
    skill_record.keep_module(store, "two", "second", ("c",), ("third", "second"))
    damage(store, "module_kept", column, "name = 'first'")
    assert skill_record.kept_names(store) == {"third": "two", "second": "two"}


@pytest.mark.parametrize("column", ["skill", "status", "digest", "changed_by", "since"])
def test_rel_07_a_skill_whose_row_is_damaged_does_not_live_and_says_why(store: Store, column: str) -> None:
    for each in ("one", "two"):
        skill_record.wish(store, each, enabled=True, by="human:me")
    damage(store, "skill_life", column, "skill = 'one'")
    found = skill_record.lives(store)
    assert found["two"].enabled is True
    (bad,) = (life for name, life in found.items() if name != "two")
    assert (bad.enabled, bad.status) == (False, "error")
    assert "damaged" in bad.error
    if column != "skill":
        assert skill_record.enabled_by(store, "one", "human:owner") == "human:owner"


def test_a_skill_whose_row_is_damaged_is_mended_by_enabling_it_again(store: Store) -> None:
    skill_record.wish(store, "one", enabled=True, by="human:me")
    damage(store, "skill_life", "changed_by", "skill = 'one'")
    assert skill_record.lives(store)["one"].enabled is False
    skill_record.wish(store, "one", enabled=True, by="human:you")
    assert skill_record.lives(store)["one"].enabled is True


def test_rel_07_every_call_asks_for_the_enabled_skills_and_one_damaged_row_stops_none(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    settings = machine.settings()
    store = Store(settings.home)
    skill_record.wish(store, "one", enabled=True, by="human:me")
    damage(store, "skill_life", "error", "skill = 'one'")
    store.close()
    assert skill_record.counted(settings) == settings


@pytest.mark.parametrize("column", ["id", "owner", "skill", "definition"])
def test_a_trigger_whose_row_is_damaged_is_listed_as_broken_and_can_be_removed(
    store: Store, column: str
) -> None:
    trigger = read_trigger(TRIGGER)
    other = read_trigger({**TRIGGER, "name": "u"})
    trigger_store.stored(store, {"t1": trigger, "t2": other}, owner="human:me", skill="")
    damage(store, "trigger", column, "id = 't1'")
    (bad,) = (each for each in trigger_store.all_triggers(store) if each.trigger is None)
    assert "remove it and set it up again" in bad.problem
    assert [each.name for each in trigger_store.all_triggers(store) if each.trigger] == ["u"]
    trigger_store.removed(store, trigger_store.one_trigger(store, bad.id).id)
    assert [each.id for each in trigger_store.all_triggers(store)] == ["t2"]


@pytest.mark.parametrize("column", ["id", "owner", "skill", "definition"])
def test_a_schedule_whose_row_is_damaged_is_listed_as_broken_and_can_be_removed(
    store: Store, column: str
) -> None:
    schedule = read_schedule(SCHEDULE)
    other = read_schedule({**SCHEDULE, "name": "u"})
    schedule_store.stored(store, {"s1": schedule, "s2": other}, owner="human:me", skill="")
    damage(store, "schedule", column, "id = 's1'")
    (bad,) = (each for each in schedule_store.all_schedules(store) if each.schedule is None)
    assert "remove it and set it up again" in bad.problem
    assert [each.name for each in schedule_store.all_schedules(store) if each.schedule] == ["u"]
    schedule_store.removed(store, schedule_store.one_schedule(store, bad.id).id)
    assert [each.id for each in schedule_store.all_schedules(store)] == ["s2"]


def test_what_is_nested_without_end_is_a_broken_row_like_any_other(store: Store) -> None:
    trigger_store.stored(store, {"t1": read_trigger(TRIGGER)}, owner="human:me", skill="")
    with store.writing() as connection:
        connection.execute("UPDATE trigger SET definition = ?", ("[" * 100_000,))
    (bad,) = trigger_store.all_triggers(store)
    assert "no JSON" in bad.problem


@pytest.mark.parametrize("column", ["name", "look", "skill", "connector", "config"])
def test_a_channel_whose_row_is_damaged_says_so_and_can_be_removed(store: Store, column: str) -> None:
    with store.writing() as connection:
        put_channel(connection, Channel(name="chat", skill="one", connector="chat.send"), 1.0)
        put_channel(connection, Channel(name="other", skill="two", connector="other.send"), 1.0)
    damage(store, "channel", column, "name = 'chat'")
    with store.writing() as connection:
        assert (found := channel_in(connection, "other")) is not None
        assert not found.problem
        listed = channels_in(connection)
        if column == "look":  # it is for comparing only, and written anew
            put_channel(connection, Channel(name="chat", skill="one", connector="chat.send"), 2.0)
            return
        (bad,) = (each for each in listed if each.problem)
        assert "remove" in bad.problem
        assert remove(connection, bad.name) == 1
        assert remove(connection, bad.name) == 0
        assert not any(each.problem for each in channels_in(connection))


def test_the_state_of_the_host_is_told_whatever_row_is_damaged(store: Store) -> None:
    skill_record.wish(store, "one", enabled=True, by="human:me")
    damage(store, "skill_life", "error", "skill = 'one'")
    (life,) = about(str(Path(store.path).parent)).skills
    assert life.skill == "one"


def test_a_damaged_state_of_a_skill_is_one_clear_error(store: Store) -> None:
    skill_record.state_set(store, "one", "k", {"v": CANARY})
    skill_record.state_set(store, "one", "other", 1)
    damage(store, "skill_state", "value", "key = 'k'")
    with pytest.raises(OperationError) as caught:
        skill_record.state_get(store, "one", "k")
    assert CANARY not in str(caught.value)
    assert skill_record.state_get(store, "one", "other") == 1


def test_sec_03_damaged_settings_are_said_by_name_and_no_error_repeats_a_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(tmp_path / "state")
    desk.set({"webhook.url": CANARY})
    damage(desk.store, "settings", "value", f"skill = '{BOT}'")
    with caplog.at_level(logging.DEBUG):
        refused = [
            desk.refusal("settings.get_skill", skill_id=BOT_ID),
            desk.refusal("settings.set_skill", skill_id=BOT_ID, patch={"auto_start": True}),
        ]
        desk.prepare()
    for error in refused:
        assert error.code == "E_SETTINGS_UNREADABLE"
        assert "metier settings reset" in error.message
        assert CANARY not in error.message
    assert CANARY not in caplog.text
    desk.ask("settings.reset_skill", skill_id=BOT_ID)
    assert "webhook" not in desk.get()["settings"]
    desk.close()
