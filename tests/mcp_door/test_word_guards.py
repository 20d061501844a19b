"""What a client is told and whose answers count, each guard by itself: refusals, questions, forms, and requests that end with a right."""

import tracemalloc
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from msgspec import structs

from metier.catalog.here import owner
from metier.doors.mcp import elicitation, lasting, lines, questions, refusals
from metier.doors.mcp.elicitation import ask_now, can_ask, question_in, said_in
from metier.doors.mcp.lasting import Lasting
from metier.doors.mcp.peer import Peer
from metier.doors.mcp.questions import Question, Questions
from metier.doors.mcp.refusals import SETUP, in_our_words
from metier.errors import StateError
from metier.model.call import Principal
from metier.model.outcome import Refused
from metier.model.role import EXECUTE, Registered, Standing
from metier.record.database import Database
from metier.record.principals import add_principal, revoke_principal

PEER = Peer(principal=Principal(id="agent:a", kind="agent", on_behalf_of=owner()), connection="c")


# --- refusals


class Told:
    """What a client is told of a refusal."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.standing: Standing | StateError = Standing(rights=frozenset({EXECUTE}))
        self.tools: list[str] = ["tea__pour", "tea__brew"]
        self.skills = [("tea", True), ("hidden", False)]
        patch.setattr(refusals, "standing_of", self._standing)
        patch.setattr(refusals, "shown_to", self._shown)

    async def _standing(self, *_: object) -> Standing:
        if isinstance(self.standing, StateError):
            raise self.standing
        return self.standing

    async def _shown(self, *_: object) -> list[Any]:
        return [SimpleNamespace(name=each) for each in self.tools]

    def of(self, code: Any, name: str = "zzz", peer: Peer = PEER) -> Refused:
        usable = [SimpleNamespace(name=each, model_may_invoke=may) for each, may in self.skills]
        catalog = SimpleNamespace(usable=lambda: usable)
        engine: Any = SimpleNamespace(
            state=SimpleNamespace(database=None), seen=SimpleNamespace(catalog=catalog)
        )
        refused = Refused(call_id="call_1", code=code, reasons=("no: inner/name",), remedy="Try inner/other")

        async def main() -> Refused:
            return await in_our_words(engine, peer, refused, tool=name, skill=name)

        return anyio.run(main)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


@pytest.mark.parametrize("code", ["unknown_tool", "unknown_skill", "invalid_arguments"])
@pytest.mark.parametrize(
    "standing",
    [Standing(problem="it was revoked", rights=frozenset({EXECUTE})), Standing(rights=frozenset())],
    ids=["revoked", "without the right"],
)
def test_cap_13_whoever_may_use_nothing_is_told_that_and_no_name(
    told: Told, code: str, standing: Standing
) -> None:
    told.standing = standing
    found = told.of(code, "tea__pou")
    assert found.code == "forbidden"
    assert found.reasons == (standing.problem or "'agent:a' has no right to use tools",)
    assert "tea" not in f"{found.reasons}{found.remedy}"
    assert "inner" not in f"{found.reasons}{found.remedy}"


def test_cap_13_where_it_cannot_be_seen_what_he_may_he_is_told_of_nothing(told: Told) -> None:
    told.standing = StateError("no disk", remedy="")
    found = told.of("unknown_tool", "tea__pou")
    assert (found.code, found.remedy) == ("unknown_tool", "")


def test_other_tools_are_named_as_they_were_shown(told: Told) -> None:
    assert told.of("unknown_tool", "tea__pou").remedy == "Did you mean 'tea__pour'?"
    assert told.of("unknown_tool").remedy == "Tools are: tea__pour, tea__brew"
    told.tools = []
    assert told.of("unknown_tool").remedy == "There are no tools here at the moment"
    told.tools = [f"t{each}" for each in range(25)]
    assert told.of("unknown_tool").remedy.endswith("t19, and 5 more")


def test_a_skill_that_models_may_not_invoke_is_not_named_to_one(told: Told) -> None:
    assert told.of("unknown_skill").remedy == "Skills are: tea"
    assert "hidden" not in told.of("unknown_skill", "hidde").remedy


def test_what_was_said_after_the_rights_were_asked_stays_as_it_is(told: Told) -> None:
    told.standing = Standing(problem="it was revoked")
    assert told.of("forbidden").remedy == "Try inner/other"
    told.standing = Standing(rights=frozenset({EXECUTE}))
    assert told.of("invalid_arguments").remedy == "Try inner/other"


@pytest.mark.parametrize("code", ["setup_unusable", "record_unavailable"])
def test_files_of_this_machine_are_named_to_the_local_user_only(told: Told, code: str) -> None:
    away = structs.replace(PEER, remote=True)
    assert told.of(code, peer=away).reasons == (SETUP,)
    assert told.of(code).reasons == ("no: inner/name",)
    assert told.of("forbidden", peer=away).reasons == ("no: inner/name",)


# --- questions


def other(peer: Peer = PEER, **more: Any) -> Peer:
    return structs.replace(peer, **more)


SOMEBODY_ELSE = other(principal=Principal(id="agent:b", kind="agent"))


@pytest.mark.parametrize(
    ("changed", "peer", "act"),
    [
        ({"kind": "approve"}, PEER, "act"),
        ({"about": "apr_2"}, PEER, "act"),
        ({"act": "more"}, PEER, "more"),
        ({}, PEER, "more"),
        ({}, SOMEBODY_ELSE, "act"),
        ({}, other(connection="d"), "act"),
        ({"id": "ask_1"}, PEER, "act"),
    ],
    ids=["kind", "about", "both acts", "act", "principal", "connection", "id"],
)
def test_an_answer_counts_only_where_everything_is_as_it_was_asked(
    changed: dict[str, Any], peer: Peer, act: str
) -> None:
    asked = Questions()
    put = asked.put("confirm", PEER, "act", "apr_1")
    assert not asked.take(structs.replace(put, **changed), peer, act)
    if "id" not in changed:
        assert not asked.take(put, PEER, "act"), "and it was the only answer that there could be"
    control = asked.put("confirm", PEER, "act", "apr_1")
    assert asked.take(control, PEER, "act")
    assert not asked.take(control, PEER, "act"), "once"


def test_an_answer_that_comes_too_late_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1_000.0
    monkeypatch.setattr(questions.time, "monotonic", lambda: clock)
    asked = Questions()
    early, late = asked.put("confirm", PEER, "act"), asked.put("confirm", PEER, "act")
    clock += questions.SECONDS
    assert asked.take(early, PEER, "act")
    clock += 1
    assert not asked.take(late, PEER, "act")


def test_what_nobody_answers_any_more_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1_000.0
    monkeypatch.setattr(questions.time, "monotonic", lambda: clock)
    asked = Questions()
    for _ in range(10):
        asked.put("confirm", PEER, "act")
    clock += questions.SECONDS + 1
    asked.put("confirm", SOMEBODY_ELSE, "act")
    assert len(asked._open) == 1


# --- forms


def context(declared: Any, *, version: str = "2025-11-25", sends: bool = True, answer: Any = None) -> Any:
    async def elicit_form(*_: object, **__: object) -> Any:
        return await answer()

    session = SimpleNamespace(client_capabilities=declared, can_send_request=sends, elicit_form=elicit_form)
    return SimpleNamespace(session=session, protocol_version=version, request_id=1)


def capable(**ways: Any) -> types.ClientCapabilities:
    return types.ClientCapabilities(elicitation=types.ElicitationCapability(**ways))


FORM, URL = {"form": types.FormElicitationCapability()}, {"url": types.UrlElicitationCapability()}


@pytest.mark.parametrize(
    ("declared", "can"),
    [
        (None, False),
        (types.ClientCapabilities(), False),
        (capable(), True),
        (capable(**FORM), True),
        (capable(**URL), False),
        (capable(**FORM, **URL), True),
    ],
    ids=["nothing", "no questions", "as it was before there were ways", "forms", "addresses", "both"],
)
def test_only_a_client_that_shows_forms_is_asked(declared: Any, can: bool) -> None:
    assert can_ask(context(declared)) == can


def test_a_client_that_cannot_be_asked_now_is_asked_only_by_a_result() -> None:
    assert not can_ask(context(capable(**FORM), sends=False))
    assert can_ask(context(capable(**FORM), sends=False, version="2026-07-28"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"action": "accept", "content": {"go_ahead": True}}, "yes"),
        ({"action": "accept", "content": {"go_ahead": False}}, "no"),
        ({"action": "accept", "content": {"go_ahead": "true"}}, "no"),
        ({"action": "accept", "content": {"go_ahead": 1}}, "no"),
        ({"action": "accept", "content": {}}, "no"),
        ({"action": "accept"}, "no"),
        ({"action": "decline", "content": {"go_ahead": True}}, "no"),
        ({"action": "cancel", "content": {"go_ahead": True}}, "nothing"),
    ],
    ids=str,
)
def test_nothing_but_a_plain_yes_is_one(answer: dict[str, Any], said: str) -> None:
    result = types.ElicitResult(**answer)
    params = types.CallToolRequestParams(name="t", input_responses={"answer": result})
    assert said_in(params) == said

    async def given() -> types.ElicitResult:
        return result

    assert anyio.run(ask_now, context(capable(**FORM), answer=given), "?") == said


def test_an_answer_to_something_else_is_none() -> None:
    yes = types.ElicitResult(action="accept", content={"go_ahead": True})
    for given in (None, {}, {"other": yes}, {"answer": types.ListRootsResult(roots=[])}):
        params = types.CallToolRequestParams(name="t", input_responses=given)
        assert said_in(params) == "nothing"


@pytest.mark.parametrize("state", [None, "", "x", "{}", "[1]", '{"kind":"confirm"}', "\ud800"])
def test_what_cannot_be_a_question_of_ours_is_none(state: str | None) -> None:
    params = types.CallToolRequestParams.model_construct(name="t", request_state=state)
    assert question_in(params) is None


def test_a_question_comes_back_as_it_was_put() -> None:
    put = Question(kind="approve", id="ask_1", act="a", about="apr_1")
    result = elicitation.ask_by_result("?", put)
    assert question_in(types.CallToolRequestParams(name="t", request_state=result.request_state)) == put


def test_no_answer_a_fault_and_who_has_gone_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> None:
        await anyio.sleep_forever()

    async def breaks() -> None:
        raise MCPError(-32000, "no")

    async def main() -> None:
        with anyio.fail_after(5):
            assert await ask_now(context(capable(**FORM), answer=breaks), "?") == "nothing"
            gone = anyio.Event()
            gone.set()
            assert await ask_now(context(capable(**FORM), answer=never), "?", gone) == "nothing"
            monkeypatch.setattr(elicitation, "SECONDS", 0.05)
            assert await ask_now(context(capable(**FORM), answer=never), "?") == "nothing"

    anyio.run(main)


# --- requests that end with the right to make them


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Database]:
    monkeypatch.setattr(lasting, "LOOK_SECONDS", 0.02)
    with Database.open(str(tmp_path / "state.db")) as made:
        agent = Registered(id="agent:a", kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
        assert add_principal(made, agent, by=owner(), owner=owner()) == ""
        yield made


def followed(database: Database, act: Callable[[Lasting], Any]) -> None:
    async def main() -> None:
        under = Lasting(database)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(under.follow)
            with anyio.fail_after(10):
                await act(under)
            tasks.cancel_scope.cancel()

    anyio.run(main)


def test_it_is_read_again_only_when_something_was_written_and_not_at_all_while_nothing_is_under_way(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, read, real = 0, 0, lasting.steering_in
    whole = Lasting._look

    def look(self: Lasting) -> Any:
        nonlocal looked
        looked += 1
        return whole(self)

    def steering(connection: Any) -> Any:
        nonlocal read
        read += 1
        return real(connection)

    monkeypatch.setattr(Lasting, "_look", look)
    monkeypatch.setattr(lasting, "steering_in", steering)

    async def act(under: Lasting) -> None:
        await anyio.sleep(0.2)
        assert looked == 0

        async def work() -> str:
            while looked < 5:
                await anyio.sleep(0.01)
            return "done"

        assert await under.while_let_in(PEER, work) == "done"
        assert read == 1
        before = looked
        await anyio.sleep(0.2)
        assert looked <= before + 1, "who has ended is looked after no more"

    followed(database, act)


def test_only_the_requests_of_who_is_revoked_end_and_they_say_why(database: Database) -> None:
    async def act(under: Lasting) -> None:
        ended: list[str] = []

        async def one(peer: Peer, seconds: float) -> None:
            try:
                await under.while_let_in(peer, lambda: anyio.sleep(seconds))
                ended.append("done")
            except MCPError as error:
                ended.append(error.error.message)

        mine = other(principal=Principal(id=owner(), kind="human"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, PEER, 9)
            tasks.start_soon(one, mine, 1)
            await anyio.sleep(0.1)
            assert revoke_principal(database, "agent:a", by=owner(), owner=owner()) == ""
        assert len(ended) == 2
        assert "ended before it was done" in ended[0]
        assert "revoked" in ended[0]
        assert ended[1] == "done"

    followed(database, act)


def test_while_it_cannot_be_looked_what_was_let_in_goes_on_and_is_looked_at_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, real = 0, Lasting._look

    def fails(self: Lasting) -> Any:
        nonlocal tried
        tried += 1
        if tried < 3:
            raise StateError("no disk", remedy="")
        return real(self)

    monkeypatch.setattr(Lasting, "_look", fails)

    async def act(under: Lasting) -> None:
        async def work() -> str:
            while tried < 4:
                await anyio.sleep(0.01)
            return "done"

        assert await under.while_let_in(PEER, work) == "done"

    followed(database, act)


# --- a line without an end


def test_web_19_of_a_line_without_an_end_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_BYTES", 100_000)
    left = 300

    class Endless:
        def read(self, size: int, /) -> bytes:
            nonlocal left
            left -= 1
            return b"x" * size if left > 0 else b""

    async def main() -> None:
        async for _ in lines._lines(Endless()):
            pass

    tracemalloc.start()
    try:
        anyio.run(main)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000, "it sent twenty million bytes"
