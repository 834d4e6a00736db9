// Reward code line by line: who reached each line, and the mutants in it.

const REACHED = { c: ["●", "reached by a case"], g: ["◐", "reached only by policies of the gate"], n: ["○", "reached by no conversation"], o: ["·", "in a function that no conversation called"] };
const OUTCOME_SIGNS = { survived: "✗", undecided: "?", equivalent: "=", skipped: "–" };
const FOLDED = 8, AROUND = 2;

/** Modules with reward code, and other files that findings name. */
function sourcesOf(data) {
  return [...((data.mutation && data.mutation.sources) || []), ...data.sources].map((source) => ({ ...source, findings: data.findings.filter((finding) => finding.file === source.path && finding.line) }));
}

function sourceSection(data) {
  const sources = sourcesOf(data), told = sources.some((source) => source.speakers.length);
  if (!sources.length) return null;
  const worst = data.findings.find((finding) => sources.some((source) => source.path === finding.file)), opened = worst ? worst.file : sources[0].path;
  return part("source", told ? "Reward code" : "Source", sources.map((source) => source.path.split("/").pop()).join(", "), () => [
    told && h("p.muted", null, "The modules with reward code, as validated. A line counts as reached if it ran while a reward was computed in mutation testing. Functions that cache their results count for the first conversation only."),
    told && !data.mutation.watched && h("p.note", null, "Some conversations were left out for lack of time: lines marked as not reached may be reached by them."),
    told && h("ul.legend.reach", null, Object.values(REACHED).map(([sign, text]) => h("li", null, h("span.sign", { "aria-hidden": "true" }, sign), ` ${text}`)),
      h("li", null, "✓ detected, ✗ survived, ? undecided, = equivalent mutant")),
    sources.map((source) => sourceBlock(source, source.path === opened))]);
}

function sourceBlock(source, open) {
  const marks = source.lines.map(([, , mark]) => mark), count = (mark) => marks.filter((one) => one === mark).length;
  const detected = source.detected.reduce((sum, [, ...found]) => sum + found.length, 0);
  const outcomes = [["detected", detected], ...OUTCOMES.map((outcome) => [outcome, source.mutants.filter((one) => one.outcome === outcome).length])].filter(([, some]) => some);
  const about = [source.findings.length && plural(source.findings.length, "finding"), source.speakers.length && `${count("c")} lines reached by cases, ${count("g")} only by policies, ${count("n")} by none`, ...outcomes.map(([outcome, some]) => `${some} ${outcome}`)].filter(Boolean).join(" · ");
  if (source.too_long) return h("p.note", null, h("code", null, source.path), " is too long to be shown.");
  const details = later([h("code", null, source.path), h("small", null, ` ${about}`)], () => h("div", null, codeTable(source), source.speakers.length ? coverageTable(source) : null), open);
  details.classList.add("file");
  details.dataset.path = source.path;
  return details;
}

/** The place of a finding: its lines, and a button for the whole file. */
function placeOf(finding, data) {
  const source = sourcesOf(data).find((one) => one.path === finding.file), file = finding.file.startsWith(`${data.folder}/`) ? finding.file.slice(data.folder.length + 1) : finding.file, at = finding.line ? `${file}:${finding.line}` : file;
  const near = source && finding.line ? source.lines.filter(([line]) => Math.abs(line - finding.line) <= AROUND) : [];
  const indent = Math.min(...near.filter(([, text]) => text.trim()).map(([, text]) => text.match(/^ */)[0].length));
  if (!near.length) return h("p.at", null, h("code", null, at));
  return [
    h("p.at", null, h("button.link", { type: "button", onclick: () => openSource(finding) }, h("code", null, at))),
    h("pre.quote.excerpt", { tabindex: "0", role: "group", "aria-label": at }, near.map(([line, text]) => h(line === finding.line ? "span.here" : "span", null, h("i", { "aria-hidden": "true" }, String(line)), text.slice(indent) || " "))),
  ];
}

/** Show the line of a finding in the source of its file. */
function openSource(finding) {
  const file = [...openPart("source").querySelectorAll("details.file")].find((one) => one.dataset.path === finding.file);
  file.fill();
  file.open = true;
  const row = file.querySelector(`tr[data-line="${finding.line}"]`);
  row.tabIndex = -1;
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
}

