"""JavaScript and TypeScript run as their documents promise, and end in one of a few known ways."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from deno_kit import Asked, engine, engines_with, in_sandbox, inline, job, run, script, skill, the_wall
from metier.model.entry import Command
from metier.model.guarantee import DEFAULTS, Guarantee
from metier.model.job import Job, Place, Report
from metier.model.outcome import Failed
from metier.model.permission import PermissionSet
from metier.model.ports import NotAnswered
from metier.model.skill import Limits
from metier.sandbox.deno import DenoSandbox
from metier.sandbox.deno_plan import GUEST
from metier.sandbox.ending import outcome_of
from metier.sandbox.protocol import Missing, Sandbox

Runs = Callable[..., Report]

AMBER = """
module.exports = async function (params, context) {
  const output = await context.exec(['ical-query', params.range || 'today']);
  context.callLog.write({ type: 'lookup', output });
  return { success: true, message: output.trim(), result: { by: context.operator.name, call: context.call.id } };
};
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine") / "cache"


@pytest.fixture
def runs(cache: Path) -> Runs:
    """The report of the last of some jobs, run in one sandbox."""
    return lambda *jobs: run(the_wall(), cache, *jobs)


def test_an_amber_handler_runs_with_its_context(runs: Runs, tmp_path: Path) -> None:
    host = Asked(lambda method, _: " dentist at nine \n" if method == "exec" else None)
    report = runs(
        job(
            script(),
            bundle=skill(tmp_path / "s", handler_js=AMBER),
            arguments={"range": "week"},
            context={"call": {"id": "c7"}, "operator": {"name": "Ada"}},
            host=host,
        )
    )
    assert report.ending == "returned", report
    assert report.value == {
        "success": True,
        "message": "dentist at nine",
        "result": {"by": "Ada", "call": "c7"},
    }
    assert host.calls == [
        ("exec", {"argv": ["ical-query", "week"]}),
        ("call_log.write", {"entry": {"type": "lookup", "output": " dentist at nine \n"}}),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("handler_js", "module.exports = async (p) => p.a + 1"),
        ("handler_js", "exports.default = (p) => p.a + 1"),
        ("handler_js", "module.exports = { handler: (p) => p.a + 1 }"),
        (
            "handler_js",
            "const path = require('node:path'); module.exports = (p) => path.basename('/x/2') * p.a",
        ),
        ("handler_js", "const other = require('./other.js'); module.exports = (p) => other.add(p.a)"),
        ("handler_js", "export default async (p) => p.a + 1"),
        ("handler_js", "import { add } from './more.mjs'; export default (p) => add(p.a)"),
        ("handler_js", "// speaks of module.exports only\nexport default (p) => p.a + 1"),
        ("handler_js", "#!/usr/bin/env node\nmodule.exports = (p) => p.a + 1"),
        ("handler_cjs", "module.exports = (p) => p.a + 1"),
        ("handler_mjs", "import list from './list.json' with { type: 'json' }; export default () => list[1]"),
        ("handler_ts", "type P = { a: number }; export default (p: P): number => p.a + 1"),
        ("handler_ts", "import { add } from './typed.ts'; export default (p: { a: number }) => add(p.a)"),
    ],
)
def test_every_way_of_writing_a_handler_works(runs: Runs, tmp_path: Path, name: str, text: str) -> None:
    bundle = skill(
        tmp_path / "s",
        other_js="exports.add = (n) => n + 1",
        more_mjs="export const add = (n) => n + 1",
        typed_ts="export const add = (n: number): number => n + 1",
        list_json="[1, 2]",
        **{name: text},
    )
    report = runs(job(script(".".join(name.rsplit("_", 1))), bundle=bundle, arguments={"a": 1}))
    assert (report.ending, report.value) == ("returned", 2), report


def test_a_named_export_is_called_when_it_is_asked_for(runs: Runs, tmp_path: Path) -> None:
    text = "export async function execute(inputs) { return { success: true, n: inputs.n } }; export default () => 0"
    bundle = skill(tmp_path / "s", skill_ts=text)
    report = runs(job(script("skill.ts", "execute"), bundle=bundle, arguments={"n": 3}))
    assert report.value == {"success": True, "n": 3}
    absent = runs(job(script("skill.ts", "other"), bundle=bundle))
    assert absent.ending == "raised"
    assert absent.fault is not None
    assert "exports no function of the name other" in absent.fault.message


