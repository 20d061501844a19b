"""The rules and what they lead to: each with its examples, one call explained, the past replayed, and the trust ladder."""

import json
from typing import Annotated, Any, Final, final

from msgspec import Meta, Struct

from metier.doors.http.console.asked import Unanswered, asked
from metier.doors.http.console.page import Page
from metier.doors.http.endpoint import Asking, led_here
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.role import READ_AUDIT
from metier.model.trust_level import LEVELS

Text = Annotated[str, Meta(max_length=200)]
When = Annotated[str, Meta(max_length=20, pattern=r"^[0-9T:-]*$")]


_SECONDS: Final = 0.1
"""So long the past is walked through for one page. What is older is another page."""
_WORDS: Final = {
    "problems": "Wrong with the rules",
    "summary": "Calls of the past",
    "judged": "judged again",
    "same": "end as they did",
    "otherwise": "would end otherwise",
    "undecidable": "cannot be told any more",
    "kinds": "What would change",
    "calls": "Which calls",
    "calls_left_out": "Calls not shown",
    "cut": "Cut off for want of",
}
_COLUMNS: Final = {
    "problems": {"line": "Line", "message": "What is wrong", "remedy": "What to do"},
    "kinds": {"from": "It was", "to": "It would be", "calls": "Calls"},
    "calls": {
        "at": "When (UTC)",
        "principal": "Who",
        "tool": "Tool",
        "was": "It was",
        "would_be": "It would be",
        "rules": "By the rules",
        "call_id": "Call",
    },
}
"""What a replay with other rules answers, as the script that shows it calls it."""


@final
class Question(Struct, frozen=True, kw_only=True):
    """A call that is not made."""

    tool: Text = ""
    arguments: Annotated[str, Meta(max_length=20_000)] = ""
    who: Text = ""
    level: Text = ""


@final
class Span(Struct, frozen=True, kw_only=True):
    """Which part of the past."""

    since: When = ""
    until: When = ""
    before: Annotated[str, Meta(max_length=15, pattern=r"^[0-9]*$")] = ""
    """Only records with a smaller number: where the page before this one left off."""
    now: bool = False
    """Whether to look at all: it reads much."""


async def _policy(asking: Asking) -> dict[str, object]:
    rules = await asked(asking, "policy.rules", {}, dict[str, Any])
    level = await asked(asking, "runtime.level_get", {}, dict[str, Any])
    return {
        "rules": None if isinstance(rules, Unanswered) else rules,
        "why": rules.why if isinstance(rules, Unanswered) else "",
        "level": None if isinstance(level, Unanswered) else level,
        "level_why": level.why if isinstance(level, Unanswered) else "",
    }


async def _explain(asking: Asking) -> dict[str, object]:
    question: Question = asking.query
    about: dict[str, object] = {"question": question, "levels": LEVELS, "found": None, "why": ""}
    if not question.tool or led_here(asking.request):
        return about
    try:
        arguments = strictjson.loads(question.arguments or "{}")  # as a call is read
    except ValueError as error:
        return {**about, "why": f"the arguments are not JSON: {error}"}
    if not isinstance(arguments, dict):
        return {**about, "why": "the arguments are not a JSON object"}
    given: dict[str, Json] = {
        "tool": question.tool,
        "arguments": arguments,
        "as": question.who,
        "level": question.level,
    }
    found = await asked(asking, "policy.explain", given, dict[str, Any])
    return {**about, "why": found.why} if isinstance(found, Unanswered) else {**about, "found": found}


async def _replay(asking: Asking) -> dict[str, object]:
    span: Span = asking.query
    about: dict[str, object] = {
        "span": span,
        "found": None,
        "why": "",
        "words": json.dumps(_WORDS),
        "columns": json.dumps(_COLUMNS),
    }
    if not span.now or led_here(asking.request):
        return about
    given: dict[str, Json] = {
        "since": span.since,
        "until": span.until,
        "before": int(span.before or 0),
        "newest_first": True,
        "seconds": _SECONDS,
    }
    found = await asked(asking, "policy.replay", given, dict[str, Any])
    return {**about, "why": found.why} if isinstance(found, Unanswered) else {**about, "found": found}


def _page(
    path: str,
    template: str,
    title: str,
    shows: Any,
    query: type[Struct] | None = None,
    told: tuple[str, ...] = (),
) -> Page:
    return Page(
        path=path,
        template=template,
        title=title,
        shows=shows,
        menu="Policy",
        right=(READ_AUDIT,),
        query=query,
        told=told,
        asks=query is not None,
    )


PAGES: Final = (
    _page("/policy", "policy.html", "Policy", _policy, told=("policy", "skills")),
    _page("/policy/explain", "explain.html", "Explain a call", _explain, Question),
    _page("/policy/replay", "replay.html", "Replay the past", _replay, Span),
)
