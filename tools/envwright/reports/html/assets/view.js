// The page of a file's transcripts: `envwright view`.

function viewing() {
  const place = find("transcripts-place"), link = (id) => `#rollout-${id}`;
  transcriptBundle("index", `${document.documentElement.dataset.beside}index.js`).then((bundle) => {
    const browser = transcriptBrowser(bundle, link);
    const route = () => { const id = location.hash.replace(/^#rollout-/, ""); if (id && id !== location.hash) browser.open(id); };
    place.replaceChildren(browser);
    browser.ready();
    addEventListener("hashchange", route);
    route();
    document.documentElement.dataset.ready = "yes";
  }, (error) => {
    place.replaceChildren(transcriptsMissing(error));
    document.documentElement.dataset.ready = "yes";
  });
}

theme();
printing();
viewing();
