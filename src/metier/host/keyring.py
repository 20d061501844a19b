"""The keyring of the operating system, where the operator says that a secret lies there. It takes the extra `keyring`.

Only keyrings that the system itself guards are used. Others that the library may find, such as a plain file, would keep a secret
worse than Metier does, and nobody would notice.
"""

from typing import Any, Final

from metier.errors import StateError

_GUARDED: Final = (
    "keyring.backends.SecretService",
    "keyring.backends.libsecret",
    "keyring.backends.kwallet",
    "keyring.backends.macOS",
    "keyring.backends.Windows",
)
_CHAIN: Final = "keyring.backends.chainer"
_REMEDY: Final = "Log in where the keyring is open (a desktop session), or keep the secret with `metier secrets set`, which needs none"


def read_keyring(place: str) -> str:
    """The value at `service/name`.

    Raises:
        StateError: when there is no keyring here, or nothing at that place.
    """
    service, _, name = place.partition("/")
    library = _library()
    try:
        value: object = _guarded(library).get_password(service, name)
    except library.errors.KeyringError as error:
        raise _closed(error) from None
    if not isinstance(value, str) or not value:
        raise StateError(
            f"the keyring has nothing for {name!r} of {service!r}",
            remedy=f"Set it: keyring set {service} {name}",
        )
    return value


def write_keyring(place: str, value: str) -> None:
    """Keep `value` at `service/name`.

    Raises:
        StateError: when there is no keyring here, or it takes nothing.
    """
    service, _, name = place.partition("/")
    library = _library()
    try:
        _guarded(library).set_password(service, name, value)
    except library.errors.KeyringError as error:
        raise _closed(error) from None


def _library() -> Any:
    try:
        import keyring  # an extra
    except ImportError:
        raise StateError(
            "the library for keyrings is not installed", remedy="pip install 'metier[keyring]'"
        ) from None
    return keyring


def _guarded(library: Any) -> Any:
    """The keyring that would be asked, or the first of several, if the system guards it."""
    found: Any = library.get_keyring()
    each: Any = found
    if type(found).__module__ == _CHAIN:
        each = next(iter(found.backends), None)
    if each is None or not type(each).__module__.startswith(_GUARDED):
        raise StateError("there is no keyring of the operating system here", remedy=_REMEDY)
    return each


def _closed(error: Exception) -> StateError:
    # What the library says may hold anything; what kind of error it is says enough.
    why = "it is locked" if "Locked" in type(error).__name__ else "it gave an error"
    return StateError(f"the keyring of the operating system could not be used: {why}", remedy=_REMEDY)
