// `fetch` for a skill that lives. Its context has no member for the network, so the global one is what its code asks with; each
// request goes over the bridge, and the host decides. What needs no network (`data:`, `blob:`) is left to the engine.

import { calledName, said } from "./plain.mjs";
import { named, short } from "./stacks.mjs";

const engine = globalThis.fetch;
const define = Object.defineProperty;
const entries = Object.entries;
const isArray = Array.isArray;
const Asked = Request;
const Answer = Response;
const Lines = Headers;
const Bytes = Uint8Array;
const Later = Promise;
const Wrong = TypeError;
const encoder = new TextEncoder();
const LONGEST = 120_000; // milliseconds; the host waits no longer than it does anyway
const REDIRECTS = [301, 302, 303, 307, 308];
const EMPTY = [204, 205, 304];
// Lines by which a connection is managed. A browser leaves them out without a word, and programs written for one rely on it.
const NOT_ITS_OWN =
  "accept-encoding connection content-length expect host keep-alive te trailer transfer-encoding upgrade".split(" ");

/** Put it in the place of the engine's own, before any code of the skill is loaded. */
export function giveFetch(ask) {
  const { fetch } = {
    async fetch(input, init) {
      const given = taken(init);
      let request;
      try {
        request = new Asked(input, given.init);
      } catch (error) {
        throw short(error);
      }
      if (!/^https?:/.test(request.url)) return await onEngine(request);
      request.signal.throwIfAborted();
      return await Later.race([answered(ask, request, given.secrets), aborted(request.signal)]);
    },
  };
  define(globalThis, "fetch", { value: fetch, writable: true, configurable: true, enumerable: true });
}

// A secret is named in the place of a header's value, which no `Headers` could hold.
function taken(init) {
  const headers = init?.headers;
  if (typeof headers !== "object" || headers === null || headers instanceof Lines) return { init, secrets: [] };
  const pairs = isArray(headers) ? headers : entries(headers);
  const secrets = pairs.filter((pair) => typeof pair?.[1]?.secret === "string");
  if (secrets.length === 0) return { init, secrets };
  return { init: { ...init, headers: pairs.filter((pair) => !secrets.includes(pair)) }, secrets };
}

async function onEngine(request) {
  try {
    return await engine(request);
  } catch (error) {
    throw short(error);
  }
}

async function answered(ask, request, secrets) {
  let answer;
  try {
    answer = await ask("http", await asHostTakesIt(request, secrets));
  } catch (error) {
    throw failed(`fetch of ${shownOf(request)} failed: ${said(error)}`, calledName(error));
  }
  if (request.redirect === "error" && REDIRECTS.includes(answer.status) && answer.headers.location !== undefined) {
    throw failed(`fetch of ${shownOf(request)} failed: it redirects, and the request says \`redirect: "error"\``);
  }
  // Half an answer that looks like a whole one is worse than none.
  if (answer.truncated) {
    throw failed(`fetch of ${shownOf(request)} failed: the answer is too large; ask for less at a time`);
  }
  return response(answer, request);
}

async function asHostTakesIt(request, secrets) {
  const asked = { method: request.method, url: bare(request.url), timeout_ms: LONGEST };
  if (request.redirect !== "follow") asked.follow = false;
  const lines = [...request.headers].filter((pair) => !NOT_ITS_OWN.includes(pair[0]));
  asked.headers = Object.fromEntries([...lines, ...secrets]);
  const body = new Bytes(await request.arrayBuffer());
  if (body.length > 0) asked.body = { base64: body.toBase64() };
  return asked;
}

function response(answer, request) {
  const headers = new Lines();
  for (const [name, value] of entries(answer.headers)) {
    try {
      headers.append(name, value);
    } catch {
      // What a server sends need not be a header that anybody could ask for.
    }
  }
  const bytes = answer.encoding === "base64" ? Bytes.fromBase64(answer.body) : encoder.encode(answer.body);
  const body = EMPTY.includes(answer.status) || request.method === "HEAD" ? null : bytes;
  const made = new Answer(body, { status: answer.status, headers });
  return from(made, answer.url, answer.url !== bare(request.url));
}

// Where it came from cannot be said to a `Response` that is made by hand; a copy of it came from there too.
function from(made, url, redirected) {
  const copy = made.clone.bind(made);
  const value = (each) => ({ value: each, configurable: true });
  define(made, "url", value(url));
  define(made, "redirected", value(redirected));
  define(made, "clone", value(() => from(copy(), url, redirected)));
  return made;
}

function aborted(signal) {
  return new Later((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

// A query may hold what is nobody else's business, and an error is often logged.
function shownOf(request) {
  return request.url.split(/[?#]/, 1)[0].slice(0, 200);
}

function bare(url) {
  return url.split("#", 1)[0];
}

function failed(message, kind = "") {
  return short(kind === "" ? new Wrong(message) : new Wrong(message, { cause: named(kind, message) }));
}
