// The guest's side of the bridge: JSON-RPC, one line a message, each of ours begun with the key of this run.
//
// Everything it needs is taken here, before any code of a skill is loaded: what that code does to `JSON`, to the
// prototypes or to `Deno` reaches none of it. The key stays in this module; nothing gives it out.

import { encoded } from "./plain.mjs";

const { stdin, stdout, exit: leave } = Deno;
const call = Function.prototype.call;
const unbound = (method) => call.bind(method);
const read = unbound(stdin.read);
const readNow = unbound(stdin.readSync);
const writeNow = unbound(stdout.writeSync);
const parse = JSON.parse;
const stringify = JSON.stringify;
const decode = unbound(TextDecoder.prototype.decode);
const encode = unbound(TextEncoder.prototype.encode);
const subarray = unbound(Uint8Array.prototype.subarray);
const indexOf = unbound(Uint8Array.prototype.indexOf);
const set = unbound(Uint8Array.prototype.set);
const fill = unbound(Uint8Array.prototype.fill);
const mapGet = unbound(Map.prototype.get);
const mapSet = unbound(Map.prototype.set);
const mapDelete = unbound(Map.prototype.delete);
const slice = unbound(String.prototype.slice);
const define = Object.defineProperty;
const Bytes = Uint8Array;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** A log line is cut into pieces of so many characters: each fits a message however it is escaped. */
const PIECE = 131072;

let buffer = new Bytes(65536);
let filled = 0;
let searched = 0;
let key = ""; // none yet: then this is practice, nothing is sent, and every answer is null
let mostBytes = 1048576;
let mostResult = 1048576;
let ended = false;
let reading = false;
let last = 0;
let open = 0;
let emptied = null;
const waiting = new Map();

/** The one thing the host asks of us. Blocks until it comes. */
export function order() {
  for (;;) {
    const line = nextLine();
    if (line === null) {
      const got = readNow(stdin, room());
      if (got === null) return null;
      filled += got;
      continue;
    }
    const message = parse(line);
    key = message.key;
    mostBytes = message.params.most_message;
    mostResult = message.params.most_result;
    fill(buffer, 0, filled); // the key was in there
    return message.params;
  }
}

/** Ask the host; the promise settles with its answer. */
export function ask(method, params) {
  return new Promise((resolve, reject) => {
    if (ended) throw named("CallEnded", `${method}: this call has ended; nothing was done`);
    const body = encoded(params, "the arguments");
    const id = ++last;
    const line = encode(encoder, `${key} {"jsonrpc":"2.0","id":${id},"method":"${method}","params":${body}}\n`);
    if (line.length > mostBytes) {
      throw named("TooLarge", `${method}: the arguments are larger than a message may be`);
    }
    mapSet(waiting, id, { resolve, reject });
    open += 1;
    send(line);
    if (key === "") settle({ id, result: null });
    else if (!reading) readAnswers();
  });
}

/** Tell the host a line of output. Never throws. */
export function tell(level, text) {
  if (ended) return;
  for (let at = 0; at === 0 || at < text.length; at += PIECE) {
    const message = stringify(slice(text, at, at + PIECE));
    send(
      encode(encoder, `${key} {"jsonrpc":"2.0","method":"log","params":{"level":"${level}","message":${message}}}\n`),
    );
  }
}

/** Read a line that nobody sent, as practice. */
export function readNothing() {
  const line = encode(encoder, '{"id":0,"params":{},"result":null}\n');
  set(buffer, line);
  filled = line.length;
  settle(parse(nextLine()));
}

/** When everything that was asked has been answered. */
export function answered() {
  if (open === 0) return null;
  return new Promise((resolve) => (emptied = resolve));
}

/** Say how the run ended, and leave: `body` is JSON. Only the first counts, and nothing is sent after it. */
export function end(kind, body) {
  if (ended) return;
  const line = encode(encoder, `${key} {"jsonrpc":"2.0","id":0,"${kind}":${body}}\n`);
  if (key === "") return send(line);
  ended = true;
  send(line);
  leave(0);
}

/** How many bytes a result may have. */
export function resultRoom() {
  return mostResult;
}

/** An error with a name of its own. */
export function named(name, message) {
  const error = new Error(message);
  define(error, "name", { value: name, configurable: true, writable: true });
  return error;
}

function send(line) {
  if (key === "") return void writeNow(stdout, subarray(line, 0, 0));
  for (let sent = 0; sent < line.length;) sent += writeNow(stdout, subarray(line, sent));
}

// A read is under way only while an answer is owed: code that waits for nothing at all then ends by itself.
async function readAnswers() {
  reading = true;
  while (open > 0) {
    const got = await read(stdin, room());
    if (got === null) break;
    filled += got;
    for (let line = nextLine(); line !== null; line = nextLine()) settle(parse(line));
  }
  reading = false;
}

function settle(message) {
  const asked = mapGet(waiting, message.id);
  if (asked === undefined) return;
  mapDelete(waiting, message.id);
  open -= 1;
  if (message.error === undefined) asked.resolve(message.result);
  else asked.reject(named(message.error.data.name, message.error.message));
  if (open === 0 && emptied !== null) emptied();
}

function nextLine() {
  const found = indexOf(subarray(buffer, searched, filled), 10);
  if (found < 0) {
    searched = filled;
    return null;
  }
  const cut = searched + found;
  const line = decode(decoder, subarray(buffer, 0, cut));
  set(buffer, subarray(buffer, cut + 1, filled));
  filled -= cut + 1;
  searched = 0;
  return line;
}

function room() {
  if (filled === buffer.length) {
    const larger = new Bytes(buffer.length * 2);
    set(larger, buffer);
    buffer = larger;
  }
  return subarray(buffer, filled);
}
