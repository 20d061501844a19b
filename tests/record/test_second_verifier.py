"""Another implementation, in another language, comes to the same chain, the same tree and the same canonical bytes."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from metier.model.digest import canonical
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.export import exported, json_line
from metier.record.keys import Keys
from metier.record.signing import sign_head
from metier.record.verify import verify
from metier.sandbox.deno_where import Engine, find_engine

HERE = Path(__file__).parent
ODD: list[Any] = [
    0, -0.0, 1.0, 1e21, 1e-7, 123456789.125, 5e-324, 1.7976931348623157e308, 2**53 - 1, -(2**53 - 1), 333333333.33333329,
    "", "ä", "a\u0308", "é", "\u2028", "𝄞", "\u0000\u001f\u007f", "\\\"/", "\ue000\U0001f600", True, None, [], {},
    {"\ue000": 1, "\U0001f600": 2, "a": [1, {"b": -0.0}], "A": "x", "": 0}, [[[[1.50]]]],
]  # fmt: skip


@pytest.fixture(scope="module")
def deno() -> str:
    found = find_engine()
    if not isinstance(found, Engine):
        pytest.skip("deno is not installed")
    return found.path


def run(deno: str, script: str, stdin: str, *arguments: str) -> str:
    line = [deno, "run", "--no-remote", "--no-config", "--allow-read", str(HERE / script), *arguments]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pieces(database: Database) -> list[str]:
    return [json_line(line) for line in exported(database, stored=True)]


@pytest.fixture
def odd(log: AuditLog) -> None:
    for value in ODD:
        reason = value if isinstance(value, str) else repr(value)
        log.refused(
            Act(principal="agent:cli"), code="c", reasons=(reason,), payloads={"arguments": {"v": value}}
        )


def test_aud_14_a_second_verifier_finds_the_same_chain_and_tree(
    database: Database, keys: Keys, odd: None, tmp_path: Path, deno: str
) -> None:
    checkpoint, key = tmp_path / "checkpoint", tmp_path / "key"
    checkpoint.write_text(sign_head(database, keys, by="human:x").text(), encoding="utf-8")
    key.write_text(str(keys.known()[0]), encoding="utf-8")
    ours = verify(database)
    theirs = json.loads(
        run(deno, "second_verifier.mjs", "\n".join(pieces(database)), str(checkpoint), str(key))
    )
    assert theirs == {
        "ok": True,
        "records": len(ODD) + 1,
        "head": ours.head,
        "root": ours.root,
        "signed": True,
    }
    checkpoint.write_text(
        checkpoint.read_text(encoding="utf-8").replace("time 2", "time 3"), encoding="utf-8"
    )
    other = json.loads(
        run(deno, "second_verifier.mjs", "\n".join(pieces(database)), str(checkpoint), str(key))
    )
    assert other["signed"] is False


def test_aud_14_the_second_verifier_finds_a_change_too(database: Database, odd: None, deno: str) -> None:
    lines = pieces(database)
    lines[4] = lines[4].replace("agent:cli", "agent:bob")
    found = json.loads(run(deno, "second_verifier.mjs", "\n".join(lines)))
    assert found == {"ok": False, "problem": "record 5 does not match its hash"}


def test_aud_14_canonical_bytes_are_the_same_in_both_languages(deno: str) -> None:
    stdin = "\n".join(json.dumps(value) for value in ODD)
    theirs = run(deno, "canonical.mjs", stdin).split()
    assert theirs == [hashlib.sha256(canonical(value)).hexdigest() for value in ODD]


def test_aud_12_a_lost_piece_of_an_exported_log_is_a_gap_that_is_reported(
    database: Database, odd: None, deno: str
) -> None:
    """The log itself is never cut into files; archives of it are, and the chain goes on from one to the next."""
    first, second, third = (
        [json_line(line) for line in exported(database, since=since, until=until, stored=True)]
        for since, until in ((1, 8), (9, 16), (17, len(ODD)))
    )
    whole = json.loads(run(deno, "second_verifier.mjs", "\n".join([*first, *second, *third])))
    assert (whole["ok"], whole["records"], whole["head"]) == (True, len(ODD), verify(database).head)
    lost = json.loads(run(deno, "second_verifier.mjs", "\n".join([*first, *third])))
    assert lost == {"ok": False, "problem": "record 9 is missing"}
    assert json.loads(third[0])["previous"] == json.loads(second[-1])["hash"]
