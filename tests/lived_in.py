"""A console that was lived in: something of everything there is, made by the API as programs do it, and the address of every page. Whose words
stand in it is for the test to say."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from console_kit import Console
from metier.doors.http.console.routes import PAGES
from metier.kernel import conversation_rows as rows
from metier.kernel.store import Store

PLAIN = ("tea at four",)
PARTS = frozenset({"/around"})
"""What is fetched to be put into every page, and is none by itself."""
ADDRESSES: dict[str, tuple[str, ...]] = {
    "/around": ("/around",),
    "/": ("/",),
    "/approvals": ("/approvals", "/approvals?over=true"),
    "/approvals/{approval}": (
        "/approvals/{pending}",
        "/approvals/{pending}?scope=always",
        "/approvals/{denied}",
        "/approvals/{granted}",
    ),
    "/skills": ("/skills", "/skills?q=nothing+of+the+kind"),
    "/skills/{skill}": ("/skills/desk", "/skills/bell", "/skills/knell", "/skills/butler", "/skills/new"),
    "/skills/{skill}/settings": ("/skills/desk/settings", "/skills/bell/settings"),
    "/skills/{skill}/files": ("/skills/desk/files", "/skills/desk/files?path=desk.py"),
    "/skills/{skill}/try": ("/skills/desk/try?tool=desk/note", "/skills/desk/try?tool=desk/tell"),
    "/record": ("/record", "/record?text=nothing+of+the+kind"),
    "/record/{seq}": ("/record/1", "/record/{seq}"),
    "/record/calls/{call}": (
        "/record/calls/{told}",
        "/record/calls/{failed}",
        "/record/calls/{left}",
        "/record/calls/{refused}",
        "/record/calls/{wanted}",
    ),
    "/policy": ("/policy",),
    "/policy/explain": ("/policy/explain", "/policy/explain?tool=fs_read%2Fexecute&arguments=%7B%22path%22%3A%22memory%2Ftea.md%22%7D"),
    "/policy/replay": ("/policy/replay", "/policy/replay?now=true"),
    "/usage": ("/usage",),
    "/people": ("/people",),
    "/channels": ("/channels",),
    "/channels/threads/{thread}": ("/channels/threads/{thread}", "/channels/threads/999999"),
    "/schedules": ("/schedules",),
}  # fmt: skip
"""At least one for each page that there is."""
MORE = frozenset(each for several in ADDRESSES.values() for each in several[1:])
"""Further ones of the same page."""
CODE = """
import os, sys, time

SAID = {said}
MORE = {more}


async def tell(params, context):
    for each in SAID:
        print(each)
        print(each, file=sys.stderr)
        await context.callLog.write({{"said": each, each: "said"}})
    return {{"all": list(SAID), **{{each: each for each in SAID + MORE}}}}


def fail(params):
    for each in SAID + MORE:
        print(each)
        print(each, file=sys.stderr)
    raise ValueError(" ".join(SAID + MORE))


def leave(params, context):
    for number, each in enumerate(SAID + MORE):
        name = each.replace("/", "_").replace(":", "_")[:60]
        try:
            with open(os.path.join(context.out, f"{{number}} {{name}}.txt"), "w") as file:
                file.write(each)
        except (OSError, ValueError):
            pass  # what no file can be called
    return os.listdir(context.out)


def wait(params):
    time.sleep(600)


def note(params):
    return params
"""
LIVES = """
SAID = {said}
ALL = " ".join(SAID)


class Bell:
    name = {name!r}

    async def ring(self, params):
        return {{"rang": ALL}}


class Skill:
    id = {name!r}
    version = "1.0.0"
    description = ALL
    settings = {{
        "defaults": {{"volume": 3, "tone": SAID[0], "word": ALL}},
        "schema": {{
            "title": ALL,
            "fields": [
                {{"key": "volume", "label": ALL, "type": "number", "help": ALL, "placeholder": ALL}},
                {{"key": "word", "label": ALL, "type": "string", "help": ALL, "placeholder": ALL}},
                {{
                    "key": "tone",
                    "label": ALL,
                    "type": "select",
                    "options": [{{"label": each, "value": each}} for each in SAID if each.strip()],
                }},
            ],
        }},
    }}
    capabilities = {{"kernel_ops": ["channels.configure"], "channels": [{name!r}]}}

    async def on_enable(self, ctx):
        if {fails}:
            raise ValueError(ALL)
        ctx.register_module(Bell())
        await ctx.execute("channels", "register", {{"channel": {name!r}, "connector_module": {name!r}}})
        await ctx.execute("channels", "configure", {{"channel": {name!r}, "config": {{"greeting": ALL}}}})


