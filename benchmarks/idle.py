"""What a whole host costs while nothing happens: `metier host` with skills that live and a Telegram bot that is polled.

    python benchmarks/idle.py [--skills N] [--seconds S] [--json]

Everything is real but Telegram, for which the Bot API server of `metier.testing` stands in, outside of the host. Counted is
the processor time of the host and of everything below it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from metier.testing.bot_api import BotApiServer

SKILLS = 20
SECONDS = 30.0
MOST = 2.0
TELEGRAM = "@xpell/agent-skill-telegram"
PACKAGE = """
class Quiet:
    name = "quiet{number}"

    def ping(self, params, meta):
        return "pong"


skill = {{
    "id": "quiet-{number}",
    "version": "1.0.0",
    "on_enable": lambda ctx: ctx.register_module(Quiet()),
}}
"""


def processor_seconds(pid: int) -> float:
    """What a process and everything below it has taken of the processor so far."""
    total, todo = 0, [pid]
    while todo:
        each = todo.pop()
        try:
            for thread in os.listdir(f"/proc/{each}/task"):
                total += int(Path(f"/proc/{each}/task/{thread}/schedstat").read_text().split()[0])
                todo += map(int, Path(f"/proc/{each}/task/{thread}/children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total / 1e9


class Machine:
    """A home and a project of their own."""

    def __init__(self, top: Path, skills: int, api: str, user: int) -> None:
        self.home, self.project = top / "home", top / "project"
        names = [f"quiet-{number}" for number in range(skills)]
        for number, name in enumerate(names):
            folder = self.project / name.replace("-", "_")
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text(PACKAGE.format(number=number))
        (self.home / ".metier").mkdir(parents=True, mode=0o700)
        paths = ", ".join(f'"{name.replace("-", "_")}"' for name in names)
        allowed = ", ".join(f'"{each}"' for each in (*names, TELEGRAM))
        (self.home / ".metier" / "metier.toml").write_text(
            f"[xbot]\nallow = [{allowed}]\nenabled = [{allowed}]\n[xbot.resolve]\nlocal_paths = [{paths}]\n"
            f'[telegram]\napi = "{api}"\n'
        )
        self.run("skills", "trust", "--yes", *names)
        self.user = user

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "metier", *args]

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "METIER_HOME": str(self.home / ".metier")}

    def run(self, *args: str, given: str = "") -> str:
        done = subprocess.run(
            self.command(*args),
            cwd=self.project,
            env=self.environ,
            input=given,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def living(self) -> int:
        records = json.loads(self.run("skills", "living", "--json") or "[]")
        return sum(each["status"] == "loaded" for each in records)


def measured(top: Path, skills: int, seconds: float) -> dict[str, float]:
    with BotApiServer() as telegram:
        machine = Machine(top, skills, telegram.url, 1_000)
        with open(top / "host.log", "wb") as log:
            host = subprocess.Popen(
                machine.command("host"), cwd=machine.project, env=machine.environ, stdout=log, stderr=log
            )
        try:
            deadline = time.monotonic() + 120
            while machine.living() < skills + 1 and time.monotonic() < deadline:
                time.sleep(1)
            machine.run("settings", "set", TELEGRAM, "bot_token", given=telegram.token)
            machine.run("settings", "set", TELEGRAM, "admin_chat_ids=1000", "auto_start=true")
            while not telegram.state.offsets and time.monotonic() < deadline:
                time.sleep(0.5)
            alive, polls = machine.living(), telegram.state.offsets
            assert alive == skills + 1 and polls, (alive, polls, (top / "host.log").read_text()[-2_000:])
            time.sleep(8)  # until everything is looked at as seldom as it ever is
            before, began = processor_seconds(host.pid), time.perf_counter()
            time.sleep(seconds)
            spent = processor_seconds(host.pid) - before
            return {
                "host_idle_percent": round(100 * spent / (time.perf_counter() - began), 3),
                "residents": alive,
            }
        finally:
            host.terminate()
            host.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--skills", type=int, default=SKILLS, metavar="N", help=f"how many ({SKILLS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=f"how long ({SECONDS:g})")
    parser.add_argument("--json", action="store_true", help="print one flat object, name to figure")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        figures = measured(Path(top).resolve(), given.skills, given.seconds)
    if given.json:
        print(json.dumps(figures))
    else:
        print(
            f"metier host, {figures['residents']:g} skills that live, a bot that is polled: "
            f"{figures['host_idle_percent']:.2f} % of a core (limit {MOST:g})"
        )


if __name__ == "__main__":
    main()
