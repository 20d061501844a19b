"""An HTTP entry with its `{{name}}` places filled from the arguments of a call. Pure.

Each value is written the way its place demands: percent-escaped in a path segment or a query, as a value inside a
JSON body, never by pasting text into text that somebody reads again. Host, port, method and header names are fixed
by the entry. `{{secret:NAME}}` may end a header value and stands nowhere else.
"""

import re
from collections.abc import Callable
from typing import Final, final
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from metier.model.digest import Json
from metier.model.entry import HttpRequest
from metier.sandbox.secret import SecretRef

_PLACE: Final = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")
_AUTHORITY: Final = re.compile(r"[^:/?#]+://[^/?#]*")
_STEPS: Final = re.compile(r"[/\\]")
_BY_NAME: Final = "secret:"
_FORM: Final = "application/x-www-form-urlencoded"


class Unfilled(ValueError):
    """A request that cannot be made of the entry and these arguments. The text says why, without their values."""


@final
class Filled(Struct, frozen=True, kw_only=True):
    """A request, ready to be sent."""

    method: str
    url: str
    headers: dict[str, str]
    secrets: dict[str, SecretRef]
    body: bytes
    retries: int = 0


def fill(entry: HttpRequest, arguments: dict[str, Json]) -> Filled:
    """The request that `entry` describes, with these arguments.

    Raises:
        Unfilled: when a place has no argument, or one that does not fit there.
    """
    try:
        return _filled(entry, arguments)
    except UnicodeEncodeError:
        raise Unfilled("an argument holds half a character, which cannot be sent") from None


def _filled(entry: HttpRequest, arguments: dict[str, Json]) -> Filled:
    headers: dict[str, str] = {}
    secrets: dict[str, SecretRef] = {}
    for name, template in entry.headers.items():
        if _PLACE.search(name):
            raise Unfilled(f"the header name {name!r} has a place for an argument; names are fixed")
        secret = _secret(name, template, arguments)
        if secret is None:
            headers[name] = _fill(template, arguments, _as_it_is, f"the header {name!r}")
        else:
            secrets[name] = secret
    body = _body(entry, arguments)
    if body and not isinstance(entry.body, str) and "content-type" not in {each.lower() for each in headers}:
        headers["Content-Type"] = "application/json"
    return Filled(
        method=entry.method.upper(),
        url=_url(entry.url, arguments),
        headers=headers,
        secrets=secrets,
        body=body,
        retries=entry.retries,
    )


def _url(template: str, arguments: dict[str, Json]) -> str:
    authority = _AUTHORITY.match(template)
    if authority is None:
        raise Unfilled("the URL does not begin with https:// and a host")
    if "{" in authority[0] or "}" in authority[0]:
        raise Unfilled("the URL has a place for an argument before its path; the host is fixed")
    rest = template[authority.end() :].partition("#")[0]
    path, mark, query = rest.partition("?")
    segments = [_segment(each, arguments) for each in path.split("/")]
    return f"{authority[0]}{'/'.join(segments)}{mark}{_fill(query, arguments, _escaped, 'the query')}"


def _segment(template: str, arguments: dict[str, Json]) -> str:
    filled = _fill(template, arguments, _escaped, "the path")
    # Servers take these for steps to other folders, whoever wrote them; some also when they are escaped.
    if template != filled and (not filled or not {".", ".."}.isdisjoint(_STEPS.split(unquote(filled)))):
        raise Unfilled("an argument makes an empty or dotted part of the path")
    return filled


def _secret(header: str, template: str, arguments: dict[str, Json]) -> SecretRef | None:
    places = [found for found in _PLACE.finditer(template) if found[1].startswith(_BY_NAME)]
    if not places:
        return None
    last = places[-1]
    if len(places) > 1 or last.end() != len(template):
        raise Unfilled(f"the secret in the header {header!r} is not one alone at its end")
    before = _fill(template[: last.start()], arguments, _as_it_is, f"the header {header!r}")
    return SecretRef(name=last[1].removeprefix(_BY_NAME), before=before)


def _body(entry: HttpRequest, arguments: dict[str, Json]) -> bytes:
    template = entry.body
    if template is None:
        return b""
    if not isinstance(template, str):
        return msgspec.json.encode(_value(template, arguments))
    if not _PLACE.search(template):
        return template.encode()
    whole = _PLACE.fullmatch(template)
    if whole is not None:
        value = _argument(whole[1], arguments, "the body")
        return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    kinds = [value for name, value in entry.headers.items() if name.lower() == "content-type"]
    if [kind.partition(";")[0].strip().lower() for kind in kinds] == [_FORM]:
        return _fill(template, arguments, _escaped, "the body").encode()
    raise Unfilled("the body is a text with places in it; write it as a JSON value, or send it as a form")


def _value(template: Json, arguments: dict[str, Json]) -> Json:
    match template:
        case str():
            whole = _PLACE.fullmatch(template)
            if whole is not None:
                return _argument(whole[1], arguments, "the body")
            return _fill(template, arguments, _as_it_is, "the body")
        case list():
            return [_value(each, arguments) for each in template]
        case dict():
            if any(_PLACE.search(name) for name in template):
                raise Unfilled("a key of the body has a place for an argument; keys are fixed")
            return {name: _value(each, arguments) for name, each in template.items()}
        case _:
            return template


def _fill(template: str, arguments: dict[str, Json], write: Callable[[str], str], where: str) -> str:
    def written(found: re.Match[str]) -> str:
        return write(_scalar(_argument(found[1], arguments, where), found[1], where))

    filled = _PLACE.sub(written, template)
    if "{{" in _PLACE.sub("", template) or "}}" in _PLACE.sub("", template):
        raise Unfilled(f"{where} has braces that name no argument")
    return filled


def _argument(name: str, arguments: dict[str, Json], where: str) -> Json:
    if name.startswith(_BY_NAME):
        raise Unfilled(f"{where} names a secret; secrets stand in header values only")
    if name not in arguments:
        raise Unfilled(f"{where} needs the argument {name[:60]!r}, which was not given")
    return arguments[name]


def _scalar(value: Json, name: str, where: str) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return msgspec.json.encode(value).decode()
        case _:
            raise Unfilled(f"the argument {name[:60]!r} in {where} is not a text, a number or a truth value")


def _escaped(text: str) -> str:
    return quote(text, safe="")


def _as_it_is(text: str) -> str:
    return text
