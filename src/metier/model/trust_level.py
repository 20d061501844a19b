"""How far an agent is trusted to act by itself, in five steps. What is no such word means the least."""

from typing import Final, Literal, TypeAlias

TrustLevel: TypeAlias = Literal["observe", "suggest", "supervised_auto", "bounded_auto", "adaptive_auto"]

LEVELS: Final[tuple[TrustLevel, ...]] = (
    "observe",
    "suggest",
    "supervised_auto",
    "bounded_auto",
    "adaptive_auto",
)
DEFAULT: Final[TrustLevel] = "supervised_auto"
"""Of a fresh install."""
LEAST: Final[TrustLevel] = "observe"
MEANING: Final[dict[TrustLevel, str]] = {
    "observe": "only what asks for no more, and each call is asked",
    "suggest": "also what could run at the next level, and each call is asked",
    "supervised_auto": "low risk runs by itself, the rest is asked",
    "bounded_auto": "low and medium risk run by themselves, high risk is asked",
    "adaptive_auto": "as bounded_auto",
}
"""What each lets agents do, for people."""


def level_of(word: object) -> TrustLevel:
    """The level called `word`. Another spelling, or another thing, is not trusted to mean more than the least."""
    return word if word in LEVELS else LEAST


def reaches(level: TrustLevel, minimum: str) -> bool:
    """Whether `level` is at least `minimum`. A minimum that is no level is never reached."""
    return minimum in LEVELS and LEVELS.index(level) >= LEVELS.index(minimum)
