"""Runners such as npx and uvx: what each would fetch, as a command for the operator, and the line that is left then.

What a flag means for what is fetched is either known and kept, or the line is refused: without its index a name may be a stranger's
package. Nothing is fetched here.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping
from typing import Final, cast, final

from msgspec import Struct

from metier.dialects.tool_words import BINARY
from metier.model.diagnostic import Diagnostic
from metier.model.interpreters import is_interpreter
from metier.openfile import read_small

_OFFICIAL: Final = "@modelcontextprotocol/server-"
_MOST_BYTES: Final = 1_048_576
_WHERE_FROM: Final = re.compile(
    r"(?i)(?:npm_config|uv|pip|pipx|bun_config|yarn|pnpm)_.*(?:index|registry|links|url|config_file|userconfig|globalconfig).*"
)


@final
class _Runner(Struct, frozen=True, kw_only=True):
    install: str
    naming: frozenset[str]
    """Flags whose value is the package."""
    kept: frozenset[str] = frozenset()
    """Flags with a value that installing takes too."""
    dropped: frozenset[str] = frozenset()
    """Flags without a value that change nothing of what is fetched."""


_NPM: Final = _Runner(
    install="npm install -g",
    naming=frozenset({"-p", "--package"}),
    kept=frozenset({"--registry"}),
    dropped=frozenset({"-y", "--yes", "-q", "--quiet", "--silent", "--prefer-online", "--prefer-offline", "--bun"}),
)  # fmt: skip
_UV: Final = _Runner(
    install="uv tool install",
    naming=frozenset({"--from"}),
    kept=frozenset({
        "--with", "-w", "--with-editable", "--with-requirements", "--python", "-p", "--index", "--default-index", "--index-url", "-i",
        "--extra-index-url", "--find-links", "-f", "--index-strategy", "--prerelease", "--constraints", "-c", "--overrides",
    }),
    dropped=frozenset({"-q", "--quiet", "--isolated", "--refresh", "-n", "--no-cache", "--no-progress", "-U", "--upgrade"}),
)  # fmt: skip
_PIPX: Final = _Runner(
    install="pipx install",
    naming=frozenset({"--spec"}),
    kept=frozenset({"--index-url", "-i", "--pip-args", "--python"}),
    dropped=frozenset({"-q", "--quiet", "--no-cache", "--verbose"}),
)
_RUNNERS: Final[Mapping[tuple[str, ...], _Runner]] = {
    ("npx",): _NPM, ("bunx",): _NPM, ("bun", "x"): _NPM, ("npm", "exec"): _NPM, ("npm", "x"): _NPM,
    ("pnpm", "dlx"): _NPM, ("pnpx",): _NPM, ("yarn", "dlx"): _NPM,
    ("uvx",): _UV, ("uv", "tool", "run"): _UV,
    ("pipx", "run"): _PIPX,
}  # fmt: skip
"""By how their lines begin."""


@final
class Fetched(Struct, frozen=True, kw_only=True):
    """What a runner would do, split in two."""

    runner: str
    command: str = ""
    """What installs it."""
    line: list[str] = []
    """What runs it then."""
    packages: tuple[str, ...] = ()
    problem: str = ""


def without_shell(line: list[str]) -> list[str]:
    """The line behind `cmd /c`, which Windows needs before npx."""
    shell = line[0].replace("\\", "/").rpartition("/")[2].casefold()
    return line[2:] if shell in ("cmd", "cmd.exe") and len(line) > 2 and line[1].casefold() == "/c" else line


def fetched(line: list[str], variables: Mapping[str, object], path: str) -> Fetched | None:
    """What a runner's line means; None for a line that is none of a runner. Blocking: looks at installed packages."""
    first = os.path.basename(line[0]).removesuffix(".cmd").removesuffix(".exe")
    words = [first, *line[1:]]
    found = next(((head, each) for head, each in _RUNNERS.items() if tuple(words[: len(head)]) == head), None)
    if found is None:
        if first in ("pipx", "pnpm", "yarn", "npm"):
            return Fetched(runner=first, problem=f"what {first} would run cannot be told from its line")
        return None
    head, runner = found
    name = " ".join(head)
    if steering := sorted(each for each in variables if _WHERE_FROM.fullmatch(each)):
        why = f"its variable {steering[0][:60]} says where {name} fetches from; install it yourself, and name its program"
        return Fetched(runner=name, problem=f"{why} in a copy of the file")
    return _read(name, runner, words[len(head) :], path)


def _read(name: str, runner: _Runner, words: list[str], path: str) -> Fetched:
    packages: list[str] = []
    kept: list[str] = []
    while words and words[0].startswith("-"):
        flag, sign, value = words[0].partition("=")
        if flag == "--":
            words = words[1:]
            break
        if flag in runner.dropped and not sign:
            words = words[1:]
            continue
        if flag not in runner.naming | runner.kept or (not sign and len(words) < 2):
            why = f"what {name} would fetch cannot be told from its line: Metier does not know {flag[:40]!r} there"
            return Fetched(
                runner=name, problem=f"{why}; install it yourself, and name its program in a copy of the file"
            )
        value = value if sign else words[1]
        if flag in runner.naming:
            packages.append(value)
        else:
            kept += [flag, value]
        words = words[1:] if sign else words[2:]
    if not words:
        return Fetched(runner=name, problem=f"what {name} would fetch cannot be told from its line")
    named, rest = words[0], words[1:]
    from_package = not packages
    packages = packages or [named]
    if any(not each or each.startswith("-") for each in packages):
        return Fetched(runner=name, problem=f"what {name} would fetch cannot be told from its line")
    program = _program(named)
    if runner is _NPM and from_package:
        program = _bin_of(named, path) or program
    if not BINARY.fullmatch(program) or is_interpreter(program):
        return Fetched(runner=name, problem=f"which program {name} would run cannot be told from its line")
    command = " ".join([runner.install, *map(shlex.quote, (*kept, *packages))])
    return Fetched(runner=name, command=command, line=[program, *rest], packages=tuple(packages))


def _program(package: str) -> str:
    """What the program of a package is most likely called."""
    program = re.sub(r"(?<=.)(@|==|>=|~=|\[).*", "", package)
    if program.startswith(_OFFICIAL):
        program = f"mcp-server-{program.removeprefix(_OFFICIAL)}"
    return program.rpartition("/")[2]


def _bin_of(package: str, path: str) -> str:
    """What the program of a package is called that npm has installed beside a folder of the path; else nothing."""
    name = re.sub(r"(?<=.)@.*", "", package)
    if not re.fullmatch(r"(?:@[\w.~-]+/)?[\w~-][\w.~-]*", name):
        return ""
    for folder in path.split(os.pathsep):
        if not os.path.isabs(folder):
            continue
        file = os.path.join(os.path.dirname(folder), "lib", "node_modules", name, "package.json")
        read = read_small(file, most=_MOST_BYTES, hard_links=True)
        if isinstance(read, Diagnostic):
            continue
        try:
            about: object = json.loads(read[0])
        except (ValueError, RecursionError):
            return ""
        programs = cast("dict[str, object]", about).get("bin") if isinstance(about, dict) else None
        if not isinstance(programs, dict):
            return name.rpartition("/")[2] if isinstance(programs, str) else ""
        names = sorted(cast("dict[str, object]", programs))
        own = name.rpartition("/")[2]
        return own if own in names else names[0] if len(names) == 1 else ""
    return ""
