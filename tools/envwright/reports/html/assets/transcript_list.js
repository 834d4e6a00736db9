// Many conversations: a list that holds only the lines in view, and the chosen conversation beside it.

const ROW_REM = 4.75, BEYOND = 6, TYPED_MS = 150;
const KEYS = [["j, ↓", "next rollout (↓ in the list)"], ["k, ↑", "previous rollout (↑ in the list)"], ["Enter", "from the list into the conversation"], ["n, p", "next and previous turn"], ["t", "open or fold all thinking"], ["/", "search"], ["Escape", "leave the search or the conversation for the list"]];

/** The browser of a bundle. `address` makes the link of a rollout; the element's `open(id)` shows one. */
function transcriptBrowser(bundle, address) {
  const state = { shown: [], at: -1, words: [], searching: 0 };
  const lists = [...new Set(bundle.rows.flatMap((row) => row.lists.map(([list]) => list)))];
  const search = h("input", { type: "search", placeholder: "Search the conversations", autocomplete: "off", spellcheck: "false" });
  const only = h("select", null, h("option", { value: "" }, "all"), lists.map((list) => h("option", { value: `list ${list}` }, list)), h("option", { value: "error" }, "without a reward"), kindsOf(bundle.rows).map((kind) => h("option", { value: `kind ${kind}` }, kind)), speakersOf(bundle.rows).map((name) => h("option", { value: `speaker ${name}` }, name)));
  const order = h("select", null, [["", "as listed"], ["-reward", "highest reward"], ["reward", "lowest reward"], ["-characters", "longest"], ["-turns", "most turns"], ["-seconds", "slowest"]].map(([value, text]) => h("option", { value }, text)));
  const status = h("p.muted", { role: "status", "aria-live": "polite" });
  const spacer = h("div", { role: "presentation" });
  const list = h("div.rollouts", { role: "listbox", tabindex: "0", "aria-label": "Rollouts" }, spacer);
  const pane = h("section.pane", { tabindex: "-1", "aria-label": "Conversation" }, h("p.muted", null, "Choose a rollout."));
  const form = h("form.controls", { role: "search", "aria-label": "Rollouts" }, h("label.search", null, h("span.unseen", null, "Search the conversations"), search), h("label", null, "Show ", only), h("label", null, "Order ", order));
  const keys = later("Keys", () => table("Keys", ["key", "action"], KEYS));
  const browser = h("div.transcripts", null, h("div.side", null, form, status, list, keys), pane);

  const rowHeight = () => ROW_REM * parseFloat(getComputedStyle(document.documentElement).fontSize);
  const draw = () => {
    const height = rowHeight(), first = Math.max(0, Math.floor(list.scrollTop / height) - BEYOND);
    const last = Math.min(state.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / height) + BEYOND);
    const lines = [];
    for (let place = first; place < last; place++) lines.push(optionOf(state.shown[place], place, state, height));
    spacer.style.height = `${state.shown.length * height}px`;
    spacer.replaceChildren(...lines);
    const active = state.at >= first && state.at < last ? `line-${state.shown[state.at].id}` : null;
    if (active) list.setAttribute("aria-activedescendant", active); else list.removeAttribute("aria-activedescendant");
  };
  const select = async (place) => {
    if (place < 0 || place >= state.shown.length) return;
    const row = state.shown[state.at = place], height = rowHeight();
    if (place * height < list.scrollTop) list.scrollTop = place * height;
    else if ((place + 1) * height > list.scrollTop + list.clientHeight) list.scrollTop = (place + 1) * height - list.clientHeight;
    draw();
    if (location.hash !== address(row.id)) location.replace(address(row.id));
    await read(row);
  };
  const read = async (row) => {
    try {
      const one = await bundle.conversation(row);
      if (state.shown[state.at] !== row) return; // another one was chosen meanwhile
      pane.replaceChildren(transcriptView(one, row, address(row.id), state.words));
      pane.scrollTop = 0;
    } catch (error) { pane.replaceChildren(transcriptsMissing(error)); }
  };
  const show = (rows) => {
    const held = state.shown[state.at];
    state.shown = sorted(rows, order.value);
    state.at = held ? state.shown.indexOf(held) : -1;
    draw();
  };
  const apply = async () => {
    const turn = ++state.searching, from = bundle.rows.filter((row) => isOf(row, only.value));
    state.words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = new Set(from.filter((row) => hasWords(JSON.stringify([row.speaker, `task ${row.task}`, row.error, row.words, row.lists]), state.words)));
    const tell = (rest) => { status.textContent = `${number(found.size)} of ${number(bundle.rows.length)} rollouts${rest}`; };
    show(from.filter((row) => found.has(row)));
    tell("");
    if (state.words.length) {
      const wanted = new Set(from.filter((row) => !found.has(row)).map((row) => row.place[0]));
      let done = 0;
      for (const number of wanted) {
        const conversations = await bundle.part(number).catch(() => []);
        if (turn !== state.searching) return;
        for (const row of from) if (row.place[0] === number && !found.has(row) && hasWords(spokenText(conversations[row.place[1]]), state.words)) found.add(row);
        done += 1;
        tell(done < wanted.size ? `; ${done} of ${wanted.size} parts searched` : "");
        if (done % 8 === 0) show(from.filter((row) => found.has(row)));
      }
      show(from.filter((row) => found.has(row)));
      tell("");
    }
    if (state.at >= 0) await read(state.shown[state.at]); // marks the words
  };
  let typed = 0;
  search.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(apply, TYPED_MS); });
  only.addEventListener("change", apply);
  order.addEventListener("change", () => show(state.shown));
  form.addEventListener("submit", (event) => event.preventDefault());
  list.addEventListener("scroll", () => requestAnimationFrame(draw));
  list.addEventListener("click", (event) => { const line = event.target.closest("[role=option]"); if (line) select(Number(line.dataset.place)); });
  const resized = new ResizeObserver(draw);
  resized.observe(list);
  const pressed = (event) => {
    if (!browser.isConnected) { document.removeEventListener("keydown", pressed); resized.disconnect(); return; }
    if (!event.ctrlKey && !event.metaKey && !event.altKey && key(event)) event.preventDefault();
  };
  const key = (event) => {
    const typing = event.target.matches("input, select, textarea"), inList = document.activeElement === list;
    if (event.key === "Escape") { if (event.target === search) { search.value = ""; apply(); } list.focus(); return true; }
    if (event.target === search && event.key === "Enter") { list.focus(); select(Math.max(0, state.at)); return true; }
    if (typing) return false;
    const page = Math.max(1, Math.floor(list.clientHeight / rowHeight()) - 1);
    const steps = inList ? { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity, j: 1, k: -1 } : { j: 1, k: -1 };
    if (Object.hasOwn(steps, event.key)) { select(Math.max(0, Math.min(state.shown.length - 1, state.at + steps[event.key]))); return true; }
    if (event.key === "/") { search.focus(); return true; }
    if (event.key === "Enter" && inList) { if (state.at < 0) select(0); pane.focus(); return true; }
    if (event.key === "n" || event.key === "p") return stepTurn(pane, event.key === "n" ? 1 : -1);
    if (event.key === "t") { const all = [...pane.querySelectorAll("details.thinking")], open = all.some((one) => !one.open); for (const one of all) one.open = open; return all.length > 0; }
    return false;
  };
  document.addEventListener("keydown", pressed);
  browser.open = (id) => {
    if (state.shown[state.at]?.id === id) return;
    let place = state.shown.findIndex((row) => row.id === id);
    if (place < 0 && bundle.rows.some((row) => row.id === id)) { // it is filtered out
      search.value = only.value = "";
      state.words = [];
      show(bundle.rows);
      place = state.shown.findIndex((row) => row.id === id);
    }
    if (place < 0) pane.replaceChildren(h("p.note", null, "This rollout is not among those that were kept."));
    else select(place);
  };
  browser.ready = () => { apply(); };
  return browser;
}

