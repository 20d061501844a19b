"""Code and HTTP actions of a friday skill, and the `{{name}}` places in them."""

import json
from typing import Any

import pytest

from metier.dialects.compiled import Compiled
from metier.dialects.friday import compile_skill
from metier.model.entry import HttpRequest, InlineCode
from metier.model.permission import BASE_DIR, OWN_FOLDER
from metier.model.skill import Skill, Tool
from metier.sandbox.grants import read_grants
from metier.sandbox.http_template import fill
from metier.sandbox.url import Url, read_url

CODE = {"id": "do", "type": "code", "language": "python", "code": "result = 1"}
HTTP = {"id": "do", "type": "http", "method": "POST", "url": "https://api.example.com/v1"}
TEXT = {"type": "string"}
PARAMETERS = {
    "type": "object",
    "properties": {
        "x": TEXT,
        "n": {"type": "integer"},
        "o": {"type": "object"},
        "l": {"type": ["array", "null"]},
    },
    "required": ["x", "n", "o", "l"],
}


def compiled(*actions: Any, **more: Any) -> Compiled:
    fields = {
        "id": "desk",
        "description": "d",
        "actions": list(actions),
        "tools": [{"name": "do", "description": "Does.", "parameters": PARAMETERS}],
        **more,
    }
    return compile_skill(
        json.dumps(fields).encode(), folder="desk", manifest="skill.json", location="", source="user"
    )


def skill_of(*actions: Any, **more: Any) -> Skill:
    found = compiled(*actions, **more)
    assert found.skill is not None, [note.message for note in found.diagnostics]
    return found.skill


def tool_of(action: dict[str, Any]) -> Tool:
    (tool,) = skill_of(action).tools
    return tool


def request_of(**more: Any) -> HttpRequest:
    entry = tool_of({**HTTP, **more}).entry
    assert isinstance(entry, HttpRequest)
    return entry


def codes(found: Compiled, severity: str = "error") -> list[str]:
    return [note.code for note in found.diagnostics if note.severity == severity]


def refused(action: dict[str, Any]) -> str:
    """Why it is refused, all reasons together."""
    found = compiled(action)
    assert found.skill is None
    return "\n".join(f"{note.code}: {note.message}" for note in found.diagnostics if note.severity == "error")


# Any kind


@pytest.mark.parametrize(
    "flat",
    [
        CODE,
        {**CODE, "language": "javascript", "timeoutMs": 5, "memoryLimitMb": 64},
        {**HTTP, "headers": {"A": "b"}, "body": "x", "retryCount": 1, "timeoutMs": 9},
        {"id": "do", "type": "shell", "command": "ls -l", "cwd": "a", "allowedPaths": ["a"], "timeoutMs": 7},
    ],
)
def test_an_action_means_the_same_written_flat_or_with_its_kind_as_a_map(flat: dict[str, Any]) -> None:
    kind = flat["type"]
    inner = {key: value for key, value in flat.items() if key not in ("id", "type")}
    assert tool_of({"id": "do", "type": kind, kind: inner}) == tool_of(flat)


def test_of_two_times_the_shorter_counts() -> None:
    inner = {"language": "python", "code": "x"}
    for outer, within in ((1000, 2000), (2000, 1000)):
        action = {"id": "do", "type": "code", "code": {**inner, "timeoutMs": within}, "timeoutMs": outer}
        assert tool_of(action).limits.timeout == 1.0


@pytest.mark.parametrize("action", [CODE, HTTP, {"id": "do", "type": "shell", "command": "ls"}])
def test_without_a_word_it_has_thirty_seconds_and_256_megabytes(action: dict[str, Any]) -> None:
    limits = tool_of(action).limits
    assert (limits.timeout, limits.memory_mb) == (30.0, 256)


def test_five_minutes_are_the_most() -> None:
    assert tool_of({**CODE, "timeoutMs": 300_000}).limits.timeout == 300.0
    assert "timeoutMs" in refused({**CODE, "timeoutMs": 300_001})


@pytest.mark.parametrize(
    "more",
    [
        {"type": "lua"},
        {"type": None},
        {"type": ["code"]},
        {"id": "a b"},
        {"id": "x" * 65},
        {"id": "a/b"},
        {"id": "é"},
        {"id": 5},
        {"language": "typescript"},
        {"language": None},
        {"language": "Python"},
        {"code": ""},
        {"code": "  "},
        {"code": 5},
        {"code": "x" * 10_001},
        {"code": {}},
        {"timeoutMs": 0},
        {"timeoutMs": -1},
        {"timeoutMs": "30000"},
        {"timeoutMs": True},
        {"memoryLimitMb": 0},
        {"memoryLimitMb": 1.5},
        {"memoryLimitMb": "256"},
        {"memoryLimitMb": 10**9},
        {"requireApproval": "no"},
        {"enabled": "no"},
        {"description": 5},
        {"http": {"url": "https://a.example"}},
        {"shell": "ls"},
    ],
)
def test_a_bad_action_refuses_the_skill_and_says_which(more: dict[str, Any]) -> None:
    assert tool_of(CODE).entry == InlineCode(language="python", source="result = 1")
    assert "action" in refused({**CODE, **more})


