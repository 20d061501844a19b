"""Secrets among settings: sealed, masked wherever they could come back, and used only on the way out."""

import base64
import logging
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopback import Asked as Request
from loopback import Listener, World, make_authority, reply
from metier.errors import StateError
from metier.host.http import Http
from metier.host.sealed import Sealed
from metier.host.secrets import names_of_own_settings, own_settings
from metier.kernel.operation import OperationError
from metier.kernel.settings import wrapped_for
from metier.kernel.settings_change import SEALED, BadPatch, Values, patched, shown
from metier.kernel.settings_shape import Shape
from metier.model.digest import Json
from metier.model.ports import Answered, NotAnswered
from metier.model.skill import Skill
from metier.sandbox.egress import Egress
from settings_kit import BOT, BOT_ID, BOT_SETTINGS, MASK, TOKEN, Desk, bot, by_skill

HOOK = "hook-secret-5c1d"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "state")
    yield made
    made.close()


def shaped(schema: dict[str, Json], **more: Any) -> Skill:
    return Skill(name=BOT, description="", dialect="metier", settings_schema=schema, **more)


# SEC-01: every shape of a sensitive place


def test_sec_01_without_the_schemas_word_a_value_is_shown_as_it_is(tmp_path: Path) -> None:
    fields = [{"key": "bot_token", "label": "Token", "type": "string"}]
    desk = Desk(tmp_path / "state", bot({"schema": {"fields": fields}}))
    desk.set({"bot_token": TOKEN})
    assert desk.get()["settings"] == {"bot_token": TOKEN}
    desk.close()


def test_sec_01_secret_fields_and_sensitive_paths_are_masked_for_everybody(desk: Desk) -> None:
    desk.set({"bot_token": TOKEN, "webhook": {"secret_token": HOOK, "url": "https://example.org"}})
    for who in (None, by_skill()):
        answer = desk.get(*([who] if who else []), include_masked=True, include_schema=True)
        assert answer["settings"]["bot_token"] == MASK
        assert answer["settings"]["webhook"] == {"secret_token": MASK, "url": "https://example.org"}
        assert answer["masked"] == {"bot_token": True, "webhook.secret_token": True}
        assert TOKEN not in str(answer)
        assert HOOK not in str(answer)
    assert TOKEN.encode() not in desk.everything()
    assert HOOK.encode() not in desk.everything()
    assert (desk.revealed("bot_token"), desk.revealed("webhook.secret_token")) == (TOKEN, HOOK)


@pytest.mark.parametrize("value", ["x", "y" * 500, "ü", " "])
def test_sec_01_the_mask_tells_nothing_of_the_length(desk: Desk, value: str) -> None:
    desk.set({"bot_token": value})
    assert desk.get()["settings"]["bot_token"] == "••••••••"


@pytest.mark.parametrize(
    ("sensitive", "patch", "shown"),
    [
        (["list"], {"list": ["one-secret", "two-secret"]}, {"list": MASK}),
        (["list.token"], {"list": [{"token": "one-secret"}]}, {"list": MASK}),
        (["number"], {"number": 4711471147}, {"number": MASK}),
        (["deep.er.est"], {"deep": {"er": {"est": "one-secret", "other": 1}}}, {"deep": {"er": {"est": MASK, "other": 1}}}),
        (["deep.er.est"], {"deep.er.est": "one-secret"}, {"deep": {"er": {"est": MASK, "other": 0}}}),
        (["deep.er"], {"deep.er": {"est": "one-secret", "more": ["two-secret"]}}, {"deep": {"er": MASK}}),
        (["flag"], {"flag": True}, {"flag": MASK}),
        (["not.there"], {"flag": True}, {"flag": True}),
    ],
)  # fmt: skip
def test_sec_01_a_sensitive_place_of_any_shape_is_masked(
    tmp_path: Path, sensitive: list[str], patch: dict[str, Any], shown: dict[str, Any]
) -> None:
    defaults = {"list": [], "number": 0, "deep": {"er": {"est": "", "other": 0}}, "flag": False}
    desk = Desk(tmp_path / "state", bot({"defaults": defaults, "sensitive": sensitive}))
    desk.set(patch)
    settings = desk.get()["settings"]
    assert settings | shown == settings
    assert "secret" not in str(settings)
    assert b"one-secret" not in desk.everything()
    assert b"4711471147" not in desk.everything()
    desk.close()


