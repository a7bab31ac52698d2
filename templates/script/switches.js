// The page's switches: each sets one dimension of its state, and everything that depends on it follows.
function tableOf(view) {
  const head = make("thead");
  head.append(make("tr"));
  head.rows[0].append(...view.table.columns.map((column) => make("th", column, { scope: "col" })));
  const body = make("tbody");
  view.table.rows.forEach((cells) => {
    const row = make("tr");
    row.append(...cells.map((cell, at) => (at ? make("td", cell) : make("th", cell, { scope: "row" }))));
    body.append(row);
  });
  return [head, body];
}

const firstTables = new Map(); // the numbers of a figure's first view, which stand in the page

// A figure's chart and the numbers behind it; one that has nothing for this state is not shown.
function follow(place) {
  const figure = place.closest("figure");
  const at = viewOf(place);
  figure.hidden = at < 0;
  const table = figure.querySelector("details.numbers table");
  if (at < 0 || !table || figure.dataset.view === String(at)) return;
  if (!firstTables.has(figure)) firstTables.set(figure, [table.tHead, table.tBodies[0]]);
  const [head, body] = at ? tableOf(payload.figures[place.dataset.chart][at]) : firstTables.get(figure);
  table.tHead.replaceWith(head);
  table.tBodies[0].replaceWith(body);
  figure.dataset.view = String(at);
}

function update() {
  all("[data-when]").forEach((part) => { part.hidden = state[part.dataset.when] !== part.dataset.is; });
  all("[data-chart]").forEach(follow);
  drawStale(Array.from(nearby));
  drawRest();
}

function choose(dimension, value) {
  state[dimension] = value;
  all(`fieldset[data-dimension="${dimension}"] input`).forEach((input) => { input.checked = input.value === value; });
}

// A link to what another state shows brings that state about.
function bring(anchor) {
  const target = anchor.length > 1 && document.getElementById(decodeURIComponent(anchor.slice(1)));
  const part = target && target.closest("[data-when][hidden]");
  if (!part) return;
  choose(part.dataset.when, part.dataset.is);
  update();
  target.scrollIntoView();
}

function startSwitches() {
  const fields = all("fieldset[data-dimension]");
  fields.forEach((field) => {
    const { dimension } = field.dataset;
    if (!(dimension in state)) state[dimension] = field.querySelector("input").value;
    field.addEventListener("change", (event) => {
      choose(dimension, event.target.value);
      update();
    });
  });
  window.addEventListener("hashchange", () => bring(window.location.hash));
  update();
  bring(window.location.hash);
}
