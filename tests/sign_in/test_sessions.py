"""People sign in by a link that is good once, and are signed in until they sign out, time is up, or somebody takes it back."""

import re
import time
from typing import Any

import anyio
import pytest
from anyio import to_thread

from browser import Browser, browser, link_of, sign_in
from metier.catalog.here import owner
from metier.doors.http import identity as identities
from metier.doors.http import sessions
from metier.model.role import Registered
from metier.record.audit import AuditLog
from metier.record.principals import add_principal, revoke_principal
from serve_kit import Premises


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The clock on the wall goes on."""
    began = time.time
    monkeypatch.setattr(time, "time", lambda: began() + seconds)


def test_web_10_a_link_signs_in_once_and_its_token_is_no_address(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it, browser(house) as other:
            assert await it.me() == 401
            token = await link_of(house)
            answer = await it.post("/api/v1/sign-in/link", {"token": token})
            assert answer.status_code == 200
            assert answer.json()["principal"] == owner()
            assert await it.me() == 200
            me = (await it.get("/api/v1/me")).json()
            assert (me["principal"], me["kind"], me["by"]) == (owner(), "human", "session")
            again = await other.post("/api/v1/sign-in/link", {"token": token})
            assert (again.status_code, again.json()["code"]) == (401, "sign_in_failed")
            assert token not in again.text
            assert await other.me() == 401
            log = AuditLog(house.engine.state.database)
            assert [(each.event, each.code) for each in log.tail(1)] == [("signed_in", "link")]

    anyio.run(main)


def test_web_10_of_many_who_use_one_link_at_once_one_is_signed_in(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house:
            token = await link_of(house)
            statuses: list[int] = []

            async def one() -> None:
                async with browser(house) as it:
                    statuses.append((await it.post("/api/v1/sign-in/link", {"token": token})).status_code)

            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(one)
            assert sorted(statuses) == [200] + [401] * 7

    anyio.run(main)


@pytest.mark.parametrize("seconds", [301.0, -301.0])
def test_web_10_a_link_is_over_after_five_minutes_whatever_the_clock_does(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            token = await link_of(house)
            later(monkeypatch, seconds)
            assert (await it.post("/api/v1/sign-in/link", {"token": token})).status_code == 401

    anyio.run(main)


def test_web_07_the_cookie_is_for_this_server_and_for_no_script(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            answer = await it.post("/api/v1/sign-in/link", {"token": await link_of(house)})
            said = answer.headers["set-cookie"]
            form = (
                rf"{it.name}=[0-9a-f]{{16}}\.[0-9a-f]{{64}}; Path=/; Max-Age=\d+; HttpOnly; SameSite=Strict"
            )
            assert re.fullmatch(form, said)
            assert "no-store" in answer.headers["cache-control"]
            assert it.cookie.rpartition(".")[2] not in answer.text
            # In an address, or as anything but the cookie, it is nothing.
            value = it.cookie
            it.client.cookies.clear()
            for path in (f"/api/v1/me?{it.name}={value}", f"/api/v1/me?token={value}"):
                assert (await it.get(path)).status_code == 401
            for name in ("authorization", "x-session", it.name):
                shown = f"Bearer {value}" if name == "authorization" else value
                assert (await it.get("/api/v1/me", **{name: shown})).status_code == 401

    anyio.run(main)


def test_web_04_a_cookie_counts_only_where_a_page_of_ours_asks(premises: Premises) -> None:
    """Cookies and SameSite know no ports: a page of another program on this machine has ours sent along."""

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            port = house.door.port
            foreign: list[dict[str, str]] = [
                {},
                {"sec-fetch-site": "same-site"},
                {"sec-fetch-site": "cross-site"},
                {"sec-fetch-site": "none"},
                {"sec-fetch-site": "same-origin", "origin": f"http://127.0.0.1:{port + 1}"},
                {"sec-fetch-site": "same-site", "origin": it.origin},
                {"origin": "null"},
                {"origin": f"http://127.0.0.1:{port}.evil.com"},
                {"origin": f"http://127.0.0.1:{port}/"},
                {"origin": f"https://127.0.0.1:{port}"},
            ]
            for headers in foreign:
                for method, path in (("GET", "/api/v1/me"), ("POST", "/api/v1/sign-out")):
                    body = {"json": {}} if method == "POST" else {}
                    answer = await it.client.request(method, path, headers=headers, **body)
                    assert answer.status_code == 403, (method, headers)
            # What the page itself sends is answered, so it was the page that made the difference.
            assert await it.me() == 200
            assert (await it.client.get("/api/v1/me", headers={"origin": it.origin})).status_code == 200

    anyio.run(main)


def test_web_04_without_that_check_a_foreign_page_acts_in_a_persons_name(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gatekeeper's own check, behind the guard's."""

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            keeper = house.door.serving.gatekeeper
            host = f"127.0.0.1:{house.door.port}".encode()
            foreign = [(b"host", host), (b"cookie", f"{it.name}={it.cookie}".encode())]
            from metier.doors.http.problem import Refusal

            with pytest.raises(Refusal) as refused:
                await keeper.who(foreign)
            assert refused.value.problem.code == "foreign_page"
            monkeypatch.setattr(identities, "own_page", lambda *_: True)
            assert (await keeper.who(foreign)).principal.id == owner()

    anyio.run(main)


