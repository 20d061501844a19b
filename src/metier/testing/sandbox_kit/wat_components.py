"""Acts of a module as a component, and one that asks for sockets as only a component can."""

import re
from typing import Final

_USED: Final = re.compile(r'\(import "([^"]+)" "([^"]+)"')
_CALLS: Final = frozenset({("wasi_snapshot_preview1", "fd_write"), ("wasi_snapshot_preview1", "fd_read")})
_SCRATCH: Final = 2_400_000
"""Where the engine puts what is read: behind everything an act uses, and before the end of its memory."""

_STREAMS: Final = """
    (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
    (alias export $error "error" (type $error-type))
    (import "wasi:io/streams@0.2.0" (instance $streams
        (export "input-stream" (type $in (sub resource))) (export "output-stream" (type $out (sub resource)))
        (alias outer 1 $error-type (type $e)) (export "error" (type $error (eq $e)))
        (type $failure (variant (case "last-operation-failed" (own $error)) (case "closed")))
        (export "stream-error" (type $stream-error (eq $failure)))
        (export "[method]input-stream.blocking-read" (func (param "self" (borrow $in)) (param "len" u64)
            (result (result (list u8) (error $stream-error)))))
        (export "[method]output-stream.blocking-write-and-flush" (func (param "self" (borrow $out))
            (param "contents" (list u8)) (result (result (error $stream-error)))))))
    (alias export $streams "input-stream" (type $input)) (alias export $streams "output-stream" (type $output))
    (import "wasi:cli/stdin@0.2.0" (instance $stdin (alias outer 1 $input (type $s))
        (export "input-stream" (type $o (eq $s))) (export "get-stdin" (func (result (own $o))))))
    (import "wasi:cli/stdout@0.2.0" (instance $stdout (alias outer 1 $output (type $s))
        (export "output-stream" (type $o (eq $s))) (export "get-stdout" (func (result (own $o))))))
    (import "wasi:cli/stderr@0.2.0" (instance $stderr (alias outer 1 $output (type $s))
        (export "output-stream" (type $o (eq $s))) (export "get-stderr" (func (result (own $o))))))
"""
_SHIM: Final = f"""
    (core module $libc (memory (export "memory") 40)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const {_SCRATCH})))
    (core instance $libc (instantiate $libc))
    (core func $get-in (canon lower (func $stdin "get-stdin")))
    (core func $get-out (canon lower (func $stdout "get-stdout")))
    (core func $get-err (canon lower (func $stderr "get-stderr")))
    (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
        (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
    (core func $read (canon lower (func $streams "[method]input-stream.blocking-read")
        (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
    (core module $shim
        (import "h" "in" (func $in (result i32))) (import "h" "out" (func $out (result i32)))
        (import "h" "err" (func $err (result i32)))
        (import "h" "write" (func $write (param i32 i32 i32 i32)))
        (import "h" "read" (func $read (param i32 i64 i32)))
        (import "libc" "memory" (memory 40))
        (global $i (mut i32) (i32.const -1)) (global $o (mut i32) (i32.const -1)) (global $e (mut i32) (i32.const -1))
        (func $stream (param $fd i32) (result i32)
            (if (i32.eq (local.get $fd) (i32.const 1)) (then
                (if (i32.lt_s (global.get $o) (i32.const 0)) (then (global.set $o (call $out))))
                (return (global.get $o))))
            (if (i32.lt_s (global.get $e) (i32.const 0)) (then (global.set $e (call $err))))
            (global.get $e))
        (func (export "fd_write") (param $fd i32) (param $iov i32) (param $n i32) (param $wrote i32) (result i32)
            (local $size i32)
            (local.set $size (i32.load offset=4 (local.get $iov)))
            (if (i32.gt_u (local.get $size) (i32.const 4096)) (then (local.set $size (i32.const 4096))))
            (call $write (call $stream (local.get $fd)) (i32.load (local.get $iov)) (local.get $size) (i32.const 960))
            (i32.store (local.get $wrote) (local.get $size))
            (select (i32.const 29) (i32.const 0) (i32.load8_u (i32.const 960))))
        (func (export "fd_read") (param $fd i32) (param $iov i32) (param $n i32) (param $got i32) (result i32)
            (if (i32.lt_s (global.get $i) (i32.const 0)) (then (global.set $i (call $in))))
            (call $read (global.get $i) (i64.const 65536) (i32.const 960))
            (i32.store (local.get $got) (i32.const 0))
            (if (i32.load8_u (i32.const 960)) (then (return (i32.const 0))))
            (memory.copy (i32.load (local.get $iov)) (i32.load (i32.const 964)) (i32.load (i32.const 968)))
            (i32.store (local.get $got) (i32.load (i32.const 968)))
            (i32.const 0)))
    (core instance $shim (instantiate $shim
        (with "h" (instance (export "in" (func $get-in)) (export "out" (func $get-out)) (export "err" (func $get-err))
            (export "write" (func $write)) (export "read" (func $read))))
        (with "libc" (instance $libc))))
"""


