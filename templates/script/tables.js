// Tables marked so are sorted by a click on a header; the table of all components is searched as well.
function sortKey(row, column) {
  const cell = row.cells[column];
  return cell.dataset.n === undefined ? cell.textContent : Number(cell.dataset.n);
}

// Rows without a number stay last in both directions.
function compare(a, b, direction) {
  const [left, right] = [typeof a === "number", typeof b === "number"];
  if (left !== right) return left ? -1 : 1;
  return direction * (left ? a - b : a.localeCompare(b, undefined, { numeric: true }));
}

function sortable(table) {
  const headers = Array.from(table.tHead.rows[0].cells);
  headers.forEach((header, column) => {
    const button = make("button", header.textContent, { type: "button" });
    header.replaceChildren(button);
    header.setAttribute("aria-sort", "none");
    const first = header.classList.contains("number") ? "descending" : "ascending";
    const second = first === "descending" ? "ascending" : "descending";
    button.addEventListener("click", () => {
      const next = header.getAttribute("aria-sort") === first ? second : first;
      headers.forEach((other) => other.setAttribute("aria-sort", "none"));
      header.setAttribute("aria-sort", next);
      const rows = Array.from(table.tBodies[0].rows, (row) => [sortKey(row, column), row]);
      rows.sort((a, b) => compare(a[0], b[0], next === "ascending" ? 1 : -1));
      table.tBodies[0].append(...rows.map((pair) => pair[1]));
    });
  });
}

function searchable(table, input, status) {
  const rows = Array.from(table.tBodies[0].rows, (row) => [row, row.textContent.toLowerCase()]);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach(([row, content]) => { row.hidden = !words.every((word) => content.includes(word)); });
    status.textContent = `${rows.filter(([row]) => !row.hidden).length} of ${rows.length} rows`;
  });
}

function startTables() {
  all("[data-sortable] table").forEach(sortable);
  all("input[data-searches]").forEach((input) => {
    const table = document.getElementById(input.dataset.searches);
    searchable(table, input, document.getElementById(`${input.dataset.searches}-status`));
  });
  // A table of many rows is one stop of the Tab key: arrows move between its rows.
  all("table").forEach((table) => {
    const rows = () => all("tbody tr[data-kind]", table).filter((row) => !row.hidden);
    if (!rows().length) return;
    rows().forEach((row, at) => { row.tabIndex = at ? -1 : 0; });
    table.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const row = event.target.closest("tr[data-kind]");
      if (!step || !row) return;
      event.preventDefault();
      const order = rows();
      const next = order[Math.max(0, Math.min(order.length - 1, order.indexOf(row) + step))];
      order.forEach((one) => { one.tabIndex = one === next ? 0 : -1; });
      next.focus();
    });
  });
}
