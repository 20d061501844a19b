"""`metier settings`."""

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from machine import Machine

MASK = "••••••••"
KEY = "k3y-of-the-weather-7c"
WEATHER = """---
name: weather
description: Says what the weather is.
metadata:
  metier:
    settings:
      type: object
      title: Weather
      properties:
        units: {type: string, title: Units, enum: [metric, imperial]}
        days: {type: integer, title: Days, minimum: 1, maximum: 14}
        cities: {type: array, items: {type: string}, title: Cities}
        api_key: {type: string, title: Key, description: From your account, x-secret: true}
---
Say it.
"""


@pytest.fixture
def weather(machine: Machine) -> Machine:
    folder = machine.skills / "weather"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "SKILL.md").write_text(WEATHER, encoding="utf-8")
    return machine


@pytest.mark.slow
def test_settings_are_shown_changed_and_put_back_and_every_change_is_a_call_on_the_record(
    weather: Machine,
) -> None:
    schema = weather.metier("settings", "schema", "weather").stdout
    assert "secret string" in schema
    assert "one of metric, imperial" in schema
    done = weather.metier("settings", "set", "weather", "units=metric", "days=3", "cities=Rome, Paris")
    assert done.stdout.startswith("✓ weather: ")
    weather.metier("settings", "set", "weather", "api_key", stdin=f"{KEY}\n")
    shown = weather.metier("settings", "get", "weather").stdout
    assert KEY not in shown
    assert [line.split()[1] for line in shown.splitlines()] == ["metric", "3", '["Rome","Paris"]', MASK]
    weather.metier("settings", "set", "weather", "--unset", "days")
    whole = weather.json("settings", "get", "weather", "--json")
    assert whole["settings"] == {"units": "metric", "cities": ["Rome", "Paris"], "api_key": MASK}
    assert whole["masked"] == {"api_key": True}
    weather.metier("settings", "reset", "weather", "--yes")
    assert weather.json("settings", "get", "weather", "--json")["settings"] == {}
    told = weather.metier("audit", "tail", "-n", "50").stdout
    assert told.count("skill_executed: settings.set_skill") == 3
    assert told.count("skill_executed: settings.reset_skill") == 1
    kept = weather.metier("audit", "export", "--stored").stdout
    assert '"units"' in kept
    assert KEY not in kept
    assert "BEGIN AGE" not in kept


def test_sec_09_a_secret_is_never_an_argument(weather: Machine) -> None:
    done = weather.metier("settings", "set", "weather", f"api_key={KEY}", check=2)
    assert "name it without a value" in done.stderr
    assert KEY not in done.stderr
    assert not list(Path(weather.state).rglob("*.age"))
    done = weather.metier("settings", "set", "weather", "units", check=2)
    assert "KEY=VALUE" in done.stderr
    assert "empty" in weather.metier("settings", "set", "weather", "api_key", check=2).stderr


OPEN = """---
name: open
description: Takes keys of any name.
metadata:
  metier:
    settings:
      type: object
      properties:
        mode: {type: string, default: quiet}
        one: {type: string, x-secret: true}
        two: {$ref: "#/properties/one"}
        group: {type: object, additionalProperties: {type: string, x-secret: true}}
      additionalProperties: {type: string, x-secret: true}
---
Say it.
"""


def test_sec_09_a_secret_that_the_schema_does_not_name_is_no_argument_either(machine: Machine) -> None:
    folder = machine.skills / "open"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "SKILL.md").write_text(OPEN, encoding="utf-8")
    for key in ("anything", "two", "group.inner"):
        done = machine.metier("settings", "set", "open", f"{key}={KEY}", check=2)
        assert "name it without a value" in done.stderr
        assert KEY not in done.stderr
    assert not list(Path(machine.state).rglob("*.age"))
    machine.metier("settings", "set", "open", "anything", stdin=f"{KEY}\n")
    assert machine.json("settings", "get", "open", "--json")["settings"]["anything"] == MASK
    assert KEY not in machine.metier("audit", "export", "--stored").stdout


def test_two_secrets_do_not_come_by_one_pipe_and_nothing_is_changed(weather: Machine) -> None:
    done = weather.metier(
        "settings", "set", "weather", "days=3", "api_key", "other", stdin="one\ntwo\n", check=2
    )
    assert "2 are named: api_key, other. Set one after the other" in done.stderr
    assert weather.json("settings", "get", "weather", "--json")["settings"] == {}


def test_sec_01_what_became_secret_is_sealed_by_the_next_command_whatever_that_is(weather: Machine) -> None:
    weather.metier("settings", "set", "weather", "units=metric", "cities=Rome")
    file, kernel = weather.skills / "weather" / "SKILL.md", Path(weather.state) / "kernel.db"
    plain = "cities: {type: array, items: {type: string}"
    assert b'["Rome"]' in _stored(kernel), "control: it was no secret"
    file.write_text(WEATHER.replace(plain, f"{plain}, x-secret: true"), encoding="utf-8")
    weather.metier("operate", "skills.list", "{}")
    assert _stored(kernel) == b'{"units":"metric"}'
    assert weather.json("settings", "get", "weather", "--json")["settings"]["cities"] == MASK


def _stored(kernel: Path) -> bytes:
    with contextlib.closing(sqlite3.connect(kernel)) as connection:
        return str(connection.execute("SELECT value FROM settings").fetchone()[0]).encode()


def test_what_does_not_fit_is_said_without_the_value_and_with_the_right_exit_status(weather: Machine) -> None:
    done = weather.metier("settings", "set", "weather", "days=99991", check=1)
    assert "setting 'days' is too large" in done.stderr
    assert "99991" not in done.stderr
    answer = json.loads(weather.metier("settings", "set", "weather", "size=3", "--json", check=1).stdout)
    assert "not known to this skill" in answer["message"]
    assert "no settings" in weather.metier("settings", "get", "writing-skills", check=1).stderr
    assert "there is no skill" in weather.metier("settings", "get", "nobody", check=1).stderr
    assert "There is no skill" in weather.metier("settings", "set", "nobody", "a=1", check=2).stderr
    assert weather.metier("settings", "set", "weather", check=2).stderr
    weather.metier("settings", "reset", "weather", stdin="n\n", check=130)
