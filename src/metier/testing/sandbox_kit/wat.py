"""Writes small WASM programs as text: acts whose parameters are known when they are written."""

from typing import Final, final

WASI: Final = "wasi_snapshot_preview1"
_SIGNATURES: Final = {
    "clock_time_get": "iIi", "environ_get": "ii", "environ_sizes_get": "ii", "fd_close": "i",
    "fd_fdstat_get": "ii", "fd_filestat_get": "ii", "fd_filestat_set_size": "iI",
    "fd_filestat_set_times": "iIIi", "fd_prestat_dir_name": "iii", "fd_prestat_get": "ii",
    "fd_read": "iiii", "fd_readdir": "iiiIi", "fd_write": "iiii", "path_create_directory": "iii",
    "path_filestat_get": "iiiii", "path_filestat_set_times": "iiiiIIi", "path_link": "iiiiiii",
    "path_open": "iiiiiIIii", "path_rename": "iiiiii", "path_symlink": "iiiii", "path_unlink_file": "iii",
    "poll_oneoff": "iiii", "random_get": "ii", "sock_accept": "iii", "sock_recv": "iiiiii", "sock_send": "iiiii",
    "sock_shutdown": "ii",
}  # fmt: skip
_TYPES: Final = {"i": "i32", "I": "i64"}
READ, WRITE, ALL = 2, 64, 0x0FFFFFFF
BUFFER: Final = 1 << 20
"""From here on memory is free for whatever is read."""

_PARTS: Final = {
    "out": (
        ("fd_write",),
        """(func $out (param $fd i32) (param $p i32) (param $n i32)
            (loop $more (if (local.get $n) (then
                (i32.store (i32.const 0) (local.get $p)) (i32.store (i32.const 4) (local.get $n))
                (if (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)) (then (return)))
                (local.set $p (i32.add (local.get $p) (i32.load (i32.const 8))))
                (local.set $n (i32.sub (local.get $n) (i32.load (i32.const 8))))
                (br $more)))))
        (func $say (param i32 i32) (call $out (i32.const 1) (local.get 0) (local.get 1)))""",
    ),
    "number": (
        (),
        """(func $number (param $v i64) (local $at i32) (local.set $at (i32.const 96))
            (loop $more
                (local.set $at (i32.sub (local.get $at) (i32.const 1)))
                (i32.store8 (local.get $at)
                    (i32.wrap_i64 (i64.add (i64.rem_u (local.get $v) (i64.const 10)) (i64.const 48))))
                (local.set $v (i64.div_u (local.get $v) (i64.const 10)))
                (br_if $more (i64.ne (local.get $v) (i64.const 0))))
            (call $say (local.get $at) (i32.sub (i32.const 96) (local.get $at))))""",
    ),
    "did": (
        (),
        """(func $did (param i32 i32)
            (if (global.get $some) (then (call $say {comma})))
            (global.set $some (i32.const 1))
            (call $say {quote}) (call $say (local.get 0) (local.get 1)) (call $say {quote}))""",
    ),
    "at": (
        ("fd_prestat_get", "fd_prestat_dir_name"),
        """(func $same (param $a i32) (param $b i32) (param $n i32) (result i32)
            (loop $more (if (local.get $n) (then
                (local.set $n (i32.sub (local.get $n) (i32.const 1)))
                (if (i32.ne (i32.load8_u (i32.add (local.get $a) (local.get $n)))
                            (i32.load8_u (i32.add (local.get $b) (local.get $n)))) (then (return (i32.const 0))))
                (br $more))))
            (i32.const 1))
        (func $at (param $p i32) (param $n i32) (result i32) (local $fd i32) (local $size i32) (local $best i32)
            (local.set $fd (i32.const 3)) (local.set $best (i32.const -1)) (global.set $rel (i32.const 0))
            (block $end (loop $more
                (br_if $end (call $fd_prestat_get (local.get $fd) (i32.const 16)))
                (local.set $size (i32.load (i32.const 20)))
                (drop (call $fd_prestat_dir_name (local.get $fd) (i32.const 256) (local.get $size)))
                (if (i32.and (i32.eq (local.get $size) (i32.const 1))
                        (i32.eq (i32.load8_u (i32.const 256))
                            (select (i32.const 47) (i32.const 46) (i32.eq (i32.load8_u (local.get $p)) (i32.const 47)))))
                    (then (if (i32.lt_s (local.get $best) (i32.const 0)) (then
                        (local.set $best (local.get $fd))
                        (global.set $rel (i32.eq (i32.load8_u (local.get $p)) (i32.const 47)))))))
                (if (i32.gt_u (local.get $n) (local.get $size)) (then
                    (if (i32.and (call $same (i32.const 256) (local.get $p) (local.get $size))
                            (i32.eq (i32.load8_u (i32.add (local.get $p) (local.get $size))) (i32.const 47)))
                        (then (if (i32.gt_u (local.get $size) (global.get $rel)) (then
                            (local.set $best (local.get $fd))
                            (global.set $rel (i32.add (local.get $size) (i32.const 1)))))))))
                (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
                (br $more)))
            (local.get $best))""",
    ),
    "open": (
        ("path_open", "fd_prestat_get"),
        """(func $open (param $p i32) (param $n i32) (param $flags i32) (param $rights i64) (result i32) (local $fd i32)
            (local.set $fd (call $at (local.get $p) (local.get $n)))
            (if (i32.ge_s (local.get $fd) (i32.const 0)) (then
                (if (i32.eqz (call $path_open (local.get $fd) (i32.const 1)
                        (i32.add (local.get $p) (global.get $rel)) (i32.sub (local.get $n) (global.get $rel))
                        (local.get $flags) (local.get $rights) (local.get $rights) (i32.const 0) (i32.const 24)))
                    (then (return (i32.load (i32.const 24)))))))
            (i32.const -1))
        (func $force (param $p i32) (param $n i32) (param $flags i32) (param $rights i64) (result i32) (local $fd i32)
            ;; as it stands, against every folder there is
            (local.set $fd (i32.const 3))
            (block $end (loop $more
                (br_if $end (call $fd_prestat_get (local.get $fd) (i32.const 16)))
                (if (i32.eqz (call $path_open (local.get $fd) (i32.const 1) (local.get $p) (local.get $n)
                        (local.get $flags) (local.get $rights) (local.get $rights) (i32.const 0) (i32.const 24)))
                    (then (return (i32.load (i32.const 24)))))
                (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
                (br $more)))
            (i32.const -1))""",
    ),
    "sleep": (
        ("poll_oneoff",),
        """(func $sleep (param $ns i64)
            (memory.fill (i32.const 512) (i32.const 0) (i32.const 48))
            (i32.store (i32.const 528) (i32.const 1)) (i64.store (i32.const 536) (local.get $ns))
            (drop (call $poll_oneoff (i32.const 512) (i32.const 576) (i32.const 1) (i32.const 640))))""",
    ),
    "now": (
        ("clock_time_get",),
        """(func $now (result i64)
            (drop (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 704))) (i64.load (i32.const 704)))""",
    ),
    "slurp": (
        ("fd_read",),
        """(func $slurp (result i32) (local $size i32)
            (loop $more
                (i32.store (i32.const 0) (i32.add (i32.const {buffer}) (local.get $size)))
                (i32.store (i32.const 4) (i32.const 65536))
                (if (i32.eqz (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8))) (then
                    (if (i32.load (i32.const 8)) (then
                        (local.set $size (i32.add (local.get $size) (i32.load (i32.const 8)))) (br $more))))))
            (local.get $size))""",
    ),
}
_NEEDS: Final = {"did": ("out",), "number": ("out",), "open": ("at",)}


