
// The site's pages: search in the catalogue, and the data of the page made into what is looked at.

function searching() {
  if (find("controls")) narrowing([...find("cards").children], () => true);
}

function mounting() {
  const holder = find("data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  if (holder.dataset.kind === "run") find("run-place").replaceWith(runView(data));
  else {
    const recorded = data.profiles.filter((one) => one.source === "recording");
    const baseline = recorded.length && spreadPicture(recorded);
    const versions = versionsPicture(data.recordings);
    find("baseline-pictures")?.replaceWith(...[versions, baseline].filter(Boolean));
    find("evidence-place").replaceWith(evidence(data));
  }
}

theme();
printing();
searching();
mounting();
document.documentElement.dataset.ready = "yes";
