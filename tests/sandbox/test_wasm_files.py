"""Which files of the host a WASM run reaches: the granted ones, as granted, and nothing else."""

import os
import shutil
import time
from pathlib import Path

import pytest

from metier.model.job import Place
from metier.sandbox import wasm_wasi
from wasm_guests import OPENED, Bench, imported, numbers_of, open_step, program, read_step, wat, write_step

PERM = 63
CREATE = 1
FOLDER = 2
WRITE = 64


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def place(path: Path, *, writable: bool = False) -> Place:
    found = path.stat()
    return Place(path=str(path), writable=writable, device=found.st_dev, inode=found.st_ino)


def layout(base: Path) -> Path:
    """A folder to grant, with a secret beside it and links to that in it."""
    inside = base / "pre"
    (inside / "sub").mkdir(parents=True)
    (base / "secret").write_text("the secret")
    (inside / "in").write_text("inside")
    for name, target in {
        "rel": "../secret",
        "abs": f"{base}/secret",
        "up": "..",
        "reltrail": "../secret/",
        "uptrail": "../",
        "procroot": "/proc/self/root",
    }.items():
        (inside / name).symlink_to(target)
    return inside


def spellings(base: Path) -> list[bytes]:
    texts = [
        "../secret",
        "sub/../../secret",
        "/secret",
        f"{base}/secret",
        "rel",
        "rel/",
        "abs",
        "abs/",
        "up/secret",
    ]
    texts += ["up//secret", "uptrail/secret", "uptrail//secret", "reltrail", "reltrail/", "sub/../../secret/"]
    texts += [
        "procroot/etc/hostname",
        "./../secret",
        "sub/..//../secret",
        "in\0../secret",
        "..",
        "../",
        "up",
        "up/",
    ]
    return [text.encode() for text in [*texts, "uptrail/"]]


@pytest.mark.parametrize("writable", [False, True])
def test_wasm_01_no_spelling_of_a_path_leaves_the_folder(
    bench: Bench, tmp_path: Path, writable: bool
) -> None:
    base = tmp_path / "base"
    inside = layout(base)
    tries = spellings(base)
    assert len(tries) == 24
    report = bench.steps(
        open_step(3, b"in"),
        *(open_step(3, path) for path in tries),
        places=(place(inside, writable=writable),),
    )
    first, *others = numbers_of(report, 25)
    assert first == 0
    assert all(number in (PERM, 28) for number in others), others
    assert (inside / "rel").read_text() == "the secret"  # the host itself gets there


def test_wasm_01_what_is_granted_is_read(bench: Bench, tmp_path: Path) -> None:
    report = bench.steps(open_step(3, b"in"), read_step(), places=(place(layout(tmp_path / "base")),))
    assert report.stdout == "\0\0inside"


def test_wasm_01_whether_a_file_outside_exists_stays_hidden(bench: Bench, tmp_path: Path) -> None:
    inside = layout(tmp_path / "base")
    (inside / "gone").symlink_to("../nothing")
    tries = [b"rel", b"gone", b"../secret", b"../nothing", b"/etc/passwd", b"/etc/nothing"]
    report = bench.steps(*(open_step(3, path) for path in tries), places=(place(inside),))
    assert len(set(numbers_of(report, len(tries)))) == 1


def test_wasm_02_trailing_slashes_do_not_open_a_link(bench: Bench, tmp_path: Path) -> None:
    inside = layout(tmp_path / "base")
    tries = [b"rel/", b"abs/", b"reltrail/", b"up/", b"uptrail/", b"up/secret/", b"rel//", b"up/."]
    steps = [open_step(3, path) for path in tries] + [open_step(3, path, FOLDER) for path in tries]
    steps.append(("path_filestat_get", 3, 1, b"rel/", 256))
    # The descriptor is the folder, and a slash at the end opens what is a folder.
    allowed = [open_step(3, b"in"), open_step(3, b"sub/", FOLDER), ("path_filestat_get", 3, 1, b"sub/", 256)]
    report = bench.steps(*allowed, *steps, places=(place(inside, writable=True),))
    numbers = numbers_of(report, len(allowed) + len(steps))
    assert numbers[: len(allowed)] == [0, 0, 0]
    assert all(numbers[len(allowed) :])
    assert (inside / "up" / "secret").read_text() == "the secret"  # the host itself gets there