def test_code_of_ten_thousand_characters_is_taken() -> None:
    assert tool_of({**CODE, "code": "x" * 10_000})


@pytest.mark.parametrize("language", ["javascript", "python"])
def test_code_acts_with_high_risk_and_sees_nothing_but_its_own_folder(language: str) -> None:
    tool = tool_of({**CODE, "language": language, "code": "`{{x}}` is no place here"})
    assert (tool.effect, tool.risk, tool.minimum_trust) == ("act", "high", "supervised_auto")
    assert tool.permissions == OWN_FOLDER


def test_an_action_without_an_id_gets_one_and_two_never_share_one() -> None:
    bare = {key: value for key, value in CODE.items() if key != "id"}
    found = compiled({**CODE, "id": "first"}, bare)
    assert found.skill is not None
    assert [tool.name for tool in found.skill.tools] == ["desk/first", "desk/code-2"]
    assert "action_unnamed" in codes(found, "info")
    for other in ({**CODE}, {**CODE, "id": "DO"}):
        assert codes(compiled(CODE, other)) == ["bad_action"]
    assert codes(compiled({**CODE, "id": "code-2"}, bare)) == ["bad_action"]


def test_an_action_that_is_switched_off_is_not_offered_and_said() -> None:
    found = compiled({**CODE, "enabled": False})
    assert found.skill is not None
    assert found.skill.tools == ()
    assert "action_disabled" in codes(found, "info")


def test_what_an_action_says_beyond_that_is_kept_by_its_id() -> None:
    found = compiled({"id": "do", "name": "Do", "type": "http", "http": {**HTTP, "colour": 1}, "size": 2})
    assert found.skill is not None
    kept = found.skill.extra["actions"]
    assert isinstance(kept, dict)
    assert kept["do"] == {"name": "Do", "size": 2, "http.id": "do", "http.type": "http", "http.colour": 1}
    assert "unknown_field" in codes(found, "info")


# HTTP


@pytest.mark.parametrize(
    ("method", "effect", "risk", "trust"),
    [
        ("GET", "read", "low", "observe"),
        ("POST", "act", "high", "supervised_auto"),
        ("PUT", "act", "high", "supervised_auto"),
        ("DELETE", "act", "high", "supervised_auto"),
        ("PATCH", "act", "high", "supervised_auto"),
    ],
)
def test_asking_is_reading_and_every_other_method_acts(
    method: str, effect: str, risk: str, trust: str
) -> None:
    tool = tool_of({**HTTP, "method": method})
    assert (tool.effect, tool.risk, tool.minimum_trust) == (effect, risk, trust)
    assert isinstance(tool.entry, HttpRequest)
    assert tool.entry.method == method


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "get me", "", None, 5, "{{x}}"])
def test_no_other_method_is_known(method: Any) -> None:
    assert "method" in refused({**HTTP, "method": method})


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.example.com", "api.example.com"),
        ("https://API.Example.com./x?y#", "api.example.com"),
        ("https://api.example.com:443/", "api.example.com"),
        ("https://api.example.com:8443/", "api.example.com:8443"),
        ("http://api.example.com/", "http://api.example.com"),
        ("http://api.example.com:8080/{{x}}", "http://api.example.com:8080"),
        ("https://8.8.8.8/", "8.8.8.8"),
        ("https://[2606:4700:4700::1111]/", "[2606:4700:4700::1111]"),
        ("https://api.example.com?q={{ x }}", "api.example.com"),
    ],
)
def test_the_host_of_the_url_is_all_it_may_reach(url: str, host: str) -> None:
    tool = tool_of({**HTTP, "url": url})
    assert tool.permissions.plain() == {"reads": [BASE_DIR], "hosts": [host]}
    assert isinstance(tool.entry, HttpRequest)
    sent = read_url(fill(tool.entry, {"x": "a/b"}).url)
    assert isinstance(sent, Url)
    assert read_grants(tool.permissions.hosts).allow(sent), "the way out reads the grant as it is meant"


