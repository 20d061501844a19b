"use strict";
// The link's token stands behind the #, which no browser sends anywhere. It is taken out of the address at once. Which request is to
// be decided stands there too, and stays: it is no secret, and is still there after signing in.
const who = document.getElementById("who");
const waits = document.getElementById("waits");
const howMany = document.getElementById("waits-title");
const waiting = document.getElementById("waiting");
const out = document.getElementById("out");
const form = document.getElementById("sign-in");
const provider = document.getElementById("provider");
const MOST = 20; // requests in the list
let wanted = ""; // the request of the link
let turn = 0; // whoever comes back to find another number was overtaken

function fragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  const approval = given.get("approval") ?? "";
  const kept = fromProvider();
  if (ID.test(approval)) wanted = approval;
  else if (!token) wanted = kept;
  history.replaceState(null, "", location.pathname + (wanted ? "#approval=" + wanted : ""));
  return token;
}

// The way to a provider and back leaves no fragment. This tab remembers it meanwhile, and no other.
function fromProvider() {
  try {
    const kept = sessionStorage.getItem("approval") ?? "";
    sessionStorage.removeItem("approval");
    return ID.test(kept) ? kept : "";
  } catch {
    return "";
  }
}

async function begin() {
  const mine = ++turn;
  const current = () => mine === turn;
  const token = fragment();
  clearRequest();
  form.hidden = out.hidden = waits.hidden = true;
  let before = "";
  if (token) {
    const made = await ask("/api/v1/sign-in/link", "POST", { token });
    if (!current()) return;
    if (made.status === 401) before = "This link was used before, or is over: `metier sign-in` prints a new one. ";
    else if (!made.ok) before = "The link did not sign you in: " + problem(made) + " ";
  }
  const me = await ask("/api/v1/me", "GET");
  if (!current()) return;
  if (!me.ok) {
    who.textContent =
      before + "Nobody is signed in. Run `metier sign-in` and open the link that it prints, or sign in here" +
      (wanted ? "; then you see the request " + wanted + "." : ".");
    form.hidden = false;
    const ways = await ask("/api/v1/sign-in", "GET");
    provider.hidden = !(ways.ok && ways.value.ways.includes("oidc"));
    return;
  }
  who.textContent = before + "You are signed in as " + String(me.value.principal) + ".";
  out.hidden = false;
  if (wanted) await showRequest(wanted, me.value.rights, current);
  else await listWaiting(current);
}

async function listWaiting(current) {
  const asked = await ask("/api/v1/approvals?limit=" + MOST, "GET");
  if (!asked.ok || !current()) return;
  const open = asked.value.approvals.filter((each) => each.state === "pending" && ID.test(each.id));
  howMany.textContent = open.length ? "What waits for a decision" : "Nothing waits for a decision";
  waiting.replaceChildren(...open.map(inList));
  if (asked.value.approvals.length === MOST) howMany.textContent += ": the newest; all of them: metier approvals list";
  waits.hidden = false;
}

function inList(each) {
  const link = document.createElement("a");
  link.href = "#approval=" + each.id;
  link.textContent = each.principal + ": " + (each.shown?.tool ?? each.id);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

function start() {
  begin().catch(() => { who.textContent = "The server does not answer."; });
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = form.elements.namedItem("id").value.trim();
  const given = { id: name.includes(":") ? name : "human:" + name, password: form.elements.namedItem("password").value };
  form.elements.namedItem("password").value = "";
  const made = await ask("/api/v1/sign-in/password", "POST", given);
  if (made.ok) start();
  else who.textContent = made.status === 401 ? "Name or password is wrong." : "Not signed in: " + problem(made);
});
provider.addEventListener("click", async () => {
  const begun = await ask("/api/v1/sign-in/oidc/start", "POST", {});
  if (!begun.ok) {
    who.textContent = "Not signed in: " + problem(begun);
    return;
  }
  try {
    if (wanted) sessionStorage.setItem("approval", wanted);
  } catch {
    // a browser that keeps nothing: he opens the link once more
  }
  location.assign(begun.value.url);
});
out.addEventListener("click", async () => {
  await ask("/api/v1/sign-out", "POST", {});
  location.reload();
});
addEventListener("hashchange", start);
start();
