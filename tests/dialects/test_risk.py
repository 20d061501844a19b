"""How risky a tool is where nobody says so, and that saying less does not help."""

from typing import Any

import pytest

from metier.dialects.risk import default_risk, raised
from metier.model.entry import (
    Command,
    HttpRequest,
    InlineCode,
    PythonHandler,
    RemoteTool,
    ScriptHandler,
    WasmModule,
)
from metier.model.interpreters import NAMES
from metier.model.permission import PermissionSet

HANDLER = PythonHandler(path="tool.py")


def permitted(**names: str) -> PermissionSet:
    return PermissionSet(**{kind: frozenset({name}) for kind, name in names.items()})


@pytest.mark.parametrize(
    ("effect", "entry", "permissions", "risk"),
    [
        ("read", HANDLER, PermissionSet(), "low"),
        ("act", HANDLER, PermissionSet(), "medium"),
        ("read", ScriptHandler(path="a.js", language="javascript"), PermissionSet(), "low"),
        ("act", WasmModule(path="a.wasm"), PermissionSet(), "medium"),
        ("read", InlineCode(language="python", source="1"), PermissionSet(), "high"),
        ("act", InlineCode(language="javascript", source="1"), PermissionSet(), "high"),
        ("read", Command(argv=("date",)), PermissionSet(), "low"),
        ("act", Command(argv=("git", "push")), PermissionSet(), "medium"),
        ("read", Command(argv=("bash", "-c", "id")), PermissionSet(), "high"),
        ("read", HANDLER, permitted(binaries="python3.12"), "high"),
        ("read", HANDLER, permitted(binaries="jq"), "low"),
        ("act", HANDLER, permitted(writes="{workspace}/memory"), "high"),
        ("act", HANDLER, permitted(writes="/srv/data"), "high"),
        ("act", HANDLER, permitted(writes="{baseDir}/cache"), "medium"),
        ("act", HANDLER, permitted(writes="{baseDir}"), "medium"),
        ("read", HANDLER, permitted(reads="/"), "low"),
        ("read", HANDLER, permitted(hosts="example.com"), "high"),
        ("act", HANDLER, permitted(hosts="example.com"), "high"),
        ("act", HANDLER, permitted(channels="operator"), "medium"),
        ("act", HANDLER, permitted(operations="gateway.post"), "medium"),
        ("read", HANDLER, permitted(operations="gateway.post"), "medium"),
        ("read", HANDLER, permitted(operations="memory.search"), "low"),
        ("read", HttpRequest(method="GET", url="https://a.example/"), permitted(hosts="a.example"), "low"),
        ("act", HttpRequest(method="get", url="https://a.example/"), permitted(hosts="a.example"), "medium"),
        ("read", HttpRequest(method="POST", url="https://a.example/"), permitted(hosts="a.example"), "high"),
        ("act", HttpRequest(method="DELETE", url="https://a.example/"), permitted(hosts="a.example"), "high"),
        ("read", RemoteTool(server="s", tool="t"), PermissionSet(), "high"),
        ("act", RemoteTool(server="s", tool="t"), PermissionSet(), "high"),
    ],
)
def test_the_risk_is_what_the_tool_can_do_at_worst(
    effect: Any, entry: Any, permissions: PermissionSet, risk: str
) -> None:
    assert default_risk(effect=effect, entry=entry, permissions=permissions) == risk


def test_every_interpreter_the_gate_knows_is_of_high_risk() -> None:
    low = [
        name
        for name in NAMES
        if default_risk(effect="read", entry=Command(argv=(name,)), permissions=PermissionSet()) != "high"
    ]
    assert low == []


@pytest.mark.parametrize(
    ("declared", "default", "risk"),
    [
        ("low", "high", "high"),
        ("medium", "high", "high"),
        ("high", "low", "high"),
        ("medium", "low", "medium"),
        ("low", "low", "low"),
        ("low", "medium", "medium"),
    ],
)
def test_a_declared_risk_can_only_be_raised(declared: Any, default: Any, risk: str) -> None:
    assert raised(declared, default) == risk