@pytest.mark.parametrize(
    "url",
    [
        "",
        None,
        5,
        "api.example.com",
        "//api.example.com/",
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://",
        "https:///path",
        "{{x}}",
        "{{x}}://api.example.com/",
        "https://{{x}}/",
        "https://{{x}}.example.com/",
        "https://api.example.com{{x}}/",
        "https://api.example.com:{{n}}/",
        "https://{{x}}@api.example.com/",
        "https://me:secret@api.example.com/",
        "https://api.example.com\\@evil.example/",
        "https://api.example.com:0/",
        "https://api.example.com:65536/",
        "https://api.example.com:08080/",
        "https://api.example.com:/",
        "https://api..example.com/",
        "https://-api.example.com/",
        "https://bücher.example/",
        "https://api.example.com/a b",
        "https://api.example.com/a\nb",
        "https://api.example.com/%zz",
        "https://api.example.com/%00",
        "https://api.example.com/{{x",
        "https://api.example.com/x}}",
        "https://localhost/",
        "https://a.localhost/",
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[fe80::1%25eth0]/",
        "https://0x7f.1/",
        "https://2130706433/",
        "https://127.1/",
        "https://api.example.com/" + "x" * 2_000,
    ],
)
def test_a_url_that_is_not_fixed_and_plain_up_to_its_path_is_refused(url: Any) -> None:
    assert refused({**HTTP, "url": url})


@pytest.mark.parametrize(
    "url", ["{{x}}://a.example/", "https://{{x}}/", "https://{{x}}.example/", "https://a.example:{{n}}/"]
)
def test_no_argument_chooses_scheme_host_or_port_and_the_author_is_told(url: str) -> None:
    assert "no argument may choose scheme, host or port" in refused({**HTTP, "url": url})


def test_a_url_of_two_thousand_characters_is_taken_and_a_fragment_is_said() -> None:
    url = "https://api.example.com/"
    assert request_of(url=url + "x" * (2_000 - len(url)))
    assert codes(compiled({**HTTP, "url": f"{url}#top"}), "warning") == ["url_fragment"]


@pytest.mark.parametrize(
    ("value", "kept", "secrets"),
    [
        ("Bearer $API_TOKEN", "Bearer {{secret:API_TOKEN}}", ["API_TOKEN"]),
        ("Bearer ${API_TOKEN}", "Bearer {{secret:API_TOKEN}}", ["API_TOKEN"]),
        ("{{ secret:KEY }}", "{{secret:KEY}}", ["KEY"]),
        ("$key", "{{secret:key}}", ["key"]),
        ("{{x}} {{secret:KEY}}", "{{x}} {{secret:KEY}}", ["KEY"]),
        ("costs $5", "costs $5", []),
        ("{{ x }}", "{{x}}", []),
        (" plain ", "plain", []),
    ],
)
def test_secrets_in_headers_are_names(value: str, kept: str, secrets: list[str]) -> None:
    tool = tool_of({**HTTP, "headers": {"X-Thing": value}})
    assert isinstance(tool.entry, HttpRequest)
    assert tool.entry.headers == {"X-Thing": kept}
    assert sorted(tool.permissions.secrets) == secrets


@pytest.mark.parametrize(
    "headers",
    [
        [],
        "A: b",
        {"A": 5},
        {"A B": "x"},
        {"": "x"},
        {"{{x}}": "x"},
        {"A:": "x"},
        {"A": "x", "a": "y"},
        {"A": "x\r\nB: y"},
        {"A": "é"},
        {"A": "x" * 4_097},
        {"A": "$KEY and more"},
        {"A": "$ONE$TWO"},
        {"A": "{{secret:}}"},
        {"A": "{{secret:a/b}}"},
        {"A": "{{o}}"},
        {"A": "{{unknown}}"},
        {"A": "{{x"},
        {f"A{at}": "x" for at in range(51)},
        {"Host": "a.example"},
        {"content-length": "5"},
        {"Proxy-Authorization": "$KEY"},
        {"X-HTTP-Method-Override": "DELETE"},
        {"Cookie": "a=b"},
    ],
)
def test_bad_headers_are_refused(headers: Any) -> None:
    assert refused({**HTTP, "headers": headers})


def test_a_secret_is_never_meant_to_go_over_plain_http() -> None:
    told = {"headers": {"Cookie": "$KEY"}}
    assert "write https://" in refused({**HTTP, **told, "url": "http://api.example.com/x"})
    assert tool_of({**HTTP, **told}).permissions.secrets == {"KEY"}


@pytest.mark.parametrize(
    "more",
    [
        {"headers": {"Authorization": "Bearer 0123456789abcdef"}},
        {"headers": {"X-Api-Key": "abcdef123"}},
        {"headers": {"X-Note": "ghp_" + "a" * 36}},
        {"url": "https://api.example.com/?api_key=0123456789abcdef"},
        {"body": '{"password": "correct-horse"}'},
        {"body": "sk-" + "a1" * 16},
    ],
)
def test_a_credential_in_plain_sight_is_warned_of_and_never_repeated(more: dict[str, Any]) -> None:
    found = compiled({**HTTP, **more})
    assert codes(found, "warning") == ["credential_written"]
    said = " ".join(note.message for note in found.diagnostics)
    assert not any(secret in said for secret in ("0123456789abcdef", "abcdef123", "aaaa", "horse", "a1a1"))
    safe = {
        "headers": {"Authorization": "Bearer $TOKEN", "Accept": "application/json"},
        "body": '{"a": "{{x}}"}',
    }
    assert codes(compiled({**HTTP, **safe}), "warning") == []


