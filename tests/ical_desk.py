"""A calendar on a desk: its folder, its clock, and the command asked inside this process or as a program of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from metier.ical.command import answered
from metier.ical.problem import Problem

PROGRAM = [sys.executable, "-m", "metier.ical.command"]
NOW = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)


@dataclass
class Ran:
    code: int
    out: str
    err: str


@dataclass
class Desk:
    folder: Path
    now: datetime = NOW
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, body: str, name: str = "calendar", head: str = "") -> Path:
        """A calendar file with these lines between a head and an end."""
        lines = [
            "BEGIN:VCALENDAR",
            "VERSION:2.0",
            "PRODID:-//someone//else//EN",
            *head.split("\n"),
            *body.split("\n"),
        ]
        kept = [line.strip() for line in (*lines, "END:VCALENDAR") if line.strip()]
        path = self.folder / f"{name}.ics"
        path.write_bytes("".join(f"{line}\r\n" for line in kept).encode())
        return path

    def ask(self, *words: str) -> str | Problem:
        return answered(list(words), self.environ, self.now)

    def listed(self, *words: str) -> list[str]:
        """The lines of an answer, without the name of the calendar."""
        answer = self.ask(*words)
        assert isinstance(answer, str), answer
        return [line.removesuffix(" [calendar]") for line in answer.splitlines()]

    def refused(self, *words: str) -> Problem:
        answer = self.ask(*words)
        assert isinstance(answer, Problem), answer
        return answer

    def start(self, *words: str, **more: str) -> "subprocess.Popen[bytes]":
        environ = {"PATH": os.environ["PATH"], "LC_ALL": "C", **self.environ, **more}
        return subprocess.Popen(
            [*PROGRAM, *words],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str, **more: str) -> Ran:
        process = self.start(*words, **more)
        try:
            out, err = process.communicate(timeout=40)
        finally:
            process.kill()
        return Ran(process.returncode, out.decode(), err.decode())


@dataclass
class Radicale:
    port: int
    scheme: str
    roots: str

    @property
    def environ(self) -> dict[str, str]:
        environ = {
            "METIER_CALDAV_URL": f"{self.scheme}://127.0.0.1:{self.port}/",
            "METIER_CALDAV_USER": "op",
            "METIER_CALDAV_PASSWORD": "geheim",
            "METIER_TIMEZONE": "Europe/Berlin",
        }
        return {**environ, "SSL_CERT_FILE": self.roots} if self.roots else environ

    def request(self, method: str, path: str, body: str, **headers: str) -> int:
        """What another program of the operator does there."""
        import http.client

        assert self.scheme == "http"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            login = {"Authorization": "Basic b3A6Z2VoZWlt"}
            connection.request(method, path, body.encode(), {**login, **headers})
            return connection.getresponse().status
        finally:
            connection.close()

    def calendar(self, path: str, name: str) -> None:
        body = (
            '<?xml version="1.0"?><mkcalendar xmlns="urn:ietf:params:xml:ns:caldav"><set xmlns="DAV:"><prop>'
            f"<displayname>{name}</displayname></prop></set></mkcalendar>"
        )
        assert self.request("MKCALENDAR", path, body) == 201
