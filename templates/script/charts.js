// Draws each chart when it comes near the window, and the others while the page has nothing else to do.
const drawings = new Map(); // place -> what Vega-Embed made of it, and of which specification
const wanted = new Map(); // place -> the drawing that was last begun for it
const drawnFor = new Map(); // place -> its width when its drawing was last begun
const nearby = new Set();
const afterDrawing = []; // functions of a drawing and its specification

// A figure has a view for some states of the page's switches; -1 where it has none for this one.
function viewOf(place) {
  return payload.figures[place.dataset.chart].findIndex(({ when }) => (
    Object.entries(when).every(([dimension, value]) => state[dimension] === undefined || state[dimension] === value)));
}

function specOf(place) {
  const view = payload.figures[place.dataset.chart][viewOf(place)];
  return view && view.spec;
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
  if (printing) return false;
  return Math.abs(width - place.clientWidth) > 1 && drawnFor.get(place) !== place.clientWidth;
}

function turnOf(place) {
  return `${theme()} ${viewOf(place)}`;
}

function stale(place) {
  return shown(place) && viewOf(place) >= 0 && (wanted.get(place) !== turnOf(place) || misfit(place));
}

// The expression interpreter (ast) needs no eval, so the page's policy can forbid it.
async function draw(place) {
  const scheme = theme();
  const turn = turnOf(place);
  const source = specOf(place);
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
    const result = await window.vegaEmbed(canvas, structuredClone(source), options);
    // A legend has as many columns as the plot's width has room for, which is known only after the first layout.
    await result.view.resize().runAsync();
    if (wanted.get(place) !== turn) return result.finalize(); // something else was asked for meanwhile
    const old = drawings.get(place);
    if (old) old.result.finalize();
    drawings.set(place, { result: result, spec: source });
    afterDrawing.forEach((then) => then(result, source));
    place.dataset.drawn = scheme;
    place.dataset.shown = String(viewOf(place)); // which of the figure's views stands there
    place.classList.remove("failed");
  } catch (error) {
    place.textContent = "This chart could not be drawn; its numbers are in the table below.";
    place.classList.add("failed");
    console.error(place.dataset.chart, error);
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
    if (channel === "x" && of.axis !== null && of.axis !== undefined) axis = 42;
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
  const spec = specOf(place) || {};
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
