"""What is for operators is shown to no model, told to none, and refused to all; and calls inside calls have an end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import structs

import metier.runtime
from gatehouse import OWNER
from machine import Machine
from metier import Completed, Refused, SyncRuntime
from metier.disclosure.schemas import Names, Shape, shaped
from metier.gate.floor import floor
from metier.gate.situation import Situation
from metier.gate.validate import MAX_DEPTH
from metier.model.call import Call, Principal, ValidCall
from metier.model.ground import Ground
from metier.model.permission import PermissionSet
from metier.model.role import PRINCIPALS, SETTINGS, STEER
from metier.model.trust_level import LEVELS
from metier.model.verdict import Decision
from metier.runtime import state
from parlour import Parlour, tool

ANYTHING: dict[str, Any] = {"type": "object", "additionalProperties": True}
SWITCHES = {
    "settings.approvals": SETTINGS,
    "settings.policy": SETTINGS,
    "trust.level": STEER,
    "principals.add": PRINCIPALS,
    "skills.enable": "skills:execute",
}


def operators(name: str) -> Any:
    return tool(name, audience="operator", parameters=ANYTHING, permission=SWITCHES[name])


@pytest.fixture
def parlour(tmp_path: Path) -> Iterator[Parlour]:
    made = Parlour(tmp_path, tool(), *map(operators, SWITCHES))
    yield made
    made.database.close()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SWITCHES)
def test_apr_07_no_agent_switches_approvals_off_whatever_its_owner_may(
    parlour: Parlour, name: str, level: Any
) -> None:
    parlour.level = level
    for arguments in ({}, {"approvals": "off"}, {"confirmed": True, "as": OWNER, "audience": "model"}):
        outcome = parlour.call(name, arguments)
        assert isinstance(outcome, Refused)
        assert outcome.code == "forbidden"
        assert "for operators only" in outcome.reasons[0]
    assert parlour.ran == []
    assert isinstance(parlour.call(name, {}, by=OWNER), Completed), "the owner himself does it"


@pytest.mark.parametrize("name", SWITCHES)
def test_apr_07_nobodys_word_lets_an_agent_do_it(parlour: Parlour, name: str) -> None:
    parlour.tools[name] = structs.replace(parlour.tools[name], approval="always")
    outcome = parlour.call(name, {})
    assert isinstance(outcome, Refused), "it is not even asked"
    parlour.tools[name] = structs.replace(
        parlour.tools[name], audience="model", permission="skills:execute", approval="policy"
    )
    assert isinstance(parlour.call(name, {}), Completed), "else this proves nothing"


@pytest.mark.parametrize("file", ["metier.toml", "policy.toml", "state.db", "keys/audit"])
def test_apr_07_the_files_that_hold_the_switches_are_written_by_no_call(tmp_path: Path, file: str) -> None:
    ground = Ground(state=str(tmp_path / "state"), workspace=str(tmp_path / "work"))

    def judged(path: str) -> Decision:
        call = Call(id="1", principal=Principal(id="agent:x", kind="agent"), tool="send", arguments={})
        needs = PermissionSet(writes=frozenset({path}))
        valid = ValidCall(call=call, tool=tool(), arguments={}, skill=None, permissions=needs)
        return floor(valid, Situation(ground=ground)).decision

    assert judged(f"{ground.state}/{file}") is Decision.DENY
    assert judged(f"{tmp_path}/elsewhere/notes.txt") is Decision.ABSTAIN


@pytest.mark.parametrize("shape", get_args(Shape))
def test_a_tool_for_operators_is_shown_in_no_shape(parlour: Parlour, shape: Shape) -> None:
    (shown,) = shaped(parlour.tools.values(), shape)
    assert "send" in str(shown)
    assert set(Names.of(parlour.tools.values()).outward) == {"send"}


def test_a_runtime_offers_no_tool_for_operators_and_refuses_one_that_a_model_guesses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    hidden = operators("trust.level")
    for module in (metier.runtime, state):
        monkeypatch.setattr(module, "OWN_TOOLS", {**state.OWN_TOOLS, hidden.name: hidden})
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        for shape in get_args(Shape):
            assert "trust" not in str(
                [each.get("name", each.get("function")) for each in runtime.tools(shape)]
            )
        for guess in ("trust.level", "trust__level"):
            asked = {"id": "c", "type": "function", "function": {"name": guess, "arguments": "{}"}}
            (answer,) = runtime.handle([asked])
            assert "forbidden" in str(answer) or "unknown_tool" in str(answer)
        outcome = runtime.call("trust.level", {})
    assert isinstance(outcome, Refused)
    assert outcome.code == "forbidden"


@pytest.mark.parametrize("guess", ["trust.leve", "settings.approval", "zzz", ""])
def test_who_guesses_a_name_is_not_told_what_operators_have(parlour: Parlour, guess: str) -> None:
    outcome = parlour.call(guess)
    assert isinstance(outcome, Refused)
    assert outcome.code == "unknown_tool"
    said = " ".join((*outcome.reasons, outcome.remedy)).replace(repr(guess), "")
    assert not [name for name in SWITCHES if name in said]
    to_owner = parlour.call("trust.leve", by=OWNER)
    assert isinstance(to_owner, Refused)
    assert "trust.level" in to_owner.remedy


def test_calls_inside_calls_are_eight_deep_at_most(parlour: Parlour) -> None:
    assert MAX_DEPTH == 8
    for depth in (0, 1, MAX_DEPTH):
        assert isinstance(parlour.call(depth=depth), Completed)
    for depth in (MAX_DEPTH + 1, 10**9, -1):
        outcome = parlour.call(depth=depth)
        assert isinstance(outcome, Refused)
        assert outcome.code == "not_runnable"
        assert "8 deep at most" in outcome.reasons[0]
        assert outcome.remedy
        assert parlour.events(outcome) == ["skill_execution_blocked"]
    assert len(parlour.ran) == 3
