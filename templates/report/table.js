// The table of all numbers: sorted by a click on a header, filtered by words, kind and quality, columns by choice.
function sortKey(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.n === undefined) return cell.textContent;
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
      const rows = Array.from(table.tBodies[0].rows, (row) => [sortKey(row, column), row]);
      rows.sort((a, b) => compare(a[0], b[0], direction));
      table.tBodies[0].append(...rows.map((pair) => pair[1]));
    });
  });
}

function filterable(table) {
  const input = document.getElementById("filter");
  const status = document.getElementById("filtered");
  const selects = all("select[data-filters]");
  const total = table.tBodies[0].rows.length;
  let rows = null; // their texts are gathered when they are needed first

  function filter() {
    rows = rows || Array.from(table.tBodies[0].rows, (row) => [row, row.textContent.toLowerCase()]);
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const exact = selects.filter((select) => select.value).map((select) => [select.dataset.filters, select.value]);
    let left = 0;
    rows.forEach(([row, content]) => {
      row.hidden = !words.every((word) => content.includes(word))
        || !exact.every(([name, value]) => row.dataset[name] === value);
      left += !row.hidden;
    });
    status.textContent = words.length || exact.length ? `${left} of ${total} rows` : `${total} rows`;
    table.dispatchEvent(new Event("filtered"));
  }

  input.addEventListener("input", filter);
  selects.forEach((select) => select.addEventListener("change", filter));
}

// One style sheet hides the columns that were not chosen: no cell has to know of its group.
function choosable(table, field) {
  const sheet = document.head.appendChild(make("style"));
  const groups = Array.from(table.tHead.rows[0].cells, (header) => header.dataset.group || "");

  function hide() {
    const boxes = all("input", field).filter((box) => !box.checked).map((box) => box.value);
    const hidden = groups.flatMap((group, at) => (boxes.includes(group) ? [at + 1] : []));
    const cells = hidden.map((at) => `#${table.id} tr>:nth-child(${at})`);
    sheet.textContent = cells.length ? `${cells.join(",")}{display:none}` : "";
  }

  field.addEventListener("change", hide);
  hide();
}

// What a row is about, gathered once: its kind and grade, and its component unless it is about several.
function describe(table) {
  const titles = Array.from(table.tHead.rows[0].cells, (header) => header.textContent);
  const [kind, quality] = [titles.indexOf("Kind"), titles.indexOf("Quality")];
  if (kind < 0 || quality < 0) return;
  Array.from(table.tBodies[0].rows).forEach((row) => {
    row.dataset.kind = row.cells[kind].textContent;
    row.dataset.quality = row.cells[quality].firstChild.textContent.trim();
    if (row.dataset.several === undefined) row.dataset.component = row.cells[0].textContent;
  });
}

function startTable() {
  const table = document.getElementById("component-table");
  if (!table) return;
  describe(table);
  sortable(table);
  filterable(table);
  const columns = document.getElementById("columns");
  if (columns) choosable(table, columns);
}
