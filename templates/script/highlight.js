// A click on a mark or a row highlights a component, with what it is part of and what is part of it, or a kind, in
// every chart and table; a second click or Escape clears it. A click on a part of a zoomable chart zooms into it.
let picked = null; // {kind, component or null}
const parents = new Map(); // component -> the component that it is part of
const kindOf = new Map();
payload.tree.forEach(([name, kind, parent]) => {
  parents.set(name, parent);
  kindOf.set(name, kind);
});

function line(name) {
  const found = [];
  for (let one = name; one !== undefined && one !== null && !found.includes(one); one = parents.get(one)) found.push(one);
  return found;
}

// What stays as it is: the components in line with the picked one, or all of the kind with theirs.
function lit() {
  if (picked === null) return null;
  const names = Array.from(kindOf.keys());
  const chosen = picked.component !== null ? [picked.component] : names.filter((name) => kindOf.get(name) === picked.kind);
  const above = new Set(chosen.flatMap(line));
  const below = names.filter((name) => line(name).some((one) => chosen.includes(one)));
  const components = Array.from(new Set([...above, ...below, ...chosen]));
  const kinds = new Set(components.map((name) => kindOf.get(name)).filter(Boolean));
  return { kinds: Array.from(kinds.add(picked.kind)), components: picked.component !== null ? components : null };
}

function parameter(spec, name) {
  return (spec.params || []).find((one) => one.name === name);
}

// A chart that knows nothing of what is highlighted stays as it is.
function setLit(result, spec, value) {
  if (!parameter(spec, "lit")) return;
  const known = value !== null && parameter(spec, "kinds").value.includes(picked.kind);
  result.view.signal("lit", known ? value : null).runAsync();
}

function markRows(value) {
  all("tr[data-kind]").forEach((row) => {
    const { kind, component } = row.dataset;
    const on = value !== null && (picked.component !== null && component !== undefined
      ? component === picked.component : kind === picked.kind);
    row.classList.toggle("lit", on);
  });
}

function pick(kind, component) {
  const same = picked !== null && picked.kind === kind && picked.component === component;
  picked = kind === null || same ? null : { kind: kind, component: component };
  const value = lit();
  markRows(value);
  drawings.forEach(({ result, spec }) => setLit(result, spec, value));
}

function zoom(result, spec, datum) {
  if (!parameter(spec, "from")) return;
  const all = [parameter(spec, "from").value, parameter(spec, "to").value];
  const here = [result.view.signal("from"), result.view.signal("to")];
  const there = datum && datum.right > datum.x && datum.y > 0 ? [datum.x, datum.right] : all;
  const same = there[0] === here[0] && there[1] === here[1];
  const [from, to] = same ? all : there;
  result.view.signal("from", from).signal("to", to).runAsync();
}

function startHighlight() {
  afterDrawing.push((result, spec) => {
    if (picked !== null) setLit(result, spec, lit());
    result.view.addEventListener("click", (event, item) => {
      const datum = item && item.datum;
      if (datum && datum.kind) pick(String(datum.kind), datum.component ? String(datum.component) : null);
      zoom(result, spec, datum);
    });
  });
  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-kind]");
    if (row && !row.contains(event.target.closest("a, button, summary"))) pick(row.dataset.kind, row.dataset.component || null);
  });
  document.addEventListener("keydown", (event) => {
    const row = event.target.closest && event.target.closest("tr[data-kind]");
    if (row && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      pick(row.dataset.kind, row.dataset.component || null);
    }
    if (event.key !== "Escape") return;
    pick(null, null);
    drawings.forEach(({ result, spec }) => zoom(result, spec, null));
  });
}
