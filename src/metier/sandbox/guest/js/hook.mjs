// Where a hook's event waits for it. The runner offers one; `runHook` of `openclaw/hooks` takes it.

import { apart, named } from "./stacks.mjs";

const ownKeys = Reflect.ownKeys;
const prototypeOf = Object.getPrototypeOf;
const described = Reflect.getOwnPropertyDescriptor;
const PLAIN = Object.prototype;
const Turn = Promise;
const soon = setTimeout;
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
  taken = word(handler, event);
  return taken.then(() => undefined);
}

async function word(handler, event) {
  const given = ownKeys(event).length;
  const returned = await apart(handler, [undefined, event]);
  const context = event.context;
  if (event.type === "tool" && event.action === "before") requireInContext(returned, event, given, context);
  // What it did not wait for and failed is its failure too, and is known by the end of a turn of the loop: of a whole one, so that
  // the first turn, in which a timer may come before it, is followed by another.
  for (let turn = 0; turn < 2; turn++) await new Turn((resolve) => soon(resolve, 0));
  return context;
}

// Before a call its word may be a no. One that stands where nobody reads it must not be taken for none.
function requireInContext(returned, event, given, context) {
  const left = "leave your word in event.context.decision, as a plain value, and return nothing";
  if (returned !== undefined) throw named("Error", `a hook before a call returned something; ${left}`);
  if (ownKeys(event).length !== given) throw named("Error", `a hook put something beside event.context; ${left}`);
  if (typeof context !== "object" || context === null) return; // said elsewhere
  const hidden = (key) => typeof key === "symbol" || !described(context, key).enumerable;
  if (prototypeOf(context) !== PLAIN || ownKeys(context).some(hidden)) {
    throw named("Error", `a hook left a context that hides something; ${left}`);
  }
}
