"""The seccomp filter of a sandbox: which system calls go through, which are refused, and which are violations.

Runs where the package is not importable, in a process that should start at once: standard library only, and
little of it. Written for Linux on x86-64.
"""

import errno
import os
import struct
import sys

TYPE_CHECKING = False  # importing typing for this would be a third of the start-up time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

SUPPORTED = sys.platform == "linux" and os.uname().machine == "x86_64" and sys.maxsize > 2**32

# --- The system calls known at the time of writing (Linux 6.18), in the order of their numbers --------------------

_FROM_0 = """
read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn
ioctl pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise shmget shmat shmctl
dup dup2 pause nanosleep getitimer alarm setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg
recvmsg shutdown bind listen getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit
wait4 kill uname semget semop semctl shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync truncate ftruncate
getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink readlink chmod fchmod chown fchown lchown
umask gettimeofday getrlimit getrusage sysinfo times ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid
getppid getpgrp setsid setreuid setregid getgroups setgroups setresuid getresuid setresgid getresgid getpgid setfsuid
setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod
uselib personality ustat statfs fstatfs sysfs getpriority setpriority sched_setparam sched_getparam sched_setscheduler
sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock mlockall
munlockall vhangup modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot sync acct settimeofday
mount umount2 swapon swapoff reboot sethostname setdomainname iopl ioperm create_module init_module delete_module
get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid readahead setxattr
lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr
tkill time futex sched_setaffinity sched_getaffinity set_thread_area io_setup io_destroy io_getevents io_submit
io_cancel get_thread_area lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old remap_file_pages getdents64
set_tid_address restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime timer_getoverrun
timer_delete clock_settime clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes
vserver mbind set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
kexec_load waitid add_key request_key keyctl ioprio_set ioprio_get inotify_init inotify_add_watch inotify_rm_watch
migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat
fchmodat faccessat pselect6 ppoll unshare set_robust_list get_robust_list splice tee sync_file_range vmsplice
move_pages utimensat epoll_pwait signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime accept4
signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open recvmmsg
fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg setns getcpu
process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom
memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect
pkey_alloc pkey_free statx io_pgetevents rseq uretprobe uprobe
"""
_FROM_424 = """
pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick
pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr quotactl_fd
landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv
set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount
lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat
open_tree_attr file_getattr file_setattr listns
"""
NUMBERS = {
    name: nr
    for start, names in ((0, _FROM_0), (424, _FROM_424))
    for nr, name in enumerate(names.split(), start)
}
_NAMES = {nr: name for name, nr in NUMBERS.items()}

# --- What becomes of each: a name in none of the groups below is allowed, a number without a name is ENOSYS --------

_NEVER = """
ptrace process_vm_readv process_vm_writev pidfd_getfd
mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick mount_setattr
unshare setns bpf perf_event_open userfaultfd io_uring_enter io_uring_register
add_key request_key keyctl open_by_handle_at
init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct
settimeofday clock_settime sethostname setdomainname iopl ioperm vhangup
"""
VIOLATIONS = frozenset(_NEVER.split())
"""No skill ever has a reason for these. EPERM, and with a listener a notice. So is `clone` with a new namespace."""
DENIED = {"socket": errno.EACCES, "io_uring_setup": errno.ENOSYS}
"""Refused with this and counted, where there is a listener: ordinary programs try them as they start. Many want a socket.
Node makes a ring for every event loop, and does without one as on a kernel that has none; who uses one has got round us."""

