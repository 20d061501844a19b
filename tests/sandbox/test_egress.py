"""The way out, end to end against a server on loopback that stands for the public ones."""

import ast
import base64
import gzip
import itertools
import logging
import os
import re
import socket
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import anyio
import httpx2
import pytest

import metier
from loopback import PUBLIC, PUBLIC_6, Asked, Authority, Listener, World, quick, reply
from metier.errors import ConfigError
from metier.sandbox.egress import Egress
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.reply import Answer, Denied, Failed, Reply, Violation
from metier.sandbox.secret import MASK, SecretRef

Listen = Callable[..., Listener]
Kind = TypeVar("Kind")

SECRET = "s3cr3t/+value-9f27"
TOKEN = {"Authorization": SecretRef(name="token", before="Bearer ")}


def ask(egress: Egress, *requests: tuple[str, str] | str, **more: Any) -> list[Reply]:
    async def main() -> list[Reply]:
        async with egress:
            return [
                await egress.request(*(("GET", each) if isinstance(each, str) else each), **more)
                for each in requests
            ]

    return anyio.run(main)


def one(egress: Egress, request: tuple[str, str] | str, kind: type[Kind], **more: Any) -> Kind:
    (made,) = ask(egress, request, **more)
    assert isinstance(made, kind), made
    return made


def reveal(name: str) -> str | None:
    return {"token": SECRET, "broken": "line\r\nend", "short": "abc"}.get(name)


@pytest.fixture
def home(world: World, listen: Listen) -> Callable[..., Listener]:
    """Put a server behind the granted name `a.example`."""

    def put(*answering: Any, **more: Any) -> Listener:
        listener = listen(*answering, **more)
        world.put("a.example", listener)
        return listener

    return put


# What is answered


def test_a_granted_host_is_asked_and_its_answer_handed_on(world: World, home: Listen) -> None:
    listener = home(reply("404 Not Found", b"no such thing", X_Note="Yes"))
    answer = one(
        world.egress("http://a.example"),
        ("POST", "http://a.example/x?y=1#z"),
        Answer,
        body=b"{}",
        headers={"X-A": "b"},
    )
    assert (answer.status, answer.body, answer.truncated) == (404, b"no such thing", False)
    assert ("x-note", "Yes") in answer.headers
    assert answer.url == "http://a.example/x?y=1"
    assert 0 <= answer.timing.first_byte <= answer.timing.total < 10
    (asked,) = listener.asked
    assert asked.line == "POST /x?y=1 HTTP/1.1"
    assert asked.body == b"{}"
    assert asked.headers["host"] == "a.example"
    assert asked.headers["x-a"] == "b"
    assert world.dialled == [(PUBLIC, 80)]


def test_a_skill_may_call_itself_what_it_likes_once(world: World, home: Listen) -> None:
    listener = home()
    egress = world.egress("http://a.example")
    for headers, name in (({}, b"metier"), ({"user-AGENT": "skill/1"}, b"skill/1")):
        one(egress, "http://a.example/", Answer, headers=headers)
        assert re.findall(rb"(?i)user-agent: (\S+)", listener.asked[-1].raw) == [name]


def test_a_connection_is_used_again_within_a_call(world: World, home: Listen) -> None:
    listener = home()
    replies = ask(world.egress("http://a.example"), *["http://a.example/"] * 5)
    assert all(isinstance(each, Answer) for each in replies)
    assert listener.connections == 1
    assert world.lookups == ["a.example"]


def test_many_requests_at_once_share_one_lookup(world: World, home: Listen) -> None:
    home()
    egress = world.egress("http://a.example")
    replies: list[Reply] = []

    async def get() -> None:
        replies.append(await egress.request("GET", "http://a.example/"))

    async def main() -> None:
        async with egress, anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(get)

    anyio.run(main)
    assert [type(each) for each in replies] == [Answer] * 20
    assert world.lookups == ["a.example"]


def test_an_address_may_be_granted_as_such_and_is_not_looked_up(world: World, listen: Listen) -> None:
    listener = listen()
    world.places = {PUBLIC_6: listener.port}
    url = f"http://[{PUBLIC_6}]:8080/"
    one(world.egress(f"http://[{PUBLIC_6}]:8080"), url, Answer)
    assert world.lookups == []
    assert listener.asked[0].headers["host"] == f"[{PUBLIC_6}]:8080"


def test_a_second_address_is_tried_when_the_first_does_not_answer(world: World, listen: Listen) -> None:
    listener = listen()
    world.names = {"a.example": [["9.9.9.9", PUBLIC]]}
    world.places = {PUBLIC: listener.port}
    one(world.egress("http://a.example"), "http://a.example/", Answer)
    assert world.dialled == [("9.9.9.9", 80), (PUBLIC, 80)]


def test_an_egress_outside_async_with_is_a_fault_of_ours(world: World) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        anyio.run(world.egress("a.example").request, "GET", "https://a.example/")


# Which hosts


def test_a_public_host_that_is_not_granted_is_denied_and_never_looked_up(world: World, home: Listen) -> None:
    home()
    world.names["s3cr3t.evil.example"] = [[PUBLIC]]
    denied = one(world.egress("http://a.example"), "https://s3cr3t.evil.example/", Denied)
    assert denied.origin == "https://s3cr3t.evil.example"
    assert denied.cause == "request"
    assert "not granted" in denied.message
    assert world.lookups == []
    assert world.dialled == []


def test_net_31_an_empty_allowlist_reaches_nothing(world: World, home: Listen) -> None:
    listener = home()
    one(world.egress(), "http://a.example/", Denied)
    assert (listener.connections, world.lookups) == (0, [])
    with pytest.raises(TypeError):
        Egress()  # type: ignore[call-arg]
    with pytest.raises(ConfigError):
        Egress(hosts=frozenset({"not a host"}))


