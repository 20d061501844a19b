"""What settings cost is bounded before it is paid, and nobody else waits while it is worked out."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metier.errors import StateError
from metier.kernel import settings as settings_module
from metier.kernel import settings_kept
from metier.kernel.settings_change import MOST_PLACES, initial
from metier.kernel.settings_shape import MOST_SETTINGS, Shape
from metier.kernel.store import FILE
from settings_kit import BOT, BOT_ID, TOKEN, Desk, bot, by_skill


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "state")
    yield made
    made.close()


def meanwhile(monkeypatch: pytest.MonkeyPatch, does: Callable[[], None], most: int = 1) -> list[int]:
    """Do something while a patch is worked out. How often that was begins with the list."""
    worked_out, times = settings_module.patched, list[int]()

    def patched(*given: Any) -> Any:
        made = worked_out(*given)
        times.append(1)
        if len(times) <= most:
            does()
        return made

    monkeypatch.setattr(settings_module, "patched", patched)
    return times


def test_more_settings_at_once_than_are_allowed_are_refused_before_anything_is_made_of_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {f"x{number}": 1 for number in range(MOST_PLACES + 1)}
    judged: list[object] = []
    monkeypatch.setattr(Shape, "problem", lambda _self, value: judged.append(value) or "")
    for patch in (many, {"webhook": many}, {"webhook": {"url": many}, **many}):
        error = desk.refusal("settings.set_skill", by_skill(), skill_id=BOT_ID, patch=patch)
        assert (error.code, "more than 1,000" in error.message) == ("E_SETTINGS_BAD_PARAMS", True)
    assert not any("x0" in str(each) for each in judged), "only the defaults were judged"
    assert desk.row() is None


def test_as_many_settings_as_are_allowed_are_written_together(tmp_path: Path) -> None:
    open_ones = {"defaults": {f"k{number}": number for number in range(200)}}
    desk = Desk(tmp_path / "state", bot(open_ones))
    done = desk.set({f"k{number}": -number for number in range(200)})
    assert len(done["changed"]) == 200
    assert desk.get()["settings"]["k199"] == -199
    desk.close()


def test_nobody_is_kept_out_while_a_patch_is_worked_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def another_writes() -> None:
        other = sqlite3.connect(desk.home / FILE, timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # raises where anybody else is about to write
        other.execute("ROLLBACK")
        other.close()

    times = meanwhile(monkeypatch, another_writes)
    desk.set({"auto_start": True})
    assert times == [1]


def test_what_another_wrote_meanwhile_is_not_lost(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Desk(desk.home)
    times = meanwhile(monkeypatch, lambda: None if len(times) > 1 else _written_by(other))
    desk.set({"auto_start": True, "webhook.secret_token": "mine"})
    assert len(times) == 3, "once for the other, and twice for this one"
    assert desk.get()["settings"]["mode"] == "webhook"
    assert desk.get()["settings"]["auto_start"] is True
    assert (desk.revealed("bot_token"), desk.revealed("webhook.secret_token")) == (TOKEN, "mine")
    other.close()


def _written_by(other: Desk) -> None:
    other.set({"mode": "webhook", "bot_token": TOKEN})


def test_one_who_never_gets_his_turn_is_told_so_and_nothing_of_his_is_written(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_writes() -> None:
        with desk.store.writing() as connection:
            connection.execute(
                "INSERT INTO settings VALUES (?, '{}', 0, 'x') ON CONFLICT (skill) DO UPDATE SET "
                "changed_at = changed_at + 1",
                (BOT,),
            )

    meanwhile(monkeypatch, another_writes, most=1_000)
    error = desk.refusal("settings.set_skill", skill_id=BOT_ID, patch={"auto_start": True})
    assert error.code == "E_SETTINGS_BUSY"
    assert desk.row() == "{}"
    assert desk.happened == []


def test_secrets_are_as_before_where_the_rest_could_not_be_written(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.set({"bot_token": TOKEN})

    def broken(*_: object) -> None:
        raise StateError("no room", remedy="make some")

    with monkeypatch.context() as patch:
        patch.setattr(settings_kept, "keep", broken)
        with pytest.raises(StateError):
            desk.set({"bot_token": "another", "auto_start": True})
    assert desk.revealed("bot_token") == TOKEN


def test_all_defaults_are_judged_together_and_not_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = Shape(bot({"defaults": {f"k{number}": number for number in range(500)}}))
    times, judge = list[int](), Shape.problem
    monkeypatch.setattr(Shape, "problem", lambda self, value: times.append(1) or judge(self, value))
    values, bad = initial(shape)
    assert (len(values.plain), bad) == (500, [])
    assert len(times) <= 5


def test_defaults_that_do_not_fit_are_found_among_those_that_do() -> None:
    fields = [{"key": f"k{number}", "label": "x", "type": "number"} for number in range(100)]
    given = {f"k{number}": "no number" if number in (3, 50, 99) else number for number in range(100)}
    values, bad = initial(Shape(bot({"defaults": given, "schema": {"fields": fields}})))
    assert bad == ["k3", "k50", "k99"]
    assert sorted(values.plain) == sorted(given.keys() - {*bad})


def test_where_most_defaults_do_not_fit_none_is_used() -> None:
    fields = [{"key": f"k{number}", "label": "x", "type": "number"} for number in range(100)]
    given = dict.fromkeys((f"k{number}" for number in range(100)), "no number")
    values, bad = initial(Shape(bot({"defaults": given, "schema": {"fields": fields}})))
    assert (values.plain, len(bad)) == ({}, 100)


def test_a_skill_with_more_defaults_than_are_allowed_lives_without_settings_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    many = {f"a.k{number}": number for number in range(MOST_SETTINGS + 1)}
    desk = Desk(tmp_path / "state", bot({"defaults": many}))
    desk.prepare()
    assert "more than 1,000 settings" in caplog.text
    error = desk.refusal("settings.get_skill", skill_id=BOT_ID)
    assert "more than 1,000 settings" in error.message
    desk.close()
