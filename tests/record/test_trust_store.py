"""Trust is in a name and its bytes together, is given and taken on the record, and is never given twice by itself."""

import sqlite3
from pathlib import Path

import pytest

from metier.errors import RecordError, StateError
from metier.model.permission import PermissionSet
from metier.record.audit import AuditLog
from metier.record.database import Database
from metier.record.trust import NO_TRUSTS, How, Seen, TrustStore
from metier.record.verify import verify

CURL = PermissionSet(binaries=frozenset({"curl"}), secrets=frozenset({"WEATHER_KEY"}))
NOTHING = PermissionSet()


@pytest.fixture
def store(database: Database) -> TrustStore:
    return TrustStore(database)


def give(store: TrustStore, digest: str, how: How = "operator", permissions: PermissionSet = CURL) -> bool:
    return store.grant(
        "weather", digest, permissions=permissions, by="owner", how=how, path="/skills/weather"
    )


def test_a_new_store_trusts_nobody(store: TrustStore) -> None:
    assert store.all() == NO_TRUSTS


def test_what_was_granted_is_what_is_read(store: TrustStore) -> None:
    assert store.grant("weather", "d1", permissions=CURL, by="owner", how="operator", version="1.2")
    trusts = store.all()
    assert trusts.trusted == {("weather", "d1")}
    assert trusts.permissions == {("weather", "d1"): CURL}
    grant = trusts.grants["weather", "d1"]
    assert (grant.version, grant.granted_by, grant.how) == ("1.2", "owner", "operator")


def test_other_bytes_under_the_same_name_are_not_trusted(store: TrustStore) -> None:
    give(store, "d1")
    assert ("weather", "d2") not in store.all().trusted


@pytest.mark.parametrize(
    ("how", "event"),
    [
        ("operator", "skill_trusted"),
        ("release", "skill_trusted"),
        ("first_use", "skill_pinned"),
        ("manifest", "skill_pinned"),
    ],
)
def test_every_grant_is_recorded_with_its_permissions(
    path: str, store: TrustStore, log: AuditLog, how: How, event: str
) -> None:
    give(store, "d1", how)
    (record,) = log.tail(10)
    assert (record.event, record.skill, record.skill_digest, record.principal) == (
        event,
        "weather",
        "d1",
        "owner",
    )
    assert record.reasons == (f"on the word of: {how}", "binaries: curl", "secrets (by name): WEATHER_KEY")
    assert verify(path).ok


def test_revoking_ends_every_grant_of_the_name_and_is_recorded(
    path: str, store: TrustStore, log: AuditLog
) -> None:
    give(store, "d1")
    give(store, "d2")
    store.grant("other", "d1", permissions=NOTHING, by="owner", how="operator")
    assert store.revoke("weather", by="owner") == 2
    assert store.all().trusted == {("other", "d1")}
    assert store.all().revoked == {"weather"}
    assert (log.tail(1)[0].event, log.tail(1)[0].skill) == ("skill_untrusted", "weather")
    assert verify(path).ok


@pytest.mark.parametrize("how", ["first_use", "manifest", "release"])
def test_what_a_person_revoked_is_not_trusted_again_by_itself(
    store: TrustStore, log: AuditLog, how: How
) -> None:
    give(store, "d1", how)
    store.revoke("weather", by="owner")
    before = log.head()
    assert not give(store, "d1", how)
    assert not give(store, "d2", how)
    assert store.all().trusted == frozenset()
    assert log.head() == before
    assert give(store, "d1", "operator")
    assert store.all().revoked == frozenset()
    assert store.all().trusted == {("weather", "d1")}


@pytest.mark.parametrize("how", ["first_use", "manifest"])
def test_first_bytes_are_bound_once(store: TrustStore, how: How) -> None:
    assert give(store, "d1", how)
    assert not give(store, "d2", how)
    assert store.all().trusted == {("weather", "d1")}
    assert store.all().seen["/skills/weather"].digest == "d1"
    assert give(store, "d2", "operator")
    assert store.all().seen["/skills/weather"].digest == "d2"


