"use strict";
// The link's token stands behind the #, which no browser sends anywhere. It is taken out of the address at once.
const who = document.getElementById("who");
const form = document.getElementById("sign-in");
const provider = document.getElementById("provider");
const PAGE = "/approvals/"; // a link of an earlier kind named its request behind the #
const AGAIN_MS = 3_000;
const ID = /^apr_[0-9a-f]{8,64}$/;

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
  const told = answer.value ?? {};
  return [told.detail, told.remedy].filter(Boolean).join(". ") || "the server answers " + answer.status;
}

function wanted() {
  const given = new URLSearchParams(location.hash.slice(1));
  const approval = given.get("approval") ?? "";
  // What a link of another site would have asked in his name is not asked: he is led to the page, and fills it in himself.
  const here = document.body.dataset.there || location.pathname + location.search;
  const there = ID.test(approval) ? PAGE + approval : here;
  history.replaceState(null, "", there);
  return { token: given.get("token"), there };
}

// A page that is loaded again and again helps nobody.
function mayLoad(there) {
  try {
    const [last, at] = JSON.parse(sessionStorage.getItem("loaded") ?? "[]");
    sessionStorage.setItem("loaded", JSON.stringify([there, Date.now()]));
    return last !== there || Date.now() - at > AGAIN_MS;
  } catch {
    return true; // a browser that keeps nothing
  }
}

async function begin() {
  const { token, there } = wanted();
  let before = "";
  if (token) {
    const made = await ask("/api/v1/sign-in/link", "POST", { token });
    if (made.status === 401) before = "This link was used before, or is over: `metier sign-in` prints a new one. ";
    else if (!made.ok) before = "The link did not sign you in: " + problem(made) + ". ";
  }
  // Who came over a link of another site is signed in all the same; his browser tells us only when our own page asks.
  if ((await ask("/api/v1/me", "GET")).ok) {
    if (mayLoad(there)) location.replace(there);
    else who.textContent = "You are signed in, and this page does not hear of it: another program on this machine disturbs the cookies of this one. Use another name for it (localhost for 127.0.0.1), or close your browser and sign in again.";
    return;
  }
  who.textContent = before + "Nobody is signed in. Run `metier sign-in` and open the link that it prints, or sign in here.";
  form.hidden = false;
  const ways = await ask("/api/v1/sign-in", "GET");
  provider.hidden = !(ways.ok && ways.value.ways.includes("oidc"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    signIn(there).catch(unanswered);
  });
  provider.addEventListener("click", () => atProvider(there).catch(unanswered));
}

async function signIn(there) {
  const name = form.elements.namedItem("id").value.trim();
  const given = { id: name.includes(":") ? name : "human:" + name, password: form.elements.namedItem("password").value };
  form.elements.namedItem("password").value = "";
  const made = await ask("/api/v1/sign-in/password", "POST", given);
  if (made.ok) location.replace(there);
  else who.textContent = made.status === 401 ? "Name or password is wrong." : "Not signed in: " + problem(made) + ".";
}

async function atProvider(there) {
  const begun = await ask("/api/v1/sign-in/oidc/start", "POST", {});
  if (!begun.ok) {
    who.textContent = "Not signed in: " + problem(begun) + ".";
    return;
  }
  try {
    sessionStorage.setItem("there", there); // the way back leads to the first page; this tab remembers where he wanted to go
  } catch {
    // a browser that keeps nothing: he opens the link once more
  }
  location.assign(begun.value.url);
}

function unanswered() {
  who.textContent = "The server does not answer.";
}

begin().catch(unanswered);
addEventListener("hashchange", () => location.reload());
