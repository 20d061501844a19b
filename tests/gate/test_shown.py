"""What an approver is shown is all of it, or nobody is asked."""

from approval_kit import CWD, SKILL, TOOL, changed, seen, wanted
from metier.gate.shown import MOST_BYTES, shown
from metier.model.approval import Shown


def test_everything_that_will_run_is_there() -> None:
    found = seen(wanted(), CWD)
    assert found.arguments == {"id": 7, "folder": "/notes"}
    assert found.permissions == {"reads": ["/notes"], "env": ["LANG"]}
    assert (found.tool, found.effect, found.risk, found.cost) == ("notes/remove", "act", "high", "free")
    assert (found.skill, found.version, found.skill_digest) == ("notes", "1.2", "sha256:" + "a" * 64)
    assert (found.principal, found.kind, found.on_behalf_of) == ("agent:a", "agent", "human:owner")
    assert (found.cwd, found.place, found.session) == ("/work", CWD, "session-1")
    assert found.reasons == ("high risk is asked at trust level 'supervised_auto'",)
    assert (found.right, found.always_asks, found.definition[:7]) == ("skills:execute", False, "sha256:")


def test_apr_23_twenty_kilobytes_are_shown_in_full_and_what_nobody_could_read_is_refused() -> None:
    long = "x" * 20_000 + " " * 500 + "; rm -rf /"
    found = seen(wanted({"command": long}))
    assert found.arguments == {"command": long}
    refused = shown(wanted({"command": "x" * MOST_BYTES}), cwd=CWD)
    assert isinstance(refused, str)
    assert "too long to be shown" in refused
    assert isinstance(shown(wanted({"command": "x" * (MOST_BYTES - 4096)}), cwd=CWD), Shown)


def test_apr_23_a_long_description_does_not_push_the_arguments_out() -> None:
    tool = changed(TOOL, description="x" * MOST_BYTES)
    assert "too long to be shown" in str(shown(wanted(tool=tool), cwd=CWD))


def test_apr_26_what_the_skill_says_of_itself_is_kept_apart() -> None:
    tool = changed(TOOL, confirmation="Read file?", description="Reads a file.")
    found = seen(wanted(tool=tool, skill=SKILL))
    assert found.skill_says == "Read file?"
    assert (found.effect, found.risk) == ("act", "high"), "what it is comes from what it does"


def test_a_path_that_is_no_text_is_not_shown_as_another() -> None:
    assert "cannot be shown" in str(shown(wanted(cwd="/\udcff"), cwd=""))