def component_of(module: str) -> str:
    """The same act as a program that is a component; nothing where it uses more than input and output, or is one."""
    if module.startswith("(component") or not set(_USED.findall(module)) <= _CALLS:
        return ""
    core = module.replace("(module", "(core module $act", 1)
    core = core.replace('(memory (export "memory") 40)', '(import "libc" "memory" (memory 40))')
    core = core.replace(
        '(export "_start" (func $main))', '(func (export "run") (result i32) (call $main) (i32.const 0))'
    )
    core = core.replace('(func (export "_start"))', '(func (export "run") (result i32) (i32.const 0))')
    return f"""(component {_STREAMS} {_SHIM} {core}
    (core instance $act (instantiate $act
        (with "wasi_snapshot_preview1" (instance $shim)) (with "libc" (instance $libc))))
    (func $run (result (result)) (canon lift (core func $act "run")))
    (instance $command (export "run" (func $run)))
    (export "wasi:cli/run@0.2.0" (instance $command)))"""


_INTERFACE: Final = """(component (import "{name}" (instance (export "f" (func))))
    (core module $m (func (export "run") (result i32) (i32.const 0)))
    (core instance $i (instantiate $m))
    (func $run (result (result)) (canon lift (core func $i "run")))
    (instance $command (export "run" (func $run)))
    (export "wasi:cli/run@0.2.0" (instance $command)))"""


def asks_for_interface(name: str) -> str:
    """A component that does nothing but ask for an interface."""
    return _INTERFACE.format(name=name)


def connects(port: int) -> str:
    """A component whose function `connect` dials a port of the host's own loopback, and says whether it may."""
    return _SOCKETS.replace("PORT", str(port))


