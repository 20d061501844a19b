"""What leaves validate can be relied on: the tool exists, the skill is known, the arguments are what the schema says."""

from typing import Any

import msgspec
import pytest

from metier.catalog.catalog import Catalog
from metier.catalog.listed import Listed
from metier.config.settings import Root
from metier.gate.validate import validate
from metier.model.call import Call, Principal, ValidCall
from metier.model.diagnostic import Diagnostic
from metier.model.entry import Operation
from metier.model.outcome import RefusalCode, Refused
from metier.model.permission import PermissionSet
from metier.model.skill import Skill, Tool

ROOT = Root(path="/skills", kind="user", trusted=True)
TEA = Skill(name="brewing-tea", description="", dialect="agent_skills", status="disabled", why="off")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "cups": {"type": "number", "maximum": 12}, "note": {}},
    "required": ["name"],
}
POUR = Tool(
    name="tea/pour",
    description="",
    parameters=SCHEMA,
    subject="name",
    permissions=PermissionSet(binaries=frozenset({"kettle"})),
    entry=Operation(module="tea", operation="pour"),
)
CLOCK = Tool(
    name="clock",
    description="",
    parameters={"type": "object"},
    entry=Operation(module="clock", operation="now"),
)
ODD = Tool(
    name="odd",
    description="",
    parameters={"type": "no such type"},
    entry=Operation(module="odd", operation="odd"),
)
TOOLS = {each.name: each for each in (POUR, CLOCK, ODD)}


def listed(name: str, skill: Skill | None) -> Listed:
    problem = Diagnostic(code="x", severity="error", message="it has no description")
    return Listed(
        name=name,
        folder=f"/skills/{name}",
        root=ROOT,
        skill=skill,
        diagnostics=() if skill else (problem,),
    )


CATALOG = Catalog(by_name={"brewing-tea": listed("brewing-tea", TEA), "broken": listed("broken", None)})


def asked(tool: str, arguments: Any) -> ValidCall | Refused:
    principal = Principal(id="agent:test", kind="agent")
    call = Call(id="call_1", principal=principal, tool=tool, arguments=arguments)
    return validate(call, tools=TOOLS, catalog=CATALOG)


def refused(tool: str, arguments: Any, code: RefusalCode) -> Refused:
    answer = asked(tool, arguments)
    assert isinstance(answer, Refused), answer
    assert (answer.call_id, answer.code) == ("call_1", code)
    assert answer.remedy
    return answer


def test_a_good_call_names_its_tool_its_skill_and_what_it_needs() -> None:
    answer = asked("tea/pour", {"name": "brewing-tea", "cups": 2})
    assert isinstance(answer, ValidCall)
    assert answer.call.arguments == answer.arguments == {"name": "brewing-tea", "cups": 2}
    assert answer.tool is POUR
    assert answer.skill is TEA, "whether it may be used is not asked here"
    assert answer.permissions == POUR.permissions


def test_a_tool_without_a_subject_concerns_no_skill() -> None:
    answer = asked("clock", {})
    assert isinstance(answer, ValidCall)
    assert answer.skill is None


def test_arguments_are_read_back_from_their_canonical_bytes() -> None:
    given = {"note": {"z": 1.0, "a": [10.0, 1e2]}, "name": "brewing-tea", "cups": 1.0}
    answer = asked("tea/pour", given)
    assert isinstance(answer, ValidCall)
    assert repr(answer.arguments) == repr(
        {"cups": 1, "name": "brewing-tea", "note": {"a": [10, 100], "z": 1}}
    )
    given["note"]["a"].append("later")  # type: ignore[index]
    assert answer.arguments["note"] == {"a": [10, 100], "z": 1}, "whoever asked cannot change it any more"


def test_a_tool_that_does_not_exist_gets_a_suggestion_or_the_list() -> None:
    near = refused("tea/poor", {}, "unknown_tool")
    assert near.reasons == ("there is no tool 'tea/poor'",)
    assert near.remedy == "Did you mean 'tea/pour'?"
    assert refused("", {}, "unknown_tool").remedy == "Tools are: clock, odd, tea/pour"


def test_a_list_of_tools_names_no_operation_that_a_model_is_not_shown() -> None:
    boil = msgspec.structs.replace(
        CLOCK, name="kettle.boil", entry=Operation(module="kettle", operation="boil")
    )
    for kind, named in (("agent", False), ("human", True)):
        call = Call(id="call_1", principal=Principal(id=f"{kind}:x", kind=kind), tool="zzz", arguments={})  # type: ignore[arg-type]
        answer = validate(call, tools={**TOOLS, boil.name: boil}, catalog=CATALOG)
        assert isinstance(answer, Refused)
        assert ("kettle.boil" in answer.remedy) is named
        assert "tea/pour" in answer.remedy


def test_a_skill_that_does_not_exist_gets_a_suggestion_or_a_way_to_look() -> None:
    near = refused("tea/pour", {"name": "brewing-te"}, "unknown_skill")
    assert near.reasons == ("there is no skill 'brewing-te'",)
    assert near.remedy == "Did you mean 'brewing-tea'?"
    assert "metier skills list" in refused("tea/pour", {"name": "zzz"}, "unknown_skill").remedy


