// A module of a skill that lives: its name, and which of its methods are operations. Two ways of writing one are known: a plain
// one has methods `say(params, meta)`; one in the manner of XBot's XModule has a `_name` and methods `_say(command)`, where `command` is
// the parameters and, besides them, `_module`, `_op` and `_params`. A list `operations` (or `ops`) says it outright. A method
// `onEvent(name, payload, meta)` is no operation: it is told what happens.

import { apart, named, short } from "./stacks.mjs";
import { XModule } from "./xmodule.mjs";

const describe = Object.getOwnPropertyDescriptor;
const namesOf = Object.getOwnPropertyNames;
const prototypeOf = Object.getPrototypeOf;
const keysOf = Object.keys;
const isArray = Array.isArray;
const startsWith = Function.prototype.call.bind(String.prototype.startsWith);
const slice = Function.prototype.call.bind(String.prototype.slice);
const mapGet = Function.prototype.call.bind(Map.prototype.get);
const mapSet = Function.prototype.call.bind(Map.prototype.set);
const OBJECT = Object.prototype;
const BASE = XModule.prototype;
const Operations = Map;
const HEARS = "onEvent";

/** What there is to know of an instance, read off once. */
export function moduleOf(instance) {
  const name = instance?.name || instance?._name;
  if (typeof instance !== "object" || typeof name !== "string") {
    throw short(new TypeError("a module is an instance with a `name` (or `_name`), and methods as its operations"));
  }
  const does = new Operations();
  const operations = [];
  const add = (operation, method, command) => {
    if (operation === HEARS) return;
    mapSet(does, operation, { method, command });
    operations[operations.length] = operation;
  };
  if (!listed(instance, name, add)) written(instance, add);
  const hears = instance[HEARS];
  const hear = typeof hears === "function" ? (event, payload, meta) => apart(hears, [instance, event, payload, meta]) : null;
  if (operations.length === 0 && hear === null) {
    throw short(new TypeError(`the module ${name} has no operations; give it methods, or a list \`operations\``));
  }
  return { name, operations, hear, call: (operation, params, meta) => call(instance, name, does, operation, params, meta) };
}

async function call(instance, name, does, operation, params, meta) {
  const found = mapGet(does, operation);
  if (found === undefined) throw named("NotFound", `the module ${name} has no operation ${operation}`);
  const given = found.command ? { ...params, _module: name, _op: operation, _params: params } : params;
  return await apart(found.method, [instance, given, meta]);
}

/** Those that it lists itself, by name or by name and function. */
function listed(instance, name, add) {
  const list = instance.operations ?? instance.ops;
  if (typeof list !== "object" || list === null) return false;
  if (!isArray(list)) {
    for (const each of keysOf(list)) if (typeof list[each] === "function") add(each, list[each], false);
    return true;
  }
  for (const each of list) {
    const plain = instance[each];
    const method = typeof plain === "function" ? plain : instance[`_${each}`];
    if (typeof method !== "function" || each in OBJECT) {
      throw short(new TypeError(`the module ${name} lists ${each}, and has no such method`));
    }
    add(`${each}`, method, method !== plain);
  }
  return true;
}

/** Its methods. Those of the one way of writing it count, and those of the other only where there are none. */
function written(instance, add) {
  const plain = new Operations();
  const commands = new Operations();
  // Nothing that every object has, and nothing that is only worked out when asked.
  for (let owner = instance; owner !== null && owner !== OBJECT && owner !== BASE; owner = prototypeOf(owner)) {
    for (const name of namesOf(owner)) {
      const method = describe(owner, name).value;
      if (typeof method !== "function" || name in OBJECT || startsWith(name, "__")) continue;
      const command = startsWith(name, "_");
      const those = command ? commands : plain;
      const operation = command ? slice(name, 1) : name;
      if (mapGet(those, operation) === undefined) mapSet(those, operation, method); // the nearest wins
    }
  }
  const first = instance._name ? commands : plain;
  const chosen = first.size > 0 ? first : first === plain ? commands : plain;
  chosen.forEach((method, operation) => add(operation, method, chosen === commands));
}