def test_net_32_a_denied_host_is_denied_though_it_is_granted(world: World, home: Listen) -> None:
    listener = home()
    one(world.egress("http://a.example", denied=frozenset({"a.example"})), "http://a.example/", Denied)
    assert listener.connections == 0
    one(world.egress("http://a.example"), "http://a.example/", Answer)


def test_net_08_a_granted_name_that_leads_to_a_private_address_is_a_violation(
    world: World, home: Listen
) -> None:
    listener = home()
    for address in (
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "fe80::1%1",
    ):
        world.names["a.example"] = [[address]]
        violation = one(world.egress("http://a.example"), "http://a.example/", Violation)
        assert (violation.host, violation.address, violation.cause) == ("a.example", address, "lookup")
    assert world.dialled == []
    assert listener.connections == 0


def naive_get(world: World, port: int, url: str) -> str:
    """Looks a name up to check it, and lets the HTTP library look it up again."""

    class ByName(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            answers = anyio.run(world.resolve, request.url.host)
            home = answers == ["127.0.0.1"]
            text = httpx2.get(f"http://127.0.0.1:{port}/", trust_env=False).text if home else "elsewhere"
            return httpx2.Response(200, text=text)

    if "127.0.0.1" in anyio.run(world.resolve, httpx2.URL(url).host):
        return "refused"
    with httpx2.Client(transport=ByName()) as client:
        return client.get(url).text


def test_net_09_a_name_that_changes_its_address_changes_nothing(world: World, listen: Listen) -> None:
    public, private = listen(reply(body=b"public", Connection="close")), listen(reply(body=b"private"))
    answers = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]
    world.names["a.example"] = list(answers)
    assert naive_get(world, private.port, "http://a.example/") == "private", "the naive way is fooled"
    world.names["a.example"] = list(answers)
    world.lookups.clear()
    world.places = {PUBLIC: public.port, "127.0.0.1": private.port}
    replies = ask(world.egress("http://a.example"), *["http://a.example/"] * 3)
    assert [each.body for each in replies if isinstance(each, Answer)] == [b"public"] * 3
    assert world.lookups == ["a.example"]
    assert {address for address, _ in world.dialled} == {PUBLIC}
    assert private.connections == 1


@pytest.mark.parametrize("place", range(3))
def test_net_10_one_private_address_among_public_ones_is_a_violation(
    world: World, home: Listen, place: int
) -> None:
    listener = home()
    answers = [PUBLIC, PUBLIC_6]
    answers.insert(place, "192.168.1.1")
    world.names["a.example"] = [answers]
    violation = one(world.egress("http://a.example"), "http://a.example/", Violation)
    assert violation.address == "192.168.1.1"
    assert (world.dialled, listener.connections) == ([], 0)


def test_a_name_without_an_address_is_a_failed_lookup(world: World) -> None:
    failed = one(world.egress("a.example"), "https://a.example/", Failed)
    assert failed.code == "lookup_failed"
    world.names["a.example"] = [[]]
    assert one(world.egress("a.example"), "https://a.example/", Failed).code == "lookup_failed"


def test_a_name_server_that_never_answers_costs_no_more_than_the_limit(world: World) -> None:
    async def never(_host: str) -> list[str]:
        await anyio.sleep_forever()
        return []

    began = time.monotonic()
    egress = world.egress("a.example", limits=quick(connect_seconds=0.1), resolver=never)
    assert one(egress, "https://a.example/", Failed).code == "lookup_failed"
    assert time.monotonic() - began < 3


def test_this_machine_is_asked_for_the_whole_name_and_nothing_below_its_search_domains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    place = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 0))

    def name_service(host: str, *_more: Any, **_named: Any) -> list[Any]:
        seen.append(host)
        return [place, place]

    monkeypatch.setattr(socket, "getaddrinfo", name_service)
    violation = one(Egress(hosts=frozenset({"a.example"})), "https://a.example/", Violation)
    assert (violation.address, violation.cause, seen) == ("10.0.0.1", "lookup", ["a.example."])


# Redirects


def redirect(status: int, to: str) -> bytes:
    return reply(f"{status} There", Location=to)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("to", "kind"),
    [
        ("http://127.0.0.1:{port}/", Violation),
        ("http://2130706433:{port}/", Violation),
        ("http://[::ffff:127.0.0.1]:{port}/", Violation),
        ("http://localhost:{port}/", Violation),
        ("http://169.254.169.254/latest/meta-data/", Violation),
        ("//127.1:{port}/", Violation),
        ("file:///etc/passwd", Failed),
        ("gopher://127.0.0.1:{port}/", Failed),
        ("http://user@127.0.0.1:{port}/", Failed),
        ("http:\\\\127.0.0.1:{port}/", Violation),
        ("https://other.example/", Denied),
        ("http://a.example:{port}/", Denied),
    ],
)
def test_net_11_each_redirect_is_judged_like_a_request(
    world: World, listen: Listen, home: Listen, status: int, to: str, kind: type
) -> None:
    inside = listen()
    to = to.format(port=inside.port)
    home(redirect(status, to))
    made = one(world.egress("http://a.example"), "http://a.example/", kind)
    assert getattr(made, "cause", "redirect") == "redirect"
    assert getattr(made, "code", "redirect_refused") == "redirect_refused"
    assert inside.connections == 0
    assert world.lookups == ["a.example"]


def test_net_11_a_client_that_follows_by_itself_ends_up_inside(listen: Listen) -> None:
    inside = listen()
    outside = listen(redirect(302, f"http://2130706433:{inside.port}/"))
    assert (
        httpx2.get(f"http://127.0.0.1:{outside.port}/", follow_redirects=True, trust_env=False).text
        == "hello"
    )
    assert inside.connections == 1


