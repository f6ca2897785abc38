/* page_live.js: the numbers come again and again while somebody looks; and the beginning. */
const EVERY_MS = 2000;
let paused = false, timer = 0, asked = 0, knows = false; /* who asks */
const ask = async () => {
  const turn = ++asked;
  clearTimeout(timer);
  try {
    const [answer, status] = await Promise.all([call("/v1/stats"), call("/v1/status")]);
    if (turn !== asked) return;
    if (answer.status === 401 || answer.status === 403 || answer.status === 429) {
      want(`${answer.status === 401 ? "A token is wanted" : "This token may not see it"}: ${await refusal(answer)}`);
      return; /* nobody knocks again and again: the next try is a person's */
    }
    if (!answer.ok) throw new Error(await refusal(answer));
    const stats = await answer.json(), told = tell(stats.broker || {}, (stats.queues || []).map(queueOf), status.ok ? await status.json() : {});
    if (turn !== asked) return;
    if (!knows) { await whoAmI(); knows = true; }
    if (turn !== asked) return;
    if (!paused) show(told);
  } catch (error) {
    if (turn !== asked) return;
    $("state").textContent = `No numbers: ${error.message}. Trying again.`;
  }
  if (turn === asked && !paused && !document.hidden) timer = setTimeout(ask, EVERY_MS);
};
$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  try { sessionStorage.setItem("tarry-token", $("token").value.trim()); } catch { /* then this page asks again */ }
  $("token").value = "";
  $("access").hidden = true;
  knows = false;
  ask();
});
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  if (paused) clearTimeout(timer); else ask();
});
$("filter").addEventListener("input", rows);
document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) ask(); });
heads();
ask();
