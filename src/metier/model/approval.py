"""Somebody's word for one exact act, and standing grants for acts like it."""

from typing import Literal, TypeAlias, final

from msgspec import Struct

from metier.model.digest import Json
from metier.model.instant import seconds_of
from metier.model.role import Kind

State: TypeAlias = Literal["pending", "approved", "denied", "expired", "spent", "void"]
Scope: TypeAlias = Literal["once", "session", "always"]


@final
class Shown(Struct, frozen=True, kw_only=True):
    """What an approver is shown. Nothing is cut; whoever prints it makes every character visible."""

    tool: str
    description: str
    principal: str
    kind: Kind
    on_behalf_of: str = ""
    behind: tuple[str, ...] = ()
    """Everybody on whose behalf it is asked, one behind the other."""
    skill: str = ""
    version: str = ""
    skill_digest: str = ""
    """Of the skill's bytes, or of the file's."""
    file: str = ""
    """Name of the owner's own file that is run. Only the process that asked has it, so no other can run it."""
    language: str = ""
    """What that file is written in."""
    arguments: dict[str, Json]
    """As validated: exactly what will run."""
    permissions: dict[str, list[str]]
    cwd: str = ""
    place: str = ""
    """What the working directory is: real path, device and inode."""
    right: str = "skills:execute"
    """The right a principal needs to call it."""
    definition: str = ""
    """Digest of the tool with all its fields."""
    programs: str = ""
    """Digest of the files its programs are, and of the agent that it starts."""
    interpreter: str = ""
    """One of its programs that runs whatever it is told, though its name does not say so."""
    stands_for: tuple[str, ...] = ()
    """Which file the operator's own programs are, and what each may touch besides, and which one the agent is that it starts; in
    words."""
    replaces: str = ""
    """Which file is lost when it runs, with its size and digest. Another one there voids the approval."""
    effect: str
    risk: str
    cost: str
    always_asks: bool = False
    """The tool says of itself that it asks every time."""
    skill_says: str = ""
    """The skill's own words for it. Not ours, and marked as such wherever they are shown."""
    ours: bool = False
    """Whether the words about the tool are Metier's own, and no skill's."""
    four_eyes: bool = False
    """Whether it took a second person's word when it was asked. That is not undone by asking elsewhere, or later."""
    project: str = ""
    """Real path of the project whose configuration restricts the call. Only there it is taken up again."""
    reasons: tuple[str, ...]
    """Why it is asked."""
    session: str = ""
    channel: str = ""
    cause: str = ""
    """The chat whose message set it off, as `channel/chat`, however many calls lie between."""
    parent: str = ""


@final
class Approval(Struct, frozen=True, kw_only=True):
    """One request for somebody's word, as it stands."""

    id: str
    call_id: str
    principal: str
    on_behalf_of: str = ""
    session: str = ""
    state: State
    asked_at: str
    expires_at: str
    """When it is over, decided or not."""
    decided_at: str = ""
    decided_by: str = ""
    scope: str = ""
    word: str = ""
    """For the model, with a denial."""
    waited_for: bool = False
    """Whether the caller is waiting right now, and will run it himself."""
    fingerprint: str = ""
    """Of the exact act, under a key that ends with the request."""
    shown: Shown | None = None
    """None once it is over: the record has what may be kept."""

    @property
    def ends(self) -> float:
        """`expires_at` in Unix seconds; 0 where that is no moment."""
        return seconds_of(self.expires_at)


@final
class StandingGrant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer given in advance. Empty means no such limit; what it does not fit is asked as ever."""

    id: str
    tool: str
    principal: str
    on_behalf_of: str = ""
    definition: str = ""
    """Digest of the tool with all its fields: another description is another tool."""
    skill: str = ""
    skill_digest: str = ""
    """Other bytes of the skill, or of the owner's own file, are another matter. Empty only where there are none."""
    file: str = ""
    """Name of that file."""
    arguments: str = ""
    """Keyed digest of the exact arguments; empty when any will do."""
    key: str = ""
    """What `arguments` is keyed with, as hex."""
    permissions: dict[str, list[str]] = {}
    """The most a call may need."""
    cwd: str = ""
    """Real path, device and inode; empty when any will do."""
    programs: str = ""
    """Digest of the files its programs are, and of the agent that it starts; empty for what uses none."""
    session: str = ""
    risk: Literal["low", "medium", "high"] = "medium"
    """The highest risk it answers for: high only where it was named."""
    names_tool: bool = False
    """A human saw that this tool asks every time, and gave it all the same."""
    expires_at: float | None = None
    given_by: str = ""
    given_at: str = ""
    approval: str = ""
    """The request it was given with."""
    uses_left: int | None = None
