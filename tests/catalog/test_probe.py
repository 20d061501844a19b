"""Skills that exist only as code: found by their look, run once when they are trusted and never before, and read from that."""

import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import Machine, write_skill
from metier import Runtime
from metier.catalog.listed import Listed
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.model.skill import Limits
from metier.runtime import probing
from metier.sandbox.deno_plan import GUEST

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
EXAMPLE = Path(__file__).parents[2] / "examples" / "metahuman-reading-time"
MANIFEST = {
    "name": "Count",
    "description": "Counts letters.",
    "category": "memory",
    "inputs": {"text": {"type": "string", "required": True, "description": "What to count"}},
    "outputs": {"letters": {"type": "number", "description": "How many"}},
    "risk": "low",
    "cost": "free",
    "minTrustLevel": "observe",
    "requiresApproval": False,
}
EXECUTE = (
    "export async function execute(inputs: any) { return { success: true, letters: inputs.text.length }; }"
)


def code(name: str = "count", *, first: str = "", manifest: str = "", **changed: Any) -> str:
    """A skill that is its own manifest; `manifest` is what stands in it as code."""
    fields = json.dumps({"id": name, **MANIFEST, **changed})
    return f"{first}\nexport const manifest: any = {{ ...{fields}, {manifest} }};\n{EXECUTE}\n"


