"""The limits of a policy in the kernel's words."""

from typing import Final

from metier.sandbox.wall import Policy

OPEN_FILES: Final = 256
OWN_MB: Final = 16
"""What a supervisor holds itself, where all memory of a wall is counted together."""
OWN_PROCESSES: Final = 4
"""Bubblewrap's first process, the supervisor and its threads are counted along."""
LOCKED_BYTES: Final = 65_536
STACK_BYTES: Final = 16 << 20
ENGINE_MB: Final = 640
"""What an engine with a heap limit of its own (Deno) takes besides that heap, before any code of a skill."""
ENGINE_RESIDENT_MB: Final = 96
"""How much of that it really holds."""
TABLES_SHARE: Final = 256
"""Page tables take a five-hundredth of what a program ordinarily holds; this part more it may have for them."""


def kernel_limits(policy: Policy) -> dict[str, int]:
    """Names of `resource` limits with their value, hard and soft alike.

    Memory is limited by what a process can write for itself (DATA), not by address space: programs in Go, Java and
    JavaScript reserve far more of that than they use.
    """
    memory = policy.memory_mb + (ENGINE_MB if policy.bare_heap else 0)
    return {
        "RLIMIT_DATA": memory << 20,
        "RLIMIT_NPROC": policy.processes + OWN_PROCESSES,
        "RLIMIT_FSIZE": policy.file_mb << 20,
        "RLIMIT_CPU": policy.cpu_seconds,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": LOCKED_BYTES,
        "RLIMIT_STACK": STACK_BYTES,
        "RLIMIT_MSGQUEUE": 0,
    }
