"""Settings over a real store and real sealed files, and skills read from contracts as packages export them."""

from pathlib import Path
from typing import Any, cast

import anyio

from metier.catalog.catalog import Catalog
from metier.catalog.listed import Listed
from metier.config.settings import Root
from metier.dialects.xbot import of_contract
from metier.host.sealed import Sealed
from metier.kernel.capability import Capability
from metier.kernel.events import Events, Happened
from metier.kernel.modules import Modules
from metier.kernel.operation import Asked, OperationError
from metier.kernel.secrets import SecretStore
from metier.kernel.settings import SkillSettings
from metier.kernel.store import Store
from metier.model.call import Principal
from metier.model.digest import Json
from metier.model.skill import Skill

MASK = "••••••••"
TOKEN = "7654321:AAbot-token-of-the-test"
OWNER = Principal(id="human:me", kind="human", roles=frozenset({"owner"}))
BOT_ID = "@me/bot"
BOT = "me-bot"
BOT_SETTINGS: dict[str, Any] = {
    "defaults": {"mode": "polling", "polling": {"timeout_sec": 30}, "admins": []},
    "schema": {
        "title": "The bot",
        "fields": [
            {
                "key": "bot_token",
                "label": "Token",
                "type": "string",
                "secret": True,
                "help": "From BotFather",
            },
            {
                "key": "mode",
                "label": "Mode",
                "type": "select",
                "options": [
                    {"label": "Polling", "value": "polling"},
                    {"label": "Webhook", "value": "webhook"},
                ],
            },
            {"key": "polling.timeout_sec", "label": "Timeout", "type": "number"},
            {"key": "auto_start", "label": "Start by itself", "type": "boolean"},
            {"key": "admins", "label": "Admins", "type": "string_list", "placeholder": "12345"},
            {"key": "webhook.url", "label": "Address", "type": "string"},
            {"key": "webhook.secret_token", "label": "Secret", "type": "string"},
        ],
    },
    "sensitive": ["bot_token", "webhook.secret_token"],
}


def bot(settings: Any = BOT_SETTINGS, *, id: str = BOT_ID, version: str = "1.0.0") -> Skill:
    """The skill of a contract with these settings."""
    fields: dict[str, Any] = {
        "id": id,
        "version": version,
        "has_on_enable": True,
        "has_on_disable": False,
        "capabilities": {"kernel_ops": ["settings.set_skill"]},
    }
    if settings is not None:
        fields["settings"] = settings
    made = of_contract(fields, manifest="package.json", location="/s/bot", source="installed")
    assert made.skill is not None, made.diagnostics
    return made.skill


def by_skill(name: str = BOT) -> Principal:
    return Principal(id=f"skill:{name}", kind="skill", on_behalf_of="human:me")


class Desk:
    """The two modules, asked as the gate asks them."""

    def __init__(self, home: Path, *skills: Skill) -> None:
        home.mkdir(mode=0o700, exist_ok=True)
        self.home = home
        self.skills = {each.name: each for each in skills or (bot(),)}
        self.store = Store(str(home))
        self.sealed = Sealed(str(home))
        self.events = Events()
        self.happened: list[Happened] = []
        self._heard = self.events.listening(self.happened.append)
        self._heard.__enter__()
        self.references: dict[str, str] = {}
        self.settings = SkillSettings(self.store, self.sealed, self.events, self.catalog)
        self.secrets = SecretStore(self.sealed, lambda: self.references)
        self.capability = Capability()
        self.modules = Modules([self.settings.module(), self.secrets.module()], self.capability)

    def catalog(self) -> Catalog:
        root = Root(path="/s", kind="user", trusted=True)
        return Catalog(
            by_name={
                name: Listed(name=name, folder=f"/s/{name}", root=root, skill=skill)
                for name, skill in self.skills.items()
            }
        )

    def ask(self, operation: str, who: Principal = OWNER, **arguments: Json) -> Any:
        module, _, name = operation.partition(".")
        asked = Asked(call_id="call_1", principal=who, module=module, operation=name, arguments=arguments)
        return anyio.run(self.modules.do, asked, self.capability)

    def refusal(self, operation: str, who: Principal = OWNER, **arguments: Json) -> OperationError:
        try:
            value = self.ask(operation, who, **arguments)
        except OperationError as error:
            return error
        raise AssertionError(f"it was done: {value}")

    def set(self, patch: dict[str, Any], who: Principal = OWNER, skill: str = BOT_ID) -> Any:
        return self.ask("settings.set_skill", who, skill_id=skill, patch=cast("Json", patch))

    def get(self, who: Principal = OWNER, skill: str = BOT_ID, **more: Json) -> Any:
        return self.ask("settings.get_skill", who, skill_id=skill, **more)

    def revealed(self, path: str, skill: str = BOT_ID) -> str | None:
        return anyio.run(self.settings.revealed, skill, path)

    def prepare(self, skill: Skill | None = None) -> None:
        anyio.run(self.settings.prepare, skill or self.skills[BOT])

    def row(self, skill: str = BOT) -> str | None:
        with self.store.reading() as connection:
            found = connection.execute("SELECT value FROM settings WHERE skill = ?", (skill,)).fetchone()
        return found[0] if found else None

    def close(self) -> None:
        self._heard.__exit__(None, None, None)
        self.store.close()

    def everything(self) -> bytes:
        """Every byte below the state folder but the sealed ones and the key."""
        return b"".join(
            each.read_bytes()
            for each in sorted(self.home.rglob("*"))
            if each.is_file() and each.suffix != ".age"
        )
