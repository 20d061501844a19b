"""A skill while it is being read: words found so far, fields kept for others, and what there is to say."""

from typing import Any, Final, final

from metier.dialects.frontmatter import Document
from metier.model.diagnostic import Diagnostic, Severity
from metier.model.digest import Json

MOST_NOTES: Final = 50
"""A file with more to say about it than this is not read to the end by anybody."""


@final
class Draft:
    """Mutable, and alive only within one compile."""

    __slots__ = ("document", "extra", "notes", "unsaid", "words")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.words: dict[str, Any] = {}
        """Arguments for `Skill`."""
        self.extra: dict[str, Json] = {}
        self.notes: list[Diagnostic] = [*document.diagnostics]
        self.unsaid = 0

    def note(self, code: str, severity: Severity, message: str, key: str = "") -> None:
        """Say something about the field `key`. Errors are always said."""
        if len(self.notes) >= MOST_NOTES and severity != "error":
            self.unsaid += 1
            return
        line = self.document.line_of(key) if key else None
        if line is None and severity == "error":
            line = 1
        self.notes.append(Diagnostic(code=code, severity=severity, message=message, line=line))
