"""What a skill that lives is handed, and what it may hand to its host."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from lives import Asked, living, python, script
from metier.model.ports import NotAnswered

MEMBERS = {"execute", "registerModule", "emit", "log", "skill", "state_get", "state_set"}


def run(body: Callable[[], Awaitable[None]]) -> None:
    anyio.run(body)


def enabled(
    files: dict[str, str],
    folder: Path,
    answer: Callable[[str, dict[str, Any]], Any] | None = None,
    **more: Any,
) -> Asked:
    """What a skill asked of its host while it was enabled."""
    host = Asked(answer)

    async def body() -> None:
        async with living(folder, files, host, **more) as life:
            assert life.report is None, life.report

    run(body)
    return host


def test_in_javascript_ctx_has_exactly_its_members_and_is_frozen(tmp_path: Path) -> None:
    source = """
    export const skill = { id: "a", version: "1", onEnable(ctx) {
      "use strict";
      const changed = [];
      for (const change of [() => { ctx.more = 1; }, () => { ctx.log = null; }, () => { ctx.skill.id = "b"; }]) {
        try { change(); changed.push(true); } catch { changed.push(false); }
      }
      ctx.emit("seen", {
        keys: Reflect.ownKeys(ctx), prototype: Object.getPrototypeOf(ctx), changed,
        frozen: [Object.isFrozen(ctx), Object.isFrozen(ctx.skill)], skill: ctx.skill,
        global: Object.keys(globalThis).filter((name) => name.includes("metier")),
      });
    } };"""
    seen = enabled(script(source, "skill.js"), tmp_path).of("emit")[0]
    assert seen["name"] == "seen"
    payload: Any = seen["payload"]
    assert set(payload.pop("keys")) == MEMBERS
    assert payload == {
        "prototype": None,
        "changed": [False] * 3,
        "frozen": [True, True],
        "skill": {"id": "a", "version": "1"},
        "global": [],
    }


def test_in_python_ctx_has_exactly_its_members_and_none_can_be_added(tmp_path: Path) -> None:
    source = """
def on_enable(ctx):
    changed = []
    for target, name in ((ctx, "more"), (ctx, "log"), (ctx, "skill"), (ctx.skill, "id")):
        try:
            setattr(target, name, 1)
            changed.append(name)
        except AttributeError:
            pass
    members = [name for name in dir(ctx) if not name.startswith("__")]
    ctx.emit("seen", {"members": members, "changed": changed, "skill": [ctx.skill.id, ctx.skill["version"]]})

skill = {"id": "a", "version": "1", "on_enable": on_enable}
"""
    payload: Any = enabled(python(source), tmp_path).of("emit")[0]["payload"]
    assert set(payload["members"]) == MEMBERS | {"register_module"}
    assert (payload["changed"], payload["skill"]) == ([], ["a", "1"])


@pytest.mark.parametrize(
    "files",
    [
        python(
            "class Skill:\n  def on_enable(self, ctx): ctx.emit('who', [ctx.skill.id, ctx.skill.version])\nskill = Skill()"
        ),
        script(
            "export const skill = { onEnable(ctx: any) { ctx.emit('who', [ctx.skill.id, ctx.skill.version]); } };"
        ),
    ],
    ids=["python", "typescript"],
)
def test_who_the_skill_is_the_host_says(files: dict[str, str], tmp_path: Path) -> None:
    host = enabled(files, tmp_path, context={"skill": {"id": "@me/it", "version": "9"}})
    assert host.of("emit") == [{"name": "who", "payload": ["@me/it", "9"]}]


@pytest.mark.parametrize(
    "files",
    [
        python(
            "async def on_enable(ctx):\n"
            "    await ctx.state_set('k', {'n': await ctx.state_get('n')})\n"
            "    ctx.log('info', 'hello', {'a': 1})\n"
            "    ctx.log('warn', 'again')\n"
            "    await ctx.emit('done')\n"
            "skill = {'id': 'a', 'version': '1', 'on_enable': on_enable}"
        ),
        script(
            "export const skill = { id: 'a', version: '1', async onEnable(ctx: any) {\n"
            "  await ctx.state_set('k', { n: await ctx.state_get('n') });\n"
            "  ctx.log('info', 'hello', { a: 1 });\n"
            "  ctx.log('warn', 'again');\n"
            "  await ctx.emit('done');\n"
            "} };"
        ),
    ],
    ids=["python", "typescript"],
)
def test_state_log_and_events_reach_the_host_in_order(files: dict[str, str], tmp_path: Path) -> None:
    host = enabled(files, tmp_path, lambda method, _params: 7 if method == "state.get" else None)
    assert host.calls == [
        ("state.get", {"key": "n"}),
        ("state.set", {"key": "k", "value": {"n": 7}}),
        ("log", {"level": "info", "message": "hello", "meta": {"a": 1}}),
        ("log", {"level": "warn", "message": "again", "meta": {}}),
        ("emit", {"name": "done", "payload": None}),
    ]


def test_nothing_is_executed_before_a_module_that_was_registered_is_known(tmp_path: Path) -> None:
    """Registering is not waited for in XBot's own example, and the next line names the module."""
    known: list[str] = []

    class Slow(Asked):
        async def ask(self, method: str, params: Any) -> Any:
            if method == "module.register":
                await anyio.wait_all_tasks_blocked()
            known.append(method)
            return await super().ask(method, params)

    source = """
    class Echo { _name = "echo"; async _say(command: any) { return command; } }
    export const skill = { id: "e", version: "1", async onEnable(ctx: any) {
      ctx.registerModule(new Echo());
      await ctx.execute("channels", "register", { channel: "echo", connector_module: "echo" });
    } };"""

    async def body() -> None:
        async with living(tmp_path, script(source), Slow()) as life:
            assert known == ["module.register", "execute"]
            told = {"text": "x", "_module": "echo", "_op": "say", "_params": {"text": "x"}}
            assert await life.do("say", text="x") == told

    run(body)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (python("def register_skill(ctx):\n  ctx.register_module({'name': 'old', 'say': lambda params: params})"), {"a": 1}),
        (script("export function registerSkill(ctx: any) { ctx.registerModule({ name: 'old', say: (p: any) => p }); }"), {"a": 1}),
        (script("module.exports = { registerSkill(ctx) { ctx.registerModule({ name: 'old', say: (p) => p }); } };", "skill.js"), {"a": 1}),
    ],
    ids=["python", "typescript", "commonjs"],
)  # fmt: skip
def test_the_old_form_lives_as_well(files: dict[str, str], said: Any, tmp_path: Path) -> None:
    async def body() -> None:
        async with living(tmp_path, files) as life:
            assert await life.do("say", module="old", a=1) == said
            assert (await life.disable()).ending == "returned"

    run(body)