@pytest.mark.parametrize("path", ["*", "deep.*", "list[0]", "a..b", "a.b.", "__proto__.x", "list[].token"])
def test_sec_01_a_path_that_could_not_be_masked_refuses_the_skill(path: str) -> None:
    with pytest.raises(AssertionError, match="nothing could be masked"):
        bot({"defaults": {"a": 1}, "sensitive": [path]})


SECRET_NODE: dict[str, Json] = {"type": "string", "x-secret": True}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"place": {"type": "array", "items": SECRET_NODE}}},
        {"properties": {"place": {"type": "array", "items": {"properties": {"key": SECRET_NODE}}}}},
        {"properties": {"place": {"anyOf": [SECRET_NODE, {"type": "array"}]}}},
        {"properties": {"place": {"type": "object", "additionalProperties": SECRET_NODE}}},
        {"properties": {"place": {"patternProperties": {"^.": SECRET_NODE}}}},
        {"properties": {"place": {"$ref": "#/$defs/key"}}, "$defs": {"key": {"x-secret": True}}},
        {
            "properties": {"place": {"items": {"$ref": "#/definitions/key"}}},
            "definitions": {"key": {"x-secret": True}},
        },
        {"properties": {"place": {}}, "additionalProperties": SECRET_NODE},
        {"properties": {"place": {}}, "allOf": [{"properties": {"place": SECRET_NODE}}]},
        {"properties": {"place": {}}, "x-secret": True},
        {"properties": {"place": {"x-secret": "yes"}}},
    ],
)
def test_sec_01_what_is_secret_anywhere_in_a_schema_hides_all_that_holds_it(
    tmp_path: Path, schema: dict[str, Json]
) -> None:
    shape = Shape(shaped({"type": "object", **schema}))
    assert shape.is_secret(("place",))
    assert not Shape(shaped({"type": "object", "properties": {"place": {"type": "string"}}})).is_secret(
        ("place",)
    )


def test_sec_01_two_places_of_one_dotted_name_are_refused() -> None:
    schema: dict[str, Json] = {
        "properties": {"a.b": {"type": "string"}, "a": {"properties": {"b": SECRET_NODE}}},
    }
    with pytest.raises(ValueError, match="same dotted name"):
        Shape(shaped(schema))


def test_sec_01_a_name_with_a_dot_in_it_is_one_place(tmp_path: Path) -> None:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"api.key": SECRET_NODE, "api.url": {"type": "string"}},
    }
    desk = Desk(tmp_path / "state", shaped(schema))
    desk.set({"api.key": "one-secret", "api.url": "https://example.org"}, skill=BOT)
    assert desk.get(skill=BOT)["settings"] == {"api.key": MASK, "api.url": "https://example.org"}
    assert b"one-secret" not in desk.everything()
    desk.close()


