"""May it run? Ordered answers that always carry a reason.

ABSTAIN < ALLOW < ASK < DENY. Combining is the maximum, so the order in which layers are asked does not
matter and no layer can lower another. When every layer abstained nobody allowed it, and that is a DENY.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Self, final

from msgspec import Struct


@final
class Decision(IntEnum):
    """How strict an answer is."""

    ABSTAIN = 0
    ALLOW = 1
    ASK = 2
    DENY = 3


@final
class Verdict(Struct, frozen=True):
    """A decision and why. Reasons are never empty."""

    decision: Decision
    reasons: tuple[str, ...]
    unheard: bool = False
    """A DENY only because somebody who has a say could not be asked."""

    def __post_init__(self) -> None:
        if not self.reasons or not all(map(str.strip, self.reasons)):
            raise ValueError("a verdict without a reason cannot be answered for")

    @classmethod
    def abstain(cls, reason: str) -> Self:
        return cls(Decision.ABSTAIN, (reason,))

    @classmethod
    def allow(cls, reason: str) -> Self:
        return cls(Decision.ALLOW, (reason,))

    @classmethod
    def ask(cls, reason: str) -> Self:
        return cls(Decision.ASK, (reason,))

    @classmethod
    def deny(cls, reason: str) -> Self:
        return cls(Decision.DENY, (reason,))

    def __or__(self, other: "Verdict") -> "Verdict":
        """The stricter of two; equals keep the reasons of both, each once."""
        if self.decision != other.decision:
            return self if self.decision > other.decision else other
        return Verdict(self.decision, tuple(dict.fromkeys(self.reasons + other.reasons)))


def decide(verdicts: Iterable[Verdict]) -> Verdict:
    """The final word over all layers: the strictest, and DENY when nobody had an opinion."""
    strictest = Decision.ABSTAIN
    said: list[Verdict] = []
    for verdict in verdicts:
        if verdict.decision > strictest:
            strictest, said = verdict.decision, [verdict]
        elif verdict.decision is strictest:
            said.append(verdict)
    if strictest is Decision.ABSTAIN:
        return Verdict.deny("no layer allowed it")
    if len(said) == 1:
        return said[0]
    return Verdict(strictest, tuple(dict.fromkeys(reason for verdict in said for reason in verdict.reasons)))
