// What every page of ours does: lists that are narrowed, the theme, and everything opened before it is printed.

const find = (id) => document.getElementById(id);

function theme() {
  const names = ["system", "light", "dark"], root = document.documentElement;
  const set = (name) => { root.dataset.theme = name; find("theme-name").textContent = name; };
  try { set(names.includes(localStorage.envwrightTheme) ? localStorage.envwrightTheme : "system"); } catch { set("system"); }
  find("theme").addEventListener("click", () => {
    set(names[(names.indexOf(root.dataset.theme) + 1) % names.length]);
    try { localStorage.envwrightTheme = root.dataset.theme; } catch { /* a browser that remembers nothing from disk */ }
  });
}

function printing() {
  const opened = [];
  const openAll = () => {
    const closed = [...document.querySelectorAll("main details.more:not([open])")];
    for (const one of closed) { one.fill?.(); one.open = true; }
    opened.push(...closed);
    if (closed.length) openAll(); // those within
  };
  addEventListener("beforeprint", () => { openAll(); for (const one of document.querySelectorAll("main figure")) one.redraw(); });
  addEventListener("afterprint", () => { for (const one of opened.splice(0)) one.open = false; });
}

/** A list filtered by the searched words, the verdict's button and `also`, with a count of the remaining rows. */
function narrowing(items, also) {
  const controls = find("controls"), list = items[0].closest("table, ul");
  let verdict = "";
  const apply = () => {
    const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const item of items) {
      const fits = (!verdict || item.dataset.verdict === verdict) && words.every((word) => item.dataset.search.includes(word)) && also(item);
      item.hidden = !fits;
      count += fits;
    }
    find("shown").textContent = count === items.length ? "" : `${count} of ${items.length} shown`;
    find("nothing").hidden = count > 0;
    list.hidden = count === 0;
    list.dispatchEvent(new Event("narrowed"));
  };
  const pressed = (wanted) => {
    verdict = wanted;
    for (const chip of controls.querySelectorAll(".chip")) chip.setAttribute("aria-pressed", String(chip.dataset.verdict === verdict));
    apply();
  };
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("click", (event) => { const chip = event.target.closest(".chip"); if (chip) pressed(chip.dataset.verdict); });
  controls.addEventListener("input", apply);
  find("reset").addEventListener("click", () => {
    for (const one of controls.querySelectorAll("input, select:not(#order)")) one.value = "";
    pressed("");
    find("search").focus();
  });
  apply();
}
