"""The host of an action's URL, as a permission names it. What egress cannot read or never reaches is refused here."""

import re
from typing import Final

from metier.dialects.friday_part import Part
from metier.dialects.friday_places import without

_SHAPE: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)")
_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([1-9][0-9]{0,4}))?")
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNFIT: Final = re.compile(r"[^!-~]|\\")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_PORTS: Final = {"http": 80, "https": 443}
_FIXED: Final = "has a place for an argument before its path, and no argument may choose scheme, host or port"
_LONGEST_HOST: Final = 253
_HERE: Final = frozenset({"localhost", "localdomain", "ip6-localhost", "ip6-loopback"})


def grant_of(part: Part, url: str) -> str:
    """`host`, `host:port` or `http://host…`; empty after an error."""
    found = _read(url)
    if isinstance(found, str):
        return found
    part.note("bad_url", "error", f"`url` {found[0]}; write https://host/path with a fixed host")
    return ""


def _read(url: str) -> str | tuple[str]:
    """The grant, or in a tuple what is wrong."""
    plain = without(url, "x")
    shape = _SHAPE.fullmatch(url)
    if shape is None and "{{" in url.partition("://")[0]:
        return (_FIXED,)
    if shape is None:
        return ("does not begin with https:// and a host",)
    scheme = shape[1].lower()
    if scheme not in _PORTS:
        return ("is neither http nor https",)
    if "{" in shape[2] or "}" in shape[2]:
        return (_FIXED,)
    if _UNFIT.search(plain):
        return ("holds a blank, a backslash, a control or a non-ASCII character",)
    if _BROKEN_ESCAPE.search(plain):
        return ("holds a percent sign that is no escape, or an escaped NUL",)
    if "@" in shape[2]:
        return ("names a user before the host",)
    place = _PLACE.fullmatch(shape[2])
    if place is None or int(place[2] or 1) > 65_535:
        return ("has no host, or a port that is none",)
    host = place[1].lower()
    if problem := _problem(host):
        return (problem,)
    host = host.removesuffix(".")
    port = "" if not place[2] or int(place[2]) == _PORTS[scheme] else f":{place[2]}"
    return f"http://{host}{port}" if scheme == "http" else f"{host}{port}"


def _problem(host: str) -> str:
    labels = host.removesuffix(".").split(".")
    if host.startswith("[") or _NUMERIC.fullmatch(labels[-1]):
        import ipaddress  # rare, and not cheap to import

        try:
            address = ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return "has a host that is a number, but no plain address"
        return (
            "" if address.is_global else "goes to this machine or a private network, which no skill may reach"
        )
    name = host.removesuffix(".")
    if len(name) > _LONGEST_HOST or not all(map(_LABEL.fullmatch, labels)):
        return "has a host that is no name of ASCII letters, digits and hyphens between dots"
    if name in _HERE or name.endswith((".localhost", ".localdomain")):
        return "goes to this machine, which no skill may reach"
    return ""
