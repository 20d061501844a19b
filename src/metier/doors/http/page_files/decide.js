"use strict";
// One request: shown as the text that the server made of it, never as markup, and decided as exactly what is shown.
const LOOK_MS = 800; // a click that was meant for another window, or for what stood here before, decides nothing
const ID = /^apr_[0-9a-f]{8,64}$/;
const request = document.getElementById("request");
const title = document.getElementById("request-title");
const shown = document.getElementById("shown");
const choices = document.getElementById("choices");
const word = document.getElementById("word");
const yes = document.getElementById("yes");
const no = document.getElementById("no");
const said = document.getElementById("said");
let onScreen = null; // what a button decides about
let pressed = false;
let since = 0; // when he could begin to look at it

async function ask(path, method, body) {
  const given = { method, credentials: "same-origin", redirect: "error", headers: {} };
  if (body !== undefined) {
    given.headers["content-type"] = "application/json";
    given.body = JSON.stringify(body);
  }
  const answer = await fetch(path, given);
  const kind = answer.headers.get("content-type") || "";
  return { ok: answer.ok, status: answer.status, value: kind.includes("json") ? await answer.json() : null };
}

function problem(answer) {
  return String(answer.value?.detail || "the server answered " + answer.status) + ".";
}

function clearRequest() {
  onScreen = null;
  pressed = false;
  request.hidden = choices.hidden = true;
  shown.textContent = said.textContent = word.value = "";
}

// `current` says whether this is still what the page is about.
async function showRequest(id, rights, current) {
  const found = await ask("/api/v1/approvals/" + id + "/shown", "GET");
  if (!current()) return;
  clearRequest();
  request.hidden = false;
  if (found.ok) {
    onScreen = found.value;
    shown.textContent = found.value.lines.join("\n");
    const open = found.value.state === "pending";
    choices.hidden = !(open && rights.includes("skills:approve"));
    if (open && choices.hidden) said.textContent = "You may look at it, and not decide it: that takes the right skills:approve.";
  } else if (found.status === 403) {
    said.textContent = "You may not see it: that takes the right skills:approve or audit:read.";
  } else {
    said.textContent = found.status === 404 ? "There is no such request." : problem(found);
  }
  since = performance.now();
  title.focus();
}

async function decide(how, body) {
  const about = onScreen;
  if (about === null || pressed || choices.hidden) return;
  const say = (text) => { if (about === onScreen) said.textContent = text; };
  if (performance.now() - since < LOOK_MS) {
    say("Read it first, then press again.");
    return;
  }
  pressed = true; // one decision, however often the button is pressed
  say("Deciding…");
  const path = "/api/v1/approvals/" + about.id + "/";
  try {
    const made = await ask(path + how, "POST", { fingerprint: about.fingerprint, ...body });
    if (about !== onScreen) return;
    if (!made.ok) {
      pressed = false;
      say("Not decided: " + problem(made));
      return;
    }
    title.focus(); // the button that was pressed goes
    choices.hidden = true;
    if (how === "deny") {
      say("Denied. It never runs.");
      return;
    }
    say("Approved, once. It runs…");
    say("Approved, once. " + ended(await ask(path + "take-up", "POST", {})));
  } catch {
    say("The server does not answer. Load this page again to see how it stands.");
  }
}

function ended(taken) {
  if (!taken.ok) return taken.value?.code === "taken_up" ? "Who asked was waiting for it, and runs it." : "It did not run: " + problem(taken);
  const see = " See metier audit search --call " + taken.value.call_id;
  if (taken.value.outcome === "completed") return "It ran, and ended well.";
  if (taken.value.outcome === "failed") return "It ran, and failed (" + taken.value.code + ")." + see;
  return "It did not run (" + (taken.value.code ?? taken.value.outcome) + ")." + see;
}

yes.addEventListener("click", () => decide("approve", { scope: "once" }));
no.addEventListener("click", () => decide("deny", { word: word.value }));
addEventListener("focus", () => { since = performance.now(); });
