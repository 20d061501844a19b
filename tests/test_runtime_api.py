"""The public API keeps its word: names, imports, outcomes with stable codes, and what is seen while it is open."""

import inspect
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import anyio.lowlevel
import msgspec
import pytest

import metier
from machine import BUNDLED as SHIPPED
from machine import Machine, write_skill
from metier import Completed, ConfigError, Failed, Outcome, Refused, Runtime, SyncRuntime
from metier.model.call import Call, Principal
from metier.model.outcome import FailureCode, RefusalCode
from metier.pipeline import run
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.verify import verify

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "api.md"
BUNDLED = {"name": "writing-skills"}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("METIER_HOME", raising=False)
    return made


def opened(machine: Machine, work: Callable[[Runtime], Awaitable[Any]], *, watch: bool = False) -> Any:
    """Do `work` with a runtime of that machine."""

    async def main() -> Any:
        async with Runtime.open(project=str(machine.project), watch=watch) as runtime:
            return await work(runtime)

    return anyio.run(main)


def call_async(machine: Machine, calls: list[tuple[str, Any]]) -> list[Outcome]:
    async def work(runtime: Runtime) -> list[Outcome]:
        return [await runtime.call(tool, arguments) for tool, arguments in calls]

    return opened(machine, work)


def call_sync(machine: Machine, calls: list[tuple[str, Any]]) -> list[Outcome]:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        return [runtime.call(tool, arguments) for tool, arguments in calls]


both = pytest.mark.parametrize("call", [call_async, call_sync], ids=["Runtime", "SyncRuntime"])


def records(machine: Machine) -> list[Record]:
    with Database.open(str(machine.state / "state.db")) as database:
        assert verify(database).ok
        return AuditLog(database).tail(1000)


# --- names, imports, documentation


def test_the_public_names_are_sorted_and_each_leads_to_what_it_names() -> None:
    assert metier.__all__ == sorted(metier.__all__)
    assert set(metier.__all__) == metier._PLACES.keys()
    for name in metier.__all__:
        found = getattr(metier, name)
        assert getattr(found, "__name__", name) == name
    assert dir(metier) == sorted([*metier.__all__, "__version__"])


def test_a_name_that_is_not_public_is_an_ordinary_missing_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = metier.Nonsense
    assert not hasattr(metier, "Settings")


@pytest.mark.parametrize("line", ["import metier", "from metier import Skill, Outcome, MetierError, Catalog"])
def test_importing_metier_loads_nothing_heavy(line: str) -> None:
    heavy = "{'asyncio', 'anyio', 'click', 'sqlite3', 'rich', 'watchfiles', 'http.server'}"
    code = f"import sys; {line}; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def members(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("_")}


def test_the_synchronous_runtime_offers_exactly_what_the_other_does() -> None:
    assert members(SyncRuntime).keys() == members(Runtime).keys()
    for name in members(Runtime):
        one, other = getattr(Runtime, name), getattr(SyncRuntime, name)
        if callable(one):
            assert inspect.signature(one).parameters == inspect.signature(other).parameters, name


def test_the_document_names_everything_that_is_public() -> None:
    import metier.testing

    text = DOCUMENT.read_text(encoding="utf-8")
    names = {*metier.__all__, *metier.testing.__all__}
    assert sorted(name for name in names if not re.search(rf"`{name}\b", text)) == []
    for kind in ("Runtime", "SyncRuntime"):
        part = text[text.index(f"## `{kind}`") :].split("\n## ")[0]
        spelled = {name: f"{kind}.open(" if name == "open" else f"metier.{name}" for name in members(Runtime)}
        assert [name for name, text in spelled.items() if text not in part] == []


def test_the_document_lists_every_code_a_call_can_end_with() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    part = text[text.index("## How a call ends") :].split("\n## ")[0]
    codes = [*get_args(RefusalCode), *get_args(FailureCode)]
    assert [code for code in codes if f"`{code}`" not in part] == []


