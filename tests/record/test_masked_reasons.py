"""Reasons are in the chain for good, so no secret that a name or a shape gives away may be in one."""

from collections.abc import Callable

import pytest

from metier.model.text import one_line
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.disabling import all_disabled, disable
from metier.record.redact import masked
from metier.record.secret_text import MASK
from metier.record.stop import stop, stopped_in
from metier.record.verify import verify
from metier.sandbox.job_environment import granted_variables


@pytest.mark.parametrize(
    "reason",
    [
        "'API_KEY=c4n4ry0123456789abcdef' is not the name of a variable",
        "leaked password=c4n4ry",
        "sk-c4n4ry0123456789abcdef0123 was in it",
        "run\n-u\tbob:c4n4ry",
        "pass\udc80 and password: c4n4ry",
    ],
)
def test_a_reason_is_masked_before_it_is_in_the_chain(
    path: str, log: AuditLog, on_disk: Callable[[], bytes], reason: str
) -> None:
    log.refused(Act(principal="p"), code="c", reasons=("as it is", reason))
    assert b"c4n4ry" not in on_disk()
    kept = log.tail(1)[0].reasons
    assert (kept[0], MASK in kept[1]) == ("as it is", True)
    assert verify(path).ok


@pytest.mark.parametrize(
    "reason",
    [
        "it needs skills:execute, and agent:x may not",
        "the variable GITHUB_TOKEN is not granted",
        "rule 3: nobody sends mail at night",
        "high risk is asked at trust level 'supervised_auto'",
        "attempt 1 of this call has begun already",
        "the standing grant is used up",
        "the session is over, and so is what was granted for it",
        "it asks for more than it was granted: network api.example.org:443",
    ],
)
def test_an_ordinary_reason_is_kept_to_the_letter(reason: str) -> None:
    assert masked((reason,)) == (reason,)


def test_what_a_person_gives_as_a_reason_is_masked_wherever_it_lies(
    path: str, database: Database, log: AuditLog, on_disk: Callable[[], bytes]
) -> None:
    disable(database, "notes", why="leaked password=c4n4ry", by="human:x")
    stop(database, by="human:x", why="leaked password=c4n4ry")
    with database.reading() as connection:
        said = (all_disabled(connection)["notes"], stopped_in(connection))
    assert all(each.startswith(f"leaked password={MASK}") for each in said), one_line(str(said))
    assert b"c4n4ry" not in on_disk()
    assert verify(path).ok


def test_the_value_that_somebody_gave_with_a_variable_is_not_repeated() -> None:
    said = granted_variables(["DB=c4n4ry"], {})
    assert said == "'DB=…' is not the name of a variable"
    assert granted_variables(["two words"], {}) == "'two words' is not the name of a variable"
