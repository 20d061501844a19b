"""A standing grant as programs are told of it."""

from typing import cast

import msgspec

from metier.model.approval import StandingGrant
from metier.model.digest import Json
from metier.record.approval_clock import Moment
from metier.record.standing import expired


def grant_over(grant: StandingGrant, now: Moment) -> bool:
    """Whether it answers nothing any more."""
    return expired(grant, now) or grant.uses_left == 0


def grant_plain(grant: StandingGrant, now: Moment) -> dict[str, Json]:
    """All of it but the key: with that anybody could try out which arguments it is for."""
    plain = cast("dict[str, Json]", msgspec.to_builtins(grant))
    plain.pop("key", None)
    return {**plain, "over": grant_over(grant, now)}
