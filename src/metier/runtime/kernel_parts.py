"""Every module there is, made and put together. Which process this is makes no difference here: what only the host does goes on
in `background`, and nobody but the host runs that."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, final

from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.config.settings import Settings
from metier.host.sealed import Sealed
from metier.host.secrets import Secrets
from metier.kernel.announce import Announcements
from metier.kernel.announce_terminal import TerminalAnnouncer
from metier.kernel.announce_ways import Announcer
from metier.kernel.announce_webhook import WebhookAnnouncer
from metier.kernel.audit_desk import AuditDesk
from metier.kernel.behalf import behind_of, since_of
from metier.kernel.calling import Calls
from metier.kernel.capability import Capability
from metier.kernel.channels import Channels
from metier.kernel.conversation_forget import forgetting
from metier.kernel.conversation_inbox import Inbox
from metier.kernel.conversations import Conversations
from metier.kernel.deliveries import Deliveries
from metier.kernel.delivery_ports import Connector, Connectors
from metier.kernel.events import Events
from metier.kernel.modules import Modules
from metier.kernel.operation import Module
from metier.kernel.operators import Desk
from metier.kernel.people import Grants, Principals
from metier.kernel.policy_desk import PolicyDesk
from metier.kernel.resident_keeper import Live
from metier.kernel.residents import Residents
from metier.kernel.schedules import Schedules
from metier.kernel.secrets import SecretStore
from metier.kernel.settings import SkillSettings
from metier.kernel.settings_watch import SettingsWatch
from metier.kernel.skill_trust import SkillTrust
from metier.kernel.skills import Skills
from metier.kernel.steer import Steer
from metier.kernel.store import Store
from metier.kernel.triggers import Triggers, no_cause
from metier.model.call import Cause
from metier.record.database import Database

Background: TypeAlias = Mapping[str, Callable[[], Awaitable[None]]]
"""What goes on while this process is the host, by a name for people."""


class Door(Protocol):
    """A door of the host's: people talk to it over a channel."""

    @property
    def channel(self) -> str: ...

    @property
    def connector(self) -> Connector: ...

    @property
    def announcer(self) -> Announcer: ...

    def module(self) -> Module: ...

    async def run(self) -> None: ...


@final
class Given(Struct, frozen=True, kw_only=True):
    """What the modules of a runtime are made with."""

    events: Events
    calls: Calls
    live: Live
    settings: Callable[[], Settings]
    catalog: Callable[[], Catalog]
    database: Database
    owner: str
    take_up: Callable[[str], Awaitable[object]]
    """Runs a call that was approved."""
    say: Callable[[str], None]
    """Tells who looks at the host."""
    doors: "Sequence[Callable[[Parts], Door]]" = ()
    cause_of: Callable[[str], Cause] = no_cause
    """What set off a call that was made here."""
    desk: Desk
    """What the operations for operators work with."""


@final
class Parts:
    """The modules of one process."""

    TELLS: Final = "messages in"
    """Of what goes on in the background: what tells of messages, which whoever was told of them then handles."""

    def __init__(self, store: Store, given: Given, capability: Capability) -> None:
        events, calls, catalog, owner = given.events, given.calls, given.catalog, given.owner
        home, since = given.settings().home, since_of(given.database)
        self.given = given
        self.store = store
        self.events = events
        sealed = Sealed(home)
        self.settings = SkillSettings(store, sealed, events, catalog)
        self.secrets = SecretStore(sealed, lambda: given.settings().secrets)
        self.inbox = Inbox(store, events)
        self.connectors = Connectors()
        self.deliveries = Deliveries(
            store, events, calls, self.connectors, owner, skill_of=lambda module: self.modules.owner(module)
        )
        self.channels = Channels(store, lambda: self.modules, catalog, self.inbox, self.deliveries)
        forget = forgetting(given.database, owner, home)
        conversations = Conversations(store, self.channels, self.deliveries, forget)
        self.triggers = Triggers(
            store=store,
            events=events,
            calls=calls,
            catalog=catalog,
            owner=owner,
            inbox=self.inbox,
            skill_of=lambda module: self.modules.owner(module),
            cause_of=given.cause_of,
            since=since,
            behind=behind_of(given.database, owner),
        )
        self.schedules = Schedules(
            store=store, events=events, calls=calls, catalog=catalog, owner=owner, since=since
        )
        self.announcements = Announcements(store, given.database, events, given.settings)
        self.residents = Residents(
            given.live,
            store,
            lambda: self.modules,
            events,
            catalog,
            given.settings,
            owner,
            self.settings,
            self.channels.unregister,
            since=since,
        )
        self.audit = AuditDesk(given.desk)
        trust = SkillTrust(given.desk).operations()
        skills = Skills(
            self.residents, store, lambda: self.modules, catalog, given.settings, lambda: calls, trust
        )
        self.doors = [each(self) for each in given.doors]
        self._ways_known = False
        own = (
            *(skills, self.settings, self.secrets, self.channels, conversations),
            *(self.triggers, self.schedules, *self.doors),
        )
        operators = (
            *(Steer(given.desk), Grants(given.desk), Principals(given.desk)),
            *(PolicyDesk(given.desk), self.audit),
        )
        self.modules = Modules(
            [*(each.module() for each in own), *(each.module() for each in operators)], capability
        )

    def background(self) -> Background:
        """What the host does all the time. The doors come last: what they bring in finds everything there.

        A process may become the host more than once.
        """
        if not self._ways_known:
            self._ways_known = True  # else approvers were told everything twice
            self.announcements.add(TerminalAnnouncer(self.given.settings, self.given.say))
            self.announcements.add(WebhookAnnouncer(self.given.settings, self._reveal))
            for door in self.doors:
                self.connectors.connect(door.channel, door.connector)
                self.announcements.add(door.announcer)
        return {
            "messages out": self.deliveries.run,
            self.TELLS: self.inbox.run,
            "triggers": self.triggers.run,
            "schedules": self.schedules.run,
            "settings": SettingsWatch(self.store, self.events, self.settings.written).run,
            "announcements": self.announcements.run,
            "skills": self.residents.run,
            "usage": self.audit.run,
            **{f"door {door.channel}": door.run for door in self.doors},
        }

    def _reveal(self, name: str) -> str | None:
        settings = self.given.settings()
        return Secrets(settings.secrets, settings.home).reveal(name)

    def close(self) -> None:
        """Let go of the store. Blocking."""
        self.store.close()
