"""Whether an entry in a client's configuration is Metier itself: by the line that starts it, or by the address of a server of ours.

Metier behind itself would ask about every call twice, and under a stranger's name. An entry is taken for us only where that is plain:
in doubt it is a server like any other. So a line is read from its beginning, word by word: our name somewhere in it says nothing, since
a stranger's program may be given any words.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast
from urllib.parse import urlsplit

from metier.doors.cli.mcp_runners import without_shell

_NAME: Final = "metier"
_COMMAND: Final = "mcp"
_PYTHON: Final = re.compile(r"pythonw?[0-9.]*|py", re.ASCII)
_OF_PYTHON: Final = re.compile(r"-[IEsSuBPqO]+|-[23](?:\.[0-9]+)?", re.ASCII)
"""Options of Python that run nothing."""
_OURS: Final = re.compile(r"metier(?:\[[A-Za-z0-9_,.-]*\])?(?:(?:[=~<>!]=|[<>@])[A-Za-z0-9.*]+)?", re.ASCII)
"""Our package by its name alone, in some version. An address is whatever lies there."""
_HARMLESS: Final = frozenset({
    "-q", "--quiet", "--isolated", "--refresh", "-n", "--no-cache", "--no-progress", "-U", "--upgrade", "--offline",
    "--frozen", "--locked", "--no-sync", "--no-dev", "--all-extras",
})  # fmt: skip
"""Options of runners that leave it open neither what is fetched nor from where."""
_VALUED: Final = frozenset({"--directory", "--project", "--extra", "--group"})
"""The same, with a value."""
_VERSION: Final = re.compile(r"[A-Za-z0-9.@+-]+", re.ASCII)
"""Of Python, as `--python` takes it: no path of one."""
_PACKAGES: Final = frozenset({"--from", "--spec", "--with", "-w"})
"""Options whose value is a package: it has to be ours."""
_WITH_VALUE: Final = frozenset({"--config", "--root", "--log-file"})
"""Options of ours that may stand before the command."""
_STEERS: Final = re.compile(
    r"(?i)(?:PATH|LD_.*|DYLD_.*|PYTHON.*|UV_.*|PIPX?_.*|VIRTUAL_ENV|POETRY_.*|PDM_.*|BASH_ENV|ENV)"
)
"""Variables that have the same line run something else."""
_TOKEN: Final = re.compile(r"(?i)bearer\s+metier_")
_NEAR: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PORTS: Final = {"http": 80, "https": 443}


def programs_here() -> frozenset[str]:
    """The programs of this installation, and those that are found by their names: their whole paths say no more than the names do.
    Blocking."""
    folders = [each for each in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(each)]
    names = (_NAME, "python", "python3", os.path.basename(sys.executable), *_READERS)
    found = [os.path.join(folder, name) for folder in folders for name in names]
    found += [sys.executable, os.path.join(os.path.dirname(sys.executable), _NAME)]
    return frozenset(os.path.realpath(each) for each in found if os.path.isfile(each))


def starts_us(
    command: object, args: object, variables: object = None, *, here: frozenset[str] | None = None
) -> bool:
    """Whether this line is `metier mcp`, however it was installed: by its own name, by Python, or by what runs packages.

    Args:
        variables: what it is started with.
        here: the programs that may be given by their whole path; None for any, where the person is shown which.
    """
    if not isinstance(command, str) or not isinstance(args, list):
        return False
    words = [command, *cast("list[object]", args)]
    if not all(isinstance(each, str) for each in words):
        return False
    set_there = cast("dict[object, object]", variables) if isinstance(variables, dict) else {}
    if any(_STEERS.fullmatch(str(each)) for each in set_there):
        return False
    return _starts(without_shell(cast("list[str]", words)), here)


def _starts(words: list[str], here: frozenset[str] | None) -> bool:
    if not words:
        return False
    whole, rest = words[0], words[1:]
    name = re.split(r"[/\\]", whole)[-1].removesuffix(".exe")
    if name != whole.removesuffix(".exe") and here is not None and not _is_here(whole, name, here):
        return False
    if _PYTHON.fullmatch(name):
        return _by_python(rest)
    read = _READERS.get(name)
    return read(rest) if read is not None else False


def _is_here(whole: str, name: str, here: frozenset[str]) -> bool:
    """Whether this path is one of those programs. Under our name a link may lead to another of them, to which our words mean something else."""
    real = os.path.realpath(whole)
    kinds = {"python" if _PYTHON.fullmatch(each) else each for each in (name, os.path.basename(real))}
    return real in here and len(kinds) == 1


def _by_python(words: list[str]) -> bool:
    while words and (_OF_PYTHON.fullmatch(words[0]) or words[0] in ("-X", "-W")):
        words = words[2:] if words[0] in ("-X", "-W") else words[1:]
    return words[:2] == ["-m", _NAME] and _is_command(words[2:])


def _by_runner(words: list[str]) -> bool:
    """`uvx` and its like: the package is fetched that the line names, and its program run."""
    left = _behind_options(words)
    return bool(left) and _OURS.fullmatch(left[0]) is not None and _is_command(left[1:])


def _by_uv(words: list[str]) -> bool:
    left = _behind_options(words)
    if left[:2] == ["tool", "run"]:
        return _by_runner(left[2:])
    return left[:1] == ["run"] and _in_project(left[1:])


def _in_project(words: list[str]) -> bool:
    """What `run` of a project's tool is given: our program, or Python with our module."""
    left = _behind_options(words)
    if left[:2] in (["-m", _NAME], ["--module", _NAME]):
        return _is_command(left[2:])
    if left and _PYTHON.fullmatch(left[0]):
        return _by_python(left[1:])
    return left[:1] == [_NAME] and _is_command(left[1:])


