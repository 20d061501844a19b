"use strict";
// The link's token stands behind the #, which no browser sends anywhere. It is taken out of the address at once.
const who = document.getElementById("who");
const waits = document.getElementById("waits");
const out = document.getElementById("out");
const form = document.getElementById("sign-in");
const provider = document.getElementById("provider");

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

async function begin() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (location.hash) history.replaceState(null, "", location.pathname);
  if (token) {
    const made = await ask("/api/v1/sign-in/link", "POST", { token });
    if (!made.ok) {
      who.textContent = "This link was used before, or is over. `metier sign-in` prints a new one.";
      return;
    }
  }
  const me = await ask("/api/v1/me", "GET");
  if (!me.ok) {
    who.textContent = "Nobody is signed in. Open the link that `metier serve` printed, or sign in here.";
    form.hidden = false;
    const ways = await ask("/api/v1/sign-in", "GET");
    provider.hidden = !(ways.ok && ways.value.ways.includes("oidc"));
    return;
  }
  who.textContent = "You are signed in as " + String(me.value.principal ?? me.value.id ?? "somebody") + ".";
  out.hidden = false;
  const asked = await ask("/api/v1/approvals", "GET");
  if (asked.ok) {
    const open = asked.value.approvals.filter((each) => each.state === "pending").length;
    waits.textContent = open ? open + " wait for a decision: metier approvals list" : "Nothing waits for a decision.";
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = { id: form.elements.namedItem("id").value, password: form.elements.namedItem("password").value };
  form.elements.namedItem("password").value = "";
  const made = await ask("/api/v1/sign-in/password", "POST", given);
  if (made.ok) location.reload();
  else who.textContent = made.status === 429 ? "Too many tries. Wait a while." : "Name or password is wrong.";
});
provider.addEventListener("click", async () => {
  const begun = await ask("/api/v1/sign-in/oidc/start", "POST", {});
  if (begun.ok) location.assign(begun.value.url);
  else who.textContent = "The provider does not answer.";
});
out.addEventListener("click", async () => {
  await ask("/api/v1/sign-out", "POST", {});
  location.reload();
});
begin().catch(() => { who.textContent = "The server does not answer."; });
