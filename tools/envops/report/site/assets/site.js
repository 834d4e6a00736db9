
// The site's pages: search in the catalogue, and the data of the page made into what is looked at.

function searching() {
  const controls = find("controls");
  if (!controls) return;
  const cards = [...find("cards").children];
  let verdict = "";
  const apply = () => {
    const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const card of cards) {
      const fits = (!verdict || card.dataset.verdict === verdict) && words.every((word) => card.dataset.search.includes(word));
      card.hidden = !fits;
      count += fits;
    }
    find("shown").textContent = count === cards.length ? "" : `${count} of ${cards.length} shown`;
    find("nothing").hidden = count > 0;
  };
  const pressed = (wanted) => {
    verdict = wanted;
    for (const chip of controls.querySelectorAll(".chip")) chip.setAttribute("aria-pressed", String(chip.dataset.verdict === verdict));
    apply();
  };
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("click", (event) => { const chip = event.target.closest(".chip"); if (chip) pressed(chip.dataset.verdict); });
  controls.addEventListener("input", apply);
  find("reset").addEventListener("click", () => { find("search").value = ""; pressed(""); find("search").focus(); });
}

function mounting() {
  const holder = find("data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  if (holder.dataset.kind === "run") find("run-place").replaceWith(runView(data));
  else {
    const recorded = data.profiles.filter((one) => one.source === "recording");
    const baseline = recorded.length && spreadPicture(recorded);
    if (baseline && find("baseline-pictures")) find("baseline-pictures").replaceWith(baseline);
    find("evidence-place").replaceWith(evidence(data, (part) => `#section-${part}`));
  }
}

theme();
printing();
searching();
mounting();
document.documentElement.dataset.ready = "yes";
