"""A machine of its own for a test: a home, a project, skills in them, and the `metier` command."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked
import metier
from metier.catalog.catalog import Catalog
from metier.catalog.catalog import load as load_catalog
from metier.catalog.here import trusts_here
from metier.catalog.requirements import Environment
from metier.config.load import load
from metier.config.settings import Settings


def write_skill(
    folder: Path,
    name: str | None = None,
    *,
    description: str = "Does a thing.",
    body: str = "Do it.",
    **fields: str,
) -> Path:
    """Write a skill into `folder` and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"name: {json.dumps(name or folder.name)}", f"description: {json.dumps(description)}"]
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in fields.items()]
    text = "---\n" + "\n".join(lines) + f"\n---\n\n{body}\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


def approve_all(root: Path) -> None:
    """Name every skill of `root` in its own list: the operator's word for all that they declare, bound to their first bytes."""
    names = sorted({each.stem for each in root.iterdir()} - {"SKILL_MANIFEST"})
    (root / "SKILL_MANIFEST.json").write_text(json.dumps({"approvedSkills": names}), encoding="utf-8")


BUNDLED = frozenset(os.listdir(Path(metier.__file__).with_name("bundled")))
"""The skills that are always there."""


def own_rows(listing: str) -> list[str]:
    """The rows of `metier skills list` that are about other skills than those."""
    return [row for row in listing.splitlines() if BUNDLED.isdisjoint(row.split()[:2])]


@dataclass
class Machine:
    """Everything below one temporary folder."""

    top: Path

    def __post_init__(self) -> None:
        for folder in (self.home, self.project, self.bin):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        return self.top / "home"

    @property
    def project(self) -> Path:
        return self.top / "project"

    @property
    def bin(self) -> Path:
        return self.top / "bin"

    @property
    def state(self) -> Path:
        return self.home / ".metier"

    @property
    def skills(self) -> Path:
        """The first of the user's own roots."""
        return self.state / "skills"

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": str(self.bin), "LANG": "C.UTF-8"}

    def program(self, name: str) -> None:
        """Put an executable of this name on the machine's path."""
        path = self.bin / name
        path.write_text("#!/bin/sh\n", encoding="utf-8")
        path.chmod(0o755)

    def settings(self, **given: Any) -> Settings:
        return load(project=str(self.project), environ=self.environ, **given)

    def catalog(self, **given: Any) -> Catalog:
        settings = self.settings(**given)
        environment = Environment(
            path=str(self.bin),
            env=self.environ,
            platform="linux",
            config=settings.config,
            entries=settings.skills.entries,
        )
        return load_catalog(settings, trusts=trusts_here(settings), environment=environment)

    def metier(
        self, *args: str, check: int | None = 0, stdin: str = "", umask: int = -1
    ) -> subprocess.CompletedProcess[str]:
        """Run the command as a user would; `check` is the exit status that is expected."""
        done = forked.metier(
            args,
            cwd=str(self.project),
            env={**self.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            stdin=stdin,
            umask=umask,
            seconds=60,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        if check is not None:
            assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
        return done

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of shell in the project, with `metier` on the path."""
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.project,
            env={**self.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    def json(self, *args: str, check: int | None = 0) -> Any:
        return json.loads(self.metier(*args, check=check).stdout)
