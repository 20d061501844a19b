"""JSON that is too big, has too many keys or absurd numbers is refused by its size and limits, quickly, at every door."""

import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from machine import Machine
from metier import Completed, Refused, SyncRuntime
from metier.model import strictjson
from parlour import Parlour, tool

DIGITS = "9" * 4_000
"""Fewer than the interpreter itself refuses to read."""


def million() -> str:
    return "{" + ",".join(f'"{number}":1' for number in range(1_000_000)) + "}"


TEXTS = {
    "a hundred megabytes": lambda: '{"text": "' + "x" * 100_000_000 + '"}',
    "a million keys": million,
    "an integer of thousands of digits": lambda: f'{{"text": {DIGITS}}}',
    "an integer of more digits than python reads": lambda: f'{{"text": {DIGITS + DIGITS}}}',
    "a number beyond all floats": lambda: '{"text": 1e999}',
    "a small number beyond all floats": lambda: '{"text": -1e999}',
}
VALUES: dict[str, Any] = {
    "a hundred megabytes": lambda: {"to": "x" * 100_000_000, "text": ""},
    "a million keys": lambda: dict.fromkeys(map(str, range(1_000_000)), 1),
    "a million values": lambda: {"to": "ada", "text": [0] * 1_000_000},
    "an integer of thousands of digits": lambda: {"to": "ada", "text": 10**5_000},
    "infinity": lambda: {"to": "ada", "text": math.inf},
}


@pytest.mark.parametrize("name", TEXTS)
def test_res_15_such_a_text_is_refused_before_it_costs_anything(name: str) -> None:
    text = TEXTS[name]()
    began = time.process_time()
    with pytest.raises(ValueError, match=r".") as refused:
        strictjson.loads(text)
    assert time.process_time() - began < 1
    assert len(str(refused.value)) < 200


def test_res_15_the_standard_reader_takes_nearly_all_of_it() -> None:
    assert len(json.loads(million())) == 1_000_000
    assert json.loads(TEXTS["a number beyond all floats"]())["text"] == math.inf
    before = sys.get_int_max_str_digits()
    assert len(str(json.loads(f"{DIGITS}"))) == len(DIGITS) < before


@pytest.fixture
def parlour(tmp_path: Path) -> Iterator[Parlour]:
    made = Parlour(tmp_path, tool("open", parameters={"type": "object", "additionalProperties": True}))
    yield made
    made.database.close()


@pytest.mark.parametrize("name", VALUES)
def test_res_15_such_a_value_is_refused_by_the_gate_and_leaves_a_small_record(
    parlour: Parlour, name: str
) -> None:
    value = VALUES[name]()
    began = time.process_time()
    outcome = parlour.call("open", value)
    assert time.process_time() - began < 10
    assert isinstance(outcome, Refused)
    assert outcome.code == "invalid_arguments"
    assert len(outcome.reasons[0]) < 200
    assert parlour.ran == []
    assert parlour.events(outcome) == ["skill_execution_blocked"]
    with parlour.database.reading() as connection:
        (stored,) = connection.execute("SELECT sum(length(kept)) FROM audit").fetchone()
    assert (stored or 0) < 2_000_000


def test_res_15_what_is_just_small_enough_runs(parlour: Parlour) -> None:
    assert isinstance(parlour.call("open", {"text": "x" * 1_000_000}), Completed)
    assert isinstance(parlour.call("open", dict.fromkeys(map(str, range(30_000)), 2**53 - 1)), Completed)


def test_res_15_a_models_tool_calls_are_held_to_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    sane = json.dumps({"name": "writing-skills"})
    texts = [sane, *(make() for name, make in TEXTS.items())]
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": "read_skill", "arguments": text}}
        for number, text in enumerate(texts)
    ]
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        answers = [str(each["content"]) for each in runtime.handle(calls)]
    assert "invalid_arguments" not in answers[0]
    assert all("invalid_arguments" in each and len(each) < 1_000 for each in answers[1:]), answers[1:]
