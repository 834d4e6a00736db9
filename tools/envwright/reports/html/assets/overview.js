// All environments in one picture, and training runs over each other.

const VERDICT_SHAPES = { pass: ["circle", "var(--pass)"], fail: ["times", "var(--fail)"], inconclusive: ["diamond2", "var(--open)"], error: ["square2", "var(--broken)"] };
const MEASURES = {
  reward: ["mean reward of the first policy or model", (row) => row.dataset.reward],
  mutants: ["share of mutants detected, at least", (row) => row.dataset.noticed],
  seconds: ["seconds", (row) => (row.dataset.cached ? "" : row.dataset.seconds)],
};
const AXES = [["reward", "mutants"], ["reward", "seconds"], ["mutants", "seconds"]];

/** A point for each environment that the filters leave. */
function everyEnvironment() {
  const holder = find("scatter");
  if (!holder) return;
  const list = find("environments"), valueOf = (row, name) => { const text = MEASURES[name][1](row); return text === "" || text === undefined ? null : Number(text); };
  let axes = AXES[0], figure = null;
  const points = () => [...list.tBodies[0].rows].filter((row) => !row.hidden).map((row) => ({ name: row.dataset.name, verdict: row.dataset.verdict, x: valueOf(row, axes[0]), y: valueOf(row, axes[1]) }));
  const known = (point) => within(point.x) && within(point.y);
  const changed = () => { if (!figure) return; figure.redraw(); if (figure.numbers.open) figure.numbers.dispatchEvent(new Event("toggle")); };
  const make = () => picture({
    title: "Every environment that the filters leave",
    says: "Each mark is an environment; a click opens it. An environment without both numbers is only in the table.",
    label: "Environments by two measures. The numbers are in the table below.",
    picker: picker("What to compare", AXES.map(([x, y]) => `${x} and ${y}`), (place) => { axes = AXES[place]; changed(); }),
    legend: [["pass", "var(--pass)", "●"], ["fail", "var(--fail)", "✕"], ["inconclusive", "var(--open)", "◆"], ["error", "var(--broken)", "■"]],
    titles: ["environment", "verdict", "across", "up"],
    rows: () => points().map((point) => [point.name, point.verdict, point.x, point.y]),
    opened: (point) => { location.hash = `#/environment/${encodeURIComponent(point.name)}`; },
    draw: () => {
      const shown = points().filter(known), share = (name, values) => (name === "seconds" ? [0, Math.max(1, ...values)] : reach(values));
      return {
        height: 340, marginLeft: 48, marginRight: 16, marginBottom: 38, marginTop: 22,
        x: { label: MEASURES[axes[0]][0], grid: true, ticks: 5, domain: share(axes[0], shown.map((point) => point.x)), inset: 8 },
        y: { label: MEASURES[axes[1]][0], grid: true, ticks: 5, domain: share(axes[1], shown.map((point) => point.y)), inset: 8 },
        symbol: { type: "identity" }, color: { type: "identity" },
        marks: [
          Plot.dot(shown, { x: "x", y: "y", r: shown.length > 300 ? 3 : 5, symbol: (point) => VERDICT_SHAPES[point.verdict][0], stroke: (point) => VERDICT_SHAPES[point.verdict][1], fill: (point) => (point.verdict === "fail" ? "none" : VERDICT_SHAPES[point.verdict][1]), fillOpacity: 0.35, strokeWidth: 1.5 }),
          Plot.tip(shown, Plot.pointer({ x: "x", y: "y", title: (point) => `${shortLabel(point.name, 40)}\n${point.verdict}`, fill: "var(--surface)", stroke: MUTED, textPadding: 6 })),
        ],
      };
    },
  });
  holder.addEventListener("toggle", () => { if (holder.open && !figure) { figure = make(); holder.append(figure); } });
  list.addEventListener("narrowed", changed);
}

