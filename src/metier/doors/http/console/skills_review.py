"""The answer of `skills.review` as the pages read it: what a person must see before he trusts a skill."""

from typing import final

from msgspec import Struct

from metier.model.digest import Json


@final
class Before(Struct, frozen=True, kw_only=True):
    """What was trusted last under this name."""

    digest: str
    version: str = ""
    at: str = ""
    by: str = ""
    how: str = ""


@final
class PermissionsChanged(Struct, frozen=True, kw_only=True):
    """In words; empty where nothing did."""

    added_words: str = ""
    removed_words: str = ""


@final
class FilesChanged(Struct, frozen=True, kw_only=True):
    """By their paths."""

    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []


@final
class Changed(Struct, frozen=True, kw_only=True):
    """What is other than what was trusted."""

    permissions: PermissionsChanged = PermissionsChanged()
    files: FilesChanged = FilesChanged()
    files_known: bool = True


@final
class ToolShown(Struct, frozen=True, kw_only=True):
    """One tool, as the review shows it."""

    name: str
    description: str
    effect: str
    risk: str
    cost: str
    minimum_trust: str
    approval: str
    confirmation: str | None = None
    runs: str = ""
    may: str = ""
    limits: dict[str, float] = {}
    parameters: Json = None
    returns: Json = None


@final
class HookShown(Struct, frozen=True, kw_only=True):
    """One hook that its bytes bring."""

    file: str
    events: list[str] = []
    problem: str = ""


@final
class ToolChanged(Struct, frozen=True, kw_only=True):
    """A tool of which an MCP server says something else than what was let in."""

    name: str
    how: str


@final
class ProblemShown(Struct, frozen=True, kw_only=True):
    """Something its manifest says that is wrong, or was not understood."""

    severity: str
    code: str
    message: str
    line: int | None = None


@final
class FileShown(Struct, frozen=True, kw_only=True):
    """One file of it."""

    path: str
    bytes: int


@final
class Review(Struct, frozen=True, kw_only=True):
    """What `skills.review` answers, as far as it is shown."""

    name: str
    folder: str
    digest: str = ""
    step: str = "none"
    told: str = ""
    problem: str = ""
    trusted: bool = False
    before: Before | None = None
    instead_of_bundled: bool = False
    may: str = ""
    withheld_words: str = ""
    asks_network: bool = False
    hosts: list[str] = []
    programs: list[str] = []
    tools: list[ToolShown] = []
    hooks: list[HookShown] = []
    proposed_tools: list[str] = []
    problems: list[ProblemShown] = []
    names: list[str] = []
    changed: Changed | None = None
    tools_changed: list[ToolChanged] = []
    files: list[FileShown] = []
    files_count: int = 0
    dialect: str = ""
    source: str = ""
    version: str = ""
    description: str = ""
    manifest: str = ""