CANARY = "canary-93ab1f"
names = st.sampled_from(["a", "b", "c", "a.b", "b.c"])
leaf = st.sampled_from(
    [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "items": {"properties": {"a": {"x-secret": True}}}},
        {"x-secret": True},
        {"type": "string", "x-secret": True},
        {},
    ]
)
nodes = st.recursive(
    leaf,
    lambda inner: st.dictionaries(names, inner, max_size=3).map(
        lambda found: {"type": "object", "properties": found}
    ),
)
schemas = st.dictionaries(names, nodes, min_size=1, max_size=3).map(
    lambda found: {"type": "object", "properties": found}
)
places = st.sampled_from(["a", "b", "c", "a.b", "b.c", "a.b.c", "", "d"])
values = st.recursive(
    st.sampled_from([CANARY, MASK, None, 5, True, "", [CANARY]]),
    lambda inner: st.dictionaries(places, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)
patches = st.lists(st.dictionaries(places, values, min_size=1, max_size=3), max_size=4)


def secret_at(shape: Shape, path: tuple[str, ...]) -> bool:
    return any(shape.is_secret(path[:size]) for size in range(1, len(path) + 1))


def where(value: Json, below: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every place at which the canary stands."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from where(each, (*below, name))
    elif isinstance(value, list):
        for each in value:
            yield from where(each, below)
    elif value == CANARY:
        yield below


@settings(max_examples=150, deadline=None)
@given(schemas, patches)
def test_sec_01_whatever_is_sent_nothing_secret_is_shown_or_kept_in_the_clear(
    schema: dict[str, Json], changes: list[dict[str, Json]]
) -> None:
    try:
        shape = Shape(shaped(schema))
    except ValueError:
        return
    held = Values(plain={}, secret={})
    for patch in changes:
        try:
            held, _ = patched(shape, held, patch, lambda _path, text: text)
        except BadPatch as error:
            assert CANARY not in str(error)
        told, masked = shown(shape, held)
        for plain in (told, held.plain):
            assert not [path for path in where(plain) if secret_at(shape, path)]
        assert set(masked) == set(held.secret)
        again, touched = patched(shape, held, told, lambda _path, text: text) if told else (held, [])
        assert again == held, touched


# SEC-02 and SEC-03: errors


@pytest.mark.parametrize(
    "patch",
    [
        {"bot_token": 12345678901},
        {"bot_token": ["a-secret-value"]},
        {"bot_token": {"value": "a-secret-value"}},
        {"bot_token": {"$sealed": "a-secret-value"}},
        {"mode": "a-secret-value"},
        {"admins": {"x": "a-secret-value"}},
        {"webhook": "a-secret-value"},
        {"webhook.secret_token": {"a-secret-value": True}},
        {"bot_token": f"a-secret-value {MASK}"},
        {"mode": {"$sealed": "a-secret-value"}},
    ],
)
def test_sec_02_no_error_quotes_what_was_sent(
    desk: Desk, caplog: pytest.LogCaptureFixture, patch: dict[str, Any]
) -> None:
    caplog.set_level(logging.DEBUG)
    error = desk.refusal("settings.set_skill", skill_id=BOT, patch=patch)
    for text in (error.message, str(error), repr(error), caplog.text):
        assert "a-secret-value" not in text
        assert "12345678901" not in text


def test_sec_02_the_checker_itself_would_quote_it() -> None:
    import jsonschema_rs

    with pytest.raises(jsonschema_rs.ValidationError, match="a-secret-value"):
        jsonschema_rs.validate({"type": "number"}, "a-secret-value")


def test_sec_03_nothing_that_holds_a_secret_prints_it(desk: Desk) -> None:
    desk.set({"bot_token": TOKEN})
    sealed = Sealed(str(desk.home))
    shown = repr(sealed) + repr(desk.settings) + repr(desk.secrets) + str(vars(sealed))
    identity = sealed._identity(make=False)
    shown += repr(identity) + str(identity)
    assert TOKEN not in shown
    assert "AGE-SECRET-KEY" not in shown
    assert "AGE-SECRET-KEY" in identity.text


def test_sec_03_the_trace_of_a_failed_write_has_nothing_of_it(desk: Desk) -> None:
    try:
        desk.set({"bot_token": TOKEN, "mode": "neither"})
    except OperationError as error:
        told = "".join(traceback.format_exception(error))
    assert TOKEN not in told
    assert error_locals_hold(TOKEN)


def error_locals_hold(value: str) -> bool:
    """That it could have: a trace with the locals of its frames does show them."""
    try:
        raise ValueError("it went wrong")
    except ValueError as error:
        return value in "".join(
            traceback.TracebackException.from_exception(error, capture_locals=True).format()
        )


# SEC-06: the mask sent back


def test_sec_06_the_mask_sent_back_keeps_the_secret_and_everything_else_is_written(desk: Desk) -> None:
    desk.set({"bot_token": TOKEN, "webhook.secret_token": HOOK})
    whole = desk.get()["settings"]
    whole["auto_start"] = True
    assert desk.set(whole)["ok"] is True
    assert (desk.revealed("bot_token"), desk.revealed("webhook.secret_token")) == (TOKEN, HOOK)
    assert desk.get()["settings"]["auto_start"] is True
    desk.set({"bot_token": "another-token-1"})
    assert desk.revealed("bot_token") == "another-token-1"


def test_sec_06_the_mask_never_becomes_a_value(desk: Desk) -> None:
    desk.set({"bot_token": MASK})
    assert desk.revealed("bot_token") is None
    assert "bot_token" not in desk.get()["settings"]
    desk.set({"bot_token": TOKEN})
    for patch in (
        {"bot_token": f"Bearer {MASK}"},
        {"webhook.url": MASK},
        {"admins": [MASK]},
        {"webhook": MASK},
    ):
        error = desk.refusal("settings.set_skill", skill_id=BOT, patch=patch)
        assert error.code == "E_SETTINGS_BAD_PARAMS"
    assert desk.revealed("bot_token") == TOKEN


def test_sec_06_an_empty_text_is_no_secret(desk: Desk) -> None:
    desk.set({"bot_token": TOKEN})
    desk.set({"bot_token": ""})
    assert desk.revealed("bot_token") is None
    assert desk.get(include_masked=True)["masked"] == {}


# SEC-07: secret only later


def test_sec_07_what_becomes_secret_is_masked_at_once_and_sealed_when_the_skill_is_enabled(
    tmp_path: Path,
) -> None:
    fields = BOT_SETTINGS["schema"]["fields"]
    before = {"schema": {"fields": [{**each, "secret": False} for each in fields]}}
    desk = Desk(tmp_path / "state", bot(before))
    desk.set({"bot_token": TOKEN, "auto_start": True})
    assert desk.get()["settings"]["bot_token"] == TOKEN
    assert TOKEN in (desk.row() or "")
    desk.skills[BOT] = bot(version="2")
    assert desk.get()["settings"]["bot_token"] == MASK
    desk.prepare()
    assert desk.get()["settings"] == {"auto_start": True, "bot_token": MASK}
    assert TOKEN not in (desk.row() or "")
    assert desk.revealed("bot_token") == TOKEN
    with desk.store.reading() as connection:
        connection.execute("SELECT 1")
    desk.store.close()  # SQLite puts its log into the file then
    assert TOKEN.encode() not in (desk.home / "kernel.db").read_bytes()


def test_sec_07_what_is_no_longer_declared_secret_stays_sealed(desk: Desk) -> None:
    desk.set({"bot_token": TOKEN})
    fields = [{**each, "secret": False} for each in BOT_SETTINGS["schema"]["fields"]]
    desk.skills[BOT] = bot({"schema": {"fields": fields}}, version="2")
    desk.prepare()
    assert desk.get()["settings"].get("bot_token") == MASK
    desk.set({"bot_token": "the-next-token"})
    assert (desk.get()["settings"]["bot_token"], desk.revealed("bot_token")) == (MASK, "the-next-token")
    assert TOKEN.encode() not in desk.everything()
    assert b"the-next-token" not in desk.everything()
    desk.set({"bot_token": None})
    desk.set({"bot_token": "no secret any more"})
    assert desk.get()["settings"]["bot_token"] == "no secret any more"


# What a door seals


def test_a_door_hands_a_secret_over_sealed_for_that_place_alone(desk: Desk) -> None:
    def sealed(path: str, skill: str = BOT, value: str = '"sent-by-a-door"') -> dict[str, Any]:
        return {SEALED: desk.sealed.wrapped(value, wrapped_for(skill, path))}

    given = sealed("bot_token")
    assert "sent-by-a-door" not in str(given)
    desk.set({"bot_token": given})
    assert desk.revealed("bot_token") == "sent-by-a-door"
    for bad in (
        sealed("webhook.secret_token"),
        sealed("bot_token", "other"),
        sealed("bot_token", value="5"),
        {SEALED: "x"},
        {SEALED: 5},
    ):
        assert desk.refusal("settings.set_skill", skill_id=BOT, patch={"bot_token": bad}).code
    assert desk.revealed("bot_token") == "sent-by-a-door"


def test_a_file_put_in_the_place_of_another_is_refused(desk: Desk) -> None:
    desk.skills["other"] = bot(id="other")
    desk.set({"bot_token": TOKEN})
    desk.set({"bot_token": "token-of-the-other"}, skill="other")
    first, second = sorted((desk.home / "secrets" / "skills").iterdir())
    data = first.read_bytes()
    second.write_bytes(data)
    second.chmod(0o600)
    problems: list[str] = []
    for name in (BOT, "other"):
        try:
            desk.sealed.of_skill(name)
        except StateError as error:
            problems.append(str(error))
    (problem,) = problems
    assert "for something else" in problem


# SEC-04 and SEC-11: on the way out


class Echo(Listener):
    """A server that sends back what it was sent, and who vouches for it."""

    def __init__(self, folder: Path) -> None:
        authority = make_authority(folder)
        self.roots = authority.roots
        super().__init__(echo, tls=authority.server("a.example"))


def request(
    desk: Desk, listener: Echo, skill: str, name: str = "setting:bot_token"
) -> list[Answered | NotAnswered]:
    world = World()
    world.put("a.example", listener)

    def make(**given: Any) -> Egress:
        return Egress(**given, resolver=world.resolve, connect=world.connect, extra_roots=listener.roots)

    async def main() -> list[Answered | NotAnswered]:
        service = Http(
            frozenset({"a.example"}),
            own_settings(str(desk.home), skill),
            make,
            secrets=names_of_own_settings(str(desk.home), skill),
        )
        try:
            headers = {"Authorization": {"secret": name, "before": "Bearer "}}
            return [await service.answer({"url": "https://a.example/", "headers": headers})]
        finally:
            await service.aclose()

    return anyio.run(main)


def echo(asked: Request) -> list[bytes]:
    """What was sent, in every spelling, and in pieces."""
    token = asked.headers.get("authorization", "").removeprefix("Bearer ").encode()
    spelled = b" ".join(
        (
            token,
            base64.b64encode(token),
            token.hex().encode(),
            b"".join(b"%%%02X" % each for each in token),
            token.upper(),
        )
    )
    whole = reply(body=spelled)
    return [whole[at : at + 7] for at in range(0, len(whole), 7)]


@pytest.fixture
def echoing(tmp_path: Path) -> Iterator[Echo]:
    listener = Echo(tmp_path)
    yield listener
    listener.close()


def test_sec_04_a_skills_own_secret_goes_out_by_name_and_never_comes_back(desk: Desk, echoing: Echo) -> None:
    desk.set({"bot_token": TOKEN})
    (answer,) = request(desk, echoing, BOT)
    assert echoing.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert isinstance(answer, Answered)
    body = str(answer.value["body"]) if isinstance(answer.value, dict) else ""
    for spelling in (TOKEN, TOKEN.upper(), TOKEN.encode().hex(), base64.b64encode(TOKEN.encode()).decode()):
        assert spelling not in str(answer.value)
    assert body.count(MASK) == 5
    unmasked = b"".join(echo(echoing.asked[0]))  # without the mask it would all be there
    assert TOKEN.encode() in unmasked


def test_sec_04_a_secret_of_another_skill_is_not_there(desk: Desk, echoing: Echo) -> None:
    desk.set({"bot_token": TOKEN})
    for skill, name in (
        ("other", "setting:bot_token"),
        (BOT, "setting:mode"),
        (BOT, "bot_token"),
        ("", "setting:bot_token"),
    ):
        (answer,) = request(desk, echoing, skill, name)
        assert isinstance(answer, NotAnswered), (skill, name)
    assert echoing.asked == []


def test_sec_11_a_new_secret_counts_with_the_next_request_and_the_old_one_never_again(
    desk: Desk, echoing: Echo
) -> None:
    reveal = own_settings(str(desk.home), BOT)
    desk.set({"bot_token": TOKEN})
    assert reveal("setting:bot_token") == TOKEN
    desk.set({"bot_token": "rotated-token-2"})
    assert reveal("setting:bot_token") == "rotated-token-2"
    request(desk, echoing, BOT)
    assert echoing.asked[-1].headers["authorization"] == "Bearer rotated-token-2"
    desk.set({"bot_token": None})
    assert reveal("setting:bot_token") is None
    desk.set({"bot_token": TOKEN})
    desk.ask("settings.reset_skill", skill_id=BOT_ID)
    assert reveal("setting:bot_token") is None


def test_sec_08_sealed_files_and_the_key_are_this_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        desk = Desk(tmp_path / "state")
        desk.set({"bot_token": TOKEN})
        desk.sealed.write("NAME", "a-named-secret")
        desk.set({"bot_token": "rotated-token-2"})
    finally:
        os.umask(before)
    files = [each for each in desk.home.rglob("*") if each.suffix == ".age"]
    assert len(files) == 3
    for each in files:
        assert each.stat().st_mode & 0o777 == 0o600, each
        assert each.parent.stat().st_mode & 0o777 == 0o700, each
    for each in files:
        assert TOKEN.encode() not in each.read_bytes()
        assert b"rotated-token-2" not in each.read_bytes()
    desk.close()
