"""Find the skills below a root without trusting what lies there.

Folders are entered down to a depth, never through a link; a folder with a manifest is a skill and is not
searched further. Every limit that is hit, and every thing that is passed over for safety, is reported.
"""

import os
import re
from collections.abc import Iterator, Mapping, Set
from typing import Final, final

from msgspec import Struct, structs

from metier.catalog import allowlist
from metier.catalog.folder import stem_of
from metier.config.settings import Root
from metier.dialects.frontmatter import MAX_BYTES
from metier.model.diagnostic import Diagnostic
from metier.openfile import Signature, read_small, signature_of, spelled

MANIFEST: Final = "SKILL.md"
_OWN_FOLDER: Final = frozenset({"skill.json", "skill.yaml", "skill.yml", "mcp_server.json"})
"""Other manifests that make a skill of the folder they lie in."""
_CODE: Final = (".py", ".ts", ".js")
_SCRIPT: Final = (".ts", ".js")
"""How code ends that may be its own manifest."""
_PACKAGE: Final = "package.json"
_SAYS: Final = (b'"inputs"', b'"category"')
"""What makes a JSON file a manifest; one that has its own name for an id and some of this is one that forgot the rest."""
_MAY_SAY: Final = (*_SAYS, b'"outputs"', b'"risk"', b'"cost"', b'"minTrustLevel"', b'"requiresApproval"')
MAX_DEPTH: Final = 6
MAX_FOLDERS: Final = 100_000
MAX_SKILLS: Final = 50_000
PASSED_OVER: Final = frozenset({"node_modules"})
ENTERED: Final = frozenset({".system"})
"""Dot folders are passed over, but for the one in which Codex keeps the skills it came with."""


@final
class Found(Struct, frozen=True, gc=False):
    """A skill's folder, or something that looked like one and was refused."""

    folder: str
    """Its manifest, where it shares its folder with others."""
    manifest: str
    data: bytes | None
    """None when the manifest still has the signature it is known by, or could not be read."""
    signature: Signature | None
    problem: Diagnostic | None = None
    nothing: bool = False
    """It was looked at, and is no skill; found so that it need not be looked at again."""


@final
class Noted(Struct, frozen=True):
    """Something to say about the root itself."""

    folder: str
    problem: Diagnostic


