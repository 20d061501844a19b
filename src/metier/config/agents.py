"""`[agents]` and `[memory]`: the model that agents of the workspace speak to, and what may be found of its memories."""

import re
from typing import Annotated, Final, final

from msgspec import Meta, Struct

from metier.errors import ConfigError

NAMED: Final = "agents.key"
"""What the key is called where secrets have names."""
_URL: Final = r"(?i:https?)://[^\s/?#@\\]+(?:/[^\s?#\\]*)?"
MODEL: Final = r"^[!-~]{1,200}\Z"


@final
class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents]`: an OpenAI-compatible endpoint for agents that are a text with instructions."""

    url: str = ""
    """Up to, and not including, `/v1/chat/completions`. Empty: there is none, and such agents do not run."""
    key: str = ""
    """A reference as in `[secrets]`. Empty: the endpoint wants none."""
    model: Annotated[str, Meta(pattern=MODEL)] | None = None
    """For agents that name none."""


@final
class MemorySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[memory]`: what skills may find."""

    private: bool = False
    """Whether they find memories that say they are private."""


def checked(written: AgentSettings, path: str) -> AgentSettings:
    """The same, where all of it can be.

    Raises:
        ConfigError: when it cannot.
    """
    if written.key and not written.url:
        raise ConfigError(
            f"{path}: [agents] has a key and no url: a key belongs to one place",
            remedy="Write url beside it, or take the key out",
        )
    if written.url and not re.fullmatch(_URL, written.url):
        raise ConfigError(
            f"{path}: [agents] url is no address of the form https://models.example.com",
            remedy="Write http:// or https://, a host and a port; nothing before the host and no ? or #",
        )
    if written.key:
        from metier.config.secret_references import read_references

        read_references({NAMED: written.key}, where=f"{path}, [agents]")
    return written
