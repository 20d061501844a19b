"""The tables, as a list of steps. A database remembers in `user_version` how many of them it has taken.

Steps are only ever added. SQL is kept plain so that another database can follow.
"""

from typing import Final

APPLICATION_ID: Final = 0x4D455449
"""`METI`, so that a database of some other program is not mistaken for ours."""

_FIRST: Final = (
    "CREATE TABLE audit (seq INTEGER PRIMARY KEY, body BLOB NOT NULL, hash BLOB NOT NULL)",
    """CREATE TABLE payload (
        seq INTEGER NOT NULL REFERENCES audit (seq),
        name TEXT NOT NULL,
        key BLOB NOT NULL,
        body BLOB,
        PRIMARY KEY (seq, name)
    )""",
    # Apart from `payload`, whose rows must keep their size: see AuditLog.erase.
    """CREATE TABLE erasure (
        seq INTEGER PRIMARY KEY REFERENCES audit (seq),
        record INTEGER NOT NULL REFERENCES audit (seq)
    )""",
    "CREATE TABLE open_intent (seq INTEGER PRIMARY KEY REFERENCES audit (seq))",
    """CREATE TABLE trust (
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        version TEXT NOT NULL,
        permissions BLOB NOT NULL,
        granted_at TEXT NOT NULL,
        granted_by TEXT NOT NULL,
        how TEXT NOT NULL CHECK (how IN ('operator', 'first_use', 'manifest', 'release')),
        PRIMARY KEY (name, digest)
    )""",
    "CREATE TABLE revoked (name TEXT PRIMARY KEY, revoked_at TEXT NOT NULL, revoked_by TEXT NOT NULL)",
    # A path is bytes on this system and need not be text.
    """CREATE TABLE seen (
        path BLOB PRIMARY KEY,
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        manifest_signature TEXT NOT NULL,
        tree_signature TEXT NOT NULL
    )""",
)

_SECOND: Final = (
    """CREATE TABLE disabled (
        name TEXT PRIMARY KEY,
        disabled_at TEXT NOT NULL,
        call_id TEXT NOT NULL,
        why TEXT NOT NULL
    )""",
)

_THIRD: Final = (
    # What the operator switches while Metier runs; what he writes into a file is read from there.
    """CREATE TABLE setting (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL,
        changed_at TEXT NOT NULL,
        changed_by TEXT NOT NULL
    )""",
    """CREATE TABLE principal (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('human', 'agent', 'skill', 'trigger')),
        on_behalf_of TEXT NOT NULL,
        roles BLOB NOT NULL,
        added_at TEXT NOT NULL,
        added_by TEXT NOT NULL,
        revoked_at TEXT NOT NULL DEFAULT '',
        revoked_by TEXT NOT NULL DEFAULT ''
    )""",
    # `call` and `shown` hold arguments in the clear for as long as the call may still run, and no longer; so does
    # `key`, without which nobody can guess them from the fingerprint.
    """CREATE TABLE approval (
        id TEXT PRIMARY KEY,
        call_id TEXT NOT NULL,
        principal TEXT NOT NULL,
        on_behalf_of TEXT NOT NULL,
        session TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        seal TEXT NOT NULL,
        key BLOB,
        call BLOB,
        shown BLOB,
        state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'spent', 'void')),
        asked_at TEXT NOT NULL,
        expires_at REAL NOT NULL,
        boot TEXT NOT NULL,
        deadline REAL NOT NULL,
        decided_at TEXT NOT NULL DEFAULT '',
        decided_by TEXT NOT NULL DEFAULT '',
        scope TEXT NOT NULL DEFAULT '',
        waiting_until REAL NOT NULL DEFAULT 0,
        record INTEGER NOT NULL REFERENCES audit (seq)
    )""",
    "CREATE INDEX approval_by_state ON approval (state, principal)",
    # A standing grant. Empty text and NULL mean no such limit, but for the tool, which is always named.
    """CREATE TABLE standing (
        id TEXT PRIMARY KEY,
        body BLOB NOT NULL,
        uses_left INTEGER,
        given_at TEXT NOT NULL,
        given_by TEXT NOT NULL,
        revoked_at TEXT NOT NULL DEFAULT '',
        revoked_by TEXT NOT NULL DEFAULT '',
        record INTEGER NOT NULL REFERENCES audit (seq)
    )""",
    """CREATE TABLE confirmation (
        conversation TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        turn INTEGER NOT NULL,
        asked_at REAL NOT NULL,
        PRIMARY KEY (conversation, fingerprint)
    ) WITHOUT ROWID""",
    # Under it lies what was asked about, so that overwriting it leaves nothing to guess from.
    "CREATE TABLE question_key (id INTEGER PRIMARY KEY CHECK (id = 1), key BLOB NOT NULL)",
    """CREATE TABLE budget (
        scope TEXT NOT NULL,
        began INTEGER NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (scope)
    ) WITHOUT ROWID""",
    # Each attempt of a call begins once, whoever tries it and however often.
    """CREATE TABLE begun (
        call_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        seq INTEGER NOT NULL REFERENCES audit (seq),
        PRIMARY KEY (call_id, attempt)
    ) WITHOUT ROWID""",
    # Who runs it, so that it can be listed and ended from elsewhere.
    "ALTER TABLE open_intent ADD COLUMN call_id TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE open_intent ADD COLUMN process TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE open_intent ADD COLUMN cancelled_by TEXT NOT NULL DEFAULT ''",
    # What was disabled for what it did stays so under every other name too.
    """CREATE TABLE disabled_bytes (
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        PRIMARY KEY (name, digest)
    ) WITHOUT ROWID""",
    """CREATE TABLE signed_head (
        size INTEGER PRIMARY KEY,
        note BLOB NOT NULL
    )""",
)

