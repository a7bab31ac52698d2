// Shows one moment of an inference, in one execution, or all of them; paper has all, and a link to a hidden one
// shows it. A part says in data-moment and data-execution what it is; each switch decides about one of them.
function startScenes() {
  const fields = all("fieldset[data-decides]");
  const parts = all(".moment");
  if (!fields.length) return;

  function chosen(field) {
    return all("input", field).find((input) => input.checked).value;
  }

  function choose(field, value) {
    all("input", field).forEach((input) => { input.checked = input.value === value; });
  }

  function agrees(part, field) {
    return chosen(field) === "" || part.dataset[field.dataset.decides] === chosen(field);
  }

  // What was not measured leaves nothing to show: then all that the other switches hide comes back.
  function update(kept) {
    if (!parts.some((part) => fields.every((field) => agrees(part, field)))) {
      fields.filter((field) => field !== kept).forEach((field) => choose(field, ""));
    }
    parts.forEach((part) => { part.hidden = !fields.every((field) => agrees(part, field)); });
    drawRest();
  }

  function follow(anchor) {
    const target = anchor.length > 1 && document.getElementById(anchor.slice(1));
    const part = target && target.closest(".moment[hidden]");
    if (!part) return;
    fields.forEach((field) => choose(field, part.dataset[field.dataset.decides]));
    update();
    target.scrollIntoView();
  }

  fields.forEach((field) => field.addEventListener("change", () => update(field)));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link) follow(link.getAttribute("href"));
  });
  window.addEventListener("hashchange", () => follow(window.location.hash));
  let before = [];
  beforePaper.push(() => {
    before = fields.map(chosen);
    fields.forEach((field) => choose(field, ""));
    update();
  });
  afterPaper.push(() => {
    fields.forEach((field, at) => choose(field, before[at]));
    update();
  });
  update();
  follow(window.location.hash);
}
