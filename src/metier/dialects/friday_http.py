"""An HTTP action of a friday skill: one request to one host that its file names.

Scheme, host, port, method and the names of header lines are fixed. Arguments fill path, query, header values and
the strings of a JSON body. What egress would refuse later in any case is refused here, where the author sees it.
"""

import re
from typing import Final, Literal

import msgspec

from metier.dialects import friday_places
from metier.dialects.friday_part import Part
from metier.dialects.friday_places import BY_NAME, without
from metier.dialects.friday_url import grant_of
from metier.dialects.written_secrets import header_looks_secret, looks_secret
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.entry import HttpRequest
from metier.model.header_names import is_reserved
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.text import one_line

METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
LONGEST_URL: Final = 2_000
LONGEST_BODY: Final = 50_000
MOST_RETRIES: Final = 3
MOST_HEADERS: Final = 50
LONGEST_HEADER: Final = 4_096
_FORM: Final = "application/x-www-form-urlencoded"
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_VALUE: Final = re.compile(r"[\t -~]*")
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_SECRET: Final = re.compile(r"\{\{secret:([^{}\s]*)\}\}")
_SECRET_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_SHOUTED: Final = re.compile(r"\$\{?[A-Z][A-Z0-9]*_[A-Z0-9_]+")
"""A `$VARIABLE` as people write them; a bare `$` belongs to many a query."""


def request(part: Part, schema: dict[str, Json]) -> tuple[HttpRequest, PermissionSet] | None:
    """The request and what it needs, or None after an error."""
    method = part.text("method", 20, needed=True).upper()
    if method and method not in METHODS:
        message = f'`method` is "{one_line(method, 20)}"; it can be {", ".join(METHODS)}'
        part.note("bad_field", "error", message)
    url = friday_places.tidy(part.text("url", LONGEST_URL, needed=True).strip())
    host = grant_of(part, url) if url else ""
    friday_places.check(part, schema, url.partition("#")[0], "the URL")
    headers, secrets = _headers(part, schema)
    body = _body(part, schema, headers)
    if secrets and host.startswith("http://"):
        part.note("bad_url", "error", "`url` begins with http:// and a header holds a secret; write https://")
    retries = part.whole("retryCount", 0, MOST_RETRIES) or 0
    _warn(part, url, body)
    if not part.sound:
        return None
    entry = HttpRequest(method=method, url=url, headers=headers, body=body, retries=retries)
    return entry, OWN_FOLDER | PermissionSet(hosts=frozenset({host}), secrets=secrets)


def effect_of(method: str) -> Literal["read", "act"]:
    """Whether a request only asks, or changes something."""
    return "read" if method in ("GET", "HEAD") else "act"


def _headers(part: Part, schema: dict[str, Json]) -> tuple[dict[str, str], frozenset[str]]:
    inner = part.part("headers")
    if inner is None:
        if part.fields.get("headers") is not None:
            part.note("bad_field", "error", "`headers` is no map of names and texts; write { name: text }")
        return {}, frozenset()
    if len(inner.fields) > MOST_HEADERS:
        part.note("bad_field", "error", f"there are more than {MOST_HEADERS} headers")
        return {}, frozenset()
    made: dict[str, str] = {}
    secrets: set[str] = set()
    for name in inner.fields:
        value = inner.text(name, LONGEST_HEADER).strip()
        shown = one_line(name, 60)
        if not _NAME.fullmatch(name):
            message = f"{shown!r} is no name of a header; names are fixed and have no places"
            part.note("bad_field", "error", message)
        elif is_reserved(name):
            part.note("bad_field", "error", f"the header {shown!r} is not for a skill to set; remove it")
        elif name.lower() in {each.lower() for each in made}:
            part.note("bad_field", "error", f"the header {shown!r} is given twice; remove one")
        else:
            made[name] = _header(part, schema, name, value, secrets)
    part.sound = part.sound and inner.sound
    return made, frozenset(secrets)


