"""Conditions of the operator's rules: compiled once, asked at every call they concern, never for long.

The language is CEL. The engine has no limit of its own and holds the interpreter while it works, so what a condition may
say is bounded when it is loaded (`condition_text`), and what it would have to look at is measured before it is asked.
A condition is true, false, or undecided with a reason; whoever asks takes undecided for a no. Reasons never quote
arguments: they may be secret, and reasons are recorded.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, cast, final

from msgspec import Struct

from metier.gate.condition_text import FUNCTIONS, METHODS, OWN_MATCHES, VARIABLES, Read, read
from metier.model.digest import Json
from metier.model.text import one_line

MAX_VALUES: Final = 20_000
MAX_STEPS: Final = 100_000_000
"""Words of the condition times the size of what it looks at. So much takes a hundred milliseconds at worst."""
MAX_TOGETHER: Final = 10 * MAX_STEPS
"""Of all conditions that one call is measured by."""
MAX_PROGRAM: Final = 500
"""Of a pattern, in steps of its automaton."""
MAX_PATTERN: Final = 200
_VALUE: Final = 64
"""What one value costs, where one character of a text costs 1."""
_PATTERN: Final = 50
_PATTERN_STEP: Final = 5
"""What a pattern and each step of it cost, where a word of the condition costs 1."""


@final
class Condition(Struct, frozen=True, kw_only=True, eq=False):
    """One condition, ready to be asked."""

    source: str
    """As written."""
    program: Any
    read: Read
    steps: int
    """What it costs for each character it looks at."""
    patterns: dict[str, Any]


def condition(source: str) -> Condition:
    """Compile a condition.

    Raises:
        ValueError: when it is no condition, or goes beyond the bounds.
    """
    found = read(source)
    engine = _engine()
    try:
        program = engine.compile(source)
        named = cast("dict[str, list[str]]", program.references())
        # Our own reading must not differ from the engine's: what it sees beyond ours was read otherwise.
        unknown = set(named["variables"]) - {*VARIABLES, *found.bound}
        unknown |= {name for name in named["functions"] if name.isidentifier()} - FUNCTIONS - METHODS
        if found.patterns:
            program = engine.compile(found.source)
        patterns = [cast(str, engine.compile(text).execute()) for text in found.patterns]
    except ValueError as error:
        raise ValueError(_where(str(error))) from None
    if unknown:
        raise ValueError(f"there is no {sorted(unknown)[0]!r} here")
    automata = {pattern: _automaton(pattern) for pattern in patterns}
    words = found.tokens + sum(_PATTERN + _PATTERN_STEP * automata[each].programsize for each in patterns)
    steps = words * (1 + found.sums)
    return Condition(source=source, program=program, read=found, steps=steps, patterns=automata)


def truths(
    conditions: Sequence[Condition], facts: Mapping[str, str], arguments: dict[str, Json]
) -> list[bool | str]:
    """For each condition whether it holds, or why that cannot be said.

    Args:
        facts: every variable but `args`.
    """
    sizes: dict[str, tuple[int, int]] = {}
    costs = [_cost(each, facts, arguments, sizes) for each in conditions]
    beyond = [
        f"what it would have to look at is too large ({values:,} values, {steps:,} steps)"
        if values > MAX_VALUES or steps > MAX_STEPS
        else ""
        for values, steps in costs
    ]
    asked = [each for each, problem in zip(conditions, beyond, strict=True) if not problem]
    together = sum(steps for (_, steps), problem in zip(costs, beyond, strict=True) if not problem)
    if together > MAX_TOGETHER:
        asked = []
        beyond = [f"all conditions about this call together would take {together:,} steps"] * len(costs)
    context = _context(asked, facts, arguments) if asked else None
    return [problem or _truth(each, context) for each, problem in zip(conditions, beyond, strict=True)]


def _truth(condition: Condition, context: Any) -> bool | str:
    try:
        value = condition.program.execute(context)
    except BaseException as error:  # a panic of the engine is not an Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        return _why(error, condition)
    if value is True or value is False:
        return value
    return "it gives something other than true or false"


def _context(conditions: list[Condition], facts: Mapping[str, str], arguments: dict[str, Json]) -> Any:
    """What these conditions see. Only what they look at is handed over: the rest may be large."""
    names = frozenset[str]().union(*(each.read.variables for each in conditions))
    variables: dict[str, Any] = {name: facts[name] for name in names if name != "args"}
    if "args" in names:
        looked: set[str] | None = set()
        for each in conditions:
            if each.read.arguments is None:
                looked = None
                break
            looked |= each.read.arguments
        variables["args"] = (
            arguments if looked is None else {name: arguments[name] for name in looked if name in arguments}
        )
    patterns = {pattern: found for each in conditions for pattern, found in each.patterns.items()}
    if not patterns:
        return _engine().Context(variables)

    def matches(text: object, pattern: str) -> bool | None:
        # What is no text matches nothing and leaves the condition undecided. Raising would be printed by the engine.
        return patterns[pattern].search(text) is not None if isinstance(text, str) else None

    return _engine().Context(variables, {OWN_MATCHES: matches})


def _cost(
    condition: Condition,
    facts: Mapping[str, str],
    arguments: dict[str, Json],
    sizes: dict[str, tuple[int, int]],
) -> tuple[int, int]:
    """How many values this condition would look at, and in how many steps."""
    looked = condition.read.arguments
    weight, values = 1, 1
    for name in arguments if looked is None else looked:
        if name in arguments:
            if name not in sizes:
                sizes[name] = _size(arguments[name])
            weight += sizes[name][0] + len(name)
            values += sizes[name][1]
    for name in condition.read.variables:
        if name != "args":
            weight += len(facts[name])
    again = 0
    for name in condition.read.each_time:
        again += weight if name == "args" else len(facts[name])
    return values, condition.steps * (weight + values * again)


def _size(value: Json) -> tuple[int, int]:
    """Weight and number of the values in `value`; counted no further than anybody may look."""
    weight = values = 0
    level: list[Json] = [value]
    while level and values <= MAX_VALUES:
        below: list[Json] = []
        for item in level:
            values += 1
            weight += _VALUE
            if isinstance(item, str):
                weight += len(item)
            elif isinstance(item, dict):
                values += len(item)  # its keys
                weight += _VALUE * len(item) + sum(map(len, item))
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level = below
    return weight, values + len(level)


def _why(error: BaseException, condition: Condition) -> str:
    """What went wrong, without a word of the arguments."""
    match error:
        case KeyError():
            key = error.args[0] if error.args else None
            if isinstance(key, str) and key in condition.read.fields:
                return f"there is no {key!r} in what it looks at; ask `has(…)` first"
            return "something it looks at is not there"
        case LookupError():
            return "a list it looks at is shorter than it takes for granted"
        case ArithmeticError():
            return "its arithmetic has no result"
        case TypeError():
            return "the values it looks at are of types that do not go together"
        case _:
            return "it could not be evaluated"


def _where(message: str) -> str:
    """The engine's first complaint, with its place."""
    _, found, rest = message.partition("<input>:")
    if not found:
        return "it cannot be read"
    place, _, said = rest.partition(": ")
    column = place.rpartition(":")[2]
    return f"column {column}: {one_line(said.partition(' expecting ')[0].partition('|')[0], 200)}"