@pytest.mark.parametrize(
    "source",
    [
        "return params.a + 1",
        "const result = params.a + 1",
        "result = params.a + 1",
        "let result; result = 2",
        "result = await Promise.resolve(2)",
    ],
)
@pytest.mark.parametrize("language", ["javascript", "typescript"])
def test_inline_code_returns_or_leaves_a_result(runs: Runs, source: str, language: str) -> None:
    assert runs(job(inline(source, language), arguments={"a": 1})).value == 2


def test_inline_typescript_may_have_types(runs: Runs) -> None:
    assert (
        runs(job(inline("const n: number = 40; enum E { A = 2 }; return n + E.A", "typescript"))).value == 42
    )


@pytest.mark.parametrize(
    "source",
    [
        "export async function handler(params) { return params.a + 1 }",
        "const one = 1; export default (params) => params.a + one",
        "import { basename } from 'node:path'; export const execute = (params, context) =>\n"
        "  typeof context.exec === 'function' && Number(basename('/x/' + params.a)) + 1",
        "import { basename } from 'node:path'; result = Number(basename('/x/' + params.a)) + 1",
        "const text = 'export default'; return params.a + 1",
    ],
)
@pytest.mark.parametrize("language", ["javascript", "typescript"])
def test_inline_code_that_is_a_module_is_run_as_one(runs: Runs, source: str, language: str) -> None:
    report = runs(job(inline(source, language), arguments={"a": 1}))
    assert (report.ending, report.value) == ("returned", 2), report


@pytest.mark.parametrize("language", ["javascript", "typescript"])
def test_a_module_that_does_not_compile_is_not_shown_again_as_an_address(runs: Runs, language: str) -> None:
    for source in ("export default () => { let = ; }", "const broken = ;"):
        report = runs(job(inline(source, language)))
        assert report.ending == "raised"
        assert report.fault is not None
        assert "data:" not in report.fault.message
        assert "SyntaxError" in f"{report.fault.name} {report.fault.message}"


@pytest.mark.parametrize(
    "text",
    [
        "export default () => Deno.readTextFileSync('/etc/shadow.mjs')",
        "export default async () => { await import('/etc/shadow.mjs') }",
        "import '/etc/shadow.mjs'; export default () => 1",
    ],
)
def test_a_refused_file_is_one_refusal_however_it_was_asked_for(
    runs: Runs, tmp_path: Path, text: str
) -> None:
    asked = job(script("handler.mjs"), bundle=skill(tmp_path / "s", handler_mjs=text))
    report = runs(asked)
    assert report.fault is not None
    assert report.fault.name == "NotCapable"
    assert "/etc/shadow.mjs" in report.fault.message
    assert "--allow" not in report.fault.message  # the engine's own flags, which nobody here can set
    outcome = outcome_of(asked, report, sandbox="deno")
    assert isinstance(outcome, Failed)
    assert outcome.code == "permission_denied"


def test_an_error_of_the_codes_own_stays_what_it_is(runs: Runs) -> None:
    report = runs(job(inline("throw new TypeError('it Requires read access to think')")))
    assert report.fault is not None
    assert report.fault.name == "TypeError"


def test_code_that_returns_nothing_returns_null(runs: Runs) -> None:
    report = runs(job(inline("1 + 1")))
    assert (report.ending, report.value) == ("returned", None)


def test_context_is_frozen_to_the_bottom(runs: Runs) -> None:
    source = """
    const tries = [
      () => { context.exec = 1 }, () => { context.call.id = 'x' }, () => { context.call.deep.er = 1 },
      () => { delete context.gateway }, () => { context.callLog.write = 1 }, () => { context.more = 1 },
    ];
    return tries.map((each) => { 'use strict'; try { (function () { 'use strict'; each() })(); } catch {} return null; })
      .concat([typeof context.exec, context.call.id, context.call.deep.er, typeof context.callLog.write, typeof context.more]);
    """
    report = runs(job(inline(source), context={"call": {"id": "c", "deep": {"er": 0}}}))
    assert isinstance(report.value, list)
    assert report.value[6:] == ["function", "c", 0, "function", "undefined"]


