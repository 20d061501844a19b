"""Schemathesis over the OpenAPI document, with all its checks: every answer is as the document says, and none is a fault of ours.

500 cases here, and 10,000 in `make torture-server` (METIER_TORTURE).
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import BlockingPortal

from metier.doors.http import limits_sign_in
from serve_kit import Premises

TORTURE = bool(os.environ.get("METIER_TORTURE"))
CASES = 10_000 if TORTURE else 500
OPERATIONS = 40
"""About: the cases are shared out among them."""
RUN = """
import schemathesis.transport.requests as sending
sending._count_opened_connections = lambda session: 0  # it asks urllib3 for what the one that niquests installs has not
import re, uuid
import requests
from metier.doors.http.idempotency import KEY

real = requests.Session.send

def send(self, request, **kwargs):
    # Nobody signs in from another page, so who tries says that he is on ours, as a browser would. Every third one does not.
    if "/sign-in" in request.url and len(request.body or "") % 3:
        request.headers["Origin"] = "/".join(request.url.split("/")[:3])
    # The same key for another request is refused, as it has to be; so each request that has a good one gets its own.
    if re.fullmatch(KEY, str(request.headers.get("Idempotency-Key", ""))):
        request.headers["Idempotency-Key"] = f'"{uuid.uuid4()}"'
    return real(self, request, **kwargs)

requests.Session.send = send
from schemathesis.cli import schemathesis
schemathesis()
"""


@contextmanager
def served(premises: Premises) -> Generator[str]:
    """A server in a loop and a thread of its own."""
    ready = threading.Event()
    url: list[str] = []
    end: list[Callable[[], object]] = []

    async def main() -> None:
        ended = anyio.Event()
        async with premises.serving() as house, BlockingPortal() as portal:
            url.append(house.door.url)
            end.append(lambda: portal.call(ended.set))
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=anyio.run, args=(main,))
    thread.start()
    assert ready.wait(20)
    try:
        yield url[0]
    finally:
        end[0]()
        thread.join(30)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("who", "phases"),
    [("owner", "fuzzing"), ("agent", "fuzzing"), *([("owner", "coverage")] if TORTURE else [])],
)
def test_web_18_every_answer_is_as_the_document_says_and_none_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str, phases: str
) -> None:
    premises = Premises(tmp_path, monkeypatch)
    for each in (
        "ACCOUNT",
        "ADDRESS",
        "ALL",
        "SENT",
    ):  # who tries so often is told to wait, and nothing else would be seen
        monkeypatch.setattr(limits_sign_in, each, (1_000_000, 300.0))
    token = premises.owner() if who == "owner" else premises.agent()
    each = max(1, CASES // OPERATIONS // 2 + 1)
    with served(premises) as url:
        done = subprocess.run(
            [
                *(sys.executable, "-c", RUN, "run", f"{url}/api/v1/openapi.json"),
                *("--header", f"Authorization: Bearer {token}"),
                *("--checks", "all", "--max-examples", str(each), "--phases", phases),
                *(
                    "--exclude-path",
                    "/api/v1/events",
                    "--no-color",
                    "--output-sanitize",
                    "false",
                    "--seed",
                    "7",
                    "--request-timeout",
                    "30",
                ),
            ],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=3_000,
            cwd=tmp_path,
            env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/bin:/bin"},
        )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert str(premises.machine.top) not in done.stdout
