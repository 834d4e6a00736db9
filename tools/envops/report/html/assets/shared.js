// What every page of ours does: the theme, and everything opened before it is printed.

const find = (id) => document.getElementById(id);

function theme() {
  const names = ["system", "light", "dark"], root = document.documentElement;
  const set = (name) => { root.dataset.theme = name; find("theme-name").textContent = name; };
  try { set(names.includes(localStorage.envopsTheme) ? localStorage.envopsTheme : "system"); } catch { set("system"); }
  find("theme").addEventListener("click", () => {
    set(names[(names.indexOf(root.dataset.theme) + 1) % names.length]);
    try { localStorage.envopsTheme = root.dataset.theme; } catch { /* a browser that remembers nothing from disk */ }
  });
}

function printing() {
  let opened = [];
  addEventListener("beforeprint", () => { opened = [...document.querySelectorAll("main details.more:not([open])")]; for (const one of opened) one.open = true; });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
}
