"""A skill that says less of its own risk than it did, or that nobody need be asked, is a stranger until a person looked."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from machine import Machine, write_skill
from metier.model.outcome import Completed, Pending, Refused
from metier.record.approvals import stored_call
from parlour import Parlour, tool
from test_execute import Forge


def _amber(capability: str, *, asks: bool) -> str:
    schema = {"name": "tea", "description": "d", "parameters": {"type": "object", "properties": {}}}
    block = {
        "capabilities": [capability],
        "confirmation_required": asks,
        "timeout_ms": 1000,
        "permissions": {},
        "function_schema": schema,
    }
    return json.dumps({"amber": block})


BEFORE = _amber("act", asks=True)
LOWERED = {
    "drops its confirmation": _amber("act", asks=False),
    "says that it only reads": _amber("read", asks=True),
    "says nothing any more": "{}",
}


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    machine = Machine(tmp_path)
    folder = write_skill(machine.skills / "tea", metadata=BEFORE, version="1")
    (folder / "handler.js").write_text("module.exports = () => ({ success: true });\n", encoding="utf-8")
    made = Forge(machine)
    made.trusted("tea")
    yield made
    made.database.close()


@pytest.mark.parametrize("change", LOWERED)
def test_apr_06_a_manifest_that_asks_for_less_care_is_held_back_until_it_is_trusted_again(
    forge: Forge, change: str
) -> None:
    assert isinstance(forge.call(), Completed)
    write_skill(forge.machine.skills / "tea", metadata=LOWERED[change], version="1")
    outcome = forge.call()
    assert isinstance(outcome, Refused)
    assert outcome.code == "not_trusted"
    assert len(forge.sandboxes[0].jobs) == 1, "only the one before"
    listed = forge.machine.catalog().get("tea")
    assert listed is not None
    assert listed.shown == "pending_approval"
    write_skill(forge.machine.skills / "tea", metadata=BEFORE, version="1")
    assert isinstance(forge.call(), Completed), "as it was trusted it runs"


@pytest.mark.parametrize(
    "change", [{"risk": "low"}, {"approval": "policy"}, {"confirmation": None}, {"effect": "read"}], ids=str
)
def test_apr_06_a_decision_about_the_careful_tool_is_none_about_the_careless_one(
    tmp_path: Path, change: dict[str, object]
) -> None:
    careful = tool(risk="high", approval="always", confirmation="Shall I?")
    parlour = Parlour(tmp_path, careful)
    asked = {"to": "ada", "text": "tea?", "confirmed": True}
    first, second = parlour.call(arguments=asked), parlour.call(arguments=asked)
    assert isinstance(first, Pending)
    assert isinstance(second, Pending)
    for pending in (first, second):
        parlour.decided(pending)
    assert isinstance(parlour.resume(first), Completed), "else this proves nothing"
    parlour.tools = {"send": structs.replace(careful, **change)}
    outcome = parlour.resume(second)
    assert isinstance(outcome, Refused), outcome
    assert len(parlour.ran) == 1
    assert stored_call(parlour.database, first.approval_id) is None
    parlour.database.close()
