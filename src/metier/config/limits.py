"""`[budgets]` and `[approvals]` as files may write them, and what both files say together: always the stricter."""

from typing import Annotated, Final, Literal, TypeAlias, final

from msgspec import Meta as Bounds
from msgspec import Struct

from metier.config.settings import ApprovalSettings, BudgetSettings, Window

Calls: TypeAlias = Annotated[int, Bounds(ge=0, le=1_000_000_000)]
LONGEST_WINDOW: Final = 86_400
"""In seconds. What is older has no say in any budget."""


@final
class WrittenWindow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either part may be left as it is."""

    calls: Calls | None = None
    seconds: Annotated[int, Bounds(ge=1, le=LONGEST_WINDOW)] | None = None


@final
class WrittenBudgets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In the operator's file."""

    principal: WrittenWindow = WrittenWindow()
    tool: WrittenWindow = WrittenWindow()
    skill: WrittenWindow = WrittenWindow()
    cheap: WrittenWindow = WrittenWindow()
    expensive: WrittenWindow = WrittenWindow()
    memory: WrittenWindow = WrittenWindow()


@final
class RestrictedWindow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project may lower the number. The stretch of time stays: which of two is the stricter could not be said."""

    calls: Calls


@final
class RestrictedBudgets(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In a project's file."""

    principal: RestrictedWindow | None = None
    tool: RestrictedWindow | None = None
    skill: RestrictedWindow | None = None
    cheap: RestrictedWindow | None = None
    expensive: RestrictedWindow | None = None
    memory: RestrictedWindow | None = None


@final
class RestrictedApprovals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In a project's file."""

    unattended: Literal["deny"] | None = None
    expires_minutes: Annotated[int, Bounds(ge=1, le=10_080)] | None = None
    four_eyes: bool = False
    """That it is not asked for takes nothing away."""
    pending_per_principal: Annotated[int, Bounds(ge=0, le=10_000)] | None = None


def budgets(own: WrittenBudgets, theirs: RestrictedBudgets) -> BudgetSettings:
    """The budgets that hold: the usual ones as the operator changed them, and never more than the project wants."""
    usual = BudgetSettings()
    return BudgetSettings(
        principal=_window(usual.principal, own.principal, theirs.principal),
        tool=_window(usual.tool, own.tool, theirs.tool),
        skill=_window(usual.skill, own.skill, theirs.skill),
        cheap=_window(usual.cheap, own.cheap, theirs.cheap),
        expensive=_window(usual.expensive, own.expensive, theirs.expensive),
        memory=_window(usual.memory, own.memory, theirs.memory),
    )


def approvals(own: ApprovalSettings, theirs: RestrictedApprovals) -> ApprovalSettings:
    """How people are asked, in the stricter way of the two."""
    return ApprovalSettings(
        unattended=theirs.unattended or own.unattended,
        expires_minutes=_less(own.expires_minutes, theirs.expires_minutes),
        four_eyes=own.four_eyes or theirs.four_eyes,
        pending_per_principal=_less(own.pending_per_principal, theirs.pending_per_principal),
    )


def _window(usual: Window, own: WrittenWindow, theirs: RestrictedWindow | None) -> Window:
    calls = usual.calls if own.calls is None else own.calls
    return Window(
        calls=_less(calls, theirs.calls if theirs is not None else None),
        seconds=usual.seconds if own.seconds is None else own.seconds,
    )


def _less(own: int, theirs: int | None) -> int:
    return own if theirs is None else min(own, theirs)
