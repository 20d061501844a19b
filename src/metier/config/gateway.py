"""`[gateway]` and `[operator]`: the gateway that messages and actions go through, and who the operator is.

What stands in the operator's file wins over the environment. The file is looked after: it is refused when others can write to
it. A variable is whatever the shell that started us happened to have, and decides only where the file says nothing. From
either come a name, an id and an address; the token stays where it lies, and only the reference to it is kept.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Final, final

from msgspec import Meta, Struct

from metier.errors import ConfigError
from metier.model.text import hidden

NAMED: Final = "gateway.token"
"""What the token is called where secrets have names."""
_LONGEST_NAME: Final = 100
# Compiled where they are used: most installations have neither.
_TELEGRAM: Final = r"-?[1-9][0-9]{0,19}"
_URL: Final = r"(?i:https?)://[^\s/?#@\\]+(?:/[^\s?#\\]*)?"
_MODEL: Final = r"^[!-~]{1,200}\Z"
_IN_THE_ENVIRONMENT: Final = {
    "url": "OPENCLAW_GATEWAY_URL",
    "token": "env://OPENCLAW_GATEWAY_TOKEN",
    "name": "OPERATOR_NAME",
    "telegram_id": "OPERATOR_TELEGRAM_ID",
}


@final
class GatewaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[gateway]`: an OpenAI-compatible endpoint, such as OpenClaw's gateway."""

    url: str = ""
    """Up to, and not including, `/v1/chat/completions`. Empty: there is none."""
    token: str = ""
    """A reference as in `[secrets]`."""
    model: Annotated[str, Meta(pattern=_MODEL)] = "openclaw"


@final
class OperatorSettings(Struct, frozen=True, kw_only=True):
    """Who the operator is. All that is told to skills of him."""

    name: str = ""
    telegram_id: str = ""


@final
class WrittenOperator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[operator]` as the file has it."""

    name: str = ""
    telegram_id: str | int = ""
    """A number, also written as a text."""


def gateway(written: GatewaySettings, environ: Mapping[str, str]) -> tuple[GatewaySettings, tuple[str, ...]]:
    """The gateway that counts, and warnings for the operator.

    Raises:
        ConfigError: when the file says what cannot be. A bad variable is only not used.
    """
    if written.token and not written.url:
        raise ConfigError(
            "[gateway] has a token and no url: a token belongs to one place",
            remedy="Write url beside it, or leave both to the environment",
        )
    if written.url and not re.fullmatch(_URL, written.url):
        raise ConfigError(
            "[gateway] url is no address of the form http://127.0.0.1:18789",
            remedy="Write http:// or https://, a host and a port; nothing before the host and no ? or #",
        )
    url, warnings = written.url, ()
    if not url and (found := environ.get(_IN_THE_ENVIRONMENT["url"], "")):
        if re.fullmatch(_URL, found):
            url = found
        else:
            warnings = (_unused("url", "no address of the form http://127.0.0.1:18789"),)
    if written.token:
        from metier.config.secret_references import read_references

        read_references({NAMED: written.token}, where="[gateway]")
    token = written.token or _IN_THE_ENVIRONMENT["token"]
    return GatewaySettings(url=url, token=token, model=written.model), warnings


def operator(
    written: WrittenOperator, environ: Mapping[str, str]
) -> tuple[OperatorSettings, tuple[str, ...]]:
    """Who the operator is, and warnings for him.

    Raises:
        ConfigError: when the file says what cannot be. A bad variable is only not used.
    """
    said = {"name": written.name, "telegram_id": str(written.telegram_id)}
    fit = {"name": _fit_name, "telegram_id": _fit_telegram}
    needed = {"name": f"a name of one line and at most {_LONGEST_NAME} characters", "telegram_id": "a number"}
    warnings: list[str] = []
    for key, value in list(said.items()):
        if value and not fit[key](value):
            raise ConfigError(f"[operator] {key} is not {needed[key]}", remedy="Mend it, or take it out")
        if not value and (found := environ.get(_IN_THE_ENVIRONMENT[key], "").strip()):
            if fit[key](found):
                said[key] = found
            else:
                warnings.append(_unused(key, f"not {needed[key]}"))
    return OperatorSettings(name=said["name"].strip(), telegram_id=said["telegram_id"]), tuple(warnings)


def _fit_name(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and not hidden(name) and not {"\n", "\t"} & set(name)


def _fit_telegram(written: str) -> bool:
    return re.fullmatch(_TELEGRAM, written) is not None


def _unused(key: str, why: str) -> str:
    return f"the variable {_IN_THE_ENVIRONMENT[key]} is {why}, so it is not used"
