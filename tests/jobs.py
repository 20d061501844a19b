"""Jobs as execute would make them, for tests of sandboxes."""

import os
import shutil
from collections.abc import Mapping
from typing import Any

from metier.model.entry import Command, Entry, InlineCode
from metier.model.guarantee import needed
from metier.model.job import Job, Place
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.skill import Limits


class Echo:
    """A host that answers everything with what it was asked."""

    async def ask(self, method: str, params: dict[str, Any]) -> Answered | NotAnswered:
        return Answered(value={"method": method, "params": params})


def job(entry: Entry, **more: Any) -> Job:
    hosts = more.get("permissions", PermissionSet()).hosts
    given: dict[str, Any] = {
        "call_id": "call_test",
        "entry": entry,
        "arguments": {},
        "permissions": PermissionSet(),
        "limits": Limits(timeout=10.0),
        "needs": needed(entry, network=bool(hosts)),
        "host": Echo(),
    }
    return Job(**{**given, **more})


def command(*argv: str, **more: Any) -> Job:
    """A command of the machine, declared by its own name."""
    found = shutil.which(argv[0])
    assert found, f"{argv[0]} is not on this machine"
    return job(Command(argv=argv), binaries={argv[0]: os.path.realpath(found)}, **more)


def shell(script: str, **more: Any) -> Job:
    return command("bash", "-c", script, **more)


def python(source: str, **more: Any) -> Job:
    return job(InlineCode(language="python", source=source), **more)


def place(path: "str | os.PathLike[str]", *, writable: bool = False) -> Place:
    real = os.path.realpath(path)
    found = os.stat(real)
    return Place(path=real, writable=writable, device=found.st_dev, inode=found.st_ino)


def ending(report: Any) -> Mapping[str, Any]:
    """What a failed assertion should show of a report."""
    return {name: getattr(report, name) for name in ("ending", "fault", "stdout", "stderr", "exit_code")}
