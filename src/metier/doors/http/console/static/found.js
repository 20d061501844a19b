"use strict";
// What the API answers, laid out to be read: rows with a name each, and tables. Whatever is in it is text.
(() => {
  const MOST_ROWS = 50;
  const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

  function made(tag, text, more) {
    return Object.assign(document.createElement(tag), { textContent: text, ...more });
  }

  function cellOf(name, value) {
    const cell = document.createElement("td");
    if (name === "call_id" && value) cell.append(made("a", "its story", { href: "/record/calls/" + encodeURIComponent(value) }));
    else if (name === "at" && value) cell.append(made("time", String(value).slice(0, 16).replace("T", " "), { dateTime: value, title: value }));
    else if (value === null || value === undefined) cell.textContent = "not known";
    else if (Array.isArray(value) && value.every((each) => typeof each === "string")) cell.textContent = value.join(", ");
    else cell.textContent = typeof value === "object" ? textOf(value) : String(value);
    return cell;
  }

  // `columns` says which are shown, and what each is called; without it all are.
  function tableOf(list, columns) {
    const names = columns ? Object.keys(columns) : [...new Set(list.flatMap((each) => Object.keys(each)))];
    const around = made("div", "", { className: "scroll", tabIndex: 0, role: "group", ariaLabel: "What came back" });
    const table = document.createElement("table");
    table.createTHead().insertRow().append(...names.map((name) => made("th", columns?.[name] ?? name.replaceAll("_", " "))));
    const body = table.createTBody();
    for (const each of list.slice(0, MOST_ROWS)) body.insertRow().append(...names.map((name) => cellOf(name, each[name])));
    around.append(table);
    if (list.length > MOST_ROWS) around.append(made("p", list.length - MOST_ROWS + " more are not shown.", { className: "meta" }));
    return around;
  }

  // What has something in it, one row each. `words` says which are shown, and what each is called, and nothing is said of what there is
  // none of; without it all are shown.
  function rows(result, words, columns) {
    const has = ([name, value]) => value !== "" && value !== null && !(Array.isArray(value) && value.length === 0) && (!words || (Object.hasOwn(words, name) && value !== 0));
    return Object.entries(result).filter(has).map(([name, value]) => {
      const row = document.createElement("div");
      const meaning = document.createElement("dd");
      if (Array.isArray(value) && value.every((each) => typeof each === "object" && each !== null)) meaning.append(tableOf(value, columns?.[name]));
      else if (typeof value === "object") {
        const inner = document.createElement("dl");
        inner.append(...rows(value, words, columns));
        meaning.append(inner);
      }
      else meaning.textContent = value === true ? "yes" : value === false ? "no" : String(value);
      row.append(made("dt", words?.[name] ?? name.replaceAll("_", " ")), meaning);
      return row;
    });
  }

  Object.assign(window.metier, { rows, textOf });
})();
