"""Read every configuration file there is and combine them.

The operator's file (`~/.metier/metier.toml`, or `--config`) is the only one that may loosen anything. A project's
`metier.toml` may only restrict, and add roots that are untrusted until trusted. Unknown keys are errors and `.env`
files are never read.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar, cast, final

from msgspec import Struct, ValidationError, convert

import metier.config.openclaw as openclaw
from metier.config.settings import (
    AuditSettings,
    PromptSettings,
    Root,
    RootKind,
    Settings,
    SkillEntry,
    SkillSettings,
)
from metier.errors import ConfigError

USER_ROOTS: Final = (
    ".agents/skills",
    ".omniagent/skills",
    ".openclaw/skills",
    ".claude/skills",
    ".codex/skills",
)
PROJECT_ROOTS: Final = (
    "skills",
    ".skills",
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
    ".gemini/skills",
    "amber-skills",
    "brain/skills",
)


@final
class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    skills: SkillSettings = SkillSettings()
    prompt: PromptSettings = PromptSettings()
    audit: AuditSettings = AuditSettings()
    config: dict[str, Any] = {}
    """What `requires.config` of a skill is looked up in."""


@final
class _RestrictedSkills(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    roots: tuple[str, ...] = ()
    allow: frozenset[str] | None = None
    enabled: frozenset[str] | None = None
    disabled: frozenset[str] = frozenset()
    allowlist: Literal["required"] | None = None


@final
class _ProjectFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    skills: _RestrictedSkills = _RestrictedSkills()


def load(
    *,
    config: str | None = None,
    home: str | None = None,
    project: str | None = None,
    roots: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read every configuration file that there is.

    Args:
        config: the operator's file instead of `<home>/metier.toml`; it must exist.
        home: state folder instead of `$METIER_HOME` or `~/.metier`.
        project: folder whose skills and `metier.toml` count; the working directory by default.
        roots: further roots the operator names now, looked at before all others.

    Raises:
        ConfigError: when a file cannot be read, is open to others, or says something unknown.
    """
    environ = os.environ if environ is None else environ
    user = environ.get("HOME") or os.path.expanduser("~")
    home = os.path.abspath(home or environ.get("METIER_HOME") or os.path.join(user, ".metier"))
    project = os.path.abspath(project or os.getcwd())
    own = _operators_file(config, home)
    for root in roots:
        if not os.path.isdir(root):
            raise ConfigError(f"there is no folder {root} to look for skills in", remedy="Check its name")
    theirs = _projects_file(project, own_path=config or os.path.join(home, "metier.toml"))
    foreign = openclaw.read(os.path.join(user, ".openclaw", "openclaw.json"))
    found, passed_over = _roots(user, home, project, own.skills.roots, theirs.skills.roots, roots)
    return Settings(
        home=home,
        project=project,
        roots=found,
        skills=SkillSettings(
            allow=_both(own.skills.allow, theirs.skills.allow),
            enabled=_both(own.skills.enabled, theirs.skills.enabled),
            disabled=own.skills.disabled | theirs.skills.disabled,
            allowlist=theirs.skills.allowlist or own.skills.allowlist,
            entries={**foreign.entries, **own.skills.entries},
        ),
        prompt=own.prompt,
        audit=own.audit,
        config={**foreign.truths, **own.config},
        warnings=(*passed_over, *foreign.warnings),
        held_roots={os.path.realpath(os.path.join(user, ".openclaw/skills")): foreign.unreadable}
        if foreign.unreadable
        else {},
    )


def _both(own: frozenset[str] | None, theirs: frozenset[str] | None) -> frozenset[str] | None:
    if own is None or theirs is None:
        return own if theirs is None else theirs
    return own & theirs


