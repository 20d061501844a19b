"""Skills that live, in both languages, behind a real wall."""

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from lives import OPERATIONS, PYTHON, SCRIPT, Asked, Life, living, python, script
from metier.model.job import LifeBounds
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.wire_life import MOST_OPEN, OUTPUT_BYTES

BOTH = pytest.mark.parametrize("files", [python(), script()], ids=["python", "typescript"])
Files = dict[str, str]


def run(body: Callable[[], Awaitable[None]]) -> None:
    anyio.run(body)


@BOTH
def test_a_skill_is_enabled_answers_operations_and_is_disabled(files: Files, tmp_path: Path) -> None:
    host = Asked()

    async def body() -> None:
        async with living(tmp_path, files, host) as life:
            assert life.times == 1
            registered: Any = host.of("module.register")
            assert [(each["name"], sorted(each["operations"])) for each in registered] == [
                ("echo", OPERATIONS)
            ]
            assert await life.do("say", text="ä") == {"said": "ä", "meta": {"who": "test"}}
            assert await life.do("plain", a=[1, None]) == {"a": [1, None]}
            report = await life.disable()
            assert (report.ending, report.value, report.violations) == ("returned", None, ())
            assert host.of("execute") == [
                {"module": "late", "op": "word", "params": {"from": "me/echo"}, "meta": {}}
            ]
            gone = await life.do("say")
            assert isinstance(gone, NotAnswered)
            assert gone.name == "Gone"

    run(body)


@BOTH
def test_operations_run_side_by_side(files: Files, tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files) as life:
            got: list[object] = []

            async def meet() -> None:
                got.append(await life.do("meet"))

            async with anyio.create_task_group() as tasks:  # each waits for the other
                tasks.start_soon(meet)
                tasks.start_soon(meet)
            assert got == [2, 2]

    run(body)


@BOTH
def test_what_it_asks_in_an_operation_is_answered_while_it_waits(files: Files, tmp_path: Path) -> None:
    def answer(method: str, params: dict[str, Any]) -> Any:
        if params.get("op") == "no":
            return NotAnswered(name="E_AGENT_FORBIDDEN", message="channels.no is privileged")
        return {"sent": True} if method == "execute" else None

    host = Asked(answer)

    async def body() -> None:
        async with living(tmp_path, files, host) as life:
            asked = {"module": "echo", "op": "ask", "params": {"module": "channels", "op": "list"}}
            assert await life.operate(asked) == Answered(value={"sent": True})
            assert host.of("execute")[-1] == {
                "module": "channels",
                "op": "list",
                "params": {},
                "meta": {"by": "echo"},
            }
            refused = {"module": "echo", "op": "ask", "params": {"module": "channels", "op": "no"}}
            assert await life.operate(refused) == NotAnswered(
                name="E_AGENT_FORBIDDEN", message="channels.no is privileged"
            )

    run(body)


@BOTH
def test_errors_have_a_name_and_a_message_and_do_not_end_it(files: Files, tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files) as life:
            assert await life.do("fail", code=True) == NotAnswered(name="E_ECHO", message="not today")
            odd = await life.do("fail")
            assert isinstance(odd, NotAnswered)
            assert (odd.name in ("ValueError", "RangeError"), odd.message) == (True, "it is odd")
            names = [
                await life.do(op) for op in ("odd", "large", "_hidden", "constructor", "__init__", "toString")
            ]
            assert [each.name if isinstance(each, NotAnswered) else each for each in names] == [
                *["BadResult"] * 2,
                *["NotFound"] * 4,
            ]
            other = await life.do("say", module="other")
            assert isinstance(other, NotAnswered)
            assert other.name == "NotFound"
            assert await life.do("plain", a=1) == {"a": 1}

    run(body)


@BOTH
def test_an_operation_that_takes_too_long_is_given_up_and_its_late_answer_is_no_forgery(
    files: Files, tmp_path: Path
) -> None:
    async def body() -> None:
        async with living(tmp_path, files) as life:
            late = await life.do("meet", seconds=0.05)
            assert isinstance(late, NotAnswered)
            assert late.name == "TimedOut"
            assert await life.do("meet") == 2  # now the first one answers too, and nobody waits for it
            assert await life.do("plain", a=1) == {"a": 1}
            report = await life.disable()
            assert (report.ending, report.violations) == ("returned", ())

    run(body)


@BOTH
def test_only_so_many_operations_are_open_at_once(files: Files, tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files) as life, anyio.create_task_group() as tasks:
            for _ in range(MOST_OPEN):
                tasks.start_soon(life.do, "never")
            await anyio.wait_all_tasks_blocked()
            more = await life.do("say")
            assert isinstance(more, NotAnswered)
            assert more.name == "Busy"
            tasks.cancel_scope.cancel()

    run(body)


@BOTH
def test_what_waits_for_one_that_dies_learns_it_at_once(files: Files, tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files) as life:
            answers: list[object] = []

            async def ask(op: str) -> None:
                answers.append(await life.do(op, seconds=600))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, "never")
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(ask, "leave")
            assert [each.name for each in answers if isinstance(each, NotAnswered)] == ["Gone"] * 2
            report = await life.over()
            assert (report.ending, report.violations) == ("no_result", ())

    run(body)


KILLED = {
    "python": python(PYTHON.replace("os._exit(3)", "os.kill(os.getpid(), 9)")),
    "a child holds its wire": python(
        PYTHON.replace("os._exit(3)", "_ = os.fork() or time.sleep(60)\n        os.kill(os.getpid(), 9)")
    ),
}


