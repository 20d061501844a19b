"""Conditions of rules: what they may say, what they may cost, and that nothing they cannot decide passes for a yes."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.gate.condition_text import VARIABLES
from metier.gate.conditions import MAX_VALUES, Condition, _engine, condition, truths
from metier.model.digest import Json

FACTS = {name: name for name in VARIABLES if name != "args"} | {"cwd": "/srv/notes", "channel": ""}


def said(source: str, **arguments: Any) -> bool | str:
    return truths([condition(source)], FACTS, arguments)[0]


HOLDS = [
    "args.path.startsWith('/etc/')",
    'args["path"].endsWith("passwd")',
    "args.path.contains('etc') && size(args.path) > 3",
    "args.list.all(x, x > 0) && args.list.exists(x, x == 2)",
    "args.list.exists_one(x, x == 3)",
    "has(args.path) && !has(args.other)",
    "args.path.matches('^/[a-z]+/') ? true : false",
    r"args.path.matches(r'^/\w+/\w+$')",
    "args.path.matches('(?i)PASSWD')",
    "2 in args.list && 'path' in args",
    "args.deep.er[0].est == 1",
    "size(args) == 4",
    "tool == 'tool' && skill == 'skill' && principal == 'principal' && risk == 'risk' && effect == 'effect'",
    "cwd.startsWith('/srv/') && channel == ''",
    "args.deep == {'er': [{'est': 1}]}",
    "int('3') + 1 == 4 && double(2) == 2.0 && string(1) == '1' && 0x10 == 16 && 1e3 == 1000.0",
    "args.path != '.map(x, x) // ' && args.path != \"it's\"",
    "args.missing == 1 || true",
    "args.list.all(x, x in [1, 2, 3])",
    "[args.path, cwd].exists(each, each.startsWith(cwd))",
]


@pytest.mark.parametrize("source", HOLDS)
def test_what_conditions_are_written_for_can_be_said(source: str) -> None:
    arguments = {"path": "/etc/passwd", "list": [1, 2, 3], "deep": {"er": [{"est": 1}]}, "n": None}
    assert said(source, **arguments) is True
    assert said(f"!({source})", **arguments) is False


REFUSED = {
    "args.list.map(x, x) == []": "map",
    "args.list . map\n(x, x) == []": "map",
    "args.list.filter(x, x > 1) == []": "filter",
    "args.list.map(x, x > 1, x) == []": "map",
    "map(args.list) == []": "map",
    "args.list.all(x, args.list.all(y, x == y))": "inside another",
    "args.list.exists(x, [1].existsOne(y, x == y))": "inside another",
    "args.list.all(x, (args.list.exists(y, true)))": "inside another",
    "argz.path == ''": "argz",
    "x == 1": "'x'",
    "args.list.all(x, true) && x": "'x'",
    ".args.path == ''": ".args",
    "request.path == ''": "request",
    "now() > 1": "now",
    "timestamp(args.when) < 1": "timestamp",
    "type(args.n) == int": "type",
    "dyn(1) == 1": "dyn",
    "args.path.lowerAscii() == ''": "lowerAscii",
    "args.path.matches(args.pattern)": "written out",
    "args.path.matches('a' + 'b')": "written out",
    "matches(args.path, 'a')": "matches",
    "args.path.matches('(')": "pattern",
    "args.path.matches('.{0,900}b')": "too complex",
    "args.path.matches('(a{1,50}){1,50}b')": "pattern",
    f"args.path.matches('{'a' * 201}')": "shorter",
    "args.list.all(args, true)": "meaning already",
    "args.list.all(1, true)": "takes a name",
    "args == Struct{a: 1}": "messages",
    "true // && false": "comments",
    "b'abc' == b'abc'": "quotes",
    "'''a.map(x, x)''' == ''": "quotes",
    '"""a""" == ""': "quotes",
    "args.`path` == ''": "cannot be read",
    "args.?path == ''": "column",
    "tool == 'é' && é": "cannot be read",
    "": "column",
    "   ": "column",
    "args.path ==": "column",
    "args.path == 'a": "cannot be read",
    "(" * 25 + "true" + ")" * 25: "inside one another",
    "true" + " || true" * 250: "2,000",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_has_no_bound_or_no_meaning_is_refused_when_it_is_loaded(source: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        condition(source)
    assert REFUSED[source] in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_the_engine_itself_would_take_what_is_refused_here() -> None:
    engine = _engine()
    context = engine.Context({"args": {"list": [1, 2]}})
    for source in ("args.list.map(x, x) == [1, 2]", "args.list.all(x, args.list.exists(y, x == y))"):
        assert engine.compile(source).execute(context) is True


FRAGMENTS = [
    "'",
    '"',
    "\\",
    "\\'",
    '\\"',
    "r'",
    'r"',
    "''",
    ".map(x, x)",
    ".filter(x, true)",
    "args.list",
    " == ",
    "a",
    "[",
    "]",
    "\n",
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_no_quoting_hides_a_comprehension_from_us(source: str) -> None:
    """`map` and `filter` expand to an addition; without a plus sign of its own an accepted condition has none."""
    try:
        found = condition(source)
    except ValueError:
        return
    assert "_+_" not in _engine().compile(source).functions(), found


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=20))
def test_a_text_means_what_is_written(text: str) -> None:
    written = text.replace("\\", "\\\\").replace("'", "\\'")
    if len(written) < 1_000:
        assert said(f"args.text == '{written}'", text=text) is True


UNDECIDED = [
    ("args.path.startsWith('/')", {}, "'path'"),
    ("args.deep.er == 1", {"deep": {}}, "'er'"),
    ("args[args.key] == 1", {"key": "hunter2"}, "not there"),
    ("args.list[3] == 1", {"list": [1]}, "shorter"),
    ("args.number + args.text == 1", {"number": 1, "text": "hunter2"}, "types"),
    ("args.number.startsWith('1')", {"number": 1}, ""),
    ("args.number / 0 == 1", {"number": 1}, "arithmetic"),
    ("int(args.text) == 1", {"text": "hunter2"}, ""),
    ("args.number.matches('1')", {"number": 1}, "other than true or false"),
    ("args.text", {"text": "hunter2"}, "other than true or false"),
    ("size(args.text)", {"text": "hunter2"}, "other than true or false"),
    ("args.none", {"none": None}, "other than true or false"),
    ("args.list.all(x, x)", {"list": [1]}, ""),
    ("args.number > 'a'", {"number": 1}, ""),
]


@pytest.mark.parametrize(("source", "arguments", "why"), UNDECIDED)
def test_an_error_or_another_value_is_no_answer_and_quotes_nothing(
    source: str, arguments: dict[str, Json], why: str
) -> None:
    answer = said(source, **arguments)
    assert isinstance(answer, str) and answer
    assert why in answer
    assert "hunter2" not in answer


def test_too_much_to_look_at_is_no_answer() -> None:
    assert said("args.list.all(x, x == 1)", list=[1] * 10_000) is True
    assert "too large" in str(said("args.list.all(x, x == 1)", list=[1] * (MAX_VALUES + 1)))
    assert "too large" in str(said("size(args.list) > 0", list=[[1] * 400] * 400))


def test_looking_again_for_every_item_is_bounded_by_the_square() -> None:
    source = "args.list.all(x, x in args.list)"
    assert said(source, list=[1] * 100) is True
    assert "too large" in str(said(source, list=[1] * 5_000))
    assert said("args.list.all(x, x in [1, 2])", list=[1] * 5_000) is True
    assert said("args.list.all(x, x.startsWith(cwd))", list=["/srv/notes/x"] * 5_000) is True


def test_every_sum_counts_for_as_much_again() -> None:
    text = "a" * 500_000
    assert said("args.text + args.text == ''", text=text) is False
    assert "too large" in str(said(" + ".join(["args.text"] * 20) + " == ''", text=text))


def test_a_pattern_counts_for_as_much_as_its_automaton() -> None:
    text = "a" * 500_000
    assert said("args.text.matches('b')", text=text) is False
    assert "too large" in str(said(r"args.text.matches('(ab|cd|efg){15}x')", text=text))


def test_many_conditions_together_are_bounded_too() -> None:
    text = {"text": "a" * 1_000_000}
    scan = condition("args.text.contains('b')")
    assert truths([scan] * 100, FACTS, text) == [False] * 100
    assert all("together" in str(each) for each in truths([scan] * 200, FACTS, text))


def test_only_what_a_condition_looks_at_counts() -> None:
    beside = {"content": [1] * (MAX_VALUES * 2)}
    for source in ("args.path == '/x'", "args['path'] == '/x'", "has(args.path)"):
        assert said(source, path="/x", **beside) is True
    for source in ("size(args) > 1", "args.exists(key, key == 'path')", "'path' in args"):
        assert "too large" in str(said(source, path="/x", **beside))


def test_conditions_that_are_asked_together_do_not_disturb_each_other() -> None:
    sources = {
        "args.path == '/x'": True,
        "args.list.all(x, x == 1)": "too large",
        "args.missing == 1": "missing",
        "args.path.matches('^/')": True,
        "tool == 'other'": False,
    }
    compiled: list[Condition] = [condition(source) for source in sources]
    answers = truths(compiled, FACTS, {"path": "/x", "list": [1] * (MAX_VALUES + 1)})
    for answer, expected in zip(answers, sources.values(), strict=True):
        assert answer is expected or (isinstance(expected, str) and expected in str(answer))


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
))  # fmt: skip
def test_whatever_the_arguments_are_a_condition_says_yes_no_or_why_not(value: Json) -> None:
    for source in (
        "args.value.startsWith('/')",
        "args.value > 3",
        "args.value.exists(x, x == 1)",
        "args.value",
    ):
        assert isinstance(said(source, value=value), bool | str)


SCRIPT = """
import sys
from metier.gate.rules import NO_RULES
from metier.gate import conditions, rule_file
assert not [name for name in sys.modules if name.split(".")[0] in ("cel", "re2")]
found = conditions.condition("tool == 'x'")
assert conditions.truths([found], {"tool": "x"}, {}) == [True]
heavy = [name for name in sys.modules if name.split(".")[0] in ("typer", "prompt_toolkit", "rich", "re2")]
assert not heavy, heavy
import cel
assert cel.evaluate("1 + 1") == 2 and "typer" in sys.modules
assert conditions.truths([found], {"tool": "y"}, {}) == [False]
"""


def test_the_engine_is_loaded_only_for_a_condition_and_without_its_command_line() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
