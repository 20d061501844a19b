"""`[announce]`: how approvers hear that something waits for their word, beside the channels that have approvers of their own."""

import re
from typing import Annotated, Final, final

from msgspec import Meta, Struct

from metier.errors import ConfigError

# Compiled where they are used: most installations have no webhook.
_URL: Final = r"(?i:https?)://[^\s/?#@\\]+(?:/[^\s#\\]*)?"
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.-]{0,127}"


@final
class AnnounceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[announce]` as the operator's file has it. A project has no say in it."""

    webhook: str = ""
    """Where what waits is posted as JSON; empty means nowhere."""
    secret: str = ""
    """Name of the secret that signs what is posted. The value lies where `[secrets]` says, or in the secret store."""
    terminal: bool = True
    """Whether `metier host` prints a line."""
    batch_seconds: Annotated[float, Meta(ge=0, le=60)] = 3.0
    """What comes within so many seconds is told at once."""
    remind_minutes: Annotated[float, Meta(ge=0, le=1_440)] = 5.0
    """How long before it expires one is reminded; zero means never."""


def checked(written: AnnounceSettings, path: str) -> AnnounceSettings:
    """The same, if it can be.

    Raises:
        ConfigError: for an address that is none, and for a webhook that nobody could tell from a forged one.
    """
    if written.webhook and not re.fullmatch(_URL, written.webhook):
        raise ConfigError(
            f"{path}: [announce] webhook is no address of the form https://hooks.example.com/metier",
            remedy="Write https://, a host and a path; http:// only for this machine; nothing before the host and no #",
        )
    if written.webhook and not written.secret:
        raise ConfigError(
            f"{path}: [announce] has a webhook and no secret, so whoever receives it could not tell who sent it",
            remedy='Store one with `metier secrets set NAME` and write secret = "NAME"',
        )
    if written.secret and not re.fullmatch(_NAME, written.secret):
        raise ConfigError(
            f"{path}: [announce] secret is not the name of a secret",
            remedy="Write its name, never the secret itself",
        )
    return written
