"""A program that the operator named for skills: which file it is, and what he gives to it besides what a skill has."""

from typing import Final, final

from msgspec import Struct

from metier.model.permission import WORKSPACE, PermissionSet
from metier.model.text import one_line

_LONGEST: Final = 500


@final
class OperatorProgram(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[binaries.programs.NAME]`. What it is given is the program's: no code of a skill that has it run holds any of it."""

    file: str = ""
    """The one real file. Empty: that of Metier's own program of this name."""
    spellings: frozenset[str] = frozenset()
    """Other texts by which skills may call it, each whole, for example `/usr/local/bin/ical-query`."""
    before: tuple[str, ...] = ()
    """Arguments that always come first."""
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    """Paths as in a permission set, absolute or below `{workspace}`."""
    hosts: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    """Variables of the operator that are passed on."""
    environment: dict[str, str] = {}
    """Variables with fixed values; `{workspace}` in one is filled in."""

    @property
    def carries(self) -> bool:
        """Whether it holds for whoever has it run what a skill takes the operator's word for: hosts, variables, files outside the
        workspace."""
        away = any(path.partition("/")[0] != WORKSPACE for path in self.reads | self.writes)
        return away or bool(self.hosts or self.env or self.environment)

    @property
    def besides(self) -> PermissionSet:
        """What it may touch that the skill need not."""
        return PermissionSet(reads=self.reads, writes=self.writes, hosts=self.hosts, env=self.env)

    @property
    def begun_with(self) -> str:
        """The arguments that always come first, as one would type them; empty when there are none. For who looks on this machine."""
        import shlex  # only people need it

        return one_line(shlex.join(self.before), _LONGEST)

    @property
    def in_words(self) -> str:
        """Which file, and what it may touch besides, for people. Values of variables and arguments are not in it."""
        many = len(self.before)
        first = f", always begun with {many} fixed argument{'s' if many > 1 else ''}" if many else ""
        parts = (
            ("reads", self.reads),
            ("writes", self.writes),
            ("reaches", self.hosts),
            ("sees the variables", self.env | self.environment.keys()),
        )
        touches = [f"{verb} {', '.join(sorted(names))}" for verb, names in parts if names]
        return one_line(f"{self.file}{first}; it also {'; '.join(touches) or 'touches nothing'}")