/** Reward of all runs over steps and over dollars, with what was diagnosed. */
function everyRun() {
  const place = find("runs-together");
  if (!place) return;
  const runs = [...document.querySelectorAll("script[data-run]")].map((one) => JSON.parse(one.textContent));
  place.append(...[stepsPicture(runs), dollarsPicture(runs)].filter(Boolean));
}

/** Each run's reward over its steps; `null` values stay gaps. */
function rewardCurves(runs) {
  return runs.map((run) => ({ run, curve: run.curves.find((one) => one.metric === "reward") })).filter((one) => one.curve && one.curve.points.some((point) => point.value !== null))
    .map(({ run, curve }, place) => ({ run, place, points: curve.points.map((point) => ({ who: run.name, step: point.step, value: point.value })) }));
}

function seriesMarks(series, x) {
  return series.flatMap(({ place, points }) => {
    const known = points.filter((point) => point.value !== null);
    return [
      Plot.line(points, { x, y: "value", stroke: seriesColour(place), strokeWidth: 2, strokeDasharray: DASHES[place % 5] }),
      Plot.dot(known.slice(-1), { x, y: "value", symbol: () => SERIES_SHAPES[place % 5], r: 5, fill: () => seriesColour(place) }),
    ];
  });
}

const seriesLegend = (series) => series.map(({ run, place }) => [run.name, seriesColour(place), SERIES_SIGNS[place % 5]]);

function stepsPicture(runs) {
  const series = rewardCurves(runs);
  if (series.length < 2) return null;
  const marked = series.flatMap(({ run, place, points }) => run.findings.filter((one) => one.steps).map((one) => {
    const at = points.filter((point) => point.value !== null).reduce((best, point) => (Math.abs(point.step - one.steps[0]) < Math.abs(best.step - one.steps[0]) ? point : best));
    return { run: run.name, rule: one.rule, from: one.steps[0], to: one.steps[1], step: at.step, value: at.value, place };
  }));
  const said = marked.map((one) => `${one.rule} in ${one.run} from step ${one.from}`).join("; ");
  return picture({
    title: "Reward of every run",
    says: `Mean reward by step. ${said ? `Triangles are findings of the diagnosis: ${said}.` : "The diagnosis marks no steps."}`,
    titles: ["run", "step", "reward"],
    rows: () => series.flatMap(({ points }) => points.map((point) => [point.who, point.step, point.value])),
    legend: seriesLegend(series),
    draw: () => ({
      height: 280, marginLeft: 44, marginRight: 20, marginBottom: 36, marginTop: 26, x: { label: "step" }, y: { label: null, grid: true, ticks: 5, nice: true },
      symbol: { type: "identity" }, color: { type: "identity" },
      marks: [
        ...seriesMarks(series, "step"),
        Plot.dot(marked, { x: "step", y: "value", symbol: "triangle2", rotate: 180, dy: -9, r: 5, fill: WARM }),
        Plot.text(marked, { x: "step", y: "value", text: "rule", dy: -22, fill: INK, stroke: "var(--surface)", strokeWidth: 3 }),
      ],
    }),
  });
}

function dollarsPicture(runs) {
  const series = rewardCurves(runs.filter((run) => run.cost !== null && run.steps_done)).map((one) => ({
    ...one, points: one.points.map((point) => ({ ...point, dollars: (one.run.cost * point.step) / one.run.steps_done })),
  }));
  if (series.length < 2) return null;
  return picture({
    title: "Reward against dollars",
    says: "The same by what was spent until then. Only the sum of a run is known: it is divided evenly over its steps.",
    titles: ["run", "dollars", "reward"],
    rows: () => series.flatMap(({ points }) => points.map((point) => [point.who, Number(point.dollars.toFixed(2)), point.value])),
    legend: seriesLegend(series),
    draw: () => ({
      height: 240, marginLeft: 44, marginRight: 20, marginBottom: 36, marginTop: 12, x: { label: "dollars", tickFormat: (value) => `$${value}` }, y: { label: null, grid: true, ticks: 5, nice: true },
      symbol: { type: "identity" }, color: { type: "identity" }, marks: seriesMarks(series, "dollars"),
    }),
  });
}
