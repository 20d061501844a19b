"""The `metadata.openclaw` block: what a skill needs and how to get it.

`normal_form` gives the block as OpenClaw itself would keep it, with what OpenClaw would drop beside it under
`extra`. `apply` turns it into words. Names that are no plain names are never granted as permissions.
"""

import re
from collections.abc import Iterable
from typing import Final

from metier.dialects.draft import Draft
from metier.dialects.install import installers, normal_spec
from metier.dialects.scalars import strings
from metier.model.digest import Json
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.requirement import Requirements
from metier.model.text import one_line

NAMESPACES: Final = ("openclaw", "clawdbot", "clawdis", "moltbot")
"""In the order in which they are asked. OpenClaw itself stopped reading the last two."""
REQUIRED: Final = ("bins", "anyBins", "env", "config")
_SIMPLE: Final = frozenset({"always", "emoji", "homepage", "skillKey", "primaryEnv"})
_EMPTY: Final = {"skillKey": ""}
_BINARY: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.+@][A-Za-z0-9_.+@-]*", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def block_of(metadata: dict[str, Json]) -> tuple[str, dict[str, Json]] | None:
    """The first namespace that holds a block, and the block."""
    for namespace in NAMESPACES:
        block = metadata.get(namespace)
        if isinstance(block, dict):
            return namespace, block
        if isinstance(block, list):
            return namespace, {}
    return None


def normal_form(block: dict[str, Json]) -> dict[str, Json]:
    """The block as OpenClaw keeps it; `extra` holds the rest and is absent when there is none."""
    normal: dict[str, Json] = {}
    extra: dict[str, Json] = {}
    for key, value in block.items():
        if (
            isinstance(value, bool if key == "always" else str)
            and key in _SIMPLE
            and value != _EMPTY.get(key)
        ):
            normal[key] = value
        elif key == "os" and (listed := strings(value)):
            normal[key] = [*listed]
        elif key == "requires" and isinstance(value, dict | list):
            _requires(value, normal, extra)
        elif key == "install" and isinstance(value, list):
            _install(value, normal, extra)
        elif value not in (None, "", [], {}):
            extra[key] = value
    if extra:
        normal["extra"] = extra
    return normal


def _requires(value: dict[str, Json] | list[Json], normal: dict[str, Json], extra: dict[str, Json]) -> None:
    given = value if isinstance(value, dict) else {}
    normal["requires"] = {key: [*strings(given.get(key))] for key in REQUIRED}
    if isinstance(value, list):
        if value:
            extra["requires"] = value
        return
    dropped = {
        key: item
        for key, item in given.items()
        if key not in REQUIRED or (item is not None and not isinstance(item, str | list))
    }
    if dropped:
        extra["requires"] = dropped


def _install(value: list[Json], normal: dict[str, Json], extra: dict[str, Json]) -> None:
    kept: list[Json] = []
    dropped: list[Json] = []
    reduced: dict[str, Json] = {}
    for at, spec in enumerate(value):
        found = normal_spec(spec)
        if found is None:
            dropped.append(spec)
            continue
        kept.append(found)
        given = spec if isinstance(spec, dict) else {}
        gone = {key: item for key, item in given.items() if key not in found and key not in ("type", "cask")}
        if gone:
            reduced[str(at)] = gone
    if kept:
        normal["install"] = kept
    if dropped:
        extra["install"] = dropped
    if reduced:
        extra["installFields"] = reduced


def apply(draft: Draft, namespace: str, block: dict[str, Json]) -> dict[str, Json]:
    """Put what the block says into the draft. Returns its normal form."""
    normal = normal_form(block)
    words = draft.words
    for key, word in (
        ("emoji", "emoji"),
        ("homepage", "homepage"),
        ("skillKey", "key"),
        ("primaryEnv", "primary_env"),
    ):
        if value := normal.get(key):
            words[word] = value
    requires = normal.get("requires")
    needs = {key: tuple(strings(requires.get(key))) for key in REQUIRED} if isinstance(requires, dict) else {}
    listed_os = tuple(strings(normal.get("os")))
    always = normal.get("always") is True
    if always or listed_os or any(needs.values()):
        words["requirements"] = Requirements(
            binaries=needs.get("bins", ()),
            any_binaries=needs.get("anyBins", ()),
            env=needs.get("env", ()),
            config=needs.get("config", ()),
            os=listed_os,
            always=always,
        )
    if "install" in block:
        words["installers"] = installers(block["install"])
    words["permissions"] = _permissions(draft, needs, str(words.get("primary_env", "")))
    if extra := normal.get("extra"):
        draft.extra[namespace] = extra
        if isinstance(extra, dict):
            shown = ", ".join(one_line(key, 40) for key in [*extra][:5])
            message = (
                f"metadata.{namespace}: OpenClaw ignores {shown}; Metier keeps and shows it, nothing more"
            )
            draft.note("openclaw_ignores", "info", message, "metadata")
    return normal


def _permissions(draft: Draft, needs: dict[str, tuple[str, ...]], primary: str) -> PermissionSet:
    """What the declared needs amount to: each thing by its own name, or not at all."""
    primary = primary.strip()
    binaries = _plain(draft, "binary", _BINARY, (*needs.get("bins", ()), *needs.get("anyBins", ())))
    secrets = _plain(draft, "variable", _VARIABLE, (primary,)) if primary else frozenset[str]()
    env = _plain(draft, "variable", _VARIABLE, needs.get("env", ())) | secrets
    if not binaries and not env:
        return OWN_FOLDER
    return PermissionSet(binaries=binaries, env=env, secrets=secrets, reads=OWN_FOLDER.reads)


def _plain(draft: Draft, what: str, pattern: re.Pattern[str], names: Iterable[str]) -> frozenset[str]:
    granted: set[str] = set()
    for name in names:
        if pattern.fullmatch(name):
            granted.add(name)
        else:
            message = f'"{one_line(name, 60)}" is no plain name of a {what} and is not granted; name one {what} alone'
            draft.note("not_granted", "warning", message, "metadata")
    return frozenset(granted)