def test_what_is_shown_cannot_stand_in_for_a_method(runs: Runs) -> None:
    report = runs(job(inline("return [typeof context.exec, context.more]"), context={"exec": "x", "more": 1}))
    assert report.value == ["function", 1], report


def test_every_method_of_the_context_asks_the_host(runs: Runs) -> None:
    host = Asked()
    source = """
    return [
      await context.exec(['a', 'b']), await context.log('info', 'm', { k: 1 }), await context.callLog.write({ e: 1 }),
      await context.gateway.post({ p: 1 }), await context.gateway.sendMessage('hi'),
      await context.http.request({ method: 'GET', url: 'https://example.com/' }),
    ];
    """
    report = runs(job(inline(source), host=host))
    assert report.value == [f"{method} done" for method, _ in host.calls]
    assert host.calls == [
        ("exec", {"argv": ["a", "b"]}),
        ("log", {"level": "info", "message": "m", "meta": {"k": 1}}),
        ("call_log.write", {"entry": {"e": 1}}),
        ("gateway.post", {"payload": {"p": 1}}),
        ("gateway.send_message", {"message": "hi"}),
        ("http", {"method": "GET", "url": "https://example.com/"}),
    ]


def test_a_host_that_says_no_is_an_error_with_its_name_and_message_only(runs: Runs) -> None:
    host = Asked(lambda *_: NotAnswered(name="PermissionDenied", message="not granted", kind="denied"))
    source = "try { await context.exec(['x']) } catch (e) { return [e.name, e.message, e instanceof Error] }"
    report = runs(job(inline(source), host=host))
    assert report.value == ["PermissionDenied", "not granted", True]
    assert [(event.kind, event.count) for event in report.denials] == [("host_call", 1)]


def test_a_violation_over_the_bridge_stops_the_run(runs: Runs) -> None:
    host = Asked(lambda *_: NotAnswered(name="Violation", message="not yours", kind="violation"))
    report = runs(job(inline("try { await context.exec(['x']) } catch {} ; return 'went on'"), host=host))
    assert (report.ending, report.value) == ("stopped", None)
    assert [event.kind for event in report.violations] == ["host_call"]


def test_what_was_asked_before_the_end_is_done_before_the_end(runs: Runs) -> None:
    host = Asked()
    report = runs(
        job(inline("for (let i = 0; i < 5; i++) context.callLog.write({ i }); return 1"), host=host)
    )
    assert report.value == 1
    assert [params["entry"] for _, params in host.calls] == [{"i": i} for i in range(5)]


def test_a_shell_line_is_refused_before_it_leaves(runs: Runs) -> None:
    host = Asked()
    report = runs(job(inline("await context.exec('rm -rf /')"), host=host))
    assert report.ending == "raised"
    assert host.calls == []


def test_answers_may_come_while_timers_run(runs: Runs) -> None:
    source = """
    let ticks = 0; const timer = setInterval(() => ticks++, 1);
    const answers = await Promise.all([1, 2, 3].map((n) => context.exec([String(n)])));
    await new Promise((done) => setTimeout(done, 20)); clearInterval(timer);
    return [answers.length, ticks > 0];
    """
    assert runs(job(inline(source), host=Asked())).value == [3, True]


def test_console_output_is_kept_by_stream(runs: Runs) -> None:
    source = """
    console.log('one %d', 1, { a: [1] }); console.info('two'); console.error('bad'); console.warn('hm');
    Deno.stdout.writeSync(new TextEncoder().encode('half ')); await Deno.stdout.write(new TextEncoder().encode('line\\n'));
    process.stdout.write('node'); process.stderr.write('node too\\n');
    """
    report = runs(job(inline(source)))
    assert report.stdout == "one 1 { a: [ 1 ] }\ntwo\nhalf line\nnode"
    assert report.stderr == "bad\nhm\nnode too\n"
    assert (report.truncated, report.violations) == (False, ())


