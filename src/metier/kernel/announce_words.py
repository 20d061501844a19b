"""What an announcement says where there is room for one line only. Never the arguments: they are for who may see them."""

from collections.abc import Sequence

from metier.model.approval import Approval
from metier.model.digest import Json
from metier.model.text import one_line
from metier.record.redact import masked


def waiting_line(items: Sequence[Approval], *, reminder: bool) -> str:
    """One line for all of them."""
    calls = "1 call" if len(items) == 1 else f"{len(items)} calls"
    verb = "waits" if len(items) == 1 else "wait"
    head = f"{calls} still {verb} and will expire soon" if reminder else f"{calls} {verb} for your word"
    listed = ", ".join(_short(each) for each in items[:5])
    more = f" and {len(items) - 5} more" if len(items) > 5 else ""
    return f"{head}: {listed}{more}. `metier approvals list` shows them."


def decided_line(approval: Approval) -> str:
    """One line for what became of it."""
    by = f" by {one_line(approval.decided_by, 80)}" if approval.decided_by else ""
    if approval.state == "spent":  # how it ended is for who runs it to say
        return f"{approval.id} was approved{by}, and was begun."
    words = {"void": "is void", "expired": "has expired"}
    return f"{approval.id} {words.get(approval.state, f'was {approval.state}')}{by}."


def plain(approval: Approval) -> dict[str, Json]:
    """As a program is told, without the arguments."""
    shown = approval.shown
    told: dict[str, Json] = {
        "id": approval.id,
        "state": approval.state,
        "principal": approval.principal,
        "on_behalf_of": approval.on_behalf_of,
        "asked_at": approval.asked_at,
        "expires_at": approval.expires_at,
    }
    if shown is not None:
        told |= {"tool": shown.tool, "skill": shown.skill, "effect": shown.effect, "risk": shown.risk}
        told["reasons"] = list[Json](masked(tuple(one_line(each, 300) for each in shown.reasons[:10])))
    if approval.decided_by:
        told |= {"decided_by": approval.decided_by, "decided_at": approval.decided_at}
    return told


def _short(approval: Approval) -> str:
    shown = approval.shown
    what = f"{one_line(shown.tool, 60)} ({shown.risk} risk)" if shown is not None else "a call"
    return f"{what} by {one_line(approval.principal, 60)}, {approval.id}"
