// One conversation, turn by turn. All of its text is untrusted: it becomes text nodes and nothing else.

const LONG_TEXT = 6000, TEXT_HEAD = 4000, TEXT_TAIL = 1000;
const ROLES = { system: "system", developer: "developer", user: "user", assistant: "model", tool: "tool" };
const SPOKEN_BY = { scripted: "a scripted policy", recorded: "a recording", real: "a real model", case: "a case of the author", file: "" };

function transcriptView(one, row, link, words) {
  const answered = resultsByCall(one.turns), nested = new Set(answered.values());
  const shown = one.turns.filter((turn) => !nested.has(turn));
  return h("div.transcript", null,
    h("h2", { id: "transcript-title", tabindex: "-1" }, `Task ${one.task}, rollout ${one.rollout}`),
    h("p.said", { dir: "auto" }, one.speaker, SPOKEN_BY[one.kind] ? h("span.muted", null, ` · ${SPOKEN_BY[one.kind]}`) : null),
    row.lists.map(([list, why]) => h("p", null, h("span.tag", null, list), " ", h("span.said", { dir: "auto" }, why))),
    h("ul.facts", null, transcriptFacts(one, link).map((fact) => h("li", null, fact))),
    one.error && h("article.finding.bug", null, h("p.kind", null, "error"), longText(one.error, "error", words)),
    one.functions.length ? [h("h3", null, "Reward"), one.weights_known ? table("Reward per function", ["function", "score", "weight", "adds"], one.functions.map(functionRow)) : table("Score per function", ["function", "score"], one.functions.map(([name, score]) => [name, score]))] : null,
    one.answer !== null || one.extracted !== null ? readSection(one, words) : null,
    h("h3", null, "Conversation"),
    shown.length ? shown.map((turn) => turnView(turn, one.turns.indexOf(turn), one, answered, words)) : h("p.muted", null, "No message was kept."));
}

function transcriptFacts(one, link) {
  const tokens = one.tokens ? `${number(one.tokens[0])} tokens sent, ${number(one.tokens[1])} received` : null;
  return [
    one.reward === null ? "no reward" : `reward ${number(one.reward)}`,
    one.seconds !== null && seconds(one.seconds), tokens, one.cost !== null && `$${one.cost.toFixed(4)}`,
    one.stop && `ended: ${one.stop}`, one.truncated && "cut off at the token limit", one.timed_out && "ran out of time",
    one.retries > 0 && `${one.retries} retries`, one.source && (one.line ? `${one.source}:${one.line}` : one.source),
    link && h("a", { href: link }, "link to this rollout"),
  ].filter(Boolean);
}

function readSection(one, words) {
  return [h("h3", null, "The reply as it is read"),
    pairs([["right answer", one.answer === null ? null : longText(one.answer, "right answer", words)], ["read from the reply", one.extracted === null ? null : longText(one.extracted, "read from the reply", words)]]),
    one.extracted !== null && h("p.muted", null, "Read by the usual marks: the last tag, \\boxed{}, ####, a field of JSON. The environment's own parser may read something else: ", h("code", null, "envwright rewards reply"), ".")];
}

/** The result of each tool call, where its id names one that comes later. */
function resultsByCall(turns) {
  const found = new Map(), calls = new Set();
  for (const turn of turns) {
    if (turn.result_of && calls.has(turn.result_of) && !found.has(turn.result_of)) found.set(turn.result_of, turn);
    for (const call of turn.calls || []) if (call.id) calls.add(call.id);
  }
  return found;
}

function turnView(turn, place, one, answered, words) {
  const role = Object.hasOwn(ROLES, turn.role) ? turn.role : "other";
  const about = [place < one.prompt_turns && "prompt", turn.name, turn.seconds !== undefined && `took ${seconds(turn.seconds)}`, turn.tokens && `${number(turn.tokens[0])} tokens sent, ${number(turn.tokens[1])} received`].filter(Boolean);
  return h(`article.turn.${role}`, { "data-turn": place },
    h("h4", { tabindex: "-1" }, ROLES[turn.role] || turn.role, about.length ? h("small", { dir: "auto" }, ` ${about.join(" · ")}`) : null),
    (turn.parts || []).map((part) => partView(part, words)),
    (turn.calls || []).map((call) => callView(call, answered.get(call.id), words)),
    !turn.parts && !turn.calls && h("p.muted", null, "(empty)"));
}

function partView([kind, text, about], words) {
  if (kind === "thinking") {
    const folded = later(`Thinking, ${number(text.length)} characters`, () => longText(text, "thinking", words));
    folded.classList.add("thinking");
    if (words.length && words.some((word) => text.toLowerCase().includes(word))) folded.open = true;
    return folded;
  }
  if (kind === "media") return h("p.media", null, h("span", { "aria-hidden": "true" }, "▧ "), `${about}: not shown`, text && [". ", longText(text, "address", words)]);
  if (kind === "unknown") return [h("p.muted", null, `Shown as it is: ${about}`), longText(text, about, words)];
  return [about && h("p.muted", null, about), longText(text, "text", words)];
}

function callView(call, result, words) {
  return h("div.call", null,
    h("p", null, "calls ", h("code", { dir: "auto" }, call.name)),
    call.problem && h("p.broken", { dir: "auto" }, call.problem),
    longText(indented(call), `arguments of ${call.name}`, words),
    result && h("div.result", null, h("p.muted", null, "result"), (result.parts || []).map((part) => partView(part, words)), !result.parts && h("p.muted", null, "(empty)")));
}

/** Arguments line by line; what is not JSON stays as it was sent. */
function indented(call) {
  if (call.problem || call.arguments.length > LONG_TEXT) return call.arguments;
  try { return JSON.stringify(JSON.parse(call.arguments), null, 2); } catch { return call.arguments; }
}

/** A text of any length; a long one is cut, and a button shows all of it. */
function longText(text, label, words) {
  const all = () => h("pre.quote", { dir: "auto" }, marked(text, words));
  const hidden = text.slice(TEXT_HEAD, -TEXT_TAIL).toLowerCase();
  if (text.length <= LONG_TEXT || (words.length && words.some((word) => hidden.includes(word)))) return all();
  const place = h("div", null,
    h("pre.quote", { dir: "auto" }, marked(text.slice(0, TEXT_HEAD), words)),
    h("p", null, h("button.quiet", { type: "button", onclick: () => { const shown = all(); shown.tabIndex = -1; place.replaceChildren(shown); shown.focus(); } }, `Show all ${number(text.length)} characters`), h("span.muted", null, ` of the ${label}; ${number(text.length - TEXT_HEAD - TEXT_TAIL)} are left out here`)),
    h("pre.quote", { dir: "auto" }, marked(text.slice(-TEXT_TAIL), words)));
  return place;
}

/** The text with the searched words marked. */
function marked(text, words) {
  if (!words.length || text.length > 500_000) return text;
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
  return text.split(pattern).map((piece, place) => (place % 2 ? h("mark", null, piece) : piece));
}
