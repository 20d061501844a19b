"""What a client is told of a call, by the dialect of its tool; and which tools it is shown at all."""

from typing import Any

import pytest
from mcp_types import ListToolsResult
from mcp_types import Tool as Shown
from mcp_types.methods import serialize_server_result

from metier.doors.mcp.results import result_of
from metier.doors.mcp.tools import PAGE, listed, page
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed, Pending, Refused
from metier.model.role import EXECUTE, TRUST, Standing
from metier.model.skill import Tool

MAY = Standing(rights=frozenset({EXECUTE}))


def tool(name: str = "x", parameters: dict[str, Any] | None = None, **more: Any) -> Tool:
    given = {"type": "object"} if parameters is None else parameters
    return Tool(
        name=name, description="d", parameters=given, entry=Operation(module="m", operation="o"), **more
    )


def test_an_amber_model_is_told_the_answer_and_not_what_goes_to_the_record() -> None:
    value: Any = {"success": True, "message": "hello", "result": {"private": 1}}
    result = result_of(Completed(call_id="c", value=value), "amber", links={})
    assert result.structured_content == {"response": "hello", "success": True}
    assert "private" not in str(result)


def test_half_a_character_breaks_no_connection() -> None:
    result = result_of(Completed(call_id="c", value={"a": "\ud800"}), "value", links={})
    assert result.structured_content is None
    assert result.model_dump_json(by_alias=True)


@pytest.mark.parametrize(
    "outcome",
    [
        Failed(call_id="c", code="raised", message="m", value={"a": 1}),
        Refused(call_id="c", code="forbidden", reasons=("r",)),
        Pending(call_id="c", approval_id="apr_1", reasons=("r",)),
    ],
)
def test_what_did_not_complete_is_an_error_without_a_value(outcome: Any) -> None:
    result = result_of(outcome, "value", links={})
    assert result.is_error and result.structured_content is None


def test_only_what_is_for_models_and_within_the_rights_is_shown() -> None:
    every = [
        tool("a"),
        tool("b", audience="operator"),
        tool("c", permission=TRUST),
        tool("d", privileged=True),
    ]
    assert [each.name for each in listed(every, MAY)] == ["a"]
    assert listed(every, Standing(problem="revoked")) == []
    assert listed(every, Standing()) == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "string"},
        {"type": ["object", "null"]},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 3}},
        {"type": "object", "required": "a"},
        {"type": "object", "$schema": 3},
    ],
)
def test_one_tool_that_the_protocol_cannot_carry_does_not_take_the_others_with_it(
    parameters: dict[str, Any],
) -> None:
    assert [each.name for each in listed([tool("a"), tool("b", parameters)], MAY)] == ["a"]


@pytest.mark.parametrize(
    "returns",
    [
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": 5}},
        {"type": "object", "required": "n"},
        {"type": "object", "required": [1]},
        {"type": "object", "$schema": 5},
    ],
)
def test_a_tool_whose_returns_the_protocol_cannot_carry_is_shown_without_them(
    returns: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    sound = {"type": "object", "properties": {"n": True}, "required": ["n"]}
    shown = listed([tool("a", returns=sound), tool("b", returns=returns)], MAY)
    assert [(each.name, each.output_schema) for each in shown] == [("a", sound), ("b", None)]
    assert "'b'" in caplog.text and "'a'" not in caplog.text
    dumped = ListToolsResult(tools=shown).model_dump(by_alias=True, mode="json", exclude_none=True)
    for version in ("2025-11-25", "2026-07-28"):
        assert len(serialize_server_result("tools/list", version, dumped)["tools"]) == 2
    control = [
        Shown.model_validate({"name": "b", "inputSchema": {"type": "object"}, "outputSchema": returns})
    ]
    with pytest.raises(ValueError):
        dumped = ListToolsResult(tools=control).model_dump(by_alias=True, mode="json", exclude_none=True)
        serialize_server_result("tools/list", "2025-11-25", dumped)
        ListToolsResult(tools=control).model_dump_json()


def test_a_long_list_comes_in_pages_and_a_cursor_is_one_of_ours() -> None:
    from mcp.shared.exceptions import MCPError
    from mcp_types import PaginatedRequestParams

    assert page(None, PAGE + 1) == (0, PAGE, str(PAGE))
    assert page(PaginatedRequestParams(cursor=str(PAGE)), PAGE + 1) == (PAGE, 2 * PAGE, None)
    for cursor in ("-1", "x", "9" * 20, "²", ""):
        with pytest.raises(MCPError):
            page(PaginatedRequestParams(cursor=cursor), 3)


def test_half_a_character_in_what_it_returns_is_spelled_out() -> None:
    [shown] = listed([tool("a", returns={"type": "object", "title": "\ud800"})], MAY)
    assert shown.output_schema == {"type": "object", "title": r"\u{d800}"}