def _behind_options(words: list[str]) -> list[str]:
    """What is left behind options that change nothing of what is run; nothing where there is one that may."""
    while words and words[0].startswith("-") and words[0] not in ("-m", "--module"):
        option, sign, value = words[0].partition("=")
        if option in _HARMLESS and not sign:
            words = words[1:]
            continue
        value, left = (value, words[1:]) if sign else (words[1] if len(words) > 1 else "", words[2:])
        known = (
            option in _VALUED
            or (option in ("--python", "-p") and _VERSION.fullmatch(value))
            or (option in _PACKAGES and _OURS.fullmatch(value))
        )
        if not known:
            return []
        words = left
    return words


def _by_env(words: list[str]) -> bool:
    while words and words[0].startswith("METIER_HOME="):
        words = words[1:]
    return words[:1] == [_NAME] and _is_command(words[1:])


def leads_to_us(url: object, headers: object, origins: frozenset[str]) -> bool:
    """Whether this is the address of MCP at one of `origins`, or on this machine with a token of ours."""
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return False
    if parts.path.rstrip("/") != f"/{_COMMAND}":
        return False
    place = _origin(parts.scheme, host, port)
    sent: Mapping[str, object] = cast("dict[str, object]", headers) if isinstance(headers, dict) else {}
    ours = any(isinstance(each, str) and _TOKEN.match(each) for each in sent.values())
    return place in {_normal(each) for each in origins} or (host in _NEAR and ours)


def origins_here(address: str, port: int, more: Sequence[str]) -> frozenset[str]:
    """Where a server with this configuration is reached; `more` are further names of it."""
    hosts = (*_NEAR, address)
    return frozenset({*(f"http://{f'[{each}]' if ':' in each else each}:{port}" for each in hosts), *more})


def _is_command(words: list[str]) -> bool:
    """Whether what follows our name has us serve MCP."""
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in _WITH_VALUE else words[1:]
    return words[:1] == [_COMMAND]


def _normal(origin: str) -> str:
    try:
        parts = urlsplit(origin)
        return _origin(parts.scheme, parts.hostname or "", parts.port)
    except ValueError:
        return ""


def _origin(scheme: str, host: str, port: int | None) -> str:
    return f"{scheme.lower()}://{host.lower()}:{port or _PORTS.get(scheme.lower(), 0)}"


_READERS: Final[Mapping[str, Callable[[list[str]], bool]]] = {
    _NAME: _is_command,
    "uvx": _by_runner,
    "uv": _by_uv,
    "pipx": lambda words: words[:1] == ["run"] and _by_runner(words[1:]),
    "env": _by_env,
    **dict.fromkeys(
        ("poetry", "pdm", "hatch", "rye"), lambda words: words[:1] == ["run"] and _in_project(words[1:])
    ),
}
"""By program: whether the rest of its line starts us."""
