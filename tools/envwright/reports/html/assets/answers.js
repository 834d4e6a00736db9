// Pictures that answer a question: is the bound met, does a retry help, what is paid by length, what costs the time.
// Shapes and dashes carry the meaning in black and white; colour repeats it.

const ANSWER_SHAPES = { pass: ["circle", "var(--pass)"], fail: ["times", "var(--fail)"], inconclusive: ["diamond2", "var(--open)"] };
const DASHES = ["", "7 4", "2 4", "9 3 2 3", "1 2"];
const SERIES_SHAPES = ["circle", "square", "triangle", "diamond", "star"], SERIES_SIGNS = ["●", "■", "▲", "◆", "★"];
const within = (value) => typeof value === "number" && Number.isFinite(value);

/** Every check as its value, interval and bound on one axis. */
function boundsPicture(measured) {
  const rows = measured.checks.filter((check) => !check.count && within(check.value) && within(check.bound)).map((check) => ({
    name: `${check.rule} ${check.name}`, value: check.value, bound: check.bound, above: check.above, answer: check.answer,
    low: within(check.low) ? check.low : check.value, high: within(check.high) ? check.high : check.value,
  }));
  if (!rows.length) return null;
  const domain = reach(rows.flatMap((row) => [row.low, row.high, row.bound]));
  const meaning = rows.map((row) => `${row.name}: ${number(row.value)}, required ${row.above ? "above" : "below"} ${number(row.bound)}, ${row.answer}`).join("; ");
  return picture({
    title: `Checks of ${measured.policy}`,
    says: "Each check on one axis: its value, its interval, and the bound. The hatched side of the bound fails. An interval across the bound decides nothing.",
    label: `Checks of ${measured.policy}. ${meaning}.`,
    legend: [["passes", "var(--pass)", "●"], ["fails", "var(--fail)", "✕"], ["undecided", "var(--open)", "◆"]],
    titles: ["check", "value", "from", "to", "required", "answer"],
    rows: () => rows.map((row) => [row.name, row.value, row.low, row.high, `${row.above ? ">" : "<"} ${number(row.bound)}`, row.answer]),
    draw: (width) => {
      const most = Math.floor(width / 8);
      return {
        height: 40 + rows.length * 44, marginLeft: 12, marginRight: 12, marginTop: 6, marginBottom: 30,
        x: { domain, grid: true, label: null, inset: 8, ticks: width < 420 ? 5 : 9 },
        y: { type: "band", domain: rows.map((row) => row.name), axis: null, padding: 0.1 },
        symbol: { type: "identity" }, color: { type: "identity" },
        marks: [
          Plot.rect(rows, { y: "name", x1: (row) => (row.above ? domain[0] : row.bound), x2: (row) => (row.above ? row.bound : domain[1]), fill: hatching(), insetTop: 22 }),
          Plot.ruleY(rows, { y: "name", x1: "low", x2: "high", stroke: INK, strokeWidth: 2.5, dy: 10 }),
          Plot.tickX(rows, { x: "bound", y: "name", stroke: MUTED, strokeWidth: 2, insetTop: 20 }),
          Plot.dot(rows, { x: "value", y: "name", r: 6, dy: 10, symbol: (row) => ANSWER_SHAPES[row.answer][0], stroke: (row) => ANSWER_SHAPES[row.answer][1], fill: (row) => (row.answer === "fail" ? "none" : ANSWER_SHAPES[row.answer][1]), strokeWidth: 2.5 }),
          Plot.text(rows, { y: "name", text: (row) => { const bound = ` ${row.above ? ">" : "<"} ${number(row.bound)}`; return shortLabel(row.name, most - bound.length) + bound; }, frameAnchor: "left", textAnchor: "start", dy: -12, dx: 2, fill: INK }),
        ],
      };
    },
  });
}

