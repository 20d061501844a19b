// A skill that lives: it is enabled, answers what the host asks of its modules, and is disabled. The same process for as long.
// It is given a `ctx` with exactly the members of an XBot skill's, frozen, and no more; every method asks the host, which decides.

import { AsyncLocalStorage } from "node:async_hooks";

import { giveFetch } from "./fetch.mjs";
import { moduleOf } from "./life_module.mjs";
import { calledName, encoded, said } from "./plain.mjs";
import { apart, named, shown, short } from "./stacks.mjs";

const create = Object.create;
const assign = Object.assign;
const freeze = Object.freeze;
const stringify = JSON.stringify;
const slice = Function.prototype.call.bind(String.prototype.slice);
const wellFormed = Function.prototype.call.bind(String.prototype.toWellFormed);
const mapGet = Function.prototype.call.bind(Map.prototype.get);
const mapSet = Function.prototype.call.bind(Map.prototype.set);
const mapEach = Function.prototype.call.bind(Map.prototype.forEach);
const Later = Promise;
const all = Later.all.bind(Later);
const RAISED = -32000;
// Which operation the code works for that runs now: what it asks for is told as part of that one.
const inside = new AsyncLocalStorage();
const within = inside.run.bind(inside);
const current = inside.getStore.bind(inside);

/** Live as what `load` gives says, until disabled. `known` is who the host says it is. */
export async function live(load, known, wire) {
  giveFetch(wire.ask);
  const exports = await load();
  const skill = found(exports, "skill");
  const life = lifeOn(wire);
  const identity = freeze({ id: text(known?.id ?? skill?.id), version: text(known?.version ?? skill?.version) });
  const context = contextOf(life, identity);
  const disabled = new Later((resolve) => {
    wire.listen((id, params) => {
      if (params.life === "disable") resolve(id);
      else if (typeof params.event === "string") within(params.inside, hear, life, id, params);
      else within(params.meta?.call_id, operate, life, id, params);
    });
  });
  await apart(enabler(exports, skill), [skill ?? undefined, context]);
  // What it registered and did not wait for: a module that the host does not take is a skill that is not enabled.
  await all(life.registering);
  life.registering = null;
  wire.ready();
  const id = await disabled;
  try {
    const last = skill?.onDisable;
    if (typeof last === "function") await apart(last, [skill, context]);
    wire.reply(id, "null");
  } catch (thrown) {
    wire.refuse(id, fault(thrown));
  }
  return null;
}

/** What goes wrong, as the host is told it. A code of its own is its name. */
export function fault(thrown) {
  const name = codeOf(thrown) ?? calledName(thrown);
  // A text that is cut may end in half a character, which is not JSON.
  const data = { name: wellFormed(slice(name, 0, 100)) };
  return stringify({ code: RAISED, message: wellFormed(slice(said(thrown), 0, 8192)), data });
}

function codeOf(thrown) {
  try {
    const code = thrown?.code;
    return typeof code === "string" && code !== "" ? code : null;
  } catch {
    return null;
  }
}

function lifeOn(wire) {
  return { ask: wire.ask, wire, modules: new Map(), registering: [], registered: null, pending: 0 };
}

function contextOf(life, skill) {
  const asking = (method, params) =>
    shown((...given) => {
      const promise = life.ask(method, params(...given));
      // Few wait for a log line. A refusal they never look at is no crash of theirs.
      promise.catch(() => {});
      return promise;
    });
  // Nothing is executed before what was registered is known: the operation may be about the module.
  const execute = shown((module, op, params, meta) => {
    const asked = belonging({ module, op, params: params ?? {}, meta: meta ?? {} });
    if (life.pending === 0) return life.ask("execute", asked);
    encoded(asked, "the arguments"); // what is wrong with them is said at once
    const again = () => life.ask("execute", asked);
    return life.registered.then(again, again);
  });
  return freeze(assign(create(null), {
    execute,
    registerModule: shown((instance) => register(life, moduleOf(instance))),
    emit: asking("emit", (name, payload) => belonging({ name, payload: payload === undefined ? null : payload })),
    log: asking("log", (level, message, meta) => ({ level, message, meta: meta ?? {} })),
    skill,
    state_get: asking("state.get", (key) => ({ key })),
    state_set: asking("state.set", (key, value) => ({ key, value: value === undefined ? null : value })),
  }));
}

// The host believes it only of an operation that is under way, and counts by the deepest where it is told none.
function belonging(asked) {
  const id = current();
  return typeof id === "string" ? assign(asked, { for: id }) : asked;
}

function register(life, module) {
  life.pending += 1;
  const asked = { name: module.name, operations: module.operations };
  if (module.hear !== null) asked.hears = true;
  const registered = life.ask("module.register", asked).then(
    () => {
      life.pending -= 1;
      mapSet(life.modules, module.name, module);
    },
    (error) => {
      life.pending -= 1;
      throw error;
    },
  );
  registered.catch(() => {});
  life.registered = registered;
  if (life.registering !== null) life.registering[life.registering.length] = registered;
  return registered;
}

// Every module that listens is told, whatever another does with it.
async function hear(life, id, told) {
  const failed = [];
  const each = async (module) => {
    try {
      await module.hear(told.event, told.payload, told.meta);
    } catch (thrown) {
      failed[failed.length] = thrown;
    }
  };
  const telling = [];
  mapEach(life.modules, (module) => {
    if (module.hear !== null) telling[telling.length] = each(module);
  });
  await all(telling);
  if (failed.length === 0) life.wire.reply(id, "null");
  else life.wire.refuse(id, fault(failed[0]));
}

async function operate(life, id, asked) {
  try {
    const module = mapGet(life.modules, asked.module);
    if (module === undefined) throw named("NotFound", `there is no module ${asked.module} here`);
    const value = await module.call(asked.op, asked.params ?? {}, asked.meta ?? {});
    let body;
    try {
      body = encoded(value, "the result");
    } catch (thrown) {
      throw named("BadResult", said(thrown));
    }
    if (!life.wire.reply(id, body)) {
      throw named("BadResult", "what the operation returned is larger than a message may be");
    }
  } catch (thrown) {
    life.wire.refuse(id, fault(thrown));
  }
}

function enabler(exports, skill) {
  if (typeof skill === "object" && skill !== null) {
    if (typeof skill.onEnable === "function") return skill.onEnable;
    throw short(new TypeError("`skill` has no function `onEnable`; a skill begins there"));
  }
  const legacy = found(exports, "registerSkill");
  if (typeof legacy === "function") return legacy;
  throw short(new TypeError("the package exports neither `skill` nor a function `registerSkill`"));
}

// A CommonJS file that is loaded as a module has everything one level down.
function found(exports, name) {
  return exports?.[name] ?? exports?.default?.[name];
}

function text(given) {
  return typeof given === "string" ? given : "";
}
