"""Every real skill: loaded as OpenClaw loads it, or refused with a line and a reason."""

import os
from pathlib import Path
from typing import Any

import pytest

from metier.catalog.requirements import Environment, check
from metier.dialects import openclaw
from metier.dialects.compiled import Compiled
from metier.dialects.frontmatter import read
from metier.dialects.metadata import metadata_of
from metier.dialects.skill_md import compile_skill

FAMILY = frozenset(openclaw.NAMESPACES)
UNREAD = frozenset({"clawdis", "moltbot"})
"""Blocks that OpenClaw stopped reading and Metier reads: the one deliberate difference in this corpus."""


def _compiled(corpus: Any, path: str) -> tuple[bytes, Compiled]:
    place = os.path.join(corpus.root, path)
    with open(place, "rb") as file:
        data = file.read()
    folder = os.path.basename(os.path.dirname(place))
    return data, compile_skill(data, folder=folder, manifest=os.path.basename(place))


def _is_deliberate(data: bytes) -> bool:
    written = metadata_of(read(data), FAMILY).written
    return not UNREAD.isdisjoint(written) and "openclaw" not in written and "clawdbot" not in written


def _ours(compiled: Compiled, environment: Environment) -> dict[str, Any]:
    skill = compiled.skill
    assert skill is not None
    metadata = compiled.metadata
    if metadata is not None:
        metadata = {key: value for key, value in metadata.items() if key != "extra"}
    return {
        "name": skill.name,
        "description": skill.description,
        "metadata": metadata,
        "policy": {
            "userInvocable": skill.user_may_invoke,
            "disableModelInvocation": not skill.model_may_invoke,
        },
        "eligible": not check(skill, environment),
    }


@pytest.fixture(scope="module")
def machine(corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("path")
    for name in corpus.bins:
        (folder / name).touch(mode=0o755)
    return Environment(path=str(folder), env={}, platform="linux")


def test_every_real_skill_is_read_as_openclaw_reads_it(corpus: Any, machine: Environment) -> None:
    lost: list[str] = []
    different: list[tuple[str, str, Any, Any]] = []
    deliberate = 0
    for expected in corpus.oracle:
        if "error" in expected:
            continue
        data, compiled = _compiled(corpus, expected["path"])
        if compiled.skill is None:
            lost.append(expected["path"])
            continue
        ours = _ours(compiled, machine)
        wrong = [key for key, value in ours.items() if value != expected.get(key)]
        if wrong and _is_deliberate(data):
            assert set(wrong) <= {"metadata", "eligible"}
            deliberate += 1
        else:
            different += [(expected["path"], key, ours[key], expected.get(key)) for key in wrong]
    assert lost == []
    assert different == []
    assert 0 < deliberate < 20


def test_every_refusal_names_a_line_and_a_reason(corpus: Any) -> None:
    refused = 0
    for expected in corpus.oracle:
        _, compiled = _compiled(corpus, expected["path"])
        if compiled.skill is None:
            refused += 1
            errors = [found for found in compiled.diagnostics if found.severity == "error"]
            assert errors and all(found.line and len(found.message) > 20 for found in errors)
    assert refused == sum("error" in each for each in corpus.oracle)


def test_no_real_skill_loses_a_field(corpus: Any) -> None:
    words = {
        "name",
        "description",
        "metadata",
        "license",
        "compatibility",
        "homepage",
        "version",
        "allowed-tools",
    }
    words |= {"user-invocable", "disable-model-invocation", "tags", "keywords", "triggers", "activation"}
    for expected in corpus.oracle:
        data, compiled = _compiled(corpus, expected["path"])
        fields = read(data).fields
        if compiled.skill is not None and fields is not None:
            gone = (
                {key for key, value in fields.items() if value is not None}
                - words
                - set(compiled.skill.extra)
            )
            assert gone == set(), expected["path"]


def test_the_oracle_would_notice_a_wrong_reading(corpus: Any, machine: Environment, tmp_path: Path) -> None:
    """The comparison is worth something only if a machine without any program gives another answer."""
    bare = Environment(path=str(tmp_path), env={}, platform="linux")
    verdicts = set()
    for expected in corpus.oracle:
        _, compiled = _compiled(corpus, expected["path"])
        if compiled.skill is not None and expected.get("eligible"):
            verdicts.add((not check(compiled.skill, bare), not check(compiled.skill, machine)))
    assert (False, True) in verdicts
