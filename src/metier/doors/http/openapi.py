"""The OpenAPI 3.1 document, made of what answers itself."""

from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec

from metier.doors.http.bodies import may_be_left_out
from metier.doors.http.described import JSON, Described
from metier.doors.http.endpoint import PARAMETERS
from metier.doors.http.idempotency import KEY
from metier.doors.http.problem import TITLES, TYPE, Problem

DOCUMENT: Final = "/api/v1/openapi.json"
THE_DOCUMENT: Final = Described(
    method="GET", path=DOCUMENT, about="This document.", by=(), answer=dict[str, Any]
)
_ALWAYS: Final = (400, 403, 413, 421, 503)
"""What every request may meet."""
_LET_IN: Final = (401, 429)
"""And what somebody may who has to be let in."""
_HEADERS: Final[dict[str, dict[str, object]]] = {
    "Idempotency-Key": {
        "description": "A quoted string of your own, once for each call that you want made: the same again gets the same answer.",
        "schema": {"type": "string", "pattern": f"^(?:{KEY})$"},
    },
    "Origin": {
        "description": "One of this server's own, exactly: nobody is signed in by somebody else's page. A browser says it by itself, here "
        "or as `Sec-Fetch-Site: same-origin`.",
        "schema": {"type": "string", "format": "uri"},
    },
    "Last-Event-ID": {
        "description": "The number of the last event that you got.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,15}$"},
    },
}
_MOST: Final = 2**53 - 1
_JSON: Final[dict[str, Any]] = {
    "description": "Any JSON that every reader understands the same way. At most 32 levels deep.",
    "anyOf": [
        {"type": ["null", "boolean", "string"]},
        {"type": "number", "minimum": -_MOST, "maximum": _MOST},
        {"type": "array", "items": {"$ref": "#/components/schemas/Json"}},
        {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Json"}},
    ],
}
_WORDS: Final = {
    201: "Made.",
    202: "Somebody has to decide first.",
    204: "Done; there is nothing to say.",
    303: "Done; go on there.",
}
_REF: Final = "#/components/schemas/{name}"


def document(described: Iterable[Described]) -> bytes:
    """The document as it is served."""
    listed = (*described, THE_DOCUMENT)
    types = _types(listed)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = {id(each): schema for each, schema in zip(types, schemas, strict=True)}

    for name in _asked_names(listed) & components.keys():
        components[name] = _strict(components[name])
    components["Json"] = _JSON

    def schema(of: object) -> dict[str, Any]:
        return schema_of.get(id(of), {})

    paths: dict[str, dict[str, Any]] = {}
    for each in listed:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schema)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Metier",
                "version": "1",
                "description": "Skills behind one gate. What the gate says about a call is an answer, never an error of the request. People "
                "sign in from the pages of this server; programs have a token.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{"token": []}, {"session": []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "token": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "`metier tokens add` makes one.",
                    },
                    "session": {
                        "type": "apiKey",
                        "in": "cookie",
                        "name": "metier_session_8765",
                        "description": "Of a person who signed in, and from our own pages only. Named after the port; `__Host-metier` under https.",
                    },
                },
            },
        }
    )


def _asked_names(listed: tuple[Described, ...]) -> set[str]:
    """The components that bodies of requests are."""
    return {
        each.body.__name__
        for each in listed
        if each.body is not None and issubclass(each.body, msgspec.Struct)
    }


def _strict(schema: Any) -> Any:
    """The same, where whatever JSON stands in it is strict JSON: there is one meaning to each number."""
    if isinstance(schema, list):
        return [_strict(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    said = cast("dict[str, Any]", schema)
    anything: dict[str, Any] = {"$ref": _REF.format(name="Json")}
    if said.get("type") == "object" and not said.get("additionalProperties", {}) and "properties" not in said:
        return {**said, "additionalProperties": anything}
    if said.get("type") == "array" and not said.get("items"):
        return {**said, "items": anything}
    return {key: _strict(value) for key, value in said.items()}


def _types(listed: tuple[Described, ...]) -> list[Any]:
    """Every type that is spoken of, each once."""
    found: dict[int, Any] = {id(Problem): Problem}
    for each in listed:
        for of in (each.body, each.answer, *each.answers.values()):
            if of is not None:
                found.setdefault(id(of), of)
    return list(found.values())


def _operation(each: Described, schema: Any) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    if each.stream:
        answers["200"] = {
            "description": "A stream that goes on.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    elif each.answer is not None:
        answers["200"] = _answer("Done, or what the gate says.", schema(each.answer), each.kind)
    for status, of in each.answers.items():
        answers[str(status)] = (
            _answer(_WORDS[status], schema(of)) if of is not None else {"description": _WORDS[status]}
        )
    wanted = {
        *_ALWAYS,
        *each.problems,
        *((415, 422) if each.body is not None else ()),
        *(_LET_IN if each.by else ()),
    }
    if "Idempotency-Key" in each.headers:
        wanted |= {409, 422}
    for status in sorted(wanted):
        answers[str(status)] = {
            "description": TITLES[status],
            "content": {
                TYPE: {"schema": {"$ref": _REF.format(name="Problem")}},
                **({"text/html": {"schema": {"type": "string"}}} if each.shown else {}),
            },
        }
    made: dict[str, Any] = {
        "summary": each.about,
        "operationId": _name(each),
        "parameters": [*_path(each), *_query(each), *_headers(each)],
        "responses": answers,
    }
    made["security"] = [{by: []} for by in each.by]
    if each.body is not None:
        made["requestBody"] = {
            "required": not may_be_left_out(each.body),
            "content": {JSON: {"schema": _strict(schema(each.body))}},
        }
    return made


def _answer(about: str, schema: dict[str, Any], kind: str = JSON) -> dict[str, Any]:
    return {"description": about, "content": {kind: {"schema": schema}}}


def _name(each: Described) -> str:
    parts = (
        each.path.removeprefix("/api/v1/")
        .lstrip("/")
        .replace("{", "")
        .replace("}", "")
        .replace("-", "_")
        .split("/")
    )
    return "_".join((each.method.lower(), *parts))


def _path(each: Described) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in each.path.split("/") if part.startswith("{")]
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": PARAMETERS[name]},
        }
        for name in names
    ]


def _query(each: Described) -> list[dict[str, Any]]:
    if each.query is None:
        return []
    (_,), components = msgspec.json.schema_components([each.query], ref_template=_REF)
    shape = components[each.query.__name__]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in shape.get("required", ()),
            "schema": {key: value for key, value in schema.items() if key != "default"},
        }
        for name, schema in shape["properties"].items()
    ]


def _headers(each: Described) -> list[dict[str, Any]]:
    return [{"name": name, "in": "header", "required": False, **_HEADERS[name]} for name in each.headers]
