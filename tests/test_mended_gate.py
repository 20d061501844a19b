"""Ways around the gate that were open once, at the pipeline: each is closed, and stands open again where the mend is taken away."""

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs

import metier.gate.desk as desk
import metier.gate.schema as schema
import metier.gate.shown as shown
import metier.gate.terms as terms
import metier.record.approvals as approvals
import metier.record.standing as standing
import parlour
from approval_kit import later
from gatehouse import OWNER
from metier.gate.roles import needed
from metier.gate.rules import Names, Rule, Rules
from metier.model.approval import Approval
from metier.model.call import Call, Principal, ValidCall
from metier.model.outcome import Completed, Outcome, Pending, Refused
from metier.model.role import EXECUTE, TRUST, Registered, Role
from metier.model.verdict import Decision
from metier.pipeline import run
from metier.record import writer as writers
from metier.record.approval_clock import moment
from metier.record.approvals import find, stored_call
from metier.record.deciding import Undecided
from metier.record.held import Held
from metier.record.level import set_level
from metier.record.principals import add_principal, revoke_principal
from metier.record.standing import proposed_grant
from parlour import AGENT, Parlour, tool

Act = Callable[[], object]
OF_OWNER = Principal(id=AGENT, kind="agent", on_behalf_of=OWNER)


def made(principal: Principal = OF_OWNER, name: str = "send", id: str = "call_x") -> Call:
    return Call(id=id, principal=principal, tool=name, arguments={"to": "ada", "text": id})


def meanwhile(room: Parlour, call: Call, then: Act) -> Outcome:
    """One call; after it was judged and before it begins, somebody else does something."""
    house = room.house

    async def look(valid: ValidCall) -> Any:
        found = await room.look(valid)
        then()
        return found

    return anyio.run(run, call, structs.replace(house, look=look))


def code(outcome: Outcome | None) -> str:
    return outcome.code if isinstance(outcome, Refused) else type(outcome).__name__


# --- every statement may fail


