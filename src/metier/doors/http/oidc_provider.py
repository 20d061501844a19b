"""The three things that are asked of an identity provider: what it says of itself, its keys, and who signed in for a code.

All by way of Egress: the issuer's own origin wherever the operator put it, any other only where it is public, over TLS and without
redirects. What it answers is bounded, and read as strict JSON.
"""

import base64
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, final
from urllib.parse import quote, urlencode

import anyio
from anyio import to_thread
from msgspec import Struct

from metier.doors.http.oidc_tokens import Wanted, knows_key, subject_of
from metier.errors import ConfigError
from metier.model import strictjson
from metier.model.digest import Json
from metier.sandbox.egress import Egress
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.reply import Answer
from metier.sandbox.url import BadUrl, Url, read_url

if TYPE_CHECKING:
    from metier.config.serve import OidcSettings

WELL_KNOWN: Final = "/.well-known/openid-configuration"
_LIMITS: Final = EgressLimits(
    upload_bytes=16_384, download_bytes=262_144, read_seconds=5.0, total_seconds=10.0, redirects=0
)
_FRESH: Final = 600.0
"""Seconds that what a provider says of itself is kept."""
_AGAIN: Final = 30.0
"""Seconds in which its keys are asked for once, whatever key a token names."""


_SILENT: Final = 2.0
"""Seconds in which one that did not answer is not asked again: whoever waits would wait for all who came before."""


class Unanswered(Exception):
    """The provider cannot be asked, or does not answer as one. The text says why."""


class MakeEgress(Protocol):
    """How a way out is made; `Egress` itself is one."""

    def __call__(
        self, *, hosts: frozenset[str], own: str = "", limits: EgressLimits | None = None
    ) -> Egress: ...


@final
class About(Struct, frozen=True, kw_only=True):
    """What a provider says of itself."""

    authorization: str
    token: str
    keys: str
    names_itself: bool
    """Whether it says with every answer which provider it is (RFC 9207)."""
    secret_in_body: bool
    """Whether it takes a client's secret only in the body."""