_REFUSED = {
    # Ordinary programs try these now and then; EPERM, and nobody is told.
    errno.EPERM: """
    kcmp name_to_handle_at syslog quotactl quotactl_fd adjtimex clock_adjtime lookup_dcookie fanotify_init
    fanotify_mark move_pages migrate_pages process_madvise process_mrelease lsm_set_self_attr file_setattr
    """,
    # Programs that know these know how to do without, as on a kernel that lacks them. clone3 hides its flags behind
    # a pointer. System V and POSIX queues would carry something from one run to the next. What lies in memory
    # files, or was given to a pipe and unmapped, counts for no limit on memory. openat2 hides the mode of a new file
    # behind a pointer. Of watches a user has few, for all his programs together; and one tells the names of files in
    # folders that cannot be listed.
    errno.ENOSYS: """
    clone3 openat2 memfd_create memfd_secret vmsplice modify_ldt statmount listmount listns
    inotify_init inotify_init1
    shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    io_setup io_destroy io_getevents io_submit io_cancel io_pgetevents
    uselib ustat sysfs _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall
    tuxcall security set_thread_area get_thread_area epoll_ctl_old epoll_wait_old vserver
    """,
    # It fills a disk faster than anyone can look. The C library writes instead.
    errno.EOPNOTSUPP: "fallocate",
}
_WITHOUT_NETWORK = {errno.EACCES: "connect bind listen accept accept4"}
_WITHOUT_MOUNTS = {
    # Landlock does not guard metadata, so here nobody changes any. git and cp cannot do without a chmod that works,
    # so it seems to work.
    0: "chmod fchmod fchmodat fchmodat2 utime utimes futimesat utimensat",
    errno.EPERM: """
    chown fchown lchown fchownat
    setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
    """,
    # Nor does it guard what is written beside a file.
    errno.EOPNOTSUPP: "getxattr lgetxattr listxattr llistxattr getxattrat listxattrat",
}

_ALLOW, _NOTIFY, _ERRNO, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000
ARCH_X86_64, X32 = 0xC000003E, 0x40000000
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _JUMP_IF_ANY_BIT = 0x05, 0x15, 0x35, 0x45

_SET_ID = 0o6000
_MAY_CREATE = (
    0o100 | 0o20000000
)  # O_CREAT, O_TMPFILE; without them a mode is not looked at and may be anything
_NEW_NAMESPACE = 0x7E020000
_CLONE_PARENT = 0x8000
_SHARED_ANONYMOUS, _GROWS_DOWN = 0x21, 0x100
_NEW_LISTENER = 8
_STACKS = 0x7FFB  # the last 20 GiB of addresses: 16 for where the kernel may put it, 4 for its size
_SET_DUMPABLE = 4
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_STREAM, _SEQPACKET, _TYPE_MASK, _TCP = 1, 5, 0xF, 6
_WHOLE = 0xFFFFFFFF
_IOCTLS = (
    # What a file system or a device understands nobody can list: it reserves space that is counted nowhere, changes
    # flags through a descriptor opened for reading, types into a terminal. So what programs do ask for is listed.
    0x5421,  # FIONBIO
    0x5451,  # FIOCLEX
    0x5450,  # FIONCLEX
    0x5452,  # FIOASYNC
    0x541B,  # FIONREAD
    0x5411,  # TIOCOUTQ, which is SIOCOUTQ for a socket
    0x8905,  # SIOCATMARK
    0x5401,  # TCGETS: is it a terminal?
    0x802C542A,  # TCGETS2
    0x5413,  # TIOCGWINSZ
    0x540F,  # TIOCGPGRP
    0x5429,  # TIOCGSID
    0x5460,  # FIOQSIZE
    0x2,  # FIGETBSZ
    0x80086601,  # FS_IOC_GETFLAGS
    0x801C581F,  # FS_IOC_FSGETXATTR
)
_CLONING = (
    0x40049409,  # FICLONE
    0x4020940D,  # FICLONERANGE
    0xC0189436,  # FIDEDUPERANGE
)
_LEASES = (
    # With a file opened for reading these keep others from opening it, or tell what others do in a folder.
    1024,  # F_SETLEASE
    1026,  # F_NOTIFY
    1040,  # F_SETDELEG
)

if TYPE_CHECKING:
    Code = list[tuple[int, int, int, int]]
    """Instructions of classic BPF: operation, jump when true, jump when false, operand."""


