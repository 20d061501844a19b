"""Web addresses in one spelling, as browsers write them, so that what is shown is what would be fetched.

Covers http and https only. Whatever is not plainly such an address gives None, never an exception.
"""

import re
from typing import Final

from metier.dialects.scalars import SPACE

_PATH: Final = frozenset(' "#<>?^`{}')
_QUERY: Final = frozenset(" \"#<>'")
_FRAGMENT: Final = frozenset(' "<>`')
_USER: Final = _PATH | frozenset("/:;=@[\\]|")
_NOT_IN_HOSTS: Final = frozenset(" #/:<>?@[\\]^|%\x7f").union(map(chr, range(0x20)))
_DOT: Final = "[.\u3002\uff0e\uff61]"
LONGEST_HOST: Final = 253
LONGEST_LABEL: Final = 63
_PORTS: Final = {"http": "80", "https": "443"}


def web_address(value: str) -> str | None:
    """`value` in its normal spelling, or None when it is no web address."""
    found = re.match(r"(?i)(https?):[/\\]*([^/\\?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?$", value, re.DOTALL)
    if not found or any(letter in SPACE for letter in value):
        return None
    scheme: str = found[1].lower()
    user, at, place = found[2].rpartition("@")
    host = _host(place, _PORTS[scheme])
    if host is None:
        return None
    query: str | None = found[4]
    fragment: str | None = found[5]
    return (
        f"{scheme}://{_credentials(user) if at else ''}{host}{_path(found[3])}"
        + ("" if query is None else "?" + _escaped(query, _QUERY))
        + ("" if fragment is None else "#" + _escaped(fragment, _FRAGMENT))
    )


def _credentials(user: str) -> str:
    name, _, password = user.partition(":")
    shown = _escaped(name, _USER) + (":" + _escaped(password, _USER) if password else "")
    return shown + "@" if shown else ""


def _host(place: str, default_port: str) -> str | None:
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]*))?", place)
    if not found:
        return None
    host: str = found[1]
    port: str = (found[2] or "").lstrip("0") or ("0" if found[2] else "")
    if port and int(port[:6]) > 65535:
        return None
    if not host.startswith("["):
        host = _domain(host)
    else:
        host = _literal(host[1:-1])
    if not host:
        return None
    return host if port in ("", default_port) else f"{host}:{port}"


def _literal(host: str) -> str:
    import ipaddress  # rare, and not cheap to import

    try:
        return f"[{ipaddress.IPv6Address(host).compressed}]"
    except ValueError:
        return ""


def _domain(host: str) -> str:
    if "%" in host or not host.isascii():
        try:
            host = _ascii(host)
        except UnicodeError:
            return ""
    host = host.lower()
    if not _NOT_IN_HOSTS.isdisjoint(host):
        return ""
    last = host.rstrip(".").rpartition(".")[2]
    if last.isdigit() or re.fullmatch("0x[0-9a-f]*", last):
        numbers = host.split(".")
        plain_number = len(numbers) == 4 and all(re.fullmatch("0|[1-9][0-9]{0,2}", each) for each in numbers)
        return host if plain_number and all(int(each) < 256 for each in numbers) else ""
    return host


def _ascii(host: str) -> str:
    import unicodedata  # rare

    plain = re.sub(rb"%([0-9A-Fa-f]{2})", lambda code: bytes([int(code[1], 16)]), host.encode()).decode()
    # The encoder's time grows with the square of the length, and it looks at the length only afterwards.
    if len(plain) > LONGEST_HOST:
        return ""
    whole = unicodedata.normalize("NFKC", plain)
    if len(whole) > LONGEST_HOST or any(len(label) > LONGEST_LABEL for label in re.split(_DOT, whole)):
        return ""
    return plain.encode("idna").decode()


def _path(path: str) -> str:
    """Without dot segments, which no server ever sees."""
    kept: list[str] = []
    segments = path.replace("\\", "/").split("/")[1:]
    for at, segment in enumerate(segments):
        dots = segment.lower().replace("%2e", ".")
        last = at == len(segments) - 1
        if dots == "..":
            del kept[-1:]
        elif dots != ".":
            kept.append(_escaped(segment, _PATH))
        if last and dots in (".", ".."):
            kept.append("")
    return "/" + "/".join(kept)


def _escaped(part: str, signs: frozenset[str]) -> str:
    if part.isascii() and part.isprintable() and signs.isdisjoint(part):
        return part
    return "".join(
        letter
        if letter not in signs and " " < letter < "\x7f"
        else "".join(f"%{byte:02X}" for byte in letter.encode(errors="replace"))
        for letter in part
    )