def put(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def opened(machine: Machine, act: Callable[[Runtime], Awaitable[Any]], **given: Any) -> Any:
    """What `act` gives with a runtime of this machine."""
    result: list[Any] = []

    async def main() -> None:
        async with Runtime.open(
            project=str(machine.project), home=str(machine.state), watch=False, **given
        ) as runtime:
            result.append(await act(runtime))

    anyio.run(main)
    return result[0]


async def nothing(runtime: Runtime) -> None:
    """To open it is enough."""


def called(machine: Machine, tool: str, **arguments: Any) -> Outcome:
    return opened(machine, lambda runtime: runtime.call(tool, arguments))


def listed(machine: Machine, name: str) -> Listed:
    (found,) = [each for each in machine.catalog().listed if each.name == name]
    return found


def kept(machine: Machine) -> list[Path]:
    """What is kept of runs that read a skill."""
    return sorted(machine.state.glob("bundles/*/probe.json"))


def audit(machine: Machine) -> list[dict[str, Any]]:
    return [json.loads(line) for line in machine.metier("audit", "export").stdout.splitlines()]


def acts(machine: Machine) -> list[dict[str, Any]]:
    """The records of such runs."""
    about = ((each, each["details"]) for each in audit(machine))
    return [each for each, details in about if details["tool"] == probing.NAME and details["skillId"]]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    return made


def test_a_skill_that_is_its_own_manifest_is_read_by_running_it_and_runs(machine: Machine) -> None:
    put(machine.skills, "count.ts", code())
    before = listed(machine, "count")
    assert (before.shown, before.probe, before.skill and before.skill.tools) == ("unavailable", True, ())
    assert "exists only as code" in before.why
    outcome = called(machine, "count/execute", text="four")
    assert isinstance(outcome, Completed), outcome
    assert outcome.value == {"success": True, "letters": 4}
    after = listed(machine, "count")
    assert (after.shown, after.probe, after.why) == ("usable", False, "")
    assert after.skill is not None
    assert (after.skill.dialect, after.skill.description) == ("metahuman", "Counts letters.")


def test_it_is_run_once_for_each_content(machine: Machine) -> None:
    path = put(machine.skills, "count.ts", code())
    for _ in range(2):
        opened(machine, nothing)
    assert (len(kept(machine)), len({each["callId"] for each in acts(machine)})) == (1, 1)
    path.write_text(code(description="Counts them."), encoding="utf-8")
    assert listed(machine, "count").probe
    opened(machine, nothing)
    assert (len(kept(machine)), len({each["callId"] for each in acts(machine)})) == (2, 2)
    found = listed(machine, "count").skill
    assert found is not None
    assert found.description == "Counts them."


def test_the_run_is_the_owners_and_on_the_record_and_no_agent_can_ask_for_it(machine: Machine) -> None:
    put(machine.skills, "count.ts", code())
    outcome = called(machine, probing.NAME, skill="count")
    assert isinstance(outcome, Refused)
    assert outcome.code == "unknown_tool"
    records = acts(machine)
    assert [each["event"] for each in records] == ["skill_execution_started", "skill_executed"]
    assert {each["actor"] for each in records} == {f"human:uid-{os.getuid()}"}
    assert {each["details"]["skillId"] for each in records} == {"count"}


def test_what_it_declares_is_granted_at_its_first_use_and_not_when_it_is_read(machine: Machine) -> None:
    reads = (
        "export async function execute() { return { success: true, text: await Deno.readTextFile('note') }; }"
    )
    (machine.state / "workspace" / "memory").mkdir(parents=True)
    text = code(allowedDirectories=["memory/"], outputs={}, inputs={}).replace(EXECUTE, reads)
    place = machine.state / "workspace" / "memory" / "note"
    place.write_text("remembered", encoding="utf-8")
    put(machine.skills, "count.ts", text.replace("'note'", json.dumps(str(place))))
    opened(machine, nothing)
    granted = machine.json("skills", "info", "count", "--json")["permissions"]
    assert any("memory" in folder for folder in granted["reads"])
    assert not [each for each in audit(machine) if each["event"] in ("skill_pinned", "skill_trusted")]
    outcome = called(machine, "count/execute")
    assert isinstance(outcome, Completed), outcome
    assert outcome.value == {"success": True, "text": "remembered"}
    assert [each["event"] for each in audit(machine)].count("skill_pinned") == 1


def test_nothing_of_it_is_run_before_it_is_trusted(machine: Machine) -> None:
    put(machine.project / "brain" / "skills", "count.ts", code())
    opened(machine, nothing)
    waiting = listed(machine, "count")
    assert (waiting.shown, waiting.probe) == ("pending_approval", True)
    assert (kept(machine), audit(machine)) == ([], [])  # it was not even asked about
    outcome = called(machine, "count/execute", text="four")
    assert isinstance(outcome, Refused)
    machine.metier("skills", "trust", "count", "--yes")
    assert (len(kept(machine)), len(acts(machine))) == (1, 2)
    assert isinstance(called(machine, "count/execute", text="four"), Completed)


@pytest.mark.slow
def test_changed_bytes_are_not_run_until_they_are_trusted_again(machine: Machine) -> None:
    path = put(machine.project / "brain" / "skills", "count.ts", code())
    machine.metier("skills", "trust", "count", "--yes")
    ran = len(acts(machine))
    assert ran == 2
    path.write_text(code(description="Something else."), encoding="utf-8")
    opened(machine, nothing)
    assert listed(machine, "count").shown == "pending_approval"
    assert len(acts(machine)) == ran
    machine.metier("skills", "trust", "count", "--yes")
    assert len(acts(machine)) == 2 * ran
    assert listed(machine, "count").shown == "usable"


@pytest.mark.parametrize(
    "switch",
    ['[skills]\ndisabled = ["count"]\n', '[skills.entries.count]\nenabled = false\n', "[skills]\nallow = []\n"],
)  # fmt: skip
def test_what_is_switched_off_is_not_run_to_be_read(machine: Machine, switch: str) -> None:
    put(machine.skills, "count.ts", code())
    put(machine.state, "metier.toml", switch)
    opened(machine, nothing)
    assert (listed(machine, "count").shown, kept(machine), audit(machine)) == ("disabled", [], [])


def test_while_everything_is_stopped_nothing_is_run_to_be_read(machine: Machine) -> None:
    put(machine.skills, "count.ts", code())
    machine.metier("stop")
    opened(machine, nothing)
    assert (listed(machine, "count").probe, kept(machine)) == (True, [])
    machine.metier("resume")
    opened(machine, nothing)
    assert (listed(machine, "count").probe, len(kept(machine))) == (False, 1)


def test_what_a_rule_forbids_is_not_run_to_be_read(machine: Machine) -> None:
    put(machine.skills, "count.ts", code())
    rule = f'[[rule]]\ndecision = "deny"\ntool = "{probing.NAME}"\nbecause = "not here"\n'
    put(machine.state, "policy.toml", rule)
    opened(machine, nothing)
    assert (listed(machine, "count").probe, kept(machine)) == (True, [])


def test_trusting_asks_first_for_the_bytes_and_then_for_what_they_want(machine: Machine) -> None:
    wants = code(allowedDirectories=["memory/"], requiresApproval=True, risk="medium")
    put(machine.project / "brain" / "skills", "count.ts", wants)
    done = machine.metier("skills", "trust", "count", stdin="n\n", check=None)
    assert "{workspace}/memory" not in done.stdout
    assert (kept(machine), acts(machine)) == ([], [])
    done = machine.metier("skills", "trust", "count", stdin="y\nn\n", check=None)
    assert "{workspace}/memory" in done.stdout
    assert done.returncode != 0
    assert "taken back" in done.stderr
    found = listed(machine, "count")
    assert (found.shown, "taken back" in found.why) == ("pending_approval", True)
    machine.metier("skills", "trust", "count", "--yes")
    assert listed(machine, "count").shown == "usable"


LOOKS = """
const tried: any = {};
const attempt = async (name: string, act: () => unknown) => {
  try { await act(); tried[name] = "done"; } catch (error) { tried[name] = (error as Error).name; }
};
await attempt("own", () => Deno.readTextFileSync(new URL(import.meta.url)));
await attempt("file", () => Deno.readTextFileSync("/etc/passwd"));
await attempt("folder", () => Deno.writeTextFileSync(new URL("./left", import.meta.url), "x"));
await attempt("environment", () => Deno.env.get("HOME"));
await attempt("network", () => Deno.connect({ hostname: "127.0.0.1", port: 9 }));
await attempt("program", () => new Deno.Command("/bin/true").outputSync());
await attempt("native", () => Deno.dlopen("/lib/x86_64-linux-gnu/libc.so.6", {}));
"""


def test_while_it_is_read_it_may_do_nothing(machine: Machine) -> None:
    put(machine.skills, "count.ts", code(first=LOOKS, manifest="description: JSON.stringify(tried)"))
    opened(machine, nothing)
    found = listed(machine, "count").skill
    assert found is not None
    tried = json.loads(found.description)
    assert tried.pop("own") == "done"
    assert set(tried) == {"file", "folder", "environment", "network", "program", "native"}
    assert set(tried.values()) <= {"NotCapable", "NotFound", "PermissionDenied"}, tried


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("export const manifest = {}; export const execute = 1; throw new Error('not today');", "not today"),
        ("export const manifest = {}; export const execute = 1;", "exports no function `execute`"),
        ("export const manifest = 1; export function execute() {}", "exports no `manifest`"),
        ("import x from './gone.ts'; export const manifest = x; export function execute() {}", "gone.ts"),
        ("export const manifest = {} ; export function execute() {} ; syntax error", ""),
        ("export const manifest: any = {}; manifest.me = manifest; export function execute() {}", "leads back"),
        ("export const manifest = { get id() { return 'count' } }; export function execute() {}", "worked out"),
        ("export const manifest = { n: 1n }; export function execute() {}", "BigInt"),
        ("export const manifest = { id: 'other', category: 'fs', inputs: {} }; export function execute() {}", "other"),
        ("export const manifest = { t: 'x'.repeat(1e6) }; export function execute() {}", "characters"),
        ("export const manifest = {}; export function execute() {}; Deno.exit(0)", "without"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_broken_and_says_why(machine: Machine, text: str, said: str) -> None:
    path = put(machine.skills, "count.ts", text)
    opened(machine, nothing)
    found = listed(machine, "count")
    assert (found.shown, found.skill) == ("broken", None)
    assert said in found.why
    assert str(machine.state) not in found.why
    assert GUEST not in found.why
    path.write_text(code(), encoding="utf-8")
    opened(machine, nothing)
    assert listed(machine, "count").shown == "usable"


def test_code_that_never_ends_is_ended(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "LIMITS", Limits(timeout=1.5, output_bytes=262_144))
    put(machine.skills, "count.ts", code(first="for (;;) {}"))
    write_skill(machine.skills / "beside")
    opened(machine, nothing)
    assert (listed(machine, "count").shown, listed(machine, "beside").shown) == ("broken", "usable")
    assert "1.5" in listed(machine, "count").why


@pytest.mark.slow
def test_code_that_took_too_long_once_is_read_again_when_it_is_trusted_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "LIMITS", Limits(timeout=1.5, output_bytes=262_144))
    slow = f"while (Date.now() < {(time.time() + 4) * 1000:.0f}) {{}}"
    put(machine.skills, "count.ts", code(first=slow))
    opened(machine, nothing)
    found = listed(machine, "count")
    assert found.shown == "broken"
    assert "limit" not in found.why, "nobody could raise it"
    assert "`metier skills trust count`" in found.why
    machine.metier("skills", "trust", "count", "--yes")
    assert listed(machine, "count").shown == "usable"


@pytest.mark.slow
def test_code_that_still_cannot_be_read_is_as_it_was(machine: Machine) -> None:
    put(machine.skills, "count.ts", code(first="throw new Error('no leaves')"))
    opened(machine, nothing)
    assert "no leaves" in listed(machine, "count").why
    done = machine.metier("skills", "trust", "count", "--yes", check=1)
    assert "no leaves" in done.stderr
    assert listed(machine, "count").shown == "broken"


def test_what_is_kept_counts_only_if_nobody_else_can_have_written_it(
    machine: Machine, tmp_path: Path
) -> None:
    put(machine.skills, "count.ts", code())
    opened(machine, nothing)
    (place,) = kept(machine)
    good = place.read_bytes()
    tree = json.loads(good)
    assert not listed(machine, "count").probe
    for bad in (
        b"",
        b"{",
        good[:-1],
        json.dumps({**tree, "digest": f"sha256:{'0' * 64}"}).encode(),
        json.dumps({**tree, "format": 0}).encode(),
        json.dumps({**tree, "more": 1}).encode(),
    ):
        place.write_bytes(bad)
        assert listed(machine, "count").probe, bad
    place.write_bytes(good)
    os.link(place, tmp_path / "second")
    assert listed(machine, "count").probe
    (tmp_path / "second").unlink()
    assert not listed(machine, "count").probe
    place.chmod(0o622)
    assert listed(machine, "count").probe
    place.unlink()
    place.symlink_to(put(tmp_path, "elsewhere", good.decode()))
    assert listed(machine, "count").probe
    opened(machine, nothing)  # it is read again, and the link is replaced
    assert not listed(machine, "count").probe
    assert not place.is_symlink()


def test_what_was_read_first_is_what_is_granted_whatever_the_code_says_the_next_time(
    machine: Machine,
) -> None:
    """Its manifest may depend on chance; what was bound to the bytes does not."""
    put(machine.skills, "count.ts", code())
    assert isinstance(called(machine, "count/execute", text="four"), Completed)  # bound to the bytes now
    (place,) = kept(machine)
    tree = json.loads(place.read_bytes())
    tree["probed"]["exported"]["manifest"]["allowedDirectories"] = ["logs/"]
    place.write_text(json.dumps(tree), encoding="utf-8")
    outcome = called(machine, "count/execute", text="four")
    assert isinstance(outcome, Refused)
    assert "logs" in " ".join(outcome.reasons)


@pytest.mark.parametrize(
    "place",
    ["../packages/core/src/skills.js", "../../packages/core/src/skills.js", "../../../packages/core/src/skills.ts",
     "../../../../../../../../packages/core/src/skills", "../../../../../../../../../../../../../packages/core/src/skills.js"],
)  # fmt: skip
def test_the_types_of_its_own_system_are_there_wherever_they_lay(machine: Machine, place: str) -> None:
    first = f"import {{ SkillManifest, SkillResult }} from '{place}';\nconst unused: SkillResult | undefined = undefined;"
    put(machine.skills, "count.ts", code(first=first))
    outcome = called(machine, "count/execute", text="four")
    assert isinstance(outcome, Completed), (outcome, listed(machine, "count").why)
    assert outcome.value == {"success": True, "letters": 4}


def test_of_that_system_nothing_else_can_be_called(machine: Machine) -> None:
    first = "import { executeSkill } from '../../packages/core/src/skills.js';\nawait executeSkill('fs_write', {});"
    put(machine.skills, "count.ts", code(first=first))
    opened(machine, nothing)
    assert "executeSkill" in listed(machine, "count").why


def test_the_example_runs(machine: Machine) -> None:
    shutil.copytree(EXAMPLE, machine.skills)
    outcome = called(machine, "reading_time/execute", text="one two three", wordsPerMinute=150)
    assert isinstance(outcome, Completed), (outcome, listed(machine, "reading_time").why)
    assert outcome.value == {"success": True, "words": 3, "minutes": 0.5}
    assert not isinstance(called(machine, "reading_time/execute", text="one", wordsPerMinute=1), Completed)


@pytest.mark.slow
def test_the_skeleton_of_the_source_document_runs_as_it_stands(machine: Machine) -> None:
    try:
        (found,) = SEEDS.glob("002_*.txt")
    except ValueError:
        pytest.skip("the documents this is tested against do not lie beside the project")
    start = "// brain/skills/my_skill.ts\n"
    text = start + found.read_text(encoding="utf-8").partition(start)[2].partition("```")[0]
    put(machine.project / "brain" / "skills", "my_skill.ts", text)
    machine.metier("skills", "trust", "my_skill", "--yes")
    assert machine.metier("call", "my_skill/execute", check=None).stderr.startswith("Waiting for approval")
    approval = machine.metier("approvals", "list").stdout.partition(" ")[0]
    done = machine.metier("approvals", "approve", approval)
    assert json.loads(done.stdout) == {"success": True}


@pytest.mark.slow
def test_the_functions_that_check_its_inputs_are_asked_each_with_its_own_value(machine: Machine) -> None:
    checks = """inputs: {
      text: { type: "string", required: true, description: "x", validation: (value: string) => value.length < 5 },
      more: { type: "number", required: false, description: "x", validation: (value: number) => value > 0 },
    }"""
    put(machine.skills, "count.ts", code(manifest=checks))
    for given, fits in (
        ({"text": "four"}, True),
        ({"text": "fives"}, False),
        ({"text": "four", "more": 1}, True),
        ({"text": "four", "more": 0}, False),
    ):
        outcome = called(machine, "count/execute", **given)
        assert isinstance(outcome, Completed) is fits, outcome
        assert isinstance(outcome, Completed | Failed | Refused)


def test_a_function_that_only_asks_a_known_check_is_that_check(machine: Machine) -> None:
    checks = """inputs: {
      path: { type: "string", required: true, description: "x", validation: (path: string) => isWithinAllowedDirectory(path) },
    }, allowedDirectories: ["memory/"]"""
    put(
        machine.skills,
        "count.ts",
        code(manifest=checks, first="declare const isWithinAllowedDirectory: any;"),
    )
    opened(machine, nothing)
    found = listed(machine, "count").skill
    assert found is not None
    (tool,) = found.tools
    assert (tool.checks, tool.validator) == ({"path": "isWithinAllowedDirectory"}, None)


CHECKS = "isWithinAllowedDirectory, isWriteAllowed, isValidAgent, isWhitelisted"
IMPORTED = f"import {{ SkillResult, {CHECKS} }} from '../../packages/core/src/skills.js';"


@pytest.mark.slow
def test_a_known_check_may_be_imported_and_is_asked_by_us(machine: Machine) -> None:
    checks = """inputs: {
      text: { type: "string", required: true, description: "x", validation: (path: string) => isWithinAllowedDirectory(path) },
    }, allowedDirectories: ["memory/"]"""
    put(machine.skills, "count.ts", code(manifest=checks, first=IMPORTED))
    assert isinstance(called(machine, "count/execute", text="memory/x.md"), Completed)
    outcome = called(machine, "count/execute", text="/etc/passwd")
    assert isinstance(outcome, Refused), outcome
    found = listed(machine, "count").skill
    assert found is not None
    assert (found.tools[0].checks, found.tools[0].validator) == ({"text": "isWithinAllowedDirectory"}, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS.split(", "))
def test_code_that_asks_an_imported_check_itself_is_told_that_it_cannot(machine: Machine, name: str) -> None:
    first = f"{IMPORTED}\nconst said = {name}('memory/x');"
    put(machine.skills, "count.ts", code(first=first))
    opened(machine, nothing)
    why = listed(machine, "count").why
    assert f"{name} is not defined in code" in why
    assert str(GUEST) not in why


@pytest.mark.parametrize("first", [IMPORTED, "declare const isWithinAllowedDirectory: any;"])
def test_a_check_of_ours_among_other_code_refuses_the_skill_and_not_each_call(
    machine: Machine, first: str
) -> None:
    checks = """inputs: {
      text: { type: "string", required: true, description: "x",
        validation: (path: string) => isWithinAllowedDirectory(path) && path.endsWith(".md") },
    }, allowedDirectories: ["memory/"]"""
    put(machine.skills, "count.ts", code(manifest=checks, first=first))
    opened(machine, nothing)
    assert listed(machine, "count").shown == "broken"
    assert "no function that only asks one of them" in listed(machine, "count").why


@pytest.mark.slow
@pytest.mark.parametrize(
    "own",
    [
        "const isWithinAllowedDirectory = (path: string) => path.endsWith('.md');",
        "function isWithinAllowedDirectory(path: string) { return path.endsWith('.md'); }",
        "(globalThis as any).isWithinAllowedDirectory = (path: string) => path.endsWith('.md');",
        "const isWithinAllowedDirectory = (path: string) => { if (!path.endsWith('.md')) throw new Error('no'); return true; };",
    ],
)
def test_a_check_of_the_authors_own_that_has_the_name_of_a_known_one_is_asked_besides_it(
    machine: Machine, own: str
) -> None:
    checks = """inputs: {
      text: { type: "string", required: true, description: "x", validation: (text: string) => isWithinAllowedDirectory(text) },
    }, allowedDirectories: ["memory/"]"""
    first = own if "globalThis" not in own else f"declare const isWithinAllowedDirectory: any;\n{own}"
    put(machine.skills, "count.ts", code(manifest=checks, first=first))
    assert isinstance(called(machine, "count/execute", text="memory/x.md"), Completed)
    for path in ("memory/x.txt", "/etc/x.md"):
        outcome = called(machine, "count/execute", text=path)
        assert isinstance(outcome, Failed | Refused), outcome
    found = listed(machine, "count").skill
    assert found is not None
    assert found.tools[0].checks == {"text": "isWithinAllowedDirectory"}
    assert found.tools[0].validator is not None


@pytest.mark.parametrize(
    "checks",
    [
        "inputs: { text: { type: 'string', required: true, description: 'x', get validation() { return () => false } } }",
        "inputs: { text: new (class { type = 'string'; required = true; description = 'x'; validation() { return false } })() }",
    ],
)  # fmt: skip
def test_a_check_that_would_be_lost_refuses_the_skill(machine: Machine, checks: str) -> None:
    put(machine.skills, "count.ts", code(manifest=checks))
    opened(machine, nothing)
    assert listed(machine, "count").shown == "broken"


def test_only_code_that_exports_both_is_taken_for_a_skill(machine: Machine) -> None:
    put(machine.skills, "other.ts", "export const manifest = {};\n// execute\n")
    put(machine.skills, "text.js", "const text = 'export const manifest = 1; export function execute() {}';")
    put(machine.skills, "made.ts", code("made"))
    put(machine.skills, "made.js", code("made"))
    put(machine.skills, "both.json", json.dumps({"id": "both", **MANIFEST}))
    put(machine.skills, "both.ts", code("both"))
    put(machine.skills, "old.js", "module.exports = { manifest: {}, execute: async () => ({}) };")
    found = {each.manifest for each in machine.catalog().listed if each.root.kind == "user"}
    assert found == {"made.ts", "both.json", "old.js"}


def test_an_allowlist_names_code_like_everything_else(machine: Machine) -> None:
    put(machine.skills, "named.ts", code("named"))
    put(machine.skills, "other.ts", code("other"))
    put(machine.skills, "SKILL_MANIFEST.json", json.dumps({"approvedSkills": ["named"]}))
    assert [each.name for each in machine.catalog().listed if each.root.kind == "user"] == ["named"]


def test_a_link_or_a_second_name_is_not_followed_to_code(machine: Machine, tmp_path: Path) -> None:
    elsewhere = put(tmp_path, "elsewhere.ts", code("linked"))
    machine.skills.mkdir(parents=True)
    (machine.skills / "linked.ts").symlink_to(elsewhere)
    os.link(elsewhere, machine.skills / "second.ts")
    opened(machine, nothing)
    assert [each for each in machine.catalog().listed if each.root.kind == "user"] == []
    assert kept(machine) == []


def test_old_javascript_is_read_too(machine: Machine) -> None:
    fields = json.dumps({"id": "old", **MANIFEST})
    put(
        machine.skills,
        "old.js",
        f"module.exports = {{ manifest: {fields}, execute: async (inputs) => ({{ success: true, letters: 1 }}) }};",
    )
    outcome = called(machine, "old/execute", text="x")
    assert isinstance(outcome, Completed), (outcome, listed(machine, "old").why)