def program(*, notify: bool, sockets: "Literal['none', 'inet']", no_metadata: bool) -> bytes:
    """The seccomp filter. With `notify` it must be loaded with a listener, which then hears of everything denied and
    every violation. `no_metadata` is for where there is no mount namespace around.

    Plain allowed calls are decided from the number alone, so the kernel answers them from a cache.
    """
    need_this_machine()
    violation = _NOTIFY if notify else _ERRNO | errno.EPERM
    decisions: dict[str, Code] = {name: _end(_ALLOW) for name in NUMBERS}
    decisions.update(_checked(violation))
    decisions.update({name: _end(violation) for name in VIOLATIONS})
    groups = [_REFUSED]
    if sockets == "none":
        groups.append(_WITHOUT_NETWORK)
    if no_metadata:
        groups.append(_WITHOUT_MOUNTS)
    for group in groups:
        decisions.update(
            {name: _end(_ERRNO | error) for error, names in group.items() for name in names.split()}
        )
    denials = {name: _NOTIFY if notify else _ERRNO | error for name, error in DENIED.items()}
    decisions.update({name: _end(denial) for name, denial in denials.items()})
    decisions["socket"] = _socket(sockets, denials["socket"])
    # By another machine word every call has another number, so none of them can be judged.
    foreign = _NOTIFY if notify else _KILL
    code: Code = [(_LOAD, 0, 0, 4), (_JUMP_IF_EQUAL, 1, 0, ARCH_X86_64), *_end(foreign)]
    code += [(_LOAD, 0, 0, 0), (_JUMP_IF_AT_LEAST, 0, 1, X32), *_end(foreign)]
    code += _search(_ranges({NUMBERS[name]: leaf for name, leaf in decisions.items()}))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _checked(violation: int) -> "dict[str, Code]":
    """The calls that depend on an argument."""
    eperm, enomem, eacces = _ERRNO | errno.EPERM, _ERRNO | errno.ENOMEM, _ERRNO | errno.EACCES
    own_process_only = _unless(0, (0,), eperm) + _end(_ALLOW)
    # A program that takes on its owner's rights would be left behind for whoever starts it outside.
    no_set_id = {
        name: _if_bits(mode, _SET_ID, eperm) + _end(_ALLOW)
        for mode, names in ((1, "chmod fchmod creat mknod mkdir"), (2, "fchmodat fchmodat2 mknodat mkdirat"))
        for name in names.split()
    }
    return no_set_id | {
        "open": _unless_bits(1, _MAY_CREATE, _ALLOW) + _if_bits(2, _SET_ID, eperm) + _end(_ALLOW),
        "openat": _unless_bits(2, _MAY_CREATE, _ALLOW) + _if_bits(3, _SET_ID, eperm) + _end(_ALLOW),
        # A child that is made a sibling would hide from who ends the whole tree.
        "clone": _if_bits(0, _NEW_NAMESPACE, violation) + _if_bits(0, _CLONE_PARENT, eperm) + _end(_ALLOW),
        "ioctl": _if_one_of(1, _IOCTLS, _ALLOW)
        # cp and git copy the bytes then, as between two file systems.
        + _if_one_of(1, _CLONING, _ERRNO | errno.EOPNOTSUPP)
        + _end(_ERRNO | errno.ENOTTY),
        "fcntl": _if_one_of(1, _LEASES, _ERRNO | errno.EINVAL) + _end(_ALLOW),
        # Neither kind of memory counts for RLIMIT_DATA.
        "mmap": _if_bits(3, _GROWS_DOWN, enomem)
        + _if_one_of(3, (_SHARED_ANONYMOUS,), enomem, mask=_SHARED_ANONYMOUS)
        + _end(_ALLOW),
        # The stack can be moved and grown this way, and counts for RLIMIT_DATA neither. Its addresses are the highest.
        "mremap": _if_high_half_at_least(0, _STACKS, enomem) + _end(_ALLOW),
        # Of two listeners the later one is asked, so a guest never gets one: it could let through what ours refuses.
        "seccomp": _if_bits(1, _NEW_LISTENER, _ERRNO | errno.EBUSY) + _end(_ALLOW),
        # A datagram pair can still send to any socket it can name.
        "socketpair": _unless(0, (_AF_UNIX,), eacces)
        + _unless(1, (_STREAM, _SEQPACKET), eacces, mask=_TYPE_MASK)
        + _end(_ALLOW),
        # Who hides from us cannot be counted. It seems to work: programs with secrets do this, and are no worse off here.
        "prctl": _if_one_of(0, (_SET_DUMPABLE,), _ERRNO | 0) + _end(_ALLOW),
        "personality": _unless(0, (0, _WHOLE), eperm) + _end(_ALLOW),
        # These reach every process of the same user, and Landlock does not guard them.
        "setpriority": _unless(0, (0,), eperm) + _unless(1, (0,), eperm) + _end(_ALLOW),
        "ioprio_set": _unless(0, (1,), eperm) + _unless(1, (0,), eperm) + _end(_ALLOW),
        "prlimit64": own_process_only,
        "sched_setaffinity": own_process_only,
        "sched_setparam": own_process_only,
        "sched_setscheduler": own_process_only,
        "sched_setattr": own_process_only,
    }


