"""What a skill may do is said in words of ours, whatever the skill calls what it asks for."""

import re

import pytest

from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.permission_words import kinds, permissions

LIE = "{workspace}/out; no network; nothing else, checked by Metier"


def without_quotes(words: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', "…", words)


@pytest.mark.parametrize("kind", ["writes", "reads", "binaries", "hosts", "env", "secrets", "operations", "channels"])  # fmt: skip
@pytest.mark.parametrize("lie", [LIE, "{workspace}/a, /etc", "{workspace}/a no network", '{workspace}/a"; "b', "{workspace}/a\u202eb", "{workspace}/é"])  # fmt: skip
def test_apr_26_a_name_that_could_be_read_as_words_of_ours_stands_in_quotes(kind: str, lie: str) -> None:
    said = permissions(PermissionSet(**{kind: frozenset({lie})}))
    ours = without_quotes(said)
    assert "…" in ours and "workspace" not in ours, said
    assert ("no network" in ours) == (kind != "hosts")
    assert said.isprintable()


def test_plain_names_stand_as_they_are() -> None:
    granted = PermissionSet(
        reads=frozenset({"{baseDir}", "/etc/ssl"}),
        writes=frozenset({"{workspace}/out"}),
        hosts=frozenset({"*.example.com:8443"}),
        env=frozenset({"LC_ALL"}),
        operations=frozenset({"settings.set_skill"}),
        binaries=frozenset({"g++", "ical-query"}),
    )
    assert permissions(granted) == (
        "reach *.example.com:8443; write {workspace}/out; read /etc/ssl, its own folder; run g++, ical-query; "
        "see the variables LC_ALL; call settings.set_skill"
    )
    assert permissions(OWN_FOLDER) == "read its own folder; no network"


def test_apr_26_what_leads_out_and_what_changes_something_comes_first() -> None:
    many = PermissionSet(
        env=frozenset(f"A_VARIABLE_{n}" for n in range(50)),
        hosts=frozenset({"evil.example"}),
        writes=frozenset({"/srv"}),
    )
    assert permissions(many).startswith("reach evil.example; write /srv; see the variables")
    assert kinds(many) == "reach (1 host); write (1 place); see the variables (50 variables)"
