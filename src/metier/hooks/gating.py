"""What a gate hook says about a call, as one more verdict. Whatever it does but answer is a no.

A gate hook is a hook on `tool:before` of a skill that the operator named in `[hooks] gate`. It leaves `decision` (`ask` or `deny`) and
`reason` in the context; without them it has nothing to say. Its `allow` counts for nothing.
"""

from typing import Final

import msgspec
from msgspec import UNSET

from metier.model.hook import HookContext
from metier.model.outcome import Completed, Failed, Outcome, Pending
from metier.model.text import one_line
from metier.model.verdict import Decision, Verdict
from metier.record.redact import masked
from metier.record.secret_text import MASK

_MOST_REASON: Final = 200
_MOST_LOOKED_AT: Final = 10_000
"""Characters of what it says, of which far fewer are shown."""
_MOST_HIDDEN: Final = 1_000
"""Where more is hidden than can be looked for, nothing that it says is shown."""
NOTHING_SAID: Final = "no hook objects"


def word_of(skill: str, outcome: Outcome, hidden: tuple[str, ...] = ()) -> Verdict:
    """The verdict of a gate hook of `skill` whose run ended like this. Reasons stay on the record for good, so what is `hidden` from
    everybody else is in none."""
    name = one_line(skill, 80)
    match outcome:
        case Completed(value=value):
            try:
                left = msgspec.convert(value, HookContext)
            except msgspec.ValidationError as error:
                return failed(name, f"it left a context that is none: {error}")
        case Failed(code=code, message=message):
            return failed(name, f"{code}: {_without(hidden, message)}")
        case Pending():
            return failed(name, "it would have to be asked about itself")
        case _:
            return failed(name, "; ".join(outcome.reasons))
    reason = shown_words(_without(hidden, left.reason)) if isinstance(left.reason, str) else ""
    if left.decision == "deny":
        return Verdict.deny(f"the gate hook of skill {name!r} refuses: {reason or 'it does not say why'}")
    if left.decision == "ask":
        return Verdict.ask(
            f"the gate hook of skill {name!r} wants it asked about: {reason or 'it does not say why'}"
        )
    if left.decision is UNSET and left.reason is not UNSET:
        return failed(name, "it left a reason and no decision")
    return Verdict.abstain(NOTHING_SAID)


def _without(hidden: tuple[str, ...], text: str) -> str:
    if len(hidden) > _MOST_HIDDEN:
        return ""
    text = text[:_MOST_LOOKED_AT]
    for each in sorted(hidden, key=len, reverse=True):  # a part of one may be another
        text = text.replace(each, MASK)
    return text


def failed(skill: str, why: str) -> Verdict:
    """Without its word nothing is done."""
    said = f"the gate hook of skill {one_line(skill, 80)!r} failed: {shown_words(why)}"
    return Verdict(Decision.DENY, (said,), unheard=True)


def shown_words(text: str) -> str:
    """Words of a skill, for people: bounded, and without what is likely a secret."""
    return one_line(masked((text[:2_000],))[0], _MOST_REASON)
