"""Where a machine keeps what no skill may reach. Only the words for it: who fills them in has looked at the disk."""

from typing import final

from msgspec import Struct

from metier.model.program import OperatorProgram


@final
class Ground(Struct, frozen=True, kw_only=True):
    """Where this machine keeps what matters here."""

    state: str = ""
    """Metier's own folder."""
    workspace: str = ""
    """Made when something is granted in it."""
    home: str = ""
    """Of the operator."""
    started_from: tuple[str, ...] = ()
    """The folders in which the operator's programs are looked for."""
    trusted_roots: tuple[str, ...] = ()
    """The folders whose skills are trusted at first use."""
    decides_by: tuple[str, ...] = ()
    """Files that Metier decides by and that may lie anywhere: configuration and policy."""
    secret_files: tuple[str, ...] = ()
    """Files that hold a secret the operator named."""
    links: dict[str, str] = {}
    """Each of these places that has another spelling, on the disk or where the operator writes it, and that one."""
    interpreters: frozenset[str] = frozenset()
    """Shells and interpreters that the operator named as programs a skill may be granted."""
    programs: dict[str, OperatorProgram] = {}
    """Names of programs that stand for the file the operator says, and not for what his path has."""
