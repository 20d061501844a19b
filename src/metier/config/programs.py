"""`[binaries.programs.NAME]`: which file a program's name stands for, and what the operator gives to that program.

Only the operator's own file can say any of it. `ical-query` is there without being written down, where the packages for it
are installed: Metier's own command, run by the interpreter that Metier runs on. A table of that name without `file` adds to
it; one with `file` puts another program in its place. Pure but for the look at what is installed.
"""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from msgspec.structs import replace

from metier.config.settings import BinarySettings
from metier.errors import ConfigError
from metier.model.permission import BASE_DIR, WORKSPACE
from metier.model.program import OperatorProgram

ICAL_QUERY: Final = "ical-query"
CALDAV_URL: Final = "METIER_CALDAV_URL"
_PACKAGES: Final = ("icalendar", "recurring_ical_events", "caldav")
"""Of the extra `calendar`."""
_PASSED_ON: Final = (CALDAV_URL, "METIER_CALDAV_USER", "METIER_CALDAV_PASSWORD", "TZ", "METIER_TIMEZONE")
_MODULE: Final = "metier.ical.command"
_LOCALTIME: Final = "/etc/localtime"
_SITES: Final = ("site-packages", "dist-packages")
_OURS: Final = frozenset(
    ("HOME", "PATH", "TMPDIR", "LANG", "METIER_OUT", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
)
"""Set by the sandbox itself."""
_LOADER: Final = ("LD_", "GLIBC_")
_SECRET: Final = ("PASSWORD", "PASSWD", "SECRET", "TOKEN", "API_KEY", "APIKEY")
_REMEDY: Final = "See [binaries.programs] in docs/configuration.md"


def read_programs(written: BinarySettings, where: str) -> BinarySettings:
    """The programs as the operator's file has them, with `~` filled in.

    Raises:
        ConfigError: for what could mean two things, or nothing.
    """
    taken: dict[str, str] = {}
    programs: dict[str, OperatorProgram] = {}
    for name, program in written.programs.items():
        place = f"{where}, [binaries.programs.{name}]"
        programs[name] = _read(name, program, place)
        for text in sorted({name, *program.spellings}):
            if other := taken.get(text):
                raise ConfigError(f"{place}: {text!r} already stands for {other!r}", remedy=_REMEDY)
            taken[text] = name
    return replace(written, programs=programs)


def with_own(written: BinarySettings, environ: Mapping[str, str]) -> BinarySettings:
    """The operator's programs, and Metier's own beside them."""
    said = written.programs.get(ICAL_QUERY)
    if said is not None and said.file:
        return written
    own = _ical_query(environ, said or OperatorProgram())
    others = {name: each for name, each in written.programs.items() if name != ICAL_QUERY}
    if own is None:
        return replace(written, programs=others)
    claimed = {text for name, each in others.items() for text in (name, *each.spellings)}
    return replace(written, programs={**others, ICAL_QUERY: replace(own, spellings=own.spellings - claimed)})


def _read(name: str, program: OperatorProgram, place: str) -> OperatorProgram:
    if not program.file and name != ICAL_QUERY:
        raise ConfigError(f"{place}: file is missing", remedy="Say which file the name stands for")
    file = os.path.expanduser(program.file)
    if file and (not os.path.isabs(file) or os.path.normpath(file) != file or "\0" in file):
        raise ConfigError(
            f"{place}: the file {program.file!r} is no plain absolute path",
            remedy="Write the whole path, without . and .., or begin with ~/",
        )
    for text in (*program.spellings, *program.before):
        if "\0" in text or (text in program.spellings and not text):
            raise ConfigError(f"{place}: {text!r} can be no argument", remedy=_REMEDY)
    for variable in sorted(program.env | program.environment.keys()):
        _check_variable(variable, program, place)
    paths = {path for path in program.reads | program.writes if path.partition("/")[0] == BASE_DIR}
    if paths:
        raise ConfigError(
            f"{place}: {min(paths)!r} stands for a skill's folder, and a program belongs to none",
            remedy=f"Write an absolute path, or one below {WORKSPACE}",
        )
    made = replace(program, file=file, reads=_expanded(program.reads), writes=_expanded(program.writes))
    try:
        _ = made.besides
    except ValueError as error:
        raise ConfigError(f"{place}: {error}", remedy=_REMEDY) from None
    return made


def _check_variable(name: str, program: OperatorProgram, place: str) -> None:
    if not name.isidentifier() or not name.isascii():
        raise ConfigError(f"{place}: a variable has no plain name", remedy=_REMEDY)
    if name.startswith(_LOADER):
        raise ConfigError(
            f"{place}: {name} tells every program what else to load, so no run gets it", remedy="Take it out"
        )
    if name in _OURS:
        raise ConfigError(f"{place}: {name} is set by the sandbox itself", remedy="Take it out")
    if name in program.env and name in program.environment:
        raise ConfigError(f"{place}: {name} is both passed on and given a value", remedy="Say one of the two")
    if name in program.environment and any(word in name.upper() for word in _SECRET):
        raise ConfigError(
            f"{place}: {name} sounds like a secret, and those are not written into this file",
            remedy=f"Set it in the environment that Metier is started with, and name it in env: env = [{name!r}]",
        )
    if "\0" in program.environment.get(name, ""):
        raise ConfigError(f"{place}: the value of {name} can be none of a variable", remedy=_REMEDY)


def _expanded(paths: frozenset[str]) -> frozenset[str]:
    return frozenset(map(os.path.expanduser, paths))


def _ical_query(environ: Mapping[str, str], more: OperatorProgram) -> OperatorProgram | None:
    """Metier's own command, and what the operator adds to it. None where it is not installed."""
    if any(find_spec(package) is None for package in _PACKAGES):
        return None
    package = os.path.realpath(os.path.dirname(os.path.dirname(__file__)))
    above = os.path.dirname(package)
    sites = [os.path.realpath(each) for each in sys.path if os.path.basename(each) in _SITES]
    path = list(dict.fromkeys((above, *filter(os.path.isdir, sites))))
    interpreter = os.path.realpath(sys.executable)
    # What stands above the package may be anything; only where it holds nothing but packages is it read as a whole.
    plain = above if os.path.basename(above) in (*_SITES, "src") else package
    reads = {plain, *path[1:], os.path.realpath(sys.base_prefix)}
    environment = {"METIER_CALENDAR_FOLDER": f"{WORKSPACE}/calendar", **_zone(environ, more)}
    if _zone_is_a_file():
        reads.add(_LOCALTIME)
    environment = {name: value for name, value in environment.items() if name not in more.env}
    environment |= more.environment
    url = environment.get(CALDAV_URL) or environ.get(CALDAV_URL, "")
    # Isolated, and without the folders of its own that an interpreter would add: exactly these.
    start = f"import sys; sys.path[:0] = {path!r}; from {_MODULE} import main; main()"
    return OperatorProgram(
        file=interpreter,
        spellings=more.spellings | {"/usr/local/bin/ical-query"},
        before=("-I", "-S", "-B", "-c", start, *more.before),
        reads=frozenset(each for each in reads if not _is_system(each)) | more.reads,
        writes=more.writes | {f"{WORKSPACE}/calendar"},
        hosts=more.hosts | _host_of(url),
        env=frozenset((*more.env, *_PASSED_ON)) - frozenset(environment),
        environment=environment,
    )


def _is_system(path: str) -> bool:
    """Whether every sandbox has it anyway."""
    return path == "/usr" or path.startswith("/usr/")


def _zone(environ: Mapping[str, str], more: OperatorProgram) -> dict[str, str]:
    """The machine's own time zone, where the operator names none: it cannot be seen from inside."""
    if any(environ.get(name) or name in more.environment for name in ("METIER_TIMEZONE", "TZ")):
        return {}
    _, found, name = os.path.realpath(_LOCALTIME).partition("/zoneinfo/")
    return {"METIER_TIMEZONE": name} if found else {}


def _zone_is_a_file() -> bool:
    return os.path.isfile(_LOCALTIME) and not os.path.islink(_LOCALTIME)


def _host_of(url: str) -> frozenset[str]:
    """The one place that a calendar server lies at, as a grant."""
    if not url:
        return frozenset()
    from urllib.parse import urlsplit  # most installations have none

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return frozenset()
    if not host or parts.scheme not in ("http", "https"):
        return frozenset()  # the command itself says what is wrong with it
    named = f"[{host}]" if ":" in host else host
    named = named if port is None else f"{named}:{port}"
    return frozenset({named if parts.scheme == "https" else f"http://{named}"})
