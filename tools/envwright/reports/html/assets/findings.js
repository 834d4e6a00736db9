// What was found: the reply, what it earned, and how to fix it.

const MOST_LINES = 6;
const DECIDING = new Set(["error", "bug", "inconclusive"]);

/** Findings of one rule are one line with their number; the first of those that decide is open. */
function findingGroup(group, data, open) {
  const [first] = group, details = later(
    [h("span.kind", null, h("code", null, first.rule), ` ${first.kind}`), h("h3", { dir: "auto" }, prose(first.message)), group.length > 1 && h("span.times", null, `× ${group.length}`)],
    () => h("div", null,
      findingBody(first, data),
      group.length > 1 && later(`${group.length - 1} more of ${first.rule}`, () => h("div", null, group.slice(1).map((finding) => h("article", null, h("h4", { dir: "auto" }, prose(finding.message)), findingBody(finding, data))))),
      h("p.muted", null, "About ", ruleName(first.rule), ` (${first.gate})`)), open);
  details.classList.add("finding", first.kind);
  return details;
}

/** The place and the fix first, then what proves it. */
function findingBody(finding, data) {
  const blocks = (entries) => pairs(entries.map(([label, text]) => [label, quote(text, label)]));
  const quoted = finding.evidence.filter(([, , long]) => long), short = finding.evidence.filter(([, , long]) => !long);
  const first = quoted.filter(([label]) => label !== "also").slice(0, 1), more = quoted.filter((entry) => !first.includes(entry));
  return [
    finding.reason !== null && h("p.muted", null, "Ignored by the registry: ", h("span.said", { dir: "auto" }, finding.reason)),
    h("p.fix", { dir: "auto" }, h("b", null, "Fix"), prose(finding.fix)),
    finding.file && placeOf(finding, data),
    short.length ? h("dl.pairs.short", null, short.map(([label, text]) => h("div", null, h("dt", null, label), h("dd.said", { dir: "auto" }, text)))) : null,
    blocks(first),
    finding.functions.length ? table("Reward per function", ["function", "score", "weight", "adds"], finding.functions.map(functionRow)) : null,
    more.length > 0 && later("More evidence", () => blocks(more)),
    finding.transcript && h("p", null, h("a", { href: transcriptAddress(data.name, finding.transcript) }, "Read the conversation")),
  ];
}

function functionRow([name, score, weight, kind]) {
  const numeric = typeof score === "number" && typeof weight === "number";
  return [name, score, kind === "metric" ? "metric" : weight, kind === "metric" ? "–" : numeric ? score * weight : null];
}

function failureCard(failure) {
  return h("article.finding.bug", null,
    h("p.kind", null, `infrastructure · ${failure.stage} · ${failure.kind}`),
    h("h3", { dir: "auto" }, `${failure.type}${failure.type && failure.message ? ": " : ""}${failure.message}`),
    failure.file && h("p.at", null, h("code", null, failure.line ? `${failure.file}:${failure.line}` : failure.file)),
    failure.traceback && quote(failure.traceback, "traceback"));
}

function findingsSection(data) {
  const left = data.findings_count - data.findings.length, groups = new Map();
  for (const finding of data.findings) groups.set(`${finding.rule} ${finding.kind}`, [...(groups.get(`${finding.rule} ${finding.kind}`) || []), finding]);
  const cards = [...groups.values()];
  return section("findings", `Findings${data.findings_count ? ` (${data.findings_count})` : ""}`,
    data.failures.map(failureCard),
    cards.slice(0, MOST_LINES).map((group, place) => findingGroup(group, data, place === 0 && DECIDING.has(group[0].kind))),
    cards.length > MOST_LINES && later(`Others: ${cards.slice(MOST_LINES).map(([first]) => first.rule).join(", ")}`, () => h("div", null, cards.slice(MOST_LINES).map((group) => findingGroup(group, data, false)))),
    left > 0 && h("p.note", null, `${left} more are in validate.json.`),
    !data.findings_count && !data.failures.length && h("p.muted", null, "No findings."));
}

/** The checks of the distribution gate: a picture of those with a bound, and what would decide the others. */
function checks(measured) {
  const counted = measured.checks.filter((check) => check.count);
  return [
    boundsPicture(measured),
    counted.length ? table(`Counts of ${measured.policy}`, ["check", "rule", "measured", "required", "answer"], counted.map((check) => [check.name, check.rule, check.value, check.needed, tag(check.answer)])) : null,
    measured.checks.filter((check) => check.more).map((check) => h("p.muted", null, h("code", null, check.rule), ` ${check.more}`)),
  ];
}

function distributionSection(data) {
  const blocks = () => data.distributions.map((measured) => [
    h("h3", null, `${measured.policy}: ${measured.scored} of ${measured.attempted} rollouts scored, ${measured.tasks} tasks`),
    measured.checks.length ? checks(measured) : null,
    pairs([
      ["mean reward", measured.mean && `${number(measured.mean.value)} (${number(measured.mean.low)} to ${number(measured.mean.high)}), as a share of the declared range`],
      ["variance", `${number(measured.variance_within_tasks)} within tasks, ${number(measured.variance_between_tasks)} between`],
      ["informative groups", measured.live_groups && `${percent(measured.live_groups.value)} of groups of ${measured.group_size} (${percent(measured.live_groups.low)} to ${percent(measured.live_groups.high)})`],
      ["errors", Object.entries(measured.errors).map(([name, count]) => `${name} ${count}`).join(", ")],
    ]),
    measured.advice.length ? [h("h3", null, "For training"), measured.scripted && h("p.muted", null, "The policy is scripted: the advice shows the method and does not apply to a model."),
      pairs(measured.advice.map((one) => [one.do, one.because]))] : null,
  ]);
  const varying = data.profiles.filter((one) => one.source !== "scored");
  if (!varying.length && !data.distributions.length) return null;
  const about = data.distributions.map(({ policy, scored, mean }) => (mean ? `${policy} ${number(mean.value)} (${number(mean.low)} to ${number(mean.high)})` : `${policy}: ${plural(scored, "rollout")}`)).join(", ");
  return part("distribution", "Distribution", about, () => [spreadPicture(data.profiles), groupPictures(data.profiles),
    varying.map((one) => difficultyTable(one, data.prompts)),
    h("div.two", null, passPicture(data.distributions), sizePictures(varying), varying.map(correlationPicture)), blocks()]);
}
