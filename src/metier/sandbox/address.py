"""Which addresses a skill may reach: public ones. The table is our own and everything unknown is closed.

`ipaddress` reads and prints addresses here; its opinion on which of them are global is not asked, because it
takes several that lead to private machines for public ones. Pure; nothing is looked up.
"""

import ipaddress
import re
import unicodedata
from typing import Final

_IPV4_CLOSED: Final = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by a carrier (CGNAT)"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "the platform service of Azure"),
    ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved for protocols"),
    ("192.0.2.0/24", "for documentation"),
    ("192.31.196.0/24", "reserved (AS112)"),
    ("192.52.193.0/24", "reserved (AMT)"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "reserved (AS112)"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved or broadcast"),
)
# More exact prefixes first: the first match gives the reason.
_IPV6_CLOSED: Final = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "an IPv4 address mapped into IPv6"),
    ("::ffff:0:0:0/96", "an IPv4 address translated into IPv6"),
    ("::/96", "an IPv4 address in an outdated IPv6 form"),
    ("64:ff9b::/96", "an IPv4 address behind NAT64"),
    ("64:ff9b:1::/48", "an IPv4 address behind a local NAT64"),
    ("100::/64", "a discard address"),
    ("2001::/32", "a Teredo tunnel"),
    ("2001::/23", "reserved for protocols"),
    ("2001:db8::/32", "for documentation"),
    ("2002::/16", "a 6to4 tunnel"),
    ("2620:4f:8000::/48", "reserved (AS112)"),
    ("3ffe::/16", "of the closed test network 6bone"),
    ("3fff::/20", "for documentation"),
    ("fc00::/7", "private (unique local)"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_IPV4_TABLE: Final = tuple((ipaddress.IPv4Network(block), why) for block, why in _IPV4_CLOSED)
_IPV6_TABLE: Final = tuple((ipaddress.IPv6Network(block), why) for block, why in _IPV6_CLOSED)
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})

_LOCAL_NAMES: Final = frozenset({"localhost", "localdomain", "ip6-localhost", "ip6-loopback"})
_METADATA_NAMES: Final = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
    | {"metadata.packet.net", "metadata.platformequinix.com", "metadata.tencentyun.com", "metadata.azure.com"}
)

_PLAIN_IPV4: Final = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")
_LEGACY_PART: Final = re.compile(r"0[xX]([0-9a-fA-F]*)|0([0-7]*)|([1-9][0-9]*)")
_ESCAPE: Final = re.compile(r"%([0-7][0-9a-fA-F])")
_DOTS: Final = str.maketrans("\u3002\uff0e\uff61\u2024", "....")
_LONGEST: Final = 200


def canonical(address: str) -> str | None:
    """`address` in its one spelling; None unless it is a plain IPv4 or IPv6 address without a zone."""
    if len(address) > _LONGEST or "%" in address or not address.isascii():
        return None
    try:
        if ":" in address:
            return ipaddress.IPv6Address(address).compressed
        return str(ipaddress.IPv4Address(address)) if _PLAIN_IPV4.fullmatch(address) else None
    except ValueError:
        return None


def why_closed(address: str) -> str | None:
    """Why nobody may connect to `address`, in a few words; None when it is a public one."""
    plain = canonical(address)
    if plain is None:
        return "not a plain address"
    if ":" not in plain:
        number = ipaddress.IPv4Address(plain)
        return next((why for block, why in _IPV4_TABLE if number in block), None)
    whole = ipaddress.IPv6Address(plain)
    for block, why in _IPV6_TABLE:
        if whole in block:
            return why
    if whole not in _UNICAST:
        return "outside the public part of IPv6"
    return "an ISATAP tunnel" if (int(whole) >> 32) & 0xFFFFFFFF in _ISATAP else None


def why_closed_name(host: str) -> str | None:
    """Why a name is as closed as the address everybody knows it stands for; None for any other name."""
    if host in _LOCAL_NAMES or host.endswith((".localhost", ".localdomain")):
        return "this machine itself"
    return "the metadata service of a cloud" if host in _METADATA_NAMES else None


def disguised(host: str) -> str | None:
    """The IPv4 address that old resolvers would read out of `host` (`0x7f.1`, `2130706433`, `①②⑦.1`), if any.

    No such spelling is ever accepted. This only tells a slip from an attempt to reach a closed address.
    """
    if len(host) > _LONGEST:
        return None
    plain = unicodedata.normalize("NFKC", _ESCAPE.sub(_unescaped, host).translate(_DOTS))
    numbers = [_legacy_number(part) for part in plain.removesuffix(".").split(".")]
    if not 1 <= len(numbers) <= 4 or any(number is None for number in numbers):
        return None
    *heads, last = [number for number in numbers if number is not None]
    # Some resolvers take only what fits of a number too large; what they would then reach is what counts.
    value = last & ((1 << 8 * (4 - len(heads))) - 1)
    for place, head in enumerate(heads):
        value |= (head & 255) << (24 - 8 * place)
    return str(ipaddress.IPv4Address(value))


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))


def _legacy_number(part: str) -> int | None:
    found = _LEGACY_PART.fullmatch(part)
    if found is None:
        return None
    if found[1] is not None:
        return int(found[1] or "0", 16)
    return int(found[2] or "0", 8) if found[2] is not None else int(found[3])
