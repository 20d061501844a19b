"""Signing in at the page: the request of a link is still there afterwards, and what goes wrong is told to the person and to the log."""

import anyio
import pytest
from anyio import to_thread

from browser import browser, link_of
from identity_provider import CLIENT, provider
from metier.catalog.here import owner
from metier.doors.http import failures, passwords
from metier.doors.http import limits_sign_in as limits
from metier.record.credentials import oidc_name, set_credential
from page_kit import page
from serve_kit import WRITE, House, Premises

PASSWORD = "correct horse battery staple"


async def asked(house: House, agent: str) -> str:
    async with house.client(agent) as client:
        return str((await client.post("/api/v1/calls", json=WRITE)).json()["approval_id"])


async def bind(house: House, kind: str, name: str, body: bytes) -> None:
    def write() -> str:
        database, me = house.engine.state.database, owner()
        return set_credential(database, kind, name=name, principal="human:ann", body=body, by=me, owner=me)  # type: ignore[arg-type]

    assert await to_thread.run_sync(write) == ""


def test_the_request_of_a_link_is_still_there_after_a_password(premises: Premises) -> None:
    agent = premises.agent()
    premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, page(house) as it:
            await bind(house, "password", "human:ann", await to_thread.run_sync(passwords.hashed, PASSWORD))
            approval = await asked(house, agent)
            await it.open(f"#approval={approval}")
            await it.sign_in("human:ann", "something else, and wrong")
            assert "wrong" in it.text("who") and it.visible("sign-in") and not it.visible("request")
            await it.sign_in("human:ann", PASSWORD)
            assert it.visible("choices") and approval in it.text("shown")
            assert it.saw["hash"] == f"#approval={approval}"
            assert PASSWORD not in str({name: it.saw[name] for name in ("shown", "kept", "hash")})

    anyio.run(main)


def test_the_request_of_a_link_is_still_there_after_the_way_to_the_provider_and_back(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That way leaves no fragment: the tab remembers it, and forgets it when it is back."""
    agent = premises.agent()
    premises.person("ann", "approver")
    monkeypatch.setenv("OIDC_SECRET", "s3cr3t of the client")

    async def main() -> None:
        async with provider() as there:
            premises.configured(
                f'[serve.oidc]\nissuer = "{there.issuer}"\nclient_id = "{CLIENT}"\nsecret = "oidc_client"\n'
                '[secrets]\noidc_client = "env://OIDC_SECRET"\n'
            )
            async with premises.serving() as house, page(house) as it:
                await bind(house, "oidc", oidc_name(there.issuer, "42"), b"")
                approval = await asked(house, agent)
                await it.open(f"#approval={approval}")
                assert it.visible("provider")
                await it.press("provider")
                await it.back(there.back(it.saw["went"][-1]))
                assert "human:ann" in it.text("who")
                assert it.visible("choices") and approval in it.text("shown")
                assert it.saw["hash"] == f"#approval={approval}" and it.saw["kept"] == {}

    anyio.run(main)


def test_a_used_link_says_so_and_leaves_every_other_way_in(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, page(house) as it:
            used = await link_of(house)
            await it.open(f"#token={used}")
            assert owner() in it.text("who")
            await it.open(f"#token={used}")  # from the history of the browser
            assert "used before" in it.text("who") and owner() in it.text("who") and it.visible("out")
            await it.press("out")
            await it.open(f"#token={used}")
            assert "used before" in it.text("who") and "metier sign-in" in it.text("who")
            assert it.visible("sign-in") and not it.visible("out")

    anyio.run(main)


def test_what_goes_wrong_with_a_password_is_not_called_a_wrong_password(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, page(house) as it:
            await bind(house, "password", "human:ann", await to_thread.run_sync(passwords.hashed, PASSWORD))
            monkeypatch.setattr(limits, "counted", lambda *_, **__: -7.0)
            await (await it.open()).sign_in("human:ann", PASSWORD)
            assert "tried too often" in it.text("who") and "wrong" not in it.text("who")
            monkeypatch.undo()
            await it.sign_in(" ann ", PASSWORD)  # which is how she calls herself
            assert "human:ann" in it.text("who")

    anyio.run(main)


def test_web_06_who_comes_back_from_the_provider_in_vain_is_told_why_on_a_page_and_the_log_says_it_too(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with provider() as there:
            premises.configured(f'[serve.oidc]\nissuer = "{there.issuer}"\nclient_id = "{CLIENT}"\n')
            async with premises.serving() as house, browser(house) as it:
                for odd, said in (("access_denied", " (access_denied)"), ("<script>x</script>", "")):
                    begun = (await it.post("/api/v1/sign-in/oidc/start")).json()["url"]
                    path = there.back(begun, error=odd)
                    headers = {
                        "accept": "text/html,*/*;q=0.8",
                        "sec-fetch-site": "cross-site",
                        "sec-fetch-mode": "navigate",
                        "sec-fetch-dest": "document",
                    }
                    answer = await it.client.get(path, headers=headers)
                    assert answer.status_code == 401 and answer.headers["content-type"].startswith(
                        "text/html"
                    )
                    assert (
                        f"the provider let nobody in{said}." in answer.text and "<script" not in answer.text
                    )
                    assert 'href="/"' in answer.text
                    assert "default-src 'none'" in answer.headers["content-security-policy"]
                    assert f"from 127.0.0.1: the provider let nobody in{said}" in caplog.text
                assert "<script" not in caplog.text

    anyio.run(main)


def test_web_09_who_is_not_let_in_is_in_the_log_without_what_he_typed_and_cannot_fill_it(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            for _ in range(40):
                body = {"id": f"human:{PASSWORD}", "password": PASSWORD}
                assert (await it.post("/api/v1/sign-in/password", body)).status_code in (401, 429)
            lines = [each.getMessage() for each in caplog.records if "signing in failed" in each.getMessage()]
            assert len(lines) == failures.MOST
            assert "/api/v1/sign-in/password from 127.0.0.1: name or password is wrong" in lines[0]
            assert "tried too often" in lines[-1] and PASSWORD not in caplog.text
            monkeypatch.setattr(failures, "_SECONDS", 0.0)
            await it.post("/api/v1/sign-in/password", body)
            assert "20 more times" in caplog.text

    anyio.run(main)
