// The pictures of one environment, each from numbers that the tool worked out.

const RIGHT = new Set(["oracle", "padded", "equivalent"]);
const LEVELS = "0123456789abcdefghijklmnopqrstuvwxyz";

/** A spread as the page's data carries it. */
function spreadOf([name, kind, weight, count, missing, mean, low, high, values, binned]) {
  return { name, kind, weight, count, missing, mean, low, high, values, binned };
}

function spreadsByName(profiles) {
  const names = [];
  for (const profile of profiles) for (const [name, kind] of profile.spreads) if (kind !== "metric" && !names.includes(name)) names.push(name);
  for (const profile of profiles) for (const [name] of profile.spreads) if (!names.includes(name)) names.push(name);
  return names;
}

function valueRows(profiles, name) {
  return profiles.flatMap((profile) => {
    const found = profile.spreads.map(spreadOf).find((one) => one.name === name);
    return found ? [{ who: profile.policy, ...found }] : [];
  });
}

/** All policies and models, side by side: each circle is a reward and how often it came. */
function policiesPicture(profiles) {
  const scored = profiles.filter((one) => one.source === "scored");
  if (!scored.length) return null;
  const names = spreadsByName(scored);
  let name = names[0];
  const figure = picture({
    title: "What each policy earned",
    says: "One reply of each policy on each task. Circles are values, sized by frequency. Lines are means with their intervals.",
    picker: picker("What to show", names, (index) => { name = names[index]; figure.redraw(); if (figure.numbers.open) figure.numbers.dispatchEvent(new Event("toggle")); }),
    legend: [["right replies", ACCENT], ["wrong replies", WARM]],
    titles: ["policy", "replies", "without a number", "mean", "from", "to"],
    rows: () => valueRows(scored, name).map((one) => [one.who, one.count, one.missing, one.mean, one.low, one.high]),
    draw: (width) => {
      const rows = valueRows(scored, name);
      const dots = rows.flatMap((row) => row.values.map(([value, count]) => ({ who: row.who, value, share: count / Math.max(1, row.count) })));
      const colour = (row) => (RIGHT.has(row.who) ? ACCENT : WARM);
      return {
        height: 34 + rows.length * 23, marginLeft: width < 420 ? 96 : 130, marginRight: 18, marginTop: 8, marginBottom: 26,
        x: { domain: reach(dots.map((dot) => dot.value)), grid: true, label: null, inset: 10, ticks: width < 420 ? 4 : 8 },
        y: { domain: rows.map((row) => row.who), label: null, tickSize: 0, tickFormat: (who) => shortLabel(who, width < 420 ? 13 : 18) },
        r: { range: [0, 8.5], domain: [0, 1] },
        marks: [
          Plot.dot(dots, { x: "value", y: "who", r: "share", fill: colour, fillOpacity: 0.32, stroke: colour, strokeOpacity: 0.7 }),
          Plot.ruleY(rows.filter((row) => row.low !== null), { y: "who", x1: "low", x2: "high", stroke: INK, strokeWidth: 1.5 }),
          Plot.tickX(rows.filter((row) => row.mean !== null), { x: "mean", y: "who", stroke: INK, strokeWidth: 2.5, inset: 5 }),
        ],
      };
    },
  });
  return figure;
}

/** Every policy on every task: what it earned as darkness. */
function tasksPicture(profiles) {
  const scored = profiles.filter((one) => one.heat);
  if (!scored.length || scored[0].heat.length < 2) return null;
  const count = scored[0].heat.length, [least, most] = scored[0].reach;
  const cells = scored.flatMap((one) => Array.from(one.heat, (letter, task) => ({ who: one.policy, task, level: letter === "-" ? null : LEVELS.indexOf(letter) / 35 })));
  return picture({
    title: "Task by task",
    says: `Each column is one of ${count} tasks, in the order of the split; the darker, the higher the reward. Dark cells of a wrong policy are rewards for wrong replies.`,
    titles: ["policy", "tasks", `reward ${number(most)}`, "between", `reward ${number(least)}`, "no reward"],
    rows: () => scored.map((one) => {
      const levels = Array.from(one.heat, (letter) => (letter === "-" ? null : LEVELS.indexOf(letter)));
      const among = (test) => levels.filter(test).length;
      return [one.policy, count, among((level) => level === 35), among((level) => level !== null && level > 0 && level < 35), among((level) => level === 0), among((level) => level === null)];
    }),
    draw: (width) => ({
      height: 34 + scored.length * 15, marginLeft: width < 420 ? 96 : 130, marginRight: 4, marginTop: 4, marginBottom: 26, padding: 0.06,
      x: { type: "band", domain: d3.range(count), label: null, tickSize: 0, ticks: d3.ticks(0, count - 1, Math.min(8, count - 1)).filter(Number.isInteger), tickFormat: (task) => `${task + 1}` },
      y: { domain: scored.map((one) => one.policy), label: null, tickSize: 0, tickFormat: (who) => shortLabel(who, width < 420 ? 13 : 18) },
      marks: [
        Plot.cell(cells, { x: "task", y: "who", fill: LINE, fillOpacity: 0.55 }),
        Plot.cell(cells.filter((cell) => cell.level), { x: "task", y: "who", fill: (cell) => (RIGHT.has(cell.who) ? ACCENT : WARM), fillOpacity: (cell) => cell.level }),
      ],
      opacity: { type: "identity" },
    }),
  });
}

const SOURCES = { rollouts: "now", recording: "recorded" };
const whoSpoke = (one) => `${one.policy}, ${SOURCES[one.source] || one.source}`;

