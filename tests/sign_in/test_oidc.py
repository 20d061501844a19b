"""Signing in by way of an identity provider: with one that is right, and with one that lies in every way there is."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from joserfc.jwk import RSAKey
from starlette.responses import JSONResponse, RedirectResponse, Response

from browser import Browser, browser
from identity_provider import (
    CLIENT,
    CURVE,
    KEY,
    OTHER,
    IdentityProvider,
    provider,
    signed_by_public_key,
    unsigned,
)
from metier.catalog.here import owner
from metier.config.load import load
from metier.doors.http import limits_sign_in as limits
from metier.doors.http import oidc, oidc_provider, oidc_tokens
from metier.errors import ConfigError
from metier.record.credentials import oidc_name, revoke_credential, set_credential
from serve_kit import House, Premises

START = "/api/v1/sign-in/oidc/start"
SECRET = "s3cr3t of the client"


@asynccontextmanager
async def at_work(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[House, IdentityProvider]]:
    """A server, its provider, and `human:ada`, who is number 42 there."""
    premises.person("ada", "viewer")
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    async with provider() as there:
        premises.configured(
            f'[serve.oidc]\nissuer = "{there.issuer}"\nclient_id = "{CLIENT}"\nsecret = "oidc_client"\n'
            '[secrets]\noidc_client = "env://OIDC_SECRET"\n'
        )
        async with premises.serving() as house:
            await to_thread.run_sync(bind, house, there.issuer)
            yield house, there


def bind(house: House, issuer: str, subject: str = "42", who: str = "human:ada") -> None:
    database, me, name = house.engine.state.database, owner(), oidc_name(issuer, subject)
    assert set_credential(database, "oidc", name=name, principal=who, body=b"", by=me, owner=me) == ""


async def begun(it: Browser) -> str:
    answer = await it.post(START)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["url"])


async def back(it: Browser, path: str) -> httpx2.Response:
    """As a browser that a page of another site sends here."""
    return await it.client.get(path, headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"})  # fmt: skip


async def signed(it: Browser, there: IdentityProvider, **instead: str) -> httpx2.Response:
    return await back(it, there.back(await begun(it), **instead))


def test_a_person_signs_in_by_way_of_the_provider(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            assert "oidc" in (await it.get("/api/v1/sign-in")).json()["ways"]
            url = await begun(it)
            assert url.startswith(f"{there.issuer}/authorize?response_type=code&client_id={CLIENT}&")
            assert "code_challenge_method=S256" in url
            flow = it.client.cookies.get(it.flow)
            assert flow
            answer = await back(it, there.back(url))
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            cookies = answer.headers.get_list("set-cookie")
            assert any("SameSite=Strict" in each and each.startswith(f"{it.name}=") for each in cookies)
            assert (await it.get("/api/v1/me")).json()["principal"] == "human:ada"
            asked = there.asked[0]
            assert asked["authorization"].startswith("Basic ")
            assert SECRET not in str({**asked, "authorization": ""})
            # Taken away here, it is over at once.
            name = oidc_name(there.issuer, "42")
            database = house.engine.state.database
            assert (
                await to_thread.run_sync(lambda: revoke_credential(database, "oidc", name=name, by=owner()))
                == ""
            )
            assert await it.me() == 401
            assert (await signed(it, there)).status_code == 401

    anyio.run(main)


def test_web_10_what_comes_back_signs_in_once_and_only_the_browser_that_went(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with (
            at_work(premises, monkeypatch) as (house, there),
            browser(house) as it,
            browser(house) as other,
        ):
            path = there.back(await begun(it))
            # Somebody else's browser is sent here with it: it would be signed in as another.
            assert (await back(other, path)).status_code == 401
            await begun(other)
            assert (await back(other, path)).status_code == 401
            assert await other.me() == 401
            flow = it.client.cookies.get(it.flow) or ""
            assert (await back(it, path)).status_code == 303
            it.client.cookies.delete(it.name)
            it.client.cookies.set(it.flow, flow)
            assert (await back(it, path)).status_code == 401
            for odd in ("", "?code=x", "?state=x", f"{path}&state=y".partition("callback")[2]):
                assert (await back(it, f"{oidc.CALLBACK}{odd}")).status_code in (400, 401)
            assert await it.me() == 401

    anyio.run(main)


@pytest.mark.parametrize(
    "instead",
    [
        {"state": "forged"},
        {"state": ""},
        {"code": ""},
        {"error": "access_denied"},
        {"iss": "https://evil.example"},
    ],
)
def test_an_answer_that_is_not_to_what_was_asked_signs_nobody_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, instead: dict[str, str]
) -> None:
    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            assert (await signed(it, there, **instead)).status_code == 401
            assert await it.me() == 401
            assert (await signed(it, there, iss=there.issuer)).status_code == 303

    anyio.run(main)


def _lies(now: int) -> dict[str, dict[str, Any]]:
    return {
        "another issuer": {"claims": {"iss": "https://evil.example"}},
        "another program": {"claims": {"aud": "somebody-else"}},
        "no program": {"claims": {"aud": None}},
        "several, given to another": {"claims": {"aud": [CLIENT, "other"], "azp": "other"}},
        "several, given to nobody": {"claims": {"aud": [CLIENT, "other"]}},
        "another sign-in": {"claims": {"nonce": "another"}},
        "no nonce": {"claims": {"nonce": None}},
        "expired": {"claims": {"exp": now - 61}},
        "no end": {"claims": {"exp": None}},
        "an end that is no time": {"claims": {"exp": True}},
        "of tomorrow": {"claims": {"iat": now + 3_600}},
        "of yesterday": {"claims": {"iat": now - 86_400}},
        "not yet": {"claims": {"nbf": now + 3_600}},
        "nobody": {"claims": {"sub": None}},
        "nobody at all": {"claims": {"sub": ""}},
        "a number": {"claims": {"sub": 42}},
        "a list": {"claims": {"sub": ["42"]}},
        "somebody unknown here": {"claims": {"sub": "43"}},
        "somebody who looks alike": {"claims": {"sub": "42 "}},
        "signed by another": {"key": OTHER},
        "another way to sign": {"header": {"alg": "RS512", "kid": "one"}},
        "a key that is not there": {"header": {"alg": "RS256", "kid": "three"}},
        "a key of another kind": {"header": {"alg": "ES256", "kid": "two"}, "key": CURVE},
        "more than is understood": {"header": {"alg": "RS256", "kid": "one", "crit": ["exp"], "exp": 1}},
        "a key that it brings along": {
            "header": {"alg": "RS256", "jwk": OTHER.as_dict(private=False)},
            "key": OTHER,
            "keys": [KEY, OTHER],
        },
        "no token": {"token": "x"},
        "no signature": {"token": unsigned({"sub": "42"})},
        "two keys of one name": {"keys": [KEY, OTHER]},
        "no keys": {"keys": []},
        "many keys": {"keys": [KEY] * 60},
        "keys that are none": {"keys": [{"kty": "RSA", "kid": "one", "n": "AA", "e": "AQAB"}]},
        "a short key": {"key": _SHORT, "keys": [_SHORT]},
    }  # fmt: skip


with pytest.warns(Warning):
    _SHORT = RSAKey.generate_key(1024, {"kid": "one", "use": "sig"})


@pytest.mark.filterwarnings("ignore:.*2048")  # the library has a word of its own on short keys
def test_web_21_a_provider_that_does_not_say_exactly_this_signs_nobody_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc_provider, "_AGAIN", 0.0)
    monkeypatch.setattr(oidc_provider, "_FRESH", 0.0)
    monkeypatch.setattr(limits, "ADDRESS", (1_000, 300.0))

    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            for lie, what in _lies(int(time.time())).items():
                honest = {name: getattr(there, name) for name in what}
                for name, value in what.items():
                    setattr(there, name, value)
                answer = await signed(it, there)
                assert (answer.status_code, answer.json()["code"]) == (401, "sign_in_failed"), lie
                assert "set-cookie" not in answer.headers
                assert await it.me() == 401
                for name, value in honest.items():
                    setattr(there, name, value)
            assert (await signed(it, there)).status_code == 303

    anyio.run(main)


def test_web_21_a_token_that_is_signed_with_what_is_public_signs_nobody_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the provider says that it signs so."""

    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            path = there.back(await begun(it))
            nonce = path.partition("code=")[2].partition("%3A")[0]
            there.token = signed_by_public_key(nonce, there.issuer)
            assert (await back(it, path)).status_code == 401

    anyio.run(main)


