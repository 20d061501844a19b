"""The code that `sandbox.py` runs inside: as small as it can be while it does what its case promises."""

PYTHON = "result = params['a'] + 1"

HANDLER = """\
module.exports = async (params, context) => {
  const found = await context.exec(["ical-query", "calendar", "range", params.from, params.to]);
  await context.callLog.write({ type: "skill", success: true });
  return { success: true, found };
};
"""
"""A handler of the common shape: it asks for a program's output, writes a line, and answers."""

TINY = """
(module
  (func (export "add") (param i32 i32) (result i32)
    (i32.add (local.get 0) (local.get 1))))
"""

PROGRAM = """
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "answer.json")
  ;; 32: a buffer's address and length; 40: how many bytes went; 48: the opened file
  (func $must (param $error i32) (if (local.get $error) (then (call $proc_exit (local.get $error)))))
  (func $read (param $from i32) (result i32)
    (i32.store (i32.const 32) (i32.const 1024))
    (i32.store (i32.const 36) (i32.const 32768))
    (call $must (call $fd_read (local.get $from) (i32.const 32) (i32.const 1) (i32.const 40)))
    (i32.load (i32.const 40)))
  (func (export "_start")
    (if (i32.eqz (call $read (i32.const 0))) (then (call $proc_exit (i32.const 99))))
    (call $must (call $path_open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 11)
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 48)))
    (i32.store (i32.const 36) (call $read (i32.load (i32.const 48))))
    (call $must (call $fd_close (i32.load (i32.const 48))))
    (call $must (call $fd_write (i32.const 1) (i32.const 32) (i32.const 1) (i32.const 40)))))
"""
"""Reads its input, opens a file in the first granted folder, and prints what stands there."""

ANSWER = {"greeting": "hello"}
"""What that file says."""
