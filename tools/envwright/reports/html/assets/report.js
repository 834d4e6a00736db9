// The page itself: which view is shown, search and filter, theme, print.

/** The data of one environment or run, read when it is looked at. */
function dataOf(kind, name) {
  const holder = [...document.querySelectorAll(`script[data-${kind}]`)].find((one) => one.dataset[kind] === name);
  return holder ? JSON.parse(holder.textContent) : null;
}

let shownView = "";

function route() {
  const address = location.hash;
  if (address && !address.startsWith("#/")) return; // a link within the page
  const alone = !find("environments") && document.querySelectorAll("script[data-run]");
  const wanted = !address && alone.length === 1 ? `#/run/${encodeURIComponent(alone[0].dataset.run)}` : address;
  const [kind, name, part] = wanted.slice(2).split("/").map(decodeURIComponent);
  const view = Object.hasOwn(VIEW_OF, kind) ? `${kind}/${name}` : "";
  const data = view ? dataOf(kind === "run" ? "run" : "environment", name) : null;
  if (view !== shownView || !view) show(view, kind, name, data);
  if (kind === "transcripts") openRollout(part);
  else if (part) openPart(part);
}

const VIEW_OF = { environment: environmentView, run: runView, transcripts: transcriptsView };

/** The conversations of an environment; they arrive later than the view. */
function transcriptsView(data) {
  const place = h("div.arriving", null, h("p.muted", null, "Loading …"));
  const address = (id) => transcriptAddress(data.name, id);
  place.arrived = data.transcripts ? transcriptsOf(data).then((bundle) => {
    const browser = transcriptBrowser(bundle, address);
    place.replaceChildren(browser);
    browser.ready();
    return browser;
  }) : Promise.reject(new Error("no file: no conversation was kept"));
  place.arrived.catch((error) => place.replaceChildren(transcriptsMissing(error)));
  return h("div", null,
    h("div.title", null, h("h1", { id: "detail-title" }, `${data.name}: transcripts`), h("a", { href: `#/environment/${encodeURIComponent(data.name)}` }, "Back to the environment")), place);
}

function openRollout(id) {
  const arrived = find("detail").querySelector(".arriving")?.arrived;
  if (id && arrived) arrived.then((browser) => browser.open(id), () => undefined);
}

let overviewAt = 0;

function show(view, kind, name, data) {
  const detail = find("detail"), overview = find("overview"), first = shownView === "" && view === "";
  if (!overview.hidden) overviewAt = scrollY;
  shownView = view;
  overview.hidden = Boolean(view);
  detail.hidden = !view;
  detail.replaceChildren();
  find("crumbs").replaceChildren(...(view ? ["/ ", h("span", { "aria-current": "page" }, shortLabel(name, 60))] : []));
  if (view) {
    detail.setAttribute("aria-labelledby", "detail-title");
    detail.append(data ? VIEW_OF[kind](data) : h("p.note", { id: "detail-title" }, "It is not in this report, or there was no room for it. ", h("a", { href: "#/" }, "Back to the overview")));
    scrollTo(0, 0);
  } else scrollTo(0, overviewAt);
  if (!first) find("main").focus({ preventScroll: true });
}

function filtering() {
  if (!find("controls")) return;
  const body = find("environments").tBodies[0], rows = [...body.rows];
  narrowing(rows, (row) => row.dataset.open.includes(find("gate").value));
  find("order").addEventListener("change", () => body.append(...rows.sort(ordering(find("order").value))));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !find("overview").hidden && !event.target.matches("input, select")) { event.preventDefault(); find("search").focus(); }
  });
}

function ordering(by) {
  const worst = ["fail", "error", "inconclusive", "pass"];
  const declared = (a, b) => a.dataset.order - b.dataset.order;
  if (by === "declared") return declared;
  if (by === "name") return (a, b) => a.dataset.name.localeCompare(b.dataset.name);
  if (by === "seconds") return (a, b) => b.dataset.seconds - a.dataset.seconds || declared(a, b);
  return (a, b) => worst.indexOf(a.dataset.verdict) - worst.indexOf(b.dataset.verdict) || declared(a, b);
}

theme();
filtering();
printing();
everyEnvironment();
everyRun();
addEventListener("hashchange", route);
route();
document.documentElement.dataset.ready = "yes";