def _socket(sockets: str, denial: int) -> "Code":
    if sockets != "inet":
        return _end(denial)
    family = _unless(0, (_AF_INET, _AF_INET6), denial)
    return (
        family
        + _unless(1, (_STREAM,), denial, mask=_TYPE_MASK)
        + _unless(2, (0, _TCP), denial)
        + _end(_ALLOW)
    )


def _end(verdict: int) -> "Code":
    return [(_RETURN, 0, 0, verdict)]


def _argument(number: int, mask: int = _WHOLE) -> "Code":
    """Load the lower half of an argument; the kernel looks at no more of those that are checked here."""
    load = [(_LOAD, 0, 0, 16 + 8 * number)]
    return load if mask == _WHOLE else [*load, (_AND, 0, 0, mask)]


def _if_bits(argument: int, bits: int, verdict: int) -> "Code":
    return [*_argument(argument), (_JUMP_IF_ANY_BIT, 0, 1, bits), *_end(verdict)]


def _unless_bits(argument: int, bits: int, verdict: int) -> "Code":
    return [*_argument(argument), (_JUMP_IF_ANY_BIT, 1, 0, bits), *_end(verdict)]


def _if_high_half_at_least(argument: int, value: int, verdict: int) -> "Code":
    return [(_LOAD, 0, 0, 20 + 8 * argument), (_JUMP_IF_AT_LEAST, 0, 1, value), *_end(verdict)]


def _if_one_of(argument: int, values: "Sequence[int]", verdict: int, mask: int = _WHOLE) -> "Code":
    last = len(values) - 1
    tests = [(_JUMP_IF_EQUAL, last - at, int(at == last), value) for at, value in enumerate(values)]
    return [*_argument(argument, mask), *tests, *_end(verdict)]


def _unless(argument: int, values: "Sequence[int]", verdict: int, mask: int = _WHOLE) -> "Code":
    tests = [(_JUMP_IF_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [*_argument(argument, mask), *tests, *_end(verdict)]


def _ranges(leaves: "dict[int, Code]") -> "list[tuple[int, Code]]":
    """From which number on which code decides; neighbours that are decided alike become one."""
    absent = _end(_ERRNO | errno.ENOSYS)
    ranges: list[tuple[int, Code]] = []
    for number in range(max(leaves) + 2):
        leaf = leaves.get(number, absent)
        if not ranges or ranges[-1][1] != leaf:
            ranges.append((number, leaf))
    return ranges


def _search(ranges: "Sequence[tuple[int, Code]]") -> "Code":
    """A binary search for the call's number; a conditional jump reaches 255 instructions, a plain one any."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, above = _search(ranges[:middle]), _search(ranges[middle:])
    start = ranges[middle][0]
    if len(below) <= 255:
        return [(_JUMP_IF_AT_LEAST, len(below), 0, start), *below, *above]
    return [(_JUMP_IF_AT_LEAST, 0, 1, start), (_JUMP, 0, 0, len(below)), *below, *above]


def name_of(nr: int, arch: int = ARCH_X86_64) -> str:
    """The name of a system call, or its number as text."""
    if arch != ARCH_X86_64 or nr & X32:
        return f"number {nr & ~X32} of another machine word"
    return _NAMES.get(nr, str(nr))


def need_this_machine() -> None:
    """Raises OSError where the numbers above mean something else."""
    if not SUPPORTED:
        raise OSError(errno.ENOSYS, "this confinement is written for Linux on x86-64 only")
