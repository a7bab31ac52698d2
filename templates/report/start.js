// Controls that do nothing without this script are hidden until it runs.
all("[data-scripted]").forEach((control) => { control.hidden = false; });

startSwitches();
startTable();
startSelection();
startDownloads();
startScenes();
startLanding();
startCharts();

// Paper is light and has everything: drawing ends before the browser lays the pages out.
function toPaper(on) {
  if (on !== printing) {
    printing = on;
    (on ? beforePaper : afterPaper).forEach((prepare) => prepare());
  }
  drawStale(all("[data-chart]"));
}

window.addEventListener("beforeprint", () => toPaper(true));
window.addEventListener("afterprint", () => toPaper(false));
paper.addEventListener("change", (event) => toPaper(event.matches));
