"""`[hooks]`: which hooks have a say."""

from typing import final

from msgspec import Struct


@final
class HookSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only the operator's own file says so: a skill that made itself a gate could as well be one that lets everything pass."""

    gate: tuple[str, ...] = ()
    """Skills whose hooks on `tool:before` have to let a call pass. One that is not there, or fails, lets none pass."""