def discover(
    root: Root, known: Mapping[str, Signature], *, allowlist_required: bool, searched: list[str]
) -> Iterator[Found | Noted]:
    """Everything that looks like a skill below `root`, in a stable order.

    Args:
        known: manifests by path, with the signature under which their content is already known.
        searched: gathers the folders that were looked into and are no skills.
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
        yield from _search(root, [(root.path, 0)], known, searched)
        return
    for name in sorted(set(_folders_named(root.path)) - set(approved.names)):
        problem = _error(
            "not_approved", f"not named in approvedSkills of {allowlist.FILE}, so it was not opened"
        )
        yield Found(os.path.join(root.path, name), MANIFEST, None, None, problem)
    wanted: list[tuple[str, int]] = []
    for name in approved.names:
        folder = os.path.join(root.path, name)
        if not os.path.lexists(folder) and (alone := _approved_file(folder, known)):
            yield alone
        elif os.path.islink(folder):
            yield Found(folder, MANIFEST, None, None, _link(folder))
        elif not os.path.isdir(folder):
            yield Noted(
                folder,
                _warning("approved_missing", f"{allowlist.FILE} names {name!r}, but there is no such folder"),
            )
        else:
            wanted.append((folder, 1))
    searched.append(root.path)
    yield from _search(root, wanted[::-1], known, searched)


def _search(
    root: Root, stack: list[tuple[str, int]], known: Mapping[str, Signature], searched: list[str]
) -> Iterator[Found | Noted]:
    # Installers hard-link files of a distribution; its RECORD vouches for them.
    hard_links = root.kind == "bundled"
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
        listing: list[os.DirEntry[str]] | Diagnostic | None = None
        found = _manifest(folder, known, hard_links=hard_links)
        if found is None:
            listing = _list(folder)
            if isinstance(listing, Diagnostic):
                yield Noted(folder, listing)
                continue
            found = _other_spelling(folder, listing, known, hard_links=hard_links)
        if found is not None:
            skills += 1
            yield found
            if found.problem is None and (depth > 0 or root.kind == "bundled"):
                continue
            listing = _list(
                folder
            )  # a manifest one cannot read, or that makes a skill of a whole root, hides nothing
            if isinstance(listing, Diagnostic):
                continue
            if found.problem is None:
                if hidden := [entry.name for entry in listing if _leads_to_skill(entry.path)]:
                    names = ", ".join(spelled(name) for name in sorted(hidden)[:5])
                    message = (
                        f"this root is itself a skill, so {len(hidden)} below it were not looked at: {names}"
                    )
                    yield Noted(folder, _warning("root_is_skill", message))
                continue
        searched.append(folder)
        if listing:
            for alone in _single_files(folder, listing, known, hard_links=hard_links):
                skills += 1
                yield alone
        below: list[str] = []
        for entry in listing or ():
            each = _entry(entry)
            if isinstance(each, str):
                below.append(each)
            elif each is not None:
                yield each
        if depth >= MAX_DEPTH:
            too_deep += bool(below)
            continue
        below.sort(reverse=True)
        stack.extend((path, depth + 1) for path in below)
    if too_deep:
        message = f"{too_deep} folder(s) go deeper than {MAX_DEPTH} levels and were not searched further"
        yield Noted(root.path, _warning("depth_limit", message))


def _manifest(folder: str, known: Mapping[str, Signature], *, hard_links: bool) -> Found | None:
    """The skill in `folder`, if there is a SKILL.md; not read again where it is known."""
    path = f"{folder}/{MANIFEST}"
    if known and (found := _unchanged(folder, path, known, hard_links=hard_links)):
        return found
    read = read_small(path, most=MAX_BYTES, hard_links=hard_links)
    if not isinstance(read, Diagnostic):
        return Found(folder, MANIFEST, read[0], signature_of(read[1]))
    return None if read.code == "missing" else Found(folder, MANIFEST, None, None, read)


def _other_spelling(
    folder: str, listing: list[os.DirEntry[str]], known: Mapping[str, Signature], *, hard_links: bool
) -> Found | None:
    """The skill in `folder` whose manifest is spelled in another case, or is no Markdown."""
    name = next((entry.name for entry in listing if entry.name.lower() == "skill.md"), None)
    name = name or _first({entry.name for entry in listing} & _OWN_FOLDER) or None
    if name is None:
        return _named_like_its_folder(folder, listing, known, hard_links=hard_links)
    if found := _unchanged(folder, f"{folder}/{name}", known, hard_links=hard_links):
        return found
    read = read_small(f"{folder}/{name}", most=MAX_BYTES, hard_links=hard_links)
    if isinstance(read, Diagnostic):
        return Found(folder, name, None, None, read)
    return Found(folder, name, read[0], signature_of(read[1]))


def _named_like_its_folder(
    folder: str, listing: list[os.DirEntry[str]], known: Mapping[str, Signature], *, hard_links: bool
) -> Found | None:
    """The skill `<id>/<id>.json` with its code beside it: it has the folder for itself, with all that lies there."""
    name, names = f"{os.path.basename(folder)}.json", {entry.name for entry in listing}
    if [name] != [each for each in names if _has_code(each, names)]:
        return None  # others share it
    found = _single_file(f"{folder}/{name}", known, hard_links=hard_links)
    return structs.replace(found, folder=folder) if found is not None else None


def _single_files(
    folder: str, listing: list[os.DirEntry[str]], known: Mapping[str, Signature], *, hard_links: bool
) -> Iterator[Found]:
    """The skills that share `folder`: each a manifest `<id>.json` with the code of the same name beside it, or code that is its
    own manifest."""
    names = {entry.name for entry in listing}
    for name in sorted(names):
        if name.endswith(".json") or _may_be_both(name, names):
            found = _single_file(
                f"{folder}/{name}", known, hard_links=hard_links, alone=not _has_code(name, names)
            )
            if found is not None:
                yield found


def _has_code(name: str, names: Set[str]) -> bool:
    return (
        name.endswith(".json")
        and name != _PACKAGE
        and any(stem_of(name) + ending in names for ending in _CODE)
    )


def _may_be_both(name: str, names: set[str]) -> bool:
    """Whether it may be code that is its own manifest; of TypeScript and what was made of it, the one written by hand."""
    if not name.endswith(_SCRIPT):
        return False
    stem = stem_of(name)
    return f"{stem}.json" not in names and name == next(
        stem + ending for ending in _SCRIPT if stem + ending in names
    )


def _approved_file(stem: str, known: Mapping[str, Signature]) -> Found | None:
    """The single-file skill that an allowlist names."""
    for ending in (".json", *_SCRIPT):
        if os.path.lexists(stem + ending):
            found = _single_file(stem + ending, {} if ending in _SCRIPT else known, hard_links=False)
            return None if found is None or found.nothing else found
    return None


def _single_file(
    path: str, known: Mapping[str, Signature], *, hard_links: bool, alone: bool = False
) -> Found | None:
    """The skill whose manifest lies at `path`; None when that is a file for something else.

    Args:
        alone: whether there is no code beside it, so that only what is certainly a manifest is taken for one.
    """
    name = os.path.basename(path)
    if name == _PACKAGE:
        return None
    if found := _unchanged(path, path, known, hard_links=hard_links):
        return found
    read = read_small(path, most=MAX_BYTES, hard_links=hard_links)
    if isinstance(read, Diagnostic):
        ours = name.endswith(".json") and not alone and read.code not in ("missing", "too_large")
        return Found(path, name, None, None, read) if ours else None
    data, signature = read[0], signature_of(read[1])
    if name.endswith(".json"):
        return Found(path, name, data, signature) if _is_manifest(data, name, alone=alone) else None
    if b"manifest" not in data or b"execute" not in data:
        return None
    from metier.dialects.metahuman import is_code_manifest  # few folders hold code beside skills

    ours = is_code_manifest(data)
    return Found(path, name, data if ours else None, signature, nothing=not ours)


def _is_manifest(data: bytes, name: str, *, alone: bool) -> bool:
    whole = all(word in data for word in _SAYS)
    if whole and not alone:
        return True
    own = re.search(rb'"id"\s*:\s*"' + re.escape(os.fsencode(stem_of(name))) + b'"', data)
    return own is not None and (whole or (not alone and any(word in data for word in _MAY_SAY)))


def _entry(entry: os.DirEntry[str]) -> str | Found | Noted | None:
    """A folder to enter, something to say, or nothing."""
    if (entry.name.startswith(".") and entry.name not in ENTERED) or entry.name in PASSED_OVER:
        return None
    if entry.is_symlink():
        shown = spelled(entry.path)
        if _leads_to_skill(entry.path):
            return Found(shown, MANIFEST, None, None, _link(entry.path))
        return Noted(shown, passed_over(entry.path)) if entry.is_dir() else None
    if not entry.is_dir(follow_symlinks=False):
        return None
    if (shown := spelled(entry.path)) != entry.path:
        return Noted(shown, _warning("not_utf8_name", "this folder's name is not UTF-8; rename it"))
    return entry.path


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
    return Found(folder, path.rpartition("/")[2], None, signature)


def names_in(folder: str) -> frozenset[str]:
    """The names of the plain files that lie in a folder; none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    except OSError:
        return frozenset()


