"""The backend for entries that are one HTTP request."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from loopback import PUBLIC, Authority, Listener, World, reply
from metier.model.digest import Json
from metier.model.entry import Command, HttpRequest
from metier.model.guarantee import needed
from metier.model.job import Job, Report
from metier.model.permission import PermissionSet
from metier.model.skill import Limits
from metier.sandbox.egress import Egress
from metier.sandbox.http import HttpSandbox
from metier.sandbox.http_template import Unfilled, fill
from metier.sandbox.secret import MASK, SecretRef

Listen = Callable[..., Listener]
SECRET = "s3cr3t/+value-9f27"
GRANTED = ("http://a.example",)


def job(
    entry: Any, *, hosts: tuple[str, ...], secrets: tuple[str, ...], limits: Limits, **arguments: Json
) -> Job:
    permissions = PermissionSet(hosts=frozenset(hosts), secrets=frozenset(secrets))
    needs = needed(entry, network=True)
    return Job(
        call_id="call_1",
        entry=entry,
        arguments=arguments,
        permissions=permissions,
        limits=limits,
        needs=needs,
    )


def run(
    world: World,
    entry: Any,
    *,
    hosts: tuple[str, ...] = GRANTED,
    secrets: tuple[str, ...] = (),
    limits: Limits | None = None,
    roots: str = "",
    **arguments: Json,
) -> Report:
    def make(**given: Any) -> Egress:
        return Egress(**given, resolver=world.resolve, connect=world.connect, extra_roots=roots)

    sandbox = HttpSandbox({"token": SECRET}.get, make)
    made = job(entry, hosts=hosts, secrets=secrets, limits=limits or Limits(timeout=5.0), **arguments)
    return anyio.run(sandbox.run, made)


def get(url: str = "http://a.example/", **more: Any) -> HttpRequest:
    return HttpRequest(method="GET", url=url, **more)


def fault(report: Report) -> str:
    assert report.fault is not None
    return report.fault.name


# What comes back


def test_it_takes_requests_and_states_what_they_need() -> None:
    sandbox = HttpSandbox({}.get)
    entry = get()
    limits = Limits()
    assert sandbox.takes(job(entry, hosts=(), secrets=(), limits=limits))
    assert not sandbox.takes(job(Command(argv=("ls",)), hosts=(), secrets=(), limits=limits))
    assert sandbox.guarantees() >= needed(entry, network=True)
    assert (sandbox.name, sandbox.missing()) == ("http", ())


def test_an_answer_is_returned_with_its_body_as_what_it_is(world: World, listen: Listen) -> None:
    bodies = [
        (b'{"a": [1, null]}', "application/json; charset=utf-8", {"a": [1, None]}),
        (b"[1]", "application/vnd.api+json", [1]),
        (b'{"a": 1}', "text/plain", '{"a": 1}'),
        (b'{"a": 1, "a": 2}', "application/json", '{"a": 1, "a": 2}'),
        ("grüße".encode(), "text/plain", "grüße"),
        (b"\xff\x00", "image/png", {"base64": "/wA="}),
        (b"", "text/plain", ""),
    ]
    for body, kind, value in bodies:
        world.put("a.example", listen(reply("201 Created", body, Content_Type=kind)))
        report = run(world, get())
        assert report.ending == "returned"
        assert isinstance(report.value, dict)
        assert (report.value["status"], report.value["body"]) == (201, value)
        assert report.value["headers"]["content-type"] == kind
        assert report.usage.output_bytes == len(body)
        assert 0 < report.usage.seconds < 5


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops"])
def test_a_status_from_400_on_is_raised_with_code_and_detail(
    world: World, listen: Listen, status: str
) -> None:
    world.put("a.example", listen(reply(status, b"no such city" + b"!" * 10_000)))
    report = run(world, get("http://a.example/x"))
    assert (report.ending, fault(report)) == ("raised", f"Http{status[:3]}")
    assert report.fault is not None
    assert report.fault.message.startswith(f"http://a.example/x answered {status[:3]}: no such city")
    assert len(report.fault.message) < 3_000
    assert (report.denials, report.violations) == ((), ())


def test_output_beyond_the_limit_is_cut_and_said(world: World, listen: Listen) -> None:
    world.put("a.example", listen(reply(body=b"x" * 5_000)))
    report = run(world, get(), limits=Limits(timeout=5.0, output_bytes=1_000))
    assert (report.ending, report.truncated) == ("returned", True)
    assert isinstance(report.value, dict)
    assert report.value["body"] == "x" * 1_000


def test_a_place_that_is_not_granted_is_a_denial(world: World, listen: Listen) -> None:
    listener = listen()
    world.put("a.example", listener)
    for hosts in ((), ("b.example",)):
        report = run(world, get(), hosts=hosts)
        assert (report.ending, fault(report)) == ("raised", "PermissionDenied")
        assert [each.kind for each in report.denials] == ["egress"]
        assert report.violations == ()
    assert listener.connections == 0


def test_a_private_place_the_entry_names_is_a_violation(world: World) -> None:
    report = run(world, get("http://169.254.169.254/latest/meta-data"))
    assert report.ending == "stopped"
    assert [each.kind for each in report.violations] == ["egress"]
    assert world.dialled == []


def test_a_private_place_somebody_else_names_is_a_denial(world: World, listen: Listen) -> None:
    world.put("a.example", listen(reply("302 Found", b"", Location="http://10.0.0.1/")))
    world.names["trap.example"] = [["10.0.0.1"]]
    for url in ("http://a.example/", "http://trap.example/"):
        report = run(world, get(url), hosts=(*GRANTED, "http://trap.example"))
        assert (report.ending, len(report.denials), report.violations) == ("raised", 1, ())
    assert {address for address, _ in world.dialled} == {PUBLIC}


def test_a_slow_server_ends_with_the_limit(world: World, listen: Listen) -> None:
    def slowly(_asked: Any) -> Iterator[bytes]:
        import time

        yield b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
        for _ in range(200):
            time.sleep(0.02)
            yield b"x"

    world.put("a.example", listen(slowly))
    report = run(world, get(), limits=Limits(timeout=0.3))
    assert report.ending == "timed_out"
    assert 0.2 < report.usage.seconds < 1.3


def test_a_server_nobody_reaches_is_a_failure_of_the_call(world: World) -> None:
    world.names["a.example"] = [[PUBLIC]]
    report = run(world, get())
    assert (report.ending, fault(report)) == ("raised", "HttpFailed")


def test_a_grant_that_cannot_be_read_starts_nothing(world: World) -> None:
    report = run(world, get(), hosts=("a example",))
    assert (report.ending, fault(report)) == ("not_started", "NotStarted")


def test_res_02_a_time_beyond_the_most_is_clamped_and_not_an_error(world: World, listen: Listen) -> None:
    world.put("a.example", listen())
    for timeout in (3_600.0, 1e300):
        assert run(world, get(), limits=Limits(timeout=timeout)).ending == "returned"
    for timeout in (0.0, -1.0, float("nan")):
        assert run(world, get(), limits=Limits(timeout=timeout)).ending == "not_started"


# Secrets


def test_a_granted_secret_goes_out_and_is_masked(world: World, listen: Listen, authority: Authority) -> None:
    listener = listen(
        lambda asked: reply(body=asked.headers["authorization"].encode()), tls=authority.server("a.example")
    )
    world.put("a.example", listener)
    entry = get("https://a.example/", headers={"Authorization": "Bearer {{secret:token}}"})
    report = run(world, entry, hosts=("a.example",), secrets=("token",), roots=authority.roots)
    assert listener.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    assert isinstance(report.value, dict)
    assert report.value["body"] == f"Bearer {MASK}"


def test_a_granted_secret_is_masked_also_where_it_was_not_sent(
    world: World, listen: Listen, authority: Authority
) -> None:
    world.put("a.example", listen(reply(body=f"last: {SECRET}".encode()), tls=authority.server("a.example")))
    bodies = []
    for secrets in (("token",), ()):
        report = run(
            world, get("https://a.example/log"), hosts=("a.example",), secrets=secrets, roots=authority.roots
        )
        assert isinstance(report.value, dict)
        bodies.append(report.value["body"])
    assert bodies == [f"last: {MASK}", f"last: {SECRET}"]


def test_a_secret_that_is_not_granted_is_a_denial(world: World, listen: Listen) -> None:
    listener = listen()
    world.put("a.example", listener)
    entry = get("https://a.example/", headers={"Authorization": "Bearer {{secret:token}}"})
    report = run(world, entry, hosts=("a.example",))
    assert (report.ending, fault(report)) == ("raised", "PermissionDenied")
    assert [each.kind for each in report.denials] == ["secret"]
    assert SECRET not in repr(report)
    assert listener.connections == 0


def test_an_argument_cannot_name_a_secret(world: World, listen: Listen) -> None:
    listener = listen()
    world.put("a.example", listener)
    run(world, get(headers={"X-A": "{{x}}"}), secrets=("token",), x="{{secret:token}}")
    assert listener.asked[0].headers["x-a"] == "{{secret:token}}"


# Places


def filled(entry: HttpRequest, **arguments: Json) -> Any:
    return fill(entry, arguments)


@pytest.mark.parametrize(
    ("value", "path", "query"),
    [
        ("Bad Homburg", "Bad%20Homburg", "Bad%20Homburg"),
        ("a/b?c#d&e=f%g", "a%2Fb%3Fc%23d%26e%3Df%25g", "a%2Fb%3Fc%23d%26e%3Df%25g"),
        ("..admin...", "..admin...", "..admin..."),
        ("ü😀", "%C3%BC%F0%9F%98%80", "%C3%BC%F0%9F%98%80"),
        ("x\r\nHost: b", "x%0D%0AHost%3A%20b", "x%0D%0AHost%3A%20b"),
        (5, "5", "5"),
        (2.5, "2.5", "2.5"),
        (True, "true", "true"),
    ],
)
def test_a_value_in_a_url_stays_in_its_place(value: Json, path: str, query: str) -> None:
    entry = get("http://a.example/at/{{x}}/now?q={{ x }}&r=1#top")
    assert filled(entry, x=value).url == f"http://a.example/at/{path}/now?q={query}&r=1"


@pytest.mark.parametrize("value", ["..", ".", "", "../../admin", "a/..", "..\\b", "./a"])
def test_a_value_does_not_walk_up_the_path(value: str) -> None:
    with pytest.raises(Unfilled):
        filled(get("http://a.example/at/{{x}}/now"), x=value)
    for before in (".", "%2e", "%2E"):
        with pytest.raises(Unfilled):
            filled(get(f"http://a.example/at/{before}{{{{x}}}}/now"), x=".")
    escaped = quote(value, safe="")
    assert filled(get("http://a.example/at?q={{x}}"), x=value).url.endswith(f"?q={escaped}")


@pytest.mark.parametrize("url", ["http://a.example/{{x}}", "http://a.example/?q={{x}}"])
def test_half_a_character_is_refused_and_raises_nothing_else(url: str) -> None:
    with pytest.raises(Unfilled):
        filled(get(url), x="\ud800")


@pytest.mark.parametrize(
    "entry",
    [
        get("http://{{x}}/"),
        get("http://a.example:{{x}}/"),
        get("http://{{x}}.a.example/"),
        get("{{x}}://a.example/"),
        get("{{x}}"),
        get(headers={"{{x}}": "a"}),
        get(body={"{{x}}": 1}),
        get("http://a.example/{{secret:token}}"),
        get("http://a.example/?q={{secret:token}}"),
        get(body={"a": "{{secret:token}}"}),
        get(body="{{secret:token}}"),
        get(headers={"X-A": "{{secret:token}} after"}),
        get(headers={"X-A": "{{secret:token}}{{secret:token}}"}),
        get(body='{"a": "{{x}}"}'),
        get("http://a.example/{{y}}"),
        get(headers={"X-A": "{{y}}"}),
        get(body=["{{y}}"]),
        get("http://a.example/{{x y}}"),
    ],
)
def test_what_has_no_argument_or_none_that_fits_is_refused(world: World, entry: HttpRequest) -> None:
    with pytest.raises(Unfilled):
        filled(entry, x="v4lue")
    report = run(world, entry, secrets=("token",), x="v4lue")
    assert (report.ending, fault(report)) == ("raised", "InvalidRequest")
    assert "v4lue" not in repr(report)
    assert world.dialled == []


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_only_plain_values_stand_in_a_text(value: Json) -> None:
    for entry in (get("http://a.example/{{x}}"), get(headers={"X-A": "{{x}}"}), get(body={"a": "b {{x}}"})):
        with pytest.raises(Unfilled):
            filled(entry, x=value)


@pytest.mark.parametrize(
    "value", ['", "admin": true, "x": "', "\\", "a\nb", None, [1, {"b": None}], {"c": 1}, 5]
)
def test_a_json_body_is_made_of_values_and_never_of_text(value: Json) -> None:
    made = filled(get(body={"a": "{{x}}", "fixed": [1, "{{x}}"]}), x=value)
    assert json.loads(made.body) == {"a": value, "fixed": [1, value]}
    assert made.headers == {"Content-Type": "application/json"}


def test_a_text_inside_a_json_body_is_filled_as_text() -> None:
    made = filled(get(body={"a": "Hello {{name}}, {{n}}"}), name='"}', n=2)
    assert json.loads(made.body) == {"a": 'Hello "}, 2'}


def test_a_body_of_text_is_sent_as_it_is_and_a_form_is_escaped() -> None:
    assert filled(get(body="plain")).body == b"plain"
    assert filled(get(body="{{x}}"), x="a&b\n").body == b"a&b\n"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert filled(get(body="a={{x}}&b=1", headers=form), x="1&b=2").body == b"a=1%26b%3D2&b=1"


def test_a_header_takes_a_value_but_no_line_end(world: World, listen: Listen) -> None:
    listener = listen()
    world.put("a.example", listener)
    entry = get(headers={"X-A": "city={{x}}"})
    assert run(world, entry, x="Bonn").ending == "returned"
    assert listener.asked[0].headers["x-a"] == "city=Bonn"
    for value in ("a\r\nX-B: c", "ü", "a\0"):
        report = run(world, entry, x=value)
        assert (report.ending, fault(report)) == ("raised", "InvalidRequest")
    assert len(listener.asked) == 1


def test_a_secret_stands_at_the_end_of_a_header_value() -> None:
    made = filled(get(headers={"Authorization": "Bearer {{secret:token}}", "X-Key": "{{secret:key}}"}))
    assert made.headers == {}
    assert made.secrets == {
        "Authorization": SecretRef(name="token", before="Bearer "),
        "X-Key": SecretRef(name="key"),
    }


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET / HTTP/1.1\r\n", ""])
def test_only_ordinary_methods_are_sent(world: World, method: str) -> None:
    report = run(world, HttpRequest(method=method, url="http://a.example/"))
    assert (report.ending, fault(report)) == ("raised", "InvalidRequest")
    assert world.dialled == []