def _roots(
    user: str, home: str, project: str, own: tuple[str, ...], theirs: tuple[str, ...], named: tuple[str, ...]
) -> tuple[tuple[Root, ...], list[str]]:
    """Every root in order of precedence, and what was passed over."""
    places: list[tuple[str, RootKind, bool]] = [(path, "extra", True) for path in named]
    places.append((os.path.join(home, "skills"), "user", True))
    places.extend((os.path.join(user, path), "user", True) for path in USER_ROOTS)
    places.extend((os.path.join(project, path), "project", False) for path in PROJECT_ROOTS)
    places.extend((os.path.expanduser(path), "extra", True) for path in own)
    places.extend((os.path.join(project, path), "extra", False) for path in theirs)
    places.append((os.path.join(os.path.dirname(os.path.dirname(__file__)), "bundled"), "bundled", True))
    inside = os.path.realpath(project) + os.sep
    found: dict[str, Root] = {}
    warnings: list[str] = []
    for path, kind, trusted in places:
        real = os.path.realpath(path)
        if any("\ud800" <= char <= "\udfff" for char in real):
            warnings.append(f"{path!r} is not a UTF-8 path, so no skills are looked for there")
            continue
        if not trusted and not real.startswith(inside):
            warnings.append(f"{path} leads out of the project to {real}, so no skills are looked for there")
            continue
        found.setdefault(real, Root(path=real, kind=kind, trusted=trusted))
    return tuple(found.values()), warnings


def _operators_file(config: str | None, home: str) -> _File:
    path = os.path.abspath(config) if config else os.path.join(home, "metier.toml")
    data = _read(path, required=config is not None)
    if data is None:
        return _File()
    mode = os.stat(path).st_mode
    if mode & 0o022:
        raise ConfigError(
            f"{path} can be changed by other users, so it is not read", remedy=f"Run: chmod go-w '{path}'"
        )
    tree = _parse(data, path)
    skills: Any = tree.get("skills")
    if isinstance(skills, dict) and isinstance(skills.get("entries"), dict):  # pyright: ignore[reportUnknownMemberType]
        entries = cast("dict[str, dict[str, Any]]", skills["entries"])
        skills["entries"] = {
            name: openclaw.without_secrets(entry) if isinstance(entry, dict) else entry  # pyright: ignore[reportUnnecessaryIsInstance]
            for name, entry in entries.items()
        }
    return _convert(tree, _File, path)


def _projects_file(project: str, *, own_path: str) -> _ProjectFile:
    path = os.path.join(project, "metier.toml")
    if os.path.realpath(path) == os.path.realpath(own_path):
        return _ProjectFile()
    data = _read(path, required=False)
    return _ProjectFile() if data is None else _convert(_parse(data, path), _ProjectFile, path)


def _read(path: str, *, required: bool) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(1_048_576)
    except FileNotFoundError:
        if required:
            raise ConfigError(f"there is no configuration file {path}", remedy="Check --config") from None
        return None
    except OSError as error:
        raise ConfigError(
            f"cannot look for {path}: {error.strerror}, so nobody can know what it forbids",
            remedy="Make the file and the folders above it readable, or start from another folder",
        ) from None


def _parse(data: bytes, path: str) -> dict[str, Any]:
    import tomllib  # most installations have no file to parse

    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})", remedy="Save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", remedy="Correct that line") from None


_T = TypeVar("_T", _File, _ProjectFile)


def _convert(tree: dict[str, Any], kind: type[_T], path: str) -> _T:
    try:
        return convert(tree, kind)
    except ValidationError as error:
        remedy = "See docs/configuration.md for every key"
        if kind is _ProjectFile:
            remedy += (
                "; a project's file may only restrict: [skills] roots, allow, enabled, disabled, allowlist"
            )
        raise ConfigError(f"{path}: {_explain(str(error))}", remedy=remedy) from None


def _explain(problem: str) -> str:
    """msgspec's message in our words, with the nearest known key where one was misspelled."""
    if "unknown field" not in problem:
        return problem.replace("`$.", "`").replace(" - at ", " at ")
    import difflib

    wrong = problem.split("`")[1]
    known = {
        name
        for part in (_File, SkillSettings, PromptSettings, AuditSettings, SkillEntry)
        for name in part.__struct_encode_fields__
    }
    near = difflib.get_close_matches(wrong, sorted(known), n=1)
    return f"unknown key {wrong!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