def test_imported_process_has_the_same_streams(runs: Runs) -> None:
    source = """
    const ours = await import('node:process'); ours.stdout.write('a\\n'); ours.default.stdout.write('b\\n');
    const { createRequire } = await import('node:module');
    createRequire('file:///x.js')('process').stdout.write('c\\n');
    """
    report = runs(job(inline(source)))
    assert (report.ending, report.stdout, report.violations) == ("returned", "a\nb\nc\n", ()), report


def test_output_is_capped_and_says_so(runs: Runs) -> None:
    source = "for (let i = 0; i < 200; i++) console.log('x'.repeat(1000)); return 'done'"
    report = runs(job(inline(source), limits=Limits(timeout=10, output_bytes=10_000)))
    assert (report.ending, report.value, report.truncated) == ("returned", "done", True)
    assert len(report.stdout.encode()) <= 10_000
    assert report.usage.output_bytes > 200_000


def test_one_very_long_line_of_output_does_not_end_the_run(runs: Runs) -> None:
    report = runs(job(inline("console.log('x'.repeat(3_000_000)); return 1")))
    assert (report.ending, report.value, report.truncated) == ("returned", 1, True)


def test_large_input_and_output_arrive_whole(runs: Runs) -> None:
    text = "aé漢🎉\u0000" * 60_000
    report = runs(job(inline("return params.text"), arguments={"text": text}))
    assert report.value == text


def test_half_a_character_does_not_crash(runs: Runs) -> None:
    report = runs(job(inline("console.log('\\ud800'); return '🎉'.slice(0, 1)")))
    assert report.ending in ("returned", "bad_result")
    assert report.violations == ()


def test_a_thrown_error_comes_back_as_name_and_message(runs: Runs, tmp_path: Path) -> None:
    bundle = skill(tmp_path / "s", handler_js="module.exports = () => { throw new RangeError('too far') }")
    report = runs(job(script(), bundle=bundle))
    assert report.ending == "raised"
    assert report.fault is not None
    assert (report.fault.name, report.fault.message) == ("RangeError", "too far")


def test_no_path_of_the_host_is_in_what_people_are_shown(runs: Runs, tmp_path: Path) -> None:
    bundle = skill(tmp_path / "s", handler_js="import './absent.mjs'; export default () => 0")
    report = runs(job(script(), bundle=bundle))
    assert report.ending == "raised"
    assert report.fault is not None
    assert str(tmp_path) not in report.fault.message
    assert "{baseDir}" in report.fault.message


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../outside.js", "not a path inside"),
        ("/etc/passwd", "not a path inside"),
        ("absent.js", "not a file of the skill"),
        ("folder", "not a file of the skill"),
    ],
)
def test_a_handler_outside_the_skill_is_not_started(runs: Runs, tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "outside.js").write_text("module.exports = () => 1")
    bundle = skill(tmp_path / "s", folder__x_js="module.exports = () => 1")
    report = runs(job(script(path), bundle=bundle))
    assert report.ending == "not_started"
    assert report.fault is not None
    assert said in report.fault.message


def test_granted_places_can_be_used_as_granted(runs: Runs, tmp_path: Path) -> None:
    real = Path(os.path.realpath(tmp_path))
    for name in ("in", "out", "private"):
        (real / name).mkdir()
    (real / "in" / "a.txt").write_text("read me")
    (real / "private" / "b.txt").write_text("not yours")
    source = """
    const said = Deno.readTextFileSync(params.top + '/in/a.txt');
    Deno.writeTextFileSync(params.top + '/out/c.txt', said + '!');
    const tries = [
      () => Deno.writeTextFileSync(params.top + '/in/a.txt', 'changed'),
      () => Deno.readTextFileSync(params.top + '/private/b.txt'),
      () => Deno.removeSync(params.top + '/in/a.txt'),
      () => Deno.chmodSync(params.top + '/in/a.txt', 0o777),
    ];
    return tries.map((each) => { try { each(); return 'done' } catch (e) { return e.name } });
    """
    places = (Place(path=f"{real}/in"), Place(path=f"{real}/out", writable=True))
    report = runs(job(inline(source), arguments={"top": str(real)}, places=places))
    assert report.value == ["NotCapable"] * 4, report
    assert (real / "out" / "c.txt").read_text() == "read me!"
    assert (real / "in" / "a.txt").read_text() == "read me"
    assert {event.kind for event in report.denials} == {"read", "write"}


