"""The limits of one run: what the tool asks for, within what the operator allows.

Too much is brought down to the most there is. What is no amount at all (below one, no number, true) is refused:
a limit that somebody misread must not become a run without one.
"""

import math
from typing import Final

from metier.model.skill import Limits

CAPS: Final = Limits(
    timeout=300.0, memory_mb=4_096, fuel=10_000_000_000_000, output_bytes=16_777_216, processes=512
)
"""The most any run gets where the operator says nothing else."""


def bounded(asked: Limits, caps: Limits = CAPS) -> Limits | str:
    """`asked` within `caps`, or what is wrong with it."""
    for name in ("timeout", "memory_mb", "output_bytes", "processes", "fuel"):
        value: object = getattr(asked, name)
        if problem := None if name == "fuel" and value is None else _problem(value, whole=name != "timeout"):
            return f"the limit {name} is {_shown(value)}; {problem}"
    fuel = asked.fuel if caps.fuel is None or asked.fuel is None else min(asked.fuel, caps.fuel)
    return Limits(
        timeout=float(min(asked.timeout, caps.timeout)),
        memory_mb=min(asked.memory_mb, caps.memory_mb),
        fuel=fuel,
        output_bytes=min(asked.output_bytes, caps.output_bytes),
        processes=min(asked.processes, caps.processes),
    )


def _problem(value: object, *, whole: bool) -> str:
    # A limit may come from a file that nobody checked: True is 1 and "1e9" compares with nothing.
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return "it must be a whole number" if whole else "it must be a number"
    if isinstance(value, float) and not math.isfinite(value):
        return "it must be a number"
    if value <= 0:
        return "it must be more than nothing"
    return ""


def _shown(value: object) -> str:
    return repr(value)[:40]
