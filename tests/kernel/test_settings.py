"""Settings of skills: read and written by the schema of each, defaults once, secrets apart and masked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.errors import StateError
from metier.kernel.capability import Capability
from metier.kernel.operation import Asked, OperationError
from metier.model.call import Principal
from metier.model.skill import Skill
from settings_kit import BOT, BOT_ID, BOT_SETTINGS, MASK, OWNER, TOKEN, Desk, bot, by_skill


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "state")
    yield made
    made.close()


def made(home: Path, settings: Any) -> Desk:
    return Desk(home, bot(settings))


# Reading and writing


def test_what_is_written_is_read_again_and_everything_else_stays(desk: Desk) -> None:
    done = desk.set({"mode": "webhook", "webhook": {"url": "https://example.org/x"}, "auto_start": True})
    assert done["ok"] is True
    assert sorted(done["changed"]) == ["auto_start", "mode", "webhook.url"]
    assert desk.set({"webhook.url": "https://example.org/y"})["ok"]
    assert desk.get() == {
        "ok": True,
        "skill_id": BOT,
        "settings": {
            "mode": "webhook",
            "polling": {"timeout_sec": 30},
            "admins": [],
            "auto_start": True,
            "webhook": {"url": "https://example.org/y"},
        },
    }


def test_a_skill_is_named_by_its_name_or_by_the_id_of_its_contract(desk: Desk) -> None:
    desk.set({"auto_start": True}, skill=BOT)
    assert desk.get(skill=BOT_ID)["settings"]["auto_start"] is True
    desk.set({"auto_start": False}, skill=BOT_ID)
    assert desk.get(skill=BOT)["settings"]["auto_start"] is False
    error = desk.refusal("settings.get_skill", skill_id="@other/bot")
    assert (error.code, "there is no skill" in error.message) == ("E_SETTINGS_BAD_PARAMS", True)


def test_null_removes_and_an_object_of_settings_is_removed_whole(desk: Desk) -> None:
    desk.set({"webhook": {"url": "https://example.org", "secret_token": "hook-secret"}, "bot_token": TOKEN})
    desk.set({"webhook.url": None})
    assert desk.get()["settings"]["webhook"] == {"secret_token": MASK}
    desk.set({"webhook": None, "bot_token": None})
    settings = desk.get(include_masked=True)
    assert "webhook" not in settings["settings"] or settings["settings"]["webhook"] == {}
    assert settings["masked"] == {}
    assert (desk.revealed("webhook.secret_token"), desk.revealed("bot_token")) == (None, None)


def test_an_update_is_told_and_says_whose_settings_and_never_what(desk: Desk) -> None:
    desk.set({"bot_token": TOKEN})
    (event,) = desk.happened
    assert (event.name, event.source, event.payload) == ("settings.skill.updated", "metier", {"skill": BOT})
    desk.ask("settings.reset_skill", skill_id=BOT)
    assert len(desk.happened) == 2
    desk.refusal("settings.set_skill", skill_id=BOT, patch={"mode": "other"})
    assert len(desk.happened) == 2


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"mode": "both"}, "mode"),
        ({"mode": 1}, "mode"),
        ({"polling.timeout_sec": "30"}, "timeout_sec"),
        ({"polling": {"timeout_sec": True}}, "timeout_sec"),
        ({"auto_start": "true"}, "auto_start"),
        ({"admins": "12"}, "admins"),
        ({"admins": [12]}, "admins"),
        ({"colour": "red"}, "not known to this skill"),
        ({"polling": {"interval": 3}}, "not known to this skill"),
        ({"polling": 5}, "polling"),
        ({"a" + ".b" * 20: 1}, "no place"),
        ({"": 1}, "no place"),
        ({"webhook.url": "https://a", "webhook": {"url": "https://b"}}, "given twice"),
        ({}, "names no setting"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_and_nothing_is_written(
    desk: Desk, patch: dict[str, Any], said: str
) -> None:
    desk.set({"mode": "webhook", "bot_token": TOKEN})
    before = (desk.row(), desk.get())
    error = desk.refusal(
        "settings.set_skill", skill_id=BOT, patch=({"auto_start": True} if patch else {}) | patch
    )
    assert (error.code, said in error.message) == ("E_SETTINGS_BAD_PARAMS", True), error.message
    assert (desk.row(), desk.get()) == before


def test_every_word_of_a_field_comes_back_for_a_form(desk: Desk) -> None:
    schema = desk.ask("settings.schema", skill_id=BOT_ID)["schema"]
    assert schema["title"] == "The bot"
    fields = {each["key"]: each for each in schema["fields"]}
    assert list(fields)[:3] == ["bot_token", "mode", "polling.timeout_sec"]
    assert fields["bot_token"] == {
        "key": "bot_token",
        "label": "Token",
        "type": "string",
        "help": "From BotFather",
        "secret": True,
    }
    assert fields["mode"]["options"] == [
        {"label": "Polling", "value": "polling"},
        {"label": "Webhook", "value": "webhook"},
    ]
    assert (fields["admins"]["type"], fields["admins"]["placeholder"]) == ("string_list", "12345")
    assert fields["webhook.secret_token"]["secret"] is True
    assert desk.get(include_schema=True)["schema"] == schema


def test_a_skill_of_any_dialect_may_have_settings_and_one_without_says_so(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "units": {"enum": ["metric", "imperial"], "title": "Units"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "api": {"type": "object", "properties": {"key": {"type": "string", "x-secret": True}}},
        },
        "required": ["units", "days"],
    }
    weather = Skill(name="weather", description="", dialect="metier", settings_schema=schema)
    plain = Skill(name="plain", description="", dialect="agent_skills")
    desk = Desk(tmp_path / "state", weather, plain)
    desk.set({"days": 3, "api.key": "weather-key-1"}, skill="weather")
    assert desk.get(skill="weather")["settings"] == {"days": 3, "api": {"key": MASK}}
    assert "days" in desk.refusal("settings.set_skill", skill_id="weather", patch={"days": 15}).message
    assert "units" in desk.refusal("settings.set_skill", skill_id="weather", patch={"units": "old"}).message
    kinds = {
        each["key"]: each["type"]
        for each in desk.ask("settings.schema", skill_id="weather")["schema"]["fields"]
    }
    assert kinds == {"units": "select", "days": "number", "api.key": "string"}
    nothing = {"ok": False, "skill_id": "plain", "reason": "no_schema"}
    assert desk.get(skill="plain") == nothing
    assert desk.set({"a": 1}, skill="plain") == nothing
    assert desk.ask("settings.schema", skill_id="plain") == nothing
    desk.prepare(plain)
    assert desk.row("plain") is None
    desk.close()


# Defaults


def test_defaults_are_written_when_nothing_is_stored(desk: Desk) -> None:
    assert desk.row() is None
    assert desk.get()["settings"] == {"mode": "polling", "polling": {"timeout_sec": 30}, "admins": []}
    assert desk.row() is None  # who only looks writes nothing
    desk.prepare()
    assert desk.row() is not None
    assert desk.get()["settings"] == {"mode": "polling", "polling": {"timeout_sec": 30}, "admins": []}


def test_defaults_never_overwrite_what_is_stored(desk: Desk) -> None:
    desk.prepare()
    desk.set({"mode": "webhook", "admins": None})
    newer = bot(
        {**BOT_SETTINGS, "defaults": {"mode": "polling", "admins": ["1"], "auto_start": True}}, version="2"
    )
    desk.skills[BOT] = newer
    desk.prepare(newer)
    assert desk.get()["settings"] == {"mode": "webhook", "polling": {"timeout_sec": 30}}


def test_resetting_brings_the_defaults_back_and_forgets_the_secrets(desk: Desk) -> None:
    desk.set({"mode": "webhook", "bot_token": TOKEN})
    assert desk.revealed("bot_token") == TOKEN
    assert desk.ask("settings.reset_skill", skill_id=BOT_ID)["settings"] == {
        "mode": "polling",
        "polling": {"timeout_sec": 30},
        "admins": [],
    }
    assert desk.revealed("bot_token") is None
    assert list((desk.home / "secrets" / "skills").iterdir()) == []


def test_defaults_that_do_not_fit_the_skills_own_schema_are_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    desk = made(tmp_path / "state", {**BOT_SETTINGS, "defaults": {"mode": "neither", "auto_start": True}})
    desk.prepare()
    assert desk.get()["settings"] == {"auto_start": True}
    assert "do not fit its own schema: mode" in caplog.text
    desk.close()


def test_defaults_without_a_schema_say_what_there_is_to_set(tmp_path: Path) -> None:
    desk = made(
        tmp_path / "state", {"defaults": {"greeting": "hello", "loud": False, "net": {"port": 80}, "a.b": 1}}
    )
    desk.prepare()
    desk.set({"net.port": 81, "loud": True, "a": {"b": 2}})
    expected = {"greeting": "hello", "loud": True, "net": {"port": 81}, "a": {"b": 2}}
    assert desk.get()["settings"] == expected
    assert "loud" in desk.refusal("settings.set_skill", skill_id=BOT, patch={"loud": "yes"}).message
    desk.close()


def test_what_another_version_of_the_skill_stored_is_kept_and_not_shown(desk: Desk) -> None:
    desk.set({"mode": "webhook", "auto_start": True})
    fields = [each for each in BOT_SETTINGS["schema"]["fields"] if each["key"] != "auto_start"]
    newer = {**BOT_SETTINGS, "schema": {"fields": fields}}
    desk.skills[BOT] = bot(newer, version="2")
    assert "auto_start" not in desk.get()["settings"]
    desk.set({"admins": ["1"]})
    desk.skills[BOT] = bot()
    assert desk.get()["settings"]["auto_start"] is True


# Who may


def test_a_skill_reads_its_own_settings_masked_and_nobody_elses(desk: Desk) -> None:
    desk.set({"bot_token": TOKEN})
    desk.skills["other"] = bot(id="other")
    own = desk.get(by_skill(), include_masked=True)
    assert (own["settings"]["bot_token"], own["masked"]) == (MASK, {"bot_token": True})
    for operation in ("settings.get_skill", "settings.schema"):
        assert desk.refusal(operation, by_skill("other"), skill_id=BOT_ID).code == "E_AGENT_FORBIDDEN"


def test_a_skill_writes_its_own_settings_and_nobody_elses(desk: Desk) -> None:
    desk.skills["other"] = bot(id="other")
    assert desk.set({"auto_start": True}, by_skill())["ok"] is True
    for operation, more in (("set_skill", {"patch": {"auto_start": False}}), ("reset_skill", {})):
        error = desk.refusal(f"settings.{operation}", by_skill("other"), skill_id=BOT_ID, **more)
        assert error.code == "E_AGENT_FORBIDDEN"
    assert desk.get()["settings"]["auto_start"] is True


@pytest.mark.parametrize("who", ["agent:cli", "agent:host", "agent:trigger/1"])
def test_an_agent_has_nothing_to_do_with_settings(desk: Desk, who: str) -> None:
    agent = Principal(id=who, kind="agent", on_behalf_of="human:me", roles=frozenset({"agent"}))
    for operation in ("get_skill", "schema", "reset_skill"):
        assert desk.refusal(f"settings.{operation}", agent, skill_id=BOT).code == "E_AGENT_FORBIDDEN"


def test_writing_is_guarded_where_it_is_done(desk: Desk) -> None:
    asked = Asked(
        call_id="call_1",
        principal=OWNER,
        module="settings",
        operation="set_skill",
        arguments={"skill_id": BOT, "patch": {"auto_start": True}},
    )
    for shown in (None, Capability()):
        with pytest.raises(OperationError) as refused:
            anyio.run(desk.modules.do, asked, shown)
        assert refused.value.code == "E_AGENT_FORBIDDEN"
    assert desk.row() is None


# What goes wrong


def test_two_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    home = tmp_path / "state"
    desks = [Desk(home), Desk(home)]
    patches: list[list[dict[str, Any]]] = [
        [{"polling.timeout_sec": n} for n in range(5, 25)] + [{"bot_token": TOKEN}],
        [{"admins": [str(n)]} for n in range(20)] + [{"webhook.secret_token": "hook-secret"}],
    ]

    def work(desk: Desk, each: list[dict[str, Any]]) -> None:
        for patch in each:
            desk.set(patch)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(desks, patches, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    settings = desks[0].get(include_masked=True)
    assert settings["settings"]["polling"] == {"timeout_sec": 24}
    assert settings["settings"]["admins"] == ["19"]
    assert settings["masked"] == {"bot_token": True, "webhook.secret_token": True}
    for desk in desks:
        desk.close()


@pytest.mark.parametrize("stored", ["{", "[]", '"text"', "null", "{" * 5000])
def test_a_row_that_is_no_settings_hurts_nobody_else_and_can_be_reset(desk: Desk, stored: str) -> None:
    desk.skills["other"] = bot(id="other")
    with desk.store.writing() as connection:
        connection.execute("INSERT INTO settings VALUES (?, ?, 0, '')", (BOT, stored))
    error = desk.refusal("settings.get_skill", skill_id=BOT)
    assert (error.code, "reset" in error.message) == ("E_SETTINGS_UNREADABLE", True)
    desk.prepare()
    assert desk.row() == stored
    assert desk.get(skill="other")["ok"] is True
    assert desk.ask("settings.reset_skill", skill_id=BOT)["settings"]["mode"] == "polling"


def test_secrets_that_cannot_be_opened_are_said_without_a_path_and_can_be_reset(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.set({"bot_token": TOKEN})
    (desk.home / "keys" / "secrets.age").unlink()
    error = desk.refusal("settings.get_skill", skill_id=BOT)
    assert error.code == "E_SETTINGS_UNREADABLE"
    assert str(desk.home) not in error.message
    assert "keys/secrets.age" in caplog.text
    assert desk.refusal("settings.set_skill", skill_id=BOT, patch={"auto_start": True}).code == error.code
    desk.ask("settings.reset_skill", skill_id=BOT)
    assert desk.get()["settings"]["mode"] == "polling"


def test_secrets_and_plain_settings_are_written_together_or_not_at_all(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.set({"bot_token": TOKEN, "mode": "webhook"})
    before = (desk.row(), desk.get())

    def full(*_given: Any) -> None:
        raise StateError("no room on the disk")

    with monkeypatch.context() as patched:
        patched.setattr(desk.sealed, "set_of_skill", full)
        with pytest.raises(StateError):
            desk.set({"bot_token": "another-token", "mode": "polling"})
    assert (desk.row(), desk.get(), desk.revealed("bot_token")) == (*before, TOKEN)
    whole = desk.store.writing

    @contextmanager
    def breaking() -> Iterator[Any]:
        with whole() as connection:
            yield connection
            full()

    with monkeypatch.context() as patched:
        patched.setattr(desk.store, "writing", breaking)
        with pytest.raises(StateError):
            desk.set({"bot_token": "another-token", "mode": "polling"})
    assert (desk.row(), desk.get(), desk.revealed("bot_token")) == (*before, TOKEN)


def test_settings_have_an_end_and_what_is_too_much_changes_nothing(desk: Desk) -> None:
    large = {"admins": ["x" * 1000] * 300, "bot_token": TOKEN}
    error = desk.refusal("settings.set_skill", skill_id=BOT, patch=large)
    assert desk.revealed("bot_token") is None
    assert (error.code, "at most" in error.message) == ("E_SETTINGS_BAD_PARAMS", True)
    assert desk.row() is None