def test_the_programs_in_the_document_run(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    pytest.importorskip("openai")
    programs = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(programs) == 2
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=machine.project, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "metier skills new NAME" in done.stdout


# --- calls


@both
def test_the_bundled_skill_can_be_read_on_a_fresh_machine(call: Any, machine: Machine) -> None:
    [outcome] = call(machine, [("read_skill", BUNDLED)])
    assert isinstance(outcome, Completed)
    assert outcome.value.startswith('<skill_content name="writing-skills">')
    assert "# Writing skills" in outcome.value
    started, ended = records(machine)
    assert (started.event, ended.event) == ("skill_execution_started", "skill_executed")
    assert started.call_id == ended.call_id == outcome.call_id
    assert (started.principal, started.skill) == ("agent:library", "writing-skills")


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


REFUSALS: list[tuple[str, Any, RefusalCode, str]] = [
    ("read_skil", BUNDLED, "unknown_tool", "no tool 'read_skil'"),
    ("", {}, "unknown_tool", "no tool"),
    ("skills.believe", {"name": "x"}, "unknown_tool", "no tool"),
    ("\ud800\x1b[2J", {}, "unknown_tool", "no tool"),
    ("read_skill", {"name": "no-such-skill"}, "unknown_skill", "no skill 'no-such-skill'"),
    ("read_skill", {"name": "../writing-skills"}, "unknown_skill", "no skill"),
    ("read_skill", {"name": "Writing-Skills"}, "unknown_skill", "no skill"),
    ("read_skill", None, "invalid_arguments", "'name' is required"),
    ("read_skill", {**BUNDLED, "force": True}, "invalid_arguments", "'force' is not known"),
    ("read_skill", {"name": 7}, "invalid_arguments", "wrong type"),
    ("read_skill", {"name": None}, "invalid_arguments", "wrong type"),
    ("read_skill", {"name": ["writing-skills"]}, "invalid_arguments", "wrong type"),
    ("read_skill", {"name": ""}, "invalid_arguments", "too short"),
    ("read_skill", {"name": "x" * 201}, "invalid_arguments", "too long"),
    ("read_skill", {**BUNDLED, "path": "x" * 1_100_000}, "invalid_arguments", "1,048,576"),
    ("read_skill", {"name": float("nan")}, "invalid_arguments", "nan is not JSON"),
    ("read_skill", {"name": float("inf")}, "invalid_arguments", "inf is not JSON"),
    ("read_skill", {"name": 2**53}, "invalid_arguments", "beyond"),
    ("read_skill", {"name": "writing-skills\x00"}, "invalid_arguments", "control character"),
    ("read_skill", {"name": "\x1b[2J"}, "invalid_arguments", "control character"),
    ("read_skill", {"name": "a\x7f"}, "invalid_arguments", "control character"),
    ("read_skill", {**BUNDLED, "a\x08": 1}, "invalid_arguments", "control character"),
    ("read_skill", {"name": "\ud83e"}, "invalid_arguments", "lone surrogate"),
    ("read_skill", {"\udc00": 1}, "invalid_arguments", "lone surrogate"),
    ("read_skill", {"name": nested(32)}, "invalid_arguments", "32 levels"),
    ("read_skill", {"name": nested(5000)}, "invalid_arguments", "32 levels"),
    ("read_skill", {1: 2}, "invalid_arguments", "not a string"),
    ("read_skill", {"name": b"writing-skills"}, "invalid_arguments", "not strict JSON"),
    ("read_skill", "writing-skills", "invalid_arguments", "must be a JSON object"),
    ("read_skill", ["writing-skills"], "invalid_arguments", "must be a JSON object"),
    ("read_skill", 7, "invalid_arguments", "must be a JSON object"),
    ("read_skill", True, "invalid_arguments", "must be a JSON object"),
]


@both
def test_what_cannot_be_called_is_refused_and_is_exactly_one_record(call: Any, machine: Machine) -> None:
    outcomes = call(machine, [(tool, arguments) for tool, arguments, _, _ in REFUSALS])
    for outcome, (_, _, code, reason) in zip(outcomes, REFUSALS, strict=True):
        assert isinstance(outcome, Refused)
        assert (outcome.code, reason in "; ".join(outcome.reasons)) == (code, True), outcome
        assert outcome.remedy
    kept = records(machine)
    assert [(each.call_id, each.event, each.code) for each in kept] == [
        (outcome.call_id, "skill_execution_blocked", outcome.code) for outcome in outcomes
    ]
    assert len({outcome.call_id for outcome in outcomes}) == len(outcomes)


def test_tabs_line_ends_and_every_script_are_no_control_characters(machine: Machine) -> None:
    names = ["a\tb", "a\nb\r\n", "Käse", "お茶", "\U0001f9c0", "\\u0000", "\\\\b", "\u0085"]
    for outcome in call_async(machine, [("read_skill", {"name": name}) for name in names]):
        assert isinstance(outcome, Refused)
        assert outcome.code == "unknown_skill"


@pytest.fixture
def tea(machine: Machine) -> Path:
    """A skill of the user's own, with files, beside something that is none of its business."""
    folder = write_skill(machine.skills / "brewing-tea", body="Boil, then pour.")
    (folder / "references").mkdir()
    (folder / "references" / "leaves.md").write_text("Green or black.")
    (folder / "photo.bin").write_bytes(b"\xff\xfe\x00")
    (folder / "long.txt").write_text("x" * 300_000)
    (machine.skills / "secret.txt").write_text("hunter2")
    return folder


@both
def test_a_file_of_a_skill_can_be_read_and_nothing_else(
    call: Any, machine: Machine, tea: Path, tmp_path: Path
) -> None:
    def read(*paths: str) -> list[Outcome]:
        return call(machine, [("read_skill", {"name": "brewing-tea", "path": path}) for path in paths])

    for outcome in read(
        "references/leaves.md", "./references/leaves.md", "skill://brewing-tea/references/leaves.md"
    ):
        assert isinstance(outcome, Completed)
        assert isinstance(outcome.value, str)
        assert outcome.value.splitlines()[1] == "Green or black."
    outside = [
        "../secret.txt", "references/../../secret.txt", "references/../references/leaves.md", str(tea / "SKILL.md"),
        "/etc/passwd", "skill://brewing-tea/../secret.txt", "..", ".", "references", "references/", "references//leaves.md",
        "REFERENCES/leaves.md", "~/secret.txt", "file:///etc/passwd", "references\\leaves.md", "%2e%2e/secret.txt",
    ]  # fmt: skip
    for path, outcome in zip(outside, read(*outside), strict=True):
        assert isinstance(outcome, Failed), path
        assert outcome.code == "not_found"
        assert "hunter2" not in outcome.message
    codes = [getattr(outcome, "code", "") for outcome in read("photo.bin", "long.txt")]
    assert codes == ["not_text", "too_large"]
    # The naive way does find what lies outside.
    assert (tea / "../secret.txt").read_text() == "hunter2"


def test_several_threads_may_share_one_synchronous_runtime(machine: Machine) -> None:
    outcomes: list[Outcome] = []
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:

        def work() -> None:
            outcomes.extend(runtime.call("read_skill", BUNDLED) for _ in range(3))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [type(outcome) for outcome in outcomes] == [Completed] * 12
    assert len(records(machine)) == 24


def test_calls_made_at_once_are_answered_in_order_and_a_bad_one_spoils_no_other(machine: Machine) -> None:
    def asked(number: int, name: str, arguments: str) -> dict[str, Any]:
        return {
            "id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments},
        }  # fmt: skip

    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            asked(1, "read_skill", '{"name": "writing-skills"}'),
            asked(2, "read_skill", '{"name": "writing-skills", "name": "other"}'),
            asked(3, "nothing", "{}"),
            asked(4, "read_skill", '{"name": "writing-skills"}'),
        ],
    }
    answers = opened(machine, lambda runtime: runtime.handle(message))
    assert [answer["tool_call_id"] for answer in answers] == ["c1", "c2", "c3", "c4"]
    assert answers[0]["content"] == answers[3]["content"]
    assert "is given twice" in msgspec.json.decode(answers[1]["content"])["message"]
    assert msgspec.json.decode(answers[2]["content"])["error"] == "unknown_tool"
    assert sum(each.event == "skill_execution_blocked" for each in records(machine)) == 2


