"""The secrets that Metier keeps itself, each sealed with age: `secrets/NAME.age`, and those in the settings of a skill together in
one file below `secrets/skills`. What opens them is one identity, `keys/secrets.age`, made when it is first needed (0029).

Everything here blocks; call it in a thread. Nothing is kept in memory: what is written counts from the next read on, in every
process. A file says inside what it is for, so that one put in the place of another is refused. The age program opens them too:
`age -d -i keys/secrets.age secrets/NAME.age`.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal, TypeAlias, final

import msgspec

from metier.config.secret_references import NAME
from metier.errors import StateError
from metier.host.age import Identity
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.openfile import read_small
from metier.record.keys import IN_KEYRING, Keys
from metier.record.litter import sweep
from metier.record.private import absolute, make_private_folder, require_private

KEY: Final = "secrets.age"
FOLDER: Final = "secrets"
_OF_SKILLS: Final = "skills"
_END: Final = ".age"
MOST_BYTES: Final = 65_536
"""Of one secret."""
_MOST_FILE: Final = 4_194_304
_MOST_WRAPPED: Final = 4 * MOST_BYTES
_CALL: Final = "call"
Place: TypeAlias = Literal["file", "keyring"]
"""Where the key lies: in keys/secrets.age, or in the keyring of the system and that file says so."""
_LOST: Final = (
    "Bring back keys/secrets.age of the state folder from a backup; if it is lost for good, remove that file and the folder "
    "`secrets`, and set each secret anew"
)


@final
class Sealed:
    """The store below one state folder."""

    def __init__(self, home: str) -> None:
        self._home = absolute(home)
        self._folder = os.path.join(self._home, FOLDER)

    def names(self) -> list[str]:
        """Every secret that was set by its name, in order.

        Raises:
            StateError: when the folder cannot be looked into.
        """
        try:
            found = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable("the folder of secrets", error) from error
        return sorted(
            each.removesuffix(_END)
            for each in found
            if each.endswith(_END) and NAME.fullmatch(each.removesuffix(_END))
        )

    def read(self, name: str) -> str | None:
        """The value of the secret `name`; None where there is none.

        Raises:
            StateError: when it cannot be opened.
        """
        value = self._open(self._path(name), f"secret:{name}") if NAME.fullmatch(name) else None
        return value if isinstance(value, str) else None

    def write(self, name: str, value: str) -> None:
        """Keep `value` as the secret `name`, from now on.

        Raises:
            StateError: when it cannot be written.
            ValueError: for a name or value that is none. It says what is wrong and never quotes the value.
        """
        if not NAME.fullmatch(name):
            raise ValueError(
                "a secret's name has letters, digits, dots, hyphens and underscores, a letter first"
            )
        if problem := value_problem(value):
            raise ValueError(problem)
        self._seal(self._path(name), f"secret:{name}", value)

    def remove(self, name: str) -> bool:
        """Whether there was such a secret. Now there is none.

        Raises:
            StateError: when it cannot be removed.
        """
        return bool(NAME.fullmatch(name)) and self._unlink(self._path(name))

    def of_skill(self, skill: str) -> dict[str, Json]:
        """The secret settings of a skill, each by its dotted path.

        Raises:
            StateError: when they cannot be opened.
        """
        return self.of_skill_with(skill)[0]

    def of_skill_with(self, skill: str) -> tuple[dict[str, Json], Json]:
        """The same, and what was written beside them, in one step.

        Raises:
            StateError: when they cannot be opened.
        """
        value, beside = self._open_with(self._skill_path(skill), f"skill:{skill}")
        return (value if isinstance(value, dict) else {}), beside

    def set_of_skill(self, skill: str, values: Mapping[str, Json], beside: Json = None) -> None:
        """Keep exactly these as the secret settings of a skill, all of them or none, and with them something `beside` them.

        Raises:
            StateError: when they cannot be written.
        """
        if values or beside is not None:
            self._seal(self._skill_path(skill), f"skill:{skill}", dict(values), beside)
        else:
            self._unlink(self._skill_path(skill))

    def wrapped(self, value: str, what: str) -> str:
        """`value` sealed, as a text: how a door hands a secret to a call, so that whoever sees the call sees nothing.

        Args:
            what: what it is for, for example `secret:NAME`. For anything else it is void.

        Raises:
            StateError: when there is no key and none can be made.
        """
        data = msgspec.json.encode({"for": f"{_CALL}:{what}", "value": value})
        return self._identity(make=True).seal(data, armored=True).decode()

    def unwrapped(self, text: str, what: str) -> str:
        """What was `wrapped` here, for that.

        Raises:
            ValueError: when it was not.
            StateError: when the key cannot be used.
        """
        small = len(text) <= _MOST_WRAPPED and os.path.lexists(os.path.join(Keys(self._home).folder, KEY))
        data = self._identity(make=False).open(text.encode("utf-8", "replace")) if small else None
        value = _content(data, f"{_CALL}:{what}")
        if not isinstance(value, str):
            raise ValueError("it was not sealed here")
        return value

    def key_place(self) -> Place | None:
        """Where the key lies; None while there is none.

        Raises:
            StateError: when what says so cannot be read.
        """
        path = os.path.join(Keys(self._home).folder, KEY)
        if not os.path.lexists(path):
            return None
        return "keyring" if _first_line(_private_bytes(path)).startswith(IN_KEYRING) else "file"

    def move_key(self, place: Place) -> None:
        """Have the key lie there from now on, made if there is none.

        Raises:
            StateError: when it cannot be read, or not be kept there; then it stays where it is.
        """
        identity = self._identity(make=True)
        keys = Keys(self._home)
        with keys.alone():
            if place == "keyring":
                from metier.host.keyring import read_keyring, write_keyring

                where = f"metier/secrets-{identity.public[-12:]}"
                write_keyring(where, identity.text)
                if read_keyring(where) != identity.text:
                    raise StateError("the keyring did not keep the key", remedy="Leave it in the file")
                write_whole(os.path.join(keys.folder, KEY), f"{IN_KEYRING}{where}\n".encode())
            else:
                write_whole(os.path.join(keys.folder, KEY), _key_file(identity))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name + _END)

    def _skill_path(self, skill: str) -> str:
        # A skill's name may have characters that no file's name has.
        spelled = hashlib.sha256(skill.encode("utf-8", "surrogatepass")).hexdigest()
        return os.path.join(self._folder, _OF_SKILLS, spelled + _END)

    def _open(self, path: str, what: str) -> Json:
        return self._open_with(path, what)[0]

    def _open_with(self, path: str, what: str) -> tuple[Json, Json]:
        if not os.path.lexists(path):
            return None, None
        value, beside = _contents(self._identity(make=False).open(_private_bytes(path)), what)
        if value is None:
            raise StateError(
                f"{os.path.basename(path)} among the secrets was sealed with another key, or for something else",
                remedy=_LOST,
            )
        return value, beside

    def _seal(self, path: str, what: str, value: Json, beside: Json = None) -> None:
        folder = os.path.dirname(path)
        make_private_folder(self._home)
        make_private_folder(self._folder)
        make_private_folder(folder)
        content = {"for": what, "value": value} | ({} if beside is None else {"beside": beside})
        data = self._identity(make=True).seal(msgspec.json.encode(content))
        if len(data) > _MOST_FILE:
            raise StateError("that is too much to be kept as secrets", remedy="Set shorter values")
        write_whole(path, data)

    def _unlink(self, path: str) -> bool:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unreadable("a secret", error) from error
        return True

    def _identity(self, *, make: bool) -> Identity:
        keys = Keys(self._home)
        path = os.path.join(keys.folder, KEY)
        if not os.path.lexists(path):
            if not make:
                raise StateError("keys/secrets.age, which opens the secrets, is not there", remedy=_LOST)
            make_private_folder(self._home)
            with keys.alone():
                if not os.path.lexists(path):
                    self._make_key(path)
        written = _first_line(_private_bytes(path))
        if written.startswith(IN_KEYRING):
            from metier.host.keyring import read_keyring

            written = read_keyring(written.removeprefix(IN_KEYRING))
        try:
            return Identity(written)
        except ValueError:
            raise StateError("keys/secrets.age is no age identity", remedy=_LOST) from None

    def _make_key(self, path: str) -> None:
        if any(each.endswith(_END) for _, _, files in os.walk(self._folder) for each in files):
            # A new key would make what is there look damaged, and hide that the old one is lost.
            raise StateError(
                "there are secrets, and keys/secrets.age, which opens them, is not there", remedy=_LOST
            )
        write_whole(path, _key_file(Identity()))


def _key_file(identity: Identity) -> bytes:
    return f"# Opens the folder secrets. Public key: {identity.public}\n{identity.text}\n".encode()


def _first_line(data: bytes) -> str:
    lines = data.decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in lines if line.strip() and not line.startswith("#")), "")


def value_problem(value: str) -> str:
    """Why `value` cannot be a secret, or nothing. It is never quoted."""
    if not value:
        return "the secret is empty"
    if len(value.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        return f"the secret is longer than {MOST_BYTES:,} bytes"
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        return "the secret holds a character that no text can have"
    return ""


def write_whole(path: str, data: bytes) -> None:
    """Write the whole file or nothing, readable for this user only.

    Raises:
        StateError: when it cannot be written.
    """
    sweep(path)  # what somebody left who was killed here
    draft = f"{path}.{os.urandom(8).hex()}.draft"
    try:
        descriptor = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with os.fdopen(descriptor, "wb") as opened:
            os.fchmod(descriptor, 0o600)
            opened.write(data)
            opened.flush()
            os.fsync(descriptor)
        os.replace(draft, path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise _unreadable("what is kept secret", error) from error
    finally:
        with suppress(OSError):
            os.unlink(draft)


def _private_bytes(path: str) -> bytes:
    name = os.path.basename(path)
    require_private(os.path.dirname(path), folder=True)
    found = read_small(path, most=_MOST_FILE)
    if isinstance(found, Diagnostic):
        raise StateError(f"{name} cannot be read: {found.message}", remedy=_LOST)
    data, status = found
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise StateError(
            f"{name} belongs to another user, or others can read or change it, so it is not used",
            remedy="Make it yours with mode 0600; as it may be known to others, set new secrets",
        )
    return data


def _content(data: bytes | None, what: str) -> Json:
    """What a file or text that was sealed for `what` holds; None for any other."""
    return _contents(data, what)[0]


def _contents(data: bytes | None, what: str) -> tuple[Json, Json]:
    """The same, and what stands beside it."""
    try:
        found: Json = msgspec.json.decode(data) if data else None
    except msgspec.MsgspecError:
        return None, None
    if not isinstance(found, dict) or found.get("for") != what:
        return None, None
    return found.get("value"), found.get("beside")


def _unreadable(what: str, error: OSError) -> StateError:
    return StateError(
        f"{what} cannot be used: {error.strerror}",
        remedy="Look at the state folder: is there room on the disk, and may you read and write there?",
    )