def test_the_working_directory_is_the_granted_one(runs: Runs, tmp_path: Path) -> None:
    real = os.path.realpath(tmp_path)
    Path(real, "here.txt").write_text("here")
    report = runs(
        job(inline("return Deno.readTextFileSync('here.txt')"), cwd=real, places=(Place(path=real),))
    )
    assert report.value == "here", report
    assert report.denials == ()


def test_without_one_it_starts_in_an_empty_folder_it_may_write(runs: Runs) -> None:
    source = "const before = [...Deno.readDirSync('.')].map((each) => each.name); Deno.writeTextFileSync('x', 'y'); return [before, Deno.readTextFileSync('x')]"
    first, second = job(inline(source)), job(inline(source))
    report = runs(first, second)
    assert report.value == [["out"], "y"], report
    assert report.denials == ()


def test_a_place_that_was_swapped_refuses_the_run(runs: Runs, tmp_path: Path) -> None:
    real = os.path.realpath(tmp_path / "w")
    os.mkdir(real)
    status = os.stat(real)
    os.rename(real, real + ".old")
    os.mkdir(real)
    place = Place(path=real, writable=True, device=status.st_dev, inode=status.st_ino)
    report = runs(job(inline("return 1"), places=(place,)))
    assert report.ending == "not_started"
    assert report.fault is not None
    assert "when this call was judged" in report.fault.message


def test_a_path_the_engine_cannot_be_told_is_refused(runs: Runs, tmp_path: Path) -> None:
    odd = os.path.realpath(tmp_path) + "/a,b"
    os.mkdir(odd)
    report = runs(job(inline("return 1"), places=(Place(path=odd),)))
    assert report.ending == "not_started"
    assert report.fault is not None
    assert "comma" in report.fault.message


@pytest.mark.parametrize(
    "source",
    [
        "for (;;);",
        "await new Promise((done) => setTimeout(done, 60_000))",
        "/(a+)+$/.test('a'.repeat(40) + 'b')",
    ],
)
def test_a_run_ends_at_its_time_limit(runs: Runs, source: str) -> None:
    report = runs(job(inline(source), limits=Limits(timeout=0.5)))
    assert report.ending == "timed_out"
    assert report.usage.seconds < 1.5


def test_a_host_that_does_not_answer_does_not_outlive_the_limit(cache: Path) -> None:
    class Slow:
        ended = False

        async def ask(self, method: str, params: dict[str, Any]) -> Any:
            try:
                await anyio.sleep(30)
            finally:
                self.ended = True

    host = Slow()
    report = run(
        the_wall(), cache, job(inline("await context.exec(['x'])"), host=host, limits=Limits(timeout=0.5))
    )
    assert report.ending == "timed_out"
    assert host.ended


def test_a_heap_bomb_is_out_of_memory(runs: Runs) -> None:
    source = "const all = []; for (;;) all.push(new Array(1000).fill(1.5))"
    report = runs(job(inline(source), limits=Limits(timeout=20, memory_mb=64)))
    assert report.ending == "out_of_memory", report
    assert report.usage.memory_bytes < 400_000_000


def test_memory_outside_the_heap_is_bounded_too(runs: Runs) -> None:
    source = "const all = []; for (;;) all.push(new Uint8Array(10_000_000).fill(1))"
    report = runs(job(inline(source), limits=Limits(timeout=20, memory_mb=64)))
    assert report.ending in ("out_of_memory", "raised"), report
    assert report.usage.memory_bytes < 900_000_000


def test_output_that_does_not_fit_into_the_memory_is_out_of_memory_and_no_crash(runs: Runs) -> None:
    report = runs(job(inline("console.log('x'.repeat(100 << 20)); return 5")))
    assert report.ending == "out_of_memory", report
    less = runs(job(inline("console.log('x'.repeat(10 << 20)); return 5")))
    assert (less.value, less.truncated) == (5, True), "control"


def test_deep_recursion_is_an_error_of_the_code(runs: Runs) -> None:
    report = runs(job(inline("const f = () => f() + 1; return f()")))
    assert report.ending == "raised"
    assert report.fault is not None
    assert report.fault.name == "RangeError"


