/* page_live.js: keeps the numbers up to date, and starts the page. The broker sends changes as server-sent events, read with
 * fetch because an EventSource cannot send a token. If the stream ends, the page polls, and tries a new stream from time to
 * time. */
const EVERY_MS = 2000, POLLS_BEFORE_STREAM = 5;
const known = new Map(); /* queues by name, as last received */
let hasFollowed = false, paused = false, timer = 0, asked = 0, knows = false; /* hasFollowed: the first update has arrived; paused: the user has paused the updates; timer: the next poll; asked: number of the current poll or stream, whose answers are the only valid ones; knows: the principal is known */
let stream = null; /* controller that aborts the stream */

const denied = async (answer) => {
  if (answer.status !== 401 && answer.status !== 403 && answer.status !== 429) return false;
  want(`${answer.status === 401 ? "A token is wanted" : "This token is not allowed to see this page's data"}: ${await refusal(answer)}`);
  return true; /* no automatic retry: the user starts the next attempt */
};
const takeIn = async ({ status, broker, all, queues: listed }, turn) => {
  if (!knows) { await whoAmI(); knows = true; queuesActions(); }
  if (turn !== asked || paused) return;
  if (all) known.clear();
  (listed || []).forEach((said) => known.set(said.name || "", queueOf(said)));
  show(tell(broker || {}, [...known.values()], status || {}));
  if (!hasFollowed) { hasFollowed = true; followLink(); }
};

/* ---- told */
const eventsOf = async (answer, take) => {
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const whole = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = whole.pop();
    for (const event of whole) await take(JSON.parse(event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n")));
  }
};
const follow = async () => {
  const turn = ++asked;
  clearTimeout(timer);
  if (stream) stream.abort();
  stream = new AbortController();
  try {
    const answer = await call("/v1/stats?follow=true", { signal: stream.signal });
    if (turn !== asked || await denied(answer)) return;
    if (answer.ok) {
      document.body.dataset.live = "told";
      await eventsOf(answer, (event) => takeIn(event, turn));
    }
  } catch { /* the stream has ended: poll */ }
  if (turn === asked && !paused && !document.hidden) ask(POLLS_BEFORE_STREAM);
};

/* ---- asked */
const ask = async (left) => {
  const turn = ++asked;
  clearTimeout(timer);
  document.body.dataset.live = "asked";
  try {
    const [answer, status] = await Promise.all([call("/v1/stats"), call("/v1/status")]);
    if (turn !== asked || await denied(answer)) return;
    if (!answer.ok) throw new Error(await refusal(answer));
    const stats = await answer.json();
    await takeIn({ ...stats, all: true, status: status.ok ? await status.json() : {} }, turn);
  } catch (error) {
    if (turn !== asked) return;
    $("state").textContent = `No numbers: ${error.message}. Trying again.`;
  }
  if (turn === asked && !paused && !document.hidden) timer = setTimeout(left > 1 ? () => ask(left - 1) : follow, EVERY_MS);
};

/* ---- start */
$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  try { sessionStorage.setItem("tarry-token", $("token").value.trim()); } catch { /* without session storage, the page asks for
                                                                                   * the token again next time */ }
  $("token").value = "";
  $("access").hidden = true;
  knows = false;
  follow();
});
const halt = () => {
  asked++;
  clearTimeout(timer);
  if (stream) stream.abort();
};
$("freeze").addEventListener("click", () => {
  paused = !paused;
  $("freeze").setAttribute("aria-pressed", String(paused));
  if (paused) halt(); else follow();
});
$("filter").addEventListener("input", rows);
document.addEventListener("visibilitychange", () => { if (document.hidden) halt(); else if (!paused) follow(); });
heads();
follow();
