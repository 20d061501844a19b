"""What code of each dialect gives back, what it becomes, and what a caller of that dialect is shown: the whole table."""

import re
from pathlib import Path
from typing import Any

import pytest

from metier.model.answer import DONE, NOT_DONE, returned, told
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.skill import Answer

DOCUMENT = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text(encoding="utf-8")


def _gave(value: Any, answer: Answer) -> Completed | Failed:
    return returned(Completed(call_id="c", value=value), answer)


@pytest.mark.parametrize(
    ("answer", "value", "kept"),
    [
        ("value", {"success": False}, {"success": False}),
        ("value", [1], [1]),
        ("value", None, None),
        ("amber", {"success": True}, {"success": True}),
        ("amber", {"success": True, "message": "Noted.", "result": [1], "more": 2}, "as it is"),
        ("amber", {"success": True, "message": None}, "as it is"),
        ("metahuman", {"success": True}, {"success": True}),
        ("metahuman", {"success": True, "words": 3}, {"success": True, "words": 3}),
        ("metahuman", {"success": True, "outputs": {"words": 3}}, {"success": True, "words": 3}),
        (
            "metahuman",
            {"success": True, "outputs": {"words": 3, "success": False}},
            {"success": True, "words": 3},
        ),
        ("metahuman", {"success": True, "outputs": {"a": 1}, "words": 3}, "as it is"),
        ("metahuman", {"success": True, "outputs": [1]}, "as it is"),
    ],
)
def test_what_succeeded_is_kept_in_one_form(answer: Answer, value: Any, kept: Any) -> None:
    assert _gave(value, answer) == Completed(call_id="c", value=value if kept == "as it is" else kept)


@pytest.mark.parametrize("answer", ["amber", "metahuman"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"success": False, "error": "no tea", "message": "Sorry."}, "no tea"),
        ({"success": False, "message": "Sorry."}, "Sorry."),
        ({"success": False, "error": ""}, "it says that it did not succeed, and not why"),
        ({"success": False}, "it says that it did not succeed, and not why"),
    ],
)
def test_what_says_that_it_did_not_succeed_has_failed(answer: Answer, value: Any, message: str) -> None:
    assert _gave(value, answer) == Failed(call_id="c", code="reported", message=message, value=value)


@pytest.mark.parametrize("answer", ["amber", "metahuman"])
@pytest.mark.parametrize("value", [None, "done", [], {}, {"success": "true"}, {"success": 1}, {"result": 1}])
def test_what_has_not_the_shape_of_its_dialect_is_no_success(answer: Answer, value: Any) -> None:
    ended = _gave(value, answer)
    assert isinstance(ended, Failed)
    assert ended.code == "bad_result"


@pytest.mark.parametrize("name", ["message", "error"])
def test_what_amber_would_read_out_has_to_be_a_text(name: str) -> None:
    ended = _gave({"success": True, name: 5}, "amber")
    assert isinstance(ended, Failed)
    assert ended.code == "bad_result"


ASKED = Refused(call_id="c", code="confirmation_required", reasons=("why",), prompt="Shall I?")
REFUSED = Refused(call_id="c", code="forbidden", reasons=("one", "two"), remedy="Do this")
PENDING = Pending(call_id="c", approval_id="apr_1", reasons=("rule 1",))
FAILED = Failed(call_id="c", code="raised", message="it broke")
REPORTED = Failed(
    call_id="c", code="reported", message="no tea", value={"success": False, "message": "There is no tea."}
)


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (
            Completed(call_id="c", value={"success": True, "message": "Noted."}),
            {"response": "Noted.", "success": True},
        ),
        (Completed(call_id="c", value={"success": True}), {"response": DONE, "success": True}),
        (ASKED, {"response": "Shall I?", "success": False, "requires_confirmation": True}),
        (REFUSED, {"response": NOT_DONE, "success": False, "error": "one; two. Do this"}),
        (FAILED, {"response": NOT_DONE, "success": False, "error": "it broke"}),
        (REPORTED, {"response": "There is no tea.", "success": False, "error": "no tea"}),
    ],
)
def test_a_caller_of_amber_is_shown(outcome: Outcome, shown: Any) -> None:
    assert told(outcome, "amber") == shown


def test_a_caller_of_amber_whose_call_waits_is_told_the_request() -> None:
    shown = told(PENDING, "amber")
    assert isinstance(shown, dict)
    assert (shown["success"], shown["pending_approval"]) == (False, "apr_1")
    assert shown.keys() == {"response", "success", "pending_approval"}


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (Completed(call_id="c", value={"success": True, "words": 3}), {"success": True, "words": 3}),
        (ASKED, {"success": False, "error": "why", "code": "confirmation_required"}),
        (REFUSED, {"success": False, "error": "one; two. Do this", "code": "forbidden"}),
        (
            PENDING,
            {
                "success": False,
                "error": "it waits for an approval (ID: apr_1): rule 1",
                "code": "pending_approval",
                "approvalId": "apr_1",
            },
        ),
        (FAILED, {"success": False, "error": "it broke", "code": "raised"}),
    ],
)
def test_a_caller_of_metahuman_is_shown(outcome: Outcome, shown: Any) -> None:
    assert told(outcome, "metahuman") == shown


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ("completed", Completed(call_id="c", value={"success": True})),
        ("refused, `confirmation_required`", ASKED),
        ("refused otherwise", REFUSED),
        ("pending", PENDING),
        ("failed", FAILED),
    ],
)
def test_the_document_names_the_fields_a_caller_is_shown(row: str, outcome: Outcome) -> None:
    table = DOCUMENT.partition("## How results come back")[2].partition("## Where")[0]
    [line] = [line for line in table.splitlines() if line.startswith(f"| {row} | `{{")]
    amber, metahuman = (set(re.findall(r"[{,] *(\w+)\b", cell)) for cell in line.split("|")[2:4])
    for_amber, for_metahuman = told(outcome, "amber"), told(outcome, "metahuman")
    assert isinstance(for_amber, dict) and for_amber.keys() == amber
    assert isinstance(for_metahuman, dict) and for_metahuman.keys() == metahuman - {"outputs"}
