"use strict";
// Whether what stands there could be read before somebody pressed: nothing is decided by a press that was meant for another window, for
// another request, or for what stood there a moment before.
(() => {
  const LOOK_MS = 700;
  const NEAR = 4; // pixels
  let since = performance.now();
  const placed = new Map(); // since when each thing that can be pressed stands where it stands
  let tops = new Map();
  let swapping = -LOOK_MS; // since when the page is being put over the old one
  const seen = new Map(); // by fingerprint: which parts of a request were on the screen

  const read = () => { since = performance.now(); };

  // What a press would be about: another digest, or another request, is another thing, wherever it stands.
  function about(thing) {
    if (thing.dataset.request) return thing.dataset.request + " " + thing.dataset.fingerprint;
    const said = [...thing.querySelectorAll("input[type=hidden]")].map((each) => each.name + "=" + each.value);
    return [thing.dataset.post, ...said].join(" ");
  }

  const things = () => [...document.querySelectorAll("[data-request], form[data-post]")];
  const where = () => new Map(things().map((each) => [about(each), each.getBoundingClientRect().top]));

  document.addEventListener("htmx:before:swap", (event) => {
    if (event.defaultPrevented) return;
    tops = where();
    swapping = performance.now();
  });
  document.addEventListener("htmx:after:swap", () => {
    swapping = -LOOK_MS;
    const now = where();
    for (const [name, top] of now) {
      if (!tops.has(name) || Math.abs(tops.get(name) - top) > NEAR) placed.set(name, performance.now());
    }
    for (const name of placed.keys()) if (!now.has(name)) placed.delete(name);
    watch();
  });

  // A press that comes too early does not count, and neither does the next one that comes at once.
  function early(thing) {
    const name = about(thing);
    if (performance.now() - Math.max(since, swapping, placed.get(name) ?? 0) >= LOOK_MS) return false;
    placed.set(name, performance.now());
    return true;
  }

  // Of a request, what runs and what it may touch must have been on the screen; the first part that was not.
  const parts = (card) => [...card.querySelectorAll("[data-must-see]")];
  const unread = (card) => parts(card).find((each) => !seen.get(card.dataset.fingerprint)?.has(each.dataset.mustSee));

  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      const fingerprint = target.closest("[data-request]")?.dataset.fingerprint;
      if (!isIntersecting || !fingerprint) continue;
      if (!seen.has(fingerprint)) seen.set(fingerprint, new Set());
      seen.get(fingerprint).add(target.dataset.mustSee);
    }
  }, { threshold: 0.5 });

  function watch() {
    watcher.disconnect();
    for (const each of document.querySelectorAll("[data-request] [data-must-see]")) watcher.observe(each);
  }

  watch();
  for (const moment of ["focus", "pageshow"]) addEventListener(moment, read);
  document.addEventListener("visibilitychange", read);
  Object.assign(window.metier, { early, unread, read });
})();
