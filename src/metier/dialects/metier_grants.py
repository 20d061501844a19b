"""`permissions` and `limits` as `metadata.metier` writes them down: all eight kinds, each thing by its own name. Pure."""

import re
from typing import Final

from metier.dialects.block_fields import Fields, shown
from metier.dialects.tool_words import BINARY, LONGEST_TIMEOUT, PLAIN_BINARY
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.model.text import one_line

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
A_VARIABLE: Final = "write the name of one variable, such as API_URL"
_SECRET: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_A_SECRET: Final = "write the name of one secret, such as API_KEY; its value is for the operator to give"  # noqa: S105
_HOST: Final = re.compile(
    r"(?:http://)?[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::[1-9][0-9]{0,4})?", re.ASCII
)
_A_HOST: Final = (
    "write one host in lower case, such as api.example.com, api.example.com:8443 or http://api.example.com"
)
_OPERATION: Final = re.compile(r"[a-z][a-z0-9_]{0,63}(?:\.[a-z][a-z0-9_]{0,63}){1,3}", re.ASCII)
_AN_OPERATION: Final = "write module.operation, such as memory.search"
_CHANNEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)
_A_CHANNEL: Final = "write the name of one channel, such as operator"
_USUAL: Final = Limits()
_MOST: Final = Limits(
    timeout=LONGEST_TIMEOUT,
    memory_mb=65_536,
    fuel=10_000_000_000_000,
    output_bytes=1 << 30,
    processes=4_096,
)
"""Beyond these a number is a slip of the pen. What a run really gets is capped by the operator."""


def permissions_of(given: Fields) -> PermissionSet:
    """What is asked for, without what an error was found in."""
    found = PermissionSet(
        binaries=frozenset(given.texts("binaries", BINARY, PLAIN_BINARY)),
        reads=_places(given, "reads"),
        writes=_places(given, "writes"),
        hosts=frozenset(given.texts("hosts", _HOST, _A_HOST)),
        env=frozenset(given.texts("env", VARIABLE, A_VARIABLE)),
        secrets=frozenset(given.texts("secrets", _SECRET, _A_SECRET)),
        operations=frozenset(given.texts("operations", _OPERATION, _AN_OPERATION)),
        channels=frozenset(given.texts("channels", _CHANNEL, _A_CHANNEL)),
    )
    given.no_more("binaries, reads, writes, hosts, env, secrets, operations and channels")
    return found


def limits_of(given: Fields) -> Limits:
    """What a run may use at most, as far as the tool can say it."""
    fuel = _whole(given, "fuel", 0, "steps of a WASM module", _MOST.fuel or 0) if "fuel" in given else None
    found = Limits(
        timeout=float(
            given.number("timeout", most=_MOST.timeout, default=_USUAL.timeout, unit="seconds"),
        ),
        memory_mb=_whole(given, "memory_mb", _USUAL.memory_mb, "megabytes", _MOST.memory_mb),
        fuel=fuel or None,
        output_bytes=_whole(given, "output_bytes", _USUAL.output_bytes, "bytes", _MOST.output_bytes),
        processes=_whole(given, "processes", _USUAL.processes, "processes", _MOST.processes),
    )
    given.no_more("timeout, memory_mb, fuel, output_bytes and processes")
    return found


def _whole(given: Fields, key: str, default: int, unit: str, most: int) -> int:
    return given.whole(key, least=1, most=most, default=default, unit=unit)


def _places(given: Fields, key: str) -> frozenset[str]:
    found = frozenset(given.texts(key))
    for path in found:
        try:
            PermissionSet(reads=frozenset({path}))
        except ValueError as error:
            given.wrong(key, f"cannot be permitted: {one_line(str(error), 200)}")
            return frozenset()
        if not path.isprintable():
            given.wrong(key, f"holds {shown(path)}, with characters that cannot be seen; remove them")
            return frozenset()
    return found
