"""OpenClaw hooks: an event goes in, the context comes out as the hook left it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deno_kit import bare, engine, job, run, script, skill, the_wall
from metier.model.job import Place, Report
from metier.model.skill import Limits
from metier.sandbox.deno_plan import GUEST

Runs = Callable[..., Report]
EVENT: dict[str, Any] = {
    "type": "agent",
    "action": "bootstrap",
    "sessionKey": "s-1",
    "context": {"bootstrapFiles": [{"path": "AGENTS.md", "content": "Be kind."}], "workspaceDir": "/w"},
}
ADDED = {"path": "REMINDER.md", "content": "bootstrap s-1", "virtual": True}
BODY = """
  event.context.bootstrapFiles.push({ path: 'REMINDER.md', content: event.action + ' ' + event.sessionKey, virtual: true });
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine") / "cache"


@pytest.fixture
def hook(cache: Path, tmp_path: Path) -> Callable[..., Report]:
    """Run a hook from its text."""

    def fire(text: str, *, name: str = "handler.ts", event: Any = EVENT, **more: Any) -> Report:
        bundle = skill(tmp_path / "s", **{f"hooks__openclaw__{name.replace('.', '_')}": text})
        entry = script(f"hooks/openclaw/{name}")
        return run(the_wall(), cache, job(entry, bundle=bundle, context={"hook": event}, **more))

    return fire


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "handler.ts",
            "import { runHook, type HookEvent } from 'openclaw/hooks';\n"
            f"await runHook(async (event: HookEvent) => {{ {BODY} }});",
        ),
        (
            "handler.ts",
            "import { runHook } from 'openclaw/hooks';\n"
            "import type { BootstrapFile, HookContext, HookEvent, HookHandler } from 'openclaw/hooks';\n"
            "const keep = (context: HookContext): BootstrapFile[] => context.bootstrapFiles;\n"
            f"const handler: HookHandler = async (event: HookEvent) => {{ keep(event.context); {BODY} }};\nrunHook(handler);",
        ),
        ("handler.ts", f"const handler = async (event: any) => {{ {BODY} }};\nexport default handler;"),
        (
            "handler.js",
            f"const handler = async (event) => {{ {BODY} }};\nmodule.exports = handler;\nmodule.exports.default = handler;",
        ),
        ("handler.js", f"export const handler = async (event) => {{ {BODY} }};"),
        (
            "handler.ts",
            f"import {{ runHook }} from 'openclaw/hooks'; const h = async (event: any) => {{ {BODY} }}; runHook(h); export default h;",
        ),
    ],
)
def test_a_hook_changes_the_context_it_was_given(hook: Callable[..., Report], name: str, text: str) -> None:
    report = hook(text, name=name)
    assert report.ending == "returned", report
    assert report.value == {
        "bootstrapFiles": [*EVENT["context"]["bootstrapFiles"], ADDED],
        "workspaceDir": "/w",
    }


def test_a_context_that_was_replaced_is_the_result(hook: Callable[..., Report]) -> None:
    text = "export default async (event) => { await 0; event.context = { bootstrapFiles: [] } }"
    assert hook(text, name="handler.js").value == {"bootstrapFiles": []}


def test_what_a_hook_returns_does_not_matter(hook: Callable[..., Report]) -> None:
    assert hook("export default async () => 'ignored'", name="handler.js").value == EVENT["context"]


def test_a_hook_that_fails_is_an_error_and_no_context(hook: Callable[..., Report]) -> None:
    text = "import { runHook } from 'openclaw/hooks'; runHook(async () => { throw new TypeError('broken hook') })"
    report = hook(text)
    assert (report.ending, report.value) == ("raised", None)
    assert report.fault is not None
    assert report.fault.message == "broken hook"


