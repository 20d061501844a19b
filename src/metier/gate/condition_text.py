"""What a condition may say. It is read here before the engine sees it, because the engine itself sets no bounds.

Refused: `map` and `filter` (quadratic), a comprehension inside another, names and functions that are not listed below,
patterns that are not written out, comments, and everything long or deeply nested. What is left costs no more than its
words times the size of what it looks at; `conditions` holds that product down.
"""

import re
from typing import Final, final

from msgspec import Struct

MAX_LENGTH: Final = 2_000
MAX_DEPTH: Final = 24

VARIABLES: Final = ("args", "tool", "skill", "principal", "channel", "risk", "effect", "cwd")
FUNCTIONS: Final = frozenset({"has", "size", "int", "double", "string"})
METHODS: Final = frozenset({"size", "contains", "startsWith", "endsWith", "matches"})
REPEATING: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
OWN_MATCHES: Final = "re2_matches"
"""What `matches` is called when it is handed to the engine, whose own would compile the pattern at every call."""

_KEYWORDS: Final = frozenset({"true", "false", "null", "in"})
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>[rR]"[^"\n\r]*"|[rR]'[^'\n\r]*'|"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
    |(?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?[uU]?)
    |(?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
    |(?P<sign>==|!=|<=|>=|&&|\|\||//|[-+*/%!<>?:.,()\[\]{}])""",
    re.VERBOSE | re.ASCII,
)


@final
class Token(Struct, frozen=True):
    """One word of a condition."""

    kind: str
    text: str
    at: int


@final
class Read(Struct, frozen=True, kw_only=True):
    """A condition within the bounds, and what its cost depends on."""

    source: str
    """As the engine gets it."""
    tokens: int
    variables: frozenset[str]
    bound: frozenset[str]
    """Names that its comprehensions bring along."""
    fields: frozenset[str]
    """Every name that follows a dot."""
    arguments: frozenset[str] | None
    """The arguments it looks at; None when it may look at all of them."""
    each_time: frozenset[str]
    """Variables that a comprehension looks at anew for every item."""
    sums: int
    """How many plus signs there are: each can make a text or a list longer."""
    patterns: tuple[str, ...]
    """As written, with their quotes."""


def read(source: str) -> Read:
    """Read a condition.

    Raises:
        ValueError: when it goes beyond the bounds. The message says where and what to do.
    """
    if len(source) > MAX_LENGTH:
        raise ValueError(
            f"it has {len(source):,} characters, more than {MAX_LENGTH:,}; split the rule in two"
        )
    reader = _Reader(_tokens(source))
    reader.walk()
    return reader.result(source)


def _tokens(source: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            raise ValueError(f"column {at + 1}: {source[at]!r} cannot be read here")
        kind, text = str(found.lastgroup), found[0]
        if text == "//":
            raise ValueError(f"column {at + 1}: comments are not taken; say it in `because`")
        # `b'…'` and `'''…'''` would be read otherwise by the engine: two neighbours here, one word there.
        if kind == "text" and tokens and tokens[-1].kind in ("text", "name") and tokens[-1].text != "in":
            raise ValueError(
                f"column {at + 1}: a text must stand in single or double quotes, at most with an r before"
            )
        if kind != "space":
            tokens.append(Token(kind, text, at))
        at = found.end()
    return tokens


@final
class _Reader:
    """One walk over the words."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._depth = 0
        self._body: tuple[str, int] | None = (
            None  # the name a comprehension binds, and how deep its inside lies
        )
        self._variables: set[str] = set()
        self._bound: set[str] = set()
        self._fields: set[str] = set()
        self._arguments: set[str] = set()
        self._all_arguments = False
        self._each_time: set[str] = set()
        self._sums = 0
        self._patterns: list[Token] = []
        self._renamed: list[int] = []

    def walk(self) -> None:
        for index, token in enumerate(self._tokens):
            if token.kind == "sign":
                self._sign(token)
            elif token.kind == "name" and token.text not in _KEYWORDS:
                self._name(index, token)

    def result(self, source: str) -> Read:
        for at in reversed(self._renamed):
            source = source[:at] + OWN_MATCHES + source[at + len("matches") :]
        return Read(
            source=source,
            tokens=len(self._tokens),
            variables=frozenset(self._variables),
            bound=frozenset(self._bound),
            fields=frozenset(self._fields),
            arguments=None if self._all_arguments else frozenset(self._arguments),
            each_time=frozenset(self._each_time),
            sums=self._sums,
            patterns=tuple(token.text for token in self._patterns),
        )

    def _near(self, index: int) -> Token:
        return self._tokens[index] if 0 <= index < len(self._tokens) else Token("end", "", -1)

    def _sign(self, token: Token) -> None:
        if token.text in "([{":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise ValueError(f"column {token.at + 1}: more than {MAX_DEPTH} brackets inside one another")
        elif token.text in ")]}":
            self._depth -= 1
            if self._body is not None and self._depth < self._body[1]:
                self._body = None
        elif token.text == "+":
            self._sums += 1

    def _name(self, index: int, token: Token) -> None:
        after = self._near(index + 1).text
        of_something = self._near(index - 1).text == "."
        if after == "(":
            self._call(index, token, of_something=of_something)
        elif after == "{":
            raise ValueError(f"column {token.at + 1}: messages like {token.text}{{…}} are not taken")
        elif of_something:
            self._fields.add(token.text)
        else:
            self._variable(index, token)

    def _call(self, index: int, token: Token, *, of_something: bool) -> None:
        name, place = token.text, f"column {token.at + 1}"
        if name in ("map", "filter"):
            raise ValueError(
                f"{place}: {name!r} may take very long, so it is not taken; use `all` or `exists`"
            )
        if of_something and name in REPEATING:
            self._comprehension(index, token)
        elif of_something and name == "matches":
            pattern = self._near(index + 2)
            if pattern.kind != "text" or self._near(index + 3).text != ")":
                raise ValueError(f"{place}: the pattern of `matches` must be written out as one text")
            self._patterns.append(pattern)
            self._renamed.append(token.at)
        elif name not in (METHODS if of_something else FUNCTIONS):
            known = ", ".join(sorted(METHODS | REPEATING if of_something else FUNCTIONS))
            raise ValueError(f"{place}: there is no {name!r} here; there are {known}")

    def _comprehension(self, index: int, token: Token) -> None:
        place = f"column {token.at + 1}"
        if self._body is not None:
            raise ValueError(
                f"{place}: {token.text!r} inside another may take very long, so it is not taken; split the rule"
            )
        bound, comma = self._near(index + 2), self._near(index + 3)
        if bound.kind != "name" or comma.text != ",":
            raise ValueError(f"{place}: {token.text!r} takes a name and a condition, as in `all(x, x > 0)`")
        if bound.text in VARIABLES:
            raise ValueError(f"{place}: {bound.text!r} has a meaning already; take another name")
        self._bound.add(bound.text)
        self._body = (bound.text, self._depth + 1)

    def _variable(self, index: int, token: Token) -> None:
        if self._body is not None and token.text == self._body[0]:
            return
        if token.text not in VARIABLES:
            raise ValueError(
                f"column {token.at + 1}: there is no {token.text!r} here; there are {', '.join(VARIABLES)}"
            )
        self._variables.add(token.text)
        if self._body is not None:
            self._each_time.add(token.text)
        if token.text == "args":
            self._argument(index)

    def _argument(self, index: int) -> None:
        """Which argument is meant by `args` here: a plain `.name` or `["name"]` says it, anything else may mean all."""
        first, second, third = (self._near(index + step) for step in (1, 2, 3))
        if first.text == "." and second.kind == "name" and third.text != "(":
            self._arguments.add(second.text)
        elif first.text == "[" and second.kind == "text" and third.text == "]" and "\\" not in second.text:
            self._arguments.add(second.text.lstrip("rR")[1:-1])
        else:
            self._all_arguments = True
