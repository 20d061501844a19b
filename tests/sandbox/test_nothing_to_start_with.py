"""A run that cannot be started for want of a descriptor or of a temporary folder leaves nothing open, and nobody busy."""

import gc
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from jobs import ending, place, shell
from metier.model.guarantee import Guarantee
from metier.model.skill import Limits
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox

Wall = Bubblewrap | Landlock
WATCHED = frozenset({Guarantee.VIOLATIONS_SEEN})
FREE_MOST = 40


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def only(free: int) -> Iterator[None]:
    """We may open so many files more, and then none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + FREE_MOST + 10, hard))
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(free):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in taken:
            os.close(each)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Bubblewrap, Landlock])
@pytest.mark.parametrize("again", [False, True])
def test_a_run_that_too_few_descriptors_are_left_for_leaves_none_open_and_nobody_busy(
    kind: type[Wall], again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    job = shell("true", needs=WATCHED, places=(place("/usr/share"),))
    endings: list[str] = []

    async def work() -> None:
        wall = kind()
        pool: Any = wall._pool
        sandbox = NativeSandbox(wall)
        assert (await sandbox.run(job)).ending == "returned"
        for free in range(FREE_MOST):
            if not again:
                await wall.aclose()
                pool._closed = False  # as new, and what was made once for the whole program is there
            folders, before = len(os.listdir(tmp_path)), descriptors()
            waited = sum(map(len, pool._idle.values()))
            with only(free):
                report = await sandbox.run(job)
            endings.append(report.ending)
            assert not pool._busy, f"{free} free: {ending(report)}"
            assert len(os.listdir(tmp_path)) <= folders + (report.ending == "returned"), f"{free} free"
            if not again:
                await wall.aclose()  # an identity that root lends may have been made, and is kept until now
                assert descriptors() <= before, f"{free} free"
            if report.ending == "returned":
                break
            assert sum(map(len, pool._idle.values())) <= waited
        await wall.aclose()

    anyio.run(work)
    assert endings[0] != "returned" and endings[-1] == "returned", endings
    assert not os.listdir(tmp_path)


def test_without_a_folder_for_temporary_files_a_run_is_not_started_and_it_is_told_where_none_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = shell("true", places=(place(tmp_path), place("/usr/share")))

    async def work() -> None:
        wall = Landlock()
        sandbox = NativeSandbox(wall)
        assert (await sandbox.run(job)).ending == "returned"
        await wall.aclose()
        wall = Landlock()
        sandbox = NativeSandbox(wall)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        before = descriptors()
        for number in range(3):
            report = await sandbox.run(replace(job, limits=Limits(memory_mb=70 + number)))
            assert report.ending == "not_started", ending(report)
            assert report.fault and f"in {tmp_path / 'gone'}: No such file" in report.fault.message
            assert "TMPDIR" in report.fault.message
        assert descriptors() <= before
        (tmp_path / "gone").mkdir()
        assert (await sandbox.run(job)).ending == "returned"
        await wall.aclose()

    anyio.run(work)
