"""State as an older version left it, made out of today's."""

import sqlite3
from contextlib import closing

import msgspec

from metier.record.beside import apart
from metier.record.schema import MIGRATIONS


def as_of_the_third_step(path: str) -> None:
    """Put what lies beside records back into a table of its own, and take away what came later."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA foreign_keys=OFF")
        for table in ("token", "credential", "late"):
            file.execute(f"DROP TABLE {table}")
        rows = file.execute("SELECT * FROM audit").fetchall()
        file.execute("DROP TABLE audit")
        for statement in MIGRATIONS[0][:2]:
            file.execute(statement)
        for seq, body, hash, keys, kept in rows:
            file.execute("INSERT INTO audit VALUES (?, ?, ?)", (seq, body, hash))
            erased = kept is not None and not kept.strip(b"\0")
            found = {} if erased else apart(kept) or {}
            for place, name in enumerate(sorted(msgspec.json.decode(body).get("payloads", {}))):
                key = keys[place * 32 : place * 32 + 32]
                content = bytes(9) if erased else found.get(name)
                file.execute("INSERT INTO payload VALUES (?, ?, ?, ?)", (seq, name, key, content))
        file.execute("PRAGMA user_version=3")
