"""Objects inside the arguments take what their schema mentions, and nothing that the author allows is refused."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.gate.schema import problem_with, returned_problem

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
K: dict[str, Any] = {"type": "object", "properties": {"k": {}}}
DEFS: dict[str, Any] = {"k": K, "l": {"properties": {"l": {}}}}


def of(schema: Any, **more: Any) -> dict[str, Any]:
    """The schema of a tool with one argument `v`."""
    return {"type": "object", "properties": {"v": schema}, "definitions": DEFS, **more}


def taken(schema: Any, value: Any, **more: Any) -> bool:
    return problem_with(of(schema, **more), {"v": value}) == ""


CLOSED: list[tuple[Any, Any, Any]] = [
    (K, {"k": 1}, {"k": 1, "z": 2}),
    ({"items": K}, [{"k": 1}], [{"k": 1}, {"z": 2}]),
    (
        {"properties": {"deep": {"items": {"properties": {"k": {}}}}}},
        {"deep": [{"k": 1}]},
        {"deep": [{"z": 1}]},
    ),
    ({"additionalProperties": K}, {"any": {"k": 1}}, {"any": {"z": 1}}),
    ({"patternProperties": {"^a": K}}, {"a": {"k": 1}}, {"a": {"z": 1}}),
    ({"$ref": "#/definitions/k"}, {"k": 1}, {"z": 1}),
    (
        {"allOf": [{"$ref": "#/definitions/k"}, {"$ref": "#/definitions/l"}]},
        {"k": 1, "l": 1},
        {"k": 1, "z": 1},
    ),
    ({"anyOf": [K, {"type": "null"}]}, {"k": 1}, {"k": 1, "z": 2}),
    ({"oneOf": [{"$ref": "#/definitions/k"}, {"type": "string"}]}, {"k": 1}, {"k": 1, "z": 2}),
    ({"if": {"required": ["k"]}, "then": {"properties": {"k": {}, "l": {}}}}, {"k": 1, "l": 1}, {"z": 1}),
    ({**K, "required": ["k", "needed"]}, {"k": 1, "needed": 2}, {"k": 1, "needed": 2, "z": 1}),
    ({**K, "dependencies": {"k": ["l"]}}, {"k": 1, "l": 2}, {"k": 1, "l": 2, "z": 3}),
    ({**K, "patternProperties": {"^x-": {}}}, {"k": 1, "x-y": 2}, {"k": 1, "y": 2}),
]


@pytest.mark.parametrize("more", [{}, {"$schema": DRAFT_7}], ids=["2020-12", "draft 7"])
@pytest.mark.parametrize(("schema", "good", "bad"), CLOSED)
def test_parse_10_a_member_that_the_schema_of_an_inner_object_does_not_mention_is_refused(
    schema: Any, good: Any, bad: Any, more: dict[str, Any]
) -> None:
    assert taken(schema, good, **more)
    assert " is not known to this tool" in problem_with(of(schema, **more), {"v": bad})
    assert jsonschema_rs.validator_for(of(schema, **more)).is_valid({"v": bad})  # by itself it is let in


def test_parse_10_only_the_last_items_of_a_list_need_not_be_described() -> None:
    schema = {"prefixItems": [K]}
    assert taken(schema, [{"k": 1}, {"other": 1}])
    assert not taken(schema, [{"other": 1}])


SAID: list[tuple[Any, Any]] = [
    ({"type": "object"}, {"anything": 1}),
    ({"type": "object", "properties": {}}, {"anything": 1}),
    ({**K, "additionalProperties": True}, {"k": 1, "z": 2}),
    ({**K, "additionalProperties": {"type": "integer"}}, {"k": 1, "z": 2}),
    ({**K, "unevaluatedProperties": True}, {"k": 1, "z": 2}),
    ({"allOf": [K, {"additionalProperties": True}]}, {"k": 1, "z": 2}),
    ({**K, "propertyNames": {"maxLength": 3}}, {"k": 1, "z": 2}),
    ({"anyOf": [K, {"additionalProperties": {}}]}, {"z": 2}),
    ({"patternProperties": {"^x": {}}}, {"xa": 1, "y": 2}),
]
TOLD_IN_TWO_PLACES: list[tuple[Any, Any]] = [
    (
        {"allOf": [{"properties": {"o": K}}, {"properties": {"o": {"properties": {"l": {}}}}}]},
        {"o": {"k": 1, "l": 2}},
    ),
    (
        {"properties": {"o": K}, "patternProperties": {"^o": {"properties": {"l": {}}}}},
        {"o": {"k": 1, "l": 2}},
    ),
    (
        {"properties": {"o": K}, "allOf": [{"additionalProperties": {"required": ["l"]}}]},
        {"o": {"k": 1, "l": 2}},
    ),
    ({"items": K, "contains": {"properties": {"l": {"const": 2}}, "required": ["l"]}}, [{"k": 1, "l": 2}]),
    ({"items": K, "allOf": [{"items": {"properties": {"l": {}}}}]}, [{"k": 1, "l": 2}]),
    ({"allOf": [{"$ref": "#/properties/w"}, {"properties": {"l": {}}}]}, {"k": 1, "l": 2}),
]


@pytest.mark.parametrize(("schema", "value"), [*SAID, *TOLD_IN_TWO_PLACES])
def test_parse_10_what_the_author_allows_inside_is_taken(schema: Any, value: Any) -> None:
    whole = of(schema)
    whole["properties"]["w"] = K
    assert problem_with(whole, {"v": value}) == ""


@pytest.mark.parametrize(
    ("schema", "bad"),
    [
        ({"not": {"properties": {"o": K}, "required": ["o"]}}, {"o": {"k": 1, "z": 2}}),
        ({"if": {"properties": {"o": K}}, "then": {"maxProperties": 0}}, {"o": {"k": 1, "z": 2}}),
        (
            {"oneOf": [{"properties": {"o": K}}, {"properties": {"o": {"properties": {"l": {}}}}}]},
            {"o": {"k": 1}},
        ),
        (
            {"contains": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "maxContains": 0},
            [{"k": 1, "z": 2}],
        ),
        ({**K, "additionalProperties": False, "allOf": [{"properties": {"k": {}, "l": {}}}]}, {"l": 1}),
        ({"not": {"$ref": "#/definitions/deep"}, "items": {"$ref": "#/definitions/deep"}}, {"o": {"z": 2}}),
    ],
)
def test_parse_10_closing_inner_objects_lets_nothing_in_that_the_author_refuses(
    schema: Any, bad: Any
) -> None:
    definitions = {**DEFS, "deep": {"properties": {"o": K}, "required": ["o"]}}
    whole = of(schema, definitions=definitions)
    assert not jsonschema_rs.validator_for(whole).is_valid({"v": bad})
    assert problem_with(whole, {"v": bad}) != ""


def test_parse_10_a_schema_that_names_its_parts_is_left_as_it_is_inside() -> None:
    named = {"$defs": {"n": {"$anchor": "n", **K}}}
    assert taken({"$ref": "#n"}, {"k": 1, "z": 2}, **named)


def test_parse_10_a_tree_that_refers_to_itself_is_closed_at_every_level() -> None:
    tree = {"properties": {"name": {}, "below": {"items": {"$ref": "#/definitions/tree"}}}}
    schema = of({"$ref": "#/definitions/tree"}, definitions={"tree": tree})
    assert problem_with(schema, {"v": {"name": 1, "below": [{"below": [{"name": 2}]}]}}) == ""
    assert problem_with(schema, {"v": {"below": [{"below": [{"z": 2}]}]}}) != ""


def test_what_a_tool_returns_may_hold_more_than_it_mentions() -> None:
    assert returned_problem(of(K), {"v": {"k": 1, "z": 2}}) == ""


NAMES = st.sampled_from(["a", "b", "c"])
REFERENCES = st.sampled_from([{"$ref": "#/definitions/x"}, {"$ref": "#/definitions/y"}])


def keywords(inner: Any) -> Any:
    some = st.lists(inner, min_size=1, max_size=2)
    tables = st.dictionaries(NAMES, inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": tables,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "c$"]), inner, max_size=1),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "items": inner,
            "contains": inner,
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "required": st.lists(NAMES, max_size=1),
        },
    )


LEAVES = st.one_of(st.just({}), st.just({"type": "object"}), st.just({"type": "integer"}), REFERENCES)
SCHEMAS = st.recursive(LEAVES, keywords, max_leaves=8)
VALUES = st.recursive(
    st.sampled_from([0, "t"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["a", "b", "c", "z"]), inner, max_size=3),
    ),
    max_leaves=8,
)
IN_PLACE = ("allOf", "anyOf", "oneOf")


class Told:
    """What a schema says about a value, every part of it together: written anew, and not as the gate does it."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.whole = whole

    def parts(self, schemas: list[Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        waiting = [each for each in schemas if isinstance(each, dict)]
        while waiting:
            one = waiting.pop()
            if any(one is each for each in found):
                continue
            found.append(one)
            for keyword in IN_PLACE:
                waiting += [each for each in one.get(keyword, []) if isinstance(each, dict)]
            waiting += [
                one[keyword] for keyword in ("if", "then", "else") if isinstance(one.get(keyword), dict)
            ]
            if "$ref" in one:
                waiting.append(self.whole["definitions"][one["$ref"][-1]])
        return found

    def plainly_allows(self, schemas: list[Any], value: Any) -> bool:
        """Whether each member of each object in it is mentioned, or the object is one that names none."""
        parts = self.parts(schemas)
        if isinstance(value, list):
            inner = [part[keyword] for part in parts for keyword in ("items", "contains") if keyword in part]
            return all(self.plainly_allows(inner, each) for each in value)
        if not isinstance(value, dict):
            return True
        welcome = not any(part.get("properties") for part in parts)
        return all(self.member(parts, name, each, welcome) for name, each in value.items())

    def member(self, parts: list[dict[str, Any]], name: str, value: Any, welcome: bool) -> bool:
        inner: list[Any] = []
        for part in parts:
            named = [part["properties"][name]] if name in part.get("properties", {}) else []
            for pattern, each in part.get("patternProperties", {}).items():
                fits = name.startswith("a") if pattern == "^a" else name.endswith("c")
                named += [each] if fits else []
            if not named and part.get("additionalProperties", False) is not False:
                named = [part["additionalProperties"]]
            inner += named
        required = any(name in part.get("required", []) for part in parts)
        return (bool(inner) or required or welcome) and self.plainly_allows(inner, value)


@settings(max_examples=400, deadline=None)
@given(SCHEMAS, SCHEMAS, SCHEMAS, VALUES, st.sampled_from([{}, {"$schema": DRAFT_7}]))
def test_parse_10_a_closed_schema_takes_what_the_author_allows_and_never_more(
    schema: Any, x: Any, y: Any, value: Any, more: dict[str, Any]
) -> None:
    whole = {"properties": {"v": schema}, "definitions": {"x": x, "y": y}, **more}
    try:
        by_itself = jsonschema_rs.validator_for(whole).is_valid({"v": value})
        closed = problem_with(whole, {"v": value}) == ""
    except ValueError:
        return  # references in a circle
    if not by_itself:
        assert not closed
    elif Told(whole).plainly_allows([schema], value):
        assert closed
