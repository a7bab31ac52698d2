// Saves what the page carries as files: made here, so that no request leaves the page.
function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type: type }));
  const link = make("a", undefined, { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// The files are packed (zlib, then base64), which makes them about a tenth of their size.
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

// Rows of cells as text; a quoted cell may hold commas, line ends and doubled quotes (RFC 4180).
function parseCsv(text) {
  const rows = [[]];
  const cell = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)/gy;
  while (cell.lastIndex < text.length) {
    const found = cell.exec(text);
    if (!found) throw new Error("the table is not CSV");
    const quoted = found[1].startsWith('"');
    rows[rows.length - 1].push(quoted ? found[1].slice(1, -1).replaceAll('""', '"') : found[1]);
    if (found[2] !== "," && cell.lastIndex < text.length) rows.push([]);
  }
  return rows;
}

function plain(cell, isText) {
  if (cell === "") return null;
  if (isText) return cell;
  if (cell === "True" || cell === "False") return cell === "True";
  return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(cell) ? Number(cell) : cell;
}

function csvToJson(text) {
  const [columns, ...rows] = parseCsv(text);
  const texts = columns.map((column) => payload.downloads.texts.includes(column));
  const records = rows.map((row) => Object.fromEntries(
    columns.map((column, at) => [column, plain(row[at], texts[at])])));
  return JSON.stringify(records, null, 1) + "\n";
}

// A spreadsheet computes a cell that begins like a formula: such a text gets an apostrophe before it.
function quoted(cell) {
  const text = /^\s*(?:[=@]|[+-].*[(|!=])/s.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function tableToCsv(table) {
  const rows = Array.from(table.rows, (row) => Array.from(row.cells, (cell) => quoted(cell.textContent)).join(","));
  return rows.join("\n") + "\n";
}

function plainName(text) {
  return text.replace(/[^A-Za-z0-9._+-]+/g, "-").replace(/^[.-]+|[.-]+$/g, "") || "energyscope";
}

async function saveFile(button) {
  const { file, format } = button.dataset;
  const name = `${plainName(payload.downloads.run)}-${file}`;
  try {
    const text = await unpack(payload.downloads.files[file]);
    if (format === "csv") return save(name, "text/csv", text);
    const json = file.endsWith(".csv") ? csvToJson(text) : text;
    save(name.replace(/\.csv$/, ".json"), "application/json", json);
  } catch (error) {
    document.getElementById("download-said").textContent = "This browser cannot unpack the files of the page.";
    console.error(file, error);
  }
}

function startDownloads() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-file], button.save-table");
    if (!button) return;
    if (button.dataset.file) return void saveFile(button);
    const figure = button.closest("figure");
    const view = figure.querySelector("[data-chart]").dataset.view;
    const run = payload.downloads ? `${plainName(payload.downloads.run)}-` : "";
    const name = plainName(view ? `${figure.id}-${view}` : figure.id);
    save(`${run}${name}.csv`, "text/csv", tableToCsv(figure.querySelector("details table")));
  });
}
