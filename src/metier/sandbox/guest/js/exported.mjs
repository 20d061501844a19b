// What a manifest says that exists only as code: the code was loaded, and what it exports is read off as plain data.
// Functions become their text or the fact that they are there; nothing of the skill is called. Only where a call is about to be
// made, the functions that a manifest gives to check its inputs are asked.

import { apart, named } from "./stacks.mjs";

export const PROBE = "metier:probe";
export const VALIDATE = "metier:validate:";

const MOST_PARTS = 10_000;
const MOST_DEPTH = 24;
const MOST_TEXT = 20_000;
const describe = Object.getOwnPropertyDescriptor;
const keysOf = Object.keys;
const isArray = Array.isArray;
const prototypeOf = Object.getPrototypeOf;
const OBJECT = Object.prototype;
const ARRAY = Array.prototype;
const text = Function.prototype.call.bind(Function.prototype.toString);
const parse = JSON.parse;
const Unbound = ReferenceError;
const NOT_THERE = /^(\w+) is not defined\b/;
const ASKS = /\b(isWithinAllowedDirectory|isWriteAllowed|isValidAgent|isWhitelisted)\(/;

/** What a file exports, as the dialect `wanted.as` has it. */
export async function read(exports, wanted) {
  return wanted.as === "xbot" ? contract(exports) : await skillOf(exports);
}

async function skillOf(exports) {
  const manifest = found(exports, "manifest");
  if (typeof manifest !== "object" || manifest === null) throw named("TypeError", "the file exports no `manifest`");
  if (typeof found(exports, "execute") !== "function") {
    throw named("TypeError", "the file exports no function `execute`");
  }
  if (!isPlain(manifest)) throw named("TypeError", "`manifest` is no plain object");
  return { manifest: plain(manifest, (called) => ({ function: text(called) })), unbound: await unbound(manifest) };
}

// A check that asks a function the file does not have, or has from `metahuman_skills.ts`, asks for the host's. One that the file
// has is the author's own and is asked too, and nothing but calling it tells the two apart.
async function unbound(manifest) {
  const told = {};
  const inputs = held(manifest, "inputs");
  for (const name of isObject(inputs) ? keysOf(inputs) : []) {
    const given = held(inputs, name);
    const called = isObject(given) ? held(given, "validation") : undefined;
    const asked = typeof called === "function" ? ASKS.exec(text(called))?.[1] : undefined;
    if (asked === undefined) continue;
    try {
      await apart(called, [undefined, ""]);
    } catch (error) {
      if (error instanceof Unbound && NOT_THERE.exec(error.message)?.[1] === asked) told[name] = asked;
    }
  }
  return told;
}

function isObject(item) {
  return typeof item === "object" && item !== null;
}

/** Whether the functions that check the inputs named in `which` say yes to what is given for them. */
export async function valid(exports, which, given) {
  const inputs = found(exports, "manifest")?.inputs;
  for (const name of parse(which)) {
    if (!Object.hasOwn(given, name)) continue;
    const called = inputs?.[name]?.validation;
    if (typeof called !== "function" || await apart(called, [undefined, given[name]]) !== true) return false;
  }
  return true;
}

function contract(exports) {
  const skill = found(exports, "skill");
  if (typeof skill === "object" && skill !== null) {
    const { has_on_enable: _e, has_on_disable: _d, legacy: _l, ...rest } = plain(skill, () => true);
    delete rest.onEnable;
    delete rest.onDisable;
    // A class may have them as methods, which no list of its own names.
    const enable = typeof skill.onEnable === "function";
    return { contract: { ...rest, has_on_enable: enable, has_on_disable: typeof skill.onDisable === "function" } };
  }
  if (typeof found(exports, "registerSkill") === "function") return { contract: { legacy: true } };
  throw named("TypeError", "the package exports neither `skill` nor a function `registerSkill`");
}

// A CommonJS file that is loaded as a module has everything one level down.
function found(exports, name) {
  return exports?.[name] ?? exports?.default?.[name];
}

function plain(value, told) {
  let parts = 0;
  const walk = (item, depth) => {
    parts += 1;
    if (parts > MOST_PARTS || depth > MOST_DEPTH) {
      throw named("RangeError", "what is exported is too large, too deep, or leads back into itself");
    }
    if (typeof item === "function") return walk(told(item), depth + 1);
    if (typeof item !== "object" || item === null) return cut(item);
    if (depth > 0 && !isPlain(item)) throw named("TypeError", "what is exported holds an object that is not plain data");
    const pairs = keysOf(item).map((name) => [name, held(item, name)]);
    if (isArray(item)) return pairs.map((pair) => walk(pair[1] ?? null, depth + 1));
    const made = pairs.filter((pair) => pair[1] !== undefined).map((pair) => [pair[0], walk(pair[1], depth + 1)]);
    return Object.fromEntries(made);
  };
  return walk(value, 0);
}

// What an object has from a class, or works out when asked, would be lost; and a check that is lost is no check.
function isPlain(item) {
  const from = prototypeOf(item);
  return from === null || from === OBJECT || (isArray(item) && from === ARRAY);
}

function held(item, name) {
  const found = describe(item, name);
  if (found?.get || found?.set) throw named("TypeError", "what is exported holds something that is only worked out when asked");
  return found?.value;
}

function cut(item) {
  if (typeof item !== "string" || item.length <= MOST_TEXT) return item;
  throw named("RangeError", `what is exported holds a text of more than ${MOST_TEXT} characters`);
}
