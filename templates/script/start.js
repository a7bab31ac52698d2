// Controls that do nothing without this script are hidden until it runs.
all("[data-scripted]").forEach((control) => { control.hidden = false; });

startSwitches();
startTables();
startHighlight();
startDownloads();
startCharts();

// What a link led to stays where the link put it while charts above it are drawn, until the reader does anything.
let landed = window.location.hash.length > 1 ? document.getElementById(decodeURIComponent(window.location.hash.slice(1))) : null;
["wheel", "touchmove", "pointerdown", "keydown"].forEach((does) => {
  window.addEventListener(does, () => { landed = null; }, { capture: true, passive: true });
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  if (link) landed = document.getElementById(decodeURIComponent(link.getAttribute("href").slice(1)));
});
new ResizeObserver(() => {
  if (landed !== null && !printing) landed.scrollIntoView({ behavior: "instant" });
}).observe(document.body);

// Paper is light and has what is shown and what is folded, but for the longest tables: drawing ends before the
// browser lays the pages out.
let unfolded = [];

function toPaper(on) {
  if (printing === on) return; // two events tell of one print
  printing = on;
  if (on) unfolded = all("details.fold:not([open])").filter((fold) => !fold.querySelector(".tall"));
  unfolded.forEach((fold) => { fold.open = on; });
  drawStale(all("[data-chart]"));
}

window.addEventListener("beforeprint", () => toPaper(true));
window.addEventListener("afterprint", () => toPaper(false));
paper.addEventListener("change", (event) => toPaper(event.matches));
