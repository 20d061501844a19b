"""age, as far as Metier uses it: one identity, and what is sealed for it. The only file that knows the library (0029)."""

from typing import Any, Protocol, cast, final


class _Identity(Protocol):
    def to_public(self) -> object: ...


@final
class Identity:
    """What opens. It is never printed; `text` is for the file it is kept in."""

    __slots__ = ("_identity",)

    def __init__(self, text: str | None = None) -> None:
        """Read one that was written down, or make a new one.

        Raises:
            ValueError: when `text` is none.
        """
        age = _library()
        try:
            made = age.x25519.Identity.generate() if text is None else age.x25519.Identity.from_str(text)
        except age.IdentityError:
            raise ValueError("that is no age identity") from None
        self._identity = cast("_Identity", made)

    def __repr__(self) -> str:
        return "Identity(…)"

    def __reduce__(self) -> str:
        raise TypeError("an identity is not written down by accident")

    @property
    def text(self) -> str:
        """As age writes it down. Whoever has it can open everything."""
        return str(self._identity)

    @property
    def public(self) -> str:
        """Whoever has it can seal, and open nothing."""
        return str(self._identity.to_public())

    def seal(self, data: bytes, *, armored: bool = False) -> bytes:
        """`data` as only this identity can open it; `armored` as plain text."""
        return _library().encrypt(data, [self._identity.to_public()], armored=armored)

    def open(self, data: bytes) -> bytes | None:
        """What was sealed; None where it was sealed for another, or was changed since."""
        age = _library()
        try:
            return age.decrypt(data, [self._identity])
        except age.DecryptError:
            return None


def _library() -> Any:
    import pyrage  # pyright: ignore[reportMissingTypeStubs]  (most commands open nothing)

    return pyrage
