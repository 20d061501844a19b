"""Engine processes are started ahead where it pays, used once, and never left behind."""

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from deno_kit import Asked, NoWall, engines_with, in_sandbox, inline, job, run, script, skill, the_wall
from metier.model.guarantee import Guarantee
from metier.model.job import Place
from metier.model.skill import Limits
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.deno_plan import GUEST
from metier.sandbox.deno_pool import PROCESS_MB
from metier.sandbox.deno_where import Engine, engine_at, find_engine
from metier.sandbox.protocol import Missing

GLOBAL = "const before = globalThis.n ?? 0; globalThis.n = before + 1; return [before, Math.random()]"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine") / "cache"


async def _settled(true: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not true():
            await anyio.sleep(0.01)


def test_a_process_is_started_ahead_from_the_second_use_on(cache: Path) -> None:
    wall = NoWall()

    async def work(sandbox: DenoSandbox) -> list[int]:
        await sandbox.run(job(inline("return 0")))
        alive = [wall.alive]
        for _ in range(3):
            assert (await sandbox.run(job(inline("return 1")))).value == 1
            alive.append(wall.alive)
        return alive

    assert in_sandbox(wall, cache, work) == [0, 1, 1, 1]
    assert wall.alive == 0
    assert [program.argv[-1] == "ahead" for program in wall.programs][-3:] == [True, True, True]


def test_every_call_gets_a_process_of_its_own(cache: Path) -> None:
    async def work(sandbox: DenoSandbox) -> list[Any]:
        return [(await sandbox.run(job(inline(GLOBAL)))).value for _ in range(5)]

    values = in_sandbox(the_wall(), cache, work)
    assert [before for before, _ in values] == [0] * 5
    assert len({number for _, number in values}) == 5


def test_a_process_started_ahead_behaves_as_any_other(cache: Path, tmp_path: Path) -> None:
    text = """
    module.exports = async (params, context) => {
      console.log('said'); const got = await context.exec(['a']); context.callLog.write({ b: 1 });
      return [got, Object.keys(globalThis).includes('result'), params, typeof module];
    };
    """
    bundle = skill(tmp_path / "s", handler_js=text)
    hosts = [Asked(), Asked(), Asked(), Asked()]

    async def work(sandbox: DenoSandbox) -> list[Any]:
        return [
            await sandbox.run(job(script(), bundle=bundle, host=host, arguments={"n": 1})) for host in hosts
        ]

    reports = in_sandbox(the_wall(), cache, work)
    first = reports[0]
    assert first.ending == "returned", first
    for report, host in zip(reports, hosts, strict=True):
        assert (report.value, report.stdout, report.denials) == (first.value, "said\n", ())
        assert host.calls == [("exec", {"argv": ["a"]}), ("call_log.write", {"entry": {"b": 1}})]


def test_a_process_that_died_while_it_waited_is_replaced(cache: Path) -> None:
    wall = NoWall()

    async def work(sandbox: DenoSandbox) -> Any:
        for _ in range(2):
            await sandbox.run(job(inline("return 1")))
        waiting = wall.started[-1]
        os.kill(waiting.process.pid, signal.SIGKILL)
        await _settled(lambda: waiting.process.poll() is not None)
        return await sandbox.run(job(inline("return 'well'")))

    assert in_sandbox(wall, cache, work).value == "well"
    assert wall.alive == 0


def test_a_changed_skill_is_never_run_by_a_process_that_waited_for_the_old_one(
    cache: Path, tmp_path: Path
) -> None:
    wall = NoWall()
    bundle = skill(tmp_path / "s", handler_js="module.exports = () => 'old'")

    async def work(sandbox: DenoSandbox) -> tuple[Any, Any]:
        for _ in range(2):
            await sandbox.run(job(script(), bundle=bundle))
        waiting = wall.started[-1]
        assert waiting.process.poll() is None
        os.rename(bundle, f"{bundle}.old")
        skill(bundle, handler_js="module.exports = () => 'new'")
        report = await sandbox.run(job(script(), bundle=bundle))
        return report.value, waiting.process.poll()

    value, ended = in_sandbox(wall, cache, work)
    assert value == "new"
    assert ended is not None


def test_waiting_processes_are_bounded_and_the_least_used_goes_first(cache: Path, tmp_path: Path) -> None:
    wall = NoWall()
    bundles = [skill(tmp_path / str(n), handler_js=f"module.exports = () => {n}") for n in range(4)]

    async def work(sandbox: DenoSandbox) -> int:
        most = 0
        for bundle in bundles:
            for _ in range(2):
                await sandbox.run(job(script(), bundle=bundle))
                most = max(most, wall.alive)
        left = list[Path]()
        for _ in range(500):  # the last one may just be starting, and has no name of its own yet
            left = [bundle for bundle in bundles if engines_with(f"{bundle},") or engines_with(f"{bundle}")]
            if len(left) >= 2:
                break
            await anyio.sleep(0.01)
        assert left == bundles[-2:]
        return most

    assert in_sandbox(wall, cache, work, pool_mb=2 * PROCESS_MB) <= 2
    assert wall.alive == 0


def test_no_pool_means_no_process_waits(cache: Path) -> None:
    wall = NoWall()

    async def work(sandbox: DenoSandbox) -> int:
        for _ in range(3):
            await sandbox.run(job(inline("return 1")))
        return wall.alive

    assert in_sandbox(wall, cache, work, pool_mb=0) == 0


def test_other_grants_are_another_process(cache: Path, tmp_path: Path) -> None:
    place = os.path.realpath(tmp_path)
    source = "try { Deno.readDirSync(params.at).next(); return 'read' } catch (e) { return e.name }"

    async def work(sandbox: DenoSandbox) -> list[Any]:
        found: list[Any] = []
        for places in ((Place(path=place),), (), (Place(path=place),), (), (Place(path=place),), ()):
            report = await sandbox.run(job(inline(source), arguments={"at": place}, places=places))
            found.append(report.value)
        return found

    assert in_sandbox(the_wall(), cache, work) == ["read", "NotCapable"] * 3


def test_closing_ends_all_that_waits_and_all_that_runs(cache: Path) -> None:
    wall = NoWall()

    async def work(sandbox: DenoSandbox) -> Any:
        for _ in range(2):
            await sandbox.run(job(inline("return 1")))
        reports: list[Any] = []
        host = Asked()

        async def one() -> None:
            endless = "await context.exec(['begun']); for (;;);"
            reports.append(await sandbox.run(job(inline(endless), host=host, limits=Limits(timeout=60))))

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            await _settled(lambda: len(host.calls) > 0)
            await sandbox.aclose()
        return reports[0], await sandbox.run(job(inline("return 1")))

    killed, refused = in_sandbox(wall, cache, work)
    assert killed.ending in ("no_result", "signalled")
    assert refused.ending == "not_started"
    assert wall.alive == 0


def test_a_run_after_a_killed_one_is_fresh_and_works(cache: Path) -> None:
    async def work(sandbox: DenoSandbox) -> list[str]:
        endings: list[str] = []
        for source in ("return 1", "return 1", "for (;;);", "return 1", "Deno.exit(3)", "return 1"):
            report = await sandbox.run(job(inline(source), limits=Limits(timeout=1.0)))
            endings.append(report.ending)
        return endings

    expected = ["returned", "returned", "timed_out", "returned", "no_result", "returned"]
    assert in_sandbox(the_wall(), cache, work) == expected


@pytest.mark.slow
def test_a_hundred_runs_leave_nothing(cache: Path, tmp_path: Path) -> None:
    bundle = skill(tmp_path / "s", handler_js="module.exports = (p) => eval(p.code)")
    codes = ("1 + 1", "Deno.exit(0)", "throw 1", "new Promise(() => {})") * 5
    codes = (*codes[:-1], "for (;;);")
    before = len(os.listdir("/proc/self/fd"))

    async def work(sandbox: DenoSandbox) -> dict[str, int]:
        endings: dict[str, int] = {}
        for number in range(100):
            one = job(
                script(), bundle=bundle, arguments={"code": codes[number % 20]}, limits=Limits(timeout=2.0)
            )
            ending = (await sandbox.run(one)).ending
            endings[ending] = endings.get(ending, 0) + 1
        return endings

    endings = in_sandbox(the_wall(), cache, work)
    assert endings == {"returned": 25, "no_result": 45, "raised": 25, "timed_out": 5}
    assert engines_with(str(bundle)) == 0
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_the_flags_name_each_thing_and_never_a_whole_kind(cache: Path, tmp_path: Path) -> None:
    wall = NoWall()
    top = os.path.realpath(tmp_path)
    os.mkdir(f"{top}/w")
    bundle = skill(Path(top) / "s", handler_js="module.exports = () => 1")
    one = job(
        script(),
        bundle=bundle,
        places=(Place(path=f"{top}/w", writable=True),),
        cwd=f"{top}/w",
        environment={"B": "2", "A": "1"},
        limits=Limits(timeout=5, memory_mb=77),
    )
    assert run(wall, cache, one).value == 1
    found = find_engine()
    assert isinstance(found, Engine)
    assert list(wall.programs[-1].argv) == [
        found.path, "run", "--no-prompt", "--quiet", "--no-config", "--no-lock", "--no-remote", "--no-npm",
        f"--import-map={GUEST}/import_map.json", f"--allow-read={GUEST},{bundle},{top}/w", f"--allow-write={top}/w",
        "--allow-env=A,B", "--v8-flags=--max-old-space-size=77", f"{GUEST}/runner.mjs",
    ]  # fmt: skip
    policy = wall.policies[-1]
    assert (policy.memory_mb, policy.bare_heap, policy.network) == (77, True, False)
    assert [place.path for place in policy.places if place.writable] == [f"{top}/w"]
    assert {place.path for place in policy.places} >= {found.path, GUEST, str(bundle)}
    assert "1" not in wall.programs[-1].environment.get("A", "")


def test_arguments_never_become_flags(cache: Path) -> None:
    odd = {"--allow-all": "--", "argv": ["-A", "--allow-read"], "key": "k"}
    assert run(the_wall(), cache, job(inline("return params"), arguments=odd)).value == odd


def test_lnx_03_the_engine_is_the_one_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "deno"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = find_engine()
    assert isinstance(found, Engine)
    assert os.path.isabs(found.path)
    assert not found.path.startswith(str(tmp_path))


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o644])
def test_lnx_03_an_engine_others_may_change_is_not_started(tmp_path: Path, mode: int) -> None:
    planted = tmp_path / "deno"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    tmp_path.chmod(0o755)
    assert isinstance(engine_at(str(planted), "2.9.8"), Engine)
    planted.chmod(mode)
    assert isinstance(engine_at(str(planted), "2.9.8"), Missing)


