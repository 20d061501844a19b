"""A page of the console as a browser reads it: parsed, never searched with patterns. Forms give what they would send."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any

from anyio import to_thread

from browser import Browser, browser, sign_in
from metier.catalog.here import owner
from metier.doors.http import passwords
from metier.record.credentials import set_credential
from serve_kit import House

PASSWORD = "correct horse battery staple"
_ALONE = frozenset({"input", "meta", "link", "br", "hr", "img", "source", "wbr"})


class Node:
    """One element."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.inside: list[Node | str] = []

    def walk(self) -> "Iterator[Node]":
        for each in self.inside:
            if isinstance(each, Node):
                yield each
                yield from each.walk()

    def all(self, tag: str) -> "list[Node]":
        return [each for each in self.walk() if each.tag == tag]

    @property
    def whole(self) -> str:
        """Every character of the text in it."""
        return "".join(each if isinstance(each, str) else each.whole for each in self.inside)

    @property
    def text(self) -> str:
        """The text in it, on one line."""
        return " ".join(self.whole.split())

    def get(self, name: str) -> str | None:
        return self.attributes.get(name)


class Form:
    """A form as the script of the console reads it."""

    def __init__(self, node: Node) -> None:
        self.post, self.method = node.get("data-post") or "", node.get("data-method") or "POST"
        self.words = " ".join(each.text for each in node.all("button"))
        named = [each for each in node.walk() if each.tag in ("input", "select", "textarea")]
        self.fields = {_place(each): each for each in named if each.get("name") or each.get("data-in")}

    def body(self, **typed: Any) -> dict[str, Any]:
        """What is sent with the hidden fields, and what was typed: by the last name of its place."""
        made: dict[str, Any] = {}
        for place, field in self.fields.items():
            if place[-1] in typed:
                value = typed[place[-1]]
            elif field.get("type") == "hidden":
                text = field.get("value") or ""
                value = json.loads(text) if field.get("data-as") in ("json", "boolean") else text
            else:
                continue
            at = made
            for name in place[:-1]:
                at = at.setdefault(name, {})
            at[place[-1]] = value
        return made


class Seen(Node):
    """A whole page."""

    def __init__(self, html: str) -> None:
        super().__init__("", {})
        _Reader(self).feed(html)

    def id(self, id: str) -> Node:
        (found,) = [each for each in self.walk() if each.get("id") == id]
        return found

    def section(self, heading: str) -> Node:
        """The part whose heading has this id."""
        (found,) = [each for each in self.walk() if each.get("aria-labelledby") == heading]
        return found

    @property
    def live(self) -> Node:
        """What is between the head of the page and its foot."""
        return self.id("live")

    @property
    def forms(self) -> list[Form]:
        return [Form(each) for each in self.all("form") if each.get("data-post")]

    def form(self, words: str) -> Form:
        """The one with the button that says this."""
        found = [each for each in self.forms if words in each.words]
        assert len(found) == 1, (words, [each.words for each in self.forms])
        return found[0]

    @property
    def links(self) -> list[str]:
        return [each.get("href") or "" for each in self.live.all("a")]


class _Reader(HTMLParser):
    def __init__(self, page: Node) -> None:
        super().__init__(convert_charrefs=True)
        self._open = [page]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].inside.append(made)
        if tag not in _ALONE:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"{tag} closes {self._open[-1].tag}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)


def _place(field: Node) -> tuple[str, ...]:
    deeper = field.get("data-in")
    return tuple(json.loads(deeper)) if deeper else (field.get("name") or "",)


class Visitor:
    """A person at the console."""

    def __init__(self, it: Browser) -> None:
        self.it = it

    async def see(self, path: str, status: int = 200) -> Seen:
        answer = await self.it.get(path)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-2_000:])
        return Seen(answer.text)

    async def send(self, form: Form, **typed: Any) -> Any:
        """What the API answers to this form."""
        answer = await self.it.client.request(
            form.method, form.post, json=form.body(**typed), headers=self.it.page
        )
        return answer.json()


@asynccontextmanager
async def visiting(house: House, name: str = "") -> AsyncGenerator[Visitor]:
    """The owner, or a person who is registered under this name."""
    async with browser(house) as it:
        if not name:
            await sign_in(house, it)
        else:
            id, me, database = f"human:{name}", owner(), house.engine.state.database
            body = await to_thread.run_sync(passwords.hashed, PASSWORD)
            assert (
                set_credential(database, "password", name=id, principal=id, body=body, by=me, owner=me) == ""
            )
            answer = await it.post("/api/v1/sign-in/password", {"id": id, "password": PASSWORD})
            assert answer.status_code == 200, answer.text
        yield Visitor(it)
