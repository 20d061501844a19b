"""Which rules were in force is on the record: whoever changes the file cannot do it unseen."""

import sqlite3

from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.policy import note_policy
from metier.record.verify import verify

ONE, OTHER = "sha256:1", "sha256:2"


def test_other_rules_are_recorded_once_and_the_same_again_is_no_change(database: Database) -> None:
    assert not note_policy(database, "", by="metier"), "no file, as ever"
    assert note_policy(database, ONE, by="metier")
    assert not note_policy(database, ONE, by="metier")
    assert note_policy(database, OTHER, by="metier")
    assert note_policy(database, "", by="metier"), "that the file is gone is a change too"
    records = AuditLog(database).tail(10)
    assert [(each.event, each.code, each.reasons) for each in records] == [
        ("policy_changed", ONE, (f"from none to {ONE}",)),
        ("policy_changed", OTHER, (f"from {ONE} to {OTHER}",)),
        ("policy_changed", "none", (f"from {OTHER} to none",)),
    ]
    assert verify(database).ok


def test_whoever_hides_a_change_in_the_table_is_found_out(
    path: str, database: Database, intruder: sqlite3.Connection
) -> None:
    note_policy(database, ONE, by="metier")
    assert verify(path).ok
    intruder.execute("UPDATE setting SET value = ? WHERE name = 'policy'", (OTHER,))
    intruder.commit()
    assert "'policy' is not as a record says" in verify(path).problem
