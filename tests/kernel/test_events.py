"""What happened is told to everybody who listens, and who it comes from is never said by who emits."""

import pytest

from metier.kernel.events import Events, Happened


def test_everybody_hears_also_when_one_of_them_fails(caplog: pytest.LogCaptureFixture) -> None:
    events, heard = Events(), list[Happened]()

    def fails(happened: Happened) -> None:
        raise RuntimeError("of its own")

    with events.listening(fails), events.listening(heard.append):
        events.emit("settings.skill.updated", {"skill": "a"})
        events.emit("rang", source="doorbell", depth=2)
    events.emit("later")
    assert [(each.name, each.source, each.depth) for each in heard] == [
        ("settings.skill.updated", "metier", 0),
        ("rang", "doorbell", 2),
    ]
    assert "a listener failed" in caplog.text


def test_a_payload_that_names_a_source_is_a_payload() -> None:
    events, heard = Events(), list[Happened]()
    with events.listening(heard.append):
        events.emit("x", {"source": "metier", "name": "settings.skill.updated"}, source="a-skill")
    assert heard[0].source == "a-skill"
    assert heard[0].name == "x"
