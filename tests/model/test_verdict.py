"""The strictest wins, order does not matter, silence is no."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.model.verdict import Decision, Verdict, decide

VERDICTS = st.builds(
    Verdict,
    st.sampled_from(Decision),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=2).map(tuple),
)


@given(st.lists(VERDICTS, max_size=6))
def test_the_strictest_wins_and_silence_is_no(verdicts: list[Verdict]) -> None:
    strictest = max((verdict.decision for verdict in verdicts), default=Decision.ABSTAIN)
    expected = Decision.DENY if strictest is Decision.ABSTAIN else strictest
    assert decide(verdicts).decision is expected


@given(st.lists(VERDICTS, max_size=6), st.randoms())
def test_the_order_of_layers_does_not_matter(verdicts: list[Verdict], random: object) -> None:
    other = list(verdicts)
    random.shuffle(other)  # type: ignore[attr-defined]
    one, two = decide(verdicts), decide(other)
    assert one.decision is two.decision
    assert set(one.reasons) == set(two.reasons)


@given(VERDICTS, VERDICTS, VERDICTS)
def test_combining_is_associative_and_idempotent(one: Verdict, two: Verdict, three: Verdict) -> None:
    assert (one | two) | three == one | (two | three)
    assert (one | one).decision is one.decision


@given(st.lists(VERDICTS, min_size=1, max_size=5), VERDICTS)
def test_another_layer_never_lowers_the_answer(verdicts: list[Verdict], more: Verdict) -> None:
    if decide(verdicts).decision is Decision.DENY and max(v.decision for v in verdicts) is Decision.ABSTAIN:
        return  # nobody had spoken yet
    assert decide([*verdicts, more]).decision >= decide(verdicts).decision


@given(st.lists(VERDICTS, max_size=6))
def test_every_answer_has_a_reason_that_somebody_gave(verdicts: list[Verdict]) -> None:
    reasons = decide(verdicts).reasons
    assert reasons
    said = {reason for verdict in verdicts for reason in verdict.reasons}
    assert set(reasons) <= said | {"no layer allowed it"}


@pytest.mark.parametrize("reasons", [(), ("",), ("a", "  ")])
def test_a_verdict_without_a_reason_cannot_be_made(reasons: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="without a reason"):
        Verdict(Decision.ALLOW, reasons)