def test_wasm_03_nothing_moves_from_a_read_only_folder_to_a_writable_one(
    bench: Bench, tmp_path: Path
) -> None:
    fixed, free = tmp_path / "fixed", tmp_path / "free"
    fixed.mkdir()
    free.mkdir()
    (fixed / "in").write_text("as it was")
    (free / "mine").write_text("mine")
    before = (fixed / "in").stat()
    steps = [
        ("path_link", 3, 0, b"in", 4, b"linked"),
        ("path_rename", 3, b"in", 4, b"moved"),
        ("path_link", 4, 0, b"mine", 3, b"back"),
        ("path_rename", 4, b"mine", 3, b"back"),
        ("path_rename", 4, b"mine", 3, b"in"),
        ("path_unlink_file", 3, b"in"),
        ("path_create_directory", 3, b"new"),
        ("path_symlink", b"in", 3, b"link"),
        ("path_filestat_set_times", 3, 0, b"in", 1, 1, 5),
        open_step(3, b"in", 0, WRITE),
        open_step(3, b"in", 8, 2 | WRITE),
        open_step(3, b"made", CREATE, WRITE),
    ]
    report = bench.steps(*steps, open_step(4, b"linked"), places=(place(fixed), place(free, writable=True)))
    assert all(numbers_of(report, len(steps) + 1))
    after = (fixed / "in").stat()
    assert (fixed / "in").read_text() == "as it was"
    assert (after.st_mtime_ns, after.st_nlink, after.st_size) == (
        before.st_mtime_ns,
        before.st_nlink,
        before.st_size,
    )
    assert os.listdir(fixed) == ["in"]
    assert os.listdir(free) == ["mine"]


def test_wasm_03_the_same_acts_succeed_within_a_writable_folder(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "free").mkdir()
    (tmp_path / "free" / "in").write_text("x")
    report = bench.steps(
        ("path_link", 3, 0, b"in", 3, b"linked"),
        ("path_rename", 3, b"in", 3, b"moved"),
        ("path_create_directory", 3, b"new"),
        open_step(3, b"made", CREATE, WRITE),
        write_step(5),
        places=(place(tmp_path / "free", writable=True),),
    )
    assert numbers_of(report, 5) == [0] * 5
    assert sorted(os.listdir(tmp_path / "free")) == ["linked", "made", "moved", "new"]
    assert (tmp_path / "free" / "made").stat().st_size == 5


@pytest.mark.parametrize("target", ["outside", "../outside", "sub/../../outside"])
def test_wasm_04_a_file_is_not_made_through_a_link_outwards(
    bench: Bench, tmp_path: Path, target: str
) -> None:
    free = tmp_path / "free"
    (free / "sub").mkdir(parents=True)
    (free / "out").symlink_to(f"{tmp_path}/outside" if target == "outside" else target)
    steps = [open_step(3, b"out", CREATE, WRITE), open_step(3, b"out", CREATE | 8, WRITE)]
    assert numbers_of(bench.steps(*steps, places=(place(free, writable=True),)), 2) == [PERM, PERM]
    assert not (tmp_path / "outside").exists()


def test_wasm_04_a_link_made_inside_leads_nowhere_either(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "free").mkdir()
    (tmp_path / "secret").write_text("the secret")
    report = bench.steps(
        ("path_symlink", b"../secret", 3, b"link"),
        open_step(3, b"link"),
        places=(place(tmp_path / "free", writable=True),),
    )
    assert numbers_of(report, 2)[1] == PERM