def test_a_python_package_imports_its_own_files_both_ways(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from .echo import Echo\nimport my_skill.words\n"
        "def on_enable(ctx): ctx.registerModule(Echo(my_skill.words.WORD))\n"
        "skill = {'id': 'a', 'version': '1', 'on_enable': on_enable}",
        "echo.py": "class Echo:\n  name = 'echo'\n  def __init__(self, word): self.word = word\n  def say(self): return self.word",
        "words.py": "WORD = 'hi'",
    }

    async def body() -> None:
        async with living(tmp_path, files, module="my_skill") as life:
            assert await life.do("say") == "hi"

    run(body)


MODULES = [
    ("class M:\n  name='m'\n  operations=['b']\n  def a(self): pass\n  def b(self): pass", ["b"]),
    ("class M:\n  name='m'\n  ops={'x': lambda: 1}\n  def a(self): pass", ["x"]),
    ("class M:\n  _name='m'\n  def _a(self, c): pass\n  def load(self): pass", ["a"]),
    ("class M:\n  name='m'\n  def a(self): pass\n  def _b(self): pass\n  @property\n  def c(self): raise ValueError", ["a"]),
    ("class B:\n  def b(self): pass\nclass M(B):\n  __slots__=()\n  name='m'\n  @staticmethod\n  def a(): pass", ["a", "b"]),
]  # fmt: skip
SCRIPTS = [
    ("class M { name = 'm'; operations = ['b']; a() {} b() {} }", ["b"]),
    ("class M { name = 'm'; ops = { x: () => 1 }; a() {} }", ["x"]),
    ("class M { _name = 'm'; _a(c) {} load() {} }", ["a"]),
    ("class M { name = 'm'; a() {} _b() {} get c() { throw new Error(); } }", ["a"]),
    ("class B { b() {} toString() { return ''; } } class M extends B { name = 'm'; a() {} }", ["a", "b"]),
]


@pytest.mark.parametrize(
    ("files", "operations"),
    [
        (python(f"{source}\ndef register_skill(ctx): ctx.register_module(M())"), names)
        for source, names in MODULES
    ]
    + [
        (
            script(
                f"{source}\nexport function registerSkill(ctx) {{ ctx.registerModule(new M()); }}", "skill.js"
            ),
            names,
        )
        for source, names in SCRIPTS
    ],
)
def test_operations_are_the_methods_a_module_offers_and_no_others(
    files: dict[str, str], operations: list[str], tmp_path: Path
) -> None:
    registered: Any = enabled(files, tmp_path).of("module.register")
    assert [(each["name"], sorted(each["operations"])) for each in registered] == [("m", operations)]


@pytest.mark.parametrize(
    "what", ["{}", "new (class { name = 'm' })()", "class { static name = 'm' }", "null", "'m'"]
)
def test_what_is_no_module_is_refused_where_it_is_registered(what: str, tmp_path: Path) -> None:
    async def body() -> None:
        source = f"export function registerSkill(ctx) {{ ctx.registerModule({what}); }}"
        async with living(tmp_path, script(source, "skill.js"), wait=False) as life:
            report = await life.over()
            assert report.ending == "raised"
            assert report.fault is not None
            assert report.fault.name == "TypeError"

    run(body)