def _automaton(pattern: str) -> Any:
    import re2  # pyright: ignore[reportMissingTypeStubs]  # only conditions with patterns need it

    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a pattern has {len(pattern)} characters, more than {MAX_PATTERN}; make it shorter")
    engine: Any = re2
    options = engine.Options()
    options.log_errors = False  # it would write to stderr by itself
    options.never_capture = True
    options.max_mem = 1 << 20
    try:
        compiled = engine.compile(pattern, options)
    except engine.error as error:
        reason = str(error.args[0], "utf-8", "replace")  # RE2 speaks in bytes
        raise ValueError(
            f"a pattern cannot be used: {one_line(reason, 200)}; write it in RE2 syntax"
        ) from None
    if compiled.programsize > MAX_PROGRAM:
        raise ValueError(
            f"a pattern is too complex ({compiled.programsize} steps, at most {MAX_PROGRAM}); make it simpler"
        )
    return compiled


@cache
def _engine() -> Any:
    """The engine without its package, which would import a command line of its own and take thirty times as long."""
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import find_spec, module_from_spec

    name = "cel.cel"
    if name in sys.modules:
        return sys.modules[name]
    package = find_spec("cel")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec(name, places) if places else None
    if spec is None or spec.loader is None:
        raise ValueError("the package common-expression-language is not installed; install Metier again")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return sys.modules.setdefault(name, module)  # whoever imports the package later gets the same