def test_net_11_chains_and_circles_end(world: World, home: Listen) -> None:
    def onward(asked: Asked) -> bytes:
        left = int(asked.target.strip("/") or 0)
        return redirect(302, f"/{left - 1}") if left else reply()

    listener = home(onward)
    egress = world.egress("http://a.example")
    assert one(egress, "http://a.example/5", Answer).redirects == 5
    assert one(egress, "http://a.example/6", Failed).code == "too_many_redirects"
    assert one(egress, "http://a.example/30", Failed).code == "too_many_redirects"
    circle = home(redirect(301, "/again"))
    assert one(egress, "http://a.example/", Failed).code == "too_many_redirects"
    assert len(circle.asked) == 6
    assert len(listener.asked) == 6 + 6 + 6


@pytest.mark.parametrize(
    ("to", "there"),
    [
        ("/x", "/x"),
        ("x", "/a/x"),
        ("../x", "/x"),
        ("?q=1", "/a/b?q=1"),
        ("//a.example/y", "/y"),
        ("#f", "/a/b"),
    ],
)
def test_a_relative_redirect_leads_where_it_says(world: World, home: Listen, to: str, there: str) -> None:
    steps = iter([redirect(302, to)])
    listener = home(lambda _asked: next(steps, reply()))
    one(world.egress("http://a.example"), "http://a.example/a/b", Answer)
    assert [asked.target for asked in listener.asked] == ["/a/b", there]


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [(301, "POST", "GET"), (302, "POST", "GET"), (303, "PUT", "GET"), (303, "HEAD", "HEAD"), (307, "POST", "POST"),
     (308, "PUT", "PUT"), (301, "DELETE", "DELETE")],
)  # fmt: skip
def test_a_redirect_keeps_the_method_or_turns_it_into_get(
    world: World, home: Listen, status: int, method: str, then: str
) -> None:
    steps = iter([redirect(status, "/there") if method != "HEAD" else redirect(status, "/there")[:-5]])
    listener = home(lambda asked: next(steps, reply() if asked.line[:4] != "HEAD" else reply()[:-5]))
    body = b"" if method in ("HEAD", "DELETE") else b"data"
    one(world.egress("http://a.example"), (method, "http://a.example/"), Answer, body=body)
    assert [asked.line.split(" ")[0] for asked in listener.asked] == [method, then]
    assert listener.asked[1].body == (body if method == then else b"")


def test_net_12_credentials_do_not_follow_to_another_origin(
    world: World, listen: Listen, authority: Authority
) -> None:
    other = listen(tls=authority.server("b.example"))
    first = listen(redirect(302, "https://b.example/x"), tls=authority.server("a.example"))
    world.put("b.example", other, "8.8.8.8")
    world.put("a.example", first)
    egress = world.egress("a.example", "b.example", reveal=reveal, extra_roots=authority.roots)
    headers = {"X-Api-Key": "own-key", "Accept": "text/plain", "X-Custom": "1"}
    answer = one(egress, "https://a.example/", Answer, headers=headers, secrets=TOKEN)
    assert answer.url == "https://b.example/x"
    assert first.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    assert first.asked[0].headers["x-api-key"] == "own-key"
    assert other.asked[0].headers["accept"] == "text/plain"
    assert set(other.asked[0].headers) == {"host", "accept-encoding", "user-agent", "accept"}


def test_net_12_another_port_is_another_origin_and_the_same_one_keeps_them(
    world: World, home: Listen
) -> None:
    steps = [redirect(302, "/same"), redirect(302, "http://a.example:8080/"), reply()]
    turn = iter(steps)
    listener = home(lambda _asked: next(turn))
    one(
        world.egress("http://a.example", "http://a.example:8080"),
        "http://a.example/",
        Answer,
        headers={"X-Key": "k"},
    )
    assert ["x-key" in asked.headers for asked in listener.asked] == [True, True, False]


def test_a_body_is_not_carried_to_another_origin(world: World, home: Listen) -> None:
    listener = home(redirect(307, "http://a.example:8080/"))
    egress = world.egress("http://a.example", "http://a.example:8080")
    failed = one(egress, ("POST", "http://a.example/"), Failed, body=b"data")
    assert failed.code == "redirect_refused"
    assert len(listener.asked) == 1


# What goes out


@pytest.mark.parametrize(
    ("method", "url", "headers"),
    [
        ("GET", "http://a.example/a\r\nX-Evil: 1", {}),
        ("GET", "http://a.example/a\nX-Evil:1", {}),
        ("GET\r\nX-Evil: 1", "http://a.example/", {}),
        ("GET / HTTP/1.1\r\nX-Evil: 1\r\n\r\nGET", "http://a.example/", {}),
        ("GET", "http://a.example/", {"A": "b\r\nX-Evil: 1"}),
        ("GET", "http://a.example/", {"A": "b\nX-Evil: 1"}),
        ("GET", "http://a.example/", {"A": "b\rX-Evil: 1"}),
        ("GET", "http://a.example/", {"A": "b\0"}),
        ("GET", "http://a.example/", {"A\r\nX-Evil": "1"}),
        ("GET", "http://a.example/", {"A: b\r\nX-Evil": "1"}),
        ("GET", "http://a.example/", {"A b": "1"}),
        ("GET", "http://a.example/", {"A:": "1"}),
        ("GET", "http://a.example/", {"": "1"}),
        ("GET", "http://a.example/", {"A": "嘊嘍X-Evil: 1"}),
        ("GET", "http://a.example/", {"A": " folded"}),
    ],
)
def test_net_19_no_line_end_gets_into_a_request(
    world: World, home: Listen, method: str, url: str, headers: dict[str, str]
) -> None:
    listener = home()
    failed = one(world.egress("http://a.example"), (method, url), Failed, headers=headers)
    assert failed.code in ("invalid_url", "invalid_request")
    assert listener.connections == 0


