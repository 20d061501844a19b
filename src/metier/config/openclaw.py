"""OpenClaw's own configuration file, as far as it speaks of skills."""

from typing import Any, cast, final

from msgspec import Struct, ValidationError, convert

from metier.config.settings import SkillEntry
from metier.model.diagnostic import Diagnostic
from metier.openfile import read_small


@final
class Foreign(Struct, frozen=True, kw_only=True):
    """What the file says. Values are not kept: secrets have no business in memory before they are used."""

    entries: dict[str, SkillEntry] = {}
    truths: dict[str, Any] = {}
    """The whole tree with every leaf replaced by whether it is true."""
    warnings: tuple[str, ...] = ()
    unreadable: str = ""
    """Why nobody can know which skills the file disables; empty when it could be read, or is not there."""


def read(path: str) -> Foreign:
    """Read `path`; a missing file says nothing, a bad one says so."""
    found = read_small(path, most=4_194_304, hard_links=True, links=True)
    if isinstance(found, Diagnostic):
        return Foreign() if found.code == "missing" else Foreign(unreadable=f"{path}: {found.message}")
    data = found[0]
    import pyjson5  # most people have no such file

    try:
        tree: object = pyjson5.decode_utf8(data)
    except (pyjson5.Json5Exception, ValueError) as error:
        return Foreign(unreadable=f"{path} is not JSON5: {error}")
    listed = _branch(_branch(tree, "skills"), "entries")
    entries: dict[str, SkillEntry] = {}
    warnings: list[str] = []
    for name, entry in listed.items():
        known = {
            key: value for key, value in _map(entry).items() if key in ("enabled", "apiKey", "env", "config")
        }
        try:
            if not isinstance(entry, dict):
                raise ValidationError("not an object")
            entries[name] = convert(without_secrets(known), SkillEntry)
        except ValidationError as error:
            entries[name] = SkillEntry(enabled=False)
            warnings.append(
                f"{path}: skills.entries.{name}: {error}; the skill is disabled until that is mended"
            )
    return Foreign(entries=entries, truths=_map(_truths(tree)), warnings=tuple(warnings))


def without_secrets(entry: dict[str, Any]) -> dict[str, Any]:
    """The same entry with secret values replaced by the fact that they are there."""
    kept = dict(entry)
    if "apiKey" in kept:
        kept["apiKey"] = bool(kept["apiKey"])
    if isinstance(kept.get("env"), dict):
        kept["env"] = [name for name, value in _map(kept["env"]).items() if value]
    return kept


def _map(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _branch(tree: object, name: str) -> dict[str, Any]:
    return _map(_map(tree).get(name))


def _truths(tree: object) -> Any:
    branches = _map(tree)
    return {key: _truths(value) for key, value in branches.items()} if branches else bool(tree)
