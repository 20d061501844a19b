// The guest's side of the bridge: JSON-RPC, one line a message, each of ours begun with the key of this run.
//
// Everything it needs is taken here, before any code of a skill is loaded: what that code does to `JSON`, to the
// prototypes or to `Deno` reaches none of it. The key is kept as bytes, which no look at the heap shows, and nothing
// gives it out. A skill that imports this file gets this very module, so what it exports can be had only once.

import { encoded, NotPlain } from "./plain.mjs";
import { named } from "./stacks.mjs";

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
// Not `subarray` and not `.length`: both go through what code could have put into the prototypes, and the key is in there.
const TypedArray = Object.getPrototypeOf(Uint8Array.prototype);
const getter = (name) => unbound(Object.getOwnPropertyDescriptor(TypedArray, name).get);
const bufferOf = getter("buffer");
const offsetOf = getter("byteOffset");
const sizeOf = getter("byteLength");
const indexOf = unbound(Uint8Array.prototype.indexOf);
const set = unbound(Uint8Array.prototype.set);
const fill = unbound(Uint8Array.prototype.fill);
const mapGet = unbound(Map.prototype.get);
const mapSet = unbound(Map.prototype.set);
const mapDelete = unbound(Map.prototype.delete);
const slice = unbound(String.prototype.slice);
const Bytes = Uint8Array;
const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** A log line is cut into pieces of so many characters: each fits a message however it is escaped. */
const PIECE = 131072;
/** The host answers so many requests at once; further ones wait here for their turn. */
const AT_ONCE = 32;

let buffer = new Bytes(65536);
let filled = 0;
let searched = 0;
let prefix = null; // none yet: then this is practice, nothing is sent, and every answer is null
let mostBytes = 1048576;
let mostResult = 1048576;
let given = false;
let ended = false;
let reading = false;
let last = 0;
let open = 0;
let emptied = null;
let heard = null; // who is told what the host asks of code that lives
const waiting = new Map();
/** Requests that were not sent yet, by number. */
const later = new Map();
let nextLater = 1;

/** The whole of it, for whoever asks first; nobody gets it after that. */
export function takeWire() {
  if (given) throw named("PermissionDenied", "the bridge belongs to the runner");
  given = true;
  return { order, ask, tell, readNothing, answered, finish, fail, listen, ready, reply, refuse };
}

/** The one thing the host asks of us. Blocks until it comes. */
function order() {
  for (;;) {
    const line = nextLine();
    if (line === null) {
      const got = readNow(stdin, room());
      if (got === null) return null;
      filled += got;
      continue;
    }
    const message = parse(line);
    prefix = encode(encoder, `${message.key} `);
    mostBytes = message.params.most_message;
    mostResult = message.params.most_result;
    fill(buffer, 0, filled); // the key was in there
    return message.params;
  }
}

/** Ask the host; the promise settles with its answer. */
function ask(method, params) {
  return new Promise((resolve, reject) => {
    if (ended) throw named("CallEnded", `${method}: this call has ended; nothing was done`);
    const body = encoded(params, "the arguments");
    const id = last + 1;
    const line = made(`{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${body}}\n`);
    if (sizeOf(line) > mostBytes) {
      throw named("TooLarge", `${method}: the arguments are larger than a message may be`);
    }
    last = id;
    mapSet(waiting, id, { resolve, reject });
    open += 1;
    if (open > AT_ONCE) return mapSet(later, id, line);
    nextLater = id + 1;
    send(line);
    if (prefix === null) settle({ id, result: null });
    else if (!reading) readAnswers();
  });
}

/** Tell the host a line of output, or the part of one that there is (`open`). Never throws. */
function tell(level, text, open = false) {
  if (ended) return;
  for (let at = 0; at === 0 || at < text.length; at += PIECE) {
    const message = stringify(slice(text, at, at + PIECE));
    const params = `{"level":"${level}","message":${message},"open":${open || at + PIECE < text.length}}`;
    send(made(`{"jsonrpc":"2.0","method":"log","params":${params}}\n`));
  }
}

/** Have `hear` told, by id and params, what the host asks besides the run, for as long as it lasts. */
function listen(hear) {
  heard = hear;
  if (!reading) readAnswers();
}

