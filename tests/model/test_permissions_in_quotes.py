"""What a request may do, in plain words: ours stand without quotes, and every name that a skill chose within them."""

import pytest

from metier.model.permission_words import in_quotes

SAID = {
    "nothing": ({}, "no network"),
    "its own folder": ({"reads": ["{baseDir}"]}, "read its own folder; no network"),
    "a folder of that name": ({"reads": ["its own folder"]}, 'read "its own folder"; no network'),
    "places": (
        {
            "reads": ["/etc/hosts", "{baseDir}/data", "{workspace}/logs", "{workspace}/out"],
            "binaries": ["git"],
        },
        'read "/etc/hosts", in its own folder "data", in the workspace "logs", "out"; run "git"; no network',
    ),
    "what leads out comes first": (
        {"reads": ["{workspace}"], "hosts": ["tea.example"], "writes": ["{workspace}/out"]},
        'reach "tea.example"; write in the workspace "out"; read the workspace',
    ),
    "a name that goes on our sentence": (
        {"hosts": ['a"; no network'], "reads": ["{workspace}x"]},
        'reach "a\\"; no network"; read "{workspace}x"',
    ),
    "a kind of a later version": ({"suns": ["x"]}, 'suns "x"; no network'),
}


@pytest.mark.parametrize("what", SAID)
def test_apr_26_what_it_may_is_said_in_words_that_no_name_can_take_over(what: str) -> None:
    granted, words = SAID[what]
    assert in_quotes(granted) == words