def test_a_credential_in_code_is_warned_of() -> None:
    found = compiled({**CODE, "code": "key = 'AKIA" + "A1B2" * 4 + "'"})
    assert codes(found, "warning") == ["credential_written"]


def test_a_variable_in_url_or_body_is_not_filled_and_that_is_said() -> None:
    for more in ({"url": "https://api.example.com/?k=$API_KEY"}, {"body": "k=$API_KEY"}):
        assert codes(compiled({**HTTP, **more}), "warning") == ["secret_not_filled"]
    assert codes(compiled({**HTTP, "url": "https://api.example.com/?$filter=a"}), "warning") == []


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (None, None),
        ("", None),
        (
            '{"a": "{{x}}", "b": ["{{n}} of", {"c": "{{o}}"}]}',
            {"a": "{{x}}", "b": ["{{n}} of", {"c": "{{o}}"}]},
        ),
        ({"a": "{{x}}"}, {"a": "{{x}}"}),
        ("plain text", "plain text"),
        ("5", "5"),
        ("{{ o }}", "{{o}}"),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
    ],
)
def test_a_body_is_json_where_it_is_an_object_or_list_and_text_elsewhere(body: Any, kept: Any) -> None:
    assert request_of(body=body).body == kept


def test_what_is_filled_in_stays_inside_its_string() -> None:
    entry = request_of(url="https://api.example.com/a/{{x}}?q={{x}}", body='{"a": "{{x}}", "n": "{{n}}"}')
    filled = fill(entry, {"x": '"}/&#', "n": 5})
    assert filled.url == "https://api.example.com/a/%22%7D%2F%26%23?q=%22%7D%2F%26%23"
    assert json.loads(filled.body) == {"a": '"}/&#', "n": 5}


def test_a_form_may_have_places_in_its_text() -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert request_of(headers=headers, body="a={{x}}&b={{ n }}").body == "a={{x}}&b={{n}}"
    assert "place_refused" in refused({**HTTP, "body": "a={{x}}&b={{ n }}"})


@pytest.mark.parametrize(
    "body",
    [
        '{"a": {{n}}}',
        "text with {{x}}",
        '{"{{x}}": 1}',
        '{"a": "{{unknown}}"}',
        '{"a": "about {{o}}"}',
        '{"a": "{{secret:KEY}}"}',
        '{"a": "{{x"}',
        "{{unknown}}",
        5,
        True,
        "x" * 50_001,
        {"a": "x" * 50_000},
    ],
)
def test_a_body_that_could_not_be_filled_as_json_is_refused(body: Any) -> None:
    assert refused({**HTTP, "body": body})


def test_a_body_of_fifty_thousand_characters_is_taken() -> None:
    assert request_of(body="x" * 50_000)


@pytest.mark.parametrize("count", [0, 1, 3, 2.0])
def test_retries_are_taken_up_to_three(count: float) -> None:
    assert request_of(retryCount=count).retries == count


@pytest.mark.parametrize("count", [-1, 4, 1.5, "1", True, [1]])
def test_other_retries_are_refused(count: Any) -> None:
    assert "retryCount" in refused({**HTTP, "retryCount": count})


# Places


def test_a_place_that_no_schema_names_is_refused_and_says_so() -> None:
    url = "https://api.example.com/{{city}}"
    said = refused({**HTTP, "url": url})
    assert "'city'" in said
    assert "no schema names it" in said
    assert "no schema names it" in refused({**HTTP, "id": "other", "url": url}), (
        "nor when no tool describes it"
    )
    assert request_of(url="https://api.example.com/{{x}}")


@pytest.mark.parametrize("name", ["o", "l"])
def test_only_what_can_be_written_as_text_stands_in_a_text(name: str) -> None:
    assert "type must be" in refused({**HTTP, "url": f"https://api.example.com/{{{{{name}}}}}"})
    assert request_of(body={"a": f"{{{{{name}}}}}"})


def test_a_place_whose_argument_may_be_left_out_is_warned_of() -> None:
    action = {**HTTP, "url": "https://api.example.com/{{x}}"}
    tool = {"name": "do", "parameters": {"type": "object", "properties": {"x": TEXT}}}
    assert codes(compiled(action, tools=[tool]), "warning") == ["place_optional"]
    assert codes(compiled(action), "warning") == []
