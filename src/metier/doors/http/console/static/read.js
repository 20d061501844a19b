"use strict";
// A yes needs that all of what runs, and of what it may touch, was on the screen: line by line, and not only where it begins. What is
// folded says so, and counts once it is unfolded.
(() => {
  const NEAR = 6; // pixels, less than a line
  const seen = new Map(); // by whose it is and what it says: how high it stands, and which parts of that were on the screen

  function known(piece, height) {
    const whose = piece.closest("[data-request]")?.dataset.fingerprint ?? "";
    const name = whose + "\0" + piece.textContent;
    const before = seen.get(name);
    if (before && Math.abs(before.height - height) <= NEAR) return before;
    const made = { height, parts: [] }; // laid out anew, its lines stand elsewhere
    seen.set(name, made);
    return made;
  }

  function add(parts, from, to) {
    const apart = parts.filter((each) => each.to < from || each.from > to);
    const touching = parts.filter((each) => !apart.includes(each));
    const joined = { from: Math.min(from, ...touching.map((each) => each.from)), to: Math.max(to, ...touching.map((each) => each.to)) };
    return [...apart, joined].sort((one, other) => one.from - other.from);
  }

  // In a fold that is closed a text has a height and a place, and nobody sees it there.
  const shown = (place) => [...place.querySelectorAll("[data-must-see]")].filter((each) => each.checkVisibility());

  function glance() {
    if (document.hidden) return;
    const bottom = innerHeight - document.getElementById("told").offsetHeight; // what is said lies over the foot of the page
    for (const piece of shown(document)) {
      const { top, height } = piece.getBoundingClientRect();
      const [from, to] = [Math.max(0, -top), Math.min(height, bottom - top)];
      if (to > from) {
        const before = known(piece, height);
        before.parts = add(before.parts, from, to);
      }
    }
  }

  // Where the first part begins that was not on the screen; null when there is none.
  function gap({ height, parts }) {
    const first = parts[0];
    if (!first || first.from > NEAR) return 0;
    return first.to < height - NEAR ? first.to : null;
  }

  // The first thing in there that is still to be read.
  function unread(place) {
    glance();
    for (const piece of shown(place)) {
      const at = gap(known(piece, piece.getBoundingClientRect().height));
      if (at !== null) return { piece, at };
    }
    return null;
  }

  // Brought to where it can be read, with a little of what stands before it.
  function bring({ piece, at }) {
    scrollTo({ top: scrollY + piece.getBoundingClientRect().top + at - innerHeight / 6, behavior: "instant" });
    glance();
    metier.read();
  }

  new MutationObserver(glance).observe(document.body, { subtree: true, childList: true, attributes: true });
  for (const moment of ["scroll", "resize", "focus", "pageshow"]) addEventListener(moment, glance, { passive: true });
  document.addEventListener("visibilitychange", glance);
  glance();
  Object.assign(window.metier, { unread, bring });
})();