def test_web_04_nobody_is_signed_in_by_a_foreign_page(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            token = await link_of(house)
            for headers in (
                {"origin": "https://evil.example"},
                {"origin": "null"},
                {"sec-fetch-site": "cross-site"},
                {},
            ):
                answer = await it.client.post("/api/v1/sign-in/link", json={"token": token}, headers=headers)
                assert answer.status_code == 403
            form = {**it.page, "content-type": "application/x-www-form-urlencoded"}
            assert (
                await it.client.post("/api/v1/sign-in/link", content=f"token={token}", headers=form)
            ).status_code == 415
            for method in ("GET", "HEAD", "PUT", "OPTIONS"):
                other = await it.client.request(method, "/api/v1/sign-in/link", headers=it.page)
                assert (other.status_code, other.headers["allow"]) == (405, "POST")
            assert (await it.post("/api/v1/sign-in/link", {"token": token})).status_code == 200

    anyio.run(main)


def test_web_10_signing_in_ends_the_session_that_was_there(premises: Premises) -> None:
    """Who was given a session by somebody else does not go on in it."""

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it, browser(house) as thief:
            await sign_in(house, it)
            first = it.cookie
            thief.client.cookies.set(it.name, first)
            assert await thief.me() == 200
            await sign_in(house, it)
            assert it.cookie != first
            assert await it.me() == 200
            assert await thief.me() == 401
            # One that nobody made does not become a session.
            thief.client.cookies.set(it.name, "0" * 16 + "." + "1" * 64)
            assert await thief.me() == 401

    anyio.run(main)


def test_web_10_who_signed_out_is_out_at_once_and_everywhere(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it, browser(house) as copy:
            await sign_in(house, it)
            copy.client.cookies.set(it.name, it.cookie)
            assert await copy.me() == 200
            answer = await it.post("/api/v1/sign-out")
            assert answer.status_code == 204
            assert "Max-Age=0" in answer.headers["set-cookie"]
            assert (await it.me(), await copy.me()) == (401, 401)

    anyio.run(main)


@pytest.mark.parametrize(
    ("configured", "seconds", "status"),
    [
        ("[serve]\nsession_hours = 1\nidle_minutes = 600", 3_500, 200),
        ("[serve]\nsession_hours = 1\nidle_minutes = 600", 3_601, 401),
        ("[serve]\nsession_hours = 100\nidle_minutes = 10", 590, 200),
        ("[serve]\nsession_hours = 100\nidle_minutes = 10", 601, 401),
        ("", -7_200, 401),
    ],
)
def test_web_10_a_session_is_over_on_its_hour_and_when_nobody_uses_it(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, configured: str, seconds: float, status: int
) -> None:
    """Nor does it last longer where the clock is set back."""
    premises.configured(configured)

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            assert await it.me() == 200
            later(monkeypatch, seconds)
            assert await it.me() == status

    anyio.run(main)


def test_cap_12_who_is_revoked_is_out_at_once_and_whoever_has_his_id_next_is_not_him(
    premises: Premises,
) -> None:
    ada = Registered(id="human:ada", kind="human", roles=frozenset({"viewer"}))
    premises.person("ada", "viewer")

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            from metier.doors.http.passwords import hashed
            from metier.record.credentials import set_credential

            database, me = house.engine.state.database, owner()

            def bound() -> None:
                body = hashed("correct horse battery")
                assert set_credential(database, "password", name="human:ada", principal="human:ada", body=body, by=me, owner=me) == ""  # fmt: skip

            await to_thread.run_sync(bound)
            given = {"id": "human:ada", "password": "correct horse battery"}
            assert (await it.post("/api/v1/sign-in/password", given)).status_code == 200
            assert await it.me() == 200
            keeper = house.door.serving.gatekeeper
            raw = [(b"host", it.origin[7:].encode()), (b"sec-fetch-site", b"same-origin"), (b"cookie", f"{it.name}={it.cookie}".encode())]  # fmt: skip
            identity = await keeper.who(raw)
            assert await to_thread.run_sync(keeper.still, identity)
            assert (
                await to_thread.run_sync(lambda: revoke_principal(database, "human:ada", by=me, owner=me))
                == ""
            )
            assert await it.me() == 401
            assert not await to_thread.run_sync(keeper.still, identity)
            assert (await it.post("/api/v1/sign-in/password", given)).status_code == 401
            assert await to_thread.run_sync(lambda: add_principal(database, ada, by=me, owner=me)) == ""
            assert await it.me() == 401
            assert not await to_thread.run_sync(keeper.still, identity)
            # Even where the new one has the same password.
            await to_thread.run_sync(bound)
            assert await it.me() == 401

    anyio.run(main)


def test_web_10_a_cookie_that_another_program_of_this_machine_added_keeps_nobody_out(
    premises: Premises,
) -> None:
    """Cookies know no ports: whoever serves another one can add some of our name, for any part of our addresses."""

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            mine = f"{it.name}={it.cookie}"
            it.client.cookies.clear()
            added = [f"{it.name}={each}" for each in ("x", "0" * 16 + "." + "1" * 64, "", "y" * 300)]
            for cookies in ([mine, *added], [*added, mine], [added[0], mine], [mine, mine]):
                shown = "; ".join(cookies)
                assert (await it.get("/api/v1/me", cookie=shown)).status_code == 200, cookies
                assert (await it.get("/", cookie=shown)).status_code == 200, cookies
            assert (await it.get("/api/v1/me", cookie="; ".join(added))).status_code == 401
            many = [f"{it.name}={each}" for each in range(100)]
            assert (await it.get("/api/v1/me", cookie="; ".join([*many, mine]))).status_code == 401

    anyio.run(main)


def test_web_10_two_cookies_that_both_sign_in_are_nobody_and_both_end_with_the_next(
    premises: Premises,
) -> None:
    """One of them may be of somebody who wants things done in his session."""

    async def main() -> None:
        async with (
            premises.serving() as house,
            browser(house) as it,
            browser(house) as other,
            browser(house) as third,
        ):
            for each in (it, other):
                await sign_in(house, each)
            both = f"{it.name}={it.cookie}; {it.name}={other.cookie}"
            for path in ("/api/v1/me", "/"):
                assert (await third.get(path, cookie=both)).status_code == 401
            assert (await it.me(), await other.me()) == (200, 200)  # control
            made = await third.post("/api/v1/sign-in/link", {"token": await link_of(house)}, cookie=both)
            assert made.status_code == 200
            assert (await it.me(), await other.me()) == (401, 401)

    anyio.run(main)


def test_web_10_under_https_only_the_cookie_that_no_other_host_can_set_counts() -> None:
    origins = frozenset({b"https://metier.example.org", b"http://127.0.0.1:8765"})
    from metier.doors.http.identity import by_name, cookie_name

    assert cookie_name(by_name([(b"host", b"metier.example.org")]), origins) == "__Host-metier"
    assert cookie_name(by_name([(b"host", b"127.0.0.1:8765")]), origins) == "metier_session_8765"
    assert cookie_name(by_name([(b"host", b"localhost")]), origins) == "metier_session"
    assert cookie_name(by_name([(b"host", b"[::1]")]), origins) == "metier_session"
    assert cookie_name(by_name([(b"host", b"[::1]:8765")]), origins) == "metier_session_8765"


def test_two_servers_on_one_machine_do_not_sign_each_others_people_out(premises: Premises) -> None:
    """A browser has one store of cookies for all ports of a host."""

    async def main() -> None:
        async with premises.serving() as house, premises.serving() as second, browser(house) as it:
            await sign_in(house, it)
            there = Browser(it.client, second.door.url)
            token = await link_of(second)
            answer = await it.client.post(
                f"{there.origin}/api/v1/sign-in/link", json={"token": token}, headers=there.page
            )
            assert answer.status_code == 200
            assert it.cookie and there.cookie and it.cookie != there.cookie
            for each in (it, there):
                assert (await it.get(f"{each.origin}/api/v1/me")).status_code == 200

    anyio.run(main)


def test_sec_12_a_session_and_a_link_lie_nowhere(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            token = await link_of(house)
            assert (await it.post("/api/v1/sign-in/link", {"token": token})).status_code == 200
            kept: list[str] = [token, it.cookie.rpartition(".")[2], await link_of(house)]
            for file in premises.machine.state.rglob("*"):
                data = file.read_bytes() if file.is_file() else b""
                for each in kept:
                    assert each.encode() not in data, file
            mode = (premises.machine.state / "doors.db").stat().st_mode
            assert mode & 0o077 == 0

    anyio.run(main)


def test_one_person_has_so_many_sessions_and_no_more(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_OF_ONE", 2)

    async def main() -> None:
        async with premises.serving() as house, browser(house) as a, browser(house) as b, browser(house) as c:
            for each in (a, b, c):
                await sign_in(house, each)
            seen: list[Any] = [await each.me() for each in (a, b, c)]
            assert seen == [401, 200, 200]

    anyio.run(main)


def test_a_state_that_is_brought_back_brings_back_nobody_who_was_signed_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from metier.doors.cli import metier

    run, kept = CliRunner(), premises.machine.top / "kept.backup"

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            made = await to_thread.run_sync(lambda: run.invoke(metier, ["backup", str(kept)]))
            assert made.exit_code == 0, made.output

    anyio.run(main)
    assert (premises.machine.state / "doors.db").exists()
    again = premises.machine.top / "again"
    monkeypatch.setenv("METIER_HOME", str(again))
    restored = run.invoke(metier, ["restore", str(kept)])
    assert restored.exit_code == 0, restored.output
    assert (again / "state.db").exists()
    assert not list(again.glob("doors.db*"))
