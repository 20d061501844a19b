"""`metier serve` as a person starts it: it says where it is, signs him in once, is the host, and ends when told."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from machine import Machine


@contextmanager
def serve(machine: Machine, *more: str) -> Generator[tuple[subprocess.Popen[str], str, str]]:
    """The process, the address, and the link."""
    program = Path(sys.executable).with_name("metier")
    process = subprocess.Popen(
        [str(program), "serve", "--port", "0", *more],
        cwd=machine.project,
        env={
            **machine.environ,
            "PATH": f"{machine.bin}:/usr/bin:/bin",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        said = ""
        while "Sign in" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        found = re.search(r"serves (http://\S+?)[,\s]", said)
        link = re.search(r"(http://\S+#token=\w+)", said)
        assert found and link, said
        yield process, found[1], link[1]
    finally:
        process.kill()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.slow
def test_a_person_signs_in_once_by_the_link_and_the_server_ends_when_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with serve(machine) as (process, url, link):
        token = link.partition("#token=")[2]
        page = {"origin": url, "sec-fetch-site": "same-origin"}
        with httpx2.Client(base_url=url, headers=page, timeout=20, trust_env=False) as client:
            stranger = client.get("/")
            assert (stranger.status_code, 'id="sign-in"' in stranger.text) == (401, True)
            assert client.get("/api/v1/me").status_code == 401
            made = client.post("/api/v1/sign-in/link", json={"token": token})
            assert made.status_code == 200, made.text
            me = client.get("/api/v1/me").json()
            assert (me["kind"], me["by"]) == ("human", "session")
            assert client.get("/api/v1/audit").status_code == 200
            assert client.get("/").status_code == 200
            assert client.post("/api/v1/sign-in/link", json={"token": token}).status_code in (401, 403)
        status = machine.json("host", "status", "--json")
        assert status["running"] and status["answers"]
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait(25) == 0, said
        assert "The server has ended." in said
        assert time.monotonic() - began < 20
        assert "Traceback" not in said and token not in said
    assert machine.json("audit", "verify", "--json")["ok"]


@pytest.mark.slow
def test_what_is_in_the_way_is_said_without_a_traceback(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with serve(machine, "--no-host") as (_, url, _):
        port = url.rpartition(":")[2]
        done = machine.metier("serve", "--port", port, "--no-host", check=None)
        assert done.returncode != 0
        assert "cannot be listened at" in done.stderr


@pytest.mark.slow
def test_a_server_that_is_started_while_the_host_ends_becomes_the_host_and_is_found(tmp_path: Path) -> None:
    """As after a restart: the old one keeps the role for as long as what it runs has its grace."""
    machine = Machine(tmp_path)
    with serve(machine) as (first, _, _), serve(machine) as (second, url, _):
        assert machine.json("host", "status", "--json")["host"]["pid"] == first.pid
        first.send_signal(signal.SIGTERM)
        assert first.wait(25) == 0
        assert second.stdout is not None
        said = second.stdout.readline()
        assert f"process {first.pid}, which was the host, has ended; this process is the host now" in said
        status = machine.json("host", "status", "--json")
        assert status["answers"] and status["host"]["pid"] == second.pid
        deadline = time.monotonic() + 10
        while not (link := machine.json("sign-in", "--json"))["running"] and time.monotonic() < deadline:
            time.sleep(0.2)
        assert link["running"] and url in str(link)
        stopped = machine.metier("host", "stop")  # and who is told to stop does not begin anew
        assert "has ended" in stopped.stdout
        assert "the host no longer, as it was told" in second.stdout.readline()
        time.sleep(3)
        assert not machine.json("host", "status", "--json", check=None)["running"]
        second.send_signal(signal.SIGTERM)
        assert second.wait(25) == 0
