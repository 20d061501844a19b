"""Attacks on the walls themselves, by case; most are behaviours of the contract kit."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from jobs import shell
from kit_backends import (
    bubblewrap_native,
    bubblewrap_python,
    bubblewrap_straight,
    holds,
    landlock_native,
    landlock_python,
)
from metier.model.entry import Command
from metier.model.job import Place, Report
from metier.sandbox import bwrap_line
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox
from metier.sandbox.wall import Wall, WallError
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.backend import Backend
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.guest import Prepared

SHELL = os.path.realpath("/bin/sh")
Make = Callable[[], Backend]
# One of each wall; `test_kit_*.py` tries every behaviour on every backend.
walls = pytest.mark.parametrize("make", [bubblewrap_straight, landlock_native])
languages = pytest.mark.parametrize("make", [bubblewrap_python, landlock_native])
everywhere = pytest.mark.parametrize("make", [bubblewrap_native, landlock_python])


def run(make: Make, folder: Path, argv: tuple[str, ...]) -> Report:
    """A program of the machine, found as a declared binary is."""
    program = shutil.which(argv[0], path="/usr/bin:/bin")
    assert program is not None
    real = os.path.realpath(program)

    async def body() -> Report:
        backend = make()
        opened = backend.open(str(folder))
        try:
            bench = Bench(opened.sandbox, backend, str(folder))
            binaries = {argv[0]: real}
            return await opened.sandbox.run(bench.job(Prepared(entry=Command(argv=argv), binaries=binaries)))
        finally:
            await opened.aclose()

    return anyio.run(body)


@everywhere
def test_lnx_01_no_mount_point_lies_in_a_folder_the_skill_can_write(make: Make, tmp_path: Path) -> None:
    holds(42, make, tmp_path)


def test_lnx_01_the_temporary_folder_is_never_above_a_granted_one() -> None:
    first = bwrap_line.TEMPORARY[0]
    assert bwrap_line.temporary_for([Place(path=f"{first}/granted")]) != first
    with pytest.raises(WallError):
        bwrap_line.temporary_for([Place(path=f"{each}/x") for each in bwrap_line.TEMPORARY])


@pytest.mark.parametrize("make", [bubblewrap_native, bubblewrap_python, landlock_native])
def test_lnx_02_what_is_missing_refuses_the_job_and_is_named(make: Make, tmp_path: Path) -> None:
    assert make().without
    holds(1, make, tmp_path)


def test_lnx_02_without_bubblewrap_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bwrap_line, "WHERE", ("/nowhere/bwrap",))
    report = run(bubblewrap_straight, tmp_path, ("touch", str(tmp_path / "made")))
    assert report.ending == "not_started"
    assert report.fault is not None
    assert "bubblewrap" in report.fault.message
    assert not (tmp_path / "made").exists()


@everywhere
def test_lnx_02_what_is_promised_is_what_the_kit_proves(make: Make, tmp_path: Path) -> None:
    holds(2, make, tmp_path)


def test_lnx_03_bubblewrap_is_not_taken_from_a_folder_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "bwrap"
    planted.write_text("#!/bin/sh\ntouch planted\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ.get('PATH', '')}")
    monkeypatch.chdir(tmp_path)
    assert bwrap_line.find() in (None, *bwrap_line.WHERE)
    planted.chmod(0o777)
    monkeypatch.setattr(bwrap_line, "WHERE", (str(planted),))
    assert bwrap_line.find() is None


@everywhere
def test_lnx_04_arguments_never_become_options_of_the_sandbox(make: Make, tmp_path: Path) -> None:
    holds(4, make, tmp_path)


def test_lnx_04_the_line_of_bubblewrap_ends_its_options_before_the_command(tmp_path: Path) -> None:
    """Looked at while it runs, as the kernel has it."""
    # By its own name: under another it would be started by a supervisor.
    own = os.path.basename(SHELL)
    command = (own, "-c", "sleep 20", "--bind", "/", "/", "--", "--share-net")
    lines: list[list[str]] = []

    async def watch(scope: anyio.CancelScope) -> None:
        with anyio.move_on_after(10):
            while not lines:
                await anyio.sleep(0.02)
                lines.extend(each for each in _lines() if each[0].endswith("/bwrap") and command[2] in each)
        scope.cancel()

    async def body() -> None:
        backend = bubblewrap_straight()
        opened = backend.open(str(tmp_path))
        try:
            bench = Bench(opened.sandbox, backend, str(tmp_path))
            prepared = Prepared(entry=Command(argv=command), binaries={own: SHELL})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch, tasks.cancel_scope)
                await opened.sandbox.run(bench.job(prepared))
        finally:
            await opened.aclose()

    anyio.run(body)
    at = lines[0].index("--")
    assert lines[0][at + 1 :] == [SHELL, *command[1:]]
    assert not {"--share-net", "/bin/sh"} & set(lines[0][:at])


def _lines() -> list[list[str]]:
    """The command lines of everything we started."""
    found: list[list[str]] = []
    for pid in leftovers.below(os.getpid()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        except OSError:
            continue
        if words:
            found.append(words)
    return found


@walls
def test_lnx_05_no_terminal_is_reachable_even_when_the_host_has_one(make: Make, tmp_path: Path) -> None:
    holds(52, make, tmp_path)


@everywhere
def test_lnx_06_only_the_standard_descriptors_are_open(make: Make, tmp_path: Path) -> None:
    holds(43, make, tmp_path)


@walls
def test_lnx_07_the_host_cannot_be_signalled_traced_or_read(make: Make, tmp_path: Path) -> None:
    holds(51, make, tmp_path)


@everywhere
def test_lnx_08_no_privilege_is_left_and_setuid_programs_gain_none(make: Make, tmp_path: Path) -> None:
    holds(49, make, tmp_path)


@walls
def test_lnx_09_dangerous_and_unknown_system_calls_are_refused(make: Make, tmp_path: Path) -> None:
    holds(50, make, tmp_path)


@walls
def test_lnx_10_proc_sys_and_dev_show_nothing_of_the_machine(make: Make, tmp_path: Path) -> None:
    holds(44, make, tmp_path)


@walls
def test_lnx_11_no_unix_socket_is_reached_by_name_or_by_path(make: Make, tmp_path: Path) -> None:
    holds(48, make, tmp_path)


@walls
def test_lnx_12_no_network_of_any_family_is_reached(make: Make, tmp_path: Path) -> None:
    holds(47, make, tmp_path)


@pytest.mark.parametrize(
    "argv",
    [
        ("curl", "-sS", "--max-time", "2", "http://127.0.0.1:{port}/"),
        ("wget", "-T", "2", "-t", "1", "-O", "-", "http://127.0.0.1:{port}/"),
        ("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/{port}"),
        ("bash", "-c", "echo out > /dev/udp/127.0.0.1/{port}"),
        ("perl", "-MIO::Socket", "-e", "exit(IO::Socket::INET->new('127.0.0.1:{port}') ? 0 : 1)"),
    ],
    ids=lambda argv: f"{argv[0]}-{argv[-1][:20]}",
)
def test_lnx_12_the_usual_clients_reach_nothing(
    argv: tuple[str, ...], tmp_path: Path, listen: Callable[..., object]
) -> None:
    if shutil.which(argv[0], path="/usr/bin:/bin") is None:
        pytest.skip(f"{argv[0]} is not on this machine")
    listener = listen()
    port = listener.port  # type: ignore[attr-defined]
    line = tuple(each.format(port=port) for each in argv)
    assert subprocess.run(line, capture_output=True, timeout=10).returncode == 0, (
        "it cannot even be done outside"
    )
    report = run(bubblewrap_straight, tmp_path, line)
    assert report.ending == "exited", report


@everywhere
def test_lnx_13_what_is_only_readable_stays_as_it_is(make: Make, tmp_path: Path) -> None:
    holds(40, make, tmp_path)


@everywhere
def test_lnx_13_mode_owner_and_times_outside_stay_as_they_are(make: Make, tmp_path: Path) -> None:
    holds(41, make, tmp_path)


@pytest.mark.slow
@languages
def test_lnx_14_a_host_that_is_killed_leaves_no_guest(make: Make, tmp_path: Path) -> None:
    holds(25, make, tmp_path)


@languages
def test_lnx_15_a_neighbour_cannot_be_seen_signalled_or_traced(make: Make, tmp_path: Path) -> None:
    holds(51, make, tmp_path)


@languages
def test_lnx_15_nothing_is_left_for_the_next_run(make: Make, tmp_path: Path) -> None:
    holds(46, make, tmp_path)


@everywhere
def test_lnx_16_a_work_folder_that_was_replaced_is_refused(make: Make, tmp_path: Path) -> None:
    holds(37, make, tmp_path)


@everywhere
def test_lnx_18_code_made_at_run_time_meets_the_same_walls(make: Make, tmp_path: Path) -> None:
    holds(53, make, tmp_path)


@pytest.mark.parametrize("wall", [Bubblewrap, Landlock])
def test_lnx_18_an_interpreter_that_a_skill_brings_reads_what_the_skill_may_and_no_more(
    wall: Callable[[], Wall], tmp_path: Path
) -> None:
    skill = Path(os.path.realpath(tmp_path)) / "skill"
    skill.mkdir()
    (skill / "its_own").write_text("own\n")
    (tmp_path / "secret").write_text("secret\n")
    shutil.copy(os.path.realpath("/bin/cat"), skill / "interp")
    for name, file in (("allowed", skill / "its_own"), ("forbidden", skill.parent / "secret")):
        (skill / name).write_text(f"#!{skill}/interp {file}\n")
    for name in ("interp", "allowed", "forbidden"):
        (skill / name).chmod(0o755)
    outside = subprocess.run([skill / "forbidden"], capture_output=True, text=True)
    assert outside.stdout.startswith("secret\n")

    async def both() -> Report:
        behind = wall()
        sandbox = NativeSandbox(behind)
        try:
            return await sandbox.run(shell(f"{skill}/allowed; {skill}/forbidden", bundle=str(skill)))
        finally:
            await sandbox.aclose()
            await behind.aclose()

    report = anyio.run(both)
    assert report.stdout.startswith("own\n"), report  # it does run
    assert f"{skill}/interp" in report.stdout.partition("own\n")[2], report
    assert "secret\n" not in report.stdout.splitlines(keepends=True), report
