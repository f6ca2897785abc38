/* page_ask.js: requests to the broker, with the token that the user has entered. No cookies; requests go only to the page's own
 * origin. */
const token = () => { try { return sessionStorage.getItem("tarry-token") || ""; } catch { return ""; } };
const call = (path, options = {}) => fetch(path, { ...options, cache: "no-store", credentials: "omit", redirect: "error",
  headers: { ...(token() ? { Authorization: `Bearer ${token()}` } : {}), ...(options.body ? { "Content-Type": "application/json" } : {}) } });
/* The broker's reason for a refusal. */
const refusal = async (answer) => {
  const text = (await answer.text()).trim();
  try { return JSON.parse(text).detail || text; } catch { return text || `status ${answer.status}`; }
};
/* Parses JSON without losing digits of large numbers, if the browser supports this. */
const parse = (text) => JSON.parse(text, (_, value, context) =>
  (typeof value === "number" && context && JSON.rawJSON && String(value) !== context.source ? JSON.rawJSON(context.source) : value));
/* Encodes one segment of a path. */
const segment = (text) => encodeURIComponent(text);
const want = (sentence) => {
  $("access").hidden = false;
  $("state").textContent = sentence;
  if (document.activeElement === document.body) $("token").focus();
};
