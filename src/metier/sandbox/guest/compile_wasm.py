"""Turns one WASM module or component into machine code, in a process of its own with limits on it.

Started as a plain script: the module comes on stdin, the machine code goes to stdout. Exit code 3 means the module
is at fault, and stderr says why. Arguments: `module` or `component`, the settings of the engine as JSON, and the
folder that wasmtime is imported from.
"""

import ctypes
import json
import signal
import sys

REFUSED = 3
_DIE_WITH_PARENT = 1


def main() -> int:
    # Whoever wanted it may be killed meanwhile, and there is a minute of work in a large module.
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    kind, settings, folder = sys.argv[1:4]
    sys.path.insert(0, folder)
    from wasmtime import Config, Engine, Module, WasmtimeError
    from wasmtime.component import Component

    config = Config()
    for name, value in json.loads(settings).items():
        setattr(config, name, value)
    # Threads would be no quicker for the one module we are given, and a limit on processes may forbid them.
    config.parallel_compilation = False
    engine = Engine(config)
    source = sys.stdin.buffer.read()
    try:
        made = (Component if kind == "component" else Module)(engine, source).serialize()
    except WasmtimeError as error:
        sys.stderr.write(str(error))
        return REFUSED
    sys.stdout.buffer.write(made)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
