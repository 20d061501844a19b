"""How often somebody may try to sign in: one limiter for every way, so that none is the way around.

A try is counted before it is looked at, for the address it comes from and, where it is a password, for the account it names and for
all together, and taken back when it was the right one. Who tries links can guess nothing and costs little, so he shuts out no password
but at his own address. It lies in doors.db: another process, or the same one started again, counts on.
"""

import ipaddress
import time
from typing import TYPE_CHECKING, Final

from metier.record.registered import id_problem

if TYPE_CHECKING:
    from metier.record.doors_db import DoorsDb

ACCOUNT: Final = (10, 900.0)
"""Tries, and in how many seconds. Who shuts somebody out so has not shut out the owner, who has links."""
ADDRESS: Final = (30, 300.0)
ALL: Final = (300, 300.0)
"""Of passwords: what is scarce is the work of looking at one."""
SENT: Final = (120, 300.0)
"""How often one address has somebody sent to a provider: each takes a place among those who are not back yet."""
_EVERYBODY: Final = "*"


def counted(doors: "DoorsDb", *, address: str, account: str = "") -> float:
    """Count one try. Gives what `right` takes, or where there were too many the seconds to wait, as a negative number. Blocking."""
    return _counted(doors, _limits(address, account))


def sent(doors: "DoorsDb", *, address: str) -> float:
    """Likewise for who is sent to a provider."""
    return _counted(doors, {f"from {place(address)}": SENT})


def _counted(doors: "DoorsDb", limits: dict[str, tuple[int, float]]) -> float:
    now = time.time()
    with doors.writing() as connection:
        connection.execute("DELETE FROM attempt WHERE at <= ? OR at > ?", (now - ACCOUNT[1], now + 1))
        for who, (most, seconds) in limits.items():
            rows = connection.execute(
                "SELECT at FROM attempt WHERE who = ? AND at > ? ORDER BY at DESC LIMIT ?",
                (who, now - seconds, most),
            ).fetchall()
            if len(rows) >= most:
                return min(-1.0, now - rows[-1][0] - seconds)
        connection.executemany("INSERT INTO attempt VALUES (?, ?)", [(who, now) for who in limits])
    return now


def right(doors: "DoorsDb", at: float, *, address: str, account: str = "") -> None:
    """It was the right one: it is not held against anybody, nor are the earlier ones of that account. Blocking."""
    with doors.writing() as connection:
        for who in _limits(address, account):
            connection.execute(
                "DELETE FROM attempt WHERE rowid IN (SELECT rowid FROM attempt WHERE who = ? AND at = ? LIMIT 1)",
                (who, at),
            )
        if account:
            connection.execute("DELETE FROM attempt WHERE who = ?", (_account(account),))


def _limits(address: str, account: str) -> dict[str, tuple[int, float]]:
    password = {_account(account): ACCOUNT, _EVERYBODY: ALL} if account else {}
    return {**password, f"at {place(address)}": ADDRESS}


def _account(account: str) -> str:
    """What can be nobody is counted as one: people type their password there too, and it must not lie here."""
    return "as ?" if id_problem(account, "human") else f"as {account}"


def place(address: str) -> str:
    """What of an address counts: an IPv4 one however it is spelled, the network of an IPv6 one, of which each has many, and this machine
    as one, which has many too.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "?"
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return "127.0.0.1"
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