@final
class Provider:
    """One identity provider, as it is configured now. Belongs to one loop."""

    def __init__(
        self,
        settings: "OidcSettings",
        reveal: Callable[[str], str | None],
        *,
        make: MakeEgress = Egress,
    ) -> None:
        """`reveal` gives the value of a secret by its name; it blocks."""
        self.settings: Final = settings
        self._reveal = reveal
        self._make = make
        self._about: tuple[float, About] | None = None
        self._silent: tuple[float, str] | None = None
        """When it last did not answer, and what was wrong."""
        self._keys: tuple[float, Json] | None = None
        self._asking = anyio.Lock()

    async def about(self) -> About:
        """What it says of itself.

        Raises:
            Unanswered: when it says nothing, or not what its issuer says.
        """
        async with self._asking:
            if self._about is not None and time.monotonic() - self._about[0] <= _FRESH:
                return self._about[1]
            if self._silent is not None and time.monotonic() - self._silent[0] < _SILENT:
                raise Unanswered(self._silent[1])
            try:
                said = await self._get(self.settings.issuer.rstrip("/") + WELL_KNOWN)
                about = _read(said, self.settings.issuer)
            except Unanswered as error:
                self._silent = (time.monotonic(), str(error))
                raise
            self._about = (time.monotonic(), about)
            return about

    async def subject(self, code: str, verifier: str, nonce: str, back: str) -> str:
        """Who signed in, for the code that he came back with.

        Raises:
            Unanswered: when the provider does not say.
            BadToken: when what it says is not its word on this sign-in.
        """
        about = await self.about()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        secret = await self._secret()
        if secret and not about.secret_in_body:
            pair = f"{quote(self.settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": self.settings.client_id} | ({"client_secret": secret} if secret else {})
        said = await self._ask("POST", about.token, headers=headers, body=urlencode(form).encode())
        token = said.get("id_token")
        if not isinstance(token, str):
            raise Unanswered("the provider gave no id token")
        wanted = Wanted(
            issuer=self.settings.issuer,
            client_id=self.settings.client_id,
            nonce=nonce,
            algorithms=self.settings.algorithms,
        )
        return subject_of(token, await self._keys_for(about, token), wanted, now=time.time())

    async def _secret(self) -> str:
        if not self.settings.secret:
            return ""
        found = await to_thread.run_sync(self._reveal, self.settings.secret)
        if not found:
            raise Unanswered("the secret that [serve.oidc] names cannot be had")
        return found

    async def _keys_for(self, about: About, token: str) -> Json:
        async with self._asking:
            kept = self._keys
            age = time.monotonic() - kept[0] if kept is not None else _FRESH
            if kept is not None and (age < _AGAIN or (age < _FRESH and knows_key(kept[1], token))):
                return kept[1]
            found = await self._get(about.keys)
            self._keys = (time.monotonic(), found)
            return found

    async def _get(self, url: str) -> dict[str, Json]:
        return await self._ask("GET", url, headers={"Accept": "application/json"})

    async def _ask(
        self, method: str, url: str, *, headers: dict[str, str], body: bytes = b""
    ) -> dict[str, Json]:
        place = read_url(url)
        if isinstance(place, BadUrl):
            raise Unanswered("an address of the provider cannot be read")
        try:
            made = self._way_out(place)
        except ConfigError as error:
            raise Unanswered(f"the provider cannot be asked: {error.message}") from None
        async with made as egress:
            reply = await egress.request(method, url, headers=headers, body=body, follow=False)
        if not isinstance(reply, Answer):
            raise Unanswered(f"the provider does not answer: {reply.message}")
        if reply.status != 200 or reply.truncated:
            raise Unanswered(f"the provider answers with status {reply.status}{_why(reply.body)}")
        try:
            value = strictjson.loads(reply.body)
        except ValueError:
            raise Unanswered("the provider answers with something that is no JSON") from None
        if not isinstance(value, dict):
            raise Unanswered("the provider answers with something else than was asked for")
        return value

    def _way_out(self, place: Url) -> Egress:
        """The issuer's origin is the operator's own to choose. What it names beside that has to be public, so that it cannot send
        us into his network."""
        issuer = read_url(self.settings.issuer)
        if not isinstance(issuer, BadUrl) and place.origin == issuer.origin:
            return self._make(hosts=frozenset(), own=place.origin, limits=_LIMITS)
        if place.scheme != "https":
            raise Unanswered("the provider names an address without TLS")
        return self._make(hosts=frozenset({f"{place.host}:{place.port}"}), limits=_LIMITS)


def named_error(code: object) -> str:
    """What a provider calls what is wrong, in brackets, where that is one of the words there are for it."""
    return f" ({code})" if isinstance(code, str) and code in _ERRORS else ""


def _why(body: bytes) -> str:
    try:
        said = strictjson.loads(body)
    except ValueError:
        return ""
    return named_error(said.get("error")) if isinstance(said, dict) else ""


_ERRORS: Final = frozenset(
    {
        *(
            "access_denied",
            "invalid_client",
            "invalid_grant",
            "invalid_request",
            "invalid_scope",
            "server_error",
        ),
        *(
            "temporarily_unavailable",
            "unauthorized_client",
            "unsupported_grant_type",
            "unsupported_response_type",
        ),
        *("account_selection_required", "consent_required", "interaction_required", "login_required"),
    }
)
"""Of OAuth 2 and OpenID Connect. Anything else a provider, or whoever sends somebody here, writes is not repeated."""


def _read(said: dict[str, Json], issuer: str) -> About:
    if said.get("issuer") != issuer:
        raise Unanswered("the provider gives itself another name than [serve.oidc] issuer")
    methods = said.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise Unanswered("the provider does not know PKCE with S256")
    places = [said.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
    found = [each for each in places if isinstance(each, str) and not isinstance(read_url(each), BadUrl)]
    if len(found) != 3 or any("#" in each for each in found):
        raise Unanswered("the provider does not say where it is asked")
    if any(not each.startswith("https://") and issuer.startswith("https://") for each in found):
        raise Unanswered("the provider names an address without TLS")
    shown = said.get("token_endpoint_auth_methods_supported")
    in_body = isinstance(shown, list) and "client_secret_basic" not in shown and "client_secret_post" in shown
    return About(
        authorization=found[0],
        token=found[1],
        keys=found[2],
        names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        secret_in_body=in_body,
    )
