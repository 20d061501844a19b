"""JSON to WASM values and back, for functions that are called with numbers or with a component's types.

What does not fit is refused: a number that would wrap round would be another number for the guest.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from metier.model.digest import Json

if TYPE_CHECKING:
    from wasmtime.component import ValType as ComponentType

_CORE: Final[dict[str, tuple[int, int] | None]] = {
    "i32": (-(2**31), 2**32 - 1),
    "i64": (-(2**63), 2**64 - 1),
    "f32": None,
    "f64": None,
}
_BITS: Final = {"i32": 32, "i64": 64}
_INTEGERS: Final = {
    "S8": (-(2**7), 2**7 - 1),
    "S16": (-(2**15), 2**15 - 1),
    "S32": (-(2**31), 2**31 - 1),
    "S64": (-(2**63), 2**63 - 1),
    "U8": (0, 2**8 - 1),
    "U16": (0, 2**16 - 1),
    "U32": (0, 2**32 - 1),
    "U64": (0, 2**64 - 1),
}


class BadValue(ValueError):
    """An argument that does not fit its parameter. The text says which and why."""


def numbers(kinds: Sequence[str], arguments: dict[str, Json]) -> list[int | float]:
    """Arguments for a function that takes only numbers, in the order in which they are given.

    Raises:
        BadValue: when there are too many, too few, or one is no number of that kind.
    """
    if len(kinds) != len(arguments):
        raise BadValue(f"the function takes {len(kinds)} numbers and was given {len(arguments)}")
    return [_number(kind, name, value) for kind, (name, value) in zip(kinds, arguments.items(), strict=True)]


def only_numbers(kinds: Sequence[str]) -> bool:
    return all(kind in _CORE for kind in kinds)


def _number(kind: str, name: str, value: Json) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadValue(f"{name} must be a number")
    edges = _CORE[kind]
    if edges is None:
        return float(value)
    if isinstance(value, float):
        if not value.is_integer():
            raise BadValue(f"{name} must be a whole number")
        value = int(value)
    if not edges[0] <= value <= edges[1]:
        raise BadValue(f"{name} does not fit into {kind}")
    bits = _BITS[kind]
    return value - (1 << bits) if value >= 1 << (bits - 1) else value


def typed(parameters: "list[tuple[str, ComponentType]]", arguments: dict[str, Json]) -> list[Any]:
    """Arguments for a component's function, by name; `a_b` and `a-b` are one name.

    Raises:
        BadValue: when one is missing, unknown, or does not fit its type.
    """
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    unknown = sorted(given.keys() - {name for name, _ in parameters})
    if unknown or len(given) != len(arguments):
        raise BadValue(f"the function has no parameter {', '.join(unknown) or 'given twice'}")
    missing = [name for name, _ in parameters if name not in given]
    if missing:
        raise BadValue(f"the function also needs {', '.join(missing)}")
    return [_lower(kind, name, given[name]) for name, kind in parameters]


def _lower(kind: "ComponentType", name: str, value: Json) -> Any:
    from wasmtime import component

    word = type(kind).__name__
    if word in _INTEGERS:
        low, high = _INTEGERS[word]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise BadValue(f"{name} must be a whole number from {low} to {high}")
        return value
    match kind, value:
        case component.Bool(), bool():
            return value
        case ((component.F32() | component.F64()), int() | float()) if not isinstance(value, bool):
            return float(value)
        case component.String(), str():
            return value
        case component.Char(), str() if len(value) == 1:
            return value
        case component.EnumType(), str() if value in kind.names:
            return value
        case component.ListType(), list():
            element = kind.element
            made = [_lower(element, f"{name}[{number}]", item) for number, item in enumerate(value)]
            return bytes(made) if isinstance(element, component.U8) else made
        case component.RecordType(), dict():
            record = component.Record()
            for field, item in zip(kind.fields, typed(kind.fields, value), strict=True):
                setattr(record, field[0], item)
            return record
        case _:
            raise BadValue(
                f"{name} cannot be given as {word}; a function may instead take one string named json"
            )


def liftable(kind: "ComponentType | None") -> bool:
    """Whether a result of that type is taken. Lists are not: in our memory they would be many times as large."""
    from wasmtime import component

    match kind:
        case None | component.Bool() | component.Char() | component.String() | component.EnumType():
            return True
        case component.F32() | component.F64():
            return True
        case component.RecordType():
            return all(liftable(field) for _, field in kind.fields)
        case component.TupleType():
            return all(liftable(element) for element in kind.elements)
        case _:
            return type(kind).__name__ in _INTEGERS


def lift(value: Any) -> Json:
    """A component's result as JSON."""
    from wasmtime import component

    if isinstance(value, component.Record):
        return {name: lift(item) for name, item in vars(value).items()}
    if isinstance(value, tuple):
        return [lift(item) for item in cast("tuple[Any, ...]", value)]
    return value
