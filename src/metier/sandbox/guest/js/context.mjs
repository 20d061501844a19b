// What a handler gets as its second argument. Frozen, and bound to this one call: every method asks the host, which
// decides; nothing is checked here that matters.

import { ask } from "./wire.mjs";

const freeze = Object.freeze;
const values = Object.values;
const keys = Object.keys;
const isArray = Array.isArray;

/** `shown` is what the host lets it see besides, for example `call` and `operator`. */
export function contextFor(shown) {
  const context = { call: freeze({}), operator: freeze({}) };
  for (const name of keys(shown)) {
    // Defined, not assigned: a name such as `__proto__` is a name like any other. Our own methods win.
    const value = frozen(shown[name]);
    Object.defineProperty(context, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return freeze(Object.assign(context, {
    exec: (argv) => asked("exec", { argv: argvOf(argv) }),
    log: (level, message, meta = {}) => asked("log", { level, message, meta }),
    callLog: freeze({ write: (entry) => asked("call_log.write", { entry }) }),
    gateway: freeze({
      post: (payload) => asked("gateway.post", { payload }),
      sendMessage: (message) => asked("gateway.send_message", { message }),
    }),
    http: freeze({ request: (request) => asked("http", { ...request }) }),
  }));
}

// Handlers often do not wait for the log. A refusal they never look at is no crash of theirs.
function asked(method, params) {
  const promise = ask(method, params);
  promise.catch(() => {});
  return promise;
}

function argvOf(argv) {
  if (isArray(argv)) return argv;
  throw new TypeError("exec takes a list: the program, then each argument by itself. A shell line is not split.");
}

function frozen(value) {
  if (typeof value !== "object" || value === null) return value;
  for (const part of values(value)) frozen(part);
  return freeze(value);
}
