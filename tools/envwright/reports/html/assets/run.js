// One training run: curves, and what they say.

function runView(run) {
  return h("div", null,
    h("div.title", null, h("h1", { id: "detail-title" }, run.name), h(`span.tag.run-${run.status}`, null, run.status)),
    run.simulated && h("p.note", null, "Simulated: no model was trained."),
    h("ul.facts", null, [run.backend, run.model, run.environments.join(", "), run.steps_done !== null && `step ${number(run.steps_done)}${run.steps_planned !== null ? ` of ${number(run.steps_planned)}` : ""}`, run.cost !== null && `$${run.cost.toFixed(2)}`, run.started && `from ${run.started}`, run.finished && `to ${run.finished}`].filter(Boolean).map((text) => h("li", null, text))),
    run.answer && answerSection(run.answer),
    run.notes.map((note) => h("p", { dir: "auto" }, note)),
    run.not_judged.length ? h("p", { dir: "auto" }, `Not judged: ${run.not_judged.join(", ")}`) : null,
    section("findings", "Diagnosis", run.findings.map(runFinding), !run.findings.length && h("p.muted", null, "No findings.")),
    section("curves", "Curves", h("div.two", null, run.curves.map((curve) => curvePicture(curve, run.findings.filter((one) => one.steps && one.curve === curve.metric))), rewardsPicture(run))),
    Object.keys(run.config).length ? section("config", "Settings", pairs(Object.entries(run.config).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]))) : null,
    pairs([["identity", run.identity && h("code", null, run.identity)], ["where", run.url && h("code", null, run.url)]]));
}

const ANSWERS = { reached: ["pass", "Better, by at least what was worth having"], smaller: ["fail", "Not better by what was worth having"], undecided: ["inconclusive", "Not decided"], worse: ["fail", "Worse"] };

/** Was it worth it, by how much, on which tasks, and what to do next. */
function answerSection(answer) {
  const [verdict, headline] = ANSWERS[answer.answer];
  return h("div", null,
    h(`div.hero.${verdict}`, null,
      h("h2", null, headline), h("p.lead", { dir: "auto" }, answer.environments.map((each) => `${each.environment}: ${differenceText(each.comparison)}: ${each.reason}`).join("; ")),
      answer.next.map((step, place) => h("p.next", { dir: "auto" }, h("span.label", null, place ? "Then" : "Next"), " ", step))),
    answer.environments.map((each) => section(`before-${each.environment}`, `Before and after: ${each.environment}`, comparisonCard(each.comparison))),
    section("reward", "Was the reward gamed", answer.suspicions.map((text) => h("p.note", { dir: "auto" }, text)), !answer.suspicions.length && h("p.muted", null, "No sign of it in what was judged.")),
    section("fixed", "Fixed before the run", h("p.muted", { dir: "auto" }, answer.fixed_where), pairs(Object.entries(answer.fixed))),
    section("spent", "Spent", pairs(Object.entries(answer.spent))));
}

function differenceText(one) {
  const found = one.difference;
  if (!found) return one.tasks_count ? "1 task in common, and a difference needs two" : "no tasks in common";
  return `${signed(found.value)}${found.low === null ? "" : ` (${percent(one.confidence)} interval ${signed(found.low)} to ${signed(found.high)})`} of the range, paired over ${number(one.tasks_count)} tasks`;
}

function runFinding(one) {
  const evidence = Object.entries(one.evidence).map(([label, value]) => [label.replaceAll("_", " "), typeof value === "string" ? value : JSON.stringify(value)]);
  return h(`article.finding.${one.severity}`, null,
    h("p.kind", null, ruleName(one.rule), ` ${one.severity}${one.steps ? ` · steps ${one.steps[0]} to ${one.steps[1]}` : ""}`),
    h("h3", { dir: "auto" }, one.message),
    one.because && h("p", { dir: "auto" }, one.because), pairs(evidence),
    one.replies.map((reply) => [
      h("p.muted", { dir: "auto" }, `Step ${reply.step}, task ${reply.task}, ${reply.reward === null ? "no reward" : `reward ${number(reply.reward)}`}${reply.answer && `; the task's answer: ${reply.answer}`}`),
      quote(reply.text, "the reply"),
    ]),
    one.fix && h("p.fix", null, h("b", null, "Fix"), one.fix), one.patch && diff(one.patch, "the change"));
}

/** A curve with its interval, a gap where nothing is known, and findings marked at their steps. */
function curvePicture(curve, found) {
  const told = curve.points.filter((point) => point.value !== null);
  const banded = told.filter((point) => point.low !== null && point.high !== null);
  const marked = found.map((one) => ({ from: one.steps[0], to: one.steps[1], rule: one.rule, said: `${one.rule} ${one.steps[0] === one.steps[1] ? `step ${one.steps[0]}` : `steps ${one.steps[0]} to ${one.steps[1]}`}` }));
  return picture({
    title: curve.unit ? `${curve.metric} (${curve.unit})` : curve.metric,
    says: [curve.about, marked.length && `Marked: ${marked.map((one) => one.said).join(", ")}.`].filter(Boolean).join(". ").replace("..", "."),
    titles: ["step", "value", "from", "to"],
    rows: () => curve.points.map((point) => [String(point.step), point.value, point.low, point.high]),
    draw: () => ({
      height: 210, marginLeft: 48, marginRight: 10, marginBottom: 34, marginTop: 20 + 13 * Math.min(3, marked.length),
      x: { label: "step" }, y: { label: null, grid: true, ticks: 5, nice: true },
      marks: [
        marked.length ? Plot.rectX(marked, { x1: "from", x2: "to", fill: WARM, fillOpacity: 0.14, className: "marked" }) : null,
        marked.length ? Plot.ruleX(marked, { x: "from", stroke: WARM, strokeWidth: 1.5, strokeDasharray: "4,3" }) : null,
        marked.map((one, place) => Plot.text([one], { x: "from", frameAnchor: "top", dy: -12 - 13 * (place % 3), text: "rule", textAnchor: "middle", fill: INK })),
        banded.length ? Plot.areaY(curve.points, { x: "step", y1: "low", y2: "high", fill: ACCENT, fillOpacity: 0.15 }) : null,
        Plot.line(curve.points, { x: "step", y: "value", stroke: ACCENT, strokeWidth: 2 }),
        told.length < 40 ? Plot.dot(told, { x: "step", y: "value", r: 2.5, fill: ACCENT }) : null,
      ],
    }),
  });
}

/** How the rewards of one step spread. */
function rewardsPicture(run) {
  if (!run.rewards.length) return null;
  return picture({
    title: run.rewards_step === null ? "rewards of a step" : `rewards at step ${number(run.rewards_step)}`,
    says: "Rollouts by reward, as counted by the platform.",
    titles: ["from", "to", "rollouts"],
    rows: () => run.rewards.map((bin) => [number(bin.low), bin.high, bin.count]),
    draw: () => ({
      height: 210, marginLeft: 48, marginRight: 10, marginBottom: 34, x: { label: "reward" }, y: { label: null, grid: true, ticks: 5 },
      marks: [Plot.rectY(run.rewards, { x1: "low", x2: "high", y: "count", fill: ACCENT, inset: 0.5 }), Plot.ruleY([0], { stroke: INK })],
    }),
  });
}