skill = Skill()
"""
ACTION = {"id": "tidy", "type": "code", "language": "python", "code": "return 1"}
DOES = """async ([path, method, body, key]) => {
  const headers = { "content-type": "application/json", ...(key ? { "idempotency-key": JSON.stringify(key) } : {}) };
  const answer = await fetch(path, { method, headers, body: method === "GET" ? undefined : JSON.stringify(body) });
  return [answer.status, await answer.json()];
}"""


def does(page: Page, path: str, body: object = None, *, method: str = "POST", key: str = "") -> Any:
    """What the API answers to who is signed in here."""
    status, answer = page.evaluate(DOES, ["/api/v1/" + path, method, body or {}, key])
    assert status in (200, 201, 202), (path, status, answer)
    return answer


def done(page: Page, operation: str, **given: object) -> Any:
    """An operation that must come off; what it gives."""
    answer = does(page, "modules/" + operation.replace(".", "/"), given)
    assert answer["outcome"] == "completed", (operation, answer)
    return answer["value"]


def short(said: Sequence[str], most: int) -> list[str]:
    """Those that fit where little fits, and can be printed."""
    return [each for each in said if 0 < len(each) <= most and each.isprintable() and each == each.strip()]


def toml(text: str) -> str:
    """As a text in a file of rules."""
    return (
        '"'
        + "".join(each if each.isalnum() and each.isascii() else f"\\U{ord(each):08x}" for each in text)
        + '"'
    )


def tool(name: str, words: str, **more: object) -> dict[str, object]:
    entry = {"kind": "python", "path": "desk.py", "function": name}
    return {"name": name, "description": words, "effect": "read", "risk": "low", "entry": entry, **more}


def furnish(home: Path, said: Sequence[str] = PLAIN, more: Sequence[str] = ()) -> None:
    """Skills, rules and messages of a home, with these words in them; where much is taken, with more."""
    all_of_it = " ".join(said)
    text = {"type": "string", "title": all_of_it, "description": all_of_it, "maxLength": 100_000}
    choice = {
        "type": "string",
        "title": all_of_it,
        "description": all_of_it,
        "enum": [*said, "b"],
        "default": said[0],
    }
    takes = {
        "type": "object",
        "properties": {"text": text, "choice": choice, "more": {"type": "object", "title": all_of_it}},
    }
    asks = {"effect": "act", "risk": "medium", "parameters": takes}
    about = {
        "tools": [
            tool("tell", all_of_it, returns={"type": "object", "description": all_of_it}),
            tool("fail", all_of_it),
            tool("leave", all_of_it),
            tool("wait", all_of_it, limits={"timeout": 300}),
            tool("note", all_of_it, approval="always", **asks),
            {**tool("pour", all_of_it, **asks), "entry": {"kind": "python", "path": "desk.py", "function": "note"}},
        ],
        "settings": {
            "type": "object",
            "title": all_of_it,
            "properties": {
                "prefix": {**text, "default": all_of_it},
                "choice": choice,
                "key": {**text, "x-secret": True},
                "often": {"type": "integer", "title": "How often", "default": 3},
                "loud": {"type": "boolean", "title": "Loud", "default": False},
            },
        },
    }  # fmt: skip
    head = {"name": "desk", "version": said[0][:40], "description": all_of_it, "metadata": {"metier": about}}
    folder = skill(home, "desk", head, "\n".join((*said, *more)))
    code = CODE.format(said=ascii(tuple(said)), more=ascii(tuple(more)))
    (folder / "desk.py").write_text(code, encoding="utf-8")
    skill(home, "new", {"name": "new", "description": all_of_it}, "\n".join(said))
    for name, fails in (("bell", False), ("knell", True)):
        package = home / "packages" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(
            LIVES.format(said=ascii(tuple(said)), name=name, fails=fails), encoding="utf-8"
        )
    paths = {"local_paths": ["packages/bell", "packages/knell"]}
    live = {"skills": {"allow": ["bell", "knell"], "enabled": [], "resolve": paths}}
    (home / "agent.config.json").write_text(json.dumps(live), encoding="utf-8")
    butler = home / "skills" / "butler"
    butler.mkdir(parents=True)
    triggers = [
        {"type": "message", "patterns": [each[:200]], "actionId": "tidy", "name": each[:60]}
        for each in short(said, 200)[:8]
    ]
    schedules = [
        {"type": "interval", "intervalMs": 600_000, "actionId": "tidy", "name": each[:60]}
        for each in short(said, 200)[:8]
    ]
    declared = {"id": "butler", "description": all_of_it, "instructions": all_of_it, "actions": [ACTION]}
    (butler / "skill.json").write_text(
        json.dumps({**declared, "triggers": triggers, "schedules": schedules}), encoding="utf-8"
    )
    example = f'{{ tool = "fs_read/execute", args = {{ path = {toml(said[0])} }} }}'
    (home / ".metier" / "policy.toml").write_text(
        f'[[rule]]\nname = "looked-at"\ndecision = "ask"\ntool = "desk/note"\nbecause = {toml(all_of_it[:500])}\n'
        f'[[rule]]\ndecision = "deny"\ntool = "fs_read/execute"\nwhen = "has(args.path)"\nbecause = {toml(all_of_it[:500])}\n'
        f'match = [{example}]\nnot_match = [{{ tool = "fs_read/execute", args = {{}} }}]\n',
        encoding="utf-8",
    )


def skill(home: Path, name: str, head: dict[str, object], body: str) -> Path:
    """A skill of the project. JSON is YAML: whatever its fields hold can be written so."""
    folder = home / "skills" / name
    folder.mkdir(parents=True)
    lines = [f"{field}: {json.dumps(value)}" for field, value in head.items()]
    written = "\n".join(["---", *lines, "---", body.encode("utf-8", "replace").decode()])
    (folder / "SKILL.md").write_text(written.replace("\x00", ""), encoding="utf-8")
    return folder


class Lived:
    """The console, and in `place` what stands in the addresses of its pages."""

    def __init__(
        self,
        browser: Browser,
        home: Path,
        said: Sequence[str] = PLAIN,
        more: Sequence[str] = (),
        prepare: Callable[[Path], None] = lambda _home: None,
    ) -> None:
        def prepared(home: Path) -> None:
            furnish(home, said, more)
            prepare(home)

        self.said, self.more = said, more
        self.at = Console(browser, home, prepare=prepared)
        self.place: dict[str, object] = {}
        try:
            self.page = self.at.tab()
            for each in (self._trusts, self._calls, self._people, self._writes, self._plans, self._runs):
                each()
        except BaseException:
            self.at.close()
            raise

    def close(self) -> None:
        """Ends what runs: a server that is told to go waits a while for it."""
        self.at.metier("stop")
        self.at.close()

    @property
    def words(self) -> str:
        return " ".join(self.said)

    def addresses(self) -> list[str]:
        """Of every page, as the console itself lists them."""
        there = {each.path for each in PAGES}
        assert there == set(ADDRESSES), f"these have no example, or are none: {there ^ set(ADDRESSES)}"
        return [each.format(**self.place) for several in ADDRESSES.values() for each in several]

    def trust(self, name: str) -> None:
        """As the button does: exactly what was shown."""
        found = done(self.page, "skills.review", name=name)
        assert found["digest"], found
        done(self.page, "skills.trust", name=name, digest=found["digest"], told=found["told"])

    def call(self, tool: str, arguments: object = None, **more: object) -> Any:
        return does(self.page, "calls", {"tool": tool, "arguments": arguments or {}, **more})

    def asks(self, tool: str, arguments: object) -> str:
        """An agent does; the id of its request."""
        found = self.call(tool, arguments, as_agent=True)
        assert "approval_id" in found, found
        return str(found["approval_id"])

    def decide(self, approval: str, how: str, **more: object) -> None:
        shown = does(self.page, f"approvals/{approval}", method="GET")
        does(self.page, f"approvals/{approval}/{how}", {"fingerprint": shown["fingerprint"], **more})

    def _trusts(self) -> None:
        for name in ("desk", "butler", "bell", "knell"):
            self.trust(name)
        for name in ("bell", "knell"):
            # It says what it wants, and does not live yet.
            does(self.page, "modules/skills/enable", {"skill_id": name})
            self.trust(name)
            does(self.page, "modules/skills/enable", {"skill_id": name})
        # It would be tried again and again, under the hands of who walks over the pages.
        if self.said is PLAIN:
            done(self.page, "skills.disable", skill_id="knell")

    def _calls(self) -> None:
        told, failed, left = (self.call(f"desk/{name}") for name in ("tell", "fail", "leave"))
        assert (told["outcome"], left["outcome"]) == ("completed", "completed"), (told, left)
        assert failed["code"] == "raised", failed
        refused = self.call("fs_read/execute", {"path": "memory/tea.md"}, as_agent=True)
        assert refused["outcome"] == "refused", refused
        more = {f"{number} {each}": each for number, each in enumerate(self.said)}
        denied, granted = (
            self.asks(f"desk/{name}", {"text": self.words, "more": more}) for name in ("note", "pour")
        )
        self.decide(denied, "deny", word=self.words[:500])
        self.decide(granted, "approve", scope="always", any_arguments=True)
        does(self.page, f"approvals/{granted}/take-up")
        taken = [each for each in self.more if not any(ord(one) < 32 or 126 < ord(one) < 160 for one in each)]
        text = "\n".join((*self.said, *taken)) + "\ntea" * 80
        more |= {each: each for each in taken}
        pending = self.asks("desk/note", {"text": text, "choice": self.said[0], "more": more})
        self.place |= {
            "told": told["call_id"],
            "failed": failed["call_id"],
            "left": left["call_id"],
            "refused": refused["call_id"],
            "denied": denied,
            "granted": granted,
            "pending": pending,
            "wanted": self.at.approval(granted).call_id,
        }  # fmt: skip

    def _people(self) -> None:
        done(self.page, "principals.add", id="agent:helper", roles=["agent"])
        done(self.page, "principals.add", id="human:vera", roles=["viewer"])
        self.at.password("human:vera", "long enough to be one")
        for name in short(self.said, 80):
            does(
                self.page,
                "tokens",
                {"principal": "agent:helper", "name": name, "scopes": ["skills:execute"], "days": 3},
            )

    def _writes(self) -> None:
        """Conversations, as a connector would have left them."""
        with closing(Store(str(self.at.home / ".metier"))) as store, store.writing() as connection:
            for number, each in enumerate(self.said):
                about = {
                    "channel": each[:200],
                    "owner": "",
                    "chat": each[:200],
                    "author": each[:200],
                    "call_id": "",
                }
                came = rows.take_in(connection, rows.New(**about, text=each, id=str(number)), time.time())
                rows.put_out(connection, rows.New(**about, text=each, key=str(number)), time.time())
            about["chat"] = "all"
            for number, each in enumerate((" ".join(self.more), *self.said, self.words)):
                came = rows.take_in(connection, rows.New(**about, text=each, id=str(number)), time.time())
            connection.execute(
                "UPDATE message SET state = 'failed', error = ? WHERE direction = 'out'", (self.words[:300],)
            )
            connection.execute("UPDATE message SET state = 'handled' WHERE direction = 'in'")
            self.place["thread"] = came.thread

    def _plans(self) -> None:
        taken = [each for each in self.said if "{{" not in each]  # which would be a place to fill
        plan = {"tool": "desk/tell", "arguments": {"said": " ".join(taken), **{each: each for each in taken}}}
        for each in (one for one in taken if len(one) <= 200):
            cron = {"type": "cron", "expression": "0 7 * * 1-5", "timezone": "Europe/Berlin", "name": each}
            done(self.page, "schedules.create", schedule={**plan, **cron})
            on = {"type": "message", "patterns": [each], "matchMode": "exact", "name": each}
            done(self.page, "triggers.create", trigger={**plan, **on})

    def _runs(self) -> None:
        """Something that goes on, so that it can be stopped."""
        self.page.evaluate(
            "key => void fetch('/api/v1/calls', { method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': key },"
            " body: JSON.stringify({ tool: 'desk/wait', arguments: {} }) })",
            '"wait"',
        )
        self.page.wait_for_function(
            "async () => (await (await fetch('/api/v1/calls')).text()).includes('desk/wait')", polling=100
        )
        self.place["seq"] = does(self.page, "audit/verify", method="GET")["records"]


def pages_of(lived: Lived, *, one_of_each: bool = False) -> Iterator[tuple[Page, str]]:
    """Every page there is, one after another: those of the owner, those that are shown instead of one, and some while everything is
    stopped. Each with its name."""
    page, at = lived.page, lived.at
    names = [each for several in ADDRESSES.values() for each in several]
    left_out = PARTS | (MORE if one_of_each else set())
    for address, name in zip(lived.addresses(), names, strict=True):
        if name in left_out:
            continue
        page.goto(at.url + address)
        page.wait_for_selector("#live")
        yield page, name
    page.goto(at.url + "/nosuch")
    assert "There is no such thing" in page.inner_text("h1")
    yield page, "no such page"
    stranger = at.tab(signed_in=False)
    stranger.goto(at.url + "/people")
    stranger.wait_for_selector("#sign-in:not([hidden])")
    yield stranger, "sign in"
    given = {"id": "human:vera", "password": "long enough to be one"}
    does(stranger, "sign-in/password", given)
    stranger.goto(at.url + "/schedules")
    assert "This is not for you" in stranger.inner_text("h1")
    yield stranger, "not for you"
    stranger.goto(at.url + "/people")
    assert stranger.query_selector("main form") is None
    yield stranger, "people of a viewer"
    # It would come to life again and again while these are looked at.
    does(page, "modules/skills/disable", {"skill_id": "bell"})
    does(page, "modules/runtime/stop", {"why": "the kettle is on fire"})
    page.goto(at.url + "/")
    page.wait_for_selector("#runs-title >> text=Nothing runs")  # the banner says something like it
    for address in ("/", "/people", "/policy/explain"):
        page.goto(at.url + address)
        page.wait_for_selector(".banner >> text=the kettle is on fire")
        yield page, f"{address} while stopped"
    does(page, "modules/runtime/resume")