def test_a_person_who_gave_less_is_not_overruled(store: TrustStore) -> None:
    give(store, "d1", "operator", NOTHING)
    assert not give(store, "d1", "first_use", CURL)
    assert store.all().permissions["weather", "d1"] == NOTHING


def test_the_same_trust_again_writes_no_second_record(store: TrustStore, log: AuditLog) -> None:
    assert give(store, "d1", "first_use")
    assert give(store, "d1", "first_use")
    assert len(log.tail(10)) == 1


def test_revoking_what_was_never_used_leaves_no_first_use(store: TrustStore) -> None:
    assert store.revoke("weather", by="owner", path="/skills/weather") == 0
    assert store.all().seen["/skills/weather"].digest == ""
    assert not give(store, "d1", "first_use")


def test_a_grant_that_cannot_be_recorded_is_not_made(store: TrustStore, intruder: sqlite3.Connection) -> None:
    store.revoke("other", by="owner")
    intruder.execute("UPDATE audit SET hash = 'no hash'")
    with pytest.raises(StateError, match="tampered"):
        give(store, "d1")
    assert store.all().trusted == frozenset()


def test_a_revocation_that_cannot_be_recorded_is_made_all_the_same(
    store: TrustStore, intruder: sqlite3.Connection
) -> None:
    give(store, "d1")
    intruder.execute("UPDATE audit SET hash = 'no hash'")
    with pytest.raises(RecordError, match="no longer trusted"):
        store.revoke("weather", by="owner")
    assert store.all().trusted == frozenset()
    assert store.all().revoked == {"weather"}


def test_where_the_tables_are_not_ours_nothing_is_trusted(
    store: TrustStore, intruder: sqlite3.Connection
) -> None:
    give(store, "d1")
    intruder.execute("DROP TABLE audit")
    with pytest.raises(StateError, match="'audit' is missing"):
        store.all()
    with pytest.raises(StateError, match="'audit' is missing"):
        store.revoke("weather", by="owner")


@pytest.mark.parametrize(
    "stored", [b"", b"{", b'{"reads":["../up"]}', b'{"binaries":["*"]}', b'{"binaries":7}', b"\xff"]
)
def test_a_grant_that_cannot_be_read_does_not_count(
    store: TrustStore, intruder: sqlite3.Connection, stored: bytes
) -> None:
    give(store, "d1")
    store.grant("other", "d1", permissions=NOTHING, by="owner", how="operator")
    intruder.execute("UPDATE trust SET permissions = ? WHERE name = 'weather'", (stored,))
    trusts = store.all()
    assert trusts.trusted == {("other", "d1")}
    assert "weather" in trusts.problems[0]


def test_places_are_remembered(store: TrustStore) -> None:
    places = [
        Seen(path=path, name="weather", digest="d1", manifest_signature="1:2", tree_signature="3:4")
        for path in ("/a", "/b", "/not utf-8 \udcff")
    ]
    store.see(places)
    assert store.all().seen == {place.path: place for place in places}


def test_a_name_that_is_no_text_is_refused(store: TrustStore) -> None:
    with pytest.raises(StateError, match="not valid text"):
        store.grant("wea\udcffther", "d1", permissions=NOTHING, by="owner", how="operator")
    with pytest.raises(StateError, match="not valid text"):
        store.see([Seen(path="/a", name="\ud800", digest="", manifest_signature="", tree_signature="")])
    assert store.all() == NO_TRUSTS


def test_another_process_sees_a_revocation_at_once(path: str, store: TrustStore, tmp_path: Path) -> None:
    give(store, "d1")
    with Database.open(path) as other:
        version = other.data_version()
        assert TrustStore(other).all().trusted == {("weather", "d1")}
        store.revoke("weather", by="owner")
        assert other.data_version() != version
        assert TrustStore(other).all().trusted == frozenset()