function codeTable(source) {
  const bodies = [], at = new Map(), detected = new Map(source.detected.map(([line, ...found]) => [line, found]));
  for (const mutant of source.mutants) at.set(mutant.line, [...(at.get(mutant.line) || []), mutant]);
  const found = new Map(), near = new Set();
  for (const finding of source.findings) {
    found.set(finding.line, [...(found.get(finding.line) || []), finding]);
    for (let line = finding.line - AROUND; line <= finding.line + AROUND; line++) near.add(line);
  }
  let plain = [], last = 0;
  const fold = () => {
    const rows = plain.map((line) => codeRow(source, line));
    plain = [];
    if (rows.length < FOLDED) return bodies.push(...(rows.length ? [h("tbody", null, rows)] : []));
    const hidden = h("tbody", { hidden: true }, rows), from = rows[0].dataset.line, to = rows[rows.length - 1].dataset.line;
    const button = h("button.quiet", { type: "button", "aria-expanded": "false", onclick: () => { hidden.hidden = !hidden.hidden; button.setAttribute("aria-expanded", String(!hidden.hidden)); } }, `Lines ${from} to ${to}`);
    bodies.push(h("tbody", null, h("tr.fold", null, h("td", { colspan: 4 }, button))), hidden);
  };
  for (const line of source.lines) {
    const mutants = at.get(line[0]) || [], killed = detected.get(line[0]) || [];
    if (line[0] !== last + 1 && last) { fold(); bodies.push(h("tbody", null, h("tr.fold", null, h("td.muted", { colspan: 4 }, "…")))); }
    last = line[0];
    if ("-o".includes(line[2]) && !mutants.length && !killed.length && !near.has(line[0])) { plain.push(line); continue; }
    fold();
    bodies.push(h("tbody", null, codeRow(source, line), (found.get(line[0]) || []).map(foundRow), mutantRows(mutants, killed)));
  }
  fold();
  return h("div.scroll.source", { tabindex: "0", role: "group", "aria-label": `Source of ${source.path}` }, h("table.code", null,
    h("thead.unseen", null, h("tr", null, ["line", "reached", "speakers", "code"].map((title) => h("th", { scope: "col" }, title)))), bodies));
}

function codeRow(source, [number, text, mark, set]) {
  const [sign, about] = REACHED[mark] || ["", ""], by = source.by[set].map((index) => source.speakers[index]);
  return h(`tr.reach-${mark === "-" ? "none" : mark}`, { "data-line": number },
    h("th", { scope: "row" }, String(number)),
    h("td", { title: about && `${about}${by.length ? `: ${by.join(", ")}` : ""}` }, h("span", { "aria-hidden": "true" }, sign), h("span.unseen", null, about)),
    h("td.right.muted", null, "-o".includes(mark) ? "" : `${by.length}/${source.speakers.length}`),
    h("td", null, h("code", { dir: "ltr" }, text || " ")));
}

/** A finding at its line. */
function foundRow(finding) {
  return h(`tr.found.${finding.kind}`, null, h("td", { colspan: 3 }), h("td", { dir: "auto" }, h("b", null, `${finding.rule} ${finding.kind}`), ` ${finding.message}`));
}

/** What was noticed in one line; everything else has its change and the case that would detect it. */
function mutantRows(mutants, killed) {
  return [
    ...mutants.map((one) => mutantRow(one.outcome, `${OUTCOME_SIGNS[one.outcome]} ${one.outcome}: ${one.operator}`, () => openMutant(one))),
    killed.length ? mutantRow("killed", `✓ ${killed.length} detected`, () => h("ul", null, killed.map(([operator, replacement]) => h("li", { dir: "auto" }, operator, replacement && [": ", h("code", null, replacement)])))) : null,
  ];
}

function mutantRow(outcome, summary, made) {
  return h(`tr.mutant.${outcome}`, null, h("td", { colspan: 3 }), h("td", null, later(summary, made)));
}

function openMutant(one) {
  return h("div", null, one.diff && diff(one.diff, "the mutant"), (one.reason || one.by) && h("p", { dir: "auto" }, one.reason || one.by),
    one.case ? [h("p", null, "This reply detects it. If the reward of the current code is right, add the case to tests/cases.yaml."), copied(one.case)] : null,
    one.outcome === "survived" && !one.case && h("p.muted", null, "No reply was found that detects it."));
}

/** A text with a button that copies it; where the browser refuses, the text is selected. */
function copied(text) {
  const shown = quote(text, "case for tests/cases.yaml"), told = h("span.muted", { role: "status" });
  const button = h("button.quiet", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(text); told.textContent = " Copied."; }
    catch { getSelection().selectAllChildren(shown); told.textContent = " Selected."; }
  } }, "Copy the case");
  return h("div", null, shown, h("p", null, button, told));
}

function coverageTable(source) {
  const lines = source.lines.filter(([, , mark]) => !"-o".includes(mark));
  const rows = source.speakers.map((speaker, index) => { const some = lines.filter(([, , , set]) => source.by[set].includes(index)).length; return [speaker, some, percent(lines.length ? some / lines.length : 0)]; });
  return later("Coverage by policy", () => table(`Coverage of ${source.path}`, ["cases or policy", `lines reached of ${lines.length}`, "share"], rows.sort((a, b) => b[1] - a[1])));
}