/** A pattern of lines, which a page in black and white shows too. */
function hatching() {
  if (!find("hatching")) {
    const made = (name, attributes) => { const one = document.createElementNS("http://www.w3.org/2000/svg", name); for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value); return one; };
    const holder = made("svg", { width: 0, height: 0, "aria-hidden": "true", class: "patterns" }), pattern = made("pattern", { id: "hatching", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    pattern.append(made("rect", { width: 1.4, height: 6, class: "hatch" }));
    holder.append(pattern);
    document.body.append(holder);
  }
  return "url(#hatching)";
}

/** pass@k of every policy or model, with its band. */
function passPicture(distributions) {
  const rows = distributions.flatMap((one, place) => Object.entries(one.pass_at).map(([k, chance]) => ({ who: one.policy, place, k: Number(k), chance, range: (one.pass_at_range || {})[k] || [null, null] })));
  if (!rows.length) return null;
  const ks = [...new Set(rows.map((row) => row.k))].sort((a, b) => a - b), whos = [...new Set(rows.map((row) => row.who))];
  return picture({
    title: "pass@k",
    says: "The chance that one of k rollouts earns the highest reward, over tasks, with its interval. A steep line: retries help. A flat one below 1: some tasks are never solved.",
    titles: ["policy or model", "k", "chance", "from", "to"],
    rows: () => rows.map((row) => [row.who, row.k, row.chance, ...row.range]),
    legend: whos.length > 1 ? whos.map((who, place) => [who, seriesColour(place), SERIES_SIGNS[place % 5]]) : null,
    draw: () => ({
      height: 230, marginLeft: 44, marginRight: 16, marginBottom: 36, marginTop: 12,
      x: { type: "log", base: 2, ticks: ks, tickFormat: (k) => String(k), label: "k" }, y: { domain: [0, 1], grid: true, ticks: 5, label: null },
      symbol: { type: "identity" }, color: { type: "identity" },
      marks: whos.flatMap((who, place) => {
        const own = rows.filter((row) => row.who === who);
        return [
          Plot.areaY(own.filter((row) => within(row.range[0])), { x: "k", y1: (row) => row.range[0], y2: (row) => row.range[1], fill: seriesColour(place), fillOpacity: 0.15 }),
          Plot.line(own, { x: "k", y: "chance", stroke: seriesColour(place), strokeWidth: 2, strokeDasharray: DASHES[place % 5] }),
          Plot.dot(own, { x: "k", y: "chance", symbol: () => SERIES_SHAPES[place % 5], r: 4, fill: () => seriesColour(place) }),
        ];
      }),
    }),
  });
}

function seriesColour(place) {
  return [ACCENT, WARM, "var(--pass)", "var(--broken)", "var(--muted)"][place % 5];
}

/** The reward by length and by turns, a bin of conversations each. */
function sizePictures(profiles) {
  return profiles.flatMap((one) => [["by_length", "characters of all replies", "length"], ["by_turns", "replies of a rollout", "turns"]].map(([key, label, name]) => {
    const rows = (one[key] || []).map(([least, most, count, mean, low, high]) => ({ least, most, count, mean, low, high, middle: (least + most) / 2 }));
    if (rows.length < 2) return null;
    const first = rows[0], last = rows[rows.length - 1];
    const unknown = first.low === null || last.low === null;
    const apart = unknown ? "A size with rollouts of one task has no interval." : last.low > first.high ? `Longer ones earn more.` : last.high < first.low ? "Longer ones earn less." : "The intervals of the shortest and the longest overlap.";
    return picture({
      title: `Reward by ${name}: ${whoSpoke(one)}`,
      says: `Mean reward of rollouts of similar ${name}, with its interval; the larger the circle, the more rollouts. ${apart}`,
      titles: [`${name} from`, "to", "rollouts", "mean reward", "from", "to"],
      rows: () => rows.map((row) => [String(row.least), row.most, row.count, row.mean, row.low, row.high]),
      draw: () => ({
        height: 220, marginLeft: 44, marginRight: 14, marginBottom: 36, x: { label, nice: true, ticks: 5 }, y: { domain: reach(rows.flatMap((row) => [row.low ?? row.mean, row.high ?? row.mean])), grid: true, label: null, ticks: 5 },
        r: { range: [3, 9], domain: [0, Math.max(...rows.map((row) => row.count))] },
        marks: [
          Plot.ruleY(rows.filter((row) => row.least < row.most), { y: "mean", x1: "least", x2: "most", stroke: MUTED }),
          Plot.ruleX(rows.filter((row) => row.low !== null), { x: "middle", y1: "low", y2: "high", stroke: ACCENT, strokeWidth: 2, strokeOpacity: 0.6 }),
          Plot.line(rows, { x: "middle", y: "mean", stroke: ACCENT, strokeDasharray: "3 4" }),
          Plot.dot(rows, { x: "middle", y: "mean", r: "count", fill: ACCENT }),
        ],
      }),
    });
  })).filter(Boolean);
}

/** Correlations as a triangle of squares: the size is the strength, a cross is a negative one. */
function correlationPicture(profile) {
  const pairs = (profile.correlations || []).map(([first, second, coefficient, count]) => ({ first, second, coefficient, count }));
  if (pairs.length < 3 || pairs.every((pair) => pair.coefficient === null)) return null;
  const names = [...new Set(pairs.flatMap((pair) => [pair.first, pair.second]))], known = pairs.filter((pair) => pair.coefficient !== null);
  return picture({
    title: `Do functions agree? ${whoSpoke(profile)}`,
    says: "Pearson's coefficient of each pair over the same rollouts. Functions near 1 measure the same; those near -1 work against each other. A dash: one of them never varies.",
    titles: ["function", "function", "coefficient", "rollouts"],
    rows: () => pairs.map((pair) => [pair.first, pair.second, pair.coefficient, pair.count]),
    legend: [["together", ACCENT, "■"], ["against each other", WARM, "✕"]],
    draw: (width) => {
      const most = width < 420 ? 10 : 20, cell = Math.min(60, Math.max(40, (width - most * 8) / names.length));
      return {
        height: 30 + cell * (names.length - 1), marginLeft: most * 7.5, marginRight: 8, marginTop: 26, marginBottom: 4,
        x: { type: "band", domain: names.slice(0, -1), axis: "top", label: null, tickSize: 0, tickFormat: (name) => shortLabel(name, Math.max(3, Math.floor((width - most * 7.5) / names.length / 7.5))) },
        y: { type: "band", domain: names.slice(1), label: null, tickSize: 0, tickFormat: (name) => shortLabel(name, most) },
        r: { type: "identity" }, symbol: { type: "identity" }, color: { type: "identity" },
        marks: [
          Plot.cell(pairs, { x: "first", y: "second", fill: "none", stroke: LINE }),
          Plot.dot(known, { x: "first", y: "second", r: (pair) => 2 + Math.abs(pair.coefficient) * 7, symbol: (pair) => (pair.coefficient < 0 ? "times" : "square"), fill: (pair) => (pair.coefficient < 0 ? "none" : ACCENT), fillOpacity: 0.35, stroke: (pair) => (pair.coefficient < 0 ? WARM : ACCENT), strokeWidth: 2, dy: -7 }),
          Plot.text(pairs, { x: "first", y: "second", text: (pair) => (pair.coefficient === null ? "–" : pair.coefficient.toFixed(2)), fill: INK, dy: 13 }),
        ],
      };
    },
  });
}

/** Tasks with their prompts, sorted by any column; hardest first. */
function difficultyTable(profile, prompts) {
  if (!profile.groups.length || !Object.keys(prompts || {}).length || profile.source !== "rollouts") return null;
  const rows = profile.groups.map(([task, count, mean, deviation]) => [task, prompts[task] || "", count, mean, deviation, deviation > 0 ? "informative" : "zero variance"]);
  return later(`Tasks by difficulty, with prompts: ${whoSpoke(profile)}`, () => sortable(`Tasks by difficulty: ${whoSpoke(profile)}`, ["task", "prompt", "rollouts", "mean reward", "deviation", "group"], rows, 3));
}

/** A table whose titles are buttons that sort it. */
function sortable(label, titles, rows, first) {
  const place = h("div"), state = { by: first, down: false };
  const order = (a, b) => { const [x, y] = [a[state.by], b[state.by]]; return (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y))) * (state.down ? -1 : 1); };
  const draw = (focused) => {
    const made = table(label, titles, [...rows].sort(order).map((row) => [String(row[0]), ...row.slice(1)]));
    made.querySelectorAll("thead th").forEach((title, column) => {
      const now = column === state.by;
      const button = h("button.sort", { type: "button", onclick: () => { state.down = now && !state.down; state.by = column; draw(column); } }, title.textContent, h("span", { "aria-hidden": "true" }, now ? (state.down ? " ▼" : " ▲") : ""));
      if (now) title.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      title.replaceChildren(button);
    });
    place.replaceChildren(made);
    if (focused !== undefined) place.querySelectorAll("button.sort")[focused].focus();
  };
  draw();
  return place;
}

