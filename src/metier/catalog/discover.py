"""Find the skills below a root without trusting what lies there.

Folders are entered down to a depth, never through a link; a folder with a manifest is a skill and is not
searched further. Every limit that is hit, and every thing that is passed over for safety, is reported.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final, final

from msgspec import Struct

from metier.catalog import allowlist
from metier.catalog.openfile import Signature, read_small, signature_of, spelled
from metier.config.settings import Root
from metier.dialects.frontmatter import MAX_BYTES
from metier.model.diagnostic import Diagnostic

MANIFEST: Final = "SKILL.md"
MAX_DEPTH: Final = 6
MAX_FOLDERS: Final = 100_000
MAX_SKILLS: Final = 50_000
PASSED_OVER: Final = frozenset({"node_modules"})


@final
class Found(Struct, frozen=True, gc=False):
    """A skill's folder, or something that looked like one and was refused."""

    folder: str
    manifest: str
    data: bytes | None
    """None when the manifest still has the signature it is known by, or could not be read."""
    signature: Signature | None
    problem: Diagnostic | None = None


@final
class Noted(Struct, frozen=True):
    """Something to say about the root itself."""

    folder: str
    problem: Diagnostic


def discover(
    root: Root, known: Mapping[str, Signature], *, allowlist_required: bool
) -> Iterator[Found | Noted]:
    """Everything that looks like a skill below `root`, in a stable order.

    Args:
        known: manifests by path, with the signature under which their content is already known.
    """
    if not os.path.isdir(root.path):
        return
    approved = allowlist.read(root.path) if root.kind != "bundled" else allowlist.Allowlist(names=None)
    if approved.problem:
        yield Noted(root.path, approved.problem)
    if approved.names is None:
        if allowlist_required and root.kind != "bundled":
            yield Noted(
                root.path,
                _warning(
                    "allowlist_required", f"no {allowlist.FILE} here, and the configuration requires one"
                ),
            )
            return
        yield from _search(root, [(root.path, 0)], known)
        return
    for name in sorted(set(_folders_named(root.path)) - set(approved.names)):
        problem = _error(
            "not_approved", f"not named in approvedSkills of {allowlist.FILE}, so it was not opened"
        )
        yield Found(os.path.join(root.path, name), MANIFEST, None, None, problem)
    wanted: list[tuple[str, int]] = []
    for name in approved.names:
        folder = os.path.join(root.path, name)
        if os.path.islink(folder):
            yield Found(folder, MANIFEST, None, None, _link(folder))
        elif not os.path.isdir(folder):
            yield Noted(
                folder,
                _warning("approved_missing", f"{allowlist.FILE} names {name!r}, but there is no such folder"),
            )
        else:
            wanted.append((folder, 1))
    yield from _search(root, wanted[::-1], known)


def _search(
    root: Root, stack: list[tuple[str, int]], known: Mapping[str, Signature]
) -> Iterator[Found | Noted]:
    hard_links = (
        root.kind == "bundled"
    )  # installers hard-link files of a distribution; its RECORD vouches for them
    folders = skills = too_deep = 0
    while stack:
        folder, depth = stack.pop()
        folders += 1
        if folders > MAX_FOLDERS or skills >= MAX_SKILLS:
            limit = f"{MAX_FOLDERS:,} folders" if folders > MAX_FOLDERS else f"{MAX_SKILLS:,} skills"
            yield Noted(
                root.path, _warning("count_limit", f"stopped after {limit}; the rest was not looked at")
            )
            return
        path = f"{folder}/{MANIFEST}"
        if known and (found := _unchanged(folder, path, known, hard_links=hard_links)):
            skills += 1
            yield found
            continue
        read = read_small(path, most=MAX_BYTES, hard_links=hard_links)
        if not isinstance(read, Diagnostic):
            skills += 1
            yield Found(folder, MANIFEST, read[0], signature_of(read[1]))
            continue
        if read.code != "missing":
            yield Found(folder, MANIFEST, None, None, read)
            continue
        listing = _list(folder)
        if isinstance(listing, Diagnostic):
            yield Noted(folder, listing)
            continue
        other = next((entry.name for entry in listing if entry.name.lower() == "skill.md"), None)
        if other:
            read = read_small(f"{folder}/{other}", most=MAX_BYTES, hard_links=hard_links)
            skills += 1
            if isinstance(read, Diagnostic):
                yield Found(folder, other, None, None, read)
            else:
                yield Found(folder, other, read[0], signature_of(read[1]))
            continue
        below: list[str] = []
        for entry in listing:
            if entry.name.startswith(".") or entry.name in PASSED_OVER:
                continue
            if (shown := spelled(entry.path)) != entry.path:
                if entry.is_dir(follow_symlinks=False):
                    yield Noted(
                        shown, _warning("not_utf8_name", "this folder's name is not UTF-8; rename it")
                    )
                continue
            if entry.is_symlink():
                if _leads_to_skill(entry.path):
                    yield Found(entry.path, MANIFEST, None, None, _link(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                below.append(entry.path)
        if depth >= MAX_DEPTH:
            too_deep += bool(below)
            continue
        below.sort(reverse=True)
        stack.extend((path, depth + 1) for path in below)
    if too_deep:
        message = f"{too_deep} folder(s) go deeper than {MAX_DEPTH} levels and were not searched further"
        yield Noted(root.path, _warning("depth_limit", message))


def _unchanged(folder: str, path: str, known: Mapping[str, Signature], *, hard_links: bool) -> Found | None:
    signature = known.get(path)
    if signature is None:
        return None
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if signature_of(status) != signature or (status.st_nlink > 1 and not hard_links):
        return None
    return Found(folder, MANIFEST, None, signature)


def _list(folder: str) -> list[os.DirEntry[str]] | Diagnostic:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        return _warning("unreadable", f"cannot look into this folder: {error.strerror}")


def _folders_named(root: str) -> list[str]:
    """Names of the folders in `root`, from the listing alone: nothing below is touched."""
    listing = _list(root)
    if isinstance(listing, Diagnostic):
        return []
    return [
        spelled(entry.name)
        for entry in listing
        if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
    ]


def _leads_to_skill(path: str) -> bool:
    try:
        return os.path.isfile(os.path.join(path, MANIFEST))
    except (OSError, ValueError):
        return False


def _link(path: str) -> Diagnostic:
    return _error(
        "link",
        f"this folder is a symbolic link to {os.path.realpath(path)}; add the folder it points to as a root of its own",
    )


def _warning(code: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, severity="warning", message=message)


def _error(code: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, severity="error", message=message)
