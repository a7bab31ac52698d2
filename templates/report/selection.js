// One kind, one component or one group of components at a time is highlighted in every chart that knows of it, and
// in the table. A group is what a mark stands for that is about several components, such as two layers left out.
let picked = null; // {kind, name or null, components or null, groups}

function startSelection() {
  const bar = document.getElementById("picker");
  if (!bar) return;
  const kinds = document.getElementById("pick-kind");
  const components = document.getElementById("pick-component");
  const said = document.getElementById("picked");
  const rows = all("#component-table tbody tr");
  const buttons = rows.map((row) => row.querySelector("button.pick"));
  const groups = new Map(Object.values(payload.specs).flatMap((spec) => valueIn(spec, "groups") || [])
    .map((group) => [group.name, group]));

  function valueIn(spec, name) {
    const found = (spec.params || []).find((param) => param.name === name);
    return found && found.value;
  }

  function has(spec) {
    return valueIn(spec, "picked") !== undefined;
  }

  // All of a kind, one component of it, or a group; with the groups that a chart of them shows for it: those of
  // several components that lie within what is picked, and all that hold the one component.
  function choice(kind, name) {
    if (name === null) return { kind: kind, name: null, components: null, groups: [] };
    const components = groups.has(name) ? groups.get(name).components : [name];
    const fits = (group) => components.length > 1
      ? group.components.every((one) => components.includes(one)) : group.components.includes(name);
    const shown = Array.from(groups.values()).filter((group) => group.kind === kind && fits(group));
    return { kind: kind, name: name, components: components, groups: shown.map((group) => group.name) };
  }

  function signal(result) {
    result.view.signal("picked", picked).runAsync();
  }

  function matches(row) {
    if (picked === null) return false;
    if (picked.components !== null && row.dataset.component !== undefined) {
      return picked.components.includes(row.dataset.component);
    }
    return row.dataset.kind === picked.kind;
  }

  function same(value) {
    return picked !== null && value.kind === picked.kind && value.name === picked.name;
  }

  function option(select, value, text) {
    if (!all("option", select).some((one) => one.value === value)) {
      select.append(make("option", text, { value: value }));
    }
    select.value = value;
  }

  // The components of the chosen kind, each once however many moments it was measured in, and their groups.
  function listComponents() {
    const names = new Set(rows.filter((row) => picked && row.dataset.kind === picked.kind)
      .map((row) => row.dataset.component).filter((name) => name !== undefined));
    if (picked && picked.name !== null && !groups.has(picked.name)) names.add(picked.name);
    groups.forEach((group) => { if (picked && group.kind === picked.kind) names.add(group.name); });
    const options = Array.from(names, (name) => make("option", name, { value: name }));
    components.replaceChildren(make("option", `all of ${picked ? picked.kind : ""}`, { value: "" }), ...options);
    components.value = picked && picked.name !== null ? picked.name : "";
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
    return choice(row.dataset.kind, component === undefined ? null : component);
  }

  function pick(value) {
    picked = value;
    option(kinds, picked ? picked.kind : "", picked ? picked.kind : "nothing");
    listComponents();
    bar.classList.toggle("active", picked !== null);
    const found = markRows();
    const what = picked && (picked.name === null ? picked.kind : picked.name);
    said.textContent = picked ? `Highlighted in the charts and in ${found} of ${rows.length} rows: ${what}` : "";
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
    const row = all("#component-table tbody tr.picked").find((one) => !one.hidden); // as they are sorted
    const room = row && row.closest(".tall");
    if (room) room.scrollTop += row.getBoundingClientRect().top - room.getBoundingClientRect().top - 60;
  }

  afterDrawing.push((result, spec) => {
    if (!has(spec)) return;
    if (picked !== null) signal(result);
    result.view.addEventListener("click", (event, item) => {
      const datum = item && item.datum;
      if (!datum || !datum.kind) return;
      const name = datum.group || datum.component;
      toggle(choice(String(datum.kind), name ? String(name) : null));
      revealRow();
    });
  });

  function visibleButtons() {
    return all("#component-table tbody button.pick").filter((button) => button.offsetParent !== null);
  }

  // The arrow keys move between the rows, so that one stop of the Tab key passes the whole table.
  function move(from, step) {
    const order = visibleButtons();
    const to = order[Math.max(0, Math.min(order.length - 1, order.indexOf(from) + step))];
    focusOn(to);
    to.focus();
  }

  function focusOn(button) {
    buttons.forEach((one) => { one.tabIndex = one === button ? 0 : -1; });
  }

  // That stop must not be in a row that a filter hides: no key would lead into the table.
  function keepStop() {
    const stop = buttons.find((button) => button.tabIndex === 0);
    if (!stop || stop.offsetParent === null) focusOn(visibleButtons()[0]);
  }

  const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  const table = document.getElementById("component-table");
  if (table) {
    buttons.forEach((button) => button.setAttribute("aria-pressed", "false"));
    focusOn(buttons[0]);
    table.addEventListener("filtered", keepStop);
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
    pick(kinds.value ? choice(kinds.value, null) : null);
    revealRow();
  });
  components.addEventListener("change", () => {
    pick(choice(picked.kind, components.value || null));
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