def test_wasm_15_arguments_and_environment_are_what_was_granted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        monkeypatch.setenv(f"PLANTED_{number}", "a secret")
    sizes = wat(f"""(module {imported("environ_sizes_get", "environ_get", "args_sizes_get", "args_get", "fd_write")}
        (memory (export "memory") 1)
        (func $print (param i32 i32)
            (i32.store (i32.const 0) (local.get 0)) (i32.store (i32.const 4) (local.get 1))
            (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 8))))
        (func (export "_start")
            (drop (call $environ_sizes_get (i32.const 16) (i32.const 20)))
            (drop (call $environ_get (i32.const 1024) (i32.const 4096)))
            (drop (call $args_sizes_get (i32.const 24) (i32.const 28)))
            (drop (call $args_get (i32.const 8192) (i32.const 12288)))
            (call $print (i32.const 4096) (i32.load (i32.const 20)))
            (call $print (i32.const 12288) (i32.load (i32.const 28)))))""")
    report = bench.run(sizes, environment={"CITY": "Köln", "A": "1"})
    assert report.stderr == "A=1\0CITY=Köln\0m.wasm\0"


def test_wasm_15_stdin_ends_and_random_numbers_differ(bench: Bench) -> None:
    report = bench.steps(("fd_read", 0, 16, 1, 24, 100), ("fd_read", 0, 16, 1, 24, 100))
    assert report.stdout == "\0\0"
    random = wat(f"""(module {imported("random_get")} (memory (export "memory") 1)
        (func (export "f") (result i32) (drop (call $random_get (i32.const 0) (i32.const 4))) (i32.load (i32.const 0))))""")
    assert len({bench.run(random, "f").value for _ in range(4)}) > 1


def test_wasm_15_clocks_tell_no_more_than_their_resolution(bench: Bench) -> None:
    clock = wat(f"""(module {imported("clock_res_get")} (memory (export "memory") 1)
        (func (export "f") (param i32) (result i32 i64)
            (call $clock_res_get (local.get 0) (i32.const 0)) (i64.load (i32.const 0))))""")
    for known in (0, 1):
        error, resolution = bench.run(clock, "f", {"clock": known}).value
        assert error == 0
        assert resolution >= 1
    # The processor time of the host is nobody's business.
    assert bench.run(clock, "f", {"clock": 2}).value[0] != 0


def test_a_run_sees_its_skill_and_an_empty_folder_of_its_own(bench: Bench) -> None:
    (bench.bundle / "data.txt").write_text("data")
    # Descriptors: 3 the bundle, 4 /skill, 5 /tmp, 6 the start.
    module = bench.write(
        program(
            open_step(4, b"data.txt"),
            read_step(),
            open_step(4, b"data.txt", 0, WRITE),
            open_step(5, b"note", 0, 2),
            open_step(5, b"note", CREATE, WRITE),
            open_step(6, b"note"),
            ("fd_prestat_get", 7, 256),
        )
    )
    job = bench.job(module)

    async def twice(sandbox):  # type: ignore[no-untyped-def]
        return [await sandbox.run(job), await sandbox.run(job)]

    for report in bench.using(twice):
        assert [ord(sign) for sign in report.stdout[:7]] == [0, 0, PERM, 44, 0, 0, 8]
        assert report.stdout[7:] == "data"
    assert sorted(os.listdir(bench.bundle)) == ["data.txt", "m.wasm"]