# --- opening and closing


@pytest.mark.parametrize("watch", [True, False])
def test_an_error_of_the_caller_comes_out_as_he_raised_it(watch: bool, machine: Machine) -> None:
    async def work(_: Runtime) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        opened(machine, work, watch=watch)
    with pytest.raises(KeyError, match="mine"), SyncRuntime.open(project=str(machine.project), watch=watch):
        raise KeyError("mine")


def test_what_cannot_be_opened_says_so_in_one_error(machine: Machine) -> None:
    missing = str(machine.home / "nowhere.toml")

    async def main() -> None:
        async with Runtime.open(config=missing):
            pass

    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        anyio.run(main)
    with pytest.raises(ConfigError, match=r"nowhere\.toml"), SyncRuntime.open(config=missing):
        pass


def test_folders_named_by_the_program_come_first(machine: Machine, tmp_path: Path) -> None:
    write_skill(machine.skills / "brewing-tea", description="The user's.")
    write_skill(tmp_path / "own" / "brewing-tea", description="The program's.")
    with SyncRuntime.open(
        roots=[str(tmp_path / "own")], project=str(machine.project), watch=False
    ) as runtime:
        assert [each.shown for each in runtime.catalog.listed if each.name == "brewing-tea"][1] == "shadowed"
        found = runtime.catalog.get("brewing-tea")
    assert found is not None
    assert found.folder == str(tmp_path / "own" / "brewing-tea")