def test_net_19_an_escaped_line_end_stays_escaped(world: World, home: Listen) -> None:
    listener = home()
    one(world.egress("http://a.example"), "http://a.example/%0d%0aX-Evil:%201?q=%0D%0A", Answer)
    assert listener.asked[0].target == "/%0d%0aX-Evil:%201?q=%0D%0A"
    assert "x-evil" not in listener.asked[0].headers


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "", "G ET", "PROPFIND"])
def test_only_ordinary_methods_are_sent(world: World, home: Listen, method: str) -> None:
    listener = home()
    assert (
        one(world.egress("http://a.example"), (method, "http://a.example/"), Failed).code == "invalid_request"
    )
    assert listener.connections == 0


@pytest.mark.parametrize(
    "name",
    ["Host", "hOST", "Content-Length", "Transfer-Encoding", "TE", "Trailer", "Upgrade", "Connection", "Keep-Alive",
     "Proxy-Authorization", "Proxy-Connection", "proxy-x", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Via",
     "X-Real-IP", "Expect", "Cookie", "X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL", "Accept-Encoding"],
)  # fmt: skip
def test_net_22_header_lines_that_steer_are_not_for_a_skill(world: World, home: Listen, name: str) -> None:
    listener = home()
    failed = one(world.egress("http://a.example"), "http://a.example/", Failed, headers={name: "x"})
    assert failed.code == "invalid_request"
    assert name in failed.message or "cookies" in failed.message
    assert listener.connections == 0


def test_header_lines_are_bounded_in_number_and_size(world: World, home: Listen) -> None:
    listener = home()
    egress = world.egress("http://a.example")
    for headers in ({f"X-{at}": "" for at in range(65)}, {"X-A": "x" * 16_385}, {"X-A": "1", "x-a": "2"}):
        assert one(egress, "http://a.example/", Failed, headers=headers).code == "invalid_request"
    assert listener.connections == 0
    one(egress, "http://a.example/", Answer, headers={f"X-{at}": "" for at in range(64)})


def test_a_body_over_the_limit_is_not_sent(world: World, home: Listen) -> None:
    listener = home()
    egress = world.egress("http://a.example")
    assert one(egress, ("POST", "http://a.example/"), Failed, body=b"x" * 1_048_577).code == "too_large"
    assert listener.connections == 0
    one(egress, ("POST", "http://a.example/"), Answer, body=b"x" * 1_048_576)


