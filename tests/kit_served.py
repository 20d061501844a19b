"""The sandbox of requests with a server that they reach, for the contract kit."""

from typing import Any

import anyio
import anyio.to_thread

from loopback import Listener, World
from metier.sandbox.egress import Egress
from metier.sandbox.http import HttpSandbox
from metier.testing.sandbox_kit import acts_http
from metier.testing.sandbox_kit.granted_names import ADDRESSES, Names


class Served:
    """The sandbox of requests, and the server that its requests reach: a public name that leads to loopback."""

    def __init__(self, names: Names) -> None:
        self.sandbox = HttpSandbox({}.get, self._egress)
        self._names = names
        self._listener = Listener(lambda asked: acts_http.answer(asked.target, asked.headers, asked.body))
        self._world = World()
        self._world.put("kit.example", self._listener)
        self.port = self._listener.port

    async def aclose(self) -> None:
        await self.sandbox.aclose()
        await anyio.to_thread.run_sync(self._listener.close)

    def _egress(self, **given: Any) -> Egress:
        return Egress(**given, resolver=self._resolve, connect=self._connect)

    def _connect(self, address: str, port: int) -> tuple[str, int]:
        who = self._names if address in ADDRESSES.values() else self._world
        return who.connect(address, port)

    async def _resolve(self, host: str) -> list[str]:
        if host in ADDRESSES:
            return await self._names.resolve(host)
        if host == "slow.example":
            await anyio.sleep(60)
        return await self._world.resolve(host)
