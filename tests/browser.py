"""A browser, as far as signing in goes: it keeps cookies, and says with every request from which page it comes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from anyio import to_thread

from metier.catalog.here import owner
from metier.doors.http.links import make_link
from serve_kit import House


class Browser:
    """At the page of this server, unless `site` says otherwise."""

    def __init__(self, client: httpx2.AsyncClient, origin: str) -> None:
        self.client = client
        self.origin = origin

    @property
    def page(self) -> dict[str, str]:
        return {"origin": self.origin, "sec-fetch-site": "same-origin"}

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        """As `fetch` of the page does it: without Origin."""
        return await self.client.get(path, headers={"sec-fetch-site": "same-origin", **headers})

    async def post(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        return await self.client.post(path, json=body or {}, headers={**self.page, **headers})

    async def me(self) -> int:
        return (await self.get("/api/v1/me")).status_code

    @property
    def cookie(self) -> str:
        return self.client.cookies.get(self.name) or ""

    @property
    def name(self) -> str:
        """What the cookie of a session is called here."""
        return f"metier_session_{self.origin.rpartition(':')[2]}"

    @property
    def flow(self) -> str:
        """And the one for the way to the provider and back."""
        return self.name.replace("session", "oidc")


@asynccontextmanager
async def browser(house: House) -> AsyncGenerator[Browser]:
    async with house.client() as client:
        yield Browser(client, house.door.url)


async def link_of(house: House) -> str:
    """The token of a new link."""
    made = await to_thread.run_sync(make_link, house.door.doors, owner(), house.door.url)
    return made.partition("#token=")[2]


async def sign_in(house: House, it: Browser) -> None:
    """As the owner, by a link."""
    answer = await it.post("/api/v1/sign-in/link", {"token": await link_of(house)})
    assert answer.status_code == 200, answer.text
