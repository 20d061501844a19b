"""A client's configuration file with one server more. Pure: text in, text out.

Whatever else is in the file keeps its value; where that cannot be promised nothing is changed, and the person is told what to write.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, cast, final

from msgspec import Struct

from metier.doors.cli.mcp_ourselves import starts_us
from metier.errors import ConfigError
from metier.model import stricttoml
from metier.model.text import one_line

TABLES: Final[Mapping[str, str]] = {
    "claude-code": "mcpServers",
    "cursor": "mcpServers",
    "claude-desktop": "mcpServers",
    "vscode": "servers",
    "codex": "mcp_servers",
}
"""By client: what its table of servers is called."""
_TYPED: Final = frozenset({"claude-code", "vscode"})
"""Whose entries say which kind of server they are."""
_LAID_OUT: Final = ("  ", "    ", "\t", " ", "   ", "        ")


@final
class Changed(Struct, frozen=True, kw_only=True):
    """A file as it would be."""

    text: str
    before: str
    """The entry that is there now, as text; empty where there is none."""
    after: str
    laid_out_anew: bool = False
    """Whether the rest of the file looks different, though it says the same."""


def entry(client: str, command: str, args: list[str], env: dict[str, str]) -> dict[str, Any]:
    """What a client is told about us."""
    made: dict[str, Any] = {"type": "stdio"} if client in _TYPED else {}
    made |= {"command": command, "args": args}
    return made | ({"env": env} if env else {})


def with_server(client: str, text: str, name: str, server: dict[str, Any]) -> Changed | None:
    """The file with this server in it; None where it is there already, exactly so.

    Raises:
        ConfigError: when the file cannot be changed without losing something.
    """
    return _in_toml(text, name, server) if client == "codex" else _in_json(client, text, name, server)


def as_text(client: str, name: str, server: dict[str, Any]) -> str:
    """The entry by itself, for somebody who writes it by hand."""
    if client == "codex":
        return _toml(name, server)
    return json.dumps({TABLES[client]: {name: server}}, indent=2, ensure_ascii=False)


def _in_json(client: str, text: str, name: str, server: dict[str, Any]) -> Changed | None:
    table = TABLES[client]
    by_hand = f"Write it by hand:\n{as_text(client, name, server)}"
    try:
        found: Any = (
            json.loads(
                text.removeprefix("\ufeff"),
                object_pairs_hook=_unique,
                parse_float=_exact,
                parse_constant=_no_number,
            )
            if text.strip()
            else {}
        )
    except (ValueError, RecursionError) as error:
        why = "it has comments, or is no JSON" if "//" in text or "/*" in text else "it is no JSON"
        raise ConfigError(
            f"{why} ({one_line(str(error), 120)}), so it is not changed", remedy=by_hand
        ) from None
    whole: dict[str, Any] = cast("dict[str, Any]", found) if isinstance(found, dict) else {table: None}
    servers: Any = whole.get(table, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"{table!r} in it is no table of servers, so it is not changed", remedy=by_hand)
    known = cast("dict[str, Any]", servers)
    before = known.get(name)
    if before == server:
        return None
    if before is not None and not _is_ours(before):
        raise ConfigError(
            f"it has a server {name!r} that is not Metier, so it is not changed",
            remedy=f"Take another name with --name. {by_hand}",
        )
    indent, escaped, as_it_was = _layout(text, whole)
    whole[table] = {**known, name: server}
    return Changed(
        text=_dumped(whole, indent, escaped),
        before="" if before is None else json.dumps(_shown(before, server), indent=2, ensure_ascii=False),
        after=json.dumps(server, indent=2, ensure_ascii=False),
        laid_out_anew=bool(text.strip()) and not as_it_was,
    )


def _layout(text: str, found: dict[str, Any]) -> tuple[str | None, bool, bool]:
    """How the file is laid out: indent, whether it spells other letters out, and whether that is all there is to it."""
    for escaped in (False, True):
        for indent in (*_LAID_OUT, None):
            if _dumped(found, indent, escaped).strip() == text.strip():
                return indent, escaped, True
    return (
        "  ",
        not can_be_written(_dumped(found, None, False)),
        False,
    )  # half a character has to be spelled out


def _dumped(whole: dict[str, Any], indent: str | None, escaped: bool) -> str:
    return json.dumps(whole, indent=indent, ensure_ascii=escaped) + "\n"


def can_be_written(text: str) -> bool:
    """Whether a file can hold it. Half a character cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_ours(found: object) -> bool:
    """Whether an entry starts `metier mcp`, however it was installed."""
    entry = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return starts_us(entry.get("command"), entry.get("args"))


def _shown(before: dict[str, Any], server: dict[str, Any]) -> dict[str, Any]:
    """An entry without the values of variables that are not from us: a token may be among them."""
    env, ours = before.get("env"), server.get("env", {})
    if not isinstance(env, dict):
        return before
    known = cast("dict[str, Any]", env)
    return {**before, "env": {key: of if key in ours else "…" for key, of in known.items()}}


def _exact(text: str) -> float:
    """A number that comes out as it went in. Others have more digits, or are larger, than what we would write."""
    made = float(text)
    try:
        same = Decimal(text) == Decimal(repr(made))
    except ArithmeticError:  # an exponent that nobody means
        same = False
    if not same:
        raise ValueError(f"the number {text[:40]} could not be written as it is")
    return made


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is given twice")
    return made


def _in_toml(text: str, name: str, server: dict[str, Any]) -> Changed | None:
    by_hand = f"Write it by hand:\n{_toml(name, server)}"
    try:
        before = _servers(text).get(name)
        if before == server:
            return None
        if before is not None:
            raise ConfigError(f"it has another server {name!r}, so it is not changed", remedy=by_hand)
        added = text + ("" if not text or text.endswith("\n") else "\n") + ("\n" if text else "")
        added += _toml(name, server)
        after = _servers(added)
        if after.pop(name) != server or after != _servers(text) or _rest(added) != _rest(text):
            raise ConfigError("it is written so that nothing can be added at its end", remedy=by_hand)
    except stricttoml.TomlError as error:
        raise ConfigError(
            f"it cannot be read, or nothing can be added at its end ({one_line(str(error), 120)})",
            remedy=by_hand,
        ) from None
    return Changed(text=added, before="", after=_toml(name, server))


def _servers(text: str) -> dict[str, Any]:
    found = stricttoml.loads(text).get(TABLES["codex"], {})
    return dict(cast("dict[str, Any]", found)) if isinstance(found, dict) else {}


def _rest(text: str) -> dict[str, Any]:
    return {key: value for key, value in stricttoml.loads(text).items() if key != TABLES["codex"]}


def _toml(name: str, server: dict[str, Any]) -> str:
    """JSON's strings and lists of them are TOML's."""
    lines = [f"[{TABLES['codex']}.{json.dumps(name, ensure_ascii=False)}]"]
    for key, value in server.items():
        if isinstance(value, dict):
            pairs = (
                f"{json.dumps(each, ensure_ascii=False)} = {json.dumps(of, ensure_ascii=False)}"
                for each, of in cast("dict[str, str]", value).items()
            )
            lines.append(f"{key} = {{ {', '.join(pairs)} }}")
        else:
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
