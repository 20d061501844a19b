"""Whatever somebody writes into a friday file: it becomes a skill, or reasons why not."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier.dialects.compiled import Compiled
from metier.dialects.friday import compile_skill
from metier.dialects.shell_words import NoWords, split

FIELDS = [
    "id",
    "name",
    "description",
    "triggerPatterns",
    "dependencies",
    "provides",
    "requireApproval",
    "status",
    "allowedPermissions",
    "enabled",
]
IN_ACTIONS = [
    "id",
    "type",
    "language",
    "code",
    "http",
    "shell",
    "method",
    "url",
    "headers",
    "body",
    "command",
    "cwd",
    "allowedPaths",
    "timeoutMs",
    "memoryLimitMb",
    "retryCount",
    "requireApproval",
    "outputSchema",
    "enabled",
    "x",
]
WORDS = st.sampled_from(
    [
        "code",
        "http",
        "shell",
        "javascript",
        "GET",
        "https://a.example/{{x}}",
        "ls {{x}}",
        "a | b",
        "{{",
        "user",
        "*",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False)
JSON = st.recursive(
    LEAVES | st.text(max_size=30) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ACTION = st.dictionaries(st.sampled_from(IN_ACTIONS), JSON)
TOOL = st.dictionaries(st.sampled_from(["name", "parameters", "function", "outputSchema"]), JSON)
SKILL = st.fixed_dictionaries(
    {"instructions": JSON},
    optional={
        **dict.fromkeys((*FIELDS, "source", "version", "useWhen", "zzz"), JSON),
        "actions": st.lists(ACTION, max_size=3) | JSON,
        "tools": st.lists(TOOL, max_size=2) | JSON,
    },
)
LETTERS = st.text(st.sampled_from("ab {}|&;<>()$`*?[]~#'\"\\\n\t!=-\u2028\u00a0é"), max_size=30)


def errors(found: Compiled) -> list[str]:
    return [note.message for note in found.diagnostics if note.severity == "error"]


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(SKILL | JSON)
def test_no_json_makes_the_reader_raise_and_nothing_is_refused_without_a_reason(fields: Any) -> None:
    data = json.dumps(fields).encode()
    found = compile_skill(data, folder="desk", manifest="skill.json", location="", source="user")
    assert (found.skill is None) == bool(errors(found))
    if found.skill is not None:
        assert found.skill.source != "bundled"
        for tool in found.skill.tools:
            assert found.skill.permissions.covers(tool.permissions)


@settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(ACTION, st.sampled_from(["code", "http", "shell"]))
def test_no_action_makes_the_reader_raise(action: dict[str, Any], kind: str) -> None:
    fields = {"id": "desk", "description": "d", "actions": [{**action, "type": kind}]}
    found = compile_skill(
        json.dumps(fields).encode(), folder="desk", manifest="skill.json", location="", source="user"
    )
    assert (found.skill is None) == bool(errors(found))


@settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200), st.sampled_from(["skill.json", "skill.yaml"]))
def test_no_bytes_make_the_reader_raise(data: bytes, manifest: str) -> None:
    found = compile_skill(data, folder="desk", manifest=manifest, location="", source="user")
    assert (found.skill is None) == bool(errors(found))


@settings(max_examples=400, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(LETTERS)
def test_a_line_is_words_or_a_reason_and_never_both(line: str) -> None:
    found = split(line)
    if isinstance(found, NoWords):
        assert found.why
    else:
        assert found
        assert not {"\n", "\r"} & set("".join(found))