# --- what is seen while it is open


async def seen(runtime: Runtime, condition: Callable[[Runtime], bool]) -> float:
    """Seconds until the condition holds; it fails after ten."""
    began = anyio.current_time()
    with anyio.move_on_after(10):
        while not condition(runtime):
            await anyio.sleep(0.05)
    assert condition(runtime)
    return anyio.current_time() - began


def described(runtime: Runtime, name: str) -> str | None:
    return next((skill.description for skill in runtime.skills if skill.name == name), None)


@pytest.mark.slow
def test_new_changed_and_removed_skills_are_seen_within_a_second(machine: Machine) -> None:
    machine.skills.mkdir(parents=True)

    async def work(runtime: Runtime) -> list[float]:
        taken = []
        # A busy machine may be slow once; it is not slow every time.
        for turn in range(3):
            name = f"tea-{turn}"
            folder = write_skill(machine.skills / name, description="Hot.")
            new = await seen(runtime, lambda now, name=name: described(now, name) == "Hot.")
            write_skill(folder, description="Cold.")
            changed = await seen(runtime, lambda now, name=name: described(now, name) == "Cold.")
            (folder / "SKILL.md").unlink()
            folder.rmdir()
            removed = await seen(runtime, lambda now, name=name: described(now, name) is None)
            taken.append((new, changed, removed))
        return [min(each) for each in zip(*taken, strict=True)]

    fastest = opened(machine, work, watch=True)
    assert [seconds for seconds in fastest if seconds > 1] == []


def test_a_folder_of_skills_that_was_not_there_before_is_seen(machine: Machine) -> None:
    async def work(runtime: Runtime) -> None:
        assert described(runtime, "brewing-tea") is None
        write_skill(machine.home / ".agents" / "skills" / "brewing-tea")
        await seen(runtime, lambda now: described(now, "brewing-tea") is not None)

    opened(machine, work, watch=True)


