"""docs/security-cases.md, docs/conformance.md and the tests name each other truthfully.

Test files are parsed, never imported: a row may name a test that needs what this machine lacks.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECURITY = ROOT / "docs" / "security-cases.md"
CONFORMANCE = ROOT / "docs" / "conformance.md"
both_documents = pytest.mark.parametrize("document", [SECURITY, CONFORMANCE], ids=["security", "conformance"])

# The catalogue is closed: a case that vanishes from the document must fail here, so the counts are repeated.
FAMILIES = {
    "FS": 34, "CMD": 45, "ENV": 10, "NET": 35, "RES": 26, "JS": 18, "PY": 8, "WASM": 18, "LNX": 20, "APR": 38,
    "CAP": 16, "SEC": 12, "INJ": 14, "AUD": 20, "WEB": 22, "TG": 12, "SUP": 20, "PARSE": 14, "REL": 21,
}  # fmt: skip
SEEDS = ("AMBER", "OMNI", "META", "XBOT", "FRI")
STEPS = {
    "step 1 (loader)",
    "step 2 (sandboxes)",
    "step 3 (gate and record)",
    "step 4 (dialects and core skills)",
    "step 5 (kernel)",
    "step 6 (server)",
    "step 7 (console)",
    "step 8 (marketplace)",
    "step 9 (fleet and reliability)",
    "step 10 (voice door)",
}

TEST_ID = r"`(tests/(?:[a-z0-9_]+/)*test_[a-z0-9_]+\.py::(?:Test[A-Za-z0-9]+::)?test_[a-z0-9_]+)`"
TEST_IDS = re.compile(rf"{TEST_ID}(?:, {TEST_ID})*")
NOT_APPLICABLE = re.compile(r"does not apply: \S.*")
CASE_NAME = re.compile(rf"test_({'|'.join(FAMILIES).lower()})_(\d\d)_")


class Row(NamedTuple):
    id: str
    text: str
    state: str

    @property
    def tests(self) -> list[str]:
        return re.findall(TEST_ID, self.state)


def rows(document: Path) -> list[Row]:
    """Every table row but the heads; one that does not have three cells is an error, never skipped."""
    lines = [line for line in document.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [Row(*row) for row in cells if row[0] != "id" and set(row[0]) != {"-"}]


def named_in(file: Path) -> Iterator[str]:
    """The test ids of one file, as pytest would spell them from the project's root."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}::{node.name}")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{prefix}::{node.name}"

    tree = ast.parse(file.read_text(encoding="utf-8"))
    return walk(tree.body, file.relative_to(ROOT).as_posix())


@cache
def all_tests() -> set[str]:
    return {test for file in sorted((ROOT / "tests").rglob("test_*.py")) for test in named_in(file)}


def numbered(family: str, count: int) -> list[str]:
    return [f"{family}-{number:02}" for number in range(1, count + 1)]


def test_every_case_of_the_catalogue_is_listed_once_and_in_order() -> None:
    expected = [case for family, count in FAMILIES.items() for case in numbered(family, count)]
    assert len(expected) == 403
    assert [row.id for row in rows(SECURITY)] == expected


def test_every_promise_has_an_id_of_its_own_and_no_number_is_left_out() -> None:
    ids = [row.id for row in rows(CONFORMANCE)]
    counts = {seed: sum(name.startswith(f"{seed}-") for name in ids) for seed in SEEDS}
    assert all(counts.values())
    assert ids == [promise for seed, count in counts.items() for promise in numbered(seed, count)]


@both_documents
def test_every_row_says_something_and_has_one_of_the_three_states(document: Path) -> None:
    def well_formed(row: Row) -> bool:
        known = row.state in STEPS or TEST_IDS.fullmatch(row.state) or NOT_APPLICABLE.fullmatch(row.state)
        return bool(row.text and known)

    assert [row for row in rows(document) if not well_formed(row)] == []


@both_documents
def test_every_test_that_a_row_names_exists(document: Path) -> None:
    existing = all_tests()
    assert [(row.id, test) for row in rows(document) for test in row.tests if test not in existing] == []


def test_every_test_named_for_a_case_is_listed_in_the_row_of_that_case() -> None:
    listed = {(row.id, test) for row in rows(SECURITY) for test in row.tests}
    named = {
        (f"{case[1].upper()}-{case[2]}", test)
        for test in all_tests()
        if (case := CASE_NAME.match(test.rpartition("::")[2]))
    }
    assert sorted(named - listed) == []