def test_net_23_proxy_variables_and_netrc_are_ignored(
    world: World, home: Listen, listen: Listen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proxy = listen(reply(body=b"proxy"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    (tmp_path / ".netrc").write_text("machine a.example login me password hidden\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert httpx2.get("http://a.example/").text == "proxy", "a client that trusts the environment goes there"
    seen = len(proxy.asked)
    listener = home()
    assert one(world.egress("http://a.example"), "http://a.example/", Answer).body == b"hello"
    assert len(proxy.asked) == seen
    assert "authorization" not in listener.asked[0].headers


def test_no_cookie_is_kept(world: World, home: Listen) -> None:
    listener = home(reply(Set_Cookie="id=1; Path=/"))
    ask(world.egress("http://a.example"), "http://a.example/", "http://a.example/")
    assert len(listener.asked) == 2
    assert all("cookie" not in asked.headers for asked in listener.asked)


def test_net_27_target_host_line_and_tls_name_are_one(
    world: World, listen: Listen, authority: Authority
) -> None:
    listener = listen(tls=authority.server("a.example"))
    world.put("a.example", listener)
    egress = world.egress("a.example", "a.example:8443", extra_roots=authority.roots)
    ask(egress, "https://A.EXAMPLE./http://b.example/", "https://a.example:8443//b.example/x")
    assert [asked.target for asked in listener.asked] == ["/http://b.example/", "//b.example/x"]
    assert [asked.headers["host"] for asked in listener.asked] == ["a.example", "a.example:8443"]
    assert set(listener.names) == {"a.example"}
    failed = one(egress, "https://a.example/", Failed, headers={"Host": "b.example"})
    assert failed.code == "invalid_request"


# What comes back


def test_net_28_a_huge_body_is_kept_up_to_the_limit(world: World, home: Listen) -> None:
    def huge(_asked: Asked) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n"
        yield from itertools.repeat(b"x" * 65_536)

    home(huge)
    answer = one(
        world.egress("http://a.example", limits=quick(download_bytes=100_000)), "http://a.example/", Answer
    )
    assert (len(answer.body), answer.truncated) == (100_000, True)


def test_net_28_an_endless_chunked_body_is_kept_up_to_the_limit(world: World, home: Listen) -> None:
    def endless(_asked: Asked) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield from itertools.repeat(b"400\r\n" + b"y" * 1024 + b"\r\n")

    home(endless)
    answer = one(world.egress("http://a.example"), "http://a.example/", Answer)
    assert (len(answer.body), answer.truncated) == (5_242_880, True)


def test_a_body_of_just_the_limit_is_whole(world: World, home: Listen) -> None:
    home(reply(body=b"x" * 1000))
    answer = one(
        world.egress("http://a.example", limits=quick(download_bytes=1000)), "http://a.example/", Answer
    )
    assert (len(answer.body), answer.truncated) == (1000, False)


def drop_by_drop(_asked: Asked) -> Iterator[bytes]:
    """A byte now and then, so that no single read takes long."""
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    pace = threading.Event()
    for _ in range(400):
        pace.wait(0.02)
        yield b"z"


def test_net_28_a_slow_body_ends_with_the_total_time(world: World, home: Listen) -> None:
    home(drop_by_drop)
    began = time.monotonic()
    failed = one(
        world.egress("http://a.example", limits=quick(total_seconds=0.3)), "http://a.example/", Failed
    )
    assert failed.code == "timed_out"
    assert 0.25 < time.monotonic() - began < 2


def test_net_28_a_silent_server_ends_with_the_read_time(world: World, home: Listen) -> None:
    over = threading.Event()

    def silent(_asked: Asked) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        over.wait(5)

    home(silent)
    failed = one(
        world.egress("http://a.example", limits=quick(read_seconds=0.1)), "http://a.example/", Failed
    )
    over.set()
    assert failed.code == "timed_out"
    assert "silent" in failed.message


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_net_28_a_body_that_unpacks_without_end_is_refused(world: World, home: Listen, coding: str) -> None:
    plain = b"\0" * 20_000_000
    packed = gzip.compress(plain) if coding == "gzip" else zlib.compress(plain)
    assert len(plain) > 1000 * len(packed) - 100_000
    home(reply(body=packed, Content_Encoding=coding))
    failed = one(
        world.egress("http://a.example", limits=quick(download_bytes=50_000_000)), "http://a.example/", Failed
    )
    assert failed.code == "unpacks_too_far"


def test_net_28_an_unpacked_body_is_bounded_like_any_other(world: World, home: Listen) -> None:
    plain = os.urandom(2_000) * 400
    home(reply(body=gzip.compress(plain), Content_Encoding="gzip"))
    answer = one(
        world.egress("http://a.example", limits=quick(download_bytes=100_000)), "http://a.example/", Answer
    )
    assert answer.truncated
    assert answer.body == plain[:100_000]


def test_net_28_what_follows_a_packed_body_without_end_is_not_awaited(world: World, home: Listen) -> None:
    def trailing(_asked: Asked) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"done")
        yield from itertools.repeat(b"x" * 65_536)

    home(trailing)
    limits = quick(total_seconds=5, download_bytes=1_000_000)
    answer = one(world.egress("http://a.example", limits=limits), "http://a.example/", Answer)
    assert (answer.body, answer.truncated) == (b"done", True)


def test_net_28_a_million_header_lines_are_refused(world: World, home: Listen) -> None:
    def many(_asked: Asked) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        yield from itertools.repeat(b"X-A: b\r\n" * 1000, 1000)

    home(many)
    assert one(world.egress("http://a.example"), "http://a.example/", Failed).code == "protocol_error"
    home(reply(**{f"X-{at}": "1" for at in range(300)}))
    assert one(world.egress("http://a.example"), "http://a.example/", Failed).code == "too_large"


def raw_deflate(plain: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(plain) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)]
)
def test_a_packed_body_is_unpacked(
    world: World, home: Listen, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    plain = b"some text, " * 2_000
    home(reply(body=pack(plain), Content_Encoding=coding))
    answer = one(world.egress("http://a.example"), "http://a.example/", Answer)
    assert answer.body == plain
    assert not {"content-encoding", "content-length"} & {name for name, _ in answer.headers}


@pytest.mark.parametrize("cut", [1, 2, 3, 20, 1_000])
def test_the_members_of_a_packed_body_are_joined(world: World, home: Listen, cut: int) -> None:
    packed = gzip.compress(b"first ") + gzip.compress(b"") + gzip.compress(b"second")

    def pieces(_asked: Asked) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        for at in range(0, len(packed), cut):
            piece = packed[at : at + cut]
            yield b"%x\r\n%s\r\n" % (len(piece), piece)
        yield b"0\r\n\r\n"

    home(pieces)
    answer = one(world.egress("http://a.example"), "http://a.example/", Answer)
    assert (answer.body, answer.truncated) == (b"first second", False)


@pytest.mark.parametrize("after", [b"\0" * 20, b"x", b"\x1f", b"no member" + gzip.compress(b"x")])
def test_what_follows_the_members_and_is_none_is_left_out(world: World, home: Listen, after: bytes) -> None:
    home(reply(body=gzip.compress(b"all") + after, Content_Encoding="gzip"))
    assert one(world.egress("http://a.example"), "http://a.example/", Answer).body == b"all"


def test_net_28_members_are_bounded_together(world: World, home: Listen) -> None:
    member = gzip.compress(os.urandom(20_000))
    limits = quick(download_bytes=100_000)
    home(reply(body=member * 7, Content_Encoding="gzip"))
    answer = one(world.egress("http://a.example", limits=limits), "http://a.example/", Answer)
    assert (len(answer.body), answer.truncated) == (100_000, True)
    home(reply(body=gzip.compress(b"\0" * 900_000) * 30, Content_Encoding="gzip"))
    far = one(
        world.egress("http://a.example", limits=quick(download_bytes=50_000_000)), "http://a.example/", Failed
    )
    assert far.code == "unpacks_too_far"
    home(reply(body=gzip.compress(b"") * 10_001, Content_Encoding="gzip"))
    many = one(world.egress("http://a.example"), "http://a.example/", Failed)
    assert many.code == "protocol_error"
    home(reply(body=gzip.compress(b"whole") + gzip.compress(b"x" * 999)[:-9], Content_Encoding="gzip"))
    assert one(world.egress("http://a.example"), "http://a.example/", Failed).code == "protocol_error"


def test_a_coding_nobody_asked_for_is_left_as_it_came(world: World, home: Listen) -> None:
    twice = gzip.compress(gzip.compress(b"x"))
    home(reply(body=twice, Content_Encoding="gzip, gzip"))
    answer = one(world.egress("http://a.example"), "http://a.example/", Answer)
    assert answer.body == twice
    assert ("content-encoding", "gzip, gzip") in answer.headers


@pytest.mark.parametrize("body", [gzip.compress(b"x" * 999)[:-9], b"not packed at all"])
def test_a_broken_packed_body_is_a_failure(world: World, home: Listen, body: bytes) -> None:
    home(reply(body=body, Content_Encoding="gzip"))
    assert one(world.egress("http://a.example"), "http://a.example/", Failed).code == "protocol_error"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", "disconnected"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "protocol_error"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "protocol_error"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "protocol_error"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "protocol_error"),
        (b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", "protocol_error"),
    ],
)
def test_a_server_that_breaks_the_protocol_is_a_failure(
    world: World, home: Listen, sent: bytes, code: str
) -> None:
    home(lambda _asked: iter([sent]))
    failed = one(world.egress("http://a.example"), "http://a.example/", Failed)
    assert failed.code == code
    assert "a.example" in failed.message


def test_a_port_nobody_listens_on_is_a_failed_connection(world: World) -> None:
    world.names["a.example"] = [[PUBLIC]]
    assert one(world.egress("http://a.example"), "http://a.example/", Failed).code == "connect_failed"


# Retries


def test_net_33_a_retry_goes_to_the_address_that_was_checked_first(world: World, home: Listen) -> None:
    steps = iter([reply("503 Busy", Connection="close"), reply("502 Bad", Connection="close")])
    listener = home(lambda _asked: next(steps, reply()))
    world.names["a.example"] = [[PUBLIC], ["127.0.0.1"], ["9.9.9.9"]]
    answer = one(world.egress("http://a.example", limits=quick(retries=3)), "http://a.example/", Answer)
    assert (answer.status, answer.attempts) == (200, 3)
    assert len(listener.asked) == 3
    assert world.lookups == ["a.example"]
    assert {address for address, _ in world.dialled} == {PUBLIC}


def test_retries_end_and_the_last_answer_is_handed_on(world: World, home: Listen) -> None:
    listener = home(reply("503 Busy"))
    answer = one(world.egress("http://a.example", limits=quick(retries=2)), "http://a.example/", Answer)
    assert (answer.status, answer.attempts, len(listener.asked)) == (503, 3, 3)


@pytest.mark.parametrize(
    ("method", "answer", "sent"),
    [
        ("POST", reply("503 Busy"), 1),
        ("GET", reply("503 Busy", Retry_After="100"), 1),
        ("GET", reply("500 Broken"), 1),
        ("HEAD", reply("504 Late", b""), 4),
        ("PUT", reply("504 Late"), 1),
        ("DELETE", reply("504 Late"), 1),
    ],
)
def test_only_what_may_be_repeated_is_repeated(
    world: World, home: Listen, method: str, answer: bytes, sent: int
) -> None:
    listener = home(answer)
    one(world.egress("http://a.example", limits=quick(retries=3)), (method, "http://a.example/"), Answer)
    assert len(listener.asked) == sent


def test_a_dropped_connection_is_tried_again_but_not_for_a_post(world: World, home: Listen) -> None:
    for method, sent in (("GET", 4), ("POST", 1)):
        listener = home(lambda _asked: iter([b""]))
        egress = world.egress("http://a.example", limits=quick(retries=3))
        assert one(egress, (method, "http://a.example/"), Failed).code == "disconnected"
        assert len(listener.asked) == sent


def test_retries_and_redirects_have_a_ceiling() -> None:
    for wrong in (
        {"retries": 4},
        {"retries": -1},
        {"redirects": 6},
        {"total_seconds": 301},
        {"total_seconds": 0},
    ):
        with pytest.raises(ValueError):
            EgressLimits(**wrong)  # type: ignore[arg-type]


# TLS


def test_net_34_a_good_certificate_is_believed_and_bad_ones_are_not(
    world: World, listen: Listen, authority: Authority
) -> None:
    cases = {
        "good": authority.server("a.example"),
        "mismatch": authority.server("b.example"),
        "expired": authority.server("a.example", days=-1),
        "self": authority.server("a.example", self_signed=True),
    }
    for case, context in cases.items():
        listener = listen(tls=context)
        world.put("a.example", listener)
        egress = world.egress("a.example", extra_roots=authority.roots)
        (made,) = ask(egress, "https://a.example/", secrets=None)
        if case == "good":
            assert isinstance(made, Answer)
            continue
        assert isinstance(made, Failed)
        assert made.code == "tls_failed"
        assert listener.asked == []
    unknown = one(world.egress("a.example"), "https://a.example/", Failed)
    assert unknown.code == "tls_failed"


def test_net_34_a_redirect_never_steps_down_from_https(
    world: World, listen: Listen, authority: Authority
) -> None:
    plain = listen()
    world.put("a.example", listen(redirect(302, "http://b.example/"), tls=authority.server("a.example")))
    world.put("b.example", plain, "8.8.8.8")
    egress = world.egress("a.example", "http://b.example", extra_roots=authority.roots)
    failed = one(egress, "https://a.example/", Failed)
    assert failed.code == "redirect_refused"
    assert plain.connections == 0
    one(egress, "http://b.example/", Answer)


@pytest.mark.parametrize("content", [None, "no certificate in here"])
def test_a_file_of_authorities_that_cannot_be_read_is_said_and_stops(
    world: World, tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "roots.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=r"roots\.pem"):
        ask(world.egress("a.example", extra_roots=str(file)), "https://a.example/")


def test_a_server_that_speaks_no_tls_is_a_failed_handshake(world: World, home: Listen) -> None:
    home(lambda _asked: b"")
    failed = one(world.egress("a.example", limits=quick(connect_seconds=0.5)), "https://a.example/", Failed)
    assert failed.code in ("tls_failed", "connect_failed")


# Secrets


def echo(asked: Asked) -> bytes:
    """Everything a careless server may do with a header line."""
    given = asked.headers.get("authorization", "")
    value = given.removeprefix("Bearer ")
    seen = [given, value.replace("/", "\\/"), httpx2.QueryParams({"t": value}), value.encode().hex()]
    seen += [base64.b64encode((pad + given).encode()).decode() for pad in ("", "u", "us", "use")]
    seen += [base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")]
    return reply(body="\n".join(map(str, seen)).encode(), X_Echo=given, ETag=f'"{value}"')


def traces(text: str) -> list[str]:
    """Where the middle of the secret can be read out of `text`, packed or not."""
    raw = SECRET.encode()
    found = [each for each in (SECRET, raw.hex(), str(httpx2.QueryParams({"t": SECRET}))[2:]) if each in text]
    for run in re.findall(r"[A-Za-z0-9+/_-]{8,}", text):
        plain = run.replace("-", "+").replace("_", "/")
        for at in range(4):
            packed = plain[at:][: (len(plain) - at) // 4 * 4]
            found += [run] * (raw[3:-3] in base64.b64decode(packed))
    return found


def test_a_secret_goes_out_and_does_not_come_back(world: World, listen: Listen, authority: Authority) -> None:
    listener = listen(echo, tls=authority.server("a.example"))
    world.put("a.example", listener)
    egress = world.egress("a.example", reveal=reveal, extra_roots=authority.roots)
    answer = one(egress, "https://a.example/", Answer, secrets=TOKEN)
    assert listener.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    assert len(traces(echo(listener.asked[0]).decode())) >= 8, "the server does echo it"
    text = answer.body.decode() + "\n" + "\n".join(value for _, value in answer.headers)
    assert traces(text) == []
    assert MASK in text
    assert ("x-echo", f"Bearer {MASK}") in answer.headers


def test_a_secret_that_comes_back_later_or_cut_is_hidden_too(
    world: World, listen: Listen, authority: Authority
) -> None:
    later = iter(
        [reply(), reply(body=f"you said {SECRET}".encode()), reply(body=b"x" * 90 + SECRET.encode())]
    )
    world.put("a.example", listen(lambda _asked: next(later), tls=authority.server("a.example")))
    limits = quick(download_bytes=100)
    egress = world.egress("a.example", limits=limits, reveal=reveal, extra_roots=authority.roots)

    async def main() -> list[Reply]:
        async with egress:
            first = await egress.request("GET", "https://a.example/", secrets=TOKEN)
            return [first, *[await egress.request("GET", "https://a.example/") for _ in range(2)]]

    _, echoed, cut = anyio.run(main)
    assert isinstance(echoed, Answer)
    assert echoed.body == f"you said {MASK}".encode()
    assert isinstance(cut, Answer)
    assert (cut.body, cut.truncated) == (b"x" * 90, True)


@pytest.mark.parametrize(
    ("to", "kind"),
    [
        (f"https://evil.example/?t={SECRET}", Denied),
        ("https://{hex}.evil.example/", Denied),
        (f"ftp://evil.example/{'x' * 170}{SECRET}", Failed),
        (f"ftp://evil.example/{SECRET}", Failed),
        (f"/again?t={SECRET}", Answer),
    ],
)
def test_a_secret_in_a_redirect_is_not_shown(
    world: World, listen: Listen, authority: Authority, to: str, kind: type
) -> None:
    steps = iter([redirect(302, to.replace("{hex}", SECRET.encode().hex()))])
    listener = listen(lambda _asked: next(steps, reply()), tls=authority.server("a.example"))
    world.put("a.example", listener)
    egress = world.egress("a.example", reveal=reveal, extra_roots=authority.roots)
    made = one(egress, "https://a.example/", kind, secrets=TOKEN)
    assert traces(str(made)) == []
    assert MASK in str(made) or kind is Denied


def test_secrets_go_over_https_only(world: World, home: Listen) -> None:
    listener = home()
    failed = one(world.egress("http://a.example", reveal=reveal), "http://a.example/", Failed, secrets=TOKEN)
    assert (failed.code, listener.connections) == ("invalid_request", 0)


@pytest.mark.parametrize("name", ["absent", "broken", "short"])
def test_a_secret_that_cannot_be_sent_is_named_and_not_shown(world: World, name: str) -> None:
    egress = world.egress("a.example", reveal=reveal)
    failed = one(egress, "https://a.example/", Failed, secrets={"X-Key": SecretRef(name=name)})
    assert failed.code == "secret_unavailable"
    assert name in failed.message
    assert "line" not in failed.message.replace("header line", "")
    assert world.dialled == []


def test_debug_lines_of_the_http_library_hold_no_secret(
    world: World, listen: Listen, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    world.put("a.example", listen(echo, tls=authority.server("a.example")))
    one(
        world.egress("a.example", reveal=reveal, extra_roots=authority.roots),
        "https://a.example/",
        Answer,
        secrets=TOKEN,
    )
    assert traces(caplog.text) == []


GRANTED = frozenset({"token"})


def test_a_granted_secret_is_hidden_from_the_first_answer_on(
    world: World, listen: Listen, authority: Authority
) -> None:
    """A server may know it from another call."""
    kept = reply(body=f"last: {SECRET}".encode(), X_Last=SECRET)
    world.put("a.example", listen(kept, tls=authority.server("a.example")))
    bodies = []
    for secrets in (GRANTED, frozenset[str]()):
        egress = world.egress("a.example", reveal=reveal, secrets=secrets, extra_roots=authority.roots)

        async def main(egress: Egress = egress) -> Reply:
            async with egress:
                return await egress.request("GET", "https://a.example/log")

        answer = anyio.run(main)
        assert isinstance(answer, Answer)
        bodies.append((answer.body.decode(), dict(answer.headers)["x-last"]))
    assert bodies == [(f"last: {MASK}", MASK), (f"last: {SECRET}", SECRET)]


def test_a_large_answer_is_masked_as_well(world: World, listen: Listen, authority: Authority) -> None:
    kept = reply(body=b"x" * 300_000 + quote(SECRET).encode() + b"x" * 300_000)
    world.put("a.example", listen(kept, tls=authority.server("a.example")))
    egress = world.egress("a.example", reveal=reveal, secrets=GRANTED, extra_roots=authority.roots)
    answer = one(egress, "https://a.example/", Answer)
    assert answer.body == b"x" * 300_000 + MASK.encode() + b"x" * 300_000


@pytest.mark.parametrize("name", ["Range", "if-range"])
def test_who_was_granted_a_secret_gets_no_answer_in_pieces(world: World, home: Listen, name: str) -> None:
    listener = home()
    headers = {name: "bytes=7-16"}
    egress = world.egress("http://a.example", reveal=reveal, secrets=GRANTED)
    failed = one(egress, "http://a.example/", Failed, headers=headers)
    assert (failed.code, listener.connections) == ("invalid_request", 0)
    one(world.egress("http://a.example", reveal=reveal), "http://a.example/", Answer, headers=headers)


CODED = [
    ("br", b"\x1b\x00\xf8"),
    ("zstd", b"(\xb5/\xfd"),
    ("gzip, gzip", gzip.compress(gzip.compress(b"x"))),
    ("gzip, br", b"x"),
    ("no-such-coding", b"x"),
]


@pytest.mark.parametrize(("coding", "body"), CODED)
def test_who_was_granted_a_secret_gets_no_body_that_cannot_be_looked_through(
    world: World, home: Listen, coding: str, body: bytes
) -> None:
    home(reply(body=body, Content_Encoding=coding))
    egress = world.egress("http://a.example", reveal=reveal, secrets=GRANTED)
    failed = one(egress, "http://a.example/", Failed)
    assert failed.code == "unknown_coding"
    assert coding in failed.message
    answer = one(world.egress("http://a.example"), "http://a.example/", Answer)
    assert answer.body == body, "who has none gets it as it came"


def test_an_answer_without_a_body_may_name_any_coding(world: World, home: Listen) -> None:
    home(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 50\r\n\r\n")
    egress = world.egress("http://a.example", reveal=reveal, secrets=GRANTED)
    assert one(egress, ("HEAD", "http://a.example/"), Answer).body == b""


@pytest.mark.parametrize(
    "lines", [("identity", "gzip"), ("gzip", "identity"), ("", "GZIP "), ("identity, gzip",)]
)
def test_several_content_encoding_lines_are_read_together(
    world: World, home: Listen, lines: tuple[str, ...]
) -> None:
    packed = gzip.compress(f"it is {SECRET}".encode())
    head = "".join(f"Content-Encoding: {each}\r\n" for each in lines)
    home(f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(packed)}\r\n\r\n".encode() + packed)
    egress = world.egress("http://a.example", reveal=reveal, secrets=GRANTED)
    answer = one(egress, "http://a.example/", Answer)
    assert answer.body.decode() == f"it is {MASK}"


def test_a_granted_secret_that_cannot_be_had_breaks_no_request_without_it(world: World, home: Listen) -> None:
    home()
    asked: list[str] = []

    def nothing(name: str) -> None:
        asked.append(name)

    egress = world.egress("http://a.example", reveal=nothing, secrets=frozenset({"one", "two"}))
    assert all(isinstance(each, Answer) for each in ask(egress, *["http://a.example/"] * 3))
    assert asked == ["one", "two"], "once for a call"


def test_no_secret_is_asked_for_before_there_is_a_request(world: World) -> None:
    asked: list[str] = []

    async def main() -> None:
        async with world.egress("a.example", reveal=asked.append, secrets=GRANTED):
            pass

    anyio.run(main)
    assert asked == []


# The seam for tests


def test_nothing_but_what_ships_for_tests_uses_the_seam_for_tests() -> None:
    source = Path(metier.__file__).parent
    for file in source.rglob("*.py"):
        if file.is_relative_to(source / "testing"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Egress"
            ):
                assert "connect" not in [keyword.arg for keyword in node.keywords], file


def test_without_the_seam_a_public_address_is_dialled_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled: list[Any] = []

    async def refuse(remote_host: str, remote_port: int, **_more: Any) -> Awaitable[None]:
        dialled.append((remote_host, remote_port))
        raise OSError("no network here")

    async def resolve(_host: str) -> list[str]:
        return [PUBLIC, PUBLIC_6]

    monkeypatch.setattr(anyio, "connect_tcp", refuse)
    egress = Egress(hosts=frozenset({"a.example:8443"}), resolver=resolve)
    assert one(egress, "https://a.example:8443/", Failed).code == "connect_failed"
    assert dialled == [(PUBLIC, 8443), (PUBLIC_6, 8443)]


@pytest.mark.parametrize("name", ["Range", "if-range"])
def test_a_secret_is_not_sent_with_a_wish_for_pieces_of_the_answer(world: World, name: str) -> None:
    egress = world.egress("a.example", reveal=lambda _name: "s3cr3t-value")
    failed = one(egress, "https://a.example/", Failed, headers={name: "bytes=0-4"}, secrets=TOKEN)
    assert failed.code == "invalid_request"
    assert "pieces" in failed.message