def test_without_watching_a_skill_is_seen_when_it_is_asked_for(machine: Machine) -> None:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        before = runtime.catalog
        write_skill(machine.skills / "brewing-tea")
        assert runtime.catalog is before
        runtime.reload()
        assert runtime.catalog.get("brewing-tea") is not None
        assert before.get("brewing-tea") is None
        assert isinstance(runtime.call("read_skill", {"name": "brewing-tea"}), Completed)


class _Meanwhile:
    """The operations of a runtime, with something that happens between the intent and the act."""

    def __init__(self, operations: Any, happens: Callable[[], object]) -> None:
        self._operations = operations
        self._happens = happens

    def find(self, module: str, operation: str) -> Any:
        self._happens()
        return self._operations.find(module, operation)


def test_a_call_under_way_keeps_the_version_it_began_with(machine: Machine, tea: Path) -> None:
    asked = Call(
        id="call_1",
        principal=Principal(id="agent:library", kind="agent"),
        tool="read_skill",
        arguments={"name": "brewing-tea"},
    )

    async def work(runtime: Runtime) -> tuple[Outcome, Outcome]:
        house = runtime._engine.house()
        change = _Meanwhile(house.operations, lambda: write_skill(tea, body="Pour it away."))
        under_way = await run(asked, msgspec.structs.replace(house, operations=change))
        await runtime.reload()
        return under_way, await runtime.call("read_skill", {"name": "brewing-tea"})

    under_way, later = opened(machine, work)
    assert isinstance(under_way, Completed)
    assert "Boil, then pour." in under_way.value
    assert "Pour it away." in (tea / "SKILL.md").read_text()
    assert isinstance(later, Refused)
    assert later.code == "not_trusted"


def test_a_catalog_that_is_held_never_changes(machine: Machine, tea: Path) -> None:
    async def work(runtime: Runtime) -> None:
        held = runtime.catalog
        write_skill(tea, description="Something else.")
        await runtime.reload()
        assert described(runtime, "brewing-tea") == "Something else."
        old = held.get("brewing-tea")
        assert old is not None
        assert old.skill is not None
        assert old.skill.description == "Does a thing."

    opened(machine, work)


@pytest.fixture
def ours(machine: Machine) -> Path:
    """A skill of the project, which nobody trusts yet."""
    return write_skill(machine.project / "skills" / "brewing-tea", body="Boil, then pour.")


def test_trust_given_or_taken_by_another_process_counts_from_the_next_call_on(
    machine: Machine, ours: Path
) -> None:
    async def work(runtime: Runtime) -> list[tuple[Outcome, bool, bool]]:
        async def read() -> tuple[Outcome, bool, bool]:
            outcome = await runtime.call("read_skill", {"name": "brewing-tea"})
            offered = described(runtime, "brewing-tea") is not None
            return outcome, offered, "brewing-tea" in runtime.prompt()

        found = [await read()]
        for command in (("trust", "brewing-tea", "--yes"), ("untrust", "brewing-tea")):
            machine.metier("skills", *command)
            found.append(await read())
        return found

    before, trusted, after = opened(machine, work)
    for outcome, *shown in (before, after):
        assert isinstance(outcome, Refused)
        assert outcome.code == "not_trusted"
        assert "metier skills trust" in outcome.remedy
        assert shown == [False, False]
    assert isinstance(trusted[0], Completed)
    assert "Boil, then pour." in trusted[0].value
    assert trusted[1:] == (True, True)


def test_what_is_not_trusted_is_not_shown_to_a_model(machine: Machine, ours: Path) -> None:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        assert "brewing-tea" not in runtime.prompt("tea")
        assert "Boil, then pour." not in runtime.prompt("tea", full=True)
        assert {skill.name for skill in runtime.skills} <= SHIPPED
        waiting = runtime.catalog.get("brewing-tea")
    assert waiting is not None
    assert (waiting.shown, bool(waiting.why)) == ("pending_approval", True)