/** The stages on a common axis; with the time between them they add up to the whole. */
function stagesPicture(data) {
  const rows = Object.entries(data.stages).filter(([, took]) => within(took)).map(([stage, took]) => ({ stage, took, start: data.starts[stage] || 0, end: (data.starts[stage] || 0) + took })).sort((a, b) => a.start - b.start || a.end - b.end);
  if (!rows.some((row) => row.took)) return null;
  let busy = 0, until = 0;
  for (const row of rows) { busy += Math.max(0, row.end - Math.max(until, row.start)); until = Math.max(until, row.end); }
  const all = data.cached || !within(data.seconds) ? until : Math.max(until, data.seconds), between = Number(all.toFixed(1)) - Number(busy.toFixed(1));
  return picture({
    title: "Where the time went",
    says: `${seconds(all)} in all: in stages, which run side by side, ${seconds(busy)}; between them, for other environments and for judging, ${seconds(Math.max(0, between))}.`,
    titles: ["stage", "from second", "to second", "seconds"],
    rows: () => rows.map((row) => [row.stage, ...[row.start, row.end, row.took].map((value) => Number(value.toFixed(2)))]),
    draw: (width) => ({
      height: 30 + rows.length * (width < 420 ? 22 : 26), marginLeft: 92, marginRight: 56, marginTop: 4, marginBottom: 26,
      x: { label: null, grid: true, ticks: 5, domain: [0, all] }, y: { type: "band", domain: rows.map((row) => row.stage), label: null, tickSize: 0, padding: 0.3 },
      marks: [
        Plot.barX(rows, { x1: "start", x2: "end", y: "stage", fill: ACCENT, fillOpacity: 0.75 }),
        Plot.text(rows, { x: "end", y: "stage", text: (row) => seconds(row.took), textAnchor: "start", dx: 6, fill: INK }),
      ],
    }),
  });
}