function optionOf(row, place, state, height) {
  const about = [`task ${row.task}`, `${row.turns} ${row.turns === 1 ? "turn" : "turns"}`, `${number(row.characters)} characters`, row.error && row.error.split(":")[0]].filter(Boolean).join(" · ");
  const line = h("div", { role: "option", id: `line-${row.id}`, "aria-selected": String(place === state.at), "aria-posinset": place + 1, "aria-setsize": state.shown.length, "data-place": place },
    h("span.reward", null, row.reward === null ? "–" : number(row.reward)),
    h("span.who", { dir: "auto" }, row.speaker), h("span.what", { dir: "auto" }, about),
    h("span.why", { dir: "auto" }, row.lists.map(([list]) => list).join(", ") || row.words));
  line.style.top = `${place * height}px`;
  return line;
}

function stepTurn(pane, step) {
  const turns = [...pane.querySelectorAll(".turn > h4")], at = turns.indexOf(document.activeElement);
  const next = turns[Math.max(0, Math.min(turns.length - 1, at + (at < 0 && step < 0 ? 0 : step)))];
  if (next) next.focus();
  return Boolean(next);
}

/** Everything that is searched of a conversation. */
function spokenText(one) {
  if (!one) return "";
  const turns = one.turns.flatMap((turn) => [turn.name, ...(turn.parts || []).map(([, text]) => text), ...(turn.calls || []).flatMap((call) => [call.name, call.arguments])]);
  return [one.error, one.answer, one.extracted, ...turns].filter(Boolean).join("\n");
}

function hasWords(text, words) {
  const plain = text.toLowerCase();
  return words.every((word) => plain.includes(word));
}

function isOf(row, wanted) {
  if (wanted === "") return true;
  if (wanted === "error") return row.reward === null;
  const [what, name] = [wanted.slice(0, wanted.indexOf(" ")), wanted.slice(wanted.indexOf(" ") + 1)];
  return what === "list" ? row.lists.some(([list]) => list === name) : row[what] === name;
}

function kindsOf(rows) {
  const found = [...new Set(rows.map((row) => row.kind))];
  return found.length > 1 ? found : [];
}

function speakersOf(rows) {
  const found = [...new Set(rows.map((row) => row.speaker))];
  return found.length > 1 ? found.slice(0, 100) : [];
}

/** Missing values come last in every order. */
function sorted(rows, by) {
  if (by === "") return [...rows];
  const [name, sign] = by.startsWith("-") ? [by.slice(1), -1] : [by, 1];
  return [...rows].sort((a, b) => (a[name] === null) - (b[name] === null) || sign * (a[name] - b[name]));
}
