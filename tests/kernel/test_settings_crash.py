"""A process that is killed (kill -9) while it changes settings: plain and secret ones are both as before, or both as after."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from settings_kit import BOT, TOKEN, Desk

TESTS = Path(__file__).resolve().parent.parent
OLD = {"webhook.url": "https://old.example/", "webhook.secret_token": "for-the-old-one", "bot_token": TOKEN}
NEW = {"webhook.url": "https://new.example/", "webhook.secret_token": "for-the-new-one"}
GONE = {"webhook.url": "https://new.example/", "webhook.secret_token": None, "bot_token": None}
KILLED = """
import json, os, signal, sys
from pathlib import Path
from metier.host import sealed
from metier.kernel.store import Store
from settings_kit import Desk

home, patch, where = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
desk = Desk(home)
place, _, which = where.partition(":")
count = 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def around(function):
    def called(*given, **more):
        global count
        count += 1
        if place == "before" and count == int(which):
            die()
        value = function(*given, **more)
        if place == "after" and count == int(which):
            die()
        return value
    return called

sealed.Sealed.set_of_skill = around(sealed.Sealed.set_of_skill)
if place == "replaced":  # the file is in its place, and nothing more was done
    replace = os.replace
    def replaced(*given, **more):
        replace(*given, **more)
        die()
    os.replace = replaced
desk.set(patch)
print("done")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    desk = Desk(tmp_path / "home")
    desk.set(OLD)
    desk.close()
    return tmp_path / "home"


def change(home: Path, patch: str, where: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(home), patch, where], cwd=TESTS, capture_output=True, check=False
    )
    return done.returncode


def seen(desk: Desk) -> tuple[str, str | None, str | None]:
    return (
        desk.get()["settings"]["webhook"]["url"],
        desk.revealed("webhook.secret_token"),
        desk.revealed("bot_token"),
    )


BEFORE = ("https://old.example/", "for-the-old-one", TOKEN)
AFTER = ("https://new.example/", "for-the-new-one", TOKEN)
EMPTY = ("https://new.example/", None, None)


@pytest.mark.parametrize(
    ("patch", "where", "left"),
    [
        (NEW, "before:1", BEFORE),
        (NEW, "replaced", AFTER),
        (NEW, "after:1", AFTER),
        (NEW, "never", AFTER),
        (GONE, "before:1", BEFORE),
        (GONE, "after:1", EMPTY),
        (GONE, "before:2", EMPTY),
        (GONE, "after:2", EMPTY),
        (GONE, "never", EMPTY),
    ],
)
def test_settings_and_the_secrets_that_go_with_them_are_of_one_change_wherever_it_was_cut_off(
    home: Path, patch: dict[str, str | None], where: str, left: tuple[str, str | None, str | None]
) -> None:
    code = change(home, json.dumps(patch), where)
    assert code == (0 if where == "never" else -signal.SIGKILL)
    desk = Desk(home)
    assert seen(desk) == left
    desk.prepare()  # as before every life: what was cut off comes to its place
    assert seen(desk) == left
    assert left[0] in (desk.row() or "")
    desk.set({"auto_start": True})
    assert seen(desk) == left, "and what is changed next is put on top of it"
    desk.set({"webhook.url": "https://last.example/"})
    assert seen(desk)[0] == "https://last.example/"
    desk.close()


def test_a_reset_that_was_cut_off_has_forgotten_the_secrets_and_can_be_done_again(home: Path) -> None:
    script = KILLED.replace(
        "desk.set(patch)", "desk.ask('settings.reset_skill', skill_id=sys.argv[2])"
    ).replace("json.loads(sys.argv[2])", "None")
    for where in ("before:1", "after:1"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(home), BOT, where],
            cwd=TESTS, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, done.stderr
        desk = Desk(home)
        assert (desk.revealed("bot_token") is None) is (where == "after:1")
        assert desk.get()["settings"]["webhook"]["url"] == "https://old.example/"
        desk.close()
    desk = Desk(home)
    desk.ask("settings.reset_skill", skill_id=BOT)
    assert "webhook" not in desk.get()["settings"]
    desk.close()
