"""Patterns of triggers come from people and from files of strangers: whatever their shape, the cost grows with the message and no faster.

Costs are compared with each other, never with a clock's limit: a loaded machine is slow for both.
"""

import re
import time
from collections.abc import Callable

import pytest

from metier.kernel.trigger_pattern import LONGEST_TEXT, fits, pattern_problem

SHAPES = {
    "nested": (r"(a+)+$", "a"),
    "alternatives": (r"(a|aa)+$", "a"),
    "overlapping": (r"^(\w+\s?)*$", "a"),
    "optional": (r"(a?){30}a{30}$", "a"),
    "two stars": (r".*.*.*=.*$", "x"),
}
SMALL = 4_096
"""Characters. Four times as many are the most that is looked at."""


def cost(match: Callable[[], object]) -> float:
    """Seconds of this thread's own processor time, the least of a few."""
    best = float("inf")
    for _ in range(5):
        began = time.thread_time()
        for _ in range(3):
            match()
        best = min(best, time.thread_time() - began)
    return max(best, 1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_res_17_a_trigger_pattern_that_explodes_elsewhere_costs_linear_time(shape: str) -> None:
    pattern, letter = SHAPES[shape]
    assert pattern_problem(pattern, case_sensitive=True) == ""

    def match(size: int) -> Callable[[], object]:
        text = letter * (size - 1) + "!"
        return lambda: fits(pattern, text, "regex", case_sensitive=False)

    assert not match(SMALL)()
    small, large = cost(match(SMALL)), cost(match(4 * SMALL))
    assert large / small < 12, (
        "four times the text costs about four times as much; sixteen would be the square"
    )


def test_res_17_the_same_shape_explodes_in_the_engine_that_is_not_used() -> None:
    """The control: with Python's own engine two characters more cost several times as much, at a length where RE2 notices nothing."""
    pattern = re.compile(SHAPES["nested"][0])

    def match(size: int) -> Callable[[], object]:
        text = "a" * size + "!"
        return lambda: pattern.match(text)

    assert cost(match(16)) / cost(match(10)) > 12, "six characters more: about sixty times"


def test_res_17_only_the_beginning_of_a_long_message_is_looked_at() -> None:
    text = "x" * LONGEST_TEXT + "needle"
    for mode in ("regex", "contains"):
        assert not fits("needle", text, mode, case_sensitive=True)
        assert fits("needle", text[6:], mode, case_sensitive=True), "the control"
