"""Whatever bytes come in, nothing but diagnostics comes out.

`METIER_FUZZ_INPUTS` says how many inputs are tried; a refused one always carries an error.
"""

import os
import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier.dialects.compiled import Compiled
from metier.dialects.frontmatter import body, read
from metier.dialects.skill_md import compile_skill
from metier.model.text import hidden

INPUTS = int(os.environ.get("METIER_FUZZ_INPUTS", "10000"))
GENERATED = max(INPUTS // 20, 100)
"""Hypothesis looks closer and is slower; the seeded mutator makes the rest."""

# fmt: off
VALUES = [
    "x", "Does a thing: now", "**bold** text", "*alias", "&anchor x", "!tag x", "!!python/name:os.system", "'single'", '"double"',
    '"half', "'half", "[a, b]", "[a] [b]", "{a: b}", "{a", "]", "}", "|", ">", "|-\n  one\n  two", ">+2\n    x", "\n  - a\n  - b",
    "\n  a: b\n  c: {d: [e]}", "# comment", "a # comment", "1.10", "012", "1e999", ".nan", "-.inf", "~", "null", "true", "no",
    "2024-01-01", "0x1f", "99999999999999999999999", "\\ud83d\\udd0a", '"\\ud83d\\udd0a"', '"\\ud83d"', "\u2028", "\x85", "\x00",
    "\x1b[2J", "\u202e", "\ufeff", "\U000e0041", "\U0010ffff", "技能：用于", "\u3000", "", " ", "\t", "---", "--- x", "...", "<<", "?",
    '{"openclaw": {"emoji": "x", "requires": {"bins": ["jq"], "env": "A,B"}, "os": ["linux"], "always": true}}',
    '{"clawdbot": {"install": [{"kind": "brew", "formula": "a"}, {"kind": "apt"}, null, 5, [], {"kind": "download", "url": "http://[x"}]}}',
    "'{\"openclaw\": {\"a\": 1, \"a\": 2}}'", "{'openclaw': {'skillKey': '', },}", '{"amber": {"timeout_ms": 1e9}}', '{"moltbot": []}',
    "'{openclaw: {a: 1, a: 2,}}'", "'{openclaw: {a: \"//\", /* b: */ c: 1}}'", "[\n\ufeff&a x,\n\ufeff*a]", "&a [x]\nb: *a", "0123", "\n:",
    "\n  openclaw:\n    requires:\n      bins: [1, null, [a, {b: c}], '*', ../x]\n    primaryEnv: '*'\n    install: curl x | sh",
]
KEYS = [
    "name", "description", "metadata", "version", "license", "compatibility", "homepage", "allowed-tools", "tags", "triggers",
    "keywords", "activation", "user-invocable", "disable-model-invocation", "command-dispatch", "command-tool", "platforms", "1",
    "true", "~", '"quoted"', "'q'", "? complex", "- item", "key with blanks", "ключ", "a.b", "<<", "\u3000name", "description\u3000",
]
SIGNS = [*":#\"'-*&![]{},|>@`%\t \\?~\r\n\x00\x85\u2028\ufeff\u200b", ": ", " #", "\r\n", "\n---\n", "---", "\n  ", "\n\t"]
# fmt: on


def _block(dice: random.Random) -> str:
    """Something that looks like frontmatter, then spoiled."""
    keys = ["name", "description", *dice.choices(KEYS, k=dice.randrange(5))]
    text = "".join(f"{key}: {dice.choice(VALUES)}\n" for key in keys)
    for _ in range(dice.choice((0, 0, 1, 1, 2, 5))):
        at = dice.randrange(len(text) + 1)
        roll = dice.random()
        if roll < 0.6:
            text = text[:at] + dice.choice(SIGNS) + text[at:]
        elif roll < 0.8:
            text = text[:at] + text[at + dice.randrange(1, 8) :]
        else:
            text = text[:at] + dice.choice(VALUES) + text[at:]
    return text


def _mutant(dice: random.Random) -> bytes:
    data = f"---\n{_block(dice)}---\nbody\n".encode()
    if dice.random() < 0.1:
        at = dice.randrange(len(data))
        data = data[:at] + dice.randbytes(dice.randrange(1, 4)) + data[at:]
    if dice.random() < 0.1:
        data = data.replace(b"\n", dice.choice((b"\r\n", b"\r")))
    return b"\xef\xbb\xbf" + data if dice.random() < 0.05 else data


def _holds(data: bytes, compiled: Compiled) -> None:
    """What is promised for any input at all."""
    errors = [found for found in compiled.diagnostics if found.severity == "error"]
    assert (compiled.skill is None) == bool(errors)
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    for found in compiled.diagnostics:
        assert found.message and not hidden(found.message) and "\n" not in found.message
        assert found.line is None or 1 <= found.line <= lines
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(compiled), type=Compiled) == compiled


@pytest.mark.timeout(600)
def test_no_mutant_of_a_real_looking_file_gets_anything_but_diagnostics() -> None:
    dice = random.Random(20261115)  # noqa: S311
    ends = {True: 0, False: 0}
    for _ in range(INPUTS):
        data = _mutant(dice)
        compiled = compile_skill(data, folder="folder")
        _holds(data, compiled)
        ends[compiled.skill is not None] += 1
        assert isinstance(body(data), str)
    assert min(ends.values()) > INPUTS // 20, "both ends must be met, or the mutator tests nothing"


@pytest.mark.timeout(600)
@settings(max_examples=GENERATED, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    st.binary(max_size=300)
    | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.text(max_size=200).map(lambda text: f"---\n{text}\n---\n".encode("utf-8", "replace"))
    | st.dictionaries(st.text(max_size=12), st.text(max_size=30), max_size=6).map(
        lambda fields: ("---\n" + "".join(f"{k}: {v}\n" for k, v in fields.items()) + "---\n").encode(
            "utf-8", "replace"
        )
    ),
    st.text(max_size=12),
)
def test_no_bytes_at_all_get_anything_but_diagnostics(data: bytes, folder: str) -> None:
    _holds(data, compile_skill(data, folder=folder))
    assert read(data) == read(data)


@pytest.mark.timeout(600)
@settings(max_examples=GENERATED // 2, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.integers(min_value=0))
def test_line_ends_and_byte_order_marks_never_change_a_skill(seed: int) -> None:
    block = _block(random.Random(seed)).replace("\r", "")  # noqa: S311
    data = f"---\n{block}---\nbody\n".encode()
    plain = compile_skill(data, folder="folder")
    assert compile_skill(data.replace(b"\n", b"\r\n"), folder="folder") == plain
    assert compile_skill(b"\xef\xbb\xbf" + data, folder="folder") == plain
    assert compile_skill(data, folder="folder") == plain