@pytest.mark.parametrize(
    ("check", "lie"),
    [
        ("_check", "another program"),
        ("_check", "another sign-in"),
        ("_check", "expired"),
        ("_signed", "signed by another"),
    ],
)
def test_web_21_without_the_check_the_lie_signs_somebody_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, check: str, lie: str
) -> None:
    without: Any = (
        (lambda *_: None)
        if check == "_check"
        else (lambda token, *_: oidc_tokens._object(token.split(".")[1]))
    )
    monkeypatch.setattr(oidc_tokens, check, without)

    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            for name, value in _lies(int(time.time()))[lie].items():
                setattr(there, name, value)
            assert (await signed(it, there)).status_code == 303

    anyio.run(main)


@pytest.mark.parametrize(
    "about",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"token_endpoint": None},
        {"token_endpoint": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": 7},
        {"code_challenge_methods_supported": ["plain"]},
    ],
)
def test_a_provider_that_does_not_say_what_it_is_is_none(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, about: dict[str, Any]
) -> None:
    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            there.about = about
            answer = await it.post(START)
            assert (answer.status_code, answer.json()["code"]) == (503, "provider_unavailable")
            there.about = {}
            monkeypatch.setattr(oidc_provider, "_SILENT", 0.0)
            assert (await it.post(START)).status_code == 200

    anyio.run(main)


