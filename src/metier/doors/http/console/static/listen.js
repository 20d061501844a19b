"use strict";
// Listens for all tabs of one browser: a browser opens only a few connections to one server, and each tab would hold one.
const tabs = new Set();
const SOONEST_MS = 500;
const LATEST_MS = 10_000;
let source = null;
let wait = SOONEST_MS;
let state = "begins";

function tell(message) {
  for (const tab of tabs) tab.postMessage(message);
}

function listen() {
  source = new EventSource("/api/v1/events");
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
  for (const kind of ["approval.pending", "approval.decided", "call.began", "call.ended", "call.refused", "runtime.stopped", "runtime.resumed", "skills.changed", "reset"]) {
    source.addEventListener(kind, () => tell({ kind: kind.split(".")[0] }));
  }
}

function joined(tab) {
  tabs.add(tab);
  tab.onmessage = (event) => {
    if (event.data === "bye") tabs.delete(tab);
  };
  tab.postMessage({ state });
  if (source === null && tabs.size === 1) listen();
}

if ("onconnect" in self) self.onconnect = (event) => joined(event.ports[0]);
else joined(self); // a browser without shared workers: each tab listens for itself