def test_more_requests_than_are_answered_at_once_wait_for_their_turn(tmp_path: Path) -> None:
    source = (
        "import asyncio\n"
        "async def on_enable(ctx):\n"
        "    got = await asyncio.gather(*(ctx.execute('m', 'op', {'n': n}) for n in range(100)))\n"
        "    for n in range(100): ctx.log('info', str(n))\n"
        "    await ctx.emit('got', got)\n"
        "skill = {'id': 'a', 'version': '1', 'on_enable': on_enable}"
    )
    host = enabled(python(source), tmp_path, lambda _method, params: params.get("params", {}).get("n"))
    assert host.of("emit") == [{"name": "got", "payload": [*range(100)]}]
    assert [each["message"] for each in host.of("log")] == [str(n) for n in range(100)]


def test_a_refusal_that_nobody_looks_at_is_no_crash(tmp_path: Path) -> None:
    def answer(_method: str, _params: Any) -> NotAnswered:
        return NotAnswered(name="Busy", message="slow down")

    for number, files in enumerate(
        [
            python("def register_skill(ctx):\n  ctx.emit('a'); ctx.log('info', 'b'); ctx.state_set('c', 1)"),
            script(
                "export function registerSkill(ctx: any) { ctx.emit('a'); ctx.log('info', 'b'); ctx.state_set('c', 1); }"
            ),
        ]
    ):
        assert len(enabled(files, tmp_path / str(number), answer).calls) == 3


THREADS = """
import asyncio, threading

class Echo:
    name = "echo"
    def __init__(self, ctx): self.ctx = ctx
    def waits(self, params): return self.ctx.execute("m", "op", params).wait()
    async def in_a_thread(self, params):
        return await asyncio.to_thread(lambda: self.ctx.execute("m", "op", params).wait())
    async def in_a_loop(self, params):
        async def ask(): return await self.ctx.execute("m", "op", params)
        return await asyncio.to_thread(lambda: asyncio.run(ask()))
    async def gives_up(self, params):
        try:
            await asyncio.wait_for(self.ctx.execute("slow", "op"), 0.01)
        except TimeoutError:
            return "given up"
    async def talks(self, params):
        def talk():
            for number in range(20): self.ctx.log("info", "x" * 30_000)
        await asyncio.gather(*(asyncio.to_thread(talk) for _ in range(8)))
        return "talked"

skill = {"id": "a", "version": "1", "on_enable": lambda ctx: ctx.register_module(Echo(ctx)) and None}
"""


def test_in_python_every_thread_of_a_skill_may_ask(tmp_path: Path) -> None:
    class Slow(Asked):
        async def ask(self, method: str, params: Any) -> Any:
            if params.get("module") == "slow":
                await anyio.sleep_forever()
            return await super().ask(method, params)

    host = Slow(lambda _method, params: params.get("params"))

    async def body() -> None:
        async with living(tmp_path, python(THREADS), host) as life:
            for _ in range(3):
                for op in ("waits", "in_a_thread", "in_a_loop"):
                    assert await life.do(op, n=op) == {"n": op}
            answers: list[Any] = []

            async def ask(number: int) -> None:
                answers.append(await life.do("waits", n=number))

            async with anyio.create_task_group() as tasks:  # what comes while one waits is not forgotten
                for number in range(20):
                    tasks.start_soon(ask, number)
            assert sorted(each["n"] for each in answers) == [*range(20)]
            assert await life.do("gives_up") == "given up"
            assert await life.do("talks") == "talked"
            assert (await life.disable()).violations == ()

    run(body)
    assert len(host.of("log")) == 160


LEAVING = """
import asyncio
class Odd(BaseException): pass
class Leaving:
    name = 'leaving'
    async def cancelled(self, params, meta):
        task = asyncio.ensure_future(asyncio.sleep(3600))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
    async def itself(self, params, meta):
        asyncio.current_task().cancel()
        await asyncio.sleep(3600)
    def exits(self, params, meta): raise SystemExit(3)
    async def interrupted(self, params, meta): raise KeyboardInterrupt
    async def odd(self, params, meta): raise Odd('odd')
    async def well(self, params, meta): return 'well'
async def on_enable(ctx): ctx.register_module(Leaving())
async def on_disable(ctx): raise asyncio.CancelledError('goodbye')
skill = {'id': 'a', 'version': '1', 'on_enable': on_enable, 'on_disable': on_disable}
"""


def test_in_python_whatever_an_operation_raises_is_its_answer_and_it_lives_on(tmp_path: Path) -> None:
    names = {
        "cancelled": "CancelledError",
        "itself": "CancelledError",
        "exits": "SystemExit",
        "interrupted": "KeyboardInterrupt",
        "odd": "Odd",
    }

    async def body() -> None:
        async with living(tmp_path, python(LEAVING)) as life:
            for operation, name in names.items():
                answer = await life.do(operation, "leaving", seconds=10.0)
                assert isinstance(answer, NotAnswered), (operation, answer)
                assert answer.name == name
            assert await life.do("well", "leaving") == "well"
            goodbye = await life.operate({"life": "disable"})
            assert isinstance(goodbye, NotAnswered)
            assert (goodbye.name, goodbye.message) == ("CancelledError", "goodbye")
            assert (await life.over()).ending == "returned"

    run(body)
