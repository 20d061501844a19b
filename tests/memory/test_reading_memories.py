"""What a file in the memory folder says, and when it is private."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metier.memory.memory import Memory, read
from metier.memory.passages import LONGEST, MOST, passages
from metier.model.diagnostic import Diagnostic


def of(fields: object, path: str = "episodic/2026/evt-1.json") -> Memory | Diagnostic:
    return read(json.dumps(fields).encode(), path)


def memory(fields: object) -> Memory:
    found = of(fields)
    assert isinstance(found, Memory), found
    return found


def test_an_episodic_event_is_read_and_unknown_fields_are_tolerated() -> None:
    found = memory(
        {
            "id": "evt-20251020",
            "timestamp": "2025-10-20T08:00:00Z",
            "content": "Walked to the lake.",
            "type": "observation",
            "tags": ["walk", "lake"],
            "entities": ["Ammersee", {"name": "Bruno", "kind": "dog"}],
            "importance": 0.4,
            "links": [{"type": "before"}],
        }
    )
    assert found.id == "evt-20251020" and found.timestamp == "2025-10-20T08:00:00Z"
    assert found.text == "Walked to the lake." and found.tags == ("walk", "lake")
    assert found.entities == ("Ammersee", "Bruno") and not found.private


def test_markdown_is_read_with_and_without_frontmatter() -> None:
    bare = read(b"# A day\n\nRain.", "diary/monday.md")
    assert isinstance(bare, Memory) and (bare.id, bare.title, bare.private) == ("monday", "A day", False)
    full = read(b"---\nid: x1\ntitle: Rain\ntags: [wet]\nprivate: true\n---\nIt rained.\n", "a.md")
    assert isinstance(full, Memory)
    assert (full.id, full.title, full.tags, full.text, full.private) == (
        "x1",
        "Rain",
        ("wet",),
        "It rained.",
        True,
    )


@pytest.mark.parametrize(
    "said",
    [
        {"private": True},
        {"metadata": {"private": True}},
        {"privacy": "private"},
        {"metadata": {"privacy": "private"}},
        {"Private": True},
        {"private": "yes"},
        {"private": 1},
        {"private": {"from": "everybody"}},
        {"privacy": "confidential"},
        {"is_private": True},
        {"metadata": {"metahuman": {"private": True}}},
        {"metadata": [{"private": True}]},
        {"context": {"private": True}},
        {"public": False},
        {"public": "no"},
        {"\u200bprivate": True},
        {"ｐｒｉｖａｔｅ": True},
    ],
)
def test_whatever_is_not_plainly_a_no_makes_a_memory_private(said: dict[str, object]) -> None:
    assert memory({"content": "x", **said}).private


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"private": False},
        {"private": None},
        {"private": ""},
        {"private": "false"},
        {"privacy": "public"},
        {"public": True},
        {"tags": ["private"]},
        {"metadata": {"private": "no", "kind": ["private"]}},
    ],
)
def test_a_plain_no_does_not(said: dict[str, object]) -> None:
    assert not memory({"content": "x", **said}).private


@pytest.mark.parametrize(
    ("data", "path", "code"),
    [
        (b'{"content": "x", "private": true, "private": false}', "a.json", "bad_json"),
        (b'{"content": "x"', "a.json", "bad_json"),
        (b'["x"]', "a.json", "not_an_object"),
        (b'{"content": "  "}', "a.json", "no_text"),
        (b"---\nprivate: true\nno end", "a.md", "unterminated"),
        (b"\xff\xfe", "a.md", "not_utf8"),
    ],
)
def test_what_may_have_called_itself_private_and_cannot_be_read_is_no_memory(
    data: bytes, path: str, code: str
) -> None:
    found = read(data, path)
    assert isinstance(found, Diagnostic) and found.code == code


@pytest.mark.parametrize(
    "text",
    [
        " ---\nprivate: true\n---\nsecret",
        "+++\nprivate = true\n+++\nsecret",
        "----\nprivate: true\n----\nsecret",
        "<!-- from my notes -->\n---\nprivate: true\n---\nsecret",
        '{"private": true, "content": "secret"}',
        "```yaml\nvisibility: private\n```\nsecret",
        "```yaml\npublic: 'false' # not yet\n```\nsecret",
        "+++\nprivate =\n  true\n+++\nsecret",
        "{'title': 1, 'public': no}\nsecret",
        "---\ntitle: a\n---\n---\nprivate: true\n---\nsecret",
        "---\nmetadata: '{\"private\": true}'\n---\nsecret",
        '---\n```\nprivate : true\ndescription: foo # bar: "\n---\nsecret',
        "---\n%T\n'private': yes\ndescription: foo # bar: \"\n---\nsecret",
        "---\ntitle: \"x\nprivate: 'true'\n  line\"\n---\nsecret",
        '---\nprivate: false\ntitle: "x\nprivate: true\n  line"\n---\nsecret',
    ],
)
def test_what_says_private_where_no_field_is_read_is_no_memory(text: str) -> None:
    found = read(text.encode(), "a.md")
    assert isinstance(found, Diagnostic) and found.code == "unclear_head"


@pytest.mark.parametrize(
    "text",
    [
        "The visibility: ten miles. Private: nothing.",
        "---\ntitle: Meeting: with Bob\n---\nWe spoke.",
        "---\n# private: true\ntitle: a\n---\nA field that was commented out says nothing.",
        "---\nprivate: false\n---\nWe spoke.",
        "```python\nprint(1)\n```\nA program.",
        "```cpp\nclass A {\npublic:\n  A();\nprivate:\n  int x;\n};\n```\nHow we write classes.",
        "---\ntitle: x\n---\n```java\npublic = 1\n```",
        "<!-- TOC -->\nNotes on the API\n\n- public: read by all\n- private: none",
        "```yaml\nservices:\n  web:\n    public: true\n```\nThe file we use",
        "<!-- draft -->\nA note about the public library.",
        "# Notes\n\nprivate: this is a sentence of the text, and no head.",
    ],
)
def test_what_only_speaks_of_it_is_a_memory_like_any_other(text: str) -> None:
    found = read(text.encode(), "a.md")
    assert isinstance(found, Memory) and not found.private


_ODD_LINES = st.sampled_from(
    [
        'title: "x', "title: 'y", "title: |", "title: a: b", "tags: [a, b", "tags: {a: b", "# comment", "  indented",
        "- item", "key", "? complex", ": v", "```", "%T", "a: @b", "a: `c`", "...", "--- x", '  line"', "x: [", "}", "{",
        'description: foo # bar: "', "'quoted key': 1", "a:\tb", "&x a: b", "!tag z: 1",
    ]
)  # fmt: skip
_PRIVATE_LINE = st.sampled_from(
    [
        "private: true",
        "private : true",
        '"private": true',
        "'private': yes",
        "Private: TRUE",
        "privacy: private",
    ]
)


@settings(deadline=None, max_examples=500)
@given(st.lists(_ODD_LINES, max_size=4), _PRIVATE_LINE, st.lists(_ODD_LINES, max_size=4))
def test_whatever_stands_around_it_a_line_that_says_private_is_heard(
    before: list[str], line: str, after: list[str]
) -> None:
    found = read("\n".join(["---", *before, line, *after, "---", "secret text"]).encode(), "a.md")
    assert isinstance(found, Diagnostic) or found.private


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["a.json", "a.md"]))
def test_no_bytes_make_the_reader_raise(data: bytes, path: str) -> None:
    assert isinstance(read(data, path), Memory | Diagnostic)


@settings(deadline=None)
@given(st.text(alphabet="ab \n", max_size=8_000))
def test_passages_are_short_few_and_lose_no_word(text: str) -> None:
    found = passages(text)
    assert all(0 < len(each) <= LONGEST for each in found) and len(found) <= MOST
    if len(found) < MOST:
        assert "".join("".join(found).split()) == "".join(text.split())
