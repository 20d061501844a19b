"""A job runs where every promise it needs is kept, or nowhere; and the answer says what is missing."""

from pathlib import Path

import pytest

from boxes import EVERYTHING, Box
from metier.model.entry import Command, HttpRequest, InlineCode, WasmModule
from metier.model.guarantee import DEFAULTS, MEANING, Guarantee
from metier.model.job import Job
from metier.prepare import trial
from metier.sandbox.protocol import Missing
from metier.sandbox.select import Unavailable, select

CODE = trial(InlineCode(language="python", source="result = 1"))
NEEDED = sorted(CODE.needs)


def without(*lost: Guarantee, costs: frozenset[Guarantee] | None = None) -> Box:
    missing = Missing(
        what="bubblewrap",
        why="no bwrap in /usr/bin",
        remedy="apt install bubblewrap",
        costs=costs if costs is not None else frozenset(lost),
    )
    return Box("weak", promises=EVERYTHING - set(lost), lacks=(missing,))


def unavailable(job: Job, *boxes: Box) -> Unavailable:
    found = select(job, boxes)
    assert isinstance(found, Unavailable)
    return found


def test_the_first_that_keeps_every_promise_is_chosen() -> None:
    quick, slow = Box("quick"), Box("slow")
    assert select(CODE, [quick, slow]) is quick
    assert select(CODE, [slow, quick]) is slow


@pytest.mark.parametrize("lost", NEEDED)
def test_lnx_02_one_missing_promise_is_enough_to_be_refused_and_is_named(lost: Guarantee) -> None:
    found = unavailable(CODE, without(lost))
    assert found.lacking == {lost}
    assert MEANING[lost] in found.reasons[0]
    assert "bubblewrap (no bwrap in /usr/bin)" in found.reasons[1]
    assert found.remedy == "apt install bubblewrap"
    assert isinstance(select(CODE, [without()]), Box), "with all of them the same job is taken"


def test_a_quicker_one_that_promises_less_is_passed_over() -> None:
    strong = Box("strong")
    assert select(CODE, [without(Guarantee.CONTENTS), strong]) is strong


def test_one_that_does_not_take_the_job_is_never_asked_to_run_it() -> None:
    other = Box("other", takes=lambda job: False)
    assert "python" in unavailable(CODE, other).reasons[0]
    mine = Box("mine")
    assert select(CODE, [other, mine]) is mine


def test_without_any_sandbox_nothing_runs_and_the_answer_says_where_to_look() -> None:
    found = unavailable(CODE)
    assert found.lacking == CODE.needs
    assert "metier doctor" in found.remedy


def test_the_closest_one_is_explained_and_only_with_what_concerns_the_job() -> None:
    far = Box("far", promises=frozenset())
    near = without(Guarantee.TREE_KILLED)
    found = unavailable(CODE, far, near)
    assert "'weak'" in found.reasons[0]
    assert found.lacking == {Guarantee.TREE_KILLED}
    elsewhere = without(Guarantee.TREE_KILLED, costs=frozenset({Guarantee.MEMORY_EXACT}))
    found = unavailable(CODE, elsewhere)
    assert len(found.reasons) == 1, "what costs another guarantee is no reason here"
    assert "metier doctor" in found.remedy


def test_a_promise_nobody_needs_may_be_missing() -> None:
    assert Guarantee.EXISTENCE not in CODE.needs
    weak = without(Guarantee.EXISTENCE, Guarantee.MEMORY_EXACT)
    assert select(CODE, [weak]) is weak


@pytest.mark.parametrize(
    "entry",
    [Command(argv=("ls",)), InlineCode(language="javascript", source=""), WasmModule(path="a.wasm")],
    ids=["command", "code", "wasm"],
)
def test_code_that_may_use_the_network_needs_its_way_out(entry: Command | InlineCode | WasmModule) -> None:
    without_hosts, with_hosts = trial(entry), trial(entry, network=True)
    no_way_out = without(Guarantee.NETWORK_BY_GRANT)
    assert select(without_hosts, [no_way_out]) is no_way_out
    assert unavailable(with_hosts, no_way_out).lacking == {Guarantee.NETWORK_BY_GRANT}
    assert without_hosts.needs - with_hosts.needs == {Guarantee.NO_NETWORK}


def test_every_kind_of_entry_has_its_promises_written_down() -> None:
    assert trial(HttpRequest(method="GET", url="https://a.example/")).needs
    assert all(promises <= EVERYTHING for promises in DEFAULTS.values())
    assert set(MEANING) == EVERYTHING


def test_the_document_has_the_same_table() -> None:
    document = Path(__file__).parents[2] / "docs" / "sandboxes.md"
    part = document.read_text(encoding="utf-8").split("## What each kind needs")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in part.splitlines()
        if line.startswith("| `")
    ]
    kinds = (InlineCode, WasmModule, Command, HttpRequest)
    assert rows == [
        [f"`{each.value}`", MEANING[each], *("yes" if each in DEFAULTS[kind] else "" for kind in kinds)]
        for each in Guarantee
    ]
