"""Invariants that are absences: each of these goes red when somebody adds what must not be there."""

import ast
import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path

import msgspec
import pytest

import metier
from gatehouse import OF_OWNERS
from metier.gate.authorize import LAYERS, authorize
from metier.gate.situation import Situation
from metier.model.call import ApprovedCall, AuthorizedCall, Call, Principal, ValidCall
from metier.model.entry import Operation
from metier.model.outcome import Refused
from metier.model.skill import Tool

SOURCE = Path(metier.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MAKERS = {
    "ValidCall": {"gate/validate.py"},
    "AuthorizedCall": {"gate/authorize.py"},
    "ApprovedCall": {"gate/approve.py"},
    "Job": {"prepare.py", "execute.py"},  # the second adds who answers what the run asks
    "Ready": {"prepare.py"},
}


@cache
def calls(path: Path) -> list[tuple[str, int]]:
    """Every name that is called in a file, `x.Name(…)` included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    names.append((name, node.lineno))
                case _:
                    pass
    return names


@pytest.mark.parametrize("proof", MAKERS)
def test_only_its_stage_makes_a_proof(proof: str) -> None:
    makers = {str(path.relative_to(SOURCE)) for path in FILES for name, _ in calls(path) if name == proof}
    # The contract kit runs backends by themselves; nothing but tests imports it.
    assert {maker for maker in makers if not maker.startswith("testing/")} <= MAKERS[proof]


def test_a_proof_cannot_be_altered_on_the_way() -> None:
    flow = {
        "pipeline.py",
        "prepare.py",
        "execute.py",
        "runtime/__init__.py",
        "runtime/own.py",
        "gate/validate.py",
        "gate/authorize.py",
        "gate/approve.py",
    }
    for path in FILES:
        if str(path.relative_to(SOURCE)) in flow:
            assert not [name for name, _ in calls(path) if name in ("replace", "__new__", "__replace__")], (
                path
            )


def test_the_pipeline_runs_the_stages_in_their_order() -> None:
    text = (SOURCE / "pipeline.py").read_text(encoding="utf-8")
    body = text[text.index("async def run") :]
    places = [
        body.index(f"{stage}(")
        for stage in (
            "validate",
            "authorize",
            "approve",
            "prepare",
            "recorder.intent",
            "execute",
            "recorder.outcome",
        )
    ]
    assert places == sorted(places)


DOORS_DB = tuple(
    f"doors/http/{each}.py" for each in ("sessions", "links", "limits_sign_in", "oidc", "idempotency")
)
"""What the HTTP door keeps lies in a database of its own."""


def test_only_the_pipeline_runs_the_stages() -> None:
    stages = {"authorize", "approve", "execute"}
    may = {
        "gate/explain.py": {"authorize", "approve"},  # asks what they would say; both are pure
        "gate/conditions.py": {"execute"},  # of a condition
        "bundled/xpell-agent-skill-telegram/__init__.py": {"execute"},  # of XBot's ctx, in its sandbox
    }
    for path in FILES:
        place = str(path.relative_to(SOURCE))
        keeps = place.startswith(("record/", "memory/", "kernel/", *DOORS_DB))  # there `execute` is SQL
        if place != "pipeline.py":
            named = {name for name, _ in calls(path)} & stages
            assert named <= ({"execute"} if keeps else may.get(place, set())), place


def words() -> list[type]:
    found: list[type] = []
    for module in pkgutil.walk_packages([str(SOURCE / "model")], "metier.model."):
        for _, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if value.__module__ == module.name and issubclass(value, msgspec.Struct):
                found.append(value)
    return found


def test_the_words_are_frozen() -> None:
    assert len(words()) > 25
    assert [word.__name__ for word in words() if not word.__struct_config__.frozen] == []


def test_a_call_that_no_layer_speaks_for_is_refused() -> None:
    tool = Tool(name="x", description="", parameters={}, entry=Operation(module="m", operation="o"))
    call = Call(id="1", principal=Principal(id="human:x", kind="human"), tool="x", arguments={})
    valid = ValidCall(call=call, tool=tool, arguments={}, skill=None, permissions=tool.permissions)
    answer = authorize(valid, Situation())
    assert isinstance(answer, Refused)
    assert answer.code == "forbidden"


@pytest.mark.parametrize("kind", ["agent", "skill", "trigger"])
def test_what_is_for_operators_is_refused_to_everybody_else(kind: str) -> None:
    tool = Tool(
        name="x",
        description="",
        parameters={},
        audience="operator",
        effect="read",
        risk="low",
        subject="name",
        entry=Operation(module="m", operation="o"),
    )
    for asker, refused in ((kind, True), ("human", False)):
        principal = Principal(id=f"{asker}:x", kind=asker)  # type: ignore[arg-type]
        call = Call(id="1", principal=principal, tool="x", arguments={})
        valid = ValidCall(call=call, tool=tool, arguments={}, skill=None, permissions=tool.permissions)
        answer = authorize(valid, Situation(standing=OF_OWNERS))
        assert isinstance(answer, Refused) == refused
        assert refused or isinstance(answer, AuthorizedCall)


def test_each_layer_says_why(tmp_path: Path) -> None:
    assert ApprovedCall.__struct_config__.frozen
    for _, layer in LAYERS:
        assert layer.__doc__


def test_nothing_unpickles_and_no_other_yaml_reader_is_used() -> None:
    banned = {"pickle", "marshal", "shelve", "yaml", "dill", "jsonpickle"}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            assert not [name for name in names if name.split(".")[0] in banned], path


def test_only_a_front_door_and_the_place_where_foreign_code_runs_catch_everything() -> None:
    """`runtime` is the library's door, the bridge and `wasm_wasi.py` those of running code, `wasm_line.py` that of a thread of
    its own; `execute.py` and what lies under `guest` run what is not ours. Nobody passes over everything in silence."""
    allowed = (
        "runtime/engine.py",
        "execute.py",
        "hooks/firing.py",  # one broken hook must not end the runtime
        "host/bridge.py",
        "gate/rules.py",  # whatever breaks there is a no
        "record/writer.py",  # hands it to whose work it was
        "sandbox/wasm_wasi.py",
        "sandbox/wasm_line.py",
        "telemetry.py",  # exporters are not ours, and no call depends on them
        "ical/command.py",  # a command of its own: its front door
        "kernel/events.py",  # a listener that fails is not the others' matter
        "kernel/host_line_server.py",  # a door between processes
        "kernel/trigger_rounds.py",  # one occasion must not keep the others from being heard
        "kernel/trigger_around.py",  # no fault of a trigger reaches the call it stands around
        "kernel/schedule_rounds.py",  # one schedule must not keep the others from being done
        "kernel/resident_keeper.py",  # one skill must not take the others with it
        "kernel/residents.py",  # hands it to who asked
        "runtime/one_look.py",  # hands it to everybody who waits for the same look
        "runtime/hosting.py",  # one thing the host does must not end the others
        "kernel/delivery_ports.py",  # a connector that is broken is not the others' matter
        "bundled/xpell-agent-skill-telegram/__init__.py",  # runs in its sandbox, and cannot know what the host raises there
    )
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and (
                node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "Exception")
            ):
                place = str(path.relative_to(SOURCE))
                where = f"{path}:{node.lineno}"
                assert place.startswith(("doors/", "sandbox/guest/")) or place in allowed, where


def test_nobody_passes_over_every_error_in_silence() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                named = {ast.unparse(each) for each in node.args}
                assert not named & {"Exception", "BaseException"}, f"{path}:{node.lineno}"


def test_no_file_is_a_heap_of_odds_and_ends() -> None:
    names = {path.stem for path in FILES}
    assert not names & {"utils", "util", "helpers", "helper", "manager", "misc", "common", "base"}


def test_no_test_defines_what_it_never_runs() -> None:
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        for test in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(test, ast.FunctionDef):
                used = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
                mains = {node.name for node in ast.walk(test) if isinstance(node, ast.AsyncFunctionDef)} & {
                    "main"
                }
                assert mains <= used, f"{path.name}: {test.name}"
