"""A password signs its person in; everything else takes as much work, says as little, and is tried only so often."""

from typing import Any

import anyio
import pytest
from anyio import to_thread

from browser import Browser, browser, link_of
from metier.catalog.here import owner
from metier.doors.http import limits_sign_in as limits
from metier.doors.http import passwords, sign_in
from metier.record.credentials import revoke_credential, set_credential
from metier.record.doors_db import DoorsDb
from serve_kit import House, Premises

PASSWORD = "correct horse battery staple"
WHERE = "/api/v1/sign-in/password"


async def bind(house: House, password: str = PASSWORD, who: str = "human:ada") -> None:
    body = await to_thread.run_sync(passwords.hashed, password)
    database, me = house.engine.state.database, owner()
    assert set_credential(database, "password", name=who, principal=who, body=body, by=me, owner=me) == ""


async def tried(it: Browser, password: str = PASSWORD, who: str = "human:ada", **headers: str) -> int:
    answer = await it.post(WHERE, {"id": who, "password": password}, **headers)
    assert password not in answer.text
    return answer.status_code


def test_web_10_a_changed_or_removed_password_ends_what_it_began(premises: Premises) -> None:
    premises.person("ada", "viewer")

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it, browser(house) as owners:
            await owners.post("/api/v1/sign-in/link", {"token": await link_of(house)})
            await bind(house)
            assert await tried(it) == 200
            assert await it.me() == 200
            await bind(house, "another horse battery staple")
            assert await it.me() == 401
            assert await tried(it) == 401
            assert await tried(it, "another horse battery staple") == 200
            await bind(house, "another horse battery staple")  # the same words, and still a new one
            assert await it.me() == 401
            assert await tried(it, "another horse battery staple") == 200
            database = house.engine.state.database
            assert revoke_credential(database, "password", name="human:ada", by=owner()) == ""
            assert await it.me() == 401
            assert await tried(it, "another horse battery staple") == 401
            assert await owners.me() == 200

    anyio.run(main)


