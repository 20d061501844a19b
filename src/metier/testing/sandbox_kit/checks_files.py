"""Behaviours 35 to 44: environment, working directory, files."""

# ruff: noqa: ASYNC240
# Files of a test, quick to look at.

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from metier.model.job import Place
from metier.testing.sandbox_kit import checks_descriptors
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.checks_time import warm
from metier.testing.sandbox_kit.host_view import nothing_is_seen

SECRET = "metier-kit-secret-b1946ac9"  # noqa: S105  it is meant to be found
STANDARD = frozenset({"HOME", "PATH", "TMPDIR", "METIER_OUT", "LANG", "TZ"})


def place(path: str, *, writable: bool = False) -> Place:
    """A folder as a call would be judged with it."""
    found = os.stat(path)
    return Place(path=path, writable=writable, device=found.st_dev, inode=found.st_ino)


@contextmanager
def planted(folder: str = "") -> Generator[None]:
    """Twenty secrets in the host's own environment; with a folder, the standard variables hold one too."""
    told = dict.fromkeys([f"METIER_KIT_{number}_TOKEN" for number in range(20)], SECRET)
    if folder:
        told |= dict.fromkeys(STANDARD, f"{folder}/{SECRET}")
        told["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{told['PATH']}"
        os.mkdir(told["HOME"])
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


async def the_environment_is_empty_but_for_what_was_granted(bench: Bench) -> None:
    with planted(bench.folder("planted")):
        asked: dict[str, Any] = {"secret": SECRET, "pid": os.getpid()}
        asked["names"] = [*os.environ, "GRANTED", "OTHER", "LD_PRELOAD"]
        control = await bench.control("environment", asked, environment=dict(os.environ))
        planted_there = {name for name, value in control["variables"].items() if SECRET in value}
        bench.prove(len(planted_there) == 20 + len(STANDARD) and planted_there >= STANDARD, control)
        for granted in ({}, {"GRANTED": "yes", "OTHER": "äöü = 1"}):
            said = await bench.value("environment", asked, environment=granted)
            variables = said["variables"]
            own = {name: value for name, value in variables.items() if name not in STANDARD}
            bench.expect("variables", own == granted, variables)
            bench.expect("secrets", SECRET not in str(variables) and said["seen"] == [], said)
            # Where there is a home at all it is the run's own: the folder that is emptied after it.
            home, temporary = variables.get("HOME"), variables.get("TMPDIR")
            bench.expect("home", home == temporary and (home is None or said["home"]), said)


async def the_working_directory_is_the_granted_one(bench: Bench) -> None:
    outside = bench.folder("outside")
    await bench.control("here", {"name": "made"}, cwd=outside)
    bench.prove("made" in os.listdir(outside), os.listdir(outside))
    folders = [bench.folder("work") for _ in range(2)]
    for number, folder in enumerate((*folders, folders[0])):
        granted = (place(folder, writable=True),)
        said = await bench.value("here", {"name": f"made{number}"}, places=granted, cwd=folder)
        bench.expect("there", f"made{number}" in os.listdir(folder), said)
    found = [sorted(os.listdir(folder)) for folder in folders]
    bench.expect("apart", found == [["made0", "made2"], ["made1"]], found)
    below = os.path.join(folders[1], "below")
    os.mkdir(below)
    await bench.value("here", {"name": "deep"}, places=(place(folders[1], writable=True),), cwd=below)
    bench.expect("below", os.listdir(below) == ["deep"], os.listdir(below))


async def a_swapped_work_folder_is_refused(bench: Bench) -> None:
    """Between the judging and the run, and between two runs."""
    for before in (False, True):
        for other in ("link", "folder"):
            work, evil = bench.folder("work"), bench.folder("evil")
            bench.file(evil, "secret", SECRET)
            granted = (place(work, writable=True),)
            if before:
                await bench.value("here", {}, places=granted, cwd=work)
            os.rename(work, work + ".old")
            if other == "link":
                os.symlink(evil, work)
            else:
                shutil.copytree(evil, work)
            await _lured(bench, work, evil if other == "link" else work)
            report = await bench.run("here", {"name": "made"}, places=granted, cwd=work)
            bench.expect("refused", report.ending == "not_started", report)
            bench.expect("untouched", os.listdir(evil) == ["secret"], os.listdir(evil))
            bench.expect("unseen", "secret" not in str(bench.guest.said(report)), report)


async def _lured(bench: Bench, work: str, there: str) -> None:
    """Whoever is not held back writes into what took the folder's place."""
    await bench.control("here", {"name": "lured"}, cwd=work)
    lured = os.path.join(there, "lured")
    bench.prove(os.path.exists(lured), f"{lured} was not written")
    for name in os.listdir(there):
        if name != "secret":
            os.unlink(os.path.join(there, name))


def _outside(bench: Bench) -> str:
    """A file with a secret in a folder that nobody was granted."""
    folder = bench.folder("outside")
    for name in ("movable", "removable"):
        bench.file(folder, name, SECRET)
    bench.file(folder, "data.json", "{}")
    return bench.file(folder, "secret.py", f"SECRET = {SECRET!r}\n")


async def no_host_file_can_be_read_or_listed(bench: Bench) -> None:
    with planted():
        file = _outside(bench)
        asked: dict[str, Any] = {"file": file, "secret": SECRET, "pid": os.getpid()}
        asked["home"] = os.path.dirname(os.path.dirname(file))
        asked["names"] = os.listdir(asked["home"])
        outside = {**asked, "file": _outside(bench)}
        told = await bench.control("exists", {"file": outside["file"]})
        bench.prove(bool(told["did"]), told)
        await bench.attack("read_outside", asked, outside)
        await nothing_is_seen(bench, os.path.dirname(file))
    left = sorted(os.listdir(os.path.dirname(file)))
    bench.expect("unchanged", left == ["data.json", "movable", "removable", "secret.py"], left)
    missing = {"file": os.path.join(os.path.dirname(file), "nothing")}
    here = await bench.value("exists", {"file": file})
    there = await bench.value("exists", missing)
    bench.expect("existence", here["did"] == there["did"] == [], [here, there])


def _granted_with_links(bench: Bench, file: str) -> str:
    inside = bench.folder("granted")
    os.symlink(file, f"{inside}/shipped_file")
    os.symlink(os.path.dirname(file), f"{inside}/shipped_folder")
    os.symlink(os.path.join(os.path.dirname(file), "missing"), f"{inside}/shipped_missing")
    return inside


async def links_in_a_granted_folder_lead_nowhere(bench: Bench) -> None:
    file = _outside(bench)
    control = _outside(bench)
    inside = _granted_with_links(bench, file)
    outside = {"inside": _granted_with_links(bench, control), "file": control, "secret": SECRET}
    asked = {"inside": inside, "file": file, "secret": SECRET}
    await bench.attack("links", asked, outside, places=(place(inside, writable=True),), cwd=inside)
    left = sorted(os.listdir(os.path.dirname(file)))
    bench.expect("unchanged", left == ["data.json", "movable", "removable", "secret.py"], left)


def _state(path: str) -> tuple[object, ...]:
    found = os.stat(path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    attributes = [name for name in os.listxattr(path) if name.startswith("user.")]
    return text, found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns, found.st_nlink, attributes


async def a_read_only_grant_refuses_every_change(bench: Bench) -> None:
    granted, writable = bench.folder("granted"), bench.folder("writable")
    file = bench.file(granted, "SKILL.md", "as it was")
    os.mkdir(os.path.join(granted, "hooks"))
    hook = bench.file(os.path.join(granted, "hooks"), "pre-commit", "as it was")
    control = bench.file(bench.folder("control"), "file", "as it was")
    said = await bench.control("change", {"file": control, "writable": bench.folder("control")})
    bench.prove(bench.certain("change") <= set(said["did"]), said)
    places = (place(granted), place(writable, writable=True))
    for each in (file, hook):
        before = _state(each)
        await bench.value("change", {"file": each, "writable": writable}, places=places)
        bench.expect("unchanged", os.path.exists(each) and _state(each) == before, each)
    names = sorted(os.listdir(granted)) + sorted(os.listdir(os.path.join(granted, "hooks")))
    bench.expect("nothing_made", names == ["SKILL.md", "hooks", "pre-commit"], names)
    bench.expect("no_link", "linked" not in os.listdir(writable), os.listdir(writable))
    for own in ("bundle", "packages"):
        await _own_files_stay(bench, own)


async def _own_files_stay(bench: Bench, own: str) -> None:
    """A skill's own folder is granted to nobody, and every run of it has it: as little is changed there."""
    folder, bundle = bench.folder("own"), bench.folder("bundle")
    more: dict[str, Any] = {"packages": (folder,)} if own == "packages" else {}
    bundle = bundle if more else folder
    files = [bench.file(folder, "SKILL.md", "as it was")]
    os.mkdir(os.path.join(folder, "hooks"))
    files.append(bench.file(os.path.join(folder, "hooks"), "pre-commit", "as it was"))
    for each in files:
        prepared = bench.guest.prepare("change", {"file": each, "writable": ""}, bundle, at_load=True)
        names, before = _names(folder), _state(each)
        report = await bench.sandbox.run(bench.job(replace(prepared, bundle=bundle), **more))
        bench.need("change runs", report.ending == "returned", report)
        bench.expect(f"own_{own}", os.path.exists(each) and _state(each) == before, each)
        bench.expect(f"own_{own}", _names(folder) == names, _names(folder))


def _names(folder: str) -> list[str]:
    return sorted(os.path.join(top, name) for top, _, files in os.walk(folder) for name in files)


async def metadata_outside_the_grant_cannot_be_changed(bench: Bench) -> None:
    control = bench.file(bench.folder("control"), "file", "as it was")
    before = _state(control)
    await bench.control("change", {"file": control, "writable": ""})
    bench.prove(not os.path.exists(control) or _state(control) != before, "nothing changed")
    folder = bench.folder("outside")
    file = bench.file(folder, "file", "as it was")
    mode = os.stat(folder).st_mode
    before = _state(file)
    await bench.value("change", {"file": file, "writable": ""})
    bench.expect("unchanged", os.path.exists(file) and _state(file) == before, file)
    bench.expect(
        "folder", os.listdir(folder) == ["file"] and os.stat(folder).st_mode == mode, os.listdir(folder)
    )


async def no_mount_point_lies_under_a_writable_folder(bench: Bench) -> None:
    """A link planted where a mount point might be made must not lead the one who makes it out to the host."""
    outside, lured = bench.folder("outside"), bench.folder("work")
    os.symlink(outside, os.path.join(lured, "d"))
    os.makedirs(os.path.join(lured, "d", "made"))
    bench.prove(os.listdir(outside) == ["made"], os.listdir(outside))
    os.rmdir(os.path.join(outside, "made"))
    for target in (f"/oldroot{outside}", f"/newroot{outside}", outside):
        for writable in (False, True):
            work = bench.folder("work")
            os.symlink(target, os.path.join(work, "d"))
            inner = Place(path=os.path.join(work, "d", "made"), writable=not writable)
            report = await bench.run("here", {}, places=(place(work, writable=writable), inner), cwd=work)
            bench.expect("refused", writable or report.ending == "not_started", report)
            bench.expect("nothing_made", os.listdir(outside) == [], os.listdir(outside))
    work = bench.folder("work")
    inner = os.path.join(work, "inner")
    os.mkdir(inner)
    places = (place(work), place(inner, writable=True))
    report = await bench.run("here", {"name": "made"}, places=places, cwd=inner)
    bench.expect("inner", report.ending == "returned" and os.listdir(inner) == ["made"], report)
    report = await bench.run("here", {"name": "made"}, places=places, cwd=work)
    bench.expect("outer", not os.path.exists(f"{work}/made"), report)


async def proc_sys_and_dev_are_minimal(bench: Bench) -> None:
    asked: dict[str, Any] = {"pid": os.getpid(), "disk": _disk()}
    await bench.attack_outside("devices", asked)
    await warm(bench)
    await bench.attack_inside("devices", asked)


def _disk() -> str:
    """The device the host's own files lie on, where there is such a thing."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        found = [line.split()[0] for line in file if line.split()[1] == "/"]
    return found[0] if found and found[0].startswith("/dev/") else "/dev/sda"


BEHAVIOURS = (
    behaviour(35, the_environment_is_empty_but_for_what_was_granted, "JS-04 WASM-15", "contents"),
    behaviour(36, the_working_directory_is_the_granted_one, "LNX-16"),
    behaviour(37, a_swapped_work_folder_is_refused, "LNX-16", "contents"),
    behaviour(38, no_host_file_can_be_read_or_listed, "JS-08 PY-02 WASM-01", "contents existence"),
    behaviour(39, links_in_a_granted_folder_lead_nowhere, "JS-01 JS-02 WASM-01 WASM-02 WASM-04", "contents"),
    behaviour(40, a_read_only_grant_refuses_every_change, "WASM-03 LNX-13", "contents metadata"),
    behaviour(41, metadata_outside_the_grant_cannot_be_changed, "LNX-13", "metadata"),
    behaviour(42, no_mount_point_lies_under_a_writable_folder, "LNX-01", "contents"),
    *checks_descriptors.BEHAVIOURS,
    behaviour(44, proc_sys_and_dev_are_minimal, "LNX-10", "no_privilege"),
)
