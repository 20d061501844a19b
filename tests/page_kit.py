"""The small page at `/`, run outside a browser: its own scripts, against a server that is really asked (see page_in_deno.js)."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio
import deno
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.streams.buffered import BufferedByteReceiveStream

from serve_kit import House

FILES = Path(str(files("metier.doors.http") / "page_files"))
_MOST = 4_194_304


class Page:
    """One tab. Everything it does ends with nothing under way, and `saw` is what it looks like then."""

    def __init__(self, send: ByteSendStream, receive: ByteReceiveStream) -> None:
        self._send = send
        self._receive = BufferedByteReceiveStream(receive)
        self.saw: dict[str, Any] = {}

    async def do(self, what: str, **given: Any) -> "Page":
        await self._send.send(json.dumps({"do": what, **given}).encode() + b"\n")
        with anyio.fail_after(30):
            self.saw = json.loads(await self._receive.receive_until(b"\n", _MOST))
        return self

    async def open(self, hash: str = "") -> "Page":
        """Load it anew in this tab."""
        return await self.do("open", hash=hash)

    async def hash(self, hash: str) -> "Page":
        """Follow a link to another place of the page: nothing is loaded."""
        return await self.do("hash", hash=hash)

    async def press(self, id: str, times: int = 1) -> "Page":
        return await self.do("press", id=id, times=times)

    async def wait(self, ms: int = 1_000) -> "Page":
        return await self.do("wait", ms=ms)

    async def sign_in(self, who: str, password: str) -> "Page":
        await self.do("fill", id="name:id", value=who)
        await self.do("fill", id="name:password", value=password)
        return await self.do("submit")

    async def back(self, path: str) -> "Page":
        """Be sent here by a page of another site."""
        return await self.do("back", path=path)

    def text(self, id: str) -> str:
        return "" if self.saw["hidden"][id] else str(self.saw["shown"][id])

    def visible(self, id: str) -> bool:
        return not self.saw["hidden"][id]

    def sent(self, path: str) -> list[Any]:
        """The bodies of what was asked of this path."""
        return [json.loads(each["body"] or "null") for each in self.saw["asked"] if each["path"] == path]


@asynccontextmanager
async def page(house: House) -> AsyncGenerator[Page]:
    command = (
        deno.find_deno_bin(), "run", "--quiet", "--no-config", "--no-lock", "--no-remote", f"--allow-net={house.at}",
        f"--allow-read={FILES}", str(Path(__file__).with_name("page_in_deno.js")), house.door.url, str(FILES),
    )  # fmt: skip
    async with await anyio.open_process(
        command, stderr=None, env={"NO_COLOR": "1", "DENO_DIR": str(house.premises.machine.top / "deno")}
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Page(process.stdin, process.stdout)
        finally:
            process.terminate()
