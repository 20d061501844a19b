"""A skill while it is being read: words found so far, fields kept for others, and what there is to say."""

from typing import Any, Final, final

from metier.dialects.frontmatter import Document
from metier.model.diagnostic import Diagnostic, Severity
from metier.model.digest import Json
from metier.model.permission import BASE_DIR, PermissionSet

OWN_FOLDER: Final = PermissionSet(reads=frozenset({BASE_DIR}))
"""What a skill may touch that declares nothing. One value for all of them."""


@final
class Draft:
    """Mutable, and alive only within one compile."""

    __slots__ = ("document", "extra", "notes", "words")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.words: dict[str, Any] = {}
        """Arguments for `Skill`."""
        self.extra: dict[str, Json] = {}
        self.notes: list[Diagnostic] = [*document.diagnostics]

    def note(self, code: str, severity: Severity, message: str, key: str = "") -> None:
        """Say something about the field `key`."""
        line = self.document.line_of(key) if key else None
        self.notes.append(Diagnostic(code=code, severity=severity, message=message, line=line))