@final
class Wat:
    """One program. Text is put into its memory as it is named."""

    def __init__(self) -> None:
        self._texts: dict[bytes, int] = {}
        self._end = 4096
        self._parts: dict[str, None] = {}
        self._imports: dict[str, None] = {}

    def text(self, text: str | bytes) -> str:
        """Address and length of a constant text, as two operands."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if data not in self._texts:
            self._texts[data] = self._end
            self._end += len(data)
        return f"(i32.const {self._texts[data]}) (i32.const {len(data)})"

    def use(self, *parts: str) -> None:
        """Have these functions in the program."""
        for part in parts:
            self.use(*_NEEDS.get(part, ()))
            self._parts[part] = None
            self.call(*_PARTS[part][0])

    def call(self, *names: str) -> None:
        """Import these functions of WASI."""
        self._imports |= dict.fromkeys(names)

    def say(self, text: str | bytes) -> str:
        self.use("out")
        return f"(call $say {self.text(text)})"

    def tries(self, attempts: "dict[str, str]") -> str:
        """Each is an expression that is not zero when it succeeded."""
        self.use("did")
        body = [self.say('{"did":[')]
        body += [f"(if {each} (then (call $did {self.text(name)})))" for name, each in attempts.items()]
        return "\n".join([*body, self.say('],"refused":{}}')])

    def opens(self, path: str, *, flags: int = 0, rights: int = READ) -> str:
        """Whether a path can be opened, by the folder it lies in or by force."""
        self.use("open")
        rest = f"(i32.const {flags}) (i64.const {rights})"
        up = "../" * 12 + path.lstrip("/")
        tried = [f"(i32.ge_s (call $open {self.text(path)} {rest}) (i32.const 0))"]
        tried += [f"(i32.ge_s (call $force {self.text(each)} {rest}) (i32.const 0))" for each in (path, up)]
        return f"(i32.or {tried[0]} (i32.or {tried[1]} {tried[2]}))"

    def module(self, body: str, *, more: str = "", locals_: str = "", at_load: bool = False) -> str:
        """The whole text. `more` are further functions and imports."""
        constants = {"comma": self.text(","), "quote": self.text('"'), "buffer": str(BUFFER)}
        parts: list[str] = []
        for part in self._parts:
            text = _PARTS[part][1]
            for name, value in constants.items():
                text = text.replace("{" + name + "}", value)
            parts.append(text)
        imports = [_import(name) for name in self._imports]
        data = [f'(data (i32.const {at}) "{_literal(text)}")' for text, at in self._texts.items()]
        start = f"(func $main {locals_} {body})"
        entry = '(start $main) (func (export "_start"))' if at_load else '(export "_start" (func $main))'
        further = [each for each in (more,) if each.startswith("(import")]
        rest = [each for each in (more,) if not each.startswith("(import")]
        return "\n".join(
            [
                "(module", *imports, *further, '(memory (export "memory") 40)',
                "(global $some (mut i32) (i32.const 0)) (global $rel (mut i32) (i32.const 0))",
                *data, *parts, *rest, start, entry, ")",
            ]
        )  # fmt: skip


def _import(name: str) -> str:
    takes = " ".join(_TYPES[letter] for letter in _SIGNATURES[name])
    return f'(import "{WASI}" "{name}" (func ${name} (param {takes}) (result i32)))'


def _literal(data: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in data)