def manifests_among(folder: str, names: Set[str]) -> list[str]:
    """Which of the files of a folder are manifests that can be read without running anything, in order.

    Args:
        names: of the plain files that lie there.
    """
    found = [name for name in names if name.lower() == "skill.md"]
    if not found and (own := _first(names & _OWN_FOLDER)):
        found = [own]
    others = (name for name in names if name.endswith(".json") and name not in _OWN_FOLDER)
    return sorted(
        [
            *found,
            *(
                name
                for name in others
                if _single_file(f"{folder}/{name}", {}, hard_links=False, alone=not _has_code(name, names))
            ),
        ]
    )


def other_manifests(manifest: str, names: Set[str]) -> tuple[Diagnostic, ...]:
    """That a folder's skill is read from one manifest, where there lie others that make a skill of the whole folder.

    Args:
        names: of the plain files that lie there.
    """
    if not _is_of_folder(manifest):
        return ()
    others = sorted(name for name in names if name != manifest and _is_of_folder(name))
    if not others:
        return ()
    message = (
        f"the skill is read from {spelled(manifest)} alone, and {spelled(', '.join(others))} beside it says nothing here, neither"
        " what it offers nor what it forbids; keep one of them"
    )
    return (_warning("other_manifest", message),)


def _first(names: Set[str]) -> str:
    """Which of several counts: a skill before the server that may lie beside it."""
    return min(names, key=lambda name: (name == "mcp_server.json", name), default="")


def _is_of_folder(name: str) -> bool:
    return name.lower() == "skill.md" or name in _OWN_FOLDER


def place_of(folder: str, manifest: str, names: Set[str]) -> str:
    """Where the skill of a manifest lies: the folder, or the manifest itself where others share the folder."""
    if _is_of_folder(manifest) or not _has_code(manifest, names):
        return folder
    alone = [manifest] == [name for name in names if _has_code(name, names)]
    own = alone and stem_of(manifest) == os.path.basename(folder)
    return folder if own else f"{folder}/{manifest}"


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
        f"this folder is a symbolic link to {spelled(os.path.realpath(path))}; add the folder it points to as a root of its own",
    )


def passed_over(path: str) -> Diagnostic:
    """What to say of a link to a folder: it is never followed, and one that leads back to itself would never end."""
    target = os.path.realpath(path)
    if os.path.abspath(path).startswith(target.rstrip(os.sep) + os.sep):
        return _warning("loop", f"this link leads back to {spelled(target)}, a loop; it is not followed")
    message = f"this link leads to {spelled(target)}; links are not followed"
    return Diagnostic(code="link_passed_over", severity="info", message=message)


def _warning(code: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, severity="warning", message=message)


def _error(code: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, severity="error", message=message)
