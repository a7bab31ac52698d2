// What the page carries, its state, and small things that every part below needs.
const payload = JSON.parse(document.getElementById("payload").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const paper = window.matchMedia("print");
let printing = false;
let night = dark.matches; // kept, since a list that is read between its change and the event for it may tell of none
const state = {}; // what the switches say, by dimension

function all(selector, within) {
  return Array.from((within || document).querySelectorAll(selector));
}

// Texts come from models, data and users: they are set as text, and never parsed as HTML.
function make(tag, text, attributes) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  Object.entries(attributes || {}).forEach(([name, value]) => element.setAttribute(name, value));
  return element;
}

function theme() {
  return night && !printing ? "dark" : "light";
}