@pytest.mark.parametrize("limits", [Limits(timeout=float("nan")), Limits(timeout=-1), Limits(memory_mb=0)])
def test_a_limit_that_is_none_is_refused(runs: Runs, limits: Limits) -> None:
    assert runs(job(inline("return 1"), limits=limits)).ending == "not_started"


def test_usage_is_reported(runs: Runs) -> None:
    report = runs(
        job(
            inline(
                "const spent = () => Deno.cpuUsage().user; const end = spent() + 300_000; while (spent() < end); return 1"
            )
        )
    )
    assert 0.3 <= report.usage.seconds < 5
    assert 0.25 <= report.usage.cpu_seconds < 3
    assert 20_000_000 < report.usage.memory_bytes < 300_000_000


def test_a_cancelled_run_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    bundle = skill(tmp_path / "s", handler_js="module.exports = () => { for (;;); }")

    async def work(sandbox: DenoSandbox) -> tuple[int, int]:
        during = 0
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.run, job(script(), bundle=bundle, limits=Limits(timeout=60)))
            with anyio.fail_after(10):
                while not (during := engines_with(str(bundle))):
                    await anyio.sleep(0.01)
            await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        return during, engines_with(str(bundle))

    during, after = in_sandbox(the_wall(), cache, work)
    assert during > 0
    assert after == 0


def test_many_runs_at_once_do_not_mix(cache: Path) -> None:
    async def work(sandbox: DenoSandbox) -> list[Any]:
        found: list[Any] = [None] * 24

        async def one(number: int) -> None:
            host = Asked(lambda _method, params: params["argv"])
            source = "console.log(params.n); return [params.n, await context.exec([String(params.n)])]"
            report = await sandbox.run(
                job(inline(source), arguments={"n": number}, host=host, limits=Limits(timeout=30))
            )
            found[number] = (report.value, report.stdout)

        async with anyio.create_task_group() as group:
            for number in range(24):
                group.start_soon(one, number)
        return found

    found = in_sandbox(the_wall(), cache, work)
    assert found == [([n, [str(n)]], f"{n}\n") for n in range(24)]


def test_it_takes_javascript_and_typescript_and_nothing_else(cache: Path) -> None:
    sandbox: Sandbox = DenoSandbox(the_wall(), cache=str(cache))
    assert sandbox.takes(job(inline("1")))
    assert sandbox.takes(job(script()))
    assert not sandbox.takes(job(inline("1", "python")))
    command = Job(
        call_id="c",
        entry=Command(argv=("ls",)),
        arguments={},
        permissions=PermissionSet(),
        limits=Limits(),
        needs=frozenset(),
    )
    assert not sandbox.takes(command)


def test_it_promises_what_its_entries_need(cache: Path) -> None:
    wall = the_wall()
    promised = DenoSandbox(wall, cache=str(cache)).guarantees()
    for kind in (type(inline("")), type(script())):
        assert promised >= DEFAULTS[kind]
    assert Guarantee.NETWORK_BY_GRANT in promised
    anyio.run(wall.aclose)


