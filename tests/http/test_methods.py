"""What is answered to a method that a path has not: at every path the same, and in our words."""

from pathlib import Path

import anyio
import pytest

from serve_kit import Premises

READ = (
    "GET, HEAD",
    ("/", "/healthz", "/readyz", "/metrics", "/api/v1/openapi.json", "/api/v1/skills"),
)
SEND = (
    "POST",
    ("/api/v1/sign-in/link", "/api/v1/sign-in/password", "/api/v1/sign-in/oidc/start", "/api/v1/handle"),
)
SIGN = ("GET", ("/api/v1/sign-in", "/api/v1/sign-in/oidc/callback"))


def test_a_method_that_a_path_has_not_is_refused_in_our_words_with_those_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    premises = Premises(tmp_path, monkeypatch)
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            for allowed, paths in (READ, SEND, SIGN):
                for path in paths:
                    for method in {"GET", "HEAD", "POST", "PUT", "DELETE"} - {*allowed.split(", ")}:
                        told = await client.request(method, path)
                        assert (told.status_code, told.headers["allow"]) == (405, allowed), (method, path)
                        assert told.headers["content-type"] == "application/problem+json", (method, path)
                        if method != "HEAD":
                            assert told.json()["code"] == "method_not_allowed"
                            assert told.json()["remedy"], (method, path)

    anyio.run(main)
