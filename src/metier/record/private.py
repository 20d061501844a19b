"""State belongs to one user: what others could have written is refused, what others could read is narrowed.

Anybody who can write into the state folder can trust his own skills, so an open folder is not repaired
silently: somebody may already have been there, and a person has to look. So is a file with a second name: under that one
it may lie in a folder that was granted to a run.
"""

import errno
import os
import stat
import sys

from metier.errors import StateError
from metier.record.litter import finished


def absolute(path: str) -> str:
    """`path` from the root, so that a later change of folder does not matter."""
    if "\0" in path:
        raise StateError("the name of the state database holds a NUL character", remedy="Choose another name")
    return os.path.abspath(path)


def make_private_folder(path: str) -> None:
    """Have a folder at `path` that only this user can enter.

    Raises:
        StateError: when it cannot be made, or is not this user's alone.
    """
    try:
        os.makedirs(path, mode=0o700)
        os.chmod(path, 0o700)  # makedirs lets the umask take bits away, even the owner's
    except FileExistsError:
        pass
    except OSError as error:
        raise StateError(
            f"the state folder {path} cannot be made: {error.strerror}",
            remedy="Make it by hand with mode 0700, or choose another state folder",
        ) from error
    require_private(path, folder=True)


def require_private(path: str, *, folder: bool) -> None:
    """Refuse `path` unless it is this user's own folder or regular file; take reading rights from others.

    Raises:
        StateError: when it is a link, another kind of thing, another user's, or writable by others.
    """
    what = "folder" if folder else "file"
    mode = _own(path, f"the state {what} {path}", folder=folder)
    if mode & 0o022:
        raise StateError(
            f"others can write to the state {what} {path} (mode {mode:04o})",
            remedy=f"Look at what is in it, then: chmod {'700' if folder else '600'} {path}",
        )
    if mode & 0o055:
        try:
            os.chmod(path, mode & 0o700)
        except OSError as error:
            if error.errno == errno.EROFS:
                return  # nobody can change anything there, and looking must not fail for it
            raise StateError(
                f"others can read the state {what} {path} (mode {mode:04o}) and it cannot be changed: {error.strerror}",
                remedy=f"chmod {'700' if folder else '600'} {path}",
            ) from error


def require_closed(path: str) -> None:
    """Refuse `path` unless it is this user's own file and nobody else could read it: narrowing the mode now would not make
    it secret again.

    Raises:
        StateError: when it is not.
    """
    mode = _own(path, path, folder=False)
    if mode & 0o077:
        raise StateError(
            f"others can read or change {path} (mode {mode:04o})",
            remedy=f"chmod 600 {path}, then, as it may be known: metier audit rotate-key",
        )


def require_one_name(path: str) -> None:
    """Refuse the file at `path` when it has another name too, but for a draft of its own that nobody took away yet.

    Raises:
        StateError: when it has one.
    """
    try:
        if os.lstat(path).st_nlink == 1:
            return
        left = finished(path)
        if os.lstat(path).st_nlink - left == 1:
            return
    except OSError as error:
        raise StateError(
            f"{path} cannot be looked at: {error.strerror}",
            remedy="Check that you may enter the folders above it",
        ) from error
    raise StateError(
        f"{path} has a second name somewhere (a hard link), and whoever may use that one may read and change it",
        remedy=f"Find it with `find / -xdev -samefile {path}` and remove it; or, while nothing of Metier runs, put a copy in "
        f"its place: cp -p {path} {path}.copy && mv {path}.copy {path}",
    )


def _own(path: str, called: str, *, folder: bool) -> int:
    """The mode of the folder or file at `path`, found to be this user's own; 0 where there are no modes to ask."""
    what = "folder" if folder else "file"
    try:
        status = os.lstat(path)
    except OSError as error:
        raise StateError(
            f"{called} cannot be looked at: {error.strerror}",
            remedy="Check that you may enter the folders above it",
        ) from error
    if stat.S_ISLNK(status.st_mode):
        raise StateError(
            f"{called} is a symbolic link",
            remedy=f"Put the real {what} in its place, or have the state folder where that is",
        )
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(status.st_mode):
        raise StateError(f"{path} is not a {what}", remedy="Move it away, or choose another state folder")
    if sys.platform == "win32":
        return 0
    if status.st_uid != os.geteuid():
        raise StateError(
            f"{called} belongs to user {status.st_uid}, and you are {os.geteuid()}",
            remedy="Run Metier as that user, or choose a state folder of your own",
        )
    return stat.S_IMODE(status.st_mode)


def require_private_state(path: str) -> None:
    """Refuse the database at `path` unless it, its folder and its side files are this user's alone.

    Raises:
        StateError: when one of them is not, or has a second name, or the database is not there.
    """
    require_own_state(path)
    if doubt := second_name(path):
        raise doubt


def require_own_state(path: str) -> None:
    """The same, whatever other names the files have.

    Raises:
        StateError: when one of them is not this user's alone, or the database is not there.
    """
    require_private(os.path.dirname(path), folder=True)
    require_private(path, folder=False)
    for side in _side_files(path):
        try:
            require_private(side, folder=False)
        except StateError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise


def second_name(path: str) -> StateError | None:
    """Why the database at `path`, or a side file of it, may be read and changed under another name; None when it may not."""
    for each in (path, *_side_files(path)):
        try:
            require_one_name(each)
        except StateError as error:
            if each == path or not isinstance(error.__cause__, FileNotFoundError):
                return error
    return None


def _side_files(path: str) -> tuple[str, str]:
    """SQLite removes and makes these files as processes come and go: one that is not there is no problem."""
    return f"{path}-wal", f"{path}-shm"
