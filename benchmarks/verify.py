"""How fast a whole log is verified, and how much memory that takes.

The log is what calls leave behind: an intent with its arguments and an outcome with its result, and a signed checkpoint every
100,000 records. A payload is kept beside every record unless `--payloads` says otherwise. The log is walked in a process of its
own, so that its memory is its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from metier.record.chain import NOT_RUN, Act, Ran, append
from metier.record.database import Database
from metier.record.keys import Keys
from metier.record.signing import sign_head, trusted_keys
from metier.record.verify import verify

AT = "2026-01-01T00:00:00.000000Z"
BATCH = 100_000
SMALL = 2_000
ARGUMENTS = b'{"path":"memory/notes.md","content":"a few words that somebody wrote","count":3}'
RESULT = b'{"path":"memory/notes.md","size":1234}'
RAN = Ran(sandbox="bubblewrap", guarantees=("contents", "no_network", "kill_tree"), duration_ms=3.25)


def fill(database: Database, records: int, *, payloads: bool) -> None:
    """Write what `records // 2` calls leave behind."""
    with database.transaction(quiet=True) as connection:
        for number in range(records // 2):
            call = f"call-{connection.total_changes:x}-{number:x}"
            act = Act(
                principal="agent:cli",
                call_id=call,
                on_behalf_of="human:uid-1000",
                tool="notes/write",
                skill="notes",
                skill_digest="sha256:" + "ab" * 32,
                session="s-1",
                effect="act",
                risk="medium",
                decision="allow",
                evidence="policy",
                trust_level="bounded_auto",
            )
            seq = append(
                connection,
                "skill_execution_started",
                act,
                at=AT,
                reasons=("trusted by the operator", "medium risk runs by itself at bounded_auto"),
                payloads={"arguments": ARGUMENTS} if payloads else {},
            )
            connection.execute("INSERT INTO begun VALUES (?, 1, ?)", (call, seq))
            append(
                connection,
                "skill_executed",
                act,
                at=AT,
                about=seq,
                payloads={"result": RESULT} if payloads else {},
                ran=RAN if payloads else NOT_RUN,
            )


def made(folder: str, records: int, *, payloads: bool) -> str:
    """A log of about `records` records at the path that is given back."""
    path = os.path.join(folder, "state.db")
    with Database.open(path) as database:
        for begun in range(0, records, BATCH):
            fill(database, min(BATCH, records - begun), payloads=payloads)
            sign_head(database, Keys(folder), by="human:uid-1000")
    return path


def walk(path: str) -> dict[str, float]:
    """Verify the log at `path` once: how many records, in which time, and what the peak of memory was in the end."""
    trusted = trusted_keys(Keys(os.path.dirname(path)))
    began, worked = time.perf_counter(), time.process_time()
    found = verify(path, trusted=trusted)
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    assert found.ok, found.problem
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"records": found.records, "seconds": seconds, "processor": processor, "peak_kb": peak}


def walked(path: str) -> dict[str, float]:
    """The same in a process of its own."""
    line = [sys.executable, __file__, "--walk", path]
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--payloads", choices=("kept", "none"), default="kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the log is made; a temporary folder otherwise")
    parser.add_argument("--json", action="store_true", help="print one flat object, name to number")
    parser.add_argument("--walk", metavar="PATH", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.walk:
        print(json.dumps(walk(given.walk)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        small, large = (os.path.join(folder, name) for name in ("small", "large"))
        kept = given.payloads == "kept"
        least = walked(made(small, SMALL, payloads=kept))
        path = made(large, given.records, payloads=kept)
        best = min((walked(path) for _ in range(given.rounds)), key=lambda each: each["seconds"])
        size = os.path.getsize(path)
    results = {
        "records": int(best["records"]),
        "records_per_second": round(best["records"] / best["seconds"]),
        "records_per_processor_second": round(best["records"] / best["processor"]),
        "seconds": round(best["seconds"], 2),
        "peak_growth_kb": int(best["peak_kb"] - least["peak_kb"]),
        "log_mb": round(size / 1e6, 1),
    }
    if given.json:
        print(json.dumps(results))
        return
    print(f"{results['records']:,} records ({results['log_mb']} MB, payloads {given.payloads})")
    print(f"{results['records_per_second']:>12,} records a second, best of {given.rounds}")
    print(f"{results['records_per_processor_second']:>12,} records a second of processor time")
    print(f"{results['peak_growth_kb']:>12,} KB more at the peak than for {SMALL:,} records")


if __name__ == "__main__":
    main()
