"""Does this machine have what a skill needs? The same answer OpenClaw gives, with every missing thing named.

Nothing is installed here and nothing is run: `install_hint` is one line for a person to read.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from msgspec import Struct

from metier.config.settings import SkillEntry
from metier.model.program import OperatorProgram
from metier.model.requirement import NOTHING, Installer, RequirementError, RequirementType
from metier.model.skill import Skill
from metier.model.text import one_line

DEFAULT_CONFIG: Final = {"browser.enabled": True, "browser.evaluateEnabled": True}
"""What is true unless the configuration says otherwise."""
_OF_OURS: Final = {
    "ical-query": (Installer(kind="pip", target="metier[calendar]", binaries=("ical-query",)),),
}
"""How to get what Metier itself can bring."""
_OS_NAMES: Final = {
    "macos": "darwin",
    "mac": "darwin",
    "osx": "darwin",
    "windows": "win32",
    "win": "win32",
}
"""Other spellings authors use. OpenClaw does not know them; on Linux that makes no difference."""


@final
class Environment(Struct, frozen=True, kw_only=True):
    """The machine as the checks see it. One value for one look: what was found is remembered in it."""

    path: str
    env: Mapping[str, str]
    platform: str
    """`linux`, `darwin` or `win32`."""
    config: Mapping[str, Any] = {}
    entries: Mapping[str, SkillEntry] = {}
    programs: Mapping[str, OperatorProgram] = {}
    """Names that stand for the file the operator says, and not for what the path has."""
    found: dict[str, bool] = {}
    """Binaries already looked for."""

    def has_binary(self, name: str) -> bool:
        """Whether there is a program of this name: the operator's own, or one on the path."""
        known = self.found.get(name)
        if known is None:
            known = self.found[name] = self._look_for(name)
        return known

    def _look_for(self, name: str) -> bool:
        if not name or "/" in name or "\\" in name or "\0" in name:
            return False  # a path is not a name; nothing outside the path counts
        if (program := self.programs.get(name)) is not None:
            return os.path.isfile(program.file) and os.access(program.file, os.X_OK)
        windows = self.platform == "win32"
        endings = [""]
        if windows:
            endings += self.env.get("PATHEXT", ".EXE;.CMD;.BAT;.COM").split(";")
        folders = self.path.split(";" if windows else ":")
        candidates = (
            os.path.join(folder, name + ending) for folder in folders if folder for ending in endings
        )
        return any(os.path.isfile(each) and os.access(each, os.X_OK) for each in candidates)


def check(skill: Skill, environment: Environment) -> tuple[RequirementError, ...]:
    """Everything that is missing, in the order in which OpenClaw looks: nothing means it can be used."""
    needs = skill.requirements
    if needs is NOTHING:
        return ()
    missing: list[RequirementError] = []

    def miss(kind: RequirementType, name: str, install: tuple[Installer, ...] = ()) -> None:
        missing.append(RequirementError(type=kind, name=name, skill=skill.name, install=install))

    if needs.os and environment.platform not in needs.os:
        known = {_OS_NAMES.get(name.lower(), name) for name in needs.os}
        if environment.platform not in known:
            miss("operating system", ", ".join(needs.os))
    if needs.always:
        return tuple(missing)
    for name in needs.env:
        if not _has_variable(skill, name, environment):
            miss("environment variable", name)
    for path in needs.config:
        if not _is_configured(environment.config, path):
            miss("configuration", path)
    for name in needs.binaries:
        if not environment.has_binary(name):
            ours = () if name in environment.programs else _OF_OURS.get(name, ())
            miss("binary", name, _ways_to_get(skill.installers, {name}) or ours)
    if needs.any_binaries and not any(map(environment.has_binary, needs.any_binaries)):
        ways = _ways_to_get(skill.installers, set(needs.any_binaries))
        miss("binary (any of)", ", ".join(needs.any_binaries), ways)
    return tuple(missing)


def _has_variable(skill: Skill, name: str, environment: Environment) -> bool:
    if environment.env.get(name, "").strip():
        return True
    entry = environment.entries.get(skill.key or skill.name)
    if entry is None:
        return False
    return name in entry.env or (name == skill.primary_env and entry.api_key)