/** The reward of each model over the versions that it was recorded with. */
function versionsPicture(recordings) {
  const known = recordings.filter((one) => one.mean !== null && one.package_version);
  const versions = [...new Set(known.map((one) => one.package_version))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  if (versions.length < 2) return null;
  const whos = [...new Set(known.map((one) => one.speaker || one.file))];
  const rows = known.map((one) => ({ who: one.speaker || one.file, place: whos.indexOf(one.speaker || one.file), version: one.package_version, mean: one.mean, low: one.interval ? one.interval[0] : null, high: one.interval ? one.interval[1] : null }));
  rows.sort((a, b) => versions.indexOf(a.version) - versions.indexOf(b.version));
  return picture({
    title: "Reward over versions",
    says: "The mean reward of each recording with its interval, by the environment's version.",
    titles: ["policy or model", "version", "mean reward", "from", "to"],
    rows: () => rows.map((row) => [row.who, row.version, row.mean, row.low, row.high]),
    legend: whos.map((who, place) => [who, seriesColour(place), SERIES_SIGNS[place % 5]]),
    draw: () => ({
      height: 230, marginLeft: 44, marginRight: 14, marginBottom: 36, x: { type: "point", domain: versions, label: "version" }, y: { domain: reach(rows.flatMap((row) => [row.mean, row.low, row.high])), grid: true, ticks: 5, label: null },
      symbol: { type: "identity" }, color: { type: "identity" },
      marks: whos.flatMap((who, place) => {
        const own = rows.filter((row) => row.who === who), dx = (place - (whos.length - 1) / 2) * 9;
        return [
          Plot.line(own, { x: "version", y: "mean", stroke: seriesColour(place), strokeWidth: 2, strokeDasharray: DASHES[place % 5], dx }),
          Plot.ruleX(own.filter((row) => row.low !== null), { x: "version", y1: "low", y2: "high", stroke: seriesColour(place), strokeWidth: 2, dx }),
          Plot.dot(own, { x: "version", y: "mean", symbol: () => SERIES_SHAPES[place % 5], r: 5, fill: () => seriesColour(place), dx }),
        ];
      }),
    }),
  });
}
