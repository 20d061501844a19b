"""`[telegram]`: what of Telegram is the operator's own to say. Token and mode are settings of the skill that ships with Metier; who may
approve, where the bot listens and whom it speaks with stand here, since this file alone may loosen anything.

People are numbers. A name can be taken by somebody else tomorrow, and a group is many: neither is anybody.
"""

import re
from typing import Final, final

from msgspec import Struct

from metier.errors import ConfigError

API: Final = "https://api.telegram.org"
LISTEN: Final = "127.0.0.1:8443"
# Compiled where they are used: most installations have none.
_USER: Final = r"[1-9][0-9]{0,19}"
_HUMAN: Final = r"human:[a-z0-9][a-z0-9._@-]{0,63}"
_LISTEN: Final = r"(\[[0-9A-Fa-f:.]+\]|[0-9.]+|localhost):([0-9]{1,5})"
_HIGHEST_PORT: Final = 65_535


@final
class TelegramSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[telegram]`."""

    api: str = API
    """Where the Bot API is: Telegram's own, or one that you run yourself."""
    listen: str = LISTEN
    """Address and port of the webhook, where the skill's mode is webhook. A proxy of yours with TLS stands before it."""
    approvers: dict[str, str] = {}
    """By the number of a Telegram user: whose word his buttons are. Empty: nobody approves by Telegram."""
    customers: bool = False
    """Whether people who are in no list may write to the bot. What they write is kept as conversation and marked as theirs."""

    def chats_of(self, human: str) -> frozenset[str]:
        """Every chat that is known to be his, as `channel/chat`."""
        return frozenset(f"telegram/{user}" for user, whose in self.approvers.items() if whose == human)


def checked(written: TelegramSettings) -> TelegramSettings:
    """The same.

    Raises:
        ConfigError: when it says what cannot be.
    """
    for user, human in written.approvers.items():
        if not is_person(user):
            raise ConfigError(
                f"[telegram] approvers: {user[:40]!r} is not the number of one person",
                remedy="Write the number of a Telegram user, such as 123456789: no name, no group and no *",
            )
        if not re.fullmatch(_HUMAN, human):
            raise ConfigError(
                f"[telegram] approvers: {human[:80]!r} is no person",
                remedy="Write human:NAME as `metier principals list` has it",
            )
    if place(written.listen) is None:
        raise ConfigError(
            f"[telegram] listen {written.listen[:80]!r} is no address and port",
            remedy=f"Write it as {LISTEN}",
        )
    return written


def is_person(written: str) -> bool:
    """Whether this is the number of one person, and not a name, a group, or everybody."""
    return re.fullmatch(_USER, written) is not None


def place(listen: str) -> tuple[str, int] | None:
    """Address and port; None for what is none."""
    found = re.fullmatch(_LISTEN, listen)
    if found is None or not int(found[2]) <= _HIGHEST_PORT:
        return None
    return found[1].strip("[]"), int(found[2])
