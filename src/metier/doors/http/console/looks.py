"""How the pages look: templates, in which every value is text.

Whatever a template is filled with is escaped, and what cannot be seen in it is spelled out, without anybody having to think of it. No
template marks anything as safe, and scripts are only those of this package: each answer names them by a number nobody can guess.
"""

import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from metier.doors.http.console.fold import folded
from metier.doors.http.console.static import addresses
from metier.doors.http.console.words import STATES
from metier.doors.http.problem import Refusal
from metier.model.exact import laid_out, quoted
from metier.model.text import one_line, visible

_POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types htmx metier"
)


def rendered(template: str, given: Mapping[str, object], status: int = 200) -> Response:
    """The page."""
    nonce = secrets.token_urlsafe(16)
    text = _templates.get_template(template).render({**given, "nonce": nonce, "now": time.time()})
    headers = {"content-security-policy": _POLICY.format(nonce=nonce), "cache-control": "no-store"}
    return Response(text, status, headers, media_type="text/html")


def not_signed_in(refusal: Refusal) -> Response:
    """Why somebody was not let in, for a person whose browser a provider sent here, and where he can go on."""
    made = rendered("not_signed_in.html", {"problem": refusal.problem}, refusal.problem.status)
    made.headers.update(refusal.headers)
    return made


def _seen(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def ago(at: str | float, now: float) -> str:
    """How long it is from `at` to `now`, roughly, in words. What is no time stays as it is."""
    try:
        then = datetime.fromisoformat(at).timestamp() if isinstance(at, str) else float(at)
    except ValueError:
        return str(at)
    seconds = now - then
    words = _long(abs(seconds))
    if words == "now":
        return words
    return f"{words} ago" if seconds > 0 else f"in {words}"


def _long(seconds: float) -> str:
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return f"{int(seconds)} s" if seconds >= 1 else "now"


def stamp(at: str | float) -> str:
    """A moment, exactly, in UTC."""
    if isinstance(at, str):
        return f"{at[:19].replace('T', ' ')} UTC" if at else ""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("metier.doors.http.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters, names = cast("dict[str, object]", made.filters), cast("dict[str, object]", made.globals)
    filters.update(
        {"ago": ago, "stamp": stamp, "exact": laid_out, "quoted": quoted, "line": one_line, "fold": folded}
    )
    names["static"] = addresses()
    names["states"] = STATES
    return made


_templates: Final = _environment()
