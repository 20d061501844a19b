"""How long every page of the console takes, on a state that is full: 10,000 skills, 100,000 records, 1,000 requests that wait.

    python benchmarks/console.py [--json] [--skills 10000] [--records 100000] [--pending 1000] [--limit-ms 200] [--only NAME ...]

`metier serve` runs as a process of its own; this one signs in by its link and asks for every page there is. What is printed is the
time from the request to the last byte over loopback: the server's time and a little more. `ever` is the very first look at an address, when
nothing is kept yet. After every address was looked at once, each is asked for several times in a row: `first` is the first of these and
`then` the middle one. Where one of these two is over the limit for any address the exit status is 1. An address that is over it is asked for
anew up to three times, after a while, because somebody else may have had the processors; that is said. Beside them stands the processor time that
the server took for the middle one: on a busy machine the others are longer. A page without an address here is an error.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, islice
from typing import Any
from urllib.parse import urlsplit

LIMIT_MS = 200.0
TIMES = 7
AGAIN = 3
WHILE = 2.0
"""Seconds, before an address is asked for anew."""
AGENTS = 12
OVER = 60
"""Requests that were said no to."""
SCHEDULES = 120
SCHEDULES_ON = 20
"""As many as there may be."""
THREADS = 300
MESSAGES = 3_000
USED = 500
"""Skills that were called."""
FILES = 120
PATHS: dict[str, dict[str, str]] = {
    "/": {"now": "/"},
    "/around": {"around": "/around"},
    "/approvals": {
        "approvals": "/approvals",
        "approvals, last page": "/approvals?page={last_approvals}",
        "approvals that are over": "/approvals?over=true",
    },
    "/approvals/{approval}": {
        "a request": "/approvals/{approval}",
        "a request, a grant": "/approvals/{approval}?scope=always&uses=10&days=7",
        "a request that is over": "/approvals/{over}",
    },
    "/skills": {
        "skills": "/skills",
        "skills, last page": "/skills?page={last_skills}",
        "skills, found": "/skills?q=bench-001",
        "skills, not found": "/skills?q=nothing-is-called-so",
        "skills, by status": "/skills?status=usable&dialect=agent_skills",
    },
    "/skills/{skill}": {
        "a skill": "/skills/bench-00077",
        "a skill that declares": "/skills/bench-desk",
    },
    "/skills/{skill}/files": {
        "files": "/skills/bench-noter/files",
        "one file": "/skills/bench-noter/files?path=SKILL.md",
    },
    "/skills/{skill}/settings": {"settings": "/skills/bench-noter/settings"},
    "/skills/{skill}/try": {
        "try": "/skills/bench-noter/try",
        "try, a tool": "/skills/bench-00077/try?tool=bench-00077/go",
    },
    "/record": {
        "record": "/record",
        "record, the middle": "/record?before={seq}",
        "record, with looks": "/record?looks=true",
        "record, text": "/record?text=out%2F77.txt",
        "record, text nowhere": "/record?text=nothing-has-this-in-it",
        "record, a skill": "/record?skill=bench-00077",
        "record, a tool nowhere": "/record?tool=nothing-is-called-so",
        "record, a person": "/record?principal=agent:bench-9&event=skill_execution_blocked",
        "record, a person nowhere": "/record?principal=human:nobody",
        "record, a day": "/record?since={day}&until={day}",
    },
    "/record/calls/{call}": {"a call": "/record/calls/{call}"},
    "/record/{seq}": {"one record": "/record/{seq}"},
    "/policy": {"policy": "/policy"},
    "/policy/explain": {
        "explain": "/policy/explain",
        "explain, a tool": "/policy/explain?tool=fs_write&arguments=%7B%22path%22%3A%22out%2Fa.txt%22%2C%22content%22%3A%22b%22%7D",
    },
    "/policy/replay": {
        "replay": "/policy/replay",
        "replay, now": "/policy/replay?now=true",
        "replay, a day": "/policy/replay?now=true&since={day}&until={day}",
        "replay, until a day": "/policy/replay?now=true&until={day}",
        "replay, further back": "/policy/replay?now=true&before={seq}",
    },
    "/usage": {
        "usage": "/usage",
        "usage, with looks": "/usage?looks=true",
        "usage, of always": "/usage?since=2000-01-01",
    },
    "/people": {"people": "/people"},
    "/channels": {"channels": "/channels"},
    "/channels/threads/{thread}": {"a conversation": "/channels/threads/{thread}"},
    "/schedules": {"schedules": "/schedules"},
}
"""By the path of a page: what to ask it for. What is in braces is put in once the state is there."""
LED = {
    "accept": "text/html",
    "sec-fetch-site": "none",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
}
"""What a browser says of a page that a person opens."""
NO_PAGE = {"no such page": "/no/such/page"}
RULES = """
[[rule]]
decision = "ask"
because = "the seventh skill is new"
tool = "bench-00007/go"