@pytest.mark.parametrize(
    "answer",
    [
        Response(b"x" * 400_000),
        Response(b"[" * 100_000),
        Response(b'{"id_token": 1}'),
        Response(b'{"id_token": "a.b.c", "id_token": "a.b.c"}'),
        Response(b"\xff"),
        JSONResponse({"error": "invalid_grant"}, 400),
        RedirectResponse("/keys"),
        JSONResponse([]),
    ],
)  # fmt: skip
def test_a_provider_that_answers_anything_signs_nobody_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, answer: Response
) -> None:
    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            there.answer = answer
            assert (await signed(it, there)).status_code == 401
            there.answer = None
            assert (await signed(it, there)).status_code == 303

    anyio.run(main)


def test_a_provider_cannot_send_us_to_a_place_of_its_choice_in_our_network(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the issuer lies, the operator chose. What it names beside that has to be public."""
    asked: list[dict[str, Any]] = []
    real = oidc_provider.Egress

    def noted(**given: Any) -> Any:
        asked.append(given)
        return real(**given)

    async def main() -> None:
        async with (
            at_work(premises, monkeypatch) as (house, there),
            browser(house) as it,
            provider() as inside,
        ):
            path = there.back(await begun(it))
            provide = house.engine.seen.settings.serve.oidc
            made = oidc_provider.Provider(provide, lambda _: "x", make=noted)
            for place in (
                inside.issuer,
                "https://169.254.169.254",
                "https://127.0.0.1:1",
                "https://10.0.0.1",
            ):
                with pytest.raises(oidc_provider.Unanswered):
                    await made._get(f"{place}/keys")  # pyright: ignore[reportPrivateUsage]
            assert inside.key_requests == 0
            await made._get(f"{there.issuer}/keys")  # pyright: ignore[reportPrivateUsage]
            assert there.key_requests == 1
            assert all(not (each.get("own") and each["hosts"]) for each in asked)
            assert (await back(it, path)).status_code == 303

    anyio.run(main)


def test_a_provider_that_says_with_each_answer_who_it_is_must_do_so(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            there.about = {"authorization_response_iss_parameter_supported": True}
            assert (await signed(it, there)).status_code == 401
            assert (await signed(it, there, iss=there.issuer)).status_code == 303

    anyio.run(main)


def test_a_new_key_of_the_provider_is_asked_for_but_not_at_everybodys_wish(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            assert (await signed(it, there)).status_code == 303
            new = RSAKey.generate_key(2048, {"kid": "new", "use": "sig"})
            there.key, there.keys, there.header = new, [KEY, new], {"alg": "RS256", "kid": "new"}
            assert (await signed(it, there)).status_code == 401  # it was asked a moment ago
            assert there.key_requests == 1
            monkeypatch.setattr(oidc_provider, "_AGAIN", 0.0)
            assert (await signed(it, there)).status_code == 303
            assert there.key_requests == 2

    anyio.run(main)


def test_web_04_only_a_page_of_ours_sends_anybody_to_the_provider(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, _), browser(house) as it:
            for headers in ({"origin": "https://evil.example"}, {}, {"sec-fetch-site": "cross-site"}):
                assert (await it.client.post(START, json={}, headers=headers)).status_code == 403
            assert (await it.client.get(START, headers=it.page)).status_code == 405
            assert (await it.post(START)).status_code == 200
            monkeypatch.setattr(limits, "SENT", (3, 300.0))
            assert [(await it.post(START)).status_code for _ in range(4)] == [200, 200, 429, 429]

    anyio.run(main)


def test_sec_03_neither_the_clients_secret_nor_the_code_is_kept_or_told(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0, logger="metier")
    seen: list[str] = []

    async def main() -> None:
        async with at_work(premises, monkeypatch) as (house, there), browser(house) as it:
            url = await begun(it)
            seen.extend((there.back(url).partition("code=")[2].partition("%3A")[0], SECRET))
            there.answer = JSONResponse({"error": f"no such code, and {SECRET}"}, 400)
            answer = await back(it, there.back(url))
            assert not any(each in answer.text for each in seen)

    anyio.run(main)
    for each in seen:
        assert each not in caplog.text
    for file in premises.machine.state.rglob("*"):
        if (
            file.is_file() and file.name != "doors.db-wal"
        ):  # the nonce of a sign-in under way lies in doors.db until it is over
            assert SECRET.encode() not in file.read_bytes(), file


def test_without_a_provider_nobody_is_sent_anywhere(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            assert (await it.get("/api/v1/sign-in")).json() == {"ways": ["link", "password"]}
            assert (await it.post(START)).status_code == 409
            assert (await back(it, f"{oidc.CALLBACK}?code=a&state=b")).status_code == 401

    anyio.run(main)


@pytest.mark.parametrize(
    "text",
    [
        '[serve]\norigins = ["*"]',
        '[serve]\norigins = ["https://*.example.org"]',
        '[serve]\norigins = ["https://a.example.org/"]',
        '[serve]\norigins = ["https://a.example.org:443"]',
        '[serve]\norigins = ["HTTPS://a.example.org"]',
        '[serve]\norigins = ["null"]',
        '[serve]\naddress = "localhost"',
        '[serve]\nport = 70000',
        '[serve]\nsession_hours = 0',
        '[serve.oidc]\nissuer = "https://id.example.org"',
        '[serve.oidc]\nissuer = "http://id.example.org"\nclient_id = "x"',
        '[serve.oidc]\nissuer = "http://localhost.evil.example"\nclient_id = "x"',
        '[serve.oidc]\nissuer = "https://id.example.org"\nclient_id = "x"\nalgorithms = ["none"]',
        '[serve.oidc]\nissuer = "https://id.example.org"\nclient_id = "x"\nalgorithms = ["HS256"]',
        '[serve.oidc]\nissuer = "https://id.example.org"\nclient_id = "x"\nalgorithms = []',
        '[serve.oidc]\nissuer = "https://id.example.org"\nclient_id = "x"\nsecret = "the secret itself!"',
        '[serve]\npassword = "x"',
    ],
)  # fmt: skip
def test_cap_15_what_the_operator_cannot_mean_is_refused(premises: Premises, text: str) -> None:
    premises.configured(text)
    with pytest.raises(ConfigError) as error:
        load(home=str(premises.machine.state))
    assert "itself!" not in str(error.value)
    premises.configured(
        '[serve]\norigins = ["https://a.example.org", "http://127.0.0.1:9000"]\n[serve.oidc]\n'
        'issuer = "https://id.example.org/realm"\nclient_id = "x"\nalgorithms = ["ES256"]'
    )
    assert load(home=str(premises.machine.state)).serve.oidc.client_id == "x"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what it is made of
def test_with_a_provider_that_others_wrote(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    """oidc-provider-mock, over its own web server."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import oidc_provider_mock
    premises.person("ada", "viewer")
    monkeypatch.setenv("OIDC_SECRET", SECRET)

    async def main(port: int) -> None:
        issuer = f"http://localhost:{port}"
        premises.configured(
            f'[serve.oidc]\nissuer = "{issuer}"\nclient_id = "{CLIENT}"\nsecret = "oidc_client"\n'
            '[secrets]\noidc_client = "env://OIDC_SECRET"\n'
        )
        async with premises.serving() as house, browser(house) as it:
            await to_thread.run_sync(bind, house, issuer, "ada@example.org")
            for subject, status in (("ada@example.org", 303), ("eve@example.org", 401)):
                url = await begun(it)
                async with httpx2.AsyncClient(timeout=20, trust_env=False) as their_page:
                    sent = await their_page.post(url, data={"sub": subject})
                assert sent.status_code == 302
                path = sent.headers["location"].removeprefix(house.door.url)
                assert (await back(it, path)).status_code == status
            assert (await it.get("/api/v1/me")).json()["principal"] == "human:ada"

    with oidc_provider_mock.run_server_in_thread() as server:
        anyio.run(main, server.server_port)
