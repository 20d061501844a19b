"""Schemas that strangers wrote: nothing is fetched, nothing grows without bound, and unknown arguments are refused."""

import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from metier.gate.schema import MAX_BYTES, MAX_NODES, problem_with, schema_problem
from metier.model.digest import Json


def of(schema: Any, **more: Any) -> dict[str, Any]:
    """The schema of a tool with one argument `v`."""
    return {"type": "object", "properties": {"v": schema}, **more}


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """A web server with a schema, and the paths it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"type": "string"}')

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/schema.json", asked
        server.shutdown()
        thread.join()


def test_parse_08_a_schema_on_the_web_is_never_fetched(elsewhere: tuple[str, list[str]]) -> None:
    address, asked = elsewhere
    for schema in (
        of({"$ref": address}),
        of({"$ref": "other.json"}, **{"$id": address}),
        of({"$dynamicRef": address}),
        of({}, **{"$schema": address}),
        {"allOf": [{"$ref": f"{address}#/$defs/x"}]},
    ):
        assert "cannot be used" in schema_problem(schema)
        with pytest.raises(ValueError, match="cannot be used"):
            problem_with(schema, {"v": "x"})
    assert asked == []
    # The library by itself would have gone there.
    assert not jsonschema_rs.validator_for(of({"$ref": address})).is_valid({"v": 1})
    assert asked == ["/schema.json"]


def test_parse_08_a_schema_in_a_file_is_never_read(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "string"}')
    assert "cannot be used" in schema_problem(of({"$ref": file.as_uri()}))
    assert "schemas are never fetched" in schema_problem(of({"$ref": "file:///s.json"}))
    assert not jsonschema_rs.validator_for(of({"$ref": file.as_uri()})).is_valid({"v": 1})


def test_parse_08_a_reference_that_leads_nowhere_makes_the_schema_unusable() -> None:
    assert "'/nope' does not exist" in schema_problem(of({"$ref": "#/nope"}))


@pytest.mark.parametrize(
    ("schema", "arguments", "fits"),
    [
        (of({"$ref": "#"}), {"v": {"v": {"v": {}}}}, True),
        (of({"$ref": "#"}), {"v": {"v": {"v": 1}}}, False),
        (of({"$ref": "#/$defs/tree"}, **{"$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}, "type": "array"}}}),
         {"v": [[], [[]]]}, True),
        (of({"$ref": "#/$defs/tree"}, **{"$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}, "type": "array"}}}),
         {"v": [[], [[1]]]}, False),
        ({"allOf": [{"$ref": "#"}], **of({})}, {"v": 1}, True),
        (of({"$ref": "#/$defs/a"}, **{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
         {"v": 1}, True),
        ({"$dynamicAnchor": "node", **of({"$dynamicRef": "#node"})}, {"v": {"v": {"w": 1}}}, False),
    ],
)  # fmt: skip
def test_parse_08_a_schema_that_contains_itself_comes_to_an_end(
    schema: dict, arguments: dict, fits: bool
) -> None:
    assert schema_problem(schema) == ""
    assert (problem_with(schema, arguments) == "") is fits


SLOW = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", r"^(?:(a+)\1?)+$", r"^(a|aa|\1)+$", "^(?:a+(?=a|!)a*)*$"]


@pytest.mark.parametrize("pattern", SLOW)
def test_parse_08_no_pattern_can_make_a_call_wait(pattern: str) -> None:
    schema = of({"type": "string", "pattern": pattern})
    assert problem_with(schema, {"v": "a" * 200 + "!"}) == "argument 'v' does not match the required pattern"


def test_parse_08_pythons_own_patterns_would_wait_for_ever() -> None:
    code = f"import re; re.search({SLOW[0]!r}, 'a' * 200 + '!')"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", code], timeout=1, check=False)


def test_parse_08_a_pattern_that_explodes_when_it_is_built_is_refused() -> None:
    assert "regex" in schema_problem(of({"pattern": "(((a{1000}){1000}){1000})"}))
    assert "regex" in schema_problem(of({"pattern": "("}))


def test_parse_08_a_schema_that_is_too_big_is_refused() -> None:
    fits = of({"description": "x" * (MAX_BYTES - 200)})
    assert schema_problem(fits) == ""
    assert "262,144 are read" in schema_problem(of({"description": "x" * MAX_BYTES}))
    assert "bytes" in schema_problem(of({"enum": list(range(2_000_000))}))
    assert "10,000 nodes" in schema_problem(of({"enum": list(range(MAX_NODES))}))


def test_parse_08_true_and_false_are_schemas() -> None:
    schema = {"properties": {"yes": True, "no": False}}
    assert problem_with(schema, {"yes": {"any": ["thing"]}}) == ""
    assert problem_with(schema, {"no": None}) == "argument 'no' is not allowed"


def ladder(levels: int, reference: str) -> dict[str, Any]:
    """Each level holds the next one twice, so the leaf is met 2^levels times."""
    to = [{"$ref": reference.format(level)} for level in range(levels + 1)]
    steps: dict[str, Any] = {
        f"l{level}": {"$anchor": f"l{level}", "anyOf": [to[level + 1], to[level + 1]]}
        for level in range(levels)
    }
    steps[f"l{levels}"] = {"$anchor": f"l{levels}", "type": "string"}
    return of(to[0], **{"$defs": steps})


def expanded(node: Any, steps: dict[str, Any]) -> int:
    """How many schemas a validator looks at when every branch fails."""
    if "$ref" in node:
        return expanded(steps[node["$ref"].rpartition("/")[2]], steps)
    return 1 + sum(expanded(each, steps) for each in node.get("anyOf", ()))


@pytest.mark.parametrize("reference", ["#/$defs/l{}", "#/%24defs/l{}", "#/$defs/%6c{}", "#l{}"])
def test_parse_08_a_ladder_of_references_is_counted_before_it_is_climbed(reference: str) -> None:
    schema = ladder(22, reference)
    assert len(str(schema)) < 4_000
    assert "more than 10,000 nodes once its references are followed" in schema_problem(schema)
    with pytest.raises(ValueError, match="10,000 nodes"):
        problem_with(schema, {"v": 1})
    assert schema_problem(ladder(2, reference)) == ""
    assert problem_with(ladder(2, reference), {"v": "x"}) == ""


def test_parse_08_without_the_count_a_small_ladder_is_a_mountain() -> None:
    schema = ladder(12, "#/$defs/l{}")
    assert expanded({"$ref": "#/$defs/l0"}, schema["$defs"]) == 2**13 - 1
    # The library by itself takes the ladder as it is.
    assert jsonschema_rs.validator_for(schema).is_valid({"v": "x"})


CONFORMANCE: list[tuple[Any, list[Any], list[Any]]] = [
    ({"type": "integer"}, [1, 1.0, -0.0], [1.5, "1", True, None]),
    ({"type": "number"}, [1, 1.5], ["1", False, []]),
    ({"type": ["string", "null"]}, ["", None], [0, {}]),
    ({"type": "boolean"}, [True, False], [0, 1, "true"]),
    ({"enum": [1, "a", None, [1], {"a": 1}]}, [1, 1.0, "a", None, [1], {"a": 1}], [True, "A", [], {"a": 2}]),
    ({"const": False}, [False], [0, None, ""]),
    ({"const": 1}, [1, 1.0], [True, "1"]),
    ({"multipleOf": 0.01}, [0, 4.5, "text"], [0.001]),
    ({"maximum": 3}, [3, 2.9, "4"], [3.1]),
    ({"exclusiveMinimum": 3}, [3.1], [3, 2]),
    ({"minLength": 2}, ["\U0001f9c0\U0001f9c0", 1], ["\U0001f9c0"]),
    ({"maxLength": 1}, ["\U0001f9c0", ""], ["ab"]),
    ({"pattern": "a+b"}, ["xaabx", 1], ["ab"[::-1]]),
    ({"items": {"type": "string"}}, [[], ["a"], "b"], [["a", 1]]),
    ({"prefixItems": [{"type": "string"}], "items": False}, [[], ["a"]], [[1], ["a", "b"]]),
    ({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [[1, 1], [1, 0, 1, 1]], [[1], [1] * 4]),
    ({"uniqueItems": True}, [[1, True, "1"], [{"a": 1}, {"a": 2}]], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
    ({"minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
    ({"required": ["a"]}, [{"a": None}, 1], [{}, {"b": 1}]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
    ({"propertyNames": {"pattern": "^x"}}, [{}, {"x1": 1}], [{"y": 1}]),
    ({"patternProperties": {"^n": {"type": "number"}}}, [{"n": 1, "m": "x"}], [{"n": "x"}]),
    ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1}, {}], [{"b": 1}]),
    ({"dependentRequired": {"a": ["b"]}}, [{"b": 1}, {"a": 1, "b": 1}], [{"a": 1}]),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{}, {"a": 1, "b": 1}], [{"a": 1}]),
    ({"not": {"type": "string"}}, [1, None], ["a"]),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2], [0, 3]),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["a", 5], [4]),
    ({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}, [2, 3], [1, 6]),
    ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"const": 0}}, ["ab", 0], ["a", 1]),
    ({"$ref": "#/$defs/text", "maxLength": 2}, ["ab"], ["abc", 1]),
    ({"$ref": "#named"}, [1], ["a"]),
    ({"$ref": "#/$defs/per%25cent"}, [True], [1]),
    ({"$ref": "#/$defs/til~0de~1slash"}, [None], [1]),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, [{"a": 1}], [{"b": 1}]),
    ({"prefixItems": [True], "unevaluatedItems": False}, [[1]], [[1, 2]]),
    ({"format": "email", "title": "t", "default": 1, "x-unknown": {"type": 1}}, ["no email", 1], []),
    (True, [1, {}], []),
]  # fmt: skip
DEFINITIONS = {
    "text": {"type": "string"},
    "number": {"$anchor": "named", "type": "number"},
    "per%cent": {"type": "boolean"},
    "til~de/slash": {"type": "null"},
}


@pytest.mark.parametrize(("schema", "good", "bad"), CONFORMANCE)
def test_parse_09_schemas_mean_what_draft_2020_12_says(schema: Any, good: list, bad: list) -> None:
    whole = of(schema, **{"$defs": DEFINITIONS, "$schema": "https://json-schema.org/draft/2020-12/schema"})
    assert schema_problem(whole) == ""
    assert [value for value in good if problem_with(whole, {"v": value})] == []
    assert [value for value in bad if not problem_with(whole, {"v": value})] == []


@pytest.mark.parametrize(
    "schema",
    [{"type": "text"}, {"required": "v"}, {"properties": []}, {"minLength": -1}, {"enum": 1}, {"pattern": 1}],
)
def test_parse_09_what_is_no_schema_is_refused_before_any_call(schema: dict) -> None:
    assert schema_problem(schema).startswith("the schema cannot be used: ")


KNOWN = {"properties": {"v": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        KNOWN,
        {"additionalProperties": False, **KNOWN},
        {"unevaluatedProperties": False, **KNOWN},
        {"allOf": [KNOWN]},
        {"allOf": [KNOWN, {"properties": {"w": {}}}]},
        {"anyOf": [KNOWN, {"required": ["v"]}]},
        {"$ref": "#/$defs/base", "$defs": {"base": KNOWN}},
        {"if": {"required": ["v"]}, "then": KNOWN},
        {"patternProperties": {"^v$": {}}},
    ],
)
def test_parse_10_an_argument_the_schema_does_not_mention_is_refused(schema: dict) -> None:
    assert problem_with(schema, {"v": "x", "extra": 1}).endswith(" is not known to this tool")
    assert "'extra'" in problem_with(schema, {"extra": 1})


def test_parse_10_by_itself_the_standard_lets_every_argument_in() -> None:
    assert jsonschema_rs.validator_for(KNOWN).is_valid({"v": "x", "extra": 1})


@pytest.mark.parametrize(
    "schema",
    [
        KNOWN,
        {"allOf": [KNOWN]},
        {"allOf": [{"$ref": "#/$defs/base"}], "$defs": {"base": KNOWN}},
        {"anyOf": [{"properties": {"w": {}}, "required": ["w"]}, KNOWN]},
        {"patternProperties": {"^v": {}}},
    ],
)
def test_parse_10_an_argument_mentioned_anywhere_in_the_schema_is_known(schema: dict) -> None:
    assert problem_with(schema, {"v": "x"}) == ""


@pytest.mark.parametrize(
    "schema",
    [
        {**KNOWN, "additionalProperties": True},
        {**KNOWN, "unevaluatedProperties": True},
        {**KNOWN, "additionalProperties": {"type": "integer"}},
        {"allOf": [KNOWN], "additionalProperties": True},
        {"allOf": [{**KNOWN, "additionalProperties": True}]},
    ],
)
def test_parse_10_a_schema_that_says_so_lets_other_arguments_in(schema: dict) -> None:
    assert problem_with(schema, {"v": "x", "extra": 1}) == ""


def test_parse_10_an_inner_object_that_names_no_member_takes_any() -> None:
    assert problem_with(of({"type": "object"}), {"v": {"anything": 1}}) == ""
    typed = {**KNOWN, "additionalProperties": {"type": "integer"}}
    assert problem_with(typed, {"extra": "x"}) == "argument 'extra' has the wrong type"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"}, {"enum": ["a"]}, {"const": "a"}, {"maxLength": 1}, {"pattern": "^a$"}, {"not": {}},
        {"anyOf": [{"const": 1}]}, {"oneOf": [{}, {}]}, False, {"if": {}, "then": False},
    ],
)  # fmt: skip
def test_a_refusal_names_the_argument_and_never_its_value(schema: Any) -> None:
    said = problem_with(of(schema), {"v": "hunter2"})
    assert "'v'" in said
    assert "hunter2" not in said


def test_the_name_of_an_argument_cannot_disturb_the_message() -> None:
    said = problem_with({}, {"a\n\x1b[2J\u202e" + "x" * 500: 1})
    assert said.isprintable()
    assert len(said) < 200


def test_parse_08_a_ladder_cannot_hide_behind_other_ways_to_refer() -> None:
    for keyword, anchor, way in (
        ("$dynamicRef", "$dynamicAnchor", "#l{}"),
        ("$ref", "$id", "l{}"),
        ("$ref", "$id", "http://x.example/l{}"),
    ):
        to = [{keyword: way.format(level)} for level in range(23)]
        name = [way.removeprefix("#").format(level) for level in range(23)]
        steps = {f"l{i}": {anchor: name[i], "anyOf": [to[i + 1], to[i + 1]]} for i in range(22)}
        steps["l22"] = {anchor: name[22], "type": "string"}
        assert schema_problem(of(to[0], **{"$defs": steps}))


def test_parse_08_a_schema_nested_too_deeply_is_a_reason_and_no_exception() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"not": deep}
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(3_000)} | {"d3000": {}}
    assert "nested too deeply" in schema_problem(of(deep))
    assert "nested too deeply" in schema_problem(of({"$ref": "#/$defs/d0"}, **{"$defs": chain}))


OLD = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
]


@pytest.mark.parametrize("draft", OLD)
@pytest.mark.parametrize(
    "schema",
    [
        KNOWN,
        {"additionalProperties": False, **KNOWN},
        {"allOf": [KNOWN]},
        {"allOf": [KNOWN, {"properties": {"w": {}}}]},
        {"anyOf": [KNOWN, {"required": ["v"]}]},
        {"$ref": "#/definitions/base", "definitions": {"base": KNOWN}},
        {"$ref": "#/definitions/base", "definitions": {"base": KNOWN}, "additionalProperties": False},
        {"allOf": [{"$ref": "#/definitions/base"}], "definitions": {"base": {"oneOf": [KNOWN]}}},
        {"dependencies": {"v": KNOWN}},
        {"patternProperties": {"^v$": {}}},
        {"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a", **KNOWN}}, "allOf": [KNOWN]},
    ],
    ids=str,
)  # fmt: skip
def test_parse_10_also_in_old_drafts_an_argument_the_schema_does_not_mention_is_refused(
    draft: str, schema: dict
) -> None:
    schema = {"$schema": draft, **schema}
    assert problem_with(schema, {"v": "x"}) == ""
    assert problem_with(schema, {"v": "x", "extra": 1}) == "argument 'extra' is not known to this tool"
    assert jsonschema_rs.validator_for({"$schema": draft, **KNOWN}).is_valid({"v": "x", "extra": 1})


@pytest.mark.parametrize("draft", OLD)
@pytest.mark.parametrize(
    "schema",
    [
        {**KNOWN, "additionalProperties": True},
        {"allOf": [{**KNOWN, "additionalProperties": {}}]},
        {"$ref": "#/definitions/base", "definitions": {"base": {**KNOWN, "additionalProperties": True}}},
    ],
    ids=str,
)
def test_parse_10_also_an_old_draft_may_say_that_other_arguments_are_welcome(
    draft: str, schema: dict
) -> None:
    schema = {"$schema": draft, **schema}
    assert problem_with(schema, {"v": "x", "extra": 1}) == ""
    assert problem_with(schema, {"v": 1}) == "argument 'v' has the wrong type"


@pytest.mark.parametrize("draft", OLD)
def test_parse_10_what_an_old_draft_forbids_stays_forbidden(draft: str) -> None:
    schema = {"$schema": draft, "$ref": "#/definitions/base", "definitions": {"base": KNOWN}}
    assert problem_with(schema, {"v": 1}) == "argument 'v' has the wrong type"
    schema = {"$schema": draft, "additionalProperties": False, "allOf": [KNOWN]}
    assert problem_with(schema, {"v": "x"}) != ""
    schema = {"$schema": draft, "allOf": [{"properties": {"v": {"maxLength": 2}}}, KNOWN]}
    assert problem_with(schema, {"v": "abc"}) == "argument 'v' is too long"
    assert schema_problem({"$schema": draft, "properties": []}).startswith("the schema cannot be used")
    assert schema_problem({"$schema": draft, "$ref": 7, "allOf": 7, "properties": {}})


def test_parse_08_a_name_inside_an_old_schema_cannot_lead_its_references_astray() -> None:
    steps = {"id": "http://x.example/", "definitions": {}, "allOf": [{"$ref": "#/definitions/l0"}]}
    assert "an id of its own" in schema_problem({"$schema": OLD[0], **of(steps)})
    assert schema_problem({"$schema": OLD[0], **of({"properties": {"id": {"type": "string"}}})}) == ""
    assert schema_problem({"$schema": OLD[0], "id": "http://x.example/", **of({})}) == ""


def test_parse_11_very_many_faults_are_refused_as_quickly_as_one() -> None:
    schema = of({"type": "array", "items": {"type": "string"}})
    began = time.perf_counter()
    assert problem_with(schema, {"v": [1] * 200_000}) == "argument 'v/0' has the wrong type"
    assert time.perf_counter() - began < 0.2, "all of them together take most of a second"


def nested(depth: int) -> Json:
    value: Json = "bad"
    for _ in range(depth):
        value = [value]
    return value


def test_res_15_a_schema_that_doubles_with_every_level_of_a_value_is_not_followed_to_its_end() -> None:
    twice: dict[str, Json] = {"type": "array", "items": {"$ref": "#/$defs/t"}}
    doubling: dict[str, Json] = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/t"}},
        "$defs": {"t": {"anyOf": [twice, {**twice, "minItems": 1}, {"const": "leaf"}]}},
    }
    assert "does not fit" in problem_with(doubling, {"x": nested(4)}), "a shallow one is checked"
    assert "too deep" in problem_with(doubling, {"x": nested(28)})


def test_a_tree_that_refers_to_itself_once_is_checked_however_deep_it_is() -> None:
    tree: dict[str, Json] = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
    }
    value: dict[str, Json] = {"name": "leaf"}
    for _ in range(14):
        value = {"name": "branch", "children": [value, {"name": "leaf"}]}
    assert problem_with(tree, value) == ""
    value["children"].append({})  # type: ignore[union-attr]
    assert "is required" in problem_with(tree, value)


def test_res_15_many_values_against_a_large_schema_are_not_compared_one_by_one() -> None:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"x": {"type": "array", "items": {"not": {"enum": [{"n": n} for n in range(1000)]}}}},
    }
    assert problem_with(schema, {"x": [1] * 100}) == ""
    assert "too many values" in problem_with(schema, {"x": [1] * 60_000})