SOCKET_IMPORTS: Final = """    (import "wasi:sockets/network@0.2.0" (instance $network (export "network" (type (sub resource)))
        (type $codes (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout"
            "concurrency-conflict" "not-in-progress" "would-block" "invalid-state" "new-socket-limit"
            "address-not-bindable" "address-in-use" "remote-unreachable" "connection-refused" "connection-reset"
            "connection-aborted" "datagram-too-large" "name-unresolvable" "temporary-resolver-failure"
            "permanent-resolver-failure"))
        (export "error-code" (type (eq $codes)))
        (type $f (enum "ipv4" "ipv6")) (export "ip-address-family" (type (eq $f)))
        (type $a4 (tuple u8 u8 u8 u8)) (export "ipv4-address" (type $a4x (eq $a4)))
        (type $a6 (tuple u16 u16 u16 u16 u16 u16 u16 u16)) (export "ipv6-address" (type $a6x (eq $a6)))
        (type $s4 (record (field "port" u16) (field "address" $a4x))) (export "ipv4-socket-address" (type $s4x (eq $s4)))
        (type $s6 (record (field "port" u16) (field "flow-info" u32) (field "address" $a6x) (field "scope-id" u32)))
        (export "ipv6-socket-address" (type $s6x (eq $s6)))
        (type $s (variant (case "ipv4" $s4x) (case "ipv6" $s6x))) (export "ip-socket-address" (type (eq $s)))))
    (alias export $network "network" (type $net))
    (alias export $network "error-code" (type $code))
    (alias export $network "ip-address-family" (type $family))
    (alias export $network "ip-socket-address" (type $address))
    (import "wasi:sockets/instance-network@0.2.0" (instance $own
        (alias outer 1 $net (type $n)) (export "network" (type $nx (eq $n)))
        (export "instance-network" (func (result (own $nx))))))
    (import "wasi:sockets/tcp@0.2.0" (instance $tcp (export "tcp-socket" (type $sock (sub resource)))
        (alias outer 1 $net (type $n)) (export "network" (type $nx (eq $n)))
        (alias outer 1 $code (type $c)) (export "error-code" (type $cx (eq $c)))
        (alias outer 1 $address (type $a)) (export "ip-socket-address" (type $ax (eq $a)))
        (export "[method]tcp-socket.start-connect" (func (param "self" (borrow $sock))
            (param "network" (borrow $nx)) (param "remote-address" $ax) (result (result (error $cx)))))))
    (alias export $tcp "tcp-socket" (type $socket))
    (import "wasi:sockets/tcp-create-socket@0.2.0" (instance $create
        (alias outer 1 $socket (type $s)) (export "tcp-socket" (type $sx (eq $s)))
        (alias outer 1 $code (type $c)) (export "error-code" (type $cx (eq $c)))
        (alias outer 1 $family (type $f)) (export "ip-address-family" (type $fx (eq $f)))
        (export "create-tcp-socket" (func (param "address-family" $fx) (result (result (own $sx) (error $cx)))))))
"""
"""What a component asks for that wants to open a connection."""

_SOCKETS: Final = (
    f"(component\n{SOCKET_IMPORTS}"
    + r"""    (core module $libc (memory (export "mem") 1) (data (i32.const 512) "{\22did\22:[]}{\22did\22:[\22tcp\22]}")
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
    (core instance $libc (instantiate $libc))
    (core func $network-of (canon lower (func $own "instance-network")))
    (core func $new (canon lower (func $create "create-tcp-socket") (memory (core memory $libc "mem"))))
    (core func $connect (canon lower (func $tcp "[method]tcp-socket.start-connect") (memory (core memory $libc "mem"))))
    (core module $m
        (import "h" "network" (func $network (result i32))) (import "h" "new" (func $new (param i32 i32)))
        (import "h" "connect" (func $connect
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
        (import "libc" "mem" (memory 1))
        (func (export "connect") (param i32 i32) (result i32)
            (i32.store (i32.const 256) (i32.const 522)) (i32.store (i32.const 260) (i32.const 15))
            (call $new (i32.const 0) (i32.const 64))
            (i32.store8 (i32.const 128) (i32.load8_u (i32.const 64)))
            (i32.store8 (i32.const 129) (i32.load8_u (i32.const 68)))
            (if (i32.eqz (i32.load8_u (i32.const 64))) (then
                (call $connect (i32.load (i32.const 68)) (call $network) (i32.const 0) (i32.const PORT)
                    (i32.const 127) (i32.const 0) (i32.const 0) (i32.const 1)
                    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 128))))
            ;; only that access is denied is a refusal
            (if (i32.and (i32.eq (i32.load8_u (i32.const 128)) (i32.const 1)) (i32.eq (i32.load8_u (i32.const 129)) (i32.const 1)))
                (then (i32.store (i32.const 256) (i32.const 512)) (i32.store (i32.const 260) (i32.const 10))))
            (i32.const 256)))
    (core instance $i (instantiate $m
        (with "h" (instance (export "network" (func $network-of)) (export "new" (func $new))
            (export "connect" (func $connect))))
        (with "libc" (instance $libc))))
    (func (export "connect") (param "json" string) (result string) (canon lift (core func $i "connect")
        (memory (core memory $libc "mem")) (realloc (core func $libc "realloc")))))"""
)
