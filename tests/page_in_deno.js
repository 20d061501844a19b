// As much of a browser as the small page needs: one tab, with cookies, a clock that is set by hand, and a server that is really asked.
// A command is a line of JSON, and so is what the page looks like after it.
const [origin, files] = Deno.args;
const read = (name) => Deno.readTextFileSync(files + "/" + name);
const html = read("page.html");
const scripts = [...html.matchAll(/<script src="\/([a-z.]+)" defer>/g)].map((found) => read(found[1])).join("\n");
const cookies = new Map();
const kept = new Map(); // sessionStorage
const asked = []; // every request, as it was sent
const went = [];
let clock = 0;
let under = 0; // requests under way
let tab = null;

class Element {
  constructor(tag, attributes = "") {
    this.tag = tag;
    this.hidden = /\shidden(\s|$)/.test(attributes);
    this.focusable = ["a", "button", "input"].includes(tag) || /tabindex/.test(attributes);
    this.textContent = this.value = "";
    this.children = [];
    this.on = {};
  }
  set innerHTML(_) { throw new Error("markup"); }
  addEventListener(name, does) { this.on[name] = does; }
  append(...more) { this.children.push(...more); }
  replaceChildren(...more) { this.children = more; }
  focus() { if (this.focusable) tab.focused = this; }
}

function opened(hash) {
  const by = new Map();
  for (const [, tag, attributes] of html.matchAll(/<([a-z0-9]+)((?:\s[^<>]*)?)>/g)) {
    const id = /\sid="([^"]+)"/.exec(attributes)?.[1];
    const name = /\sname="([^"]+)"/.exec(attributes)?.[1];
    if (id || name) by.set(id ?? "name:" + name, new Element(tag, attributes));
  }
  by.get("sign-in").elements = { namedItem: (name) => by.get("name:" + name) };
  const on = {};
  const made = { by, on, focused: null, location: { hash, pathname: "/", reload: () => opened(made.location.hash), assign: (url) => went.push(url) } };
  tab = made;
  const page = {
    document: { getElementById: (id) => by.get(id), createElement: (tag) => new Element(tag) },
    location: made.location,
    history: { replaceState: (_state, _title, url) => { made.location.hash = url.includes("#") ? url.slice(url.indexOf("#")) : ""; } },
    sessionStorage: { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value), removeItem: (name) => kept.delete(name) },
    performance: { now: () => clock },
    addEventListener: (name, does) => { on[name] = does; },
    fetch: sent,
  };
  new Function(...Object.keys(page), scripts)(...Object.values(page));
}

async function sent(path, given) {
  under += 1;
  try {
    const headers = { ...given.headers, "sec-fetch-site": "same-origin", cookie: jar() };
    if (given.method !== "GET") headers.origin = origin;
    asked.push({ path, method: given.method, body: given.body ?? "" });
    const answer = await fetch(origin + path, { method: given.method, headers, body: given.body, redirect: "error" });
    keep(answer);
    const text = await answer.text(); // so that nothing is under way when it is looked at
    return { ok: answer.ok, status: answer.status, headers: answer.headers, json: async () => JSON.parse(text) };
  } finally {
    under -= 1;
  }
}

function jar() {
  return [...cookies].map(([name, value]) => name + "=" + value).join("; ");
}

function keep(answer) {
  for (const line of answer.headers.getSetCookie()) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
    if (/Max-Age=0/.test(line)) cookies.delete(name);
    else cookies.set(name, value);
  }
}

// A page of another site sends this tab here. What has no fragment and is sent on gets none.
async function sentHere(path) {
  const headers = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", cookie: jar() };
  const answer = await fetch(origin + path, { headers, redirect: "manual" });
  keep(answer);
  await answer.body?.cancel();
  opened(new URL(answer.headers.get("location"), origin).hash);
}

async function settled() {
  for (let quiet = 0; quiet < 5; quiet = under ? 0 : quiet + 1) await new Promise((done) => setTimeout(done, 4));
}

const does = {
  open: ({ hash }) => opened(hash), // an address typed into a new page of this tab
  hash: ({ hash }) => { tab.location.hash = hash; tab.on.hashchange(); }, // a link to another place of the same page
  fill: ({ id, value }) => { tab.by.get(id).value = value; },
  press: ({ id, times }) => { for (let each = 0; each < times; each += 1) tab.by.get(id).on.click(); },
  submit: () => { tab.by.get("sign-in").on.submit({ preventDefault() {} }); },
  wait: ({ ms }) => { clock += ms; },
  back: ({ path }) => sentHere(path),
  come: () => tab.on.focus(), // from another window
};

function look() {
  const shown = {}, hidden = {};
  for (const [id, each] of tab.by) {
    shown[id] = each.textContent;
    hidden[id] = each.hidden;
  }
  const links = tab.by.get("waiting").children.map((item) => [item.children[0].href, item.children[0].textContent]);
  const focused = [...tab.by].find(([, each]) => each === tab.focused)?.[0] ?? "";
  return { shown, hidden, links, focused, hash: tab.location.hash, kept: Object.fromEntries(kept), asked, went };
}

const lines = Deno.stdin.readable.pipeThrough(new TextDecoderStream());
let rest = "";
for await (const piece of lines) {
  rest += piece;
  for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
    const command = JSON.parse(rest.slice(0, end));
    rest = rest.slice(end + 1);
    await does[command.do](command);
    await settled();
    console.log(JSON.stringify(look()));
  }
}