TOGETHER: Final = """
SELECT seq, body, hash,
    (SELECT iif(count(*), iif(erased AND NOT sum(key <> zeroblob(length(key))), zeroblob(32 * count(*)),
            CAST(group_concat(key, '') AS BLOB)), NULL)
        FROM (SELECT key FROM payload WHERE payload.seq = audit.seq ORDER BY name)) AS keys,
    (SELECT iif(count(*), iif(erased AND NOT sum(body <> zeroblob(length(body))), zeroblob(sum(length(body))),
            CAST('{' || group_concat('"' || name || '":' || CAST(body AS TEXT), ',') || '}' AS BLOB)), NULL)
        FROM (SELECT name, body FROM payload WHERE payload.seq = audit.seq AND body IS NOT NULL ORDER BY name)) AS kept
FROM (SELECT seq, body, hash, seq IN (SELECT seq FROM erasure) AS erased FROM main.audit) AS audit
"""
"""Payloads had a table of their own until the fourth step: records with what lies beside them, as they have it since."""

ASTRAY: Final = """
SELECT 1 FROM payload WHERE typeof(seq) <> 'integer' OR typeof(name) <> 'text' OR typeof(key) <> 'blob'
    OR typeof(body) NOT IN ('blob', 'null') OR seq NOT IN (SELECT seq FROM main.audit) LIMIT 1
"""
"""Finds what was put into that table and would be lost on the way."""

_FOURTH: Final = (
    # What lies beside a record lies in its row. A new table, filled in order, so that nothing is moved once it is written:
    # SQLite leaves copies behind of what it moves, and those could not be erased.
    """CREATE TABLE chain (
        seq INTEGER PRIMARY KEY,
        body BLOB NOT NULL,
        hash BLOB NOT NULL,
        keys BLOB,
        kept BLOB
    )""",
    f"INSERT INTO chain {TOGETHER} ORDER BY seq",
    "DROP TABLE payload",
    "DROP TABLE audit",
    "ALTER TABLE chain RENAME TO audit",
)

_FIFTH: Final = (
    # What programs show to be let in as somebody: only the SHA-256 of it is here.
    """CREATE TABLE token (
        id TEXT PRIMARY KEY,
        principal TEXT NOT NULL,
        name TEXT NOT NULL,
        hash BLOB NOT NULL,
        scopes BLOB NOT NULL,
        expires_at INTEGER NOT NULL,
        added_at TEXT NOT NULL,
        added_by TEXT NOT NULL,
        revoked_at TEXT NOT NULL DEFAULT '',
        revoked_by TEXT NOT NULL DEFAULT ''
    )""",
    # What people show: `name` is the principal of a password, and issuer and subject of an account elsewhere.
    """CREATE TABLE credential (
        kind TEXT NOT NULL CHECK (kind IN ('password', 'oidc')),
        name TEXT NOT NULL,
        principal TEXT NOT NULL,
        body BLOB NOT NULL,
        set_at TEXT NOT NULL,
        set_by TEXT NOT NULL,
        revoked_at TEXT NOT NULL DEFAULT '',
        revoked_by TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (kind, name)
    ) WITHOUT ROWID""",
)

_SIXTH: Final = (
    # What ran where it was approved, and how it ended was not given yet to who asked. What was asked is not here: `same` can be
    # compared with what is asked again, and only under `key`.
    """CREATE TABLE late (
        approval TEXT PRIMARY KEY,
        principal TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        key BLOB NOT NULL,
        same TEXT NOT NULL,
        ended INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID""",
)

MIGRATIONS: Final = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH)
VERSION: Final = len(MIGRATIONS)
NEWS: Final = (
    (),
    (b'"event":"skill_disabled"',),
    (
        *(
            b'"evidence":"',
            b'"event":"skill_approved"',
            b'"event":"grant_given"',
            b'"event":"principal_added"',
        ),
        *(b'"event":"principal_revoked"', b'"event":"trust_level_changed"', b'"event":"policy_changed"'),
        *(b'"event":"stopped"', b'"event":"state_restored"', b'"event":"head_signed"'),
    ),
    (),
    (
        *(b'"event":"token_added"', b'"event":"token_revoked"'),
        *(b'"event":"credential_set"', b'"event":"credential_revoked"'),
        b'"event":"signed_in"',
    ),
    (b'"event":"outcome_given"',),
)
"""What only records written after a step have in them, step by step. Quotes inside a text are stored otherwise."""
KNOWS_DISABLED: Final = 2
"""The first version that has the table `disabled`; older state is looked at as it lies."""
KNOWS_SETTING: Final = 3
"""Likewise for the table `setting`."""
KNOWS_BESIDE: Final = 4
"""The first version in which payloads lie in the row of their record."""
KNOWS_TOKEN: Final = 5
"""The first version that has the tables `token` and `credential`."""
KNOWS_LATE: Final = 6
"""The first version that has the table `late`."""
