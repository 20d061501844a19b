"""What is no request for this server, or comes from a foreign page, or has two meanings, gets no further than the guard."""

import random
from pathlib import Path

import anyio
import pytest

from metier.doors.http import guard, wire
from metier.doors.http.console.static import addresses
from metier.doors.http.guard import MOST_BODY_BYTES, Ours
from serve_kit import READ, House, Premises, code, read_all, request, status


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_web_01_only_the_names_of_this_server_are_answered(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house:
            port = house.door.port
            for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
                assert status(await house.raw(request(host=host, connection="close"))) == 200, host
            for host in (
                "evil.com", f"evil.com:{port}", f"127.0.0.1.nip.io:{port}", f"localhost.:{port}", "127.0.0.1",
                f"127.0.0.1:{port + 1}", f"evil@127.0.0.1:{port}", f"xlocalhost:{port}", f"0.0.0.0:{port}",
            ):  # fmt: skip
                answer = await house.raw(request(host=host, connection="close"))
                assert (status(answer), code(answer)) in ((421, "wrong_host"), (400, "bad_request")), (
                    host,
                    answer,
                )
            two = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.com\r\n\r\n".encode()
            none = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
            empty = b"GET /healthz HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n"
            absolute = (
                f"GET http://evil.com/healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
            )
            for data in (two, none, empty, absolute.encode()):
                assert status(await house.raw(data)) in (400, 421), data

    anyio.run(main)


def test_web_02_a_host_or_path_that_could_mean_another_place_is_refused(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house:
            for host in (f"{house.at}/evil", f"{house.at}?x", f"{house.at}#x", f"{house.at}\\evil"):
                assert status(await house.raw(request(host=host, connection="close"))) in (400, 421), host

    anyio.run(main)


ODD = (
    "//healthz", "/./healthz", "/x/../healthz", "/%2e%2e/healthz", "/x%2fhealthz", "/x%5chealthz", "/healthz%00",
    "/healthz%", "/healthz%zz", "/api/v1//audit", "/api/v1/audit;x", "/api/v1/%2E%2E/audit", "/api\\v1\\audit",
)  # fmt: skip


def test_web_12_odd_spellings_of_a_path_lead_nowhere_signed_in_or_not(premises: Premises) -> None:
    me = premises.owner()

    async def main() -> None:
        async with premises.serving() as house:
            for path in ODD:
                for more in ({}, {"authorization": f"Bearer {me}"}):
                    answer = await house.raw(request(path=path, host=house.at, connection="close", **more))
                    assert status(answer) in (400, 404), (path, answer)
            for path in ("/API/V1/audit", "/api/v1/audit/", "/api/v1/Audit", "/healthz/"):
                answer = await house.raw(
                    request(path=path, host=house.at, connection="close", authorization=f"Bearer {me}")
                )
                assert status(answer) == 404, (path, answer)

    anyio.run(main)


def test_web_12_whoever_did_not_sign_in_is_told_the_same_by_every_method(premises: Premises) -> None:
    me = premises.owner()

    async def main() -> None:
        async with premises.serving() as house:
            for method in (
                "GET",
                "HEAD",
                "OPTIONS",
                "TRACE",
                "PUT",
                "PATCH",
                "DELETE",
                "POST",
                "QUERY",
                "get",
            ):
                given = request(method, "/api/v1/audit", host=house.at, connection="close")
                assert status(await house.raw(given)) == 401, method
                given = request(
                    method, "/api/v1/audit", host=house.at, connection="close", authorization=f"Bearer {me}",
                    x_http_method_override="GET", x_method_override="GET",
                )  # fmt: skip
                answer = await house.raw(given)
                assert status(answer) == (200 if method in ("GET", "HEAD") else 405), (method, answer)
                if status(answer) == 405:
                    assert b"allow: GET, HEAD" in answer.replace(b"Allow", b"allow")

    anyio.run(main)


async def fetched(house: House, method: str = "POST", *, token: str = "", **headers: str) -> tuple[int, str]:
    more = {"authorization": f"Bearer {token}"} if token else {}
    given = request(
        method, "/api/v1/calls", host=house.at, body=b"{}", connection="close",
        **{"content_type": "application/json", **more, **headers},
    )  # fmt: skip
    answer = await house.raw(given)
    return status(answer), code(answer)


def test_web_03_a_foreign_page_reaches_nothing(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            foreign = (403, "foreign_page")
            for origin in (
                "null", "http://evil.com", f"https://{house.at}", f"http://{house.at}.evil.com", "http://127.0.0.1",
                f"http://{house.at}/", "file://",
            ):  # fmt: skip
                for method in ("POST", "GET"):
                    assert await fetched(house, method, token=agent, origin=origin) == foreign, origin
            for site in ("cross-site", "same-site", "", "odd"):
                assert await fetched(house, token=agent, sec_fetch_site=site) == foreign, site
            # A cookie without a word that the page is ours: cookies do not know ports.
            assert await fetched(house, cookie="metier_session=x") == foreign
            assert await fetched(house, cookie="metier_session=x", sec_fetch_site="none") == foreign
            # And what is ours gets to who asks.
            assert (await fetched(house, token=agent, origin=f"http://{house.at}"))[0] == 422
            assert (await fetched(house, token=agent, sec_fetch_site="same-origin"))[0] == 422
            assert (await fetched(house, token=agent))[0] == 422

    anyio.run(main)


def test_web_03_what_is_the_same_for_everybody_can_be_opened_by_its_address_also_by_who_signed_in(
    premises: Premises,
) -> None:
    async def main() -> None:
        async with premises.serving() as house:
            for path in ("/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/me", "/metrics"):
                said = request(
                    path=path,
                    host=house.at,
                    connection="close",
                    cookie="metier_session=x",
                    sec_fetch_site="none",
                )
                answer = await house.raw(said)
                his = path in ("/api/v1/me", "/metrics")
                assert status(answer) == (403 if his else 200), path
                assert not his or b"remedy" in answer
                other = request(path=path, host=house.at, connection="close", sec_fetch_site="cross-site")
                assert status(await house.raw(other)) == 403

    anyio.run(main)


def test_web_03_without_the_guard_a_foreign_page_would_have_reached_it(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard.Guard, "_same_site", lambda *_: None)
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            assert (await fetched(house, token=agent, origin="http://evil.com"))[0] == 422

    anyio.run(main)


def test_web_04_only_json_is_taken(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            for kind in (
                "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx",
                "text/json", "application/json; charset=utf-16", "application/json, text/plain", "",
            ):  # fmt: skip
                assert (await fetched(house, token=agent, content_type=kind))[0] == 415, kind
            assert (await fetched(house, token=agent, content_encoding="gzip"))[0] == 415
            assert (await fetched(house, token=agent, content_type="application/json; charset=utf-8"))[
                0
            ] == 422

    anyio.run(main)


def test_web_05_nothing_is_shown_in_a_frame_and_no_script_of_others_runs(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, house.client() as client:
            for path in (
                "/",
                "/page.js",
                "/decide.js",
                "/page.css",
                "/healthz",
                "/api/v1/audit",
                "/nothing",
                "/api/v1/openapi.json",
            ):
                headers = (await client.get(path)).headers
                policy = headers["content-security-policy"]
                assert "frame-ancestors 'none'" in policy
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy and "*" not in policy
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["referrer-policy"] == "no-referrer"
                assert "server" not in headers
            page = (await client.get("/")).text
            assert "<script>" not in page and " on" not in page.replace(" one", "")

    anyio.run(main)


def test_web_08_what_proxies_would_say_is_not_believed(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house:
            given = request(
                host="evil.com", connection="close", x_forwarded_host=house.at, x_forwarded_for="127.0.0.1",
                forwarded=f"host={house.at}", x_forwarded_proto="https", x_real_ip="127.0.0.1",
            )  # fmt: skip
            assert status(await house.raw(given)) == 421

    anyio.run(main)


def test_web_11_it_does_not_listen_to_others_without_a_name(premises: Premises) -> None:
    for address in ("0.0.0.0", "192.0.2.1", "::"):  # noqa: S104  refused
        done = premises.machine.metier("serve", "--address", address, "--port", "0", check=None)
        assert done.returncode != 0
        assert "origins" in done.stderr + done.stdout


def test_web_13_no_other_file_can_be_asked_for(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, house.client() as client:
            script = addresses()["act.js"]
            for path in (
                "/base.html",
                "/static/act.js",
                "/static/0123456789abcdef/act.js",
                "/templates/base.html",
                f"{script[: -len('act.js')]}static.py",
                "/.env",
                "/static.py",
                "/doors.db",
                f"{script}/..",
                f"/..{script}",
            ):
                answer = await house.raw(request(path=path, host=house.at, connection="close"))
                assert status(answer) in (400, 404), path
            many = "bytes=" + ",".join(f"{each}-{each}" for each in range(3_000))
            answer = await client.get(script, headers={"range": many})
            assert answer.status_code == 200 and "multipart" not in answer.headers["content-type"]

    anyio.run(main)


def test_web_14_a_body_or_head_that_is_too_large_is_not_read(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            answer = await client.post(
                "/api/v1/calls", content=b"[" * 10, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 400
            head = (
                f"POST /api/v1/calls HTTP/1.1\r\nHost: {house.at}\r\nAuthorization: Bearer {agent}\r\n"
                "Content-Type: application/json\r\n"
            )
            said = f"{head}Content-Length: {MOST_BODY_BYTES + 1}\r\n\r\n"
            assert status(await house.raw(said.encode())) == 413
            chunk = b"%x\r\n%s\r\n" % (65_536, b" " * 65_536)
            many = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * (
                MOST_BODY_BYTES // 65_536 + 2
            )
            assert status(await house.raw(many)) == 413
            bomb = f"GET /healthz HTTP/1.1\r\nHost: {house.at}\r\n" + "".join(
                f"X-{n}: {'y' * 100}\r\n" for n in range(1_000)
            )
            assert status(await house.raw(bomb.encode() + b"\r\n")) in (400, 431)

    anyio.run(main)


SMUGGLED = (
    b"POST /api/v1/calls HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 6\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n"
)


def test_web_15_two_lengths_are_refused_and_what_follows_is_not_served(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house:
            answer = await house.raw(SMUGGLED % (house.at.encode(), house.at.encode()))
            assert answer.count(b"HTTP/1.1") == 1
            assert status(answer) == 400
            for chunk in (b"zz\r\n", b"-1\r\n", b"5\r\nab", b"0x5\r\nabcde\r\n0\r\n\r\n"):
                bad = (
                    f"POST /api/v1/calls HTTP/1.1\r\nHost: {house.at}\r\nContent-Type: application/json\r\n"
                    "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                ).encode() + chunk
                answer = await house.raw(bad, seconds=1.0)
                assert answer.count(b"HTTP/1.1") <= 1
                assert status(answer) in (0, 400, 401), answer

    anyio.run(main)


def test_web_15_without_the_guard_the_second_request_would_be_served(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard.Guard, "_admit", lambda *_: None)
    monkeypatch.setattr(guard, "_admit_body", lambda *_: None)

    async def main() -> None:
        async with premises.serving() as house:
            answer = await house.raw(SMUGGLED % (house.at.encode(), house.at.encode()), seconds=1.0)
            assert answer.count(b"HTTP/1.1") == 2

    anyio.run(main)


def test_web_17_who_did_not_sign_in_learns_nothing_but_that_it_is_there(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, house.client() as client:
            assert (await client.get("/healthz")).json() == {"ok": True}
            assert (await client.get("/readyz")).json() == {"ok": True}
            for path in (
                "/metrics",
                "/api/v1/skills",
                "/api/v1/tools",
                "/api/v1/audit",
                "/api/v1/events",
                "/api/v1/modules",
            ):
                answer = await client.get(path)
                assert answer.status_code == 401, path
                assert str(premises.machine.top) not in answer.text
            shown = (await client.get("/")).text + (await client.get("/page.js")).text
            assert str(premises.machine.top) not in shown

    anyio.run(main)


def test_web_22_whoever_is_slow_with_a_head_or_a_body_is_cut_off(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(wire, "BODY_SECONDS", 0.3)

    async def main() -> None:
        async with premises.serving() as house:
            head = f"POST /api/v1/calls HTTP/1.1\r\nHost: {house.at}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
            for said in (b"", b"GET /heal", head.encode(), head.encode() + b"\r\n{"):
                async with await house.connected() as stream:
                    if said:
                        await stream.send(said)
                    with anyio.fail_after(5):
                        await read_all(stream, 10)  # ends because the server ends it
            # A byte now and then does not help.
            async with await house.connected() as stream:
                with anyio.fail_after(5), pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                    while True:
                        await stream.send(b"G")
                        with anyio.move_on_after(0.05):
                            await stream.receive()

    anyio.run(main)


def test_web_22_there_is_room_for_so_many_and_the_idle_go_first(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_CONNECTIONS", 4)
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            silent = [await house.connected() for _ in range(8)]
            async with house.client(agent) as client:
                assert (await client.post("/api/v1/calls", json=READ)).status_code == 200
            for each in silent:
                await each.aclose()

    anyio.run(main)


def test_a_length_means_one_number_to_every_reader(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            body = b'{"tool": "read_skill", "arguments": {"name": "writing-skills"}}'
            for length in (f"{len(body):018}", f"{len(body):017}"):
                asked = request(
                    "POST", "/api/v1/calls", host=house.at, content_type="text/plain", content_length=length,
                    connection="close", authorization=f"Bearer {agent}",
                )  # fmt: skip
                answer = await house.raw(asked + body)
                assert (status(answer), code(answer)) == (400, "bad_request"), answer

    anyio.run(main)


def test_only_a_cookie_of_ours_needs_a_page_of_ours_and_none_where_a_token_is_shown(
    premises: Premises,
) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            for headers, expected in (
                ({"cookie": "jupyter=1", "authorization": f"Bearer {agent}"}, 200),
                ({"cookie": "metier_session=1", "authorization": f"Bearer {agent}"}, 200),
                ({"cookie": "jupyter=1"}, 401),
                ({"cookie": "jupyter=1; metier_session=1"}, 403),
                ({"cookie": "__Host-metier=1"}, 403),
            ):
                asked = request(path="/api/v1/me", host=house.at, connection="close", **headers)
                assert status(await house.raw(asked)) == expected, headers

    anyio.run(main)


def test_the_names_of_a_server_are_exact() -> None:
    ours = Ours.at("127.0.0.1", 8765, ("https://metier.example.org",))
    assert ours.hosts == {b"127.0.0.1:8765", b"localhost:8765", b"[::1]:8765", b"metier.example.org"}
    assert ours.origins == {
        b"http://127.0.0.1:8765", b"http://localhost:8765", b"http://[::1]:8765", b"https://metier.example.org",
    }  # fmt: skip


def test_web_03_nothing_is_upgraded_and_no_other_origin_is_let_read(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            for path in ("/", "/api/v1/events", "/mcp", "/healthz"):
                asked = request(
                    path=path, host=house.at, connection="Upgrade", upgrade="websocket", sec_websocket_version="13",
                    sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==",
                )  # fmt: skip
                assert status(await house.raw(asked, seconds=0.5)) in (200, 401, 404), path
            preflight = request(
                "OPTIONS", "/api/v1/calls", host=house.at, connection="close", origin="http://evil.com",
                access_control_request_method="POST", access_control_request_headers="authorization",
            )  # fmt: skip
            answer = await house.raw(preflight)
            assert status(answer) == 403
            for origin in ("http://evil.com", f"http://{house.at}"):
                asked = request(
                    path="/api/v1/skills",
                    host=house.at,
                    connection="close",
                    origin=origin,
                    authorization=f"Bearer {agent}",
                )
                assert b"access-control" not in (await house.raw(asked)).lower()

    anyio.run(main)


def test_web_18_garbage_is_answered_or_cut_off_and_the_server_goes_on(premises: Premises) -> None:
    chance = random.Random(7)  # noqa: S311  it only has to be the same each time
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            good = request(
                "POST", "/api/v1/calls", host=house.at, body=b'{"tool": "x"}', content_type="application/json"
            )
            for number in range(300):
                data = bytearray(good if number % 3 else chance.randbytes(chance.randrange(1, 400)))
                for _ in range(chance.randrange(1, 8)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                answer = await house.raw(
                    bytes(data[: chance.randrange(1, len(data) + 1)]) + b"\r\n\r\n", seconds=0.02
                )
                assert status(answer) < 500, (bytes(data), answer)
                assert b"Traceback" not in answer
            async with house.client(agent) as client:
                assert (await client.post("/api/v1/calls", json=READ)).status_code == 200

    anyio.run(main)


def test_web_01_and_04_without_the_guard_another_name_and_a_form_would_have_been_answered(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard.Guard, "_admit", lambda *_: None)
    monkeypatch.setattr(guard, "_admit_body", lambda *_: None)
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house:
            assert status(await house.raw(request(host="evil.com", connection="close"))) == 200
            assert (await fetched(house, token=agent, content_type="text/plain"))[0] == 422

    anyio.run(main)


def test_web_22_without_the_clocks_a_slow_head_would_stay(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire.Wire, "_arm", lambda *_: None)
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.2)

    async def main() -> None:
        async with premises.serving() as house, await house.connected() as stream:
            await stream.send(b"GET /heal")
            await anyio.sleep(1.0)
            await stream.send(f"thz HTTP/1.1\r\nHost: {house.at}\r\nConnection: close\r\n\r\n".encode())
            assert status(await read_all(stream, 5)) == 200

    anyio.run(main)