def test_relative_paths_start_in_the_working_directory(bench: Bench, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    (work / "deep" / "here").write_text("here")
    # 3 the place, 4 and 5 the skill, 6 /tmp, 7 the start.
    module = bench.write(program(open_step(7, b"here"), read_step(), open_step(7, b"../deep/here")))
    report = bench.run(module, places=(place(work),), cwd=str(work / "deep"))
    assert report.stdout[:3] == f"\0\0{chr(PERM)}"
    assert report.stdout[3:] == "here"


def test_a_working_directory_outside_the_grants_refuses_the_run(bench: Bench, tmp_path: Path) -> None:
    module = bench.write(program(open_step(3, b"x")))
    (tmp_path / "work").mkdir()
    assert bench.run(module, cwd=str(tmp_path)).ending == "not_started"
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    granted = (place(tmp_path / "work"),)
    assert bench.run(module, places=granted, cwd=f"{tmp_path}/work/link").ending == "not_started"


def test_a_folder_swapped_after_the_call_was_judged_refuses_the_run(bench: Bench, tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    judged = place(work)
    step = open_step(3, b"x", CREATE, WRITE)
    shutil.rmtree(work)
    work.symlink_to(other)
    assert bench.steps(step, places=(judged,)).ending == "not_started"
    work.unlink()
    work.mkdir()
    swapped = (
        judged if work.stat().st_ino != judged.inode else Place(path=str(work), device=judged.device, inode=1)
    )
    report = bench.steps(step, places=(swapped,))
    assert report.ending == "not_started"
    assert "replaced" in report.fault.message  # type: ignore[union-attr]


def test_a_file_that_may_be_read_is_shown_alone_at_its_path(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("this one")
    (tmp_path / "two").write_text("not this one")
    report = bench.steps(
        open_step(3, b"one"), read_step(), open_step(3, b"two"), open_step(3, b"one", 0, WRITE),
        places=(place(tmp_path / "one"),),
    )  # fmt: skip
    assert report.stdout == f"\0\0{chr(44)}{chr(PERM)}this one"


def test_a_file_to_write_refuses_the_run_and_says_what_to_grant(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("x")
    report = bench.steps(open_step(3, b"one"), places=(place(tmp_path / "one", writable=True),))
    assert report.ending == "not_started"
    assert "grant its folder" in report.fault.message  # type: ignore[union-attr]


def test_a_folder_to_write_that_reaches_our_machine_code_refuses_the_run(
    bench: Bench, tmp_path: Path
) -> None:
    module = bench.write(program(open_step(3, b"x")))
    bench.cache.mkdir(mode=0o700)
    (bench.cache / "below").mkdir()
    for reaching in (tmp_path, bench.cache, bench.cache / "below"):
        assert bench.run(module, places=(place(reaching, writable=True),)).ending == "not_started"
    (tmp_path / "elsewhere").mkdir()
    # Printing error numbers is not JSON, but it ran.
    assert bench.run(module, places=(place(tmp_path / "elsewhere", writable=True),)).ending == "bad_result"


def test_res_11_descriptors_are_bounded_and_come_back(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "free").mkdir()
    (tmp_path / "free" / "x").write_text("x")
    many = open_step(3, b"x")
    opening = [many] * (wasm_wasi.OPEN_FILES + 2)
    numbers = numbers_of(bench.steps(*opening, places=(place(tmp_path / "free"),)), len(opening))
    assert numbers == [0] * wasm_wasi.OPEN_FILES + [33, 33]
    closing = [many, ("fd_close", OPENED)] * wasm_wasi.OPEN_FILES
    assert not any(
        numbers_of(bench.steps(*closing, *closing, places=(place(tmp_path / "free"),)), 2 * len(closing))
    )


def test_res_10_writing_is_bounded(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wasm_wasi, "DISK_BYTES", 100_000)
    (tmp_path / "free").mkdir()
    write = write_step(30_000)
    steps = [open_step(3, b"big", CREATE, WRITE), write, write, write, write, write]
    report = bench.steps(*steps, places=(place(tmp_path / "free", writable=True),))
    assert numbers_of(report, 6) == [0, 0, 0, 0, 51, 51]
    assert (tmp_path / "free" / "big").stat().st_size == 90_000


def test_res_10_a_run_that_fails_for_want_of_disk_says_so(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wasm_wasi, "DISK_BYTES", 10)
    module = wat(f"""(module {imported("path_open", "fd_write")} (memory (export "memory") 1) (data (i32.const 64) "f")
        (func (export "f")
            (drop (call $path_open (i32.const 5) (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 1)
                (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 8)))
            (i32.store (i32.const 20) (i32.const 1000))
            (if (call $fd_write (i32.load (i32.const 8)) (i32.const 16) (i32.const 1) (i32.const 24))
                (then unreachable))))""")
    assert bench.run(module, "f").ending == "out_of_disk"


def test_res_10_the_number_of_files_and_the_size_of_a_hole_are_bounded(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wasm_wasi, "ENTRIES", 3)
    (tmp_path / "free").mkdir()
    steps = [
        open_step(3, b"a", CREATE, READ_WRITE),
        ("fd_filestat_set_size", OPENED, 1 << 20),
        ("fd_filestat_set_size", OPENED, 1 << 40),
        ("path_create_directory", 3, b"b"),
        ("path_symlink", b"a", 3, b"c"),
        ("path_create_directory", 3, b"d"),
        open_step(3, b"e", CREATE, WRITE),
        ("path_link", 3, 0, b"a", 3, b"f"),
    ]
    report = bench.steps(*steps, places=(place(tmp_path / "free", writable=True),))
    assert numbers_of(report, 8) == [0, 0, 22, 0, 0, 51, 51, 51]
    assert sorted(os.listdir(tmp_path / "free")) == ["a", "b", "c"]


READ_WRITE = 2 | WRITE | 0x400000


def test_a_named_pipe_is_not_waited_for(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "free" / "sub").mkdir(parents=True)
    os.mkfifo(tmp_path / "free" / "sub" / "pipe")
    (tmp_path / "free" / "link").symlink_to("sub/pipe")
    (tmp_path / "free" / "sub" / "file").write_text("x")
    steps = [
        open_step(3, b"sub/pipe"),
        open_step(3, b"link"),
        open_step(3, b"sub", FOLDER),
        open_step(OPENED, b"pipe"),
        open_step(3, b"sub/file"),
    ]
    report = bench.steps(*steps, places=(place(tmp_path / "free"),), seconds=3.0)
    assert numbers_of(report, 5) == [PERM, PERM, 0, PERM, 0]


def test_output_follows_a_renumbered_descriptor(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "free").mkdir()
    steps = [
        open_step(3, b"a", CREATE, WRITE),
        ("fd_renumber", OPENED, 2),
        write_step(4, 2),
        ("fd_close", 2),
        write_step(4, 2),
    ]
    report = bench.steps(*steps, places=(place(tmp_path / "free", writable=True),))
    assert numbers_of(report, 5) == [0, 0, 0, 0, 8]
    assert report.stderr == ""
    assert (tmp_path / "free" / "a").stat().st_size == 4


@pytest.mark.slow
def test_a_run_stuck_in_the_operating_system_is_reported_in_time(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe put in the place of a file just before it is opened: nothing can end that wait but the other end."""
    monkeypatch.setattr(wasm_wasi, "_would_wait", lambda *_: False)
    (tmp_path / "free").mkdir()
    os.mkfifo(tmp_path / "free" / "pipe")
    stuck = bench.job(
        program(open_step(3, b"pipe")), places=(place(tmp_path / "free"),), limits={"timeout": 0.3}
    )
    good = bench.job(bench.write(program(("fd_prestat_get", 3, 256)), "good.wasm"))

    async def both(sandbox):  # type: ignore[no-untyped-def]
        await sandbox.run(good)
        began = time.monotonic()
        report = await sandbox.run(stuck)
        seconds = time.monotonic() - began
        after = await sandbox.run(good)
        os.close(os.open(tmp_path / "free" / "pipe", os.O_RDWR | os.O_NONBLOCK))  # lets the thread go
        return report, seconds, after

    report, seconds, after = bench.using(both)
    assert report.ending == "timed_out"
    assert seconds < 2.5  # compiling is in it
    assert after.ending == "bad_result"