/** Say that from now on the host may ask. */
function ready() {
  send(made('{"jsonrpc":"2.0","method":"ready","params":{}}\n'));
}

/** Answer what the host asked: `body` is JSON. False, and nothing is sent, where it is larger than a message may be. */
function reply(id, body) {
  const line = made(`{"jsonrpc":"2.0","id":${id},"result":${body}}\n`);
  if (sizeOf(line) > mostBytes) return false;
  if (!ended) send(line);
  return true;
}

/** Answer that it was not done: `body` is JSON. */
function refuse(id, body) {
  if (!ended) send(made(`{"jsonrpc":"2.0","id":${id},"error":${body}}\n`));
}

/** Read a line that nobody sent, as practice. */
function readNothing() {
  const line = encode(encoder, '{"id":0,"params":{},"result":null}\n');
  set(buffer, line);
  filled = sizeOf(line);
  settle(parse(nextLine()));
}

/** When everything that was asked has been answered. */
function answered() {
  if (open === 0) return null;
  return new Promise((resolve) => (emptied = resolve));
}

/** The run returned: `body` is JSON. */
function finish(body) {
  if (sizeOf(encode(encoder, body)) > mostResult) {
    throw new NotPlain(`the result is larger than the limit of ${mostResult} bytes`);
  }
  end(`{"jsonrpc":"2.0","id":0,"result":${body}}\n`);
}

/** The run failed: `body` is JSON. */
function fail(body) {
  end(`{"jsonrpc":"2.0","id":0,"error":${body}}\n`);
}

/** Say how the run ended, and leave when told. Only the first counts, and nothing is sent after it. */
function end(text) {
  if (ended) return;
  const line = made(text);
  if (prefix === null) return send(line);
  ended = true;
  send(line);
  // What this run took can be told only while it is there, so whoever looks ends it, or hangs up.
  try {
    while (readNow(stdin, room()) !== null) filled = 0;
  } catch {
    // An answer is still being waited for in another thread, and two cannot read.
  }
  leave(0);
}

/** A message as the bytes that are sent. */
function made(text) {
  const body = encode(encoder, text);
  if (prefix === null) return body;
  const line = new Bytes(sizeOf(prefix) + sizeOf(body));
  set(line, prefix);
  set(line, body, sizeOf(prefix));
  return line;
}

function send(line) {
  if (prefix === null) return void writeNow(stdout, part(line, 0, 0));
  for (let sent = 0; sent < sizeOf(line);) sent += writeNow(stdout, part(line, sent, sizeOf(line)));
}

// A read is under way only while an answer is owed: code that waits for nothing at all then ends by itself. What lives waits for us.
async function readAnswers() {
  reading = true;
  while (open > 0 || heard !== null) {
    const got = await read(stdin, room());
    if (got === null) {
      if (heard !== null) leave(1); // the host is gone
      break;
    }
    filled += got;
    for (let line = nextLine(); line !== null; line = nextLine()) settle(parse(line));
  }
  reading = false;
}

function settle(message) {
  if (message.method !== undefined) return heard(message.id, message.params);
  const asked = mapGet(waiting, message.id);
  if (asked === undefined) return;
  mapDelete(waiting, message.id);
  open -= 1;
  const line = mapGet(later, nextLater);
  if (line !== undefined) {
    mapDelete(later, nextLater++);
    send(line);
  }
  if (message.error === undefined) asked.resolve(message.result);
  else asked.reject(named(message.error.data.name, message.error.message));
  if (open === 0 && emptied !== null) emptied();
}

function nextLine() {
  const found = indexOf(part(buffer, searched, filled), 10);
  if (found < 0) {
    searched = filled;
    return null;
  }
  const cut = searched + found;
  const line = decode(decoder, part(buffer, 0, cut));
  set(buffer, part(buffer, cut + 1, filled));
  filled -= cut + 1;
  searched = 0;
  return line;
}

function room() {
  if (filled === sizeOf(buffer)) {
    const larger = new Bytes(sizeOf(buffer) * 2);
    set(larger, buffer);
    buffer = larger;
  }
  return part(buffer, filled, sizeOf(buffer));
}

/** A view of a part of other bytes. */
function part(bytes, from, to) {
  return new Bytes(bufferOf(bytes), offsetOf(bytes) + from, to - from);
}
