"use strict";
// A request that has the focus is decided by one key. Keys mean nothing elsewhere, and nothing while somebody types.
(() => {
  const requests = () => [...document.querySelectorAll("[data-request][data-state=pending]")];

  function to(card) {
    if (!card) return;
    card.focus();
    card.scrollIntoView({ block: "nearest" });
  }

  // What is not on the screen is not decided: the first press brings it there.
  function decide(card, how) {
    const { top, bottom } = card.getBoundingClientRect();
    if (bottom > 80 && top < innerHeight - 80) {
      metier.decideOn(card, how);
    } else {
      card.scrollIntoView({ block: "nearest" });
      metier.read();
    }
  }

  function step(by) {
    const all = requests();
    const at = all.indexOf(document.activeElement?.closest("[data-request]"));
    to(all[Math.min(Math.max(at + by, 0), all.length - 1)]);
  }

  const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

  const onRequest = {
    a: (card) => decide(card, "approve"),
    d: (card) => decide(card, "deny"),
    w: (card) => card.querySelector("[data-word]").focus(),
    s: (card) => card.querySelector('a[href$="scope=session"]')?.click(), // only where it is offered
    l: (card) => card.querySelector('a[href$="scope=always"]')?.click(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const card = event.target.closest?.("[data-request]");
    if (event.target.matches?.("[data-word]")) {
      if (event.key === "Enter") metier.decideOn(card, "deny");
      if (event.key === "Escape") to(card);
      return;
    }
    if (typing(event.target)) return;
    if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
    else if (event.key === "/" && document.querySelector("[data-search]")) document.querySelector("[data-search]").focus();
    else if (card?.dataset.state === "pending" && event.target === card && onRequest[event.key]) onRequest[event.key](card);
    else return;
    event.preventDefault();
  });
  // Whatever has just come under the keys has not been read yet.
  document.addEventListener("focusin", (event) => {
    if (event.target.matches?.("[data-request]")) metier.read();
  });

  // The next one once this one is decided, and the first that comes; nothing is taken from who is doing something else.
  function first() {
    const free = [document.body, document.getElementById("told")];
    if (free.includes(document.activeElement)) requests()[0]?.focus({ preventScroll: true });
  }

  document.addEventListener("htmx:after:swap", first);
  first();
})();