def test_lnx_03_an_engine_in_a_folder_of_others_is_not_started(tmp_path: Path) -> None:
    planted = tmp_path / "bin" / "deno"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    planted.parent.chmod(0o755)
    assert isinstance(engine_at(str(planted), "2.9.8"), Engine)
    planted.parent.chmod(0o777)
    assert isinstance(engine_at(str(planted), "2.9.8"), Missing)
    planted.parent.chmod(0o755)
    (tmp_path / "link").symlink_to(planted)
    assert isinstance(engine_at(str(tmp_path / "link"), "2.9.8"), Missing)


def test_a_missing_package_names_the_command_that_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def absent(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    found = find_engine()
    assert isinstance(found, Missing)
    assert found.remedy == "pip install 'metier[javascript]'"
    assert found.costs == frozenset(Guarantee)


def test_the_engines_own_folder_is_private_and_stays_empty(tmp_path: Path) -> None:
    one = job(inline("try { localStorage.setItem('a', 'b') } catch {} ; return 1"))
    assert run(the_wall(), tmp_path / "cache", one, one, one).value == 1
    folder = tmp_path / "cache" / "engine"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.iterdir()) == []


def test_the_memory_of_a_run_is_what_an_engine_holds_or_not_known(cache: Path) -> None:
    async def work(sandbox: DenoSandbox) -> list[int]:
        sources = ["return 1", "throw new Error('x')", "Deno.exit(3)"] * 3
        return [(await sandbox.run(job(inline(source)))).usage.memory_bytes for source in sources]

    for used in in_sandbox(the_wall(), cache, work):
        # As it begins it holds next to nothing, and once it is gone nothing at all: neither is what the run took.
        assert used == 0 or used >= 30 << 20