def test_a_skill_that_models_may_not_invoke_is_suggested_to_people_alone() -> None:
    hidden = Skill(name="hidden", description="", dialect="metier", model_may_invoke=False)
    boo = Tool(
        name="hidden/boo",
        description="",
        parameters={"type": "object"},
        skill="hidden",
        entry=Operation(module="h", operation="boo"),
    )
    catalog = Catalog(by_name={"hidden": listed("hidden", hidden)})
    read = Tool(name="read", description="", parameters=SCHEMA, subject="name", entry=boo.entry)

    def remedy(kind: Any, tool: str, arguments: Any) -> str:
        call = Call(id="c", principal=Principal(id=f"{kind}:x", kind=kind), tool=tool, arguments=arguments)
        answer = validate(call, tools={each.name: each for each in (boo, read)}, catalog=catalog)
        assert isinstance(answer, Refused)
        return answer.remedy

    for tool, arguments in (("hidden/bo", {}), ("zzz", {}), ("read", {"name": "hiden"})):
        assert "hidden" in remedy("human", tool, arguments)
        assert "hidden" not in remedy("agent", tool, arguments)


def test_a_folder_that_could_not_be_read_as_a_skill_is_none() -> None:
    assert refused("tea/pour", {"name": "broken"}, "unknown_skill").reasons == ("there is no skill 'broken'",)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "argument 'name' is required"),
        ({"name": "brewing-tea", "cups": 13}, "argument 'cups' is too large"),
        ({"name": "brewing-tea", "force": True}, "argument 'force' is not known to this tool"),
        ({"name": 7}, "argument 'name' has the wrong type"),
        ([], "arguments must be a JSON object"),
        (None, "arguments must be a JSON object"),
        ({"name": "a", "note": float("nan")}, "arguments are not strict JSON: nan is not JSON"),
        (
            {"name": "a", "note": "\x00"},
            "arguments are not strict JSON: a control character other than tab and line ends",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_the_reason_names_it(arguments: Any, reason: str) -> None:
    answer = refused("tea/pour", arguments, "invalid_arguments")
    assert answer.reasons == (reason,)
    assert "'tea/pour'" in answer.remedy


def test_bad_arguments_are_no_way_to_learn_which_skills_there_are() -> None:
    there, not_there = (
        refused("tea/pour", {"name": name, "cups": 13}, "invalid_arguments")
        for name in ("brewing-tea", "no-such-skill")
    )
    assert (there.reasons, there.remedy) == (not_there.reasons, not_there.remedy)


def test_a_tool_whose_schema_cannot_be_used_cannot_be_called() -> None:
    [reason] = refused("odd", {}, "invalid_arguments").reasons
    assert reason.startswith("'odd' cannot be called: the schema cannot be used")


@pytest.mark.parametrize("name", ["x" * 10_000, "a\n\x1b[2Jb", "\u202eab"])
def test_a_name_cannot_disturb_the_message(name: str) -> None:
    [reason] = refused(name, {}, "unknown_tool").reasons
    assert reason.isprintable()
    assert len(reason) < 200


DEEP: Any = "x"
DEEP_TUPLE: Any = "x"
for _ in range(31):
    DEEP, DEEP_TUPLE = [DEEP], (DEEP_TUPLE,)
CONTROLS = [chr(code) for code in (*range(0x20), 0x7F) if chr(code) not in "\t\n\r"]
NOT_TAKEN: dict[str, Any] = {
    "nan": float("nan"), "infinity": [float("inf")], "a big integer": 2**53, "a big integer deeper": {"a": [-(2**53)]},
    "a big float": 2.0**53, "a huge integer": 10**5_000, "too deep": DEEP, "too deep in tuples": DEEP_TUPLE,
    "a surrogate": "\ud800", "a surrogate in a key": {"\udfff": 1}, "a set": {1}, "bytes": b"x", "an object": object(),
    "a number as key": {1: 2}, "a megabyte": "x" * 1_048_576, "a megabyte of values": [0] * 600_000,
    "a megabyte of escapes": '"' * 600_000, "a megabyte in keys": {"k" * 1_048_576: 1},
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_TAKEN)
def test_parse_11_no_argument_is_taken_that_strict_json_cannot_hold(what: str) -> None:
    for arguments in (
        {"name": "brewing-tea", "note": NOT_TAKEN[what]},
        {"name": "brewing-tea", "note": (NOT_TAKEN[what],)},
        {"name": "brewing-tea", "note": {"a": [NOT_TAKEN[what]]}},
    ):
        [reason] = refused("tea/pour", arguments, "invalid_arguments").reasons
        assert reason.startswith(("arguments are not strict JSON: ", "arguments have 1,"))
        assert len(reason) < 200


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
def test_parse_11_no_control_character_is_taken_in_keys_or_values(control: str) -> None:
    text = f"a{control}b"
    for note in (text, [text], {"a": [text]}, {text: 1}, {"a": {text: 1}}):
        [reason] = refused("tea/pour", {"name": "brewing-tea", "note": note}, "invalid_arguments").reasons
        assert "a control character other than tab and line ends" in reason
    refused("tea/pour", {"name": "brewing-tea", text: 1}, "invalid_arguments")


def test_what_is_just_allowed_is_taken_as_it_is() -> None:
    for note in (
        "a\tb\r\nc", 2**53 - 1, -(2**53) + 1, DEEP[0][0], "x" * 1_000_000, "\U0001f9c0", "\\u0000", "\x85", 1e21, "<b>&amp;"
    ):  # fmt: skip
        answer = asked("tea/pour", {"name": "brewing-tea", "note": note})
        assert isinstance(answer, ValidCall)
        assert answer.arguments["note"] == note


@pytest.mark.parametrize(
    "schema", [{"type": "object", "properties": 7}, {"$schema": "https://nowhere.example"}]
)
def test_whatever_stands_where_a_schema_should_be_is_a_refusal(schema: Any) -> None:
    tool = Tool(name="x", description="", parameters=schema, entry=Operation(module="m", operation="o"))
    call = Call(id="1", principal=Principal(id="agent:a", kind="agent"), tool="x", arguments={})
    answer = validate(call, tools={"x": tool}, catalog=CATALOG)
    assert isinstance(answer, Refused)
    assert "cannot be called" in answer.reasons[0]