class Storm:
    """Each point at which the database can fail, under three calls and two who take up one decision, all at once."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch, error: Exception, *, on: bool) -> None:
        """`on`: everything fails from there on."""
        self.top, self.error, self.on = top, error, on
        self.count, self.at = 0, -1
        real = Held.execute

        def execute(held: Held, *given: Any) -> Any:
            self.count += 1
            if 0 <= self.at < self.count and (on or self.count == self.at + 1):
                raise self.error
            return real(held, *given)

        patch.setattr(Held, "execute", execute)

    def ungated(self) -> list[int]:
        """The points at which something ran that no record says began, or ran twice on one approval."""
        return [point for point in POINTS if self._one(point)]

    def _one(self, point: int) -> bool:
        top = self.top / str(point)
        top.mkdir(mode=0o700)
        room = Parlour(top, tool(), tool("ask", risk="high"))
        asked = room.call("ask")
        room.decided(asked)
        assert isinstance(asked, Pending)
        stored = stored_call(room.database, asked.approval_id)
        assert stored is not None
        house = room.house

        async def one(call: Call) -> None:
            with suppress(Exception):  # how it is told is another's promise
                await run(call, house)

        async def all_at_once() -> None:
            async with anyio.create_task_group() as tasks:
                for call in (*(made(id=f"c{number}") for number in range(3)), stored, stored):
                    tasks.start_soon(one, call)

        self.count, self.at = 0, point
        anyio.run(all_at_once)
        self.at = -1
        with sqlite3.connect(top / "state.db") as connection:
            bodies = [json.loads(body) for (body,) in connection.execute("SELECT body FROM audit")]
        connection.close()
        room.database.close()
        began = sum(each["event"] == "skill_execution_started" for each in bodies)
        twice = sum(each.get("text") == "tea?" for each in room.ran) > 1
        return len(room.ran) > began or twice


@pytest.fixture
def quiet() -> Any:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


POINTS = sorted({*range(0, 210, 15), *range(104, 112)})
"""All along the way, and each where the intents of all are committed together."""
FAULTS = [sqlite3.OperationalError("disk I/O error"), MemoryError(), OSError("gone")]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("on", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("error", FAULTS, ids=lambda each: type(each).__name__)
def test_aud_07_whichever_statement_fails_nothing_runs_ungated_and_no_approval_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, on: bool
) -> None:
    assert Storm(tmp_path, monkeypatch, error, on=on).ungated() == []


@pytest.mark.usefixtures("quiet")
def test_a_writer_that_takes_work_for_written_before_it_is_lets_calls_run_ungated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "_not_written", lambda *_: None)
    assert Storm(tmp_path, monkeypatch, MemoryError(), on=True).ungated()


# --- where paths lead

PATHS: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["path"],
}


def swapped(top: Path, tags: list[str]) -> tuple[Outcome, Outcome | None]:
    """Asked for and approved with a link that leads to one folder, and taken up when it leads to another."""
    for name in ("mine", "yours"):
        (top / name).mkdir()
    link = top / "z"
    link.symlink_to("mine")
    room = Parlour(top, tool(risk="high", parameters=PATHS))
    asked = room.call(arguments={"path": str(link / "note.txt"), "tags": tags})
    if not isinstance(asked, Pending):
        return asked, None
    assert isinstance(room.decided(asked), Approval)
    link.unlink()
    link.symlink_to("yours")
    return asked, room.resume(asked)


PADDING = ["/" + "./" * number for number in range(256)]


def test_apr_10_no_padding_hides_a_link_from_what_is_approved(tmp_path: Path) -> None:
    asked, _ = swapped(tmp_path, PADDING)
    assert code(asked) == "invalid_arguments"


def test_apr_10_a_link_that_leads_elsewhere_after_the_yes_voids_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert code(swapped(tmp_path / "a", [])[1]) == "approval_void"
    for place in (desk, parlour):  # what leaves paths out for being too many
        monkeypatch.setattr(
            place, "around", lambda *_: {"programs": "", "variables": {}, "paths": {}, "replaces": {}}
        )
    assert code(swapped(tmp_path / "b", PADDING)[1]) == "Completed"


def goes_on_while_paths_are_followed(top: Path, patch: pytest.MonkeyPatch, patience: float) -> bool:
    """Whether anything else goes on while the paths of a call that is asked are followed."""
    room = Parlour(top, tool(risk="high"))
    began, beaten, seen = threading.Event(), threading.Event(), list[bool]()
    real = desk.around

    def slow(*given: Any) -> Any:
        began.set()
        seen.append(beaten.wait(patience))
        return real(*given)

    patch.setattr(desk, "around", slow)

    async def beat() -> None:
        while not began.is_set():
            await anyio.sleep(0.001)
        beaten.set()

    async def ask() -> None:
        assert isinstance(await run(made(), room.house), Pending)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(beat)
            tasks.start_soon(ask)

    anyio.run(main)
    return seen == [True]


def test_nothing_else_waits_while_the_paths_of_an_asked_call_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with monkeypatch.context() as patch:
        assert goes_on_while_paths_are_followed(tmp_path / "a", patch, 20.0)

    async def right_here(work: Callable[..., Any], *given: Any, **_: Any) -> Any:
        return work(*given)

    monkeypatch.setattr(desk.to_thread, "run_sync", right_here)
    assert not goes_on_while_paths_are_followed(tmp_path / "b", monkeypatch, 0.05)


# --- schemas


def judging_takes(patch: pytest.MonkeyPatch, most: int) -> tuple[str, float]:
    """What is said of ten thousand values against an enum of a hundred objects, and how long that takes."""
    with patch.context() as bound:
        bound.setattr(schema, "MAX_STEPS", most)
        kinds = [{"k": number} for number in range(100)]
        items = {"type": "array", "items": {"not": {"enum": kinds}}}
        parameters: dict[str, Any] = {"type": "object", "properties": {"x": items}}
        few: dict[str, Any] = {"x": [{"k": 1000}]}
        assert schema.problem_with(parameters, few) == ""
        began = time.perf_counter()
        said = schema.problem_with(parameters, {"x": [{"k": 1000}] * 10_000})
        return said, time.perf_counter() - began


def test_a_schema_within_all_bounds_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    said, bounded = judging_takes(monkeypatch, schema.MAX_STEPS)
    assert "too many values" in said
    said, unbounded = judging_takes(monkeypatch, 10**15)
    assert said == ""
    assert unbounded > 5 * bounded


TWICE: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/t"}},
    "$defs": {
        "t": {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/t"}},
                {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/t"}},
                {"const": "leaf"},
            ]
        }
    },
}


def nested(depth: int, leaf: str) -> dict[str, Any]:
    value: Any = leaf
    for _ in range(depth):
        value = [value]
    return {"x": value}


def test_a_schema_that_leads_into_itself_by_two_ways_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert schema.problem_with(TWICE, nested(3, "leaf")) == ""
    assert "does not fit 'anyOf'" in schema.problem_with(TWICE, nested(3, "other"))
    began = time.perf_counter()
    for depth in (10, 14, 30):
        assert "too deep" in schema.problem_with(TWICE, nested(depth, "other"))
    bounded = time.perf_counter() - began
    schema._validator.cache_clear()
    monkeypatch.setattr(schema, "_growing", lambda _tree, nodes: lambda _depth: nodes)
    began = time.perf_counter()
    assert "does not fit 'anyOf'" in schema.problem_with(TWICE, nested(10, "other"))
    assert time.perf_counter() - began > 5 * bounded
    schema._validator.cache_clear()


# --- who stands behind


CHAINS = {
    "a skill of his agent": Principal(id="skill:mail", kind="skill", on_behalf_of=AGENT),
    "his agent, and its door leaves out for whom": Principal(id=AGENT, kind="agent"),
    "his agent": OF_OWNER,
}


@pytest.mark.parametrize("asker", CHAINS.values(), ids=CHAINS)
def test_apr_18_with_four_eyes_nobody_says_yes_to_what_is_asked_in_his_name(
    tmp_path: Path, asker: Principal
) -> None:
    room = Parlour(tmp_path, tool(risk="high"))
    asked = anyio.run(run, made(asker), room.house)
    said = room.decided(asked, four_eyes=True)
    assert isinstance(said, Undecided)
    assert said.code == "own_request"
    room.add("human:bob", "approver")
    assert isinstance(room.decided(asked, four_eyes=True, by="human:bob", role="approver"), Approval)


def test_apr_18_without_who_stands_behind_four_eyes_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = desk.shown
    monkeypatch.setattr(
        desk, "shown", lambda given, **more: real(given, cwd=more["cwd"], programs=more["programs"])
    )
    room = Parlour(tmp_path, tool(risk="high"))
    asked = anyio.run(run, made(CHAINS["a skill of his agent"]), room.house)
    assert isinstance(room.decided(asked, four_eyes=True), Approval)


FOR_ADA = {
    "her agent says so": Principal(id="agent:mail", kind="agent", on_behalf_of="human:ada"),
    "her agent says nothing": Principal(id="agent:mail", kind="agent"),
    "a skill of her agent": Principal(id="skill:x", kind="skill", on_behalf_of="agent:mail"),
}


def register(room: Parlour, id: str, kind: Any, behalf: str, role: Role) -> None:
    new = Registered(id=id, kind=kind, on_behalf_of=behalf, roles=frozenset({role}))
    assert add_principal(room.database, new, by=OWNER, owner=OWNER) == ""


def of_ada(top: Path) -> Parlour:
    room = Parlour(top, tool())
    register(room, "human:ada", "human", "", "operator")
    register(room, "agent:mail", "agent", "human:ada", "agent")
    return room


def revoke(room: Parlour, id: str) -> None:
    assert revoke_principal(room.database, id, by=OWNER, owner=OWNER) == ""


def lowered(room: Parlour) -> None:
    revoke(room, "agent:mail")
    register(room, "agent:mail", "agent", "human:ada", "viewer")


@pytest.mark.parametrize("asker", FOR_ADA.values(), ids=FOR_ADA)
def test_cap_12_who_is_revoked_after_a_call_was_judged_takes_it_with_him(
    tmp_path: Path, asker: Principal
) -> None:
    room = of_ada(tmp_path)
    assert code(meanwhile(room, made(asker), lambda: revoke(room, "human:ada"))) == "forbidden"
    assert room.ran == []


@pytest.mark.parametrize(
    "then",
    [lowered, lambda room: set_level(room.database, "suggest_only", by=OWNER)],
    ids=["roles", "level"],
)
def test_cap_12_what_an_operator_changes_after_a_call_was_judged_has_it_judged_again(
    tmp_path: Path, then: Callable[[Parlour], object]
) -> None:
    room = of_ada(tmp_path)
    asker = FOR_ADA["her agent says so"]
    assert code(meanwhile(room, made(asker), lambda: then(room))) == "changed_meanwhile"
    assert room.ran == []


@pytest.mark.parametrize("then", [lambda room: revoke(room, "human:ada"), lowered], ids=["revoked", "roles"])
def test_cap_12_where_it_is_not_asked_again_the_call_of_who_was_revoked_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: Callable[[Parlour], object]
) -> None:
    monkeypatch.setattr(terms, "steering_problem", lambda *_, **__: None)
    room = of_ada(tmp_path)
    assert code(meanwhile(room, made(FOR_ADA["her agent says so"]), lambda: then(room))) == "Completed"


# --- which clock


def an_hour_passes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(terms, "moment", lambda: later(moment(), 3600.0))


@pytest.mark.parametrize(("passes", "ends"), [(True, "approval_void"), (False, "Completed")])
def test_apr_16_a_decision_that_expires_after_the_call_was_judged_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: bool, ends: str
) -> None:
    room = Parlour(tmp_path, tool(risk="high"))
    asked = room.call()
    assert isinstance(asked, Pending)
    room.decided(asked, use_within=60.0)
    stored = stored_call(room.database, asked.approval_id)
    assert stored is not None
    assert code(meanwhile(room, stored, lambda: an_hour_passes(monkeypatch) if passes else None)) == ends


def always(room: Parlour, *, by: str = OWNER, role: Role = "owner", days: int = 30) -> None:
    """One call is answered with always."""
    asked = room.call()
    assert isinstance(asked, Pending), asked
    found = find(room.database, asked.approval_id)
    assert found is not None
    grant = proposed_grant(found.shown, "always", approval=asked.approval_id, by=by, days=days)
    assert isinstance(room.decided(asked, by=by, role=role, scope="always", grant=grant), Approval)
    assert isinstance(room.call(), Completed)


@pytest.mark.parametrize(("seconds", "ends"), [(172_800.0, "approval_required"), (0.0, "Completed")])
def test_apr_16_a_grant_that_expires_after_the_call_was_judged_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, ends: str
) -> None:
    room = Parlour(tmp_path, tool(risk="medium"))
    always(room, days=1)
    call = structs.replace(made(), arguments={"to": "ada", "text": "tea?"})
    passes = lambda: monkeypatch.setattr(terms, "moment", lambda: later(moment(), seconds))  # noqa: E731
    assert code(meanwhile(room, call, passes)) == ends


# --- whose word


@pytest.mark.parametrize("lets", [False, True], ids=["mended", "as it was"])
def test_apr_21_a_yes_not_used_yet_ends_with_the_right_of_who_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lets: bool
) -> None:
    if lets:
        monkeypatch.setattr(approvals, "may_approve", lambda *_: True)
    room = Parlour(tmp_path, tool(risk="high"))
    room.add("human:bob", "approver")
    asked = room.call()
    assert isinstance(room.decided(asked, by="human:bob", role="approver"), Approval)
    revoke(room, "human:bob")
    assert code(room.resume(asked)) == ("Completed" if lets else "approval_void")


@pytest.mark.parametrize("lets", [False, True], ids=["mended", "as it was"])
def test_apr_21_a_standing_grant_ends_with_the_right_of_who_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lets: bool
) -> None:
    if lets:
        monkeypatch.setattr(standing, "may_approve", lambda *_: True)
    room = Parlour(tmp_path, tool(risk="medium"))
    room.add("human:bob", "operator")
    always(room, by="human:bob", role="operator")
    revoke(room, "human:bob")
    assert code(room.call()) == ("Completed" if lets else "Pending"), "somebody else is asked"
    with room.database.reading() as connection:
        [grant] = standing.grants_in(connection)
        assert bool(standing.grant_problem(connection, grant.id)) is not lets


LOOK_FIRST = Rules(
    rules=(
        Rule(
            number=1,
            decision=Decision.ASK,
            because="look first",
            names={"tool": Names(exact=frozenset({"op"}))},
        ),
    ),
    digest="x",
)


@pytest.mark.parametrize("lets", [False, True], ids=["mended", "as it was"])
def test_apr_20_who_approves_an_operators_tool_that_names_no_right_needs_the_operators_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lets: bool
) -> None:
    if lets:
        monkeypatch.setattr(shown, "needed", lambda tool: tool.permission)
    room = Parlour(tmp_path, tool("op", audience="operator"))
    assert (room.tools["op"].permission, needed(room.tools["op"])) == (EXECUTE, TRUST)
    real = room.look

    async def look(valid: ValidCall) -> Any:
        return structs.replace(await real(valid), rules=LOOK_FIRST)

    monkeypatch.setattr(room, "look", look)
    room.add("human:bob", "approver")
    asked = room.call("op", by=OWNER)
    said = room.decided(asked, by="human:bob", role="approver")
    if lets:
        assert isinstance(said, Approval)
    else:
        assert isinstance(said, Undecided)
        assert TRUST in said.reason
        assert isinstance(room.decided(asked), Approval), "whoever has it approves it"


# --- the caller's word

ASKED = {"to": "ada", "text": "tea?"}
SAID = {**ASKED, "confirmed": True}


@pytest.mark.parametrize("lets", [False, True], ids=["mended", "as it was"])
def test_one_word_of_the_caller_queues_one_act(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lets: bool
) -> None:
    room = Parlour(tmp_path, tool(confirmation="Sure?", risk="high"))
    assert code(room.call(arguments=ASKED, turn=1)) == "confirmation_required"
    if lets:
        monkeypatch.setattr(desk, "question", lambda _valid, _found: None)
    ends = [code(room.call(arguments=SAID, turn=2)) for _ in range(3)]
    assert ends == ["Pending"] * 3 if lets else ends == ["Pending", *["confirmation_required"] * 2]


@pytest.mark.parametrize(
    ("turn", "ends"), [(4, "confirmation_required"), (5, "confirmation_required"), (6, "Completed")]
)
def test_only_a_later_turn_than_the_question_answers_it(tmp_path: Path, turn: int, ends: str) -> None:
    room = Parlour(tmp_path, tool(confirmation="Sure?"))
    assert code(room.call(arguments=ASKED, turn=5)) == "confirmation_required"
    assert code(room.call(arguments=SAID, turn=turn)) == ends
