"""What waits for somebody's word: each request as it is, exactly, with everything it would touch; and what was decided."""

import re
from collections.abc import Callable
from typing import Annotated, Final, final

import msgspec
from anyio import to_thread
from msgspec import Meta, Struct
from msgspec.structs import replace

from metier.doors.http.approvals import Yes, seen_by
from metier.doors.http.console.fold import Folded, folded_items
from metier.doors.http.console.page import Page
from metier.doors.http.endpoint import Asking
from metier.doors.http.problem import not_found
from metier.gate.in_words import grant_lines
from metier.model.approval import Approval, Scope
from metier.model.misleading import misleading
from metier.model.permission_words import in_quotes
from metier.model.role import APPROVE, READ_AUDIT
from metier.record.approvals import approval_in, approvals_in
from metier.record.asked_about import tools_of
from metier.record.standing import proposed_grant

ON_A_PAGE: Final = 20
_PLAIN: Final = re.compile(r"([0-9]{1,7}(\.[0-9]{1,4})?)?")
"""A number that everybody reads alike. Python also takes `1_0` and digits of other scripts; nobody else does."""
_NUMBERS: Final = "times are a whole number from 1 to 1000000 and days a number up to 3650, in plain digits; left empty there is no limit"


@final
class Request(Struct, frozen=True, kw_only=True):
    """One request, ready to be read."""

    approval: Approval
    may: str
    arguments: list[Folded]
    """Exactly as they will run."""
    warnings: list[str]
    tool: str = ""
    """What it was about, where that is no longer kept with it."""


@final
class Which(Struct, frozen=True, kw_only=True):
    """Which of them."""

    over: bool = False
    """Also those that are over."""
    page: Annotated[int, Meta(ge=1, le=100_000)] = 1


@final
class Granting(Struct, frozen=True, kw_only=True):
    """Which grant he thinks of giving."""

    scope: Scope = "once"
    any_arguments: bool = False
    uses: str = ""
    days: str = ""


def readable(approval: Approval, tool: str = "") -> Request:
    """A request as it is read. Nothing of what he is shown is left out."""
    shown = approval.shown
    arguments = shown.arguments if shown is not None else {}
    return Request(
        approval=approval,
        may=in_quotes(shown.permissions) if shown is not None else "",
        arguments=folded_items(arguments),
        warnings=misleading(arguments),
        tool=tool,
    )


async def waiting(asking: Asking, over: bool, page: int, most: int = ON_A_PAGE) -> tuple[list[Request], int]:
    """One page of them as he may see them, and how many there are."""
    return await to_thread.run_sync(_waiting, asking, over, page, most, await seen_by(asking))


def _waiting(
    asking: Asking, over: bool, page: int, most: int, seen_as: Callable[[Approval], Approval]
) -> tuple[list[Request], int]:
    """One page of them, and how many there are. What is over comes newest first, what waits oldest first. Blocking."""
    with asking.serving.engine.state.database.reading() as connection:
        found = approvals_in(connection, over=over)
        if over:
            found = [each for each in reversed(found) if each.state not in ("pending",)]
        else:
            found.sort(key=lambda each: each.state != "pending")
        begin = (page - 1) * most
        here = found[begin : begin + most]
        tools = tools_of(connection, (each.id for each in here if each.shown is None))
    return [readable(seen_as(each), tools.get(each.id, "")) for each in here], len(found)


async def _list(asking: Asking) -> dict[str, object]:
    which: Which = asking.query
    requests, many = await waiting(asking, which.over, which.page)
    pages = -(-many // ON_A_PAGE)
    if not requests and many:  # the last one of this page was decided: there are others
        which = replace(which, page=pages)
        requests, many = await waiting(asking, which.over, which.page)
    return {"requests": requests, "many": many, "which": which, "pages": pages}


async def _one(asking: Asking) -> dict[str, object]:
    granting: Granting = asking.query
    seen_as = await seen_by(asking)

    def read() -> Request:
        with asking.serving.engine.state.database.reading() as connection:
            found = approval_in(connection, asking.given["approval"])
            if found is None:
                raise not_found("there is no such request, or it is no longer kept")
            tools = tools_of(connection, () if found.shown is not None else (found.id,))
        return readable(seen_as(found), tools.get(found.id, ""))

    request = await to_thread.run_sync(read)
    return {"request": request, "granting": granting, **_grant(asking, request.approval, granting)}


def _grant(asking: Asking, found: Approval, granting: Granting) -> dict[str, object]:
    """The grant as it would be given, in words; or why it cannot be."""
    if granting.scope == "once" or found.shown is None:
        return {"grant": [], "grant_problem": ""}
    yes = _yes(found, granting)
    if yes is None:
        return {"grant": [], "grant_problem": _NUMBERS}
    proposed = proposed_grant(
        found.shown,
        granting.scope,
        approval=found.id,
        by=asking.identity.principal.id,
        any_arguments=yes.any_arguments,
        uses=yes.uses,
        days=yes.days,
    )
    if isinstance(proposed, str):
        return {"grant": [], "grant_problem": proposed}
    # Sent as it stands here: a number that a script reads for itself may be another than the one that was shown.
    return {"grant": grant_lines(proposed)[1:], "grant_problem": "", "yes": msgspec.json.encode(yes).decode()}


def _yes(found: Approval, granting: Granting) -> Yes | None:
    """What is sent when he gives this grant; None where the API would not take it, or not as he reads it."""
    numbers = {"uses": granting.uses.strip(), "days": granting.days.strip()}
    if not all(_PLAIN.fullmatch(each) for each in numbers.values()):
        return None
    given = {name: value or None for name, value in numbers.items()}
    about = {
        "fingerprint": found.fingerprint,
        "scope": granting.scope,
        "any_arguments": granting.any_arguments,
    }
    try:
        return msgspec.convert({**about, **given}, Yes, strict=False)
    except msgspec.ValidationError:
        return None


_RIGHT: Final = (APPROVE, READ_AUDIT)
PAGES: Final = (
    Page(
        path="/approvals",
        template="approvals.html",
        title="Approvals",
        shows=_list,
        menu="Approvals",
        right=_RIGHT,
        query=Which,
        told=("approval",),
    ),
    Page(
        path="/approvals/{approval}",
        template="approval.html",
        title="A request",
        shows=_one,
        menu="Approvals",
        right=_RIGHT,
        query=Granting,
        told=("approval",),
    ),
)
