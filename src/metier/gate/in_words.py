"""A request for somebody's word, and a standing grant, in words: the same at every door. Nothing is cut, everything can be seen.

What Metier knows comes first, in its own words. What the skill says about itself comes last, and is marked as such.
"""

from datetime import UTC, datetime
from typing import cast

from metier.model.approval import Approval, Shown, StandingGrant
from metier.model.digest import Json
from metier.model.exact import laid_out, quoted
from metier.model.misleading import misleading
from metier.model.permission_words import in_quotes
from metier.model.session import in_words
from metier.model.text import one_line


def when(each: Approval, now: float) -> str:
    """How much time is left, or since when it is over."""
    if each.state not in ("pending", "approved"):
        return (each.decided_at or each.asked_at)[:16].replace("T", " ") + " UTC"
    left = max(0, int(each.ends - now))
    return f"{left // 60} min {left % 60:02} s left"


def lines(each: Approval, now: float, *, commands: bool = True, exact: bool = True) -> list[str]:
    """Everything about a request. `commands`: also those that decide it, where it is not decided by answering what shows it. `exact`: whether
    this is what will run, and not what of it may be seen by who does not decide."""
    said = [f"{each.id}  {each.state}, {when(each, now)}"]
    if each.decided_by:
        said.append(_row("decided", f"{each.decided_by}, {each.decided_at[:16].replace('T', ' ')} UTC"))
    if each.word:
        said.append(_row("with the word", quoted(each.word)))
    if each.shown is None:
        return [
            *said,
            _row("asked by", each.principal),
            "What was asked is no longer kept here; see `metier audit`.",
        ]
    said += _request(each.shown, exact=exact)
    if each.fingerprint:
        said.append(_row("fingerprint", each.fingerprint[:16]))
    if not commands:
        return said
    if each.state == "pending":
        if each.shown.file:
            said.append(f"Decide it where it was asked. Say no from here: metier approvals deny {each.id}")
        else:
            said.append(f"Decide: metier approvals approve {each.id}   or: metier approvals deny {each.id}")
    if each.state == "approved":
        said.append("It has not run. Why, if somebody tried: metier audit search --call " + each.call_id)
        again = "" if each.shown.file else f"Take it up: metier approvals approve {each.id}   or take"
        said.append(f"{again or 'Take'} it back: metier approvals revoke {each.id}")
    return said


def _request(shown: Shown, *, exact: bool) -> list[str]:
    behalf = f" on behalf of {one_line(shown.on_behalf_of)}" if shown.on_behalf_of else ""
    said = [
        _row("tool", f"{one_line(shown.tool)} ({shown.effect}, {shown.risk} risk, {shown.cost})"),
        _row("asked by", f"{one_line(shown.principal)} ({shown.kind}){behalf}"),
    ]
    if shown.skill:
        said.append(
            _row(
                "skill",
                f"{one_line(shown.skill)} {one_line(shown.version) or '(no version)'} {shown.skill_digest}",
            )
        )
    if shown.file:
        said.append(_row("file", f"{quoted(shown.file)}, {shown.language} {shown.skill_digest}"))
    for name, value in (
        ("session", in_words(shown.session)),
        ("channel", shown.channel),
        ("set off by", shown.cause),
        ("inside call", shown.parent),
    ):
        if value:
            said.append(_row(name, one_line(value)))
    if shown.project:
        said.append(_row("project", quoted(shown.project)))
    said.append(_row("may", in_quotes(shown.permissions)))
    said += [_row("where", one_line(line)) for line in shown.stands_for]
    said.append(_row("folder", quoted(shown.place or shown.cwd) if shown.place or shown.cwd else "none"))
    said += [_row("because", one_line(reason)) for reason in shown.reasons]
    if shown.replaces:
        said.append(_row("note", one_line(shown.replaces)))
    if shown.always_asks:
        said.append(_row("note", "this tool asks every time"))
    if shown.four_eyes:
        said.append(_row("note", "a second person has to decide (four_eyes)"))
    said += [
        f"arguments, {'exactly as they will run' if exact else 'as the record shows them'}:",
        laid_out(cast("Json", shown.arguments)),
    ]
    said += [f"! {one_line(warning)}" for warning in misleading(cast("Json", shown.arguments))]
    who, mark = ("Metier says", "") if shown.ours else ("the skill says", " (its own words)")
    said += [_row(who, f"{quoted(text)}{mark}") for text in (shown.description, shown.skill_says) if text]
    return said


def grant_lines(grant: StandingGrant) -> list[str]:
    """What a standing grant lets happen without anybody being asked."""
    behalf = f" on behalf of {one_line(grant.on_behalf_of)}" if grant.on_behalf_of else ""
    until = "until it is revoked"
    if grant.expires_at is not None:
        until = f"until {datetime.fromtimestamp(grant.expires_at, UTC):%Y-%m-%d %H:%M} UTC"
    said = [
        _row("grant", grant.id),
        _row("tool", one_line(grant.tool)),
        _row("for", f"{one_line(grant.principal)}{behalf}"),
    ]
    if grant.skill:
        said.append(_row("skill", f"{one_line(grant.skill)} {grant.skill_digest}, no other bytes"))
    elif grant.skill_digest:
        said.append(_row("file", f"{quoted(grant.file)} {grant.skill_digest}, no other bytes"))
    said += [
        _row("arguments", "exactly those of this request" if grant.arguments else "ANY"),
        _row("may", in_quotes(grant.permissions)),
        _row("folder", f"{quoted(grant.cwd)} only" if grant.cwd else "ANY"),
        _row("session", one_line(in_words(grant.session, only=True)) if grant.session else "ANY"),
        _row("lasts", until + _uses(grant.uses_left)),
    ]
    if grant.programs:
        said.append(_row("files", "the programs it uses, or the agent it starts, as they are now; no others"))
    if grant.risk == "high":
        said.append(_row("note", "this is HIGH risk, and nobody will be asked"))
    if grant.names_tool:
        said.append(_row("note", "this tool asks every time; with this grant it does not"))
    return said


def _row(name: str, value: str) -> str:
    return f"{name:14} {value}"


def _uses(left: int | None) -> str:
    return "" if left is None else ", once" if left == 1 else f", {left} times"