def test_an_event_is_taken_once(hook: Callable[..., Report]) -> None:
    text = """
    import { runHook } from 'openclaw/hooks';
    runHook(async (event) => {
      try { await runHook(async () => {}) } catch (e) { event.context.workspaceDir = (e as Error).message }
    });
    """
    value = hook(text).value
    assert isinstance(value, dict)
    assert "taken already" in str(value["workspaceDir"])


def test_a_hook_without_a_function_is_told_so(hook: Callable[..., Report]) -> None:
    report = hook("export const nothing = 1")
    assert report.ending == "raised"
    assert report.fault is not None
    assert "exports no function" in report.fault.message


def test_a_hook_reads_the_workspace_and_nothing_else(hook: Callable[..., Report], tmp_path: Path) -> None:
    workspace = Path(os.path.realpath(tmp_path)) / "workspace"
    workspace.mkdir()
    (workspace / "NOTES.md").write_text("noted")
    (workspace.parent / "outside.md").write_text("private")
    text = """
    export default async (event) => {
      const at = event.context.workspaceDir, read = (path) => { try { return Deno.readTextFileSync(path) } catch (e) { return e.name } };
      const write = () => { try { Deno.writeTextFileSync(at + '/NOTES.md', 'x'); return 'written' } catch (e) { return e.name } };
      event.context = { seen: [read(at + '/NOTES.md'), read(at + '/../outside.md'), write()] };
    };
    """
    event = {**EVENT, "context": {"bootstrapFiles": [], "workspaceDir": str(workspace)}}
    report = hook(text, name="handler.js", event=event, places=(Place(path=str(workspace)),))
    assert report.value == {"seen": ["noted", "NotCapable", "NotCapable"]}, report
    assert (
        bare(tmp_path, f"console.log(Deno.readTextFileSync('{workspace}/../outside.md'))", "-A").stdout
        == "private\n"
    )


def test_a_tool_event_shows_the_output_of_the_tool(hook: Callable[..., Report]) -> None:
    text = "export default async (event) => { event.context = { out: Deno.env.get('CLAUDE_TOOL_OUTPUT') ?? null } }"
    tool = {**EVENT, "type": "tool", "action": "after"}
    given = hook(text, name="handler.js", event=tool, environment={"CLAUDE_TOOL_OUTPUT": "error: exit 1"})
    assert given.value == {"out": "error: exit 1"}
    refused = hook(text, name="handler.js")
    assert refused.ending == "raised"
    assert refused.fault is not None
    assert refused.fault.name == "NotCapable"


def test_a_hook_that_hangs_is_ended(hook: Callable[..., Report]) -> None:
    report = hook("export default () => { for (;;); }", name="handler.js", limits=Limits(timeout=0.5))
    assert report.ending == "timed_out"


def test_the_contract_exports_runhook_and_five_types(tmp_path: Path) -> None:
    names = "BootstrapFile, HookContext, HookEvent, HookHandler, HookResult"
    text = f"""
    import {{ runHook }} from 'openclaw/hooks';
    import type {{ {names} }} from 'openclaw/hooks';
    const file: BootstrapFile = {{ path: 'a', content: 'b', virtual: true }};
    const context: HookContext = {{ bootstrapFiles: [file], workspaceDir: '/w' }};
    const event: HookEvent = {{ type: 'tool', action: 'x', sessionKey: 'k', context }};
    const handler: HookHandler = async (given: HookEvent) => {{ const left: HookResult = given.context; void left }};
    const run: (handler: HookHandler) => Promise<void> = runHook;
    void [event, handler, run];
    """
    assert checked(tmp_path, text) == ""
    assert "nonsense" in checked(tmp_path, text.replace("'tool'", "'nonsense'"))


def checked(tmp_path: Path, text: str) -> str:
    """What the engine's own type checker has against it."""
    (tmp_path / "check.ts").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [engine(), "check", "--quiet", "--no-config", f"--import-map={GUEST}/import_map.json", "check.ts"],
        env={"HOME": str(tmp_path), "DENO_DIR": str(tmp_path / "deno"), "NO_COLOR": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
    )
    return done.stdout + done.stderr
