"""The network of a skill that lives in JavaScript: `fetch`, over the bridge, to granted hosts alone."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

import metier.sandbox.pinned as pinned
from lives import Life, living, python, script
from loopback import PUBLIC, PUBLIC_6, Asked, Authority, Listener, World, reply
from metier.host.bridge import Bridge
from metier.host.http import Http
from metier.model.guarantee import needed
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.egress import Egress
from metier.sandbox.given import Given, given_to
from metier.sandbox.secret import MASK

HOSTS = frozenset({"http://a.example", "a.example"})
SECRET = "s3cr3t/+value-9f27"
SKILL = """
const early = fetch;  // as libraries do that keep it for later
const plain = async (answer: Response) => ({
  status: answer.status, ok: answer.ok, url: answer.url, redirected: answer.redirected,
  type: answer.headers.get("content-type"), text: await answer.clone().text(), bytes: [...await answer.bytes()].slice(0, 4),
});
class Net {
  name = "net";
  async get(params: any) { return await plain(await early(params.url, params.init)); }
  async request() {
    const form = new FormData();
    form.append("a", "b");
    const sent = [
      new Request("http://a.example/request", { method: "PUT", headers: { "X-A": "b" }, body: "ü" }),
      [new URL("http://a.example/url?q=1#part"), { headers: [["X-A", "c"], ["Content-Length", "7"]] }],
      ["http://a.example/bytes", { method: "POST", body: new Uint8Array([0, 255, 254]) }],
      ["http://a.example/search", { method: "POST", body: new URLSearchParams({ a: "b c" }) }],
      ["http://a.example/form", { method: "post", body: form }],
    ];
    const answers = [];
    for (const each of sent) answers.push((await fetch(...(Array.isArray(each) ? each : [each]) as [any])).status);
    return answers;
  }
  async json(params: any) { return await (await fetch(params.url)).clone().json(); }
  async fails(params: any) {
    try {
      await fetch(params.url, params.init);
    } catch (error: any) {
      return { type: error instanceof TypeError, name: error.name, message: error.message, kind: error.cause?.name ?? null,
        stack: String(error.stack) };
    }
    return "no error";
  }
  async abort(params: any) {
    const controller = new AbortController();
    const asked = fetch(params.url, { signal: controller.signal });
    setTimeout(() => controller.abort(), params.early ? 0 : 50);
    if (params.early) controller.abort();
    try { await asked; } catch (error: any) { return [error.name, error instanceof DOMException]; }
    return "no error";
  }
}
export const skill = { id: "net", version: "1", onEnable(ctx: any) { ctx.registerModule(new Net()); } };
"""
Start = Callable[..., Listener]


@pytest.fixture
def home(world: World) -> Iterator[Start]:
    started: list[Listener] = []

    def start(answer: Any = None, name: str = "a.example", **more: Any) -> Listener:
        started.append(Listener(answer if callable(answer) else lambda _: answer or reply(), **more))
        world.put(name, started[-1], *((PUBLIC_6,) if name != "a.example" else ()))
        return started[-1]

    yield start
    for listener in started:
        listener.close()


class Registers:
    """Answers everything, for everybody."""

    def allowed(self, permissions: PermissionSet) -> bool:
        return True

    async def answer(self, params: Any) -> Any:
        return Answered()

    async def aclose(self) -> None:
        """Nothing is held."""


@asynccontextmanager
async def networked(
    folder: Path, world: World, hosts: frozenset[str] = HOSTS, roots: str = "", given: Given | None = None
) -> AsyncGenerator[Life]:
    """The skill, alive, over a real bridge to a real way out whose public addresses end at listeners of the test."""

    def make(**more: Any) -> Egress:
        return Egress(**more, resolver=world.resolve, connect=world.connect, extra_roots=roots)

    service = Http(
        hosts,
        {"setting:token": SECRET}.get,
        make,
        given=given or Given(more=True),
        secrets=frozenset({"setting:token"}),
    )
    granted = PermissionSet(hosts=hosts)
    services: Any = {"http": service, "module.register": Registers(), "log": Registers()}
    async with Bridge("call_1", "net", granted, services) as bridge:
        host: Any = bridge
        async with living(folder, script(SKILL), host, permissions=granted) as life:
            yield life


def run(body: Callable[[], Any]) -> None:
    anyio.run(body)


def test_a_granted_host_is_fetched_as_everywhere(tmp_path: Path, world: World, home: Start) -> None:
    listener = home(
        lambda asked: reply("404 Not Found", b"\xff\x00\xfe") if "raw" in asked.target
        else reply("204 No Content", b"") if "none" in asked.target
        else reply(body='{"a": "ü"}'.encode(), Content_Type="application/json")
    )  # fmt: skip

    async def body() -> None:
        async with networked(tmp_path, world) as life:
            got: Any = await life.do("get", "net", url="http://a.example/x?q=1#part")
            assert got == {
                "status": 200, "ok": True, "url": "http://a.example/x?q=1", "redirected": False,
                "type": "application/json", "text": '{"a": "ü"}', "bytes": [123, 34, 97, 34],
            }  # fmt: skip
            raw: Any = await life.do("get", "net", url="http://a.example/raw")
            assert (raw["status"], raw["ok"], raw["bytes"]) == (404, False, [255, 0, 254])
            none: Any = await life.do("get", "net", url="http://a.example/none")
            assert (none["status"], none["text"]) == (204, "")
            assert await life.do("json", "net", url="http://a.example/") == {"a": "ü"}
            local: Any = await life.do("get", "net", url="data:text/plain,hello")
            assert local["text"] == "hello"

    run(body)
    assert listener.asked[0].target == "/x?q=1"


def test_methods_headers_and_every_kind_of_body_arrive(tmp_path: Path, world: World, home: Start) -> None:
    listener = home()

    async def body() -> None:
        async with networked(tmp_path, world) as life:
            assert await life.do("request", "net") == [200] * 5

    run(body)
    request, url, raw, search, form = listener.asked
    assert (request.line, request.body, request.headers["x-a"]) == (
        "PUT /request HTTP/1.1",
        "ü".encode(),
        "b",
    )
    assert request.headers["content-type"] == "text/plain;charset=UTF-8"
    assert (url.target, url.headers["x-a"], url.headers.get("content-length", "0")) == ("/url?q=1", "c", "0")
    assert (raw.body, search.body) == (b"\x00\xff\xfe", b"a=b+c")
    assert search.headers["content-type"].startswith("application/x-www-form-urlencoded")
    assert (form.line, b'name="a"' in form.body) == ("POST /form HTTP/1.1", True)


def test_redirects_are_followed_given_back_or_an_error_as_the_request_says(
    tmp_path: Path, world: World, home: Start
) -> None:
    home(
        lambda asked: (
            reply(body=b"there") if asked.target == "/to" else reply("302 Found", b"", Location="/to")
        )
    )

    async def body() -> None:
        async with networked(tmp_path, world) as life:
            followed: Any = await life.do("get", "net", url="http://a.example/")
            assert (followed["text"], followed["url"], followed["redirected"]) == (
                "there", "http://a.example/to", True,
            )  # fmt: skip
            manual: Any = await life.do("get", "net", url="http://a.example/", init={"redirect": "manual"})
            assert (manual["status"], manual["url"]) == (302, "http://a.example/")
            error: Any = await life.do("fails", "net", url="http://a.example/", init={"redirect": "error"})
            assert (error["type"], "it redirects" in error["message"]) == (True, True)
            fine: Any = await life.do("get", "net", url="http://a.example/to", init={"redirect": "error"})
            assert fine["text"] == "there"

    run(body)


def test_what_is_aborted_is_an_abort_error(tmp_path: Path, world: World, home: Start) -> None:
    def slow(_asked: Asked) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
        while True:
            yield b""

    home(slow)

    async def body() -> None:
        async with networked(tmp_path, world) as life:
            for early in (True, False):
                assert await life.do("abort", "net", url="http://a.example/", early=early) == [
                    "AbortError",
                    True,
                ]

    run(body)


def test_no_answer_is_a_type_error_that_says_why_and_shows_no_query(
    tmp_path: Path, world: World, home: Start
) -> None:
    home(reply(body=b"x" * 1_000_000))

    async def body() -> None:
        async with networked(tmp_path, world) as life:
            for url, kind, words in (
                ("http://a.example/large?q=mine", None, "too large"),
                ("https://a.example/no-tls", "HttpFailed", ""),
                ("no url", None, "Invalid URL"),
                ("http://x:y@a.example/", None, ""),
            ):
                got: Any = await life.do("fails", "net", url=url)
                assert got["type"], got
                assert got["name"] == "TypeError"
                assert words in got["message"]
                assert kind in (None, got["kind"])
                assert "mine" not in got["message"]
                assert ".mjs" not in got["stack"], "nobody is told where our files are"

    run(body)


@pytest.mark.parametrize("hosts", [frozenset[str](), HOSTS], ids=["no host", "another host"])
def test_a_host_that_is_not_granted_is_refused_in_a_sentence_and_nothing_is_dialled(
    tmp_path: Path, world: World, home: Start, hosts: frozenset[str]
) -> None:
    listener = home(name="b.example")

    async def body() -> None:
        async with networked(tmp_path, world, hosts) as life:
            got: Any = await life.do("fails", "net", url="http://b.example/x?key=1")
            assert (got["type"], got["kind"]) == (True, "PermissionDenied")
            assert got["message"] == (
                "fetch of http://b.example/x failed: http://b.example is not granted; "
                "grant the host 'http://b.example' if the skill should reach it"
            )
            report = await life.disable()
            assert report.violations == ()

    run(body)
    assert (listener.asked, world.dialled) == ([], [])


def test_control_the_same_request_arrives_where_the_host_is_granted(
    tmp_path: Path, world: World, home: Start
) -> None:
    listener = home(name="b.example")

    async def body() -> None:
        async with networked(tmp_path, world, frozenset({"http://b.example"})) as life:
            assert await life.do("fails", "net", url="http://b.example/x?key=1") == "no error"

    run(body)
    assert [each.target for each in listener.asked] == ["/x?key=1"]


def test_a_secret_is_named_in_a_header_and_never_seen(
    tmp_path: Path, world: World, home: Start, authority: Authority
) -> None:
    listener = home(
        lambda asked: reply(body=asked.headers["authorization"].encode()), tls=authority.server("a.example")
    )

    async def body() -> None:
        async with networked(tmp_path, world, roots=authority.roots) as life:
            named = {"Authorization": {"secret": "setting:token", "before": "Bearer "}, "X-A": "b"}
            got: Any = await life.do("get", "net", url="https://a.example/", init={"headers": named})
            assert got["text"] == f"Bearer {MASK}"
            other = {"Authorization": {"secret": "setting:other"}}
            none: Any = await life.do("fails", "net", url="https://a.example/", init={"headers": other})
            assert none["kind"] == "SecretUnavailable"

    run(body)
    assert listener.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    assert listener.asked[0].headers["x-a"] == "b"


@pytest.mark.parametrize(("given", "ended"), [(Given(more=True), False), (Given({"skill": "net"}), True)])
def test_who_writes_to_a_skill_cannot_have_it_disabled_by_naming_a_closed_address(
    tmp_path: Path, world: World, given: Given, ended: bool
) -> None:
    """The second is the control: as a call that is given nothing else, the skill itself came up with the address."""

    async def body() -> None:
        async with networked(tmp_path, world, given=given) as life:
            got: Any = await life.do("fails", "net", url="http://127.0.0.1:8080/admin")
            assert isinstance(got, NotAnswered) is ended
            if ended:
                assert [each.kind for each in (await life.over()).violations] == ["host_call"]
                return
            assert "no skill may connect to it" in got["message"]
            report = await life.disable()
            assert report.violations == ()
            assert [each.kind for each in report.denials] == ["host_call"], "it is counted with its life"

    run(body)
    assert world.dialled == []


def test_a_life_is_given_more_all_the_time(tmp_path: Path) -> None:
    from lives import Asked as Host
    from lives import job

    made = structs.replace(job(tmp_path, script(), Life(), Host()), life=None)  # as when its host is made
    assert anyio.run(given_to(made).named, "127.0.0.1", "127.0.0.1")


def test_addresses_are_looked_up_anew_after_a_while_and_judged_anew(
    tmp_path: Path, world: World, home: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    home()
    world.names["a.example"] = [[PUBLIC], [PUBLIC], ["10.0.0.1"]]

    async def body() -> None:
        async with networked(tmp_path, world) as life:
            for _ in range(2):
                assert await life.do("fails", "net", url="http://a.example/") == "no error"
            assert world.lookups == ["a.example"]
            monkeypatch.setattr(pinned, "PIN_SECONDS", 0.0)
            assert await life.do("fails", "net", url="http://a.example/") == "no error"
            assert world.lookups == ["a.example"] * 2
            got: Any = await life.do("fails", "net", url="http://a.example/")
            assert "leads to 10.0.0.1" in got["message"]

    run(body)


PYTHON = """
import urllib.request

