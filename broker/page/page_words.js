/* page_words.js: formats numbers, times and texts. Text from the broker is inserted only by textContent, never as HTML. */
const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const count = (value) => number.format(value);
const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  return `${value.toFixed(unit && value < 100 ? 1 : 0)} ${units[unit]}`;
};
const seconds = (s) => {
  if (s === 0) return "0";
  if (s < 0.001) return `${(s * 1e6).toFixed(0)} µs`;
  if (s < 1) return `${(s * 1e3).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 120) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  return s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} days`;
};
const time = (ms) => (ms ? new Date(ms).toLocaleString() : "never");
const element = (name, text, className) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
};
