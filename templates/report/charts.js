// Draws each chart when it comes near the window, and the others while the page has nothing else to do.
const drawings = new Map(); // place -> what Vega-Embed made of it, and of which specification
const wanted = new Map(); // place -> the drawing that was last begun for it
const drawnFor = new Map(); // place -> its width when its drawing was last begun
const nearby = new Set();
const afterDrawing = []; // functions of a drawing and its specification

// The figure's own specification has its name, that of a view the name of both.
function specName(place) {
  const view = place.dataset.view;
  return view ? `${place.dataset.chart}--${view}` : place.dataset.chart;
}

// What is folded or switched away has no width to be drawn for: it is drawn when it is shown.
function shown(place) {
  return place.closest("details:not([open]), [hidden]") === null;
}

// A drawing that was hidden while it was made, or while the window changed its size, has no width left. One that was
// made for paper has another, and Vega leaves one as it is whose place becomes just as wide as its plot was. Each is
// drawn again once, in case that a chart cannot be as wide as its place.
function misfit(place) {
  const drawing = "shown" in place.dataset && place.querySelector("svg");
  if (!drawing || place.clientWidth === 0) return false;
  const width = drawing.getBoundingClientRect().width;
  if (width === 0) return true;
  if (printing || payload.specs[place.dataset.shown].width !== "container") return false;
  return Math.abs(width - place.clientWidth) > 1 && drawnFor.get(place) !== place.clientWidth;
}

function stale(place) {
  return shown(place) && (wanted.get(place) !== `${theme()} ${specName(place)}` || misfit(place));
}

// The expression interpreter (ast) needs no eval, so the page's policy can forbid it.
async function draw(place) {
  const name = specName(place);
  const scheme = theme();
  const turn = `${scheme} ${name}`;
  wanted.set(place, turn);
  drawnFor.set(place, place.clientWidth);
  delete place.dataset.shown;
  // The place has the text alternative; the drawing's own parts would only repeat it.
  const canvas = make("div", undefined, { "aria-hidden": "true" });
  place.style.minHeight = `${place.offsetHeight}px`;
  place.replaceChildren(canvas);
  const options = {
    actions: false, renderer: "svg", ast: true, defaultStyle: false,
    config: payload.themes[scheme], tooltip: { theme: scheme },
  };
  try {
    const spec = structuredClone(payload.specs[name]);
    const result = await window.vegaEmbed(canvas, spec, options);
    if (wanted.get(place) !== turn) return result.finalize(); // something else was asked for meanwhile
    const old = drawings.get(place);
    if (old) old.result.finalize();
    drawings.set(place, { result: result, spec: payload.specs[name] });
    afterDrawing.forEach((then) => then(result, payload.specs[name]));
    place.dataset.drawn = scheme;
    place.dataset.shown = name; // which of the figure's drawings stands there
    place.classList.remove("failed");
  } catch (error) {
    place.textContent = "This chart could not be drawn; its numbers are in the table below.";
    place.classList.add("failed");
    console.error(name, error);
  }
  place.style.minHeight = "";
}

function drawStale(places) {
  return Promise.all(places.filter(stale).map(draw));
}

let waiting = false;

// A busy machine, or a page that nobody looks at, may never be idle: drawing goes on all the same.
function whenIdle(work) {
  if (window.requestIdleCallback) window.requestIdleCallback(work, { timeout: 200 });
  else window.setTimeout(work, 20);
}

// One chart at a time, so that the page stays quick to answer.
function drawRest() {
  if (waiting) return;
  waiting = true;
  whenIdle(async () => {
    waiting = false;
    const next = all("[data-chart]").find(stale);
    if (!next) return;
    await draw(next);
    drawRest();
  });
}

function drawAgain() {
  drawStale(Array.from(nearby));
  drawRest();
}

// How much a specification puts above and below its plot: its legends, one for each field, and the axis across.
function around(spec) {
  const legends = new Map();
  let axis = 12;
  (spec.layer || [spec]).flatMap((part) => Object.entries(part.encoding || {})).forEach(([channel, of]) => {
    if (channel === "x" && of.axis !== null) axis = 42;
    const legend = of.legend || {};
    if (!["top", "bottom"].includes(legend.orient)) return;
    const entries = ((of.scale || {}).domain || [of.field]).length;
    const rows = Math.ceil(entries / (Number(legend.columns) || entries));
    legends.set(of.field, legend.gradientLength ? 44 : 16 * rows + 6);
  });
  return axis + Array.from(legends.values()).reduce((sum, height) => sum + height, 0);
}

// Room is kept for what is not drawn yet, so that the page does not move below a reader.
function keepRoom(place) {
  const spec = payload.specs[place.dataset.chart] || {};
  if (typeof spec.height === "number") place.style.minHeight = `${spec.height + around(spec)}px`;
}

function startCharts() {
  const places = all("[data-chart]");
  places.forEach(keepRoom);
  const watch = new IntersectionObserver((entries) => {
    entries.forEach((entry) => (entry.isIntersecting ? nearby.add(entry.target) : nearby.delete(entry.target)));
    drawStale(Array.from(nearby));
  }, { rootMargin: "400px 0px" });
  places.forEach((place) => watch.observe(place));
  document.addEventListener("toggle", (event) => {
    drawStale(all("[data-chart]", event.target));
  }, true);
  dark.addEventListener("change", (event) => {
    night = event.matches;
    drawAgain();
  });
  let resized;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => {
      drawnFor.clear();
      drawAgain();
    }, 150);
  });
  drawRest();
}
