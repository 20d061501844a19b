"""Look at skill files anywhere, trusted or not, and say what they are worth here.

Unlike discovery, which stops at a skill, this finds every manifest below a path. Its result is a stable,
machine-readable form: programs rely on the field names.
"""

import os
import time
from collections.abc import Iterator
from typing import Any, Final, Literal, final

from msgspec import Struct

from metier.catalog.bundle import measure
from metier.catalog.code_files import with_files
from metier.catalog.discover import Noted, manifests_among, names_in, other_manifests, passed_over, place_of
from metier.catalog.requirements import Environment, check
from metier.dialects.frontmatter import MAX_BYTES
from metier.dialects.manifest import compile_manifest
from metier.errors import BundleError
from metier.model.diagnostic import Diagnostic
from metier.openfile import read_small, spelled

MAX_DEPTH: Final = 64


@final
class Linted(Struct, frozen=True, kw_only=True):
    """What there is to say about one manifest."""

    path: str
    name: str
    description: str
    dialect: str | None
    digest: str | None
    """Of the whole bundle, as trust would bind it; null when the folder cannot become a snapshot."""
    status: Literal["usable", "unavailable", "broken"]
    diagnostics: tuple[Diagnostic, ...]
    missing: tuple[dict[str, str], ...]
    metadata: dict[str, Any] | None


def lint(paths: tuple[str, ...], environment: Environment) -> Iterator[Linted | Noted]:
    """Every manifest below `paths`, in order, and what could not be searched. A manifest itself counts too."""
    for path in paths:
        for manifest in _manifests(path):
            yield _linted(manifest, environment) if isinstance(manifest, str) else manifest


def _linted(path: str, environment: Environment) -> Linted:
    folder, manifest = os.path.split(path)
    if spelled(path) != path:
        message = "this path is not UTF-8; rename the folder or file"
        problem = Diagnostic(code="not_utf8_name", severity="error", message=message)
        return _broken(path, os.path.basename(folder), problem)
    folder_name = os.path.basename(os.path.abspath(folder))
    found = read_small(path, most=MAX_BYTES)
    if isinstance(found, Diagnostic):
        return _broken(path, folder_name, found)
    compiled = compile_manifest(
        found[0], folder=folder_name, manifest=manifest, files=lambda: names_in(folder or ".")
    )
    real = os.path.realpath(folder or ".")
    names = names_in(real)
    place = place_of(real, manifest, names)
    compiled = with_files(compiled, real, alone=place != real)
    diagnostics = [*compiled.diagnostics, *other_manifests(manifest, names)]
    digest: str | None = None
    try:
        digest = measure(place, now_ns=time.time_ns()).digest
    except BundleError as error:
        diagnostics.append(Diagnostic(code="bundle_refused", severity="error", message=str(error)))
    skill = compiled.skill
    missing = check(skill, environment) if skill else ()
    broken = skill is None or digest is None
    return Linted(
        path=path,
        name=compiled.name,
        description=compiled.description,
        dialect=compiled.dialect,
        digest=digest,
        status="broken" if broken else "unavailable" if missing else "usable",
        diagnostics=tuple(diagnostics),
        missing=tuple({"type": error.type, "name": error.name, "message": str(error)} for error in missing),
        metadata=compiled.metadata,
    )


def _broken(path: str, name: str, problem: Diagnostic) -> Linted:
    return Linted(
        path=spelled(path),
        name=spelled(name),
        description="",
        dialect=None,
        digest=None,
        status="broken",
        diagnostics=(problem,),
        missing=(),
        metadata=None,
    )


def _manifests(path: str) -> Iterator[str | Noted]:
    """Paths of manifests below `path`, and folders that could not be searched."""
    if not os.path.lexists(path):
        yield _noted(path, "missing", "there is no such file or folder")
        return
    if not os.path.isdir(path):
        yield path
        return
    if os.path.islink(path):
        path = os.path.realpath(path)  # a link named by the person at the terminal is his own choice
    stack = [(path, 0)]
    while stack:
        folder, depth = stack.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield _noted(folder, "unreadable", f"cannot look into this folder: {error.strerror}")
            continue
        below: list[tuple[str, int]] = []
        names = {entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)}
        manifests = manifests_among(folder, names)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below.append((entry.path, depth + 1))
            elif entry.is_symlink() and entry.is_dir():
                yield Noted(spelled(entry.path), passed_over(entry.path))
            elif entry.name in manifests:
                yield entry.path
        if below and depth >= MAX_DEPTH:
            yield _noted(
                folder, "depth_limit", f"deeper than {MAX_DEPTH} folders; what lies below was not searched"
            )
            continue
        stack.extend(reversed(below))


def _noted(folder: str, code: str, message: str) -> Noted:
    return Noted(spelled(folder), Diagnostic(code=code, severity="error", message=message))
