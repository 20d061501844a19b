"""`[serve]`: where `metier serve` listens, under which names it is reached, and how people sign in. This file alone says so; a
project has no say in it."""

import re
from typing import Annotated, Final, final

from msgspec import Meta, Struct

from metier.errors import ConfigError

ADDRESS: Final = "127.0.0.1"
PORT: Final = 8765
# Compiled where they are used: most installations say nothing here.
_ADDRESS: Final = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
_ORIGIN: Final = r"(https?)://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?"
_ISSUER: Final = r"https?://[^\s/?#@\\]+(?:/[^\s?#\\]*)?"
_NAMED: Final = r"[A-Za-z_][A-Za-z0-9_.-]{0,127}"
_HERE: Final = r"http://(?:127\.[0-9]+\.[0-9]+\.[0-9]+|localhost|\[::1\])(?::[0-9]{1,5})?(?:/.*)?"


@final
class OidcSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[serve.oidc]`: an identity provider that people can sign in with. Left as it is, there is none."""

    issuer: str = ""
    """As it names itself, exactly."""
    client_id: Annotated[str, Meta(max_length=512)] = ""
    secret: str = ""
    """Name of the secret that this client shows; the value lies where `[secrets]` says, or in the secret store. Empty for a public one."""
    algorithms: tuple[
        Annotated[str, Meta(pattern=r"^(?:RS|PS|ES)(?:256|384|512)\Z|^Ed25519\Z|^EdDSA\Z")], ...
    ] = (
        "RS256",
        "ES256",
    )
    """How its tokens may be signed. What the provider itself says about that does not count."""


@final
class ServeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[serve]` as the operator's file has it."""

    address: str = ADDRESS
    port: Annotated[int, Meta(ge=0, le=65_535)] = PORT
    """Zero takes a free one."""
    origins: tuple[str, ...] = ()
    """Under which names browsers reach it beside its own address, behind a proxy of yours: exact, as `https://metier.example.org`. The
    first is the one that links lead to."""
    session_hours: Annotated[float, Meta(gt=0, le=720)] = 12.0
    """After that one signs in again, however busy one was."""
    idle_minutes: Annotated[float, Meta(gt=0, le=43_200)] = 120.0
    """After so long in which one went to no page and did nothing too."""
    oidc: OidcSettings = OidcSettings()


def checked(written: ServeSettings, path: str) -> ServeSettings:
    """The same, if it can be.

    Raises:
        ConfigError: for an address, a name or a provider that is none.
    """
    if not re.fullmatch(_ADDRESS, written.address):
        raise ConfigError(
            f"{path}: [serve] address {written.address[:80]!r} is no address",
            remedy=f"Write a number such as {ADDRESS}; names that browsers use stand under origins",
        )
    for each in written.origins:
        found = re.fullmatch(_ORIGIN, each)
        if (
            found is None
            or int(found[3] or 0) > 65_535
            or found[3] == {"http": "80", "https": "443"}[found[1]]
        ):
            raise ConfigError(
                f"{path}: [serve] origins: {each[:80]!r} is not how a browser writes where it is",
                remedy="Write https://metier.example.org in small letters, with :port only if it is not the usual one, and no path",
            )
    _check_oidc(written.oidc, path)
    return written


def _check_oidc(written: OidcSettings, path: str) -> None:
    if bool(written.issuer) != bool(written.client_id):
        raise ConfigError(
            f"{path}: [serve.oidc] needs an issuer and a client_id, and has one of them",
            remedy="Write both, as your identity provider shows them, or neither",
        )
    if not written.issuer:
        return
    plain = written.issuer.startswith("http:")
    if not re.fullmatch(_ISSUER, written.issuer) or (plain and not re.fullmatch(_HERE, written.issuer)):
        raise ConfigError(
            f"{path}: [serve.oidc] issuer {written.issuer[:80]!r} is no address of the form https://id.example.org",
            remedy="Write it exactly as the provider names itself; http:// only for this machine",
        )
    if written.secret and not re.fullmatch(_NAMED, written.secret):
        raise ConfigError(
            f"{path}: [serve.oidc] secret is not the name of a secret",
            remedy="Write its name, never the secret itself, and store it with `metier secrets set NAME`",
        )
    if not written.algorithms:
        raise ConfigError(
            f"{path}: [serve.oidc] algorithms is empty, so nobody could sign in",
            remedy='Leave it out, or write ["RS256"]',
        )
