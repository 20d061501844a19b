// Standard input, output and the console as a skill sees them. Output becomes log lines over the bridge, input is
// empty: the descriptors themselves carry the bridge. Where the engine and our runner lie is not said either.

import { short, shown } from "./stacks.mjs";

const define = Object.defineProperty;
const decode = Function.prototype.call.bind(TextDecoder.prototype.decode);
const encode = Function.prototype.call.bind(TextEncoder.prototype.encode);
const split = Function.prototype.call.bind(String.prototype.lastIndexOf);
const slice = Function.prototype.call.bind(String.prototype.slice);
const decoder = new TextDecoder();
const encoder = new TextEncoder();
const stderr = Deno.stderr;
const writeError = Function.prototype.call.bind(stderr.writeSync);
const stringify = JSON.stringify;
const { NotCapable } = Deno.errors;
const NodeConsole = Deno[Deno.internal]?.Console;
const processOf = Object.getOwnPropertyDescriptor(globalThis, "process")?.get;

/** Text that waits for its line end, one store for each level. */
const rest = { info: "", error: "" };
let patched = false;
let tell = () => undefined;
// Not a timer: only to name one loads a good part of Node, which takes longer than a small run.
const soon = Function.prototype.call.bind(Promise.prototype.then);
const now = Promise.resolve();
let willTell = false;

/** Take the real streams away, and what would speak past the bridge. Output is given to `teller`. */
export function takeStreams(teller) {
  tell = teller;
  const print = (text, level) => write(level > 1 ? "error" : "info", text);
  const made = new NodeConsole(print);
  for (const name of Object.getOwnPropertyNames(made)) {
    if (typeof made[name] === "function") console[name] = made[name];
  }
  Deno.stdin = input();
  Deno.stdout = output("info");
  Deno.stderr = output("error");
  for (const name of ["Command", "run", "spawn", "spawnAndWait", "spawnAndWaitSync"]) {
    if (name in Deno) replace(Deno, name, noProgram);
  }
  replace(Deno, "mainModule", "metier:runner");
  replace(Deno, "execPath", () => "deno");
  replace(globalThis, "Worker", noWorker);
  replace(globalThis, "alert", () => undefined);
  replace(globalThis, "confirm", () => false);
  replace(globalThis, "prompt", () => null);
  if (processOf !== undefined) {
    define(globalThis, "process", { get: () => patchedProcess(processOf()), configurable: true });
  }
}

/** Output that never got its line end. */
export function flush() {
  for (const level of ["info", "error"]) {
    if (rest[level] !== "") tell(level, rest[level], true);
    rest[level] = "";
  }
}

/** Node's process, with the same streams as everybody else. */
function patchedProcess(process) {
  if (patched) return process;
  patched = true;
  const builtin = process.getBuiltinModule;
  replace(process, "getBuiltinModule", (name) => {
    const found = builtin(name);
    if (found?.Worker) found.Worker = noWorker;
    return found;
  });
  replace(process, "argv", ["deno", "metier:runner"]);
  replace(process, "stdin", nodeStream(null));
  replace(process, "stdout", nodeStream("info"));
  replace(process, "stderr", nodeStream("error"));
  return process;
}

function write(level, text) {
  const all = rest[level] + text;
  const cut = split(all, "\n");
  if (cut >= 0) tell(level, slice(all, 0, cut));
  rest[level] = slice(all, cut + 1);
  if (rest[level].length > 65536) {
    tell(level, rest[level], true);
    rest[level] = "";
  }
  if (rest[level] !== "" && !willTell) {
    willTell = true; // a run may be ended while it waits for something, and then this is what it said
    soon(now, () => {
      willTell = false;
      flush();
    });
  }
}

function replace(owner, name, value) {
  define(owner, name, { value, writable: true, configurable: true, enumerable: true });
}

function input() {
  return {
    read: async () => null,
    readSync: () => null,
    get readable() {
      return new ReadableStream({ start: (controller) => controller.close() });
    },
    close() {},
    isTerminal: () => false,
    setRaw() {},
  };
}

function output(level) {
  const put = shown((bytes) => {
    write(level, decode(decoder, bytes));
    return bytes.length;
  });
  return {
    write: async (bytes) => put(bytes),
    writeSync: put,
    get writable() {
      return new WritableStream({ write: (chunk) => void put(chunk) });
    },
    close() {},
    isTerminal: () => false,
  };
}

/** As much of a Node stream as programs use of their standard streams. */
function nodeStream(level) {
  const self = {
    isTTY: false,
    fd: level === null ? 0 : level === "info" ? 1 : 2,
    writable: level !== null,
    readable: level === null,
    columns: 80,
    write: shown((chunk, encoding, done) => {
      if (level !== null) write(level, typeof chunk === "string" ? chunk : decode(decoder, chunk));
      const after = typeof encoding === "function" ? encoding : done;
      if (typeof after === "function") queueMicrotask(after);
      return true;
    }),
    end(chunk) {
      if (chunk !== undefined) self.write(chunk);
      return self;
    },
    read: () => null,
    on(event, listener) {
      if (level === null && (event === "end" || event === "close")) queueMicrotask(listener);
      return self;
    },
    async *[Symbol.asyncIterator]() {},
  };
  for (const name of ["once", "addListener"]) self[name] = self.on;
  for (const name of ["off", "removeListener", "resume", "pause", "setEncoding", "emit", "cork", "uncork"]) {
    self[name] = () => self;
  }
  return self;
}

/** Where this process is, for whoever reads the engine's audit: the names in it may be relative. */
export function sayWhere() {
  try {
    audit("cwd", Deno.cwd());
  } catch {
    // It may not know, and then has no name there to be told apart.
  }
}

function audit(permission, value) {
  writeError(stderr, encode(encoder, `{"v":1,"permission":"${permission}","value":${stringify(value)}}\n`));
}

// The engine keeps no record of programs it refused to start, so it is written here, in the form of its own.
function noProgram(program) {
  const value = typeof program === "string" ? program : "a program";
  audit("run", slice(value, 0, 200));
  throw short(new NotCapable(`Requires run access to "${value}": programs are started with context.exec`));
}

/** What stands in for every way to a worker that code usually takes. The walls bound the memory of any other. */
export function noWorker() {
  throw short(new NotCapable("Workers are not available here: each would have a memory limit of its own"));
}