class Net:
    name = "net"

    def get(self, params):
        with urllib.request.urlopen(params["url"], timeout=10) as answer:
            return [answer.status, answer.read().decode()]

class Skill:
    def on_enable(self, ctx):
        ctx.register_module(Net())

skill = Skill()
"""


@pytest.mark.parametrize("granted", [True, False])
def test_a_python_skill_reaches_granted_hosts_with_what_python_has(
    tmp_path: Path, world: World, home: Start, monkeypatch: pytest.MonkeyPatch, granted: bool
) -> None:
    listener = home()

    async def body() -> None:
        hosts = frozenset({"http://a.example"}) if granted else frozenset[str]()
        permissions = PermissionSet(hosts=hosts)
        from metier.model.entry import PythonHandler

        needs = needed(PythonHandler(path="skill.py", life=True), network=granted)
        monkeypatch.setattr("metier.sandbox.way_out.Egress", lambda **more: Egress(**more, **around(world)))
        async with living(tmp_path, python(PYTHON), permissions=permissions, needs=needs) as life:
            got = await life.do("get", "net", url="http://a.example/")
            assert (got == [200, "hello"]) is granted, got

    run(body)
    assert len(listener.asked) == int(granted)


def around(world: World) -> dict[str, Any]:
    return {"resolver": world.resolve, "connect": world.connect}