@pytest.mark.parametrize("files", KILLED.values(), ids=KILLED.keys())
def test_a_kill_is_seen_at_once(files: Files, tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files) as life:
            gone = await life.do("leave", seconds=600)
            assert isinstance(gone, NotAnswered)
            assert gone.name == "Gone"
            report = await life.over()
            assert (report.ending, report.signal) == ("signalled", signal.SIGKILL)

    run(body)


@BOTH
def test_whoever_gives_up_the_run_ends_it_with_all_it_was_asked(files: Files, tmp_path: Path) -> None:
    kept: list[Life] = []

    async def body() -> None:
        async with living(tmp_path, files) as life:
            kept.append(life)
        gone = await kept[0].do("say")
        assert isinstance(gone, NotAnswered)
        assert gone.name == "Gone"

    run(body)


@pytest.mark.parametrize(
    ("files", "window"), [(python(), 0.6), (script(), 1.5)], ids=["python", "typescript"]
)
def test_one_that_spins_is_ended_and_it_is_said_why(files: Files, window: float, tmp_path: Path) -> None:
    # More than an engine takes to start, less than a spin gets on a machine that has other things to do.
    bounds = LifeBounds(cpu_share=0.18, cpu_window=window)

    async def body() -> None:
        async with living(tmp_path, files, life_bounds=bounds) as life:
            gone = await life.do("spin", seconds=600)
            assert isinstance(gone, NotAnswered)
            assert gone.name == "Gone"
            report = await life.over()
            assert report.ending == "out_of_fuel"
            assert report.fault is not None
            assert "s of processor time in the last" in report.fault.message

    run(body)


@BOTH
def test_one_that_does_little_is_not_ended_for_it(files: Files, tmp_path: Path) -> None:
    """The other side of the bound above: the same window, and operations that wait."""
    bounds = LifeBounds(cpu_share=0.9, cpu_window=0.5)

    async def body() -> None:
        async with living(tmp_path, files, life_bounds=bounds) as life:
            for _ in range(3):
                assert isinstance(await life.do("never", seconds=0.3), NotAnswered)
            assert await life.do("plain", a=1) == {"a": 1}

    run(body)


@BOTH
def test_of_what_it_prints_the_last_is_kept_and_no_more(files: Files, tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files) as life:
            assert await life.do("shout", times=300) is None
            report = await life.disable()
            assert len(report.stdout.encode()) <= OUTPUT_BYTES < 300 * 1000 < report.usage.output_bytes
            assert report.stdout.endswith("the last word\n")
            assert report.truncated

    run(body)


SLOW = {
    "python": python(PYTHON.replace("ctx.register_module(Echo(ctx))", "await asyncio.sleep(60)")),
    "python that does not wait": python(PYTHON.replace("ctx.register_module(Echo(ctx))", "time.sleep(60)")),
    "typescript": script(
        SCRIPT.replace("ctx.registerModule(new Echo(ctx));", "await new Promise(() => {});")
    ),
    "typescript that does not wait": script(
        SCRIPT.replace("ctx.registerModule(new Echo(ctx));", "for (;;);")
    ),
}


@pytest.mark.parametrize("files", SLOW.values(), ids=SLOW.keys())
def test_enabling_has_a_time_limit(files: Files, tmp_path: Path) -> None:
    async def body() -> None:
        bounds = LifeBounds(enable_seconds=0.5)
        async with living(tmp_path, files, wait=False, life_bounds=bounds) as life:
            report = await life.over()
            assert (report.ending, life.times) == ("timed_out", 0)
            assert report.fault is not None
            assert report.fault.message == "It was not enabled within 0.5 s"

    run(body)


FAILING = {
    "python": python("class Skill:\n  def on_enable(self, ctx): raise RuntimeError('no')\nskill = Skill()"),
    "typescript": script(
        "export const skill = { onEnable() { const e = new Error('no'); e.name = 'RuntimeError'; throw e; } };"
    ),
}


@pytest.mark.parametrize("files", FAILING.values(), ids=FAILING.keys())
def test_one_whose_enabling_fails_never_lives(files: Files, tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files, wait=False) as life:
            report = await life.over()
            assert (report.ending, life.times) == ("raised", 0)
            assert report.fault is not None
            assert (report.fault.name, report.fault.message) == ("RuntimeError", "no")

    run(body)


@BOTH
def test_one_whose_module_the_host_does_not_take_never_lives(files: Files, tmp_path: Path) -> None:
    def answer(method: str, _params: dict[str, Any]) -> Any:
        return (
            NotAnswered(name="E_SKILLS_MODULE_CONFLICT", message="taken")
            if method == "module.register"
            else None
        )

    async def body() -> None:
        async with living(tmp_path, files, Asked(answer), wait=False) as life:
            report = await life.over()
            assert (report.ending, life.times) == ("raised", 0)
            assert report.fault is not None
            assert report.fault.message == "taken"

    run(body)


def test_an_error_of_disabling_is_told_and_it_ends_all_the_same(tmp_path: Path) -> None:
    async def body() -> None:
        source = SCRIPT.replace(
            'await ctx.execute("late", "word", { from: ctx.skill.id });', "throw new TypeError('mine');"
        )
        async with living(tmp_path, script(source)) as life:
            answer = await life.operate({"life": "disable"})
            assert answer == NotAnswered(name="TypeError", message="mine")
            assert (await life.over()).ending == "returned"

    run(body)


def test_an_error_nobody_waited_for_does_not_end_it(tmp_path: Path) -> None:
    async def body() -> None:
        source = SCRIPT.replace(
            "plain(params: any) {", "plain(params: any) { Promise.reject(new Error('astray'));"
        )
        async with living(tmp_path, script(source)) as life:
            assert await life.do("plain", a=1) == {"a": 1}
            assert await life.do("say", text="b") == {"said": "b", "meta": {"who": "test"}}
            assert "Error: astray" in (await life.disable()).stderr

    run(body)