[[rule]]
name = "no-system-files"
decision = "deny"
because = "nobody writes there"
effect = "act"
risk = "medium"
when = 'has(args.path) && args.path.startsWith("/etc/")'
match = [{ tool = "bench-00001/go", effect = "act", risk = "medium", args = { path = "/etc/passwd" } }]
not_match = [{ tool = "bench-00001/go", effect = "act", risk = "medium", args = { path = "out/1.txt" } }]
"""
"""Others than those of the past, and one of them asks for what was kept beside each call."""
TOOL = """metadata:
  metier:
    settings:
      type: object
      properties:
        prefix: {type: string, title: Prefix, description: Stands before every note, default: note}
        key: {type: string, title: Key, x-secret: true}
    tools:
      - name: go
        description: Keep a note.
        parameters:
          type: object
          properties: {path: {type: string}, text: {type: string, maxLength: 2000}}
          required: [path]
        effect: act
        risk: medium
        entry: {kind: python, path: go.py, function: go}
"""
DESK = {
    "id": "bench-desk",
    "description": "Keeps things.",
    "instructions": "Do it.",
    "actions": [{"id": "tidy", "type": "code", "language": "python", "code": "return 1"}],
    "triggers": [
        {"type": "message", "patterns": [f"tidy {number}"], "actionId": "tidy", "name": f"asked {number}"}
        for number in range(20)
    ],
    "schedules": [
        {"type": "interval", "intervalMs": 600_000, "actionId": "tidy", "name": f"daily {number}"}
        for number in range(20)
    ],
}


def write(home: str, *path: str, text: str) -> None:
    place = os.path.join(home, ".metier", *path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "w", encoding="utf-8") as file:
        file.write(text)


def put_skills(home: str, many: int) -> None:
    """So many: one that declares what it would do by itself, one with settings and many files, and plain ones, the first of which have a tool."""
    write(home, "skills", "bench-desk", "skill.json", text=json.dumps(DESK))
    names = ["bench-noter", *(f"bench-{number:05}" for number in range(many - 2))]
    for number, name in enumerate(names):
        about = f"name: {name}\ndescription: The skill of number {number}, which says a little.\n"
        has = number <= USED
        write(home, "skills", name, "SKILL.md", text=f"---\n{about}{TOOL if has else ''}---\nText.\n")
        if has:
            write(
                home, "skills", name, "go.py", text="def go(params):\n    return {'kept': params['path']}\n"
            )
    for number in range(FILES):
        write(home, "skills", "bench-noter", "notes", f"{number:03}.md", text=f"Note {number}.\n" * 20)


def put_call(log: Any, connection: Any, number: int, *, runs: bool) -> None:
    """A call of the past as the gate writes it, with arguments and result kept: it ran, or failed, or was refused."""
    from metier.catalog.here import owner
    from metier.record.audit import Intent
    from metier.record.chain import Act, Ran

    # Everybody uses every one of them, so no two calls of a day are alike.
    skill = f"bench-{number % USED:05}"
    judged: dict[str, Any] = {
        "trust_level": "supervised_auto",
        "policy": f"sha256:{1:064x}",
        "evidence": "policy",
    }
    act = Act(
        principal=f"agent:bench-{(number // USED + number % 7) % 20}", on_behalf_of=owner(), call_id=f"call_{number:024x}",
        tool=f"{skill}/go", skill=skill, skill_digest=f"sha256:{number % USED:064x}", effect="act", risk="medium",
        session=f"session-{number // 50}", channel="api", decision="allow" if runs else "deny", **(judged if runs else {}),
    )  # fmt: skip
    given = {"arguments": {"path": f"out/{number}.txt", "text": f"What was said in call {number}. " * 8}}
    if not runs:
        why = ("rule 3: nobody writes on a Sunday",)
        log.noting("skill_execution_blocked", act, code="forbidden", reasons=why, payloads=given)(connection)
        return
    why = ("medium risk runs at trust level 'supervised_auto'",)
    intent = log.intending(act, reasons=why, payloads={**given, "cwd": "/srv/work"})(connection)
    assert isinstance(intent, Intent)
    ran = Ran(sandbox="python", guarantees=("no_network", "own_files", "limits"), duration_ms=12.5)
    if number % 25 == 7:
        said = {"message": "the disk is full"}
        log.ending(intent, "skill_execution_error", code="reported", payloads=said, ran=ran)(connection)
        return
    answer = {"kept": f"out/{number}.txt", "bytes": 240, "lines": ["one", "two", "three"] * 5}
    log.ending(intent, "skill_executed", payloads={"result": answer}, ran=ran)(connection)


def put_records(database: Any, many: int) -> None:
    """So many records of calls, spread over a month. Every tenth call was refused."""
    from metier.record.audit import AuditLog

    began, times = datetime.now(UTC) - timedelta(days=30), count()

    def clock() -> str:
        return f"{began + timedelta(seconds=30 * 86_000 * next(times) / many):%Y-%m-%dT%H:%M:%S.%fZ}"

    log, calls = AuditLog(database, clock=clock), count()
    while (written := log.head()[0]) < many:
        with database.transaction() as connection:
            for number in islice(calls, 1_000):
                runs = number % 10 != 9 and written + 2 <= many
                put_call(log, connection, number, runs=runs)
                written += 2 if runs else 1
                if written >= many:
                    break


def put_conversations(home: str) -> None:
    """What was said: some sent, some failed, some waiting."""
    from metier.kernel import conversation_rows, delivery_rows
    from metier.kernel.channel_rows import put_channel
    from metier.kernel.channel_rules import Channel
    from metier.kernel.store import Store

    store, now = Store(os.path.join(home, ".metier")), time.time()
    with store.writing() as connection:
        put_channel(connection, Channel(name="bench", skill="bench-desk", connector="bench"), now)
        for number in range(MESSAGES):
            chat, text = (
                f"chat-{number % THREADS if number % 10 else 0}",
                f"Message {number}: is it done yet? " * 6,
            )
            new = conversation_rows.New(
                channel="bench", owner="bench-desk", chat=chat, author=f"user-{number % THREADS}", text=text,
                call_id=f"call_{number:024x}", id=f"in-{number}", key=f"out-{number}", data={"role": "customer"},
            )  # fmt: skip
            if number % 2:
                conversation_rows.take_in(connection, new, now - MESSAGES + number)
                continue
            made = conversation_rows.put_out(connection, new, now - MESSAGES + number)
            if number % 50:
                delivery_rows.sent(connection, made.message, f"sent-{number}", now)
            elif number % 100:
                delivery_rows.fail(connection, made.message, "the connector does not answer", now)


def fill(home: str, skills: int, records: int) -> None:
    """All that can be there before the server begins."""
    from metier.config.load import load
    from metier.record.database import Database

    put_skills(home, skills)
    write(home, "metier.toml", text="[approvals]\nexpires_minutes = 600\n")
    with Database.open(load(home=os.path.join(home, ".metier"), project=home).database) as database:
        put_records(database, records)
    put_conversations(home)
    write(home, "policy.toml", text=RULES)
    os.chmod(os.path.join(home, ".metier", "policy.toml"), 0o600)


def ask(client: Any, home: str, many: int) -> list[str]:
    """So many requests of agents, and their ids."""
    from metier.catalog.here import owner
    from metier.config.load import load
    from metier.model.role import EXECUTE, Registered
    from metier.record.database import Database
    from metier.record.principals import add_principal
    from metier.record.tokens import Made, add_token

    tokens: list[str] = []
    with Database.open(load(home=os.path.join(home, ".metier"), project=home).database) as database:
        for number in range(AGENTS):
            id = f"agent:asks-{number}"
            new = Registered(id=id, kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
            assert add_principal(database, new, by=owner(), owner=owner()) == ""
            made = add_token(
                database, principal=id, name="bench", scopes=frozenset({EXECUTE}), expires_at=time.time() + 7_200,
                by=owner(), owner=owner(),
            )  # fmt: skip
            assert isinstance(made, Made)
            tokens.append(made.text)
    asked: list[str] = []
    for number in range(many):
        body = {"tool": "fs_write", "arguments": {"path": f"out/{number}.txt", "content": "x" * 200}}
        answer = client.post(
            "/api/v1/calls", json=body, headers={"authorization": f"Bearer {tokens[number % AGENTS]}"}
        )
        assert answer.status_code == 202, answer.text
        asked.append(answer.json()["approval_id"])
    return asked


def schedule(do: Callable[..., Any]) -> None:
    """As many as the page has to list; few of them may be due."""
    for number in range(SCHEDULES):
        made = do(
            "/api/v1/modules/schedules/create",
            schedule={
                "name": f"bench {number}", "tool": "bench-00077/go", "arguments": {"path": f"out/{number}.txt"},
                "type": "cron", "expression": f"{number % 60} 7 * * 1-5", "timezone": "Europe/Berlin", "enabled": number < SCHEDULES_ON,
            },
        )  # fmt: skip
        assert made["outcome"] == "completed", made


def counted(client: Any, address: str, pattern: str) -> int:
    """The number that stands on a page."""
    page = client.get(address, headers=LED).text
    found = re.search(pattern, page)
    assert found is not None, (pattern, page[:3_000])
    return int(found[1].replace(",", ""))


def addresses(known: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    """What to call it, where it is, and with which status it is answered. Every page there is has one at least."""
    from metier.doors.http.console.routes import PAGES

    pages = [page.path for page in PAGES]
    if lacking := [path for path in pages if not PATHS.get(path)]:
        raise SystemExit(f"no address to look at: {', '.join(lacking)}")
    if gone := [path for path in PATHS if path not in pages]:
        raise SystemExit(f"there is no such page: {', '.join(gone)}")
    for path, named in PATHS.items():
        for name, address in named.items():
            wanted = address.format(**known)
            assert re.fullmatch(re.sub(r"\{[a-z]+\}", "[^/]+", path), urlsplit(wanted).path), (path, wanted)
            yield name, wanted, 200
    for name, address in NO_PAGE.items():
        yield name, address, 404


def busy(process: int) -> float:
    """Milliseconds that the threads of a process were on a processor; 0 where nobody can tell."""
    folder, total = f"/proc/{process}/task", 0
    for thread in os.listdir(folder) if os.path.isdir(folder) else ():
        with suppress(OSError), open(f"{folder}/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1_000_000


def look(client: Any, address: str, status: int, process: int) -> tuple[float, float, int]:
    """Milliseconds, those of the processor, and how large it is."""
    before, began = busy(process), time.perf_counter()
    answer = client.get(address, headers=LED)
    took = (time.perf_counter() - began) * 1_000
    assert answer.status_code == status, (address, answer.status_code, answer.text[-2_000:])
    return took, max(busy(process) - before, 0.0), len(answer.content)


def put_into(client: Any, home: str, ours: dict[str, str], pending: int) -> tuple[str, str]:
    """What takes a server to be there. A request that waits, and one that is over."""

    def do(path: str, **body: Any) -> Any:
        answer = client.post(path, json=body, headers=ours)
        assert answer.status_code < 300, answer.text
        return answer.json()

    over = min(OVER, pending)
    asked = ask(client, home, pending + over)
    for each in asked[:over]:
        do(f"/api/v1/approvals/{each}/deny", word="not today")
    schedule(do)
    listed = do("/api/v1/modules/schedules/list")["value"]["schedules"]
    assert len(listed) == SCHEDULES, len(listed)
    return asked[-1], asked[0]


def a_call(records: int) -> str:
    """One that ran, from the middle of the record."""
    return f"call_{records // 200 * 50:024x}"


def require(client: Any, home: str, given: argparse.Namespace) -> None:
    """What is measured is what is said: all of it is there."""
    from metier.config.load import load
    from metier.record.audit import AuditLog
    from metier.record.database import Database

    assert counted(client, "/around", r'data-waiting="([0-9,]+)"') == given.pending
    assert counted(client, "/approvals", r">([0-9,]+) in all") == given.pending
    assert counted(client, "/skills", r">All ([0-9,]+)<") >= given.skills
    assert counted(client, "/skills?q=bench-", r">([0-9,]+) skills") == given.skills
    with Database.open(load(home=os.path.join(home, ".metier"), project=home).database) as database:
        log = AuditLog(database)
        assert log.head()[0] >= given.records, log.head()
        kept = [set(log.kept(each)) for each in log.tail(2, call_id=a_call(given.records))]
        assert kept == [{"arguments", "cwd"}, {"result"}], kept


def serving(home: str) -> tuple["subprocess.Popen[str]", str, str]:
    """A server on that state, where it is, and the word to sign in with."""
    server = subprocess.Popen(
        [sys.executable, "-m", "metier", "serve", "--port", "0"],
        cwd=home, env={**os.environ, "HOME": home}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    said = ""
    for line in server.stdout:
        said += line
        if found := re.search(r"(http://\S+)/#token=(\S+)", line):
            return server, found[1], found[2]
    raise SystemExit(f"it does not serve: {said}")


def measure(given: argparse.Namespace, home: str) -> dict[str, Any]:
    import httpx2

    fill(home, given.skills, given.records)
    server, url, token = serving(home)
    try:
        with httpx2.Client(base_url=url, timeout=120, trust_env=False) as client:
            ours = {"origin": url, "sec-fetch-site": "same-origin"}
            assert client.post("/api/v1/sign-in/link", json={"token": token}, headers=ours).status_code == 200
            approval, over = put_into(client, home, ours, given.pending)
            known = {
                "approval": approval, "over": over, "last_approvals": str(-(-given.pending // 20)), "last_skills": str(given.skills // 50),
                "seq": str(given.records // 2), "call": a_call(given.records), "thread": "1",
                "day": f"{datetime.now(UTC) - timedelta(days=15):%Y-%m-%d}",
            }  # fmt: skip
            wanted = [each for each in addresses(known) if not given.only or each[0] in given.only]
            ever = {name: look(client, path, status, server.pid)[0] for name, path, status in wanted}
            require(client, home, given)
            return {
                name: {
                    "ever_ms": round(ever[name], 1),
                    **believed(partial(look, client, path, status, server.pid), given.limit_ms),
                }
                for name, path, status in wanted
            }
    finally:
        server.terminate()
        server.wait(30)


def figures(looks: list[tuple[float, float, int]]) -> dict[str, float]:
    took = [each[0] for each in looks]
    return {
        "first_ms": round(took[0], 1),
        "ms": round(statistics.median(took), 1),
        "processor_ms": round(statistics.median(each[1] for each in looks), 1),
        "kb": round(looks[-1][2] / 1024),
        "again": 0,
    }


def is_over(found: dict[str, float], limit: float) -> bool:
    return max(found["first_ms"], found["ms"]) > limit


def believed(looked: Callable[[], tuple[float, float, int]], limit: float) -> dict[str, float]:
    """The figures of one address; those of the last time where it was asked for anew."""
    found = figures([looked() for _ in range(TIMES)])
    for again in range(1, AGAIN + 1):
        if not is_over(found, limit):
            break
        time.sleep(WHILE)
        found = {**figures([looked() for _ in range(TIMES)]), "again": again}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--skills", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--pending", type=int, default=1_000)
    parser.add_argument("--limit-ms", type=float, default=LIMIT_MS)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="look at these alone, by what the table calls them"
    )
    given = parser.parse_args()
    home = tempfile.mkdtemp(prefix="metier-console-")
    os.mkdir(os.path.join(home, ".metier"), 0o700)
    try:
        found = measure(given, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    slow = [name for name, each in found.items() if is_over(each, given.limit_ms)]
    if given.json:
        slowest = max(each["ms"] for each in found.values())
        print(json.dumps({"slowest_ms": slowest, "over_limit": slow, "pages": found}))
    else:
        print(
            f"{given.skills:,} skills, {given.records:,} records, {given.pending:,} requests that wait; limit {given.limit_ms:g} ms"
        )
        print(f"{'page':26} {'ever':>9} {'first':>9} {'then':>9} {'processor':>10} {'size':>8}")
        for name, each in found.items():
            print(
                f"{name:26} {each['ever_ms']:>6.0f} ms {each['first_ms']:>6.0f} ms {each['ms']:>6.0f} ms {each['processor_ms']:>7.0f} ms {each['kb']:>5.0f} KB"
                f"{'  over the limit' if name in slow else ''}{f'  asked anew: {again}' if (again := each['again']) else ''}"
            )
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
