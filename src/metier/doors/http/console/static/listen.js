"use strict";
// Listens for all tabs of one browser: a browser opens only a few connections to one server, and each tab would hold one.
const tabs = new Set();
const SOONEST_MS = 500;
const LATEST_MS = 10_000;
let source = null;
let wait = SOONEST_MS;
let state = "begins";
let last = 0; // number of the last record that was told
const REMEMBERED = 200;
const recent = []; // what was told lately, for a page that comes meanwhile

const KINDS = [
  "approval.pending", "approval.decided", "call.began", "call.ended", "call.refused", "call.cancelled", "runtime.stopped", "runtime.resumed",
  "skills.changed", "people.changed", "policy.changed", "host.changed", "record.changed", "event", "reset",
];

// What a change is about, as pages say what they show: the first word of its kind; of an operation of ours that was done, or of an
// event of the host, also the first word of its name, which is its module. What skills emit says nothing about pages.
function topicsOf({ kind, tool, skill, state }) {
  const topics = [kind.split(".")[0]];
  if (kind === "call.ended" && !skill && tool?.includes(".")) topics.push(tool.split(".")[0]);
  if (kind === "event" && !skill) topics.push(state.split(".")[0]);
  return topics;
}

function tell(message) {
  for (const tab of tabs) tab.postMessage(message);
}

function heard(change) {
  if (change.seq) last = change.seq;
  if (change.look) return;
  const topics = topicsOf(change);
  recent.push({ seq: change.seq, at: Date.now(), topics });
  if (recent.length > REMEMBERED) recent.shift();
  tell({ topics });
}

function listen() {
  source = new EventSource("/api/v1/events?after=" + last);
  source.onopen = () => {
    wait = SOONEST_MS;
    state = "there";
    tell({ state });
  };
  source.onerror = () => {
    state = "lost";
    tell({ state });
    if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
    source = null;
    setTimeout(listen, wait);
    wait = Math.min(wait * 2, LATEST_MS);
  };
  for (const kind of KINDS) source.addEventListener(kind, (event) => heard(JSON.parse(event.data)));
}

// A page says up to which record it shows things, and when it began to come: what happened after that and before it could listen is told
// to it now.
function joined(tab, { seq, since }) {
  tabs.add(tab);
  tab.postMessage({ state });
  if (source === null && tabs.size === 1) {
    last = seq;
    listen();
  } else {
    for (const each of recent) if (each.seq ? each.seq > seq : each.at > since) tab.postMessage({ topics: each.topics });
  }
}

function met(tab) {
  tab.onmessage = ({ data }) => {
    if (data === "bye") tabs.delete(tab);
    else joined(tab, data);
  };
}

if ("onconnect" in self) self.onconnect = (event) => met(event.ports[0]);
else met(self); // a browser without shared workers: each tab listens for itself
