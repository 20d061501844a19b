"""A bound confirmation is one caller's word for one act: not another's, and not for another tool of that name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from gatehouse import OWNER
from metier.gate.confirmation import conversation, question
from metier.model.call import Bytes, Call, Principal, Surroundings, ValidCall
from metier.model.outcome import Completed, Outcome
from metier.pipeline import run
from parlour import AGENT, Parlour, tool

MONEY = {"to": "eve", "text": "100 EUR"}
AGREED = {**MONEY, "confirmed": True}


@pytest.fixture
def parlour(tmp_path: Path) -> Iterator[Parlour]:
    made = Parlour(tmp_path, tool(confirmation="Shall I?"))
    yield made
    made.database.close()


def said(parlour: Parlour, caller: str | None, turn: int, arguments: dict[str, Any]) -> Outcome:
    made = Call(
        id=f"call_{caller}_{turn}",
        principal=Principal(id=AGENT, kind="agent", on_behalf_of=OWNER),
        tool="send",
        arguments=arguments,
        surroundings=Surroundings(turn=turn, channel="chat", session="group-7", caller_id=caller),
    )
    return anyio.run(run, made, parlour.house)


def code(outcome: Outcome) -> str:
    return getattr(outcome, "code", type(outcome).__name__)


@pytest.mark.parametrize("other", ["eve", "", None])
def test_what_one_caller_was_asked_no_other_confirms(parlour: Parlour, other: str | None) -> None:
    assert code(said(parlour, "ada", 1, MONEY)) == "confirmation_required"
    assert code(said(parlour, other, 2, AGREED)) == "confirmation_required"
    assert parlour.ran == []
    assert isinstance(said(parlour, "ada", 3, AGREED), Completed)  # whose word it is, it counts for


@pytest.mark.parametrize(
    "changed", [{"confirmation": "Read the weather aloud?"}, {"description": "Other."}, {"risk": "medium"}]
)
def test_a_word_for_a_tool_is_none_for_what_it_was_redefined_to(
    parlour: Parlour, changed: dict[str, Any]
) -> None:
    assert code(said(parlour, "ada", 1, MONEY)) == "confirmation_required"
    before = parlour.tools["send"]
    parlour.tools["send"] = structs.replace(before, **changed)
    assert code(said(parlour, "ada", 2, AGREED)) == "confirmation_required"
    assert parlour.ran == []
    parlour.tools["send"] = before
    assert isinstance(said(parlour, "ada", 3, AGREED), Completed)


def test_a_word_for_some_bytes_of_a_skill_is_none_for_others() -> None:
    call = Call(
        id="c",
        principal=Principal(id=AGENT, kind="agent"),
        tool="send",
        arguments=MONEY,
        surroundings=Surroundings(turn=1),
    )
    valid = ValidCall(
        call=call,
        tool=tool(confirmation=""),
        arguments=dict(MONEY),
        skill=None,
        permissions=tool().permissions,
        confirmed=False,
    )
    acts = {question(valid, found) for found in (None, Bytes(digest="sha256:a"), Bytes(digest="sha256:b"))}
    assert len(acts) == 3
    first_use = Bytes(digest="sha256:a", first_use=True)
    assert question(valid, first_use) in acts  # the same bytes, looked at for the first time


def test_the_parts_of_a_conversation_cannot_run_into_each_other() -> None:
    fields = ("call_id", "caller_id", "channel", "session")
    told = {conversation(AGENT, Surroundings(**{field: "x"})) for field in fields}
    assert len(told) == len(fields)
