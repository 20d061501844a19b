"""How the bot is set up: the settings of the skill that ships for it, and what `[telegram]` in metier.toml says. Pure."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, cast, final

from msgspec import Struct

from metier.config.telegram import TelegramSettings, is_person
from metier.model.digest import Json
from metier.model.text import one_line
from metier.sandbox.url import Url, read_url

Mode: TypeAlias = Literal["polling", "webhook"]
SKILL_ID: Final = "@xpell/agent-skill-telegram"
SKILL: Final = "xpell-agent-skill-telegram"
CHANNEL: Final = "telegram"
TOKEN: Final = "bot_token"  # noqa: S105  the name of a setting
SECRET: Final = "webhook.secret_token"  # noqa: S105  the name of a setting
SHORTEST_POLL: Final = 5
LONGEST_POLL: Final = 60
USUAL_POLL: Final = 30


@final
class Configured(Struct, frozen=True, kw_only=True):
    """What counts now."""

    mode: Mode = "polling"
    poll_seconds: int = USUAL_POLL
    auto_start: bool = False
    admins: frozenset[int] = frozenset()
    """Who may write to the bot. People, by number."""
    nobody: tuple[str, ...] = ()
    """Entries of that list that are no person, and so let nobody in."""
    customers: bool = False
    approvers: Mapping[int, str] = {}
    webhook: str = ""
    listen: str = ""
    api: str = ""

    def may_write(self, user: int) -> bool:
        """Whether what this person writes is taken in."""
        return user in self.admins or self.customers

    @property
    def path(self) -> str:
        """Where the webhook is, on this machine."""
        url = read_url(self.webhook)
        return url.target if isinstance(url, Url) else ""


def read(values: Mapping[str, Json], own: TelegramSettings, session: Mapping[str, Json]) -> Configured:
    """What counts, with what was set for this session alone before what is stored. What cannot be read counts as what is usual."""
    mode = session.get("mode") or values.get("mode")
    seconds = _within(values, "polling", session).get("timeout_sec")
    webhook = _within(values, "webhook", {}).get("url")
    admins, nobody = _people(values.get("admin_chat_ids"))
    return Configured(
        mode="webhook" if mode == "webhook" else "polling",
        poll_seconds=min(max(int(seconds), SHORTEST_POLL), LONGEST_POLL)
        if isinstance(seconds, int | float)
        else USUAL_POLL,
        auto_start=values.get("auto_start") is True,
        admins=admins,
        nobody=nobody,
        customers=own.customers,
        approvers={int(user): human for user, human in own.approvers.items()},
        webhook=webhook if isinstance(webhook, str) else "",
        listen=own.listen,
        api=own.api,
    )


def webhook_problem(configured: Configured, secret: str | None) -> str:
    """Why no webhook can be served; empty when one can. Without a secret anybody could speak in anybody's name."""
    if not secret:
        return "mode webhook needs the setting webhook.secret_token: without it anybody could pretend to be Telegram"
    if (
        not 16 <= len(secret) <= 256
        or not secret.isascii()
        or not secret.replace("-", "").replace("_", "").isalnum()
    ):
        return "webhook.secret_token has to have 16 to 256 letters, digits, - and _"
    url = read_url(configured.webhook)
    if not isinstance(url, Url) or url.scheme != "https":
        return (
            "mode webhook needs the setting webhook.url: the https address under which Telegram reaches you"
        )
    return ""


def _within(values: Mapping[str, Json], key: str, first: Mapping[str, Json]) -> dict[str, Json]:
    made: dict[str, Json] = {}
    for each in (values.get(key), first.get(key)):
        made |= cast("dict[str, Json]", each) if isinstance(each, dict) else {}
    return made


def _people(written: Json) -> tuple[frozenset[int], tuple[str, ...]]:
    """The people in a list, and what in it is nobody: a group, a name, a star."""
    entries = [str(each).strip() for each in written] if isinstance(written, list) else []
    people = frozenset(int(each) for each in entries if is_person(each))
    return people, tuple(one_line(each, 40) for each in entries if not is_person(each))[:20]
