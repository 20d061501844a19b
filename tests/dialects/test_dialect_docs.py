"""docs/dialects.md tells the truth about findings and fields."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from metier.dialects import agent_skills, openclaw

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")
SOURCES = sorted((ROOT / "src" / "metier" / "dialects").glob("*.py"))


def _documented() -> dict[str, str]:
    table = DOCUMENT.partition("## Findings")[2]
    return dict(re.findall(r"^\| `([a-z0-9_]+)` \| (error|warning|info) \|", table, re.MULTILINE))


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _used() -> Iterator[tuple[str, str | None]]:
    """Every code the sources can give, with its severity where both stand in one call."""
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                words = {word.arg: _text(word.value) for word in node.keywords}
                called = (
                    node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                )
                texts = [found for found in map(_text, node.args) if found is not None]
                if called == "_refused" and node.args and isinstance(either := node.args[0], ast.IfExp):
                    yield from ((str(_text(each)), "error") for each in (either.body, either.orelse))
                if words.get("code"):
                    yield str(words["code"]), words.get("severity")
                elif called in ("note", "_problem") and len(texts) > 1:
                    yield texts[0], texts[1]
                elif called == "_refused" and texts:
                    yield texts[0], "error"
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                names = [
                    getattr(each, "id", "") for target in node.targets for each in getattr(target, "elts", [])
                ]
                if "code" in names:
                    yield str(_text(node.value.elts[names.index("code")])), None


def test_every_finding_is_documented_with_its_severity_and_no_other_is() -> None:
    documented, used = _documented(), list(_used())
    assert {code for code, _ in used} == set(documented)
    assert [(code, severity) for code, severity in used if severity not in (None, documented[code])] == []


def test_every_field_that_is_read_or_kept_is_in_the_table() -> None:
    table = DOCUMENT.partition("## Each field's way")[2].partition("### Whether")[0]
    fields = {
        name for row in table.splitlines() if row.startswith("|") for name in re.findall(r"`([^`]+)`", row)
    }
    flat = " ".join(fields)
    known = {*agent_skills.KEPT, *openclaw.NAMESPACES, *(f"requires.{key}" for key in openclaw.REQUIRED)}
    known |= {
        "license",
        "allowed-tools",
        "user-invocable",
        "disable-model-invocation",
        "activation",
        "triggers",
    }
    text = DOCUMENT.partition("## Each field's way")[2]
    assert [name for name in sorted(known) if f"`{name}`" not in text and name not in flat] == []