def test_web_09_who_is_not_there_takes_the_same_work_and_the_same_words(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    premises.person("ada", "viewer")
    premises.person("bob", "viewer")
    checked: list[bytes | None] = []
    real = passwords.matches

    def noted(body: bytes | None, password: str) -> bool:
        checked.append(body)
        return real(body, password)

    monkeypatch.setattr(passwords, "matches", noted)

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await bind(house)
            answers: list[Any] = []
            for who in (
                "human:ada",
                "human:bob",
                "human:nobody",
                "agent:cli",
                owner(),
                "",
                "*",
                "human:ada' --",
                "human:ada\n",
            ):
                answer = await it.post(WHERE, {"id": who, "password": "wrong horse battery"})
                answers.append((answer.status_code, answer.text) if who else answer.status_code)
            assert answers.pop(5) == 422
            assert len(set(answers)) == 1
            assert answers[0][0] == 401
            assert len(checked) == 8
            assert sum(each is not None for each in checked) == 1

    anyio.run(main)


def test_web_09_one_account_is_tried_so_often_and_no_more_from_wherever(premises: Premises) -> None:
    premises.person("ada", "viewer")

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await bind(house)
            doors = house.door.doors
            for number in range(limits.ACCOUNT[0]):
                assert limits.counted(doors, address=f"203.0.113.{number}", account="human:ada") > 0
            answer = await it.post(WHERE, {"id": "human:ada", "password": PASSWORD})
            assert (answer.status_code, answer.json()["code"]) == (429, "too_many_attempts")
            assert 0 < int(answer.headers["retry-after"]) <= limits.ACCOUNT[1] + 1
            # The owner has links, so nobody shuts him out.
            assert (await it.post("/api/v1/sign-in/link", {"token": await link_of(house)})).status_code == 200

    anyio.run(main)


def test_web_09_without_the_limit_there_is_no_end_to_trying(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "counted", lambda *_, **__: 1.0)
    monkeypatch.setattr(passwords, "matches", lambda *_: False)  # so that it takes no time here

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            assert {await tried(it, f"wrong horse {number}") for number in range(3 * limits.ACCOUNT[0])} == {
                401
            }

    anyio.run(main)


def test_web_09_every_way_and_every_spelling_of_an_address_is_counted_together(premises: Premises) -> None:
    doors = DoorsDb(str(premises.machine.state))
    try:
        spelled = ("203.0.113.7", "::ffff:203.0.113.7", "::ffff:cb00:7107")
        assert {limits.place(each) for each in spelled} == {"203.0.113.7"}
        assert limits.place("2001:db8::1") == limits.place("2001:db8::ffff:1")
        assert limits.place("2001:db8::1") != limits.place("2001:db8:0:1::1")
        assert {limits.place(each) for each in ("127.0.0.1", "::1", "::ffff:127.0.0.1")} == {"127.0.0.1"}
        for number in range(limits.ADDRESS[0]):
            account = f"human:{number}" if number % 2 else ""
            assert limits.counted(doors, address=spelled[number % 3], account=account) > 0
        for each in spelled:
            assert limits.counted(doors, address=each) < 0
            assert limits.counted(doors, address=each, account="human:somebody") < 0
        assert limits.counted(doors, address="203.0.113.8") > 0
    finally:
        doors.close()
    again = DoorsDb(str(premises.machine.state))  # a server that is started again counts on
    try:
        assert limits.counted(again, address="203.0.113.7") < 0
    finally:
        again.close()


def test_net_35_one_client_has_one_key_however_its_address_is_spelled() -> None:
    for spelled in (
        ("203.0.113.7", "::ffff:203.0.113.7", "::FFFF:CB00:7107", "0:0:0:0:0:ffff:203.0.113.7", "::ffff:203.0.113.7%eth0"),
        ("127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.9"),
        ("2001:db8::1", "2001:DB8:0:0:1::", "2001:0db8::ffff"),
    ):  # fmt: skip
        assert len({limits.place(each) for each in spelled}) == 1, spelled
    assert limits.place("203.0.113.7") != limits.place("203.0.113.8")


def test_who_tries_links_shuts_out_no_password_elsewhere(premises: Premises) -> None:
    doors = DoorsDb(str(premises.machine.state))
    try:
        for number in range(limits.ALL[0] + 1):
            assert limits.counted(doors, address=f"203.0.{number // 20}.7") > 0
        assert limits.counted(doors, address="198.51.100.1", account="human:ada") > 0
        # Passwords are counted for all together: looking at one is work.
        for number in range(limits.ALL[0]):
            limits.counted(doors, address=f"192.0.2.{number // 20}", account=f"human:a{number}")
        assert limits.counted(doors, address="198.51.100.2", account="human:bea") < 0
    finally:
        doors.close()


def test_web_08_what_a_header_says_about_an_address_does_not_count(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            doors = house.door.doors
            for number in range(limits.ADDRESS[0]):
                assert limits.counted(doors, address="127.0.0.1", account=f"human:{number}") > 0
            for name in ("x-forwarded-for", "forwarded", "x-real-ip", "client-ip"):
                assert (
                    await tried(it, **{name: "for=203.0.113.99" if name == "forwarded" else "203.0.113.99"})
                    == 429
                )

    anyio.run(main)


def test_a_try_that_was_right_is_held_against_nobody(premises: Premises) -> None:
    premises.person("ada", "viewer")

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await bind(house)
            for _ in range(3):
                assert await tried(it, "wrong horse battery") == 401
                assert await tried(it) == 200
            with house.door.doors.reading() as connection:
                rows = dict(connection.execute("SELECT who, count(*) FROM attempt GROUP BY who").fetchall())
            assert rows == {"at 127.0.0.1": 3, "*": 3}  # what was wrong stays against the address

    anyio.run(main)


def test_passwords_are_checked_two_at_once_and_the_line_has_an_end(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes 64 MiB: who sends many at once must not take all there is."""
    import threading

    release, at_once, most = threading.Event(), 0, 0
    lock = threading.Lock()

    def slow(*_: object) -> bool:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        release.wait(10)
        with lock:
            at_once -= 1
        return False

    monkeypatch.setattr(passwords, "matches", slow)

    async def main() -> None:
        async with premises.serving() as house:
            statuses: list[int] = []

            async def one(number: int) -> None:
                async with browser(house) as it:
                    statuses.append(await tried(it, who=f"human:p{number}"))
                    if statuses[-1] == 429:
                        release.set()

            async with anyio.create_task_group() as tasks:
                for number in range(16):
                    tasks.start_soon(one, number)
            assert set(statuses) == {401, 429}
            assert most == 2

    anyio.run(main)


def test_sec_03_a_password_is_in_no_answer_log_or_file(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    premises.person("ada", "viewer")
    caplog.set_level(0)

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await bind(house)
            for body in (
                {"id": "human:ada", "password": PASSWORD},
                {"id": "human:ada", "password": PASSWORD, "more": 1},
                {"id": PASSWORD, "password": PASSWORD + "!"},
                {"id": 1, "password": PASSWORD},
                {"password": [PASSWORD]},
            ):
                assert PASSWORD not in (await it.post(WHERE, body)).text
            odd = f'{{"id": "human:ada", "password": "{PASSWORD}", "password": "{PASSWORD}"'
            answer = await it.client.post(
                WHERE, content=odd, headers={**it.page, "content-type": "application/json"}
            )
            assert answer.status_code == 400
            assert PASSWORD not in answer.text

    anyio.run(main)
    assert PASSWORD not in caplog.text
    for file in premises.machine.state.rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("odd", ["", "short", "x" * 300, "aaaaaaaaaaaaaaaa", "adaadaadaada"])
def test_what_is_guessed_at_once_is_no_password(odd: str) -> None:
    assert passwords.problem_of(odd, "human:ada")
    assert passwords.problem_of(PASSWORD, "human:ada") == ""


def test_one_password_however_a_keyboard_spells_it() -> None:
    kept = passwords.hashed("Zo\u00eb walks the dog")
    assert passwords.matches(kept, "Zoe\u0308 walks the dog")
    assert not passwords.matches(kept, "Zoe walks the dog")
    assert not passwords.matches(b"no hash at all", "Zoe walks the dog")
    assert not passwords.matches(b"\xff", "x")
    assert b"argon2id" in kept


def test_the_sign_in_of_a_person_who_may_do_nothing_is_none(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it cannot be recorded, nobody is signed in either."""
    premises.person("ada", "viewer")

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await bind(house)

            def full(*_: object, **__: object) -> None:
                from metier.errors import StateError

                raise StateError("the disk is full", remedy="Make room")

            with monkeypatch.context() as before:
                before.setattr(sign_in, "note_sign_in", full)
                answer = await it.post(WHERE, {"id": "human:ada", "password": PASSWORD})
                assert answer.status_code == 503
                assert "set-cookie" not in answer.headers
            with house.door.doors.reading() as connection:
                assert connection.execute("SELECT count(*) FROM session").fetchone() == (0,)
            assert await tried(it) == 200

    anyio.run(main)


def test_sec_09_the_command_line_takes_a_password_from_standard_input_and_never_as_an_argument(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from metier.doors.cli import metier

    premises.person("ada", "viewer")
    premises.agent()
    run = CliRunner()
    refused = run.invoke(metier, ["principals", "password", "human:ada", PASSWORD])
    assert refused.exit_code == 2
    assert PASSWORD not in refused.output.replace(f"({PASSWORD})", "")
    done = run.invoke(metier, ["principals", "password", "human:ada"], input=PASSWORD + "\n")
    assert done.exit_code == 0, done.output
    assert PASSWORD not in done.output
    short = run.invoke(metier, ["principals", "password", "human:ada"], input="short\n")
    assert short.exit_code == 1
    agent = run.invoke(metier, ["principals", "password", "agent:bot"], input=PASSWORD + "\n")
    assert agent.exit_code == 1
    assert "not a person" in agent.output
    ways = run.invoke(metier, ["principals", "ways"])
    assert "human:ada  by a password" in ways.output

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            assert await tried(it) == 200
            gone = await to_thread.run_sync(
                lambda: run.invoke(metier, ["principals", "password", "human:ada", "--remove"])
            )
            assert gone.exit_code == 0
            assert await it.me() == 401

    anyio.run(main)
