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

MIGRATIONS: Final = (_FIRST, _SECOND)
VERSION: Final = len(MIGRATIONS)
KNOWS_DISABLED: Final = 2
"""The first version that has the table `disabled`; older state is looked at as it lies."""
