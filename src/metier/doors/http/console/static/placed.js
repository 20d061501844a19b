"use strict";
// Whether what somebody presses stood there long enough to be read: nothing is decided by a press that was meant for another window, for
// another request, or for what stood in this place a moment before, whoever moved it.
(() => {
  const LOOK_MS = 700;
  const NEAR = 4; // pixels
  let since = performance.now();
  const stands = new Map(); // by what a press is about: where its button stands, and since when
  const names = new WeakMap(); // of each of these, what it was called when it was last measured

  const read = () => { since = performance.now(); };

  // What a press would be about: another digest, another request or another grant is another thing, wherever it stands.
  function about(thing) {
    if (thing.dataset.request) return thing.dataset.request + " " + thing.dataset.fingerprint;
    if (thing.dataset.grant) return thing.dataset.grant + " " + thing.dataset.yes;
    const said = [...thing.querySelectorAll("input[type=hidden]")].map((each) => (each.name || each.dataset.in) + "=" + each.value);
    return [thing.dataset.method ?? "POST", thing.dataset.post, ...said].join(" ");
  }

  // Whatever decides something by being pressed, with what that is. A request is decided by a key wherever it stands, so it counts itself.
  function* pressed() {
    for (const thing of document.querySelectorAll("[data-request], form[data-post], [data-grant]")) {
      const name = about(thing);
      if (!thing.matches("form")) yield [name, thing];
      for (const button of thing.querySelectorAll(thing.matches("form") ? "button" : "[data-decide]")) yield [name, button];
    }
  }

  const far = (one, other) => Math.abs(one - other) > NEAR;

  // Who scrolls moves nothing: on the page it all stands where it stood. A browser that scrolls by itself to make up for what came above
  // moves nothing on the screen. What did both, or went sideways, was moved.
  function measure() {
    const found = new Set();
    const now = performance.now();
    for (const [name, element] of pressed()) {
      const { left, top, width } = element.getBoundingClientRect();
      if (!width) continue; // hidden
      let whole = name + " " + (element.dataset.decide ?? "");
      while (found.has(whole)) whole += "+"; // several buttons, or forms, that do the same
      found.add(whole);
      names.set(element, whole);
      const before = stands.get(whole);
      const page = top + scrollY;
      const moved = !before || far(left, before.left) || (far(top, before.top) && far(page, before.page));
      stands.set(whole, { left, top, page, since: moved ? now : before.since });
    }
    for (const name of stands.keys()) if (!found.has(name)) stands.delete(name);
  }

  // A press that comes too early does not count, and neither does the next one that comes at once.
  function early(...pressed) {
    measure();
    const placed = pressed.map((each) => stands.get(names.get(each))).filter(Boolean);
    const now = performance.now();
    if (now - Math.max(since, ...placed.map((each) => each.since)) >= LOOK_MS) return false;
    for (const each of placed) each.since = now;
    return true;
  }

  new MutationObserver(measure).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  addEventListener("scroll", measure, { passive: true });
  for (const moment of ["focus", "pageshow", "resize"]) addEventListener(moment, read);
  document.addEventListener("visibilitychange", read);
  measure();
  Object.assign(window.metier, { early, read });
})();