def test_without_the_engine_nothing_is_promised_and_nothing_starts(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Missing(
        what="Deno",
        why="not installed",
        remedy="pip install 'metier[javascript]'",
        costs=frozenset(Guarantee),
    )
    monkeypatch.setattr("metier.sandbox.deno.find_engine", lambda: absent)
    sandbox = DenoSandbox(the_wall(), cache=str(cache))
    assert sandbox.guarantees() == frozenset()
    assert sandbox.missing()[0] == absent
    report = anyio.run(sandbox.run, job(inline("return 1")))
    assert report.ending == "not_started"
    assert report.fault is not None
    assert "pip install 'metier[javascript]'" in report.fault.message


def test_output_without_a_line_end_is_kept_when_the_run_is_ended(runs: Runs) -> None:
    source = "Deno.stderr.writeSync(new TextEncoder().encode('half a line')); await new Promise((d) => setTimeout(d, 60000))"
    report = runs(job(inline(source), limits=Limits(timeout=0.5)))
    assert (report.ending, report.stderr.strip()) == ("timed_out", "half a line")


THROWN = {
    "argv": "await context.exec('a line')",
    "host": "await context.exec(['a'])",
    "odd arguments": "await context.log('info', 1n)",
    "callback of ours": "await context.log('info', { toJSON() { throw new Error('own') } })",
    "stream": "Deno.stdout.writeSync('text')",
    "node stream": "process.stdout.write({})",
    "program": "new Deno.Command('ls')",
    "worker": "new Worker('x')",
    "hook": "await (await import('openclaw/hooks')).runHook(() => 0)",
}


@pytest.mark.parametrize("act", THROWN)
def test_an_error_of_ours_does_not_tell_where_our_files_lie(runs: Runs, act: str) -> None:
    host = Asked(lambda method, params: NotAnswered(name="NotFound", message="no such thing"))
    report = runs(
        job(inline(f"try {{ {THROWN[act]} }} catch (e) {{ return e.message + e.stack }}"), host=host)
    )
    assert isinstance(report.value, str), report
    assert GUEST not in report.value


@pytest.mark.parametrize(
    "text",
    [
        "const top = new Error('top').stack; export default async (p, c) => { BODY }",
        "const top = new Error('top').stack; module.exports = async (p, c) => { BODY }",
        "const top = new Error('top').stack; require('node:path'); module.exports = async (p, c) => { BODY }",
    ],
)
def test_a_stack_of_the_skill_has_its_own_files_and_none_of_ours(
    runs: Runs, tmp_path: Path, text: str
) -> None:
    body = (
        "const now = new Error('now').stack; await c.exec(['a']); return [top, now, new Error('later').stack]"
    )
    bundle = skill(tmp_path / "s", handler_js=text.replace("BODY", body))
    report = runs(job(script(), bundle=bundle, host=Asked()))
    assert isinstance(report.value, list), report
    for stack in report.value:
        assert "handler.js" in str(stack)
        assert GUEST not in str(stack)


def test_the_stack_of_inline_code_does_not_tell_where_our_files_lie(runs: Runs) -> None:
    report = runs(
        job(
            inline("const f = () => new Error('x').stack; await context.exec(['a']); return f()"),
            host=Asked(),
        )
    )
    assert isinstance(report.value, str), report
    assert "inline" in report.value
    assert GUEST not in report.value


def test_neither_the_main_module_nor_the_arguments_name_our_files(runs: Runs) -> None:
    source = """
    const imported = await import('node:process');
    return JSON.stringify([Deno.mainModule, Deno.execPath(), process.argv, process.execPath, imported.argv]);
    """
    report = runs(job(inline(source)))
    assert isinstance(report.value, str), report
    assert GUEST not in report.value
    assert engine() not in report.value


def test_many_requests_at_once_wait_for_their_turn_and_none_is_lost(runs: Runs) -> None:
    host = Asked()
    source = "for (let i = 0; i < 100; i++) context.log('info', String(i)); return (await Promise.all(Array.from({ length: 100 }, (_, i) => context.exec([String(i)])))).length"
    report = runs(job(inline(source), host=host))
    assert (report.ending, report.value) == ("returned", 100), report
    assert [params["message"] for method, params in host.calls if method == "log"] == list(
        map(str, range(100))
    )


@pytest.mark.parametrize(
    "text", ["'x'.repeat(8191) + '😀'", "'half \\ud800'", "'x'.repeat(20000)"], ids=["cut", "half", "long"]
)
def test_an_error_keeps_its_words_however_they_are_written(runs: Runs, text: str) -> None:
    report = runs(job(inline(f"throw new RangeError({text})")))
    assert report.ending == "raised", report
    assert report.fault is not None
    assert report.fault.name == "RangeError"
    assert report.fault.message.startswith(("xxx", "half"))


def test_a_result_is_taken_up_to_the_limit_of_the_tool(runs: Runs) -> None:
    limits = Limits(timeout=20, output_bytes=4 * 1_048_576)
    for size, ending in (
        (3_000_000, "returned"),
        (4 * 1_048_576 - 2, "returned"),
        (4 * 1_048_576, "bad_result"),
    ):
        report = runs(job(inline(f"return 'x'.repeat({size})"), limits=limits))
        assert report.ending == ending, (size, report.fault)
