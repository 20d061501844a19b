"""Who looks every while wakes together with all others who do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.sandbox import beat
from metier.sandbox.beat import BEAT, on_beat


@given(now=st.floats(0, 1e9), seconds=st.floats(0, 1e4))
def test_nobody_wakes_early_nor_more_than_a_beat_late(now: float, seconds: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beat.time, "monotonic", lambda: now)
        wait = on_beat(seconds)
    assert seconds - 1e-6 <= wait <= seconds + BEAT + 1e-6


@given(moments=st.lists(st.floats(0, 0.19), min_size=2, max_size=5))
def test_all_that_wait_for_the_same_beat_wake_at_the_same_moment(moments: list[float]) -> None:
    wakes = set[float]()
    for moment in moments:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(beat.time, "monotonic", lambda moment=moment: 1000.001 + moment)
            wakes.add(round(1000.001 + moment + on_beat(2.0), 6))
    assert len(wakes) == 1
