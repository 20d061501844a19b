// The main module of every JavaScript run. It waits for one order, loads the code it names, calls it, and says how
// it ended. The code of a skill is loaded only by a computed import, which the engine checks; never by a static one.

import { contextFor } from "./context.mjs";
import { chosen, compileInline, loadFile } from "./load.mjs";
import { calledName, encoded, NotPlain, said } from "./plain.mjs";
import { apart } from "./stacks.mjs";
import { flush, sayWhere, takeStreams } from "./streams.mjs";
import { takeWire } from "./wire.mjs";

const HOOKS = new URL("./hook.mjs", import.meta.url).href; // no literal: see load.mjs
const LIFE = new URL("./life.mjs", import.meta.url).href;
const EXPORTED = new URL("./exported.mjs", import.meta.url).href;
const OURS = "metier:"; // such a name is no export of the skill, but something of ours done with what it exports

const wire = takeWire();
const stringify = JSON.stringify;
const slice = Function.prototype.call.bind(String.prototype.slice);
const startsWith = Function.prototype.call.bind(String.prototype.startsWith);
const wellFormed = Function.prototype.call.bind(String.prototype.toWellFormed);
const setVariable = Deno.env.set.bind(Deno.env);
const whereabouts = Deno.cwd;
const RAISED = -32000;
const BAD_RESULT = -32001;
const LAST_REQUESTS = 2_000; // milliseconds
let lives = false;

async function hook(run) {
  const { offer, take, takenUp } = await import(HOOKS);
  offer(run.event);
  const exports = await loadFile(run.file);
  if (takenUp() === null) await take(chosen(exports, run.export));
  return await takenUp();
}

async function life(run) {
  lives = true;
  const { live } = await import(LIFE);
  return await live(() => loadFile(run.file), run.context.skill, wire);
}

async function ours(run) {
  const { PROBE, read, valid, VALIDATE } = await import(EXPORTED);
  const exports = await loadFile(run.file);
  if (run.export === PROBE) return await read(exports, run.params);
  if (startsWith(run.export, VALIDATE)) return await valid(exports, slice(run.export, VALIDATE.length), run.params);
  return chosen(null, run.export);
}

async function result(run) {
  if (run.kind === "hook") return await hook(run);
  if (run.kind === "life") return await life(run);
  if (run.kind === "handler" && startsWith(run.export, OURS)) return await ours(run);
  // Where it starts in its temporary folder it may write there, and leave files in `out`.
  const seen = run.out ? { ...run.context, out: `${whereabouts()}/out` } : run.context;
  const context = contextFor(seen, wire.ask);
  const called = run.kind === "inline"
    ? await compileInline(run.source, run.language)
    : chosen(await loadFile(run.file), run.export);
  return await apart(called, [undefined, run.params, context]);
}

// A text that is cut may end in half a character, and code may throw half ones: neither is JSON.
function words(text, most) {
  return wellFormed(slice(text, 0, most));
}

function fail(thrown) {
  flush();
  const code = thrown instanceof NotPlain ? BAD_RESULT : RAISED;
  const error = { code, message: words(said(thrown), 8192), data: { name: words(calledName(thrown), 100) } };
  wire.fail(stringify(error));
}

// A life may have asked for something that takes long, and does not wait for it when it is disabled.
function soon(answered) {
  return Promise.race([answered, new Promise((resolve) => setTimeout(resolve, LAST_REQUESTS))]);
}

async function main(run) {
  try {
    const names = Object.keys(run.environment);
    for (const name of names) setVariable(name, run.environment[name]);
    const value = await result(run);
    const body = encoded(value, "the result");
    // What was asked for before the end is done before the end.
    await (lives ? soon(wire.answered()) : wire.answered());
    flush();
    wire.finish(body);
  } catch (thrown) {
    fail(thrown);
  }
}

// Who is started ahead has time: the way of every run is gone once, so that it is compiled when it counts.
async function practise() {
  const file = new URL("./practice.js", import.meta.url).pathname;
  const context = { call: { id: "" }, operator: {} };
  wire.readNothing();
  await main({ kind: "handler", file, export: "default", params: {}, context, environment: {} });
  await Deno.lstat(file); // its thread then waits for the first answer that is read
}

// What nobody waited for ends a run. One that lives has many parts, and goes on without the one that failed.
function astray(thrown) {
  if (lives) wire.tell("error", words(`${calledName(thrown)}: ${said(thrown)}`, 8192));
  else fail(thrown);
}

addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  astray(event.reason);
});
addEventListener("error", (event) => {
  event.preventDefault();
  astray(event.error);
});
takeStreams(wire.tell);
sayWhere();
if (Deno.args[0] === "ahead") await practise();
const given = wire.order();
if (given !== null) main(given);
