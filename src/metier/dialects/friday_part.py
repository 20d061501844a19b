"""One map of a friday file while it is read: typed looks at its fields, and which of them nobody asked for."""

from typing import final

from metier.dialects.draft import Draft
from metier.model.diagnostic import Severity
from metier.model.digest import Json
from metier.model.text import one_line


@final
class Part:
    """Mutable, and alive only within one compile. A field with something wrong is said, and then counts as absent."""

    __slots__ = ("asked", "draft", "fields", "key", "label", "sound")

    def __init__(self, draft: Draft, fields: dict[str, Json], label: str = "", key: str = "") -> None:
        self.draft = draft
        self.fields = fields
        self.label = label
        """What findings begin with; empty for the file itself."""
        self.key = key
        """Top-level field whose line is given with every finding."""
        self.asked: set[str] = set()
        self.sound = True
        """Whether there was no error so far."""

    def note(self, code: str, severity: Severity, message: str, key: str = "") -> None:
        """Say something about this part, and there about the field `key`."""
        place = self.key or key
        quoted = f'"{place}"'  # a key of a JSON file; the bare word would be found anywhere
        found = quoted if place and quoted in self.draft.document.block else place
        self.draft.note(code, severity, f"{self.label}: {message}" if self.label else message, found)
        if severity == "error":
            self.sound = False

    def part(self, key: str) -> "Part | None":
        """The map in the field `key`, as a part of its own."""
        value = self._value(key)
        return Part(self.draft, value, self.label, self.key) if isinstance(value, dict) else None

    def text(self, key: str, most: int, *, needed: bool = False) -> str:
        """The text in `key`, as it is; empty when there is none, or nothing but blanks."""
        value = self._value(key)
        if self._is_blank(key):
            if needed:
                self.note("bad_field", "error", f"`{key}` is missing; write it as a text", key)
            return ""
        if not isinstance(value, str):
            self.note("bad_field", "error", f"`{key}` is no text; write it in quotes", key)
            return ""
        if len(value) > most:
            message = f"`{key}` has {len(value):,} characters and {most:,} are the most; shorten it"
            self.note("too_long", "error", message, key)
            return ""
        return value

    def one_of(self, key: str, allowed: tuple[str, ...], *, needed: bool = False) -> str:
        """The word in `key`, provided it is one of those; else nothing. A key that is there and says nothing is an error."""
        value = self.text(key, 200, needed=needed)
        if not value and not needed and key in self.fields and self._is_blank(key):
            message = f"`{key}` says nothing; it can be {', '.join(allowed)}; write one, or remove it"
            self.note("bad_field", "error", message, key)
        elif value and value not in allowed:
            message = f'`{key}` is "{one_line(value, 40)}"; it can be {", ".join(allowed)}'
            self.note("bad_field", "error", message, key)
            return ""
        return value

    def flag(self, key: str) -> bool | None:
        """Yes, no, or None when it is not said. Whatever is no JSON boolean is an error."""
        self.asked.add(key)
        if key not in self.fields:
            return None
        value = self.fields[key]
        if isinstance(value, bool):
            return value
        self.note("bad_field", "error", f"`{key}` says neither true nor false; write one of them", key)
        return None

    def number(self, key: str, most: float) -> float | None:
        """A number above 0 and up to `most`."""
        value = self._value(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            message = f"`{key}` must be a number above 0 and at most {most:,}"
            self.note("bad_field", "error", message, key)
            return None
        return value

    def whole(self, key: str, least: int, most: int) -> int | None:
        """A whole number from `least` to `most`."""
        value = self._value(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            message = f"`{key}` must be a whole number from {least} to {most:,}"
            self.note("bad_field", "error", message, key)
            return None
        return value

    def texts(self, key: str, most: int, *, bounds: bool = False) -> tuple[str, ...] | None:
        """A list of texts, each once; None when there is no list.

        Args:
            bounds: whether the list says what is the most; then null is an error, for it must not mean "no bound".
        """
        value = self._value(key)
        if value is None and not (bounds and key in self.fields):
            return None
        if not isinstance(value, list):
            self.note("bad_field", "error", f"`{key}` is no list; write a list of texts", key)
            return None
        found: list[str] = []
        for item in value:
            if not isinstance(item, str) or not item.strip() or len(item) > most:
                message = f"`{key}` holds what is no text of 1 to {most:,} characters; mend or remove it"
                self.note("bad_field", "error", message, key)
                return None
            found.append(item)
        return tuple(dict.fromkeys(found))

    def maps(self, key: str, most: int) -> list[dict[str, Json]]:
        """A list of maps; empty when there is none."""
        value = self._value(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.note("bad_field", "error", f"`{key}` is no list of maps; write [{{ … }}]", key)
            return []
        if len(value) > most:
            self.note("bad_field", "error", f"`{key}` has {len(value)} items and {most} are the most", key)
            return []
        return [item for item in value if isinstance(item, dict)]

    def unread(self) -> dict[str, Json]:
        """The fields that nobody asked for."""
        return {key: value for key, value in self.fields.items() if key not in self.asked}

    def _is_blank(self, key: str) -> bool:
        value = self.fields.get(key)
        return value is None or (isinstance(value, str) and not value.strip())

    def _value(self, key: str) -> Json:
        self.asked.add(key)
        return self.fields.get(key)
