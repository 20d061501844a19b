"use strict";
// Everything that is done here is asked of the API: a form names the address, and its fields are the body.
(() => {
  const told = document.getElementById("told");
  const { textOf, rows } = metier;
  const TWICE_MS = 500; // a double click is one press
  const NUMBER = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/; // as JSON has them, so everybody reads the same

  // JSON that somebody typed is sent as he typed it: read and written again here, a number may be another one, and a name that stands
  // twice would stand once. Whether it holds is for the server to say.
  class Typed {
    constructor(text) {
      JSON.parse(text);
      this.text = text;
    }
  }

  function written(body) {
    const typed = [];
    const mark = "typed-" + Math.random().toString(36).slice(2) + "-";
    const text = JSON.stringify(body, (_, value) => (value instanceof Typed ? mark + (typed.push(value) - 1) : value));
    return text.replace(new RegExp('"' + mark + '(\\d+)"', "g"), (_, number) => typed[number].text);
  }

  async function ask(path, method, body) {
    const given = { method, credentials: "same-origin", redirect: "error", headers: {} };
    if (method !== "GET") {
      given.headers["content-type"] = "application/json";
      given.body = written(body ?? {});
    }
    const answer = await fetch(path, given);
    const kind = answer.headers.get("content-type") || "";
    return { ok: answer.ok, status: answer.status, value: kind.includes("json") ? await answer.json() : null };
  }

  // What a reader cannot see, or what moves other characters, is spelled out, as the server does it in what it sends.
  const PICTURE =
    "\\u00a9\\u00ae\\u203c\\u2049\\u2122\\u2139\\u2190-\\u27ff\\u2900-\\u2bff\\u3030\\u303d\\u3297\\u3299\\u{1f000}-\\u{1faff}";
  const UNSEEN = new RegExp(
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f" +
      "\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff0-\\ufffc\\ud800-\\udfff\\u{13430}-\\u{1345f}\\u{1bca0}-\\u{1bca3}" +
      "\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]" +
      "|(?<![" + PICTURE + "0-9#*\\ufffd])[\\ufe0e\\ufe0f]|(?<=[0-9#*])[\\ufe0e\\ufe0f](?!\\u20e3)", // one styles an emoji; others carry hidden bytes
    "gu",
  );
  const PILED = /(?<=[\p{Mn}\p{Me}]{4})[\p{Mn}\p{Me}]+/gu; // what is piled up paints over other lines
  const spelled = (text) => [...text].map((each) => "\\u{" + each.codePointAt(0).toString(16) + "}").join("");
  const seen = (text) => text.replaceAll("\r\n", "\n").replace(UNSEEN, spelled).replace(PILED, spelled);

  function spellOut(place) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) walker.currentNode.data = seen(walker.currentNode.data);
  }

  function say(text, tone = "") {
    told.replaceChildren(document.createTextNode(seen(text)));
    told.className = tone;
  }

  function sayWithLink(text, path, name, tone = "") {
    const link = document.createElement("a");
    link.href = path;
    link.textContent = name;
    told.replaceChildren(document.createTextNode(seen(text) + " "), link);
    told.className = tone;
  }

  function problem(answer) {
    const value = answer.value ?? {};
    return [value.detail, value.remedy].filter(Boolean).join(". ") || "the server answers " + answer.status;
  }

  const resultOf = (value) => (value?.outcome === "completed" ? value.value : value);

  // What it says when it went well; `{name}` is what came back under that name.
  const done = (words, result) => words.replace(/\{(\w+)\}/g, (_, name) => Number(result?.[name] ?? 0).toLocaleString("en"));

  // The first thing that is wrong with what was sent: where, what, and what to do about it.
  function wrongIn(problems) {
    const first = problems?.[0];
    if (!first) return "";
    const more = problems.length > 1 ? " (" + (problems.length - 1) + " more stand below.)" : "";
    return (first.line ? "line " + first.line + ": " : "") + [first.message, first.remedy].filter(Boolean).join(". ") + "." + more;
  }

  // What an outcome means, in a sentence; null when it went well.
  function amiss(answer) {
    if (!answer.ok) return problem(answer);
    const value = answer.value ?? {};
    if (value.outcome === "refused") return "Refused: " + [...(value.reasons ?? []), value.remedy].filter(Boolean).join(". ");
    if (value.outcome === "failed") return "Not done: " + (value.value?.message ?? value.message ?? value.code);
    const found = resultOf(value);
    if (found?.ok === false) return "Not well: " + (found.problem || wrongIn(found.problems) || "what was found stands below");
    return null;
  }

  function valueOf(field) {
    const text = field.value;
    if ("empty" in field.dataset && text === "") return null;
    switch (field.dataset.as) {
      case "boolean": return field.type === "checkbox" ? field.checked : text === "true";
      case "integer":
      case "number":
        if (!NUMBER.test(text.trim())) throw new Error("“" + text + "” is no number: write digits, as 12, -3 or 0.5");
        return new Typed(text.trim());
      case "json": return new Typed(text);
      case "lines": return text.split("\n").map((each) => each.trim()).filter(Boolean);
      default: return text;
    }
  }

  function isAsItWas(field) {
    if (field.options) return [...field.options].every((each) => each.selected === each.defaultSelected);
    return field.value === field.defaultValue && field.checked === field.defaultChecked;
  }

  // A field without a name is not sent; one that may be left out and is empty is not, either; nor is one under `data-changed` that is as
  // it was; one under `data-empty` is sent as null when it was emptied. `data-in` is the place of a field that lies deeper: a JSON list of
  // names. Names come from skills, so no name may mean anything to JavaScript.
  function bodyOf(form) {
    const body = Object.create(null);
    for (const field of form.elements) {
      if (!field.name && !field.dataset.in) continue;
      if (field.type === "radio" && !field.checked) continue;
      if ("optional" in field.dataset && field.value === "" && field.type !== "checkbox") continue;
      if ("changed" in field.dataset && isAsItWas(field)) continue;
      const path = field.dataset.in ? JSON.parse(field.dataset.in) : [field.name];
      let place = body;
      for (const name of path.slice(0, -1)) place = place[name] ??= Object.create(null);
      if (field.dataset.as === "each") { // one of several that make a list
        place[path.at(-1)] ??= [];
        if (field.checked) place[path.at(-1)].push(field.value);
        continue;
      }
      try {
        place[path.at(-1)] = valueOf(field);
      } catch (error) {
        field.focus();
        throw new Error((field.labels?.[0]?.textContent.trim() ?? path.at(-1)) + ": " + error.message);
      }
    }
    if (form.querySelector("[data-changed]") && Object.keys(body).length === 0) throw new Error("Nothing was changed.");
    return body;
  }

  function tooEarly(...pressed) {
    if (!metier.early(...pressed)) return false;
    say("Read it first, as it stands now; then press again.");
    return true;
  }

  async function submitted(form, button) {
    const armed = button.dataset.armed !== undefined; // its longer words moved it, and he knows what he pressed before
    if (!armed && !("atOnce" in form.dataset) && tooEarly(button)) return;
    if ("twice" in form.dataset && !armed) {
      button.dataset.armed = performance.now();
      const words = button.textContent;
      button.textContent = form.dataset.twice;
      setTimeout(() => { button.textContent = words; delete button.dataset.armed; }, 4_000);
      return;
    }
    if (performance.now() - Number(button.dataset.armed ?? -TWICE_MS) < TWICE_MS) return;
    let body;
    try {
      body = bodyOf(form);
    } catch (error) {
      say(error.message, "bad");
      return;
    }
    pressed = true;
    const meant = { dataset: { ...form.dataset } }; // by the time it is answered the page may show something else in its place
    button.disabled = true;
    say("Asked…");
    try {
      const answer = await ask(meant.dataset.post, meant.dataset.method ?? "POST", body);
      const wrong = amiss(answer);
      if (wrong !== null) {
        say(wrong, "bad");
        if (resultOf(answer.value)?.ok === false) show(meant, answer.value);
        if ("outcome" in meant.dataset && answer.value?.call_id) story(meant, answer.value, wrong, "bad");
        metier.lookUnlessFilling(); // what he typed is his, to be mended and sent again
        return;
      } else if (answer.status === 202) {
        sayWithLink("It waits for somebody's word.", "/approvals/" + answer.value.approval_id, "Look at it");
      } else if (meant.dataset.go) {
        location.assign(meant.dataset.go);
        return;
      } else {
        say(done(meant.dataset.done ?? "Done.", resultOf(answer.value)), "good");
        if (meant.dataset.clear) put(document.getElementById(meant.dataset.clear), false);
        if ("outcome" in meant.dataset) story(meant, answer.value, meant.dataset.done, "good");
        else show(meant, answer.value);
        if (meant.dataset.fill) fill(meant, answer.value?.value ?? {});
      }
      metier.look();
    } catch {
      say("The server does not answer. Load this page again to see how it stands.", "bad");
    } finally {
      button.disabled = false;
    }
  }

  // Under `data-outcome` a call was made: what came of it is shown, and where its story stands.
  function story(form, outcome, words, tone) {
    const made = (outcome.artifacts ?? []).map((each) => "\n" + each.path + " (" + each.type + ", " + each.size + " bytes)");
    const ended = outcome.outcome === "completed" ? textOf(outcome.value ?? null) : textOf(outcome);
    const place = document.getElementById(form.dataset.show);
    place.textContent = seen(ended + (made.length ? "\n\nFiles it left:" + made.join("") : ""));
    place.hidden = false;
    sayWithLink(words, "/record/calls/" + outcome.call_id, "The whole story", tone);
  }

  function toolCard(tool) {
    const card = document.createElement("section");
    const add = (tag, text, more) => card.append(Object.assign(document.createElement(tag), { textContent: seen(text), ...more }));
    add("h3", tool.name + ": " + tool.effect + ", " + tool.risk + " risk");
    add("p", tool.description);
    add("p", "It may " + tool.may, { className: "meta" });
    add("pre", textOf(tool.parameters), { className: "exact", tabIndex: 0, role: "group", ariaLabel: "What it takes, as a schema" });
    return card;
  }

  // Under `data-fill` a server was asked for its tools, to be looked at: they are shown, and the form that lets in exactly what it told
  // gets what that takes.
  function fill(form, result) {
    const next = document.getElementById(form.dataset.fill);
    document.getElementById(form.dataset.fill + "-tools").replaceChildren(...(result.tools ?? []).map(toolCard));
    next.hidden = result.step !== "let_in";
    if (next.hidden) say(result.problem || "It tells what was let in already: nothing is left to do.", result.problem ? "bad" : "good");
    else for (const field of next.elements) if (field.type === "hidden") field.value = result[field.name] ?? "";
  }

  // Where a form has a place for it, what came back is shown there, as text; under `data-save` it can be kept as a file.
  function show(form, value) {
    const place = form.dataset.show && document.getElementById(form.dataset.show);
    const whole = resultOf(value);
    const result = form.dataset.part ? whole[form.dataset.part] : whole;
    if (place) {
      const named = (what) => (what ? JSON.parse(what) : undefined);
      const said = result.problems?.length ? { problems: result.problems } : result; // beside what is wrong nothing else was found
      if (place.tagName === "DL") place.replaceChildren(...rows(said, named(place.dataset.words), named(place.dataset.columns)));
      else place.textContent = textOf(result);
      spellOut(place);
      put(place, true);
    }
    if (form.dataset.save) {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([textOf(result)]));
      link.download = form.dataset.save;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    }
  }

  // What is shown once can be copied, where the browser lets a page do that.
  function put(place, shown) {
    place.hidden = !shown;
    const copy = document.querySelector(`[data-copy="${place.id}"]`);
    if (copy) copy.hidden = !shown || !navigator.clipboard;
    if (!shown) place.replaceChildren();
  }

  async function copied(button) {
    const words = button.textContent;
    try {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Your browser does not let me; mark it and copy it by hand";
    }
    setTimeout(() => { button.textContent = words; }, 2_000);
  }

  function ended(taken) {
    const value = taken.value ?? {};
    if (!taken.ok) return value.code === "taken_up" ? "Who asked was waiting for it, and runs it." : "It did not run: " + problem(taken) + ".";
    if (value.outcome === "completed") return "It ran, and ended well.";
    if (value.outcome === "failed") return "It ran, and failed (" + value.code + ").";
    return "It did not run (" + (value.code ?? value.outcome) + ").";
  }

  const deciding = new Set();

  // One decision about exactly what stands there: `body` has its fingerprint, and says which. `of` is the call that waits for it.
  async function decide({ id, of }, how, body) {
    if (deciding.has(id)) return;
    deciding.add(id);
    const path = "/api/v1/approvals/" + id + "/";
    try {
      if (how !== "take-up") {
        say("Deciding…");
        const made = await ask(path + how, "POST", body);
        if (!made.ok) {
          say("Not decided: " + problem(made) + ".", "bad");
          return;
        }
        metier.look();
        if (how === "deny") {
          say("Denied. It never runs.", "bad");
          return;
        }
      }
      const yes = (body.scope ?? "once") === "once" ? "Approved. " : "Approved, and the grant was given. ";
      say(yes + "It runs…", "good");
      const taken = await ask(path + "take-up", "POST", {});
      const call = taken.value?.call_id ?? of;
      if (call) sayWithLink(yes + ended(taken), "/record/calls/" + call, "The whole story");
      else say(yes + ended(taken));
    } catch {
      say("The server does not answer. Load this page again to see how it stands.", "bad");
    } finally {
      deciding.delete(id);
      metier.look();
    }
  }

  // Whether something of it is still to be read; then it is brought onto the screen, and the press was for that.
  function unread(...places) {
    const found = places.map(metier.unread).find(Boolean);
    if (!found) return false;
    metier.bring(found);
    say("There was more to read, and here it is. Then press again.");
    return true;
  }

  function decideOn(card, how, button) {
    if (tooEarly(...[card, button].filter(Boolean))) return undefined;
    if (how === "approve" && unread(card)) return undefined;
    const more = how === "approve" ? { scope: "once" } : how === "deny" ? { word: card.querySelector("[data-word]")?.value ?? "" } : {};
    return decide({ id: card.dataset.request, of: card.dataset.call }, how, { fingerprint: card.dataset.fingerprint, ...more });
  }

  // Where the button that was pressed is gone, the keyboard goes on at what is said about it, and not at the page's beginning.
  let pressed = false;
  document.addEventListener("htmx:after:swap", () => {
    const waits = document.querySelector("[data-request][data-state=pending]"); // the keys are for that
    if (pressed && document.activeElement === document.body && !waits) told.focus({ preventScroll: true });
    pressed = false;
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.dataset.post) return;
    event.preventDefault();
    submitted(event.target, event.submitter ?? event.target.querySelector("button"));
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.copy) copied(button);
    if (button?.dataset.decide) decideOn(button.closest("[data-request]"), button.dataset.decide, button);
    if (button?.dataset.grant) {
      // What is sent is what the server wrote beside the words that were read; what was typed since then is not in them.
      const grant = button.closest("section");
      const asked = grant.querySelector("form");
      const card = document.querySelector(`[data-request="${button.dataset.grant}"]`);
      if (tooEarly(button, card) || unread(grant, card)) return;
      if ([...asked.querySelectorAll("[name]")].every(isAsItWas)) decide({ id: button.dataset.grant, of: button.dataset.call }, "approve", JSON.parse(button.dataset.yes));
      else say("You changed what is asked for: press “Show the grant again”, and read it, first.", "bad");
    }
  });
  document.getElementById("sign-out").addEventListener("click", async () => {
    await ask("/api/v1/sign-out", "POST").catch(() => {});
    location.assign("/");
  });
  Object.assign(window.metier, { decideOn, say });
})();
