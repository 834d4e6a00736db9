// Transcripts are packed data: in the page itself, or in scripts beside it that are loaded when they are looked at.

const PARTS_HELD = 16, arriving = new Map(), bundles = new Map();

/** Called by the files beside the page, with their data and nothing else. */
function envwrightTranscripts(key, content) {
  arriving.get(key)?.(content);
}

/** The packed text of a part. A page from disk may not fetch a file, but it may run a script. */
function packedText(key, address) {
  const holder = [...document.querySelectorAll("script[data-transcripts]")].find((one) => one.dataset.transcripts === key);
  if (holder) return Promise.resolve(JSON.parse(holder.textContent));
  return new Promise((resolve, reject) => {
    const script = h("script", { src: address });
    const done = (act, value) => { arriving.delete(key); script.remove(); act(value); };
    arriving.set(key, (content) => done(resolve, content));
    script.addEventListener("error", () => done(reject, new Error(address)));
    script.addEventListener("load", () => { if (arriving.has(key)) done(reject, new Error(address)); });
    document.head.append(script);
  });
}

async function unpackedData(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** The transcripts of an environment or of a file: their rows, and parts with the conversations of many rows each. */
function transcriptBundle(key, address) {
  if (!bundles.has(key)) {
    const made = packedText(key, address).then(unpackedData).then(bundleOf);
    made.catch(() => bundles.delete(key));
    bundles.set(key, made);
  }
  return bundles.get(key);
}

function bundleOf(data) {
  const held = new Map(), names = data.parts || [];
  const part = (number) => {
    if (data.conversations) return Promise.resolve(data.conversations);
    const known = held.get(number) || packedText(names[number], `${document.documentElement.dataset.beside || ""}${names[number]}.js`).then(unpackedData);
    known.catch(() => held.delete(number));
    held.delete(number); // the one used last comes last
    held.set(number, known);
    if (held.size > PARTS_HELD) held.delete(held.keys().next().value);
    return known;
  };
  return {
    rows: data.rows, parts: data.conversations ? 1 : names.length, part,
    conversation: async (row) => (await part(row.place[0]))[row.place[1]],
  };
}

function transcriptAddress(name, id) {
  return `${document.documentElement.dataset.report || ""}#/transcripts/${encodeURIComponent(name)}${id ? `/${id}` : ""}`;
}

/** The transcripts of an environment in a report. */
function transcriptsOf(data) {
  const key = data.transcripts.file.replace(/^transcripts\//, "").replace(/\.js$/, "");
  return transcriptBundle(key, `${document.documentElement.dataset.beside || ""}${data.transcripts.file}`);
}

function transcriptsMissing(error) {
  return h("p.note", { role: "alert" }, "The transcripts could not be loaded from ", h("code", null, error.message),
    ". Keep the folder transcripts beside this page, or write one file: ", h("code", null, "envwright report open --one-file"), ".");
}

/** On an environment's page: what was chosen, each with its reason; loaded when it comes into view. */
function transcriptsSection(data) {
  if (!data.transcripts) return null;
  const chosen = () => {
    const place = h("div", null, h("p.muted", null, "Loading …"));
    transcriptsOf(data).then((bundle) => place.replaceChildren(chosenTable(data.name, bundle.rows)), (error) => place.replaceChildren(transcriptsMissing(error)));
    return place;
  };
  return part("transcripts", "Transcripts", `${number(data.transcripts.shown)} of ${plural(data.transcripts.of, "conversation")}`,
    () => [h("p", null, h("a", { href: transcriptAddress(data.name) }, `Read ${number(data.transcripts.shown)} conversations`), ": the best, the worst, the oddest, and those that findings rest on."), chosen()]);
}

function chosenTable(name, rows) {
  const lines = rows.flatMap((row) => row.lists.map(([list, why]) => [h("a", { href: transcriptAddress(name, row.id) }, `task ${row.task} by ${row.speaker}`), SPOKEN_BY[row.kind], list, h("span.said", { dir: "auto" }, why), row.reward]));
  return table("Chosen conversations", ["conversation", "from", "list", "why", "reward"], lines);
}
