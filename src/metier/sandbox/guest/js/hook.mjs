// Where a hook's event waits for it. The runner offers one; `runHook` of `openclaw/hooks` takes it.

import { apart, named } from "./stacks.mjs";

let offered = null;
let taken = null;

/** Lay an event ready for the hook that is loaded next. */
export function offer(event) {
  offered = event;
}

/** What became of the event: a promise when the hook took it by itself, else null. */
export function takenUp() {
  return taken;
}

/** Call `handler` with the event of this run. */
export function take(handler) {
  if (offered === null) {
    return Promise.reject(named("Error", "runHook: there is no event; it was taken already, or this run is no hook"));
  }
  const event = offered;
  offered = null;
  taken = apart(handler, [undefined, event]).then(() => event.context);
  return taken.then(() => undefined);
}
