"""The keys that sign checkpoints: `<home>/keys`, private to one user, made when first needed.

`signing.key` signs. `public.keys` has a line for every key there ever was, with the records it signed for; hand it to whoever
is to check checkpoints. A key that others could have read or changed, or that has a second name, is not used.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

import msgspec

from metier.errors import StateError
from metier.record.checkpoint import Known, PublicKey, read_key, read_known
from metier.record.private import make_private_folder, require_closed, require_one_name, require_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIGNING: Final = "signing.key"
PUBLIC: Final = "public.keys"
SECRETS_KEY: Final = "secrets.age"
"""What opens the sealed secrets. It is made and read where they are."""
IN_KEYRING: Final = "keyring://"
"""How a line of that file begins which only says where the key lies."""
SecretsKey: TypeAlias = Literal["here", "keyring", "missing"]
_NEXT: Final = ".next"
"""How the name of a key ends that is to take the place of another."""
_DRAFT: Final = ".draft"
_MOST: Final = 1_048_576
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)


@final
class Signer:
    """A private key in use."""

    def __init__(self, name: str, private: "Ed25519PrivateKey") -> None:
        self._private = private
        self.public = PublicKey(name=name, raw=private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """The signature over `message`."""
        return self._private.sign(message)


@final
class Keys:
    """The keys below one state folder. Whatever writes is called while `alone`."""

    def __init__(self, home: str) -> None:
        self.folder = os.path.join(home, "keys")

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """No other process signs or changes keys meanwhile. The lock ends with whoever holds it, also when he is killed.

        Raises:
            StateError: when the folder cannot be made, or is not this user's alone.
        """
        make_private_folder(self.folder)
        if os.name != "posix":  # where there is no such lock, one person signs at a time
            yield
            return
        import fcntl

        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._clear()
            yield
        finally:
            os.close(descriptor)

    def signer(self, name: str, *, current: str) -> Signer:
        """The key that signs for the log `name`. Where the log knows none yet (`current` is empty) one is made.

        Raises:
            StateError: when it cannot be used, or is not the one that the log goes by.
        """
        path = self._path(SIGNING)
        if not os.path.lexists(path) and not current:
            self._write_private(SIGNING)
        if current:
            self._finish_rotation(current)
        if not os.path.lexists(path):
            raise _elsewhere(current, f"{path} is not there")
        found = self._load(name, SIGNING)
        if current and str(found.public) != current:
            raise _elsewhere(current, f"{path} is another one")
        return found

    @property
    def there(self) -> bool:
        """Whether a key was ever made here."""
        return any(self._has(name) for name in (SIGNING, PUBLIC))

    @property
    def anything(self) -> bool:
        """Whether there is anything here that a backup should have."""
        return self.there or self.opens_secrets

    @property
    def opens_secrets(self) -> bool:
        """Whether the key of the sealed secrets is here."""
        return self._has(SECRETS_KEY)

    @property
    def secrets_key_lies(self) -> SecretsKey:
        """Where that key is.

        Raises:
            StateError: when the file that says so cannot be read.
        """
        if not self.opens_secrets:
            return "missing"
        lines = self._read(SECRETS_KEY).splitlines()
        return "keyring" if any(line.startswith(IN_KEYRING) for line in lines) else "here"

    @property
    def whole(self) -> bool:
        """Whether both files are here."""
        return self._has(SIGNING) and self._has(PUBLIC)

    def fit(self, saved: dict[str, str]) -> bool:
        """Whether nothing is here but what `saved` has too: nothing was, or somebody was cut off while he brought it back.

        Raises:
            StateError: when what is here cannot be read.
        """
        return all(self._read(name) == saved.get(name) for name in (SIGNING, PUBLIC) if self._has(name))

    def known(self) -> tuple[Known, ...]:
        """Every public key that was ever used here, oldest first.

        Raises:
            StateError: when the list cannot be read or understood.
        """
        path = self._path(PUBLIC)
        if not os.path.lexists(path):
            return ()
        return _known_in(self._read(PUBLIC), path)

    def remember(self, key: PublicKey, since: int) -> None:
        """Note that `key` signs from record `since` on; the one before it ends there."""
        known = self.known()
        if any(each.key == key for each in known):
            return
        if known and known[-1].until is None:
            known = (*known[:-1], msgspec.structs.replace(known[-1], until=since))
        self._replace(PUBLIC, "".join(f"{each}\n" for each in (*known, Known(key=key, since=since))).encode())

    def next(self, name: str) -> Signer:
        """A new key that is not in use yet."""
        file = f"{os.urandom(8).hex()}{_NEXT}"
        self._write_private(file)
        made = self._load(name, file)
        os.rename(self._path(file), self._path(_next_name(made.public)))
        return made

    def use_next(self, key: PublicKey) -> None:
        """From now on `key` signs, and the old one is gone, with every other that never came into use."""
        os.replace(self._path(_next_name(key)), self._path(SIGNING))
        for file in os.listdir(self.folder):
            if file.endswith(_NEXT):
                with suppress(FileNotFoundError):
                    os.unlink(self._path(file))
        _sync(self.folder)

    def drop_next(self, key: PublicKey) -> None:
        """`key` will not come into use."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(_next_name(key)))

    def saved(self) -> dict[str, str]:
        """Everything that is needed to sign on elsewhere, by the names of the files.

        Raises:
            StateError: when there is no key, or it cannot be read.
        """
        return {name: self._read(name) for name in (SIGNING, PUBLIC)}

    def everything(self) -> dict[str, str]:
        """The same with the key of the sealed secrets; each as far as it is here.

        Raises:
            StateError: when one cannot be read.
        """
        found = self.saved() if self.there else {}
        return {**found, SECRETS_KEY: self._read(SECRETS_KEY)} if self.opens_secrets else found

    def secrets_key(self) -> str:
        """The key of the sealed secrets.

        Raises:
            StateError: when there is none, or it cannot be read.
        """
        return self._read(SECRETS_KEY)

    def bring_back(self, saved: dict[str, str]) -> None:
        """Write what `saved` gave, where there are no keys yet.

        Raises:
            StateError: when it cannot be written.
        """
        with self.alone():
            for name in (SIGNING, PUBLIC, SECRETS_KEY):
                if name in saved:
                    self._replace(name, saved[name].encode(), new=True)

    def _clear(self) -> None:
        """Remove what somebody left who was killed while he wrote: it may be a second name of a key."""
        for file in os.listdir(self.folder):
            if file.endswith(_DRAFT):
                with suppress(OSError):
                    os.unlink(self._path(file))

    def _finish_rotation(self, current: str) -> None:
        """A crash may have come between the record of a rotation and the file: the record counts."""
        key = read_key(current)
        if isinstance(key, PublicKey) and os.path.lexists(self._path(_next_name(key))):
            self.use_next(key)

    def _has(self, name: str) -> bool:
        return os.path.lexists(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _load(self, name: str, file: str) -> Signer:
        return Signer(name, _private_in(self._read(file), self._path(file)))

    def _read(self, file: str) -> str:
        path = self._path(file)
        require_private(self.folder, folder=True)
        if not os.path.lexists(path):
            raise StateError(f"{path} is not there", remedy=_LOST)
        require_closed(path)
        require_one_name(path)
        try:
            descriptor = os.open(path, os.O_RDONLY | _NOFOLLOW | _NONBLOCK)
            with os.fdopen(descriptor, "rb") as opened:
                return opened.read(_MOST).decode("utf-8", "replace")
        except OSError as error:
            raise StateError(
                f"{path} cannot be read: {error.strerror}",
                remedy=f"Make it readable for you: chmod 600 {path}",
            ) from error

    def _write_private(self, file: str) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        private = Ed25519PrivateKey.generate()
        data = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._replace(file, data, new=True)

    def _replace(self, file: str, data: bytes, *, new: bool = False) -> None:
        """Write the whole file or nothing. A `new` one never takes the place of another."""
        path = self._path(file)
        draft = f"{path}.{os.urandom(8).hex()}{_DRAFT}"
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as opened:
                if os.name == "posix":
                    os.fchmod(descriptor, 0o600)
                opened.write(data)
                opened.flush()
                os.fsync(descriptor)
            if new:
                with suppress(FileExistsError):  # another process was faster; its key is as good
                    os.link(draft, path)
            else:
                os.replace(draft, path)
            _sync(self.folder)
        except OSError as error:
            raise StateError(
                f"{path} cannot be written: {error.strerror}",
                remedy="Check the mode of its folder and the free space on the disk",
            ) from error
        finally:
            with suppress(OSError):
                os.unlink(draft)


_LOST: Final = (
    "Bring back the folder `keys` from a backup; if the key is lost for good: metier audit rotate-key --lost"
)


def vouched_by(saved: dict[str, str], path: str) -> tuple[Known, ...]:
    """The public keys in what `Keys.saved` gave and somebody kept at `path`, found to be of use together.

    Raises:
        StateError: when they are not, so that nothing is brought back that could not be used.
    """
    known = _known_in(saved.get(PUBLIC, ""), path)
    public = _private_in(saved.get(SIGNING, ""), path).public_key().public_bytes_raw()
    if not known or known[-1].key.raw != public:
        raise StateError(
            f"the keys in {path} do not belong together", remedy="Move the file away to go without them"
        )
    return known


def _known_in(text: str, path: str) -> tuple[Known, ...]:
    found = [read_known(line) for line in text.splitlines() if line.strip()]
    if problem := next((each for each in found if isinstance(each, str)), ""):
        raise StateError(f"{path} cannot be understood: {problem}", remedy="Bring it back from a backup")
    return tuple(each for each in found if isinstance(each, Known))


def _private_in(text: str, path: str) -> "Ed25519PrivateKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise StateError(f"{path} is not a signing key", remedy=_LOST)
    return private


def _next_name(key: PublicKey) -> str:
    return f"{key.raw.hex()}{_NEXT}"


def _elsewhere(current: str, what: str) -> StateError:
    key = read_key(current)
    name = key.id.hex() if isinstance(key, PublicKey) else current
    return StateError(f"the log is signed with key {name}, and {what}", remedy=_LOST)


def _sync(folder: str) -> None:
    """A name is only safe from a power cut once its folder is on the disk."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
