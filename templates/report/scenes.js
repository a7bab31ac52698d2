// Shows one moment of an inference or all of them; paper has all, and a link to a hidden one shows it.
function startScenes() {
  const field = document.getElementById("moments");
  if (!field) return;
  const parts = all(".moment");

  function choose(name) {
    all("input", field).forEach((input) => { input.checked = input.value === name; });
    parts.forEach((part) => { part.hidden = name !== "" && part.dataset.moment !== name; });
    drawRest();
  }

  function chosen() {
    return all("input", field).find((input) => input.checked).value;
  }

  function follow(anchor) {
    const target = anchor.length > 1 && document.getElementById(anchor.slice(1));
    const part = target && target.closest(".moment[hidden]");
    if (!part) return;
    choose(part.dataset.moment);
    target.scrollIntoView();
  }

  field.addEventListener("change", () => choose(chosen()));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link) follow(link.getAttribute("href"));
  });
  window.addEventListener("hashchange", () => follow(window.location.hash));
  let before = null;
  beforePaper.push(() => {
    before = chosen();
    choose("");
  });
  afterPaper.push(() => choose(before));
  choose(chosen());
  follow(window.location.hash);
}
