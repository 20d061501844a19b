"""How long the pages of the console take, on a state that is full: 10,000 skills, 100,000 records, 1,000 requests that wait.

    python benchmarks/console.py [--json] [--skills 10000] [--records 100000] [--pending 1000]

`metier serve` runs as a process of its own; this one signs in by its link and asks for every page several times. What is printed is the
time from the request to the last byte over loopback: the server's time and a little more. The first look at each page, when nothing is
kept yet, is given beside the middle one of the others.
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
from datetime import UTC, datetime, timedelta
from typing import Any

LIMIT_MS = 200
TIMES = 7
AGENTS = 12
EVENTS = ("skill_execution_started", "skill_executed", "skill_execution_blocked")
PAGES = {
    "now": "/",
    "approvals": "/approvals",
    "approvals_last_page": "/approvals?page=50",
    "approval": "/approvals/{approval}",
    "skills": "/skills",
    "skills_last_page": "/skills?page=200",
    "skills_found": "/skills?q=bench-007",
    "skill": "/skills/bench-00077",
    "record": "/record",
    "record_middle": "/record?before={middle}",
    "record_found": "/record?text=bench-00499",
    "record_not_found": "/record?text=nothing-has-this-in-it",
    "record_by_tool": "/record?tool=bench-00077/go",
    "story": "/record/calls/{call}",
    "one_record": "/record/{middle}",
    "policy": "/policy",
    "explain": "/policy/explain?tool=fs_write",
    "usage": "/usage",
    "people": "/people",
    "channels": "/channels",
    "schedules": "/schedules",
}


def fill(home: str, skills: int, records: int) -> None:
    """Skills on the disk and records in the state. The server has not begun yet."""
    from metier.catalog.here import owner
    from metier.config.load import load
    from metier.record.chain import Act, Ran, append
    from metier.record.database import Database

    for number in range(skills):
        folder = os.path.join(home, ".metier", "skills", f"bench-{number:05}")
        os.makedirs(folder)
        with open(os.path.join(folder, "SKILL.md"), "w", encoding="utf-8") as file:
            file.write(
                f"---\nname: bench-{number:05}\ndescription: The skill of number {number}, which says a little.\n---\nText.\n"
            )
    settings = load(home=os.path.join(home, ".metier"), project=home)
    began = datetime.now(UTC) - timedelta(days=30)
    with Database.open(settings.database) as database:
        for start in range(0, records, 5_000):
            with database.transaction() as connection:
                for number in range(start, min(start + 5_000, records)):
                    at = began + timedelta(seconds=30 * 86_400 * number / records)
                    event = EVENTS[number % 3]
                    act = Act(
                        principal=f"agent:bench-{number % 20}", on_behalf_of=owner(), call_id=f"call_{number // 3:024x}",
                        tool=f"bench-{number // 3 % 500:05}/go", skill=f"bench-{number // 3 % 500:05}", effect="act", risk="low",
                        decision="allow", session="bench",
                    )  # fmt: skip
                    append(
                        connection, event, act, at=at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), payloads={},
                        ran=Ran(sandbox="bench", duration_ms=12.5) if event == "skill_executed" else Ran(),
                    )  # type: ignore[arg-type]  # fmt: skip


def wait(client: Any, home: str, many: int) -> str:
    """So many requests that wait; the id of one."""
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
    approval = ""
    for number in range(many):
        body = {"tool": "fs_write", "arguments": {"path": f"out/{number}.txt", "content": "x" * 200}}
        answer = client.post(
            "/api/v1/calls", json=body, headers={"authorization": f"Bearer {tokens[number % AGENTS]}"}
        ).json()
        approval = answer.get("approval_id", approval)
    return approval


def measure(skills: int, records: int, pending: int, home: str) -> dict[str, Any]:
    import httpx2

    fill(home, skills, records)
    server = subprocess.Popen(
        [sys.executable, "-m", "metier", "serve", "--port", "0"],
        cwd=home, env={**os.environ, "HOME": home}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    said = ""
    for line in server.stdout:
        said += line
        if found := re.search(r"(http://\S+)/#token=(\S+)", line):
            break
    else:
        raise SystemExit(f"it does not serve: {said}")
    figures: dict[str, Any] = {}
    try:
        with httpx2.Client(base_url=found[1], timeout=120, trust_env=False) as client:
            ours = {"origin": found[1], "sec-fetch-site": "same-origin"}
            assert (
                client.post("/api/v1/sign-in/link", json={"token": found[2]}, headers=ours).status_code == 200
            )
            approval = wait(client, home, pending)
            named = {"approval": approval, "middle": str(records // 2), "call": f"call_{records // 6:024x}"}
            led = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
            for name, path in PAGES.items():
                took: list[float] = []
                for _ in range(TIMES):
                    began = time.perf_counter()
                    answer = client.get(path.format(**named), headers=led)
                    took.append((time.perf_counter() - began) * 1_000)
                    assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
                figures[name] = {
                    "first_ms": round(took[0], 1), "ms": round(statistics.median(took[1:]), 1), "kb": round(len(answer.content) / 1024),
                }  # fmt: skip
    finally:
        server.terminate()
        server.wait(30)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--skills", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--pending", type=int, default=1_000)
    given = parser.parse_args()
    home = tempfile.mkdtemp(prefix="metier-console-")
    os.mkdir(os.path.join(home, ".metier"), 0o700)
    try:
        figures = measure(given.skills, given.records, given.pending, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    slowest = max(each["ms"] for each in figures.values())
    if given.json:
        print(json.dumps({"slowest_ms": slowest, "pages": figures}))
        return
    print(
        f"{given.skills:,} skills, {given.records:,} records, {given.pending:,} requests that wait; limit {LIMIT_MS} ms"
    )
    print(f"{'page':22} {'first':>9} {'then':>9} {'size':>8}")
    for name, each in figures.items():
        print(f"{name:22} {each['first_ms']:>6.0f} ms {each['ms']:>6.0f} ms {each['kb']:>5} KB")


if __name__ == "__main__":
    main()
