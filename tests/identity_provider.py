"""An identity provider of our own, which does as it should until a test tells it otherwise."""

import base64
import hashlib
import hmac
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import msgspec
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from metier.doors.http.server import served

CLIENT = "metier-test"
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
OTHER = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
CURVE = ECKey.generate_key("P-256", {"kid": "two", "use": "sig"})


class IdentityProvider:
    """Gives every code to whoever has the verifier for it."""

    def __init__(self) -> None:
        self.issuer = ""
        self.subject = "42"
        self.about: dict[str, Any] = {}
        """What it says of itself beside the usual; None takes a word out."""
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "one"}
        self.key: Any = KEY
        self.keys: list[Any] = [KEY]
        self.token: str | None = None
        """Said instead of one that is made."""
        self.asked: list[dict[str, str]] = []
        """Every form that was posted for a token, with the header of the client."""
        self.key_requests = 0
        self.answer: Response | None = None
        """To whatever is posted for a token."""

    async def configuration(self, _request: Request) -> Response:
        said: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "code_challenge_methods_supported": ["S256"],
            "id_token_signing_alg_values_supported": ["RS256", "none", "HS256"],
        } | self.about
        return JSONResponse({name: value for name, value in said.items() if value is not None})

    async def jwks(self, _request: Request) -> Response:
        self.key_requests += 1
        return JSONResponse(
            {"keys": [each if isinstance(each, dict) else each.as_dict(private=False) for each in self.keys]}
        )

    async def authorize(self, request: Request) -> Response:
        """Where a browser is sent: somebody is signed in here already, and is sent back at once."""
        asked = urlsplit(request.query_params["redirect_uri"])
        return RedirectResponse(f"{asked.scheme}://{asked.netloc}{self.back(str(request.url))}", 303)

    async def exchange(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        self.asked.append({**form, "authorization": request.headers.get("authorization", "")})
        if self.answer is not None:
            return self.answer
        nonce, challenge = form["code"].split(":")
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(hashed).decode().rstrip("=") != challenge:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse({"id_token": self.token or self.made(nonce), "token_type": "Bearer"})

    def made(self, nonce: str) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": self.subject,
            "nonce": nonce,
            "iat": now,
            "exp": now + 300,
        } | self.claims
        body = msgspec.json.encode({name: value for name, value in claims.items() if value is not None})
        registry = jws.JWSRegistry(strict_check_header=False)
        return jws.serialize_compact(
            self.header, body, self.key, algorithms=[self.header["alg"]], registry=registry
        )

    def back(self, url: str, **instead: str) -> str:
        """Where a browser that was sent to `url` is sent back to, as somebody who signed in here."""
        given = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        answer = {"code": f"{given['nonce']}:{given['code_challenge']}", "state": given["state"]} | instead
        return f"{urlsplit(given['redirect_uri']).path}?{urlencode({k: v for k, v in answer.items() if v})}"


@asynccontextmanager
async def provider() -> AsyncGenerator[IdentityProvider]:
    """One that listens on this machine."""
    made = IdentityProvider()
    app = Starlette(
        routes=[
            Route("/.well-known/openid-configuration", made.configuration),
            Route("/authorize", made.authorize),
            Route("/keys", made.jwks),
            Route("/token", made.exchange, methods=["POST"]),
        ]
    )
    async with served(app, "127.0.0.1", 0) as (address, port):
        made.issuer = f"http://{address}:{port}"
        yield made


def unsigned(claims: dict[str, Any]) -> str:
    """A token that says of itself that nobody signed it."""
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def signed_by_public_key(nonce: str, issuer: str) -> str:
    """HS256 with the provider's public key as the secret: what is public, anybody can sign with. By hand: no library does it."""
    now = int(time.time())
    claims = {"iss": issuer, "aud": CLIENT, "sub": "42", "nonce": nonce, "iat": now, "exp": now + 300}
    text = f"{_part({'alg': 'HS256', 'kid': 'one'})}.{_part(claims)}"
    return f"{text}.{_spelled(hmac.digest(KEY.as_pem(private=False), text.encode(), 'sha256'))}"


def _part(value: object) -> str:
    return _spelled(msgspec.json.encode(value))


def _spelled(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
