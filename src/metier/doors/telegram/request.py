"""A request for somebody's word as Telegram shows it: all of it, as plain text; as a file where it is too long for a message; and where it
is too long for that as well, what is said in its place, which nobody can say yes to. Pure."""

import time
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from metier.doors.telegram.text import LONGEST, dropped, spelled, units
from metier.gate.in_words import grant_lines, lines
from metier.model.approval import Approval, StandingGrant
from metier.model.text import one_line
from metier.record.standing import proposed_grant

LABELS: Final = {"o": "Once", "s": "This session", "d": "Deny"}
"""By the letter that a button carries."""
MOST_FILE: Final = 1_000_000
"""Bytes of what is sent as a file."""
_BEGINNING: Final = 1_500
"""Characters of what is too long even for a file."""


@final
class Request(Struct, frozen=True, kw_only=True):
    """What is sent."""

    title: str
    text: str
    offered: str
    """The letters of the answers it offers."""
    whole: str
    file: bytes | None = None
    """All of it, where that is too long for the message. It comes first."""

    def cut(self, approval: str) -> "Request":
        """The same for who could not be shown all of it: its beginning, and no yes."""
        text = (
            f"{self.whole[:_BEGINNING]}\n…\n\nThis is not all of it: it has {len(self.whole):,} characters, more than can be sent, so it "
            f"cannot be approved here. See all of it, and decide, at the terminal:\nmetier approvals show {approval}"
        )
        return replace(self, text=text, offered="d", file=None)


def request(approval: Approval, human: str) -> Request:
    """How it is shown to the approver who is `human`. Takes a while for what is large."""
    title = _title(approval)
    grant = _session_grant(approval, human)
    offered = "od" if grant is None else "osd"
    if approval.shown is None or approval.shown.file:
        offered = "d"  # only the process that asked can take a yes
    whole = _shown("\n".join([*lines(approval, time.time()), *_grant_words(grant)]))
    made = Request(title=title, text=whole, offered=offered, whole=whole)
    if len(whole) <= LONGEST and units(whole) <= LONGEST:
        return made
    data = whole.encode()
    if len(data) > MOST_FILE:
        return made.cut(approval.id)
    text = (
        f"{title}\nIt is too long for a message: all of it is in the file above. Read that before you decide."
    )
    return replace(made, text=text, file=data)


def ended(approval: Approval) -> str:
    """What became of it."""
    by = f" by {one_line(approval.decided_by, 80)}" if approval.decided_by else ""
    match approval.state:
        case "approved" | "spent":
            scope = f", {approval.scope}" if approval.scope else ""
            return f"approved{by}{scope}." + (" It was begun." if approval.state == "spent" else "")
        case "denied":
            return f"denied{by}."
        case "expired":
            return "expired: nobody decided in time."
        case "void":
            return f"taken back{by}."
        case _:
            return "still waits for your word."


def _title(approval: Approval) -> str:
    shown = approval.shown
    what = f"{shown.tool} ({shown.effect}, {shown.risk} risk)" if shown is not None else "a call"
    behalf = f" on behalf of {approval.on_behalf_of}" if approval.on_behalf_of else ""
    return one_line(spelled(f"{approval.id}: {what} by {approval.principal}{behalf}"), 500)


def _shown(text: str) -> str:
    """As it arrives: what Telegram would take out is spelled out, and that is said."""
    marks = dropped(text)
    if not marks:
        return text
    return f"{spelled(text)}\n! it holds marks that Telegram does not show, spelled out above: {', '.join(marks)}"


def _session_grant(approval: Approval, human: str) -> StandingGrant | None:
    if approval.shown is None:
        return None
    grant = proposed_grant(approval.shown, "session", approval=approval.id, by=human)
    return grant if isinstance(grant, StandingGrant) else None


def _grant_words(grant: StandingGrant | None) -> list[str]:
    """What `This session` would let happen. The grant itself is made anew when that is pressed, so it is not named."""
    return ["", "With 'This session' nobody is asked again for:", *grant_lines(grant)[1:]] if grant else []
