"""What a skill needs from the machine, and what is missing of it."""

from typing import Final, Literal, final

from msgspec import Struct

from metier.model.digest import Json

RequirementType = Literal[
    "binary",
    "binary (any of)",
    "environment variable",
    "operating system",
    "configuration",
    "hosts",
    "skill",
    "function name",
]
"""`hosts`: it wants to use the network, and nobody said which hosts. `skill`: another one it depends on. `function name`: one that
models are told, and that another skill has."""


@final
class Requirements(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Preconditions a skill declares. All empty means it runs anywhere."""

    binaries: tuple[str, ...] = ()
    any_binaries: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    """Dotted paths that must be true in the configuration."""
    os: tuple[str, ...] = ()
    always: bool = False
    """Skips every check but the operating system."""


NOTHING: Final = Requirements()
"""One value for the many skills that need nothing."""


@final
class Installer(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One way to get what is missing. Shown to people, never run."""

    kind: str
    """brew, apt, node, go, uv, pip, download, shell, or whatever the author wrote."""
    target: str = ""
    """Formula, package, module or address, depending on `kind`."""
    label: str = ""
    binaries: tuple[str, ...] = ()
    os: tuple[str, ...] = ()
    details: dict[str, Json] = {}
    """Everything else the author said, kept as it was."""


@final
class RequirementError(Struct, frozen=True, kw_only=True):
    """A requirement that is not met. A value, because a skill with one is shown, not raised."""

    type: RequirementType
    name: str
    skill: str
    install: tuple[Installer, ...] = ()

    def __str__(self) -> str:
        if self.type == "function name":  # it is a whole sentence: whose the name is, and what to do
            return f'skill "{self.skill}" requires the function name {self.name}'
        return f'skill "{self.skill}" requires {self.type} "{self.name}"'
