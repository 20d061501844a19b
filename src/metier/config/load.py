"""Read every configuration file there is and combine them.

The operator's file (`~/.metier/metier.toml`, or `--config`) is the only one that may loosen anything. A project's
`metier.toml` may only restrict, and add roots that are untrusted until trusted. Unknown keys are errors and `.env`
files are never read.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar, cast, final

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

import metier.config.agents as brain
import metier.config.announce as announcing
import metier.config.gateway as gateways
import metier.config.hooks as hooking
import metier.config.mcp as mcps
import metier.config.openclaw as openclaw
import metier.config.programs as programs
import metier.config.roots as places
import metier.config.serve as serving
import metier.config.telegram as telegrams
import metier.config.xbot as xbots
from metier.config.limits import (
    RestrictedApprovals,
    RestrictedBudgets,
    WrittenBudgets,
    approvals,
    budgets,
)
from metier.config.settings import (
    ApprovalSettings,
    AuditSettings,
    BinarySettings,
    PromptSettings,
    PythonSettings,
    Settings,
    SkillSettings,
    TelemetrySettings,
)
from metier.errors import ConfigError
from metier.model import stricttoml
from metier.model.diagnostic import Diagnostic
from metier.model.text import one_line
from metier.openfile import has_second_name, read_small

MAX_BYTES: Final = 1_048_576


@final
class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    skills: SkillSettings = SkillSettings()
    prompt: PromptSettings = PromptSettings()
    audit: AuditSettings = AuditSettings()
    python: PythonSettings = PythonSettings()
    budgets: WrittenBudgets = WrittenBudgets()
    binaries: BinarySettings = BinarySettings()
    approvals: ApprovalSettings = ApprovalSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    gateway: gateways.GatewaySettings = gateways.GatewaySettings()
    operator: gateways.WrittenOperator = gateways.WrittenOperator()
    xbot: xbots.XbotSettings = xbots.XbotSettings()
    telegram: telegrams.TelegramSettings = telegrams.TelegramSettings()
    hooks: hooking.HookSettings = hooking.HookSettings()
    agents: brain.AgentSettings = brain.AgentSettings()
    memory: brain.MemorySettings = brain.MemorySettings()
    mcp: mcps.McpSettings = mcps.McpSettings()
    announce: announcing.AnnounceSettings = announcing.AnnounceSettings()
    serve: serving.ServeSettings = serving.ServeSettings()
    config: dict[str, Any] = {}
    """What `requires.config` of a skill is looked up in."""
    secrets: dict[str, str] = {}


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
    budgets: RestrictedBudgets = RestrictedBudgets()
    approvals: RestrictedApprovals = RestrictedApprovals()


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
    user = environ.get("HOME") or _home_of_user()
    written = _state_folder(environ, home)
    home = os.path.realpath(written)
    try:
        project = os.path.abspath(project or os.getcwd())
    except FileNotFoundError:
        raise ConfigError("the working directory is gone", remedy="Go to a folder that exists") from None
    files = (
        os.path.abspath(config) if config else os.path.join(home, "metier.toml"),
        os.path.join(project, "metier.toml"),
        os.path.join(user, ".openclaw", "openclaw.json"),
        os.path.join(project, xbots.FILE),
    )
    own = _operators_file(files[0], required=config is not None)
    theirs = _projects_file(files[1], own_path=files[0])
    foreign = openclaw.read(files[2])
    packages, xbot_warnings = xbots.read(files[3])
    gateway, gateway_warnings = gateways.gateway(own.gateway, environ)
    operator, operator_warnings = gateways.operator(own.operator, environ)
    found, passed_over = places.roots(
        user=user, home=home, project=project, own=own.skills.roots, theirs=theirs.skills.roots, named=roots
    )
    return Settings(
        home=home,
        home_written=written,
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
        python=own.python,
        budgets=budgets(own.budgets, theirs.budgets),
        binaries=programs.with_own(own.binaries, environ),
        approvals=approvals(own.approvals, theirs.approvals),
        telemetry=own.telemetry,
        gateway=gateway,
        operator=operator,
        xbot=xbots.both(own.xbot, packages),
        telegram=telegrams.checked(own.telegram),
        hooks=own.hooks,
        agents=brain.checked(own.agents, files[0]),
        memory=own.memory,
        mcp=mcps.checked(own.mcp),
        announce=announcing.checked(own.announce, files[0]),
        serve=serving.checked(own.serve, files[0]),
        config={**foreign.truths, **own.config},
        secrets=own.secrets,
        warnings=(*passed_over, *foreign.warnings, *gateway_warnings, *operator_warnings, *xbot_warnings),
        files=files,
        held_roots={os.path.realpath(os.path.join(user, ".openclaw/skills")): foreign.unreadable}
        if foreign.unreadable
        else {},
    )


def state_folder(environ: Mapping[str, str], home: str | None = None) -> str:
    """Where the state lies, whatever the configuration says; `home` as for `load`."""
    # As it lies on the disk: sandboxes follow no link on the way to what they are given.
    return os.path.realpath(_state_folder(environ, home))


def _state_folder(environ: Mapping[str, str], home: str | None) -> str:
    user = environ.get("HOME") or _home_of_user()
    return os.path.abspath(home or environ.get("METIER_HOME") or os.path.join(user, ".metier"))


def _home_of_user() -> str:
    """Where the system says this user lives; an empty HOME means nothing."""
    import pwd

    return pwd.getpwuid(os.getuid()).pw_dir


def _both(own: frozenset[str] | None, theirs: frozenset[str] | None) -> frozenset[str] | None:
    if own is None or theirs is None:
        return own if theirs is None else theirs
    return own & theirs


def _operators_file(path: str, *, required: bool) -> _File:
    found = _read(path, required=required)
    if found is None:
        return _File()
    data, status = found
    if status.st_mode & 0o022:
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
    file = _convert(tree, _File, path)
    if file.secrets:
        from metier.config.secret_references import read_references  # most installations have none

        read_references(file.secrets, where=f"{path}, [secrets]")
    roots = _absolute(file.skills.roots, path, "root")
    packages = _absolute(file.python.packages, path, "folder of packages")
    return replace(
        file,
        skills=replace(file.skills, roots=roots),
        python=replace(file.python, packages=packages),
        binaries=programs.read_programs(file.binaries, path),
    )


def _absolute(folders: tuple[str, ...], path: str, what: str) -> tuple[str, ...]:
    expanded = tuple(os.path.expanduser(folder) for folder in folders)
    for written, folder in zip(folders, expanded, strict=True):
        # Against the working directory it would be another, equally trusted folder in every project.
        if not os.path.isabs(folder):
            raise ConfigError(
                f"{path}: the {what} {written!r} is not absolute",
                remedy="Write the whole path, or begin with ~/",
            )
    return expanded


def _projects_file(path: str, *, own_path: str) -> _ProjectFile:
    if os.path.realpath(path) == os.path.realpath(own_path):
        return _ProjectFile()
    found = _read(path, required=False)
    return _ProjectFile() if found is None else _convert(_parse(found[0], path), _ProjectFile, path)


def _read(path: str, *, required: bool) -> tuple[bytes, os.stat_result] | None:
    """The whole file. One that cannot be read whole might forbid something, so it stops everything."""
    found = read_small(path, most=MAX_BYTES, hard_links=True, links=True)
    if not isinstance(found, Diagnostic):
        if has_second_name(found[1]):
            raise ConfigError(
                f"{path} has a second name somewhere (a hard link), and could be changed from there, so it is not read",
                remedy=f"Look at what is in it, then put a copy in its place: cp -p '{path}' '{path}.copy' && mv '{path}.copy' '{path}'",
            )
        return found
    if found.code != "missing":
        raise ConfigError(
            f"{path}: {found.message}, so nobody can know what it forbids",
            remedy="Make the file and the folders above it readable, or start from another folder",
        )
    if required:
        raise ConfigError(f"there is no configuration file {path}", remedy="Check --config")
    return None


def _parse(data: bytes, path: str) -> dict[str, Any]:
    try:
        return stricttoml.loads(data)
    except stricttoml.TomlError as error:
        raise ConfigError(f"{path}: {one_line(str(error), 200)}", remedy=error.remedy) from None


_T = TypeVar("_T", _File, _ProjectFile)


def _convert(tree: dict[str, Any], kind: type[_T], path: str) -> _T:
    try:
        return convert(tree, kind)
    except ValidationError as error:
        remedy = "See docs/configuration.md for every key"
        if kind is _ProjectFile:
            remedy += (
                "; a project's file may only restrict: [skills] roots, allow, enabled, disabled, allowlist; "
                "[budgets.*] calls; [approvals]"
            )
        raise ConfigError(f"{path}: {_explain(str(error), kind)}", remedy=remedy) from None


def _explain(problem: str, kind: type[Struct]) -> str:
    """msgspec's message in our words, with the nearest key that this file may have where one was misspelled."""
    if "unknown field" not in problem:
        return problem.replace("`$.", "`").replace(" - at ", " at ")
    import difflib

    from msgspec.inspect import type_info

    wrong = problem.split("`")[1]
    near = difflib.get_close_matches(wrong, sorted(_keys(type_info(kind))), n=1)
    return f"unknown key {wrong!r}" + (f" (did you mean {near[0]!r}?)" if near else "")


def _keys(written: object) -> set[str]:
    """Every key that may stand in what is written as this type, at any depth."""
    from msgspec import inspect

    match written:
        case inspect.StructType(fields=fields):
            return {field.encode_name for field in fields}.union(*(_keys(field.type) for field in fields))
        case inspect.DictType(value_type=inner) | inspect.ListType(item_type=inner):
            return _keys(inner)
        case inspect.UnionType(types=several):
            return set[str]().union(*map(_keys, several))
        case _:
            return set()
