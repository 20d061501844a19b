"use strict";
// Looks at the page again when something happened that it shows, and says so when nobody tells it any more.
(() => {
  const LEAST_MS = 250; // between two looks, however much happens
  const PATIENCE_MS = 1_500; // a connection that is back at once was not worth a word
  const BUSY_MS = 2_000; // a server that has too much to do is asked again so much later
  const AROUND = ["approval", "runtime", "policy", "call", "reset"]; // what may change what stands around every page
  const here = document.currentScript;
  const shown = document.body.dataset.told.split(" ");
  const line = document.getElementById("line");
  const who = document.getElementById("around").dataset.me;
  const trusted = window.trustedTypes
    ? trustedTypes.createPolicy("metier", { createScriptURL: (url) => (url === here.dataset.worker ? url : "") })
    : { createScriptURL: (url) => url };
  let lost = 0;
  let behind = false; // something happened that this page does not show yet

  // What somebody is filling in is not taken out from under him: the page waits until he sent it, or emptied it again. A field that a
  // new look leaves alone, because it or what it stands in is known by its id, holds nothing up.
  const left = (field) => field.hasAttribute("hx-morph-skip") && field.closest("[id]").id !== "live";

  function filling() {
    const fields = document.querySelectorAll("#live :is(input:not([type=hidden]), textarea, select)");
    return [...fields].some((field) => !left(field) && (
      field.options ? [...field.options].some((each) => each.selected !== each.defaultSelected && field.selectedIndex > 0)
        : field.value !== field.defaultValue || field.checked !== field.defaultChecked));
  }

  function lookUnlessFilling() {
    behind ||= filling();
    if (filling()) line.textContent = "Live, but this page waits: you are filling in a form";
    else look(); // which says that it is live again
  }

  document.addEventListener("input", () => {
    if (behind) lookUnlessFilling();
  });

  // At once, but not again before a while is over, however often it is wanted.
  function paced(does, least) {
    let last = -least;
    let planned = null;
    return () => {
      const soon = Math.max(0, last + least - performance.now());
      planned ??= setTimeout(() => {
        planned = null;
        last = performance.now();
        does();
      }, soon);
    };
  }

  const around = paced(() => document.body.dispatchEvent(new CustomEvent("metier:around")), LEAST_MS);
  const look = paced(() => {
    if (behind) line.textContent = "Live";
    behind = false;
    document.body.dispatchEvent(new CustomEvent("metier:look"));
  }, LEAST_MS);
  const lookAtTimes = paced(lookUnlessFilling, Number(document.body.dataset.pace)); // what costs more to show is not shown anew at every call

  function again() {
    around();
    lookUnlessFilling();
  }

  function told(message) {
    if (message.state === "there") {
      if (lost) again(); // what happened meanwhile
      clearTimeout(lost);
      lost = 0;
      line.textContent = "Live";
      line.className = "";
    } else if (message.state === "lost") {
      lost ||= setTimeout(() => {
        line.textContent = "Connection lost, trying again";
        line.className = "lost";
        fetch("/around", { redirect: "error" }).then((answer) => { // nobody is signed in any more: that is not shown as a line
          if (answer.status === 401) location.reload();
        }).catch(() => {});
      }, PATIENCE_MS);
    } else if (message.topics) {
      const { topics } = message;
      if (AROUND.some((each) => topics.includes(each))) around();
      if (topics.includes("reset") || shown.some((each) => topics.includes(each))) lookAtTimes();
    }
  }

  function connect() {
    const url = trusted.createScriptURL(here.dataset.worker);
    const line = window.SharedWorker ? new SharedWorker(url).port : new Worker(url);
    line.onmessage = (event) => told(event.data);
    line.postMessage({ seq: Number(document.body.dataset.seq), since: performance.timeOrigin });
    addEventListener("pagehide", () => line.postMessage("bye"));
  }

  // What stands outside of what is fetched again.
  document.addEventListener("htmx:after:swap", () => {
    const { waiting, me } = document.getElementById("around").dataset;
    if (me !== who) location.reload(); // somebody else signed in in another tab
    if (line.className && !lost) { // it could be looked at after all
      line.textContent = "Live";
      line.className = "";
    }
    document.getElementById("waiting-count").textContent = waiting === "0" ? "" : waiting;
    document.title = (waiting === "0" ? "" : "(" + waiting + ") ") + document.title.replace(/^\(\d+\) /, "");
  });

  // An answer that is no page of ours is not put into this one.
  document.addEventListener("htmx:before:swap", (event) => {
    const { response, text } = event.detail.ctx;
    const { status } = response;
    const ours = (response.headers.get("content-type") ?? "").startsWith("text/html") && text.includes('id="around"');
    if (status === 401) location.reload();
    else if (status === 429 || status === 503) setTimeout(again, BUSY_MS);
    if (ours && status !== 401 && status !== 429 && status < 500) return;
    event.preventDefault();
    line.textContent = "This page could not be looked at again (" + status + ")";
    line.className = "lost";
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // kept by the browser, and nobody told it anything meanwhile
  });
  // Who came by the way over a provider is led to where he wanted to go.
  function wantedBefore() {
    try {
      const there = sessionStorage.getItem("there") ?? "";
      sessionStorage.removeItem("there");
      return /^\/[a-z]/.test(there) ? there : "";
    } catch {
      return "";
    }
  }

  // A link that signs in is taken out of the address, and is used up, also where somebody is signed in already.
  async function link() {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (!token) return;
    history.replaceState(null, "", location.pathname + location.search);
    const headers = { "content-type": "application/json" };
    const made = await fetch("/api/v1/sign-in/link", { method: "POST", redirect: "error", headers, body: JSON.stringify({ token }) });
    if (made.ok) location.reload();
    else metier.say("This link was used before, or is over: you are still signed in as " + who + ".", "bad");
  }

  addEventListener("hashchange", () => link().catch(() => {}));
  addEventListener("load", () => link().catch(() => {}));
  const there = wantedBefore();
  if (there && there !== location.pathname + location.search) location.replace(there);
  connect();
  window.metier = { look: () => { around(); look(); }, lookUnlessFilling };
})();
