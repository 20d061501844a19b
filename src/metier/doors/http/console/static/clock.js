"use strict";
// How long ago something was, and how much time is left, stays right on a page that nobody touches. The words are those of the server
// (`ago` in looks.py), and so is the time: the clock of a phone may be another.
(() => {
  const UNITS = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
  const ahead = Date.now() / 1_000 - Number(document.body.dataset.now);
  const over = new Set(); // looked at again once, not every second

  function words(seconds) {
    const [unit, name] = UNITS.find(([each]) => Math.abs(seconds) >= each) ?? [0, ""];
    if (!unit) return "now";
    const long = Math.floor(Math.abs(seconds) / unit) + " " + name;
    return seconds > 0 ? long + " ago" : "in " + long;
  }

  const momentOf = (text) => (Number.isFinite(Number(text)) ? Number(text) : Date.parse(text) / 1_000);

  function tick() {
    const now = Date.now() / 1_000 - ahead;
    for (const each of document.querySelectorAll("#live time[data-ago]")) {
      const moment = momentOf(each.dateTime);
      if (!Number.isFinite(moment)) continue;
      const said = words(now - moment);
      if (each.textContent !== said) each.textContent = said;
      if ("ends" in each.dataset && now > moment && !over.has(each.dataset.ends)) {
        over.add(each.dataset.ends);
        metier.look();
      }
    }
  }

  setInterval(() => {
    if (!document.hidden) tick();
  }, 1_000);
  document.addEventListener("visibilitychange", tick);
})();
