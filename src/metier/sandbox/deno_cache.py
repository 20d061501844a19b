"""The engine's own folder: made once, with the compiled form of our runner in it, and read-only for every run.

Nothing of a skill is ever kept there: it is filled by one run of our own code, before any other.
"""

import hashlib
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from typing import Final

import anyio
from anyio import to_thread

from metier.model.digest import Json
from metier.model.job import Place
from metier.record.private import make_private_folder
from metier.sandbox.deno_plan import GUEST, Shape
from metier.sandbox.deno_pool import start
from metier.sandbox.wall import Policy, Wall, WallError
from metier.sandbox.wire import Wire

_WARMING_SECONDS: Final = 10.0
_LEAVING_SECONDS: Final = 2.0


async def prepare(wall: Wall, *, shape: Shape, root: str) -> str:
    """The folder, made if need be.

    Args:
        shape: as it is used by runs without any grants; its folder for the cache does not matter.

    Raises:
        StateError: `root` cannot be made private.
        OSError: the disk refuses.
    """
    place = await to_thread.run_sync(_place, root, shape.argv[0])
    if await to_thread.run_sync(os.path.isdir, place):
        return place
    making = await to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="making-", dir=root))
    try:
        await _fill(wall, shape, making)
        with suppress(OSError):  # somebody else was quicker; his is as good
            os.rename(making, place)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(lambda: shutil.rmtree(making, ignore_errors=True))
    os.makedirs(place, mode=0o700, exist_ok=True)
    return place


async def _fill(wall: Wall, shape: Shape, folder: str) -> None:
    """Run our own code once with a folder it may write. Where that fails runs only begin a little slower."""
    writable = Policy(
        places=tuple(
            sorted({Place(path=shape.argv[0]), Place(path=GUEST), Place(path=folder, writable=True)})
        ),
        bare_heap=True,
    )
    warming = Shape(policy=writable, argv=shape.argv, cwd=shape.cwd, cache=folder, reads=(GUEST,))
    try:
        engine = await start(wall, warming)
    except WallError:
        return
    try:
        with anyio.move_on_after(_WARMING_SECONDS):
            key = secrets.token_hex(16)
            wire = Wire(engine.read_fd, engine.write_fd, key=key, host=None, output_bytes=4_096)
            await wire.run(warming_order())
            with anyio.move_on_after(_LEAVING_SECONDS):
                await engine.wait()
    finally:
        await engine.end()


def warming_order() -> dict[str, Json]:
    """An order that does nothing."""
    return {
        "kind": "inline",
        "language": "javascript",
        "source": "return null;",
        "params": {},
        "context": {},
        "environment": {},
        "most_message": 4_096,
        "most_result": 4_096,
    }


def _place(root: str, engine: str) -> str:
    make_private_folder(root)
    status = os.stat(engine)
    digest = hashlib.sha256(f"{engine} {status.st_mtime_ns} {status.st_size} {GUEST}".encode())
    for name in sorted(os.listdir(GUEST)):
        with open(os.path.join(GUEST, name), "rb") as file:
            digest.update(name.encode() + b"\0" + file.read())
    return os.path.join(root, f"engine-{digest.hexdigest()[:16]}")