def _header(part: Part, schema: dict[str, Json], name: str, value: str, secrets: set[str]) -> str:
    """The value with each secret in its one spelling; its name is added to `secrets`."""
    where = f"the header {one_line(name, 60)!r}"
    written = _VARIABLE.sub(lambda found: f"{{{{{BY_NAME}{found[1] or found[2]}}}}}", value)
    template = friday_places.tidy(written)
    if not _VALUE.fullmatch(without(template)):
        part.note("bad_field", "error", f"{where} holds a control or a non-ASCII character; remove it")
    named = list(_SECRET.finditer(template))
    fixed = template
    if name.lower() == "cookie" and not named:
        part.note("bad_field", "error", f"{where} can be sent only as a secret; write $NAME there")
    if named:
        last = named[-1]
        fixed = template[: last.start()]
        if len(named) > 1 or last.end() != len(template):
            part.note("place_refused", "error", f"{where} must end with its one secret; nothing follows it")
        elif not _SECRET_NAME.fullmatch(last[1]):
            message = f"{where} names the secret {one_line(last[1], 60)!r}; write letters, digits and _"
            part.note("place_refused", "error", message)
        else:
            secrets.add(last[1])
    friday_places.check(part, schema, _SECRET.sub("", fixed), where)
    if header_looks_secret(name, without(fixed)) and not named:
        message = (
            f"{where} seems to hold a credential in plain sight; store it as a secret and write $NAME there"
        )
        part.note("credential_written", "warning", message)
    return template


def _body(part: Part, schema: dict[str, Json], headers: dict[str, str]) -> Json:
    """A JSON object or list where it is one, so that places in it are filled as JSON; else the text as it is."""
    given = part.fields.get("body")
    if isinstance(given, dict | list):
        part.asked.add("body")
        if len(msgspec.json.encode(given)) > LONGEST_BODY:
            part.note("too_long", "error", f"`body` has more than {LONGEST_BODY:,} bytes as JSON; shorten it")
        _check_value(part, schema, given)
        return given
    text = part.text("body", LONGEST_BODY)
    if not text:
        return None
    kinds = [value for name, value in headers.items() if name.lower() == "content-type"]
    form = [kind.partition(";")[0].strip().lower() for kind in kinds] == [_FORM]
    try:
        value = None if form else strictjson.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict | list):
        _check_value(part, schema, value)
        return value
    text = friday_places.tidy(text)
    if without(text) == text:
        return text
    whole = not without(text)
    if not form and not whole:
        message = (
            "the body is a text with places in it, and no JSON; put quotes around each place (a place that is a whole"
            f" string becomes the value itself), or say Content-Type: {_FORM}"
        )
        part.note("place_refused", "error", message)
        return text
    friday_places.check(part, schema, text, "the body", value=whole)
    return text


def _check_value(part: Part, schema: dict[str, Json], template: Json) -> None:
    """The places of a JSON body: in strings only, never in keys."""
    match template:
        case str():
            tidied = friday_places.tidy(template)
            friday_places.check(part, schema, tidied, "the body", value=not without(tidied))
        case list():
            for each in template:
                _check_value(part, schema, each)
        case dict():
            for name, each in template.items():
                if without(name) != name:
                    message = "a key of the body has a place for an argument; keys are fixed"
                    part.note("place_refused", "error", message)
                _check_value(part, schema, each)
        case _:
            pass


def _warn(part: Part, url: str, body: Json) -> None:
    if "#" in url:
        message = "what follows # in a URL is never sent; remove it"
        part.note("url_fragment", "warning", message)
    texts = [url, *_strings(body)]
    if any(map(_SHOUTED.search, texts)):
        message = "URL and body are sent with $NAME as it stands; only header values are filled with secrets"
        part.note("secret_not_filled", "warning", message)
    if any(map(looks_secret, texts)):
        message = (
            "URL or body seem to hold a credential in plain sight; store it as a secret, send it in a header"
        )
        part.note("credential_written", "warning", message)


def _strings(value: Json) -> list[str]:
    if isinstance(value, dict):
        pairs = [f"{name}={each}" if isinstance(each, str) else each for name, each in value.items()]
        return [text for each in pairs for text in _strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in _strings(each)]
    return [value] if isinstance(value, str) else []
