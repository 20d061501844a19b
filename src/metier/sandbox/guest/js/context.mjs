// What a handler gets as its second argument. Frozen, and bound to this one call: every method asks the host, which
// decides; nothing is checked here that matters.

import { short, shown } from "./stacks.mjs";

const freeze = Object.freeze;
const values = Object.values;
const keys = Object.keys;
const isArray = Array.isArray;

/** `seen` is what the host lets it see besides, for example `call` and `operator`; `ask` asks the host. */
export function contextFor(seen, ask) {
  const context = { call: freeze({}), operator: freeze({}) };
  for (const name of keys(seen)) {
    // Defined, not assigned: a name such as `__proto__` is a name like any other. Our own methods win.
    const value = frozen(seen[name]);
    Object.defineProperty(context, name, { value, enumerable: true, configurable: true, writable: true });
  }
  const asking = (method, params) =>
    shown((...given) => {
      const promise = ask(method, params(...given));
      // Handlers often do not wait for the log. A refusal they never look at is no crash of theirs.
      promise.catch(() => {});
      return promise;
    });
  return freeze(Object.assign(context, {
    exec: asking("exec", (argv) => ({ argv: argvOf(argv) })),
    operate: asking("call", (operation, given = {}) => ({ operation, arguments: given })),
    log: asking("log", (level, message, meta = {}) => ({ level, message, meta })),
    callLog: freeze({ write: asking("call_log.write", (entry) => ({ entry })) }),
    gateway: freeze({
      post: asking("gateway.post", (payload) => ({ payload })),
      sendMessage: asking("gateway.send_message", (message) => ({ message })),
    }),
    http: freeze({ request: asking("http", (request) => ({ ...request })) }),
  }));
}

function argvOf(argv) {
  if (isArray(argv)) return argv;
  throw short(
    new TypeError("exec takes a list: the program, then each argument by itself. A shell line is not split."),
  );
}

function frozen(value) {
  if (typeof value !== "object" || value === null) return value;
  for (const part of values(value)) frozen(part);
  return freeze(value);
}
