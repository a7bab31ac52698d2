// One kind or one component at a time is highlighted in every chart that knows of it, and in the table.
let picked = null; // {kind, component or null}

function startSelection() {
  const bar = document.getElementById("picker");
  if (!bar) return;
  const kinds = document.getElementById("pick-kind");
  const components = document.getElementById("pick-component");
  const said = document.getElementById("picked");
  const rows = all("#component-table tbody tr");
  const buttons = rows.map((row) => row.querySelector("button.pick"));

  function has(spec) {
    return (spec.params || []).some((param) => param.name === "picked");
  }

  function signal(result) {
    result.view.signal("picked", picked).runAsync();
  }

  function matches(row) {
    if (picked === null) return false;
    if (picked.component !== null && row.dataset.component !== undefined) {
      return row.dataset.component === picked.component;
    }
    return row.dataset.kind === picked.kind;
  }

  function same(value) {
    return picked !== null && value.kind === picked.kind && value.component === picked.component;
  }

  function option(select, value, text) {
    if (!all("option", select).some((one) => one.value === value)) {
      select.append(make("option", text, { value: value }));
    }
    select.value = value;
  }

  // The components of the chosen kind, each once however many moments it was measured in.
  function listComponents() {
    const names = new Set(rows.filter((row) => picked && row.dataset.kind === picked.kind)
      .map((row) => row.dataset.component).filter((name) => name !== undefined));
    if (picked && picked.component) names.add(picked.component);
    const options = Array.from(names, (name) => make("option", name, { value: name }));
    components.replaceChildren(make("option", `all of ${picked ? picked.kind : ""}`, { value: "" }), ...options);
    components.value = picked && picked.component ? picked.component : "";
    components.closest("label").hidden = names.size < 2;
  }

  function markRows() {
    let found = 0;
    rows.forEach((row, at) => {
      const on = matches(row);
      row.classList.toggle("picked", on);
      buttons[at].setAttribute("aria-pressed", String(on && same(valueOf(row))));
      found += on;
    });
    return found;
  }

  function valueOf(row) {
    const component = row.dataset.component;
    return { kind: row.dataset.kind, component: component === undefined ? null : component };
  }

  function pick(value) {
    picked = value;
    option(kinds, picked ? picked.kind : "", picked ? picked.kind : "nothing");
    listComponents();
    bar.classList.toggle("active", picked !== null);
    const found = markRows();
    const what = picked && (picked.component === null ? picked.kind : picked.component);
    said.textContent = picked ? `${what} is highlighted in the charts and in ${found} of ${rows.length} rows` : "";
    drawings.forEach((drawing) => {
      if (has(drawing.spec)) signal(drawing.result);
    });
  }

  // A second click on the same mark or row takes the highlight away.
  function toggle(value) {
    pick(same(value) ? null : value);
  }

  // Brings the first highlighted row into the table's own window, without moving the page.
  function revealRow() {
    const row = rows.find((one) => one.classList.contains("picked") && !one.hidden);
    const room = row && row.closest(".tall");
    if (room) room.scrollTop += row.getBoundingClientRect().top - room.getBoundingClientRect().top - 60;
  }

  afterDrawing.push((result, spec) => {
    if (!has(spec)) return;
    if (picked !== null) signal(result);
    result.view.addEventListener("click", (event, item) => {
      const datum = item && item.datum;
      if (!datum || !datum.kind) return;
      toggle({ kind: String(datum.kind), component: datum.component ? String(datum.component) : null });
      revealRow();
    });
  });

  // The arrow keys move between the rows, so that one stop of the Tab key passes the whole table.
  function move(from, step) {
    const visible = buttons.filter((button) => button.offsetParent !== null);
    const order = visible.sort((a, b) => a.compareDocumentPosition(b) & 4 ? -1 : 1);
    const to = order[Math.max(0, Math.min(order.length - 1, order.indexOf(from) + step))];
    focusOn(to);
    to.focus();
  }

  function focusOn(button) {
    buttons.forEach((one) => { one.tabIndex = one === button ? 0 : -1; });
  }

  const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  const table = document.getElementById("component-table");
  if (table) {
    buttons.forEach((button) => button.setAttribute("aria-pressed", "false"));
    focusOn(buttons[0]);
    table.tBodies[0].addEventListener("click", (event) => {
      const button = event.target.closest("button.pick");
      if (!button) return;
      focusOn(button);
      toggle(valueOf(button.closest("tr")));
    });
    table.tBodies[0].addEventListener("keydown", (event) => {
      const button = event.target.closest("button.pick");
      if (!button || !(event.key in steps)) return;
      event.preventDefault();
      move(button, steps[event.key]);
    });
  }
  kinds.addEventListener("change", () => {
    pick(kinds.value ? { kind: kinds.value, component: null } : null);
    revealRow();
  });
  components.addEventListener("change", () => {
    pick({ kind: picked.kind, component: components.value || null });
    revealRow();
  });
  document.getElementById("pick-clear").addEventListener("click", () => {
    pick(null);
    kinds.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && picked !== null) pick(null);
  });
}
