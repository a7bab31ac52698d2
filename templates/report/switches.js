// Shows another view of a figure in its place: its chart, its words and its table. Figures of one switch go together.
function contents(figure) {
  return {
    place: figure.querySelector("[data-chart]"),
    caption: figure.querySelector(".caption"),
    notes: figure.querySelector(".notes"),
    table: figure.querySelector("details table"),
  };
}

// A figure's title stands in its heading, and names its switch, what scrolls in it and its table.
function entitle(figure, title) {
  all("h3, [data-title], details caption", figure).forEach((place) => { place.textContent = title; });
  all(".scroll[aria-label]", figure).forEach((region) => region.setAttribute("aria-label", title));
}

function own(figure) {
  const { place, caption, notes, table } = contents(figure);
  return {
    title: figure.querySelector("h3").textContent, summary: place.getAttribute("aria-label"),
    caption: caption.textContent, notes: Array.from(notes.children), parts: [table.tHead, table.tBodies[0]],
  };
}

function built(view, title) {
  const head = make("thead");
  head.append(make("tr"));
  head.rows[0].append(...view.table.columns.map((column) => make("th", column, { scope: "col" })));
  const body = make("tbody");
  view.table.rows.forEach((cells) => {
    const row = make("tr");
    row.append(...cells.map((cell, at) => (at ? make("td", cell) : make("th", cell, { scope: "row" }))));
    body.append(row);
  });
  const notes = view.notes.map((note) => make("strong", note, { class: "note" }));
  return {
    title: view.title || title, summary: view.summary, caption: view.caption, notes: notes, parts: [head, body],
  };
}

function show(figure, view, key) {
  const { place, caption, notes, table } = contents(figure);
  entitle(figure, view.title);
  place.setAttribute("aria-label", view.summary);
  caption.textContent = view.caption;
  notes.replaceChildren(...view.notes);
  table.tHead.replaceWith(view.parts[0]);
  table.tBodies[0].replaceWith(view.parts[1]);
  place.dataset.view = key;
  if (nearby.has(place)) drawStale([place]);
  drawRest();
}

// Returns a function that shows a view by its key, "" being the figure's own; one that it lacks changes nothing.
function switchable(field) {
  const figure = field.closest("figure");
  const name = figure.querySelector("[data-chart]").dataset.chart;
  const views = new Map([["", own(figure)]]);
  return (key) => {
    const choice = all("input", field).find((input) => input.value === key);
    if (!choice) return;
    choice.checked = true;
    if (!views.has(key)) views.set(key, built(payload.views[name][key], views.get("").title));
    show(figure, views.get(key), key);
  };
}

function startSwitches() {
  const fields = all("figure fieldset.switch");
  const shows = new Map(fields.map((field) => [field, switchable(field)]));
  fields.forEach((field) => {
    const same = fields.filter((other) => other === field || (
      field.dataset.switch && other.dataset.switch === field.dataset.switch));
    field.addEventListener("change", (event) => same.forEach((other) => shows.get(other)(event.target.value)));
  });
}
