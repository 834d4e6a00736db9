// A picture with a title, what it says, and the numbers behind it as a table.

const INK = "var(--ink)", MUTED = "var(--muted)", ACCENT = "var(--accent)", WARM = "var(--warm)", LINE = "var(--line)";

/** A figure. `draw(width)` gives the options of Plot; it is called again when the width changes. */
function picture({ title, says, draw, titles, rows, label, legend, picker, opened }) {
  const place = h("div.plot");
  const figure = h("figure", null,
    h("figcaption", null, h("h3", null, title), says && h("p", null, says)),
    picker || null,
    place,
    legend ? h("ul.legend", null, legend.map(([text, colour, sign]) => { const swatch = sign ? h("b", { "aria-hidden": "true" }, `${sign} `) : h("i"); swatch.style.setProperty("--swatch", colour); return h("li", null, swatch, text); })) : null);
  let drawn = 0;
  const redraw = (force) => {
    const width = Math.floor(place.clientWidth);
    if (!width || (!force && width === drawn)) return;
    drawn = width;
    const svg = Plot.plot({ width, ...base(width), ...draw(width) });
    for (const part of svg.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label"); // one picture, one name
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label || `${title}. The numbers are in the table below.`);
    if (opened) svg.addEventListener("click", () => svg.value && opened(svg.value));
    place.replaceChildren(svg);
  };
  new ResizeObserver(() => redraw(false)).observe(place);
  figure.redraw = () => redraw(true);
  const numbers = h("details", null, h("summary", null, "The numbers as a table"));
  numbers.addEventListener("toggle", () => {
    if (numbers.open) numbers.replaceChildren(numbers.firstElementChild, table(title, titles, typeof rows === "function" ? rows() : rows));
  });
  figure.numbers = numbers;
  figure.append(numbers);
  return figure;
}

function base(width) {
  return { style: { background: "transparent", color: INK, fontFamily: "inherit", fontSize: width < 420 ? "11px" : "12.5px" } };
}

/** Choose one of several; calls back with the index. */
function picker(label, names, chosen) {
  if (names.length < 2) return null;
  const buttons = names.map((name, index) => h("button.chip", { type: "button", "aria-pressed": index === 0 ? "true" : "false", onclick: () => {
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === index)));
    chosen(index);
  } }, name));
  return h("div.picker", { role: "group", "aria-label": label }, buttons);
}

/** The least and the most that is worth an axis: 0 to 1, and whatever lies beyond. */
function reach(values) {
  const finite = values.filter((value) => typeof value === "number" && Number.isFinite(value));
  return [Math.min(0, ...finite), Math.max(1, ...finite)];
}

function shortLabel(text, most) {
  const characters = Array.from(text);
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : text;
}
