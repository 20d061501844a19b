// Skills print and return stacks, and a stack says where files lie. So no stack that a skill sees holds ours: errors that
// our own code throws at it have a name, words and nothing else, and its functions are called with nobody of us below.

const define = Object.defineProperty;
const apply = Reflect.apply;
const bind = Function.prototype.bind;
const then = Function.prototype.call.bind(Promise.prototype.then);
const text = String;
const Plain = Error;
const Later = Promise;
const now = Later.resolve();

/** An error with a name of its own. */
export function named(name, message) {
  const error = new Plain(message);
  define(error, "name", { value: name, configurable: true, writable: true });
  return short(error);
}

/** The same error without its stack. What is no error is left as it is. */
export function short(error) {
  try {
    const value = `${text(error.name)}: ${text(error.message)}`;
    define(error, "stack", { value, configurable: true, writable: true });
  } catch {
    // It has no stack, or cannot be changed: then it is not one of ours.
  }
  return error;
}

/** `act`, so that what goes wrong in it does not show where it is. */
export function shown(act) {
  return (...given) => {
    try {
      return apply(act, undefined, given);
    } catch (error) {
      throw short(error);
    }
  };
}

/** Call a function of the skill, and give a promise of what it returns. `given` is its `this`, then its arguments. */
export function apart(called, given) {
  const alone = apply(bind, called, given);
  // The engine follows promises to whoever waits for them, but not through these two functions.
  return new Later((resolve, reject) => {
    then(then(now, alone), (value) => resolve(value), (error) => reject(error));
  });
}