/** Speakers whose replies vary, now and as recorded: how their rewards spread, function by function. */
function spreadPicture(profiles) {
  const varying = profiles.filter((one) => one.source !== "scored" && one.groups.length);
  if (!varying.length) return null;
  const names = spreadsByName(varying);
  let name = names[0];
  const found = () => varying.flatMap((profile) => valueRows([profile], name).map((row) => ({ ...row, who: whoSpoke(profile) })));
  const figure = picture({
    title: "How rewards spread",
    says: "Frequency of each value, as a share of the rollouts. The line is the mean, the band its interval, clustered by task.",
    picker: picker("What to show", names, (index) => { name = names[index]; figure.redraw(); if (figure.numbers.open) figure.numbers.dispatchEvent(new Event("toggle")); }),
    titles: ["policy or model", "rollouts", "without a number", "mean", "from", "to", "values and counts"],
    rows: () => found().map((one) => [one.who, one.count, one.missing, one.mean, one.low, one.high, one.values.map(([value, count]) => `${number(value)} × ${count}`).join(", ")]),
    draw: (width) => {
      const rows = found();
      const bars = rows.flatMap((row) => row.values.map(([value, count]) => ({ who: row.who, value, share: count / Math.max(1, row.count) })));
      const domain = reach(bars.map((bar) => bar.value));
      const margin = (domain[1] - domain[0]) * 0.03;
      return {
        height: 46 + rows.length * 110, marginLeft: 44, marginRight: 12, marginTop: 26, marginBottom: 28,
        x: { domain: [domain[0] - margin, domain[1] + margin], label: null },
        y: { label: null, grid: true, tickFormat: "%", ticks: 3, domain: [0, Math.max(0.1, ...bars.map((bar) => bar.share))] },
        fy: { domain: rows.map((row) => row.who), label: null, axis: null, padding: 0.32 },
        marks: [
          Plot.rect(rows.filter((row) => row.low !== null), { fy: "who", x1: "low", x2: "high", y1: 0, y2: Math.max(0.1, ...bars.map((bar) => bar.share)), fill: ACCENT, fillOpacity: 0.13 }),
          Plot.ruleX(bars, { fy: "who", x: "value", y1: 0, y2: "share", stroke: ACCENT, strokeWidth: Math.max(4, Math.min(16, width / 40)), strokeOpacity: 0.85 }),
          Plot.ruleX(rows.filter((row) => row.mean !== null), { fy: "who", x: "mean", stroke: INK, strokeWidth: 1.5 }),
          Plot.ruleY([0], { stroke: MUTED }),
          Plot.text(rows, { fy: "who", text: (row) => shortLabel(row.who, 44), frameAnchor: "top-left", dy: -16, fontWeight: 600, fill: INK }),
        ],
      };
    },
  });
  return figure;
}

/** Task by task for one speaker: what it earned, and how much its rollouts differ. */
function groupPictures(profiles) {
  const varying = profiles.filter((one) => one.source !== "scored" && one.groups.some((group) => group[1] > 1) && !RIGHT.has(one.policy));
  return varying.map((one) => {
    const groups = one.groups.map(([task, count, mean, deviation]) => ({ task: String(task), count, mean, deviation, live: deviation > 0 })).sort((a, b) => b.mean - a.mean);
    const rows = groups.map((group) => [group.task, group.count, group.mean, group.deviation, group.live ? "informative" : "zero variance"]);
    const titles = ["task", "rollouts", "mean reward", "deviation", "group"];
    const dead = groups.filter((group) => !group.live).length;
    const domain = reach(groups.flatMap((group) => [group.mean]));
    return h("div.two", null,
      picture({
        title: `Success by task: ${whoSpoke(one)}`,
        says: `Tasks from easy to hard. Lines span one deviation within the task's rollouts; ${dead} of ${groups.length} groups have zero variance: all their rollouts earned the same.`,
        titles, rows,
        draw: () => ({
          height: 230, marginLeft: 40, marginRight: 8, marginBottom: 14,
          x: { type: "point", domain: d3.range(groups.length), axis: null },
          y: { domain, grid: true, label: null, ticks: 5 },
          marks: [
            Plot.ruleX(groups, { x: (_, index) => index, y1: (group) => Math.max(domain[0], group.mean - group.deviation), y2: (group) => Math.min(domain[1], group.mean + group.deviation), stroke: ACCENT, strokeOpacity: 0.45, strokeWidth: 3 }),
            Plot.dot(groups, { x: (_, index) => index, y: "mean", r: groups.length > 60 ? 2 : 4, fill: (group) => (group.live ? ACCENT : "var(--surface)"), stroke: (group) => (group.live ? ACCENT : WARM), strokeWidth: 1.5 }),
          ],
        }),
        legend: [["informative group", ACCENT], ["zero-variance group", WARM]],
      }),
      picture({
        title: "Variance within groups",
        says: "What a trainer learns from: a group's deviation by its mean. Groups on the curve have only the lowest and the highest reward.",
        titles, rows,
        draw: () => ({
          height: 230, marginLeft: 40, marginRight: 12, marginBottom: 34,
          x: { domain, label: "mean reward of the task" }, y: { label: "deviation", grid: true, domain: [0, Math.max(0.55, ...groups.map((group) => group.deviation))], ticks: 4 },
          marks: [
            Plot.line(d3.range(0, 1.001, 0.02).map((share) => ({ mean: domain[0] + share * (domain[1] - domain[0]), deviation: Math.sqrt(share * (1 - share)) * (domain[1] - domain[0]) })), { x: "mean", y: "deviation", stroke: MUTED, strokeDasharray: "3 4" }),
            Plot.dot(groups, Plot.group({ r: "count" }, { x: "mean", y: "deviation", fill: (group) => (group.live ? ACCENT : WARM), fillOpacity: 0.45, stroke: (group) => (group.live ? ACCENT : WARM) })),
          ],
          r: { range: [3.5, 11] },
        }),
      }));
  });
}
