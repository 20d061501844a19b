"""The XBot packages that the configuration names, from the three places they may come from: installed Python distributions,
the project's `node_modules`, and folders of the project that are configured. Nothing is imported, fetched or run here.

A package counts under its own name. Only one that is allowed is looked at, and only one that is enabled as well is more than
listed. All wait to be trusted: none of these places is one the operator vouches for.
"""

import os
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Final

from metier.catalog.discover import Found, Noted
from metier.catalog.xbot_shipped import SHIPPED, Package
from metier.config.settings import Root, RootKind, Settings
from metier.dialects import package_file
from metier.dialects.xbot import plain_name
from metier.model.diagnostic import Diagnostic, Severity
from metier.model.text import one_line
from metier.openfile import read_small, signature_of, spelled

GROUP: Final = "metier.skills"
_PACKAGE: Final = "package.json"
_INIT: Final = "__init__.py"
_NAMES: Final = ("skill", "register_skill")
_MOST_NAMES: Final = 500


def packages(settings: Settings) -> Iterator[Package | Noted]:
    """Every configured package, in order of precedence, and what is wrong with the configuration of others."""
    wanted = settings.xbot
    allowed, enabled = wanted.allow or frozenset(), wanted.enabled or frozenset()
    allowed -= SHIPPED  # no other package can stand for one of them
    for name in sorted(enabled - allowed - SHIPPED):
        yield _said(
            settings.project, "not_allowlisted", f"{_quoted(name)} is enabled, but not in [xbot] allow"
        )
    missing = set(allowed)
    names = sorted(allowed)[:_MOST_NAMES]
    for name, each in (*_installed(names), *_modules(names, settings), *_local(frozenset(names), settings)):
        if isinstance(each, Noted):
            yield each
            missing.discard(name)
            continue
        missing.discard(name)
        off = "" if name in enabled else f"{name!r} is not named in [xbot] enabled"
        kind: RootKind = (
            "installed" if each.manifest.endswith(".py") and _is_installed(each.folder) else "extra"
        )
        root = Root(path=each.folder, kind=kind, trusted=False)
        yield Package(found=each, root=root, off=off)
    for name in sorted(missing):
        message = (
            f"there is no package {_quoted(name)} among the installed Python distributions (entry points of the group "
            f"{GROUP}), in node_modules where that is switched on, nor in [xbot.resolve] local_paths"
        )
        yield _said(settings.project, "package_missing", message)


def _modules(names: list[str], settings: Settings) -> Iterator[tuple[str, Found | Noted]]:
    """Those in the project's `node_modules`. A link, as package managers make them, must stay in there."""
    if not settings.xbot.resolve.node_modules:
        return
    top = os.path.realpath(os.path.join(settings.project, "node_modules"))
    if not _inside(top, os.path.realpath(settings.project)):
        if os.path.isdir(top):
            yield (
                "",
                _said(
                    top, "outside", "node_modules leads out of the project, so nothing is looked for there"
                ),
            )
        return
    for name in names:
        if not package_file.is_name(name):
            continue
        folder = os.path.realpath(os.path.join(top, name))
        if not os.path.isdir(folder):
            continue
        if not _inside(folder, top):
            yield (
                name,
                _said(folder, "outside", f"the package {_quoted(name)} is a link that leaves node_modules"),
            )
        else:
            yield name, _javascript(folder, name)


def _local(names: frozenset[str], settings: Settings) -> Iterator[tuple[str, Found | Noted]]:
    """Those in configured folders, whose name is what their own files say."""
    project = os.path.realpath(settings.project)
    for written in settings.xbot.resolve.local_paths:
        folder = os.path.realpath(os.path.join(project, written))
        if os.path.isabs(written) or not _inside(folder, project):
            message = (
                f"local_paths names {_quoted(written)}, which is not inside the project; it is not looked at"
            )
            yield "", _said(project, "outside", message)
        elif not os.path.isdir(folder):
            yield (
                "",
                _said(project, "package_missing", f"local_paths names {_quoted(written)}: no such folder"),
            )
        else:
            yield from _here(folder, names)


