// Before and after: what two speakers earned on the same tasks.

function beforeSection(compared) {
  if (!compared.length) return null;
  return part("before", "Before and after", compared.map((one) => comparisonAnswer(one)).join("; "), () => compared.map(comparisonCard));
}

function comparisonAnswer(one) {
  return { better: `${one.after.name} is better than ${one.before.name}`, worse: `${one.after.name} is worse than ${one.before.name}`, undecided: `Undecided whether ${one.after.name} is better than ${one.before.name}` }[one.answer];
}

function comparisonCard(one) {
  return h("div", null,
    h("h3", { dir: "auto" }, comparisonAnswer(one), " ", tag(one.verdict)),
    h("p", { dir: "auto" }, one.difference ? h("span.big", null, signed(one.difference.value)) : null,
      one.difference && one.difference.low !== null ? ` of the range ${number(one.range[0])} to ${number(one.range[1])} (${percent(one.confidence)} interval ${signed(one.difference.low)} to ${signed(one.difference.high)}): ` : " ", one.reason),
    one.notes.map((note) => h("p.note", { dir: "auto" }, note)),
    table("Both sides", ["side", "policy or model", "rollouts", "with a reward", "mean", "from", "to", "truncated", "tokens"], [["before", one.before], ["after", one.after]].map(([name, side]) => [
      name, `${side.name} (${side.speaker}${side.scripted ? ", a scripted policy" : ""})`, side.rollouts, side.scored,
      side.mean && side.mean.value, side.mean && side.mean.low, side.mean && side.mean.high, percent(side.truncated), side.tokens])),
    h("div.two", null, functionsPicture(one), changesPicture(one)));
}

function signed(value) {
  return `${value > 0 ? "+" : ""}${number(Number(value.toFixed(3)))}`;
}

/** Differences with their intervals, the reward's own first. */
function functionsPicture(one) {
  const whole = one.difference ? [{ name: "reward", weight: null, before: one.before.mean && one.before.mean.value, after: one.after.mean && one.after.mean.value, difference: one.difference }] : [];
  const rows = [...whole, ...one.functions].filter((each) => each.difference);
  if (!rows.length) return null;
  const marks = rows.map((each) => ({ name: shortLabel(each.name, 24), value: each.difference.value, low: each.difference.low ?? each.difference.value, high: each.difference.high ?? each.difference.value }));
  return picture({
    title: "Difference by function", says: "After minus before, paired by task, with its interval; right of the line is a higher score.",
    titles: ["function", "weight", "before", "after", "difference", "from", "to"],
    rows: () => rows.map((each) => [each.name, each.weight, each.before, each.after, each.difference.value, each.difference.low, each.difference.high]),
    draw: () => ({
      height: 60 + 26 * marks.length, marginLeft: 150, marginBottom: 34, x: { label: "difference", grid: true, ...(marks.every((each) => !each.low && !each.high) && { domain: [-1, 1] }) }, y: { label: null, domain: [...new Set(marks.map((each) => each.name))] },
      marks: [
        Plot.ruleX([0], { stroke: INK }),
        Plot.ruleY(marks, { y: "name", x1: "low", x2: "high", stroke: ACCENT, strokeWidth: 2 }),
        Plot.dot(marks, { x: "value", y: "name", fill: ACCENT, r: 4 }),
      ],
    }),
  });
}

function changesPicture(one) {
  if (!one.tasks.length) return null;
  const rows = one.tasks.map((task, place) => ({ place, task: task.index === null ? task.key : `task ${task.index}`, before: task.before, after: task.after, change: task.after - task.before, prompt: task.prompt }));
  return picture({
    title: "Change of each task", says: `The greatest loss first. A single task has a few rollouts and decides nothing.${one.tasks_count > rows.length ? ` ${rows.length} of ${one.tasks_count} are shown: those that lost and gained most.` : ""}`,
    titles: ["task", "before", "after", "change", "prompt"],
    rows: () => rows.map((row) => [row.task, row.before, row.after, row.change, row.prompt]),
    draw: () => ({
      height: 210, marginLeft: 48, marginBottom: 34, x: { label: "tasks, worst first", ticks: [], type: "band" }, y: { label: null, grid: true, ticks: 5, ...(rows.every((row) => !row.change) && { domain: [-1, 1] }) },
      marks: [Plot.ruleY([0], { stroke: INK }), Plot.barY(rows, { x: "place", y: "change", fill: (row) => (row.change < 0 ? WARM : ACCENT) })],
    }),
  });
}
