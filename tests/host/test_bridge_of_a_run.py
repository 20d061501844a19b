"""The bridge that a runtime makes for a run: its `http` knows what the call was given and which secrets were granted."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from jobs import python
from metier.config.load import load
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.runtime.sandboxes import Sandboxes

HOSTS = frozenset({"a.example"})


def ask(home: Path, params: dict[str, Any], **more: Any) -> Answered | NotAnswered:
    given = {"permissions": PermissionSet(hosts=HOSTS), **more}

    async def main() -> Answered | NotAnswered:
        sandboxes = Sandboxes(load(home=str(home), project=str(home), environ={"HOME": str(home)}))
        async with sandboxes.host(python("", host=None, **given)) as bridge:
            return await bridge.ask("http", params)

    return anyio.run(main)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"arguments": {"url": "http://10.1/"}}, "denied"),
        ({"environment": {"BASE_URL": "http://10.1/"}}, "denied"),
        ({"context": {"call": {"transcript": "open 10.1"}}}, "denied"),
        ({}, "violation"),
    ],
)
def test_a_closed_address_is_judged_by_all_that_the_call_was_given(
    tmp_path: Path, given: dict[str, Any], kind: str
) -> None:
    answer = ask(tmp_path, {"url": "http://10.0.0.1/"}, **given)
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("PermissionDenied", kind)


def test_a_granted_secret_is_known_before_it_is_used(tmp_path: Path) -> None:
    request = {"url": "https://b.example/", "headers": {"Range": "bytes=7-16"}}
    granted = PermissionSet(hosts=HOSTS, secrets=frozenset({"token"}))
    names = [
        answer.name
        for permissions in (granted, PermissionSet(hosts=HOSTS))
        if isinstance(answer := ask(tmp_path, request, permissions=permissions), NotAnswered)
    ]
    assert names == ["InvalidRequest", "PermissionDenied"]
