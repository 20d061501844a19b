"""`entry: {kind: http}` of `metadata.metier`: one request to a host that is fixed in the manifest. Pure."""

import re
from typing import Final

from metier.dialects.block_fields import Fields, kind, shown
from metier.dialects.metier_places import PLACE, SECRET, place_problem
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.entry import HttpRequest
from metier.model.header_names import is_reserved
from metier.model.text import one_line

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
LONGEST_URL: Final = 2_000
LONGEST_HEADER: Final = 4_000
LARGEST_BODY: Final = 50_000
MOST_HEADERS: Final = 50
MOST_RETRIES: Final = 3
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?::(?P<port>[1-9][0-9]{0,4}))?(?:[/?][!-~]*)?",
    re.ASCII,
)
_AUTHORITY: Final = re.compile(r"[^:/?#]+://[^/?#]*")
_OWN_PORT: Final = {"https": "443", "http": "80"}
_HEADER: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}", re.ASCII)
_SECRET_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_FORM: Final = "application/x-www-form-urlencoded"


def request_of(given: Fields, parameters: dict[str, Json]) -> HttpRequest | None:
    """The request, or None when an error was found in it."""
    method = given.choice("method", METHODS, "GET")
    url = _url(given, parameters)
    headers = _headers(given, parameters)
    body = _body(given, headers, parameters)
    if url.startswith("http:") and any(f"{{{{{SECRET}" in value for value in headers.values()):
        given.wrong("url", "begins with http:// and a header holds a secret; write https://")
    retries = given.whole("retries", least=0, most=MOST_RETRIES, default=2, unit="how often to try again")
    given.no_more("kind, method, url, headers, body and retries")
    return HttpRequest(method=method, url=url, headers=headers, body=body, retries=retries) if url else None


def origin_of(request: HttpRequest) -> str:
    """Where a request goes, spelled as a permission: `host`, `host:port`, or the same after `http://`."""
    found = _URL.fullmatch(PLACE.sub("x", request.url))
    if found is None:
        return ""
    port = found["port"]
    place = found["host"] if port in (None, _OWN_PORT[found["scheme"]]) else f"{found['host']}:{port}"
    return place if found["scheme"] == "https" else f"http://{place}"


def secrets_of(request: HttpRequest) -> frozenset[str]:
    """The secrets that its headers name."""
    named = (name for value in request.headers.values() for name in PLACE.findall(value))
    return frozenset(name.removeprefix(SECRET) for name in named if name.startswith(SECRET))


def _url(given: Fields, parameters: dict[str, Json]) -> str:
    url = given.text("url", most=LONGEST_URL)
    if not url:
        return ""
    found, authority = _URL.fullmatch(PLACE.sub("x", url)), _AUTHORITY.match(url)
    if found is None or authority is None or "{" in authority[0]:
        given.wrong(
            "url",
            f"is {shown(url)}; write https://host/path in plain ASCII, the host in lower case and without any {{{{…}}}}, "
            "user or fragment",
        )
        return ""
    if "#" in url or ".." in found["host"] or (found["port"] and int(found["port"]) > 65_535):
        given.wrong(
            "url", f"is {shown(url)}; its host or port is none, or it has a fragment, which is never sent"
        )
        return ""
    if problem := place_problem(url, parameters):
        given.wrong("url", problem)
        return ""
    return url


def _headers(given: Fields, parameters: dict[str, Json]) -> dict[str, str]:
    if "headers" not in given:
        return {}
    written = given.take("headers")
    if not isinstance(written, dict) or len(written) > MOST_HEADERS:
        given.wrong(
            "headers", f"is {kind(written)}; write an object of at most {MOST_HEADERS} names and texts"
        )
        return {}
    found: dict[str, str] = {}
    for name, value in written.items():
        if problem := _header_problem(name, value, parameters):
            given.wrong("headers", f'has "{one_line(name, 40)}", which {problem}')
        elif isinstance(value, str):
            found[name] = value
    return found


def _header_problem(name: str, value: Json, parameters: dict[str, Json]) -> str:
    if not _HEADER.fullmatch(name):
        return "is no name of a header; write letters, digits and hyphens"
    if is_reserved(name):
        return "is not for a skill to set; remove it"
    if (
        not isinstance(value, str)
        or len(value) > LONGEST_HEADER
        or not (value.isascii() and value.isprintable())
    ):
        return f"is {shown(value)}; write a text of at most {LONGEST_HEADER:,} plain characters on one line"
    last = [*PLACE.finditer(value)][-1:]
    if last and last[0][1].startswith(SECRET) and last[0].end() == len(value):
        if not _SECRET_NAME.fullmatch(last[0][1].removeprefix(SECRET)):
            return "names a secret by no plain name; write {{secret:NAME}}"
        value = value[: last[0].start()]
    elif name.lower() == "cookie":
        return "can be sent only as a secret; write {{secret:NAME}}"
    return place_problem(value, parameters)


def _body(given: Fields, headers: dict[str, str], parameters: dict[str, Json]) -> Json:
    body = given.take("body")
    try:
        strictjson.check(body, most=LARGEST_BODY)
    except ValueError as error:
        given.wrong("body", f"cannot be sent: {one_line(str(error), 200)}")
        return None
    for text, is_key in _texts(body):
        if is_key and PLACE.search(text):
            given.wrong("body", f"has a key with a place in it ({shown(text)}); keys are fixed")
        elif problem := "" if is_key else place_problem(text, parameters):
            given.wrong("body", problem)
    if isinstance(body, str) and PLACE.search(body) and not PLACE.fullmatch(body) and not _is_form(headers):
        given.wrong("body", "is a text with places in it; write it as a JSON value, or send it as a form")
    return body


def _texts(value: Json) -> list[tuple[str, bool]]:
    """Every text in a value, and whether it is a key."""
    if isinstance(value, str):
        return [(value, False)]
    if isinstance(value, list):
        return [found for item in value for found in _texts(item)]
    if isinstance(value, dict):
        return [(key, True) for key in value] + [found for item in value.values() for found in _texts(item)]
    return []


def _is_form(headers: dict[str, str]) -> bool:
    kinds = [value for name, value in headers.items() if name.lower() == "content-type"]
    return [each.partition(";")[0].strip().lower() for each in kinds] == [_FORM]