def _here(folder: str, names: frozenset[str]) -> Iterator[tuple[str, Found | Noted]]:
    if os.path.lexists(os.path.join(folder, _PACKAGE)):
        read = read_small(os.path.join(folder, _PACKAGE), most=package_file.MAX_BYTES)
        found = read.message if isinstance(read, Diagnostic) else package_file.read(read[0])
        if isinstance(found, str):
            yield "", _said(folder, "bad_package", found, "error")
        elif found.name in names:
            yield found.name, _javascript(folder, found.name)
        return
    called = os.path.basename(folder).replace("_", "-")
    for name in sorted(names):
        if plain_name(name) == called and os.path.lexists(os.path.join(folder, _INIT)):
            yield name, _at(folder, _INIT)
            return


def _installed(names: list[str]) -> Iterator[tuple[str, Found | Noted]]:
    """Those that an installed distribution declares, in the folders this Python was installed with."""
    if not names:
        return
    seen: set[str] = set()
    for each in distributions(path=_site()):
        for point in each.entry_points:
            if point.group == GROUP and point.name in names and point.name not in seen:
                seen.add(point.name)
                yield point.name, _distributed(each, point)


def _site() -> list[str]:
    return [*dict.fromkeys(os.path.realpath(sysconfig.get_path(key)) for key in ("purelib", "platlib"))]


def _is_installed(place: str) -> bool:
    return os.path.dirname(place) in _site()


def _distributed(distribution: Distribution, point: EntryPoint) -> Found | Noted:
    """The file of an entry point, read off from its name: nothing is imported."""
    shown = _quoted(point.name)
    if not point.module.isidentifier() or (point.attr or "") not in ("", *_NAMES):
        message = (
            f"the entry point {shown} must name a package, or `skill` in it, and says {_quoted(point.value)}"
        )
        return _said(point.name, "bad_package", message, "error")
    if point.module.replace("_", "-") != plain_name(point.name):
        message = f"the entry point {shown} and its package {_quoted(point.module)} must have the same name"
        return _said(point.name, "bad_package", message, "error")
    top = os.path.realpath(str(distribution.locate_file("")))
    folder = os.path.join(top, point.module)
    if os.path.isfile(os.path.join(folder, _INIT)):
        return _at(folder, _INIT)
    if os.path.isfile(f"{folder}.py"):
        return _at(f"{folder}.py", f"{point.module}.py")
    return _said(
        point.name, "package_missing", f"the files of the entry point {shown} are not there", "error"
    )


def _javascript(folder: str, name: str) -> Found:
    found = _at(folder, _PACKAGE)
    package = package_file.read(found.data) if found.data is not None else ""
    if isinstance(package, str) or package.name == name:
        return found
    message = f"the package in this folder is called {_quoted(package.name)}, not {_quoted(name)}"
    return Found(folder, _PACKAGE, None, None, _diagnostic("bad_package", message, "error"))


def _at(place: str, manifest: str) -> Found:
    if spelled(place) != place:
        problem = _diagnostic("not_utf8_name", "its path is not UTF-8; rename the folder", "error")
        return Found(spelled(place), manifest, None, None, problem)
    path = place if place.endswith(f"/{manifest}") else f"{place}/{manifest}"
    read = read_small(path, most=package_file.MAX_BYTES, hard_links=_is_installed(place))
    if isinstance(read, Diagnostic):
        return Found(place, manifest, None, None, read)
    return Found(place, manifest, read[0], signature_of(read[1]))


def _inside(path: str, top: str) -> bool:
    return path.startswith(top.rstrip(os.sep) + os.sep)


def _quoted(text: str) -> str:
    return f'"{one_line(text, 120)}"'


def _said(place: str, code: str, message: str, severity: Severity = "warning") -> Noted:
    return Noted(place, _diagnostic(code, message, severity))


def _diagnostic(code: str, message: str, severity: Severity) -> Diagnostic:
    return Diagnostic(code=code, severity=severity, message=message)
