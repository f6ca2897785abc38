/* page_ask.js: what is asked of the broker, with the token that a person has given. No cookie, no other place than where the page came from. */
const token = () => { try { return sessionStorage.getItem("tarry-token") || ""; } catch { return ""; } };
const call = (path, options = {}) => fetch(path, { ...options, cache: "no-store", credentials: "omit", redirect: "error",
  headers: { ...(token() ? { Authorization: `Bearer ${token()}` } : {}), ...(options.body ? { "Content-Type": "application/json" } : {}) } });
/* Why the broker refuses, in its own words. */
const refusal = async (answer) => {
  const text = (await answer.text()).trim();
  try { return JSON.parse(text).detail || text; } catch { return text || `status ${answer.status}`; }
};
/* JSON whose numbers keep all their digits, where the browser can. */
const parse = (text) => JSON.parse(text, (_, value, context) =>
  (typeof value === "number" && context && JSON.rawJSON && String(value) !== context.source ? JSON.rawJSON(context.source) : value));
/* A segment of a path. */
const segment = (text) => encodeURIComponent(text);
const want = (sentence) => {
  $("access").hidden = false;
  $("state").textContent = sentence;
  if (document.activeElement === document.body) $("token").focus();
};
