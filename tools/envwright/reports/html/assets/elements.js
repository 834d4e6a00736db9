// Elements are made here and nowhere else: text becomes a text node, never markup, whatever it holds.
"use strict";

/** Make an element: h("p.muted", {title: "x"}, "text", child, [children]). Nothing is left out but null and false. */
function h(what, attributes, ...children) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SIGNS = { pass: "✓", fail: "✗", inconclusive: "?", error: "!" };

/** A verdict as a tag that does not need its colour. */
function tag(verdict) {
  return h(`span.tag.${verdict}`, null, `${SIGNS[verdict] ? `${SIGNS[verdict]} ` : ""}${verdict}`);
}

/** The id of a rule, as a link to its page in the documentation. */
function ruleName(rule) {
  const pages = document.documentElement.dataset.rules, name = h("code", null, rule);
  return pages.startsWith("https://") && /^[A-Z]{3}\d{3}$/.test(rule) ? h("a", { href: `${pages}${rule}.html`, rel: "noreferrer" }, name) : name;
}

/** Quoted text, line by line. */
function quote(text, label) {
  return h("pre.quote", { dir: "auto", tabindex: "0", role: "group", "aria-label": label || "quoted text" }, text === "" ? "(empty)" : text);
}

/** A sentence whose backquoted parts are code. */
function prose(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((piece, place) => (place % 2 ? h("code", null, piece) : piece)) : text;
}

/** A diff with its lines marked by sign and colour. */
function diff(text, label) {
  const lines = text.replace(/\n$/, "").split("\n").map((line) => {
    const kind = line.startsWith("@@") || line.startsWith("---") || line.startsWith("+++") ? "hunk" : line.startsWith("+") ? "add" : line.startsWith("-") ? "cut" : "same";
    return h(`span.${kind}`, null, line || " ");
  });
  return h("pre.quote.diff", { tabindex: "0", role: "group", "aria-label": label || "difference" }, lines);
}

/** A table in a region that scrolls by itself; cells are text, numbers or elements, numbers stand right. */
function table(label, titles, rows, options) {
  const numeric = titles.map((_, column) => rows.some((row) => typeof row[column] === "number"));
  const right = (value, column) => (numeric[column] || value === null ? "right" : null);
  return h("div.scroll", { tabindex: "0", role: "group", "aria-label": label },
    h("table.data", null,
      h("thead", null, h("tr", null, titles.map((title, column) => h("th", { scope: "col", class: numeric[column] && "right" }, title)))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map((cell, column) =>
        column === 0 && !(options && options.plain)
          ? h("th", { scope: "row" }, cellOf(cell))
          : h("td", { class: right(cell, column) }, cellOf(cell))))))));
}

function cellOf(value) {
  if (value instanceof Node) return value;
  if (typeof value === "number") return number(value);
  return value === null || value === undefined ? "–" : String(value);
}

/** A number for people; what JSON has no word for comes as text and stays so. */
function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Math.abs(value) >= 1e15) return value.toExponential(2);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

function percent(value) {
  return `${Math.round(value * 100)} %`;
}

function seconds(value) {
  if (typeof value !== "number") return "?";
  return value < 99.95 ? `${value.toFixed(1)} s` : `${Math.floor(value / 60)} min ${String(Math.round(value % 60)).padStart(2, "0")} s`;
}

/** Labelled values; those without a value are left out. */
function pairs(entries) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return shown.length ? h("dl.pairs", null, shown.map(([label, value]) => [h("dt", null, label), h("dd", null, value instanceof Node ? value : h("span.said", { dir: "auto" }, String(value)))])) : null;
}

/** A section of a page; `id` is what the address ends with. */
function section(id, title, ...children) {
  const shown = children.flat(3).filter(Boolean);
  return shown.length ? h("section", { id: `section-${id}`, "aria-labelledby": `title-${id}`, "data-section": id }, h("h2", { id: `title-${id}` }, title), shown) : null;
}

/** What is worth opening only for some: `fill` makes its content, at the latest when it is opened. */
function later(summary, make, open) {
  const details = h("details.more", null, h("summary", null, summary));
  details.fill = () => { if (details.children.length === 1) details.append(make()); };
  details.addEventListener("toggle", () => { if (details.open) details.fill(); });
  if (open) { details.fill(); details.open = true; }
  return details;
}

/** A section that is closed at first; `about` is its content in a line. */
function part(id, title, about, make) {
  const details = later([h("h2", { id: `title-${id}` }, title), h("span.about", { dir: "auto" }, about)], () => h("div", null, make()));
  details.classList.add("part");
  details.id = `section-${id}`;
  return details;
}

const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