def _is_configured(config: Mapping[str, Any], path: str) -> bool:
    """Whether the dotted path leads to something that is not empty, zero, false or absent."""
    value: Any = config
    for part in filter(None, path.split(".")):
        if not isinstance(value, Mapping) or part not in value:
            return DEFAULT_CONFIG.get(path, False)
        value = value[part]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, bool | int | float):
        return bool(value)
    return value is not None


def _ways_to_get(installers: tuple[Installer, ...], names: set[str]) -> tuple[Installer, ...]:
    """Those that bring one of `names`; those that do not say what they bring count as well."""
    fitting = tuple(each for each in installers if not each.binaries or not names.isdisjoint(each.binaries))
    return fitting or installers


_COMMANDS: Final = {
    "brew": "brew install {}",
    "apt": "apt install {}",
    "go": "go install {}",
    "node": "npm install -g {}",
    "npm": "npm install -g {}",
    "uv": "uv tool install {}",
    "pip": "pip install {}",
    "cargo": "cargo install {}",
    "gem": "gem install {}",
    "download": "download {}",
}
_HOME: Final = {"brew": ("darwin", "linux"), "apt": ("linux",), "choco": ("win32",), "winget": ("win32",)}
_SHELLS: Final = frozenset({"shell", "exec", "script", "command"})
_FIRST: Final = {"linux": ("apt",), "darwin": ("brew",), "win32": ("winget", "choco")}


_MOST_SHOWN: Final = 5
_LONGEST: Final = 200
_KIND: Final = "[a-z0-9-]{1,30}"
_APT: Final = "[A-Za-z0-9][A-Za-z0-9+.:~=_-]*(?<!-)"
"""A package. `apt install sudo-` would remove one, and a path would install a file from here."""


def install_hint(missing: RequirementError | Iterable[Installer], platform: str) -> str:
    """One line that says how to get it on this platform; empty when nobody said how.

    First come commands that are safe to paste: one program of a known kind with the author's words as plain arguments.
    Whatever else the author wrote follows as a quotation.
    """
    installers = missing.install if isinstance(missing, RequirementError) else tuple(missing)

    def rank(way: Installer) -> int:
        systems = {_OS_NAMES.get(name.lower(), name) for name in way.os} or set(
            _HOME.get(way.kind, (platform,))
        )
        return 2 if platform not in systems else 0 if way.kind in _FIRST.get(platform, ()) else 1

    commands: dict[str, None] = {}
    said: dict[str, None] = {}
    for way in sorted(installers, key=rank):
        if command := _command(way):
            commands[command] = None
        elif words := _quotation(way):
            said[words] = None
    hints = [" or ".join(_some(commands))] if commands else []
    if said:
        hints.append("its author says: " + ", ".join(_some(said)))
    return "; ".join(hints)


def _some(lines: Iterable[str]) -> list[str]:
    shown = list(lines)
    return shown if len(shown) <= _MOST_SHOWN else [*shown[:_MOST_SHOWN], "…"]


def _command(way: Installer) -> str:
    """The way as a command somebody may paste; empty when it is none."""
    target = one_line(way.target)
    command = _COMMANDS.get(way.kind, "")
    words = target.split() if way.kind == "apt" else [target]
    if not command or not target or len(target) > _LONGEST or any(word.startswith("-") for word in words):
        return ""
    if way.kind == "apt" and not all(re.fullmatch(_APT, word) for word in words):
        return ""
    if way.kind == "go" and "@" not in target:
        words = [target + "@latest"]
    return command.format(" ".join(map(_quoted, words)))


def _quotation(way: Installer) -> str:
    """What the author wrote, in quotation marks that it cannot close."""
    words = one_line(way.target or way.label, _LONGEST).replace('"', "'")
    if not words:
        return ""
    shown_kind = f"{way.kind}: " if way.kind not in _SHELLS and re.fullmatch(_KIND, way.kind) else ""
    return f'{shown_kind}"{words}"'


def _quoted(argument: str) -> str:
    """One argument for a shell, so that a hint somebody pastes does one thing only."""
    import shlex  # only people need it

    return shlex.quote(argument)
