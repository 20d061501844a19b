"""What is remembered of principals belongs to the facts it was found out with."""

from msgspec import structs

from gatehouse import AGENT, FACTS, OWNER, STEERING
from metier.gate.situation import Facts
from metier.model.call import Principal

ASKS = Principal(id=AGENT.id, kind="agent", on_behalf_of=OWNER)


def test_the_same_principal_is_found_out_about_once() -> None:
    facts = Facts(steering=STEERING, owner=OWNER)
    assert facts.situation_of(ASKS) is facts.situation_of(ASKS)
    assert facts.situation_of(ASKS).standing.rights


def test_who_asks_in_anothers_name_is_somebody_else() -> None:
    facts = Facts(steering=STEERING, owner=OWNER)
    assert not facts.situation_of(ASKS).standing.problem
    for other in (
        structs.replace(ASKS, on_behalf_of="human:other"),
        structs.replace(ASKS, kind="human"),
        structs.replace(ASKS, id="agent:other"),
    ):
        assert facts.situation_of(other).standing.problem


def test_with_other_facts_nothing_is_remembered() -> None:
    assert FACTS.situation_of(ASKS).level == "supervised_auto"
    gone = structs.replace(AGENT, revoked=True)
    later = structs.replace(
        FACTS, steering=structs.replace(STEERING, level="observe", principals={gone.id: gone})
    )
    assert later.situation_of(ASKS).level == "observe"
    assert later.situation_of(ASKS).standing.problem
    assert not FACTS.situation_of(ASKS).standing.problem
