// Keeps what a link led to where the link put it while charts above it are drawn, until the reader does anything.
let landed = null;

function hold(anchor) {
  landed = anchor.length > 1 ? document.getElementById(anchor.slice(1)) : null;
}

// "instant": a smooth way to where it stood before would otherwise go on.
function land() {
  if (landed !== null && !printing) landed.scrollIntoView({ behavior: "instant" });
}

function startLanding() {
  ["wheel", "touchmove", "pointerdown", "keydown"].forEach((does) => {
    window.addEventListener(does, () => { landed = null; }, { capture: true, passive: true });
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    hold(link ? link.getAttribute("href") : "");
  });
  window.addEventListener("hashchange", () => hold(window.location.hash));
  // A page that is loaded again stands where its reader left it.
  const [visit] = performance.getEntriesByType("navigation");
  if (!visit || visit.type === "navigate") hold(window.location.hash);
  new ResizeObserver(land).observe(document.body);
}
