"""What goes wrong when somebody signs in is told to the person and to the log. The page itself: tests/chromium."""

import anyio
import pytest

from browser import browser
from identity_provider import CLIENT, provider
from metier.doors.http import failures
from serve_kit import Premises

PASSWORD = "correct horse battery staple"


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
