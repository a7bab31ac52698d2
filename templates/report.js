"use strict";
// Draws the charts, follows the colour scheme, and sorts and filters the table. Needs only what the page carries.
(function () {
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const printing = window.matchMedia("print");
  const views = new Map();

  // The expression interpreter (ast) needs no eval, so the page's policy can forbid it.
  async function draw(place) {
    const name = place.dataset.chart;
    // The place has the text alternative; the drawing's own parts would only repeat it.
    const canvas = document.createElement("div");
    canvas.setAttribute("aria-hidden", "true");
    place.replaceChildren(canvas);
    const theme = dark.matches && !printing.matches ? "dark" : "light";
    const options = {
      actions: false, renderer: "svg", ast: true, defaultStyle: false,
      config: payload.themes[theme], tooltip: { theme: theme },
    };
    try {
      const result = await window.vegaEmbed(canvas, structuredClone(payload.specs[name]), options);
      const old = views.get(name);
      if (old) old.finalize();
      views.set(name, result);
      place.dataset.drawn = theme;
    } catch (error) {
      place.textContent = "This chart could not be drawn; its numbers are in the table below.";
      place.classList.add("failed");
      console.error(name, error);
    }
  }

  // What is folded away has no width to be drawn for: it is drawn when it is opened.
  function shown(place) {
    return place.closest("details:not([open])") === null;
  }

  function drawAll() {
    return Promise.all(Array.from(document.querySelectorAll("[data-chart]")).filter(shown).map(draw));
  }

  function opened(event) {
    const theme = dark.matches && !printing.matches ? "dark" : "light";
    const places = Array.from(event.target.querySelectorAll("[data-chart]")).filter(shown);
    places.filter((place) => place.dataset.drawn !== theme).forEach(draw);
  }

  function key(row, column, numeric) {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent;
    return cell.dataset.n === "" ? null : Number(cell.dataset.n);
  }

  // Rows without a number stay last in both directions.
  function compare(a, b, direction) {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
    return direction * order;
  }

  function sortable(table) {
    const headers = Array.from(table.tHead.rows[0].cells);
    headers.forEach((header, column) => {
      const numeric = header.classList.contains("number");
      header.querySelector("button").addEventListener("click", () => {
        const first = numeric ? "descending" : "ascending";
        const second = numeric ? "ascending" : "descending";
        const next = header.getAttribute("aria-sort") === first ? second : first;
        headers.forEach((other) => other.setAttribute("aria-sort", "none"));
        header.setAttribute("aria-sort", next);
        const direction = next === "ascending" ? 1 : -1;
        const rows = Array.from(table.tBodies[0].rows, (row) => [key(row, column, numeric), row]);
        rows.sort((a, b) => compare(a[0], b[0], direction));
        table.tBodies[0].append(...rows.map((pair) => pair[1]));
      });
    });
  }

  function filterable(table, input, status) {
    const rows = Array.from(table.tBodies[0].rows, (row) => [row, row.textContent.toLowerCase()]);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach(([row, content]) => {
        row.hidden = !words.every((word) => content.includes(word));
        shown += !row.hidden;
      });
      status.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
    });
  }

  const table = document.getElementById("component-table");
  if (table) {
    sortable(table);
    filterable(table, document.getElementById("filter"), document.getElementById("filtered"));
  }
  document.querySelectorAll("details.fold").forEach((fold) => fold.addEventListener("toggle", opened));
  dark.addEventListener("change", drawAll);
  printing.addEventListener("change", drawAll);
  drawAll();
})();
