/* page_queue.js: one queue: its policy, pause state and dead letters with their reasons, in result pages; and the actions for
 * it. */
const DEAD_PAGE = 25;
let opened = "", openedTurn = 0, pages = [""]; /* the shown queue; cursors of its result pages, the last one is shown */

const duration = (ms) => seconds(ms / 1000);
const policyFacts = (view) => {
  const policy = view.policy || {};
  const items = [["Lease", duration(policy.lease_ms || 0)], ["Attempts", count(policy.max_attempts || 0)],
    ["Backoff", `${policy.backoff || "fixed"}, ${duration(policy.backoff_min_ms || 0)} to ${duration(policy.backoff_max_ms || 0)}, up to ${policy.backoff_jitter || 0} % more`]];
  if (policy.rate) items.push(["Rate", `${count(policy.rate)} per ${duration(policy.rate_period_ms || 1000)}${policy.burst ? `, at once ${count(policy.burst)}` : ""}`]);
  if (policy.max_in_flight) items.push(["In flight at most", count(policy.max_in_flight)]);
  if (policy.push) items.push(["Pushed to", policy.push]);
  items.push(["Paused", !view.paused ? "no" : view.paused_until_ms ? `until ${exact(view.paused_until_ms)}` : "until it is resumed", view.paused ? "warn" : ""]);
  return items;
};
const queueActions = (view) => {
  const name = view.name, dead = view.dead || 0;
  const pause = { role: "operate", name: "Pause", title: `Pause ${name}?`, text: "The broker delivers none of its tasks. Consumers keep the tasks that they have.", yes: "Pause the queue",
    field: { label: "For", value: "", help: "a duration: 10m, 2h; empty: until it is resumed" }, op: (field) => ({ pause: { queue: name, ...(field ? { for: field } : {}) } }) };
  const resume = { role: "operate", name: "Resume", title: `Resume ${name}?`, text: "The broker delivers its due tasks again.", yes: "Resume the queue", op: () => ({ resume: { queue: name } }) };
  const all = (word, text) => ({ role: "operate", name: `${word} all`, title: `${word} all dead letters of ${name}?`, text: `${count(dead)} now. ${text}`, yes: `${word} all`,
    op: () => ({ [word.toLowerCase()]: { queue: name, all: true } }) });
  return [view.paused ? resume : pause, ...(dead ? [all("Requeue", "These tasks are due at once."), all("Drop", "They are deleted.")] : [])];
};
const deadRow = (view) => {
  const row = element("tr"), acts = element("td"), say = sayIn("queue-said");
  buttons(acts, taskActions(view, true), say, () => openQueue(opened, false));
  row.append(openingHead(view), element("td", view.reason || "", "reason"), element("td", view.dead_ms ? exact(view.dead_ms) : ""), element("td", count(view.deliveries || 0)), acts);
  return row;
};
const deadPage = async (turn) => {
  const cursor = pages[pages.length - 1];
  try {
    const answer = await call(`/v1/queues/${segment(opened)}/dead?limit=${DEAD_PAGE}${cursor ? `&cursor=${segment(cursor)}` : ""}`);
    if (!answer.ok) throw new Error(await refusal(answer));
    const told = parse(await answer.text());
    if (turn !== openedTurn) return;
    $("dead").replaceChildren(...told.tasks.map(deadRow));
    $("dead-table").hidden = !told.tasks.length;
    $("dead-back").disabled = pages.length < 2;
    $("dead-next").disabled = !told.next;
    $("dead-next").onclick = () => { pages.push(told.next); deadPage(turn); };
    $("dead-back").onclick = () => { pages.pop(); deadPage(turn); };
    $("dead-pages").hidden = pages.length < 2 && !told.next;
    $("dead-state").textContent = told.tasks.length ? (pages.length > 1 || told.next ? `Page ${pages.length}` : "") : "None.";
  } catch (error) {
    if (turn === openedTurn) $("dead-state").textContent = `Not told: ${error.message}`;
  }
};
const openQueue = async (name, anew = true) => {
  const turn = ++openedTurn;
  opened = name;
  if (anew) { pages = [""]; sayIn("queue-said")(""); $("dead").replaceChildren(); }
  $("queue").hidden = false;
  $("dead-state").textContent = "Reading …";
  $("queue-title").textContent = `Queue ${name}`;
  if (anew) $("queue-title").focus();
  try {
    const answer = await call(`/v1/queues/${segment(name)}`);
    if (!answer.ok) throw new Error(await refusal(answer));
    const view = await answer.json();
    if (turn !== openedTurn) return;
    facts("queue-facts", policyFacts(view));
    buttons($("queue-actions"), queueActions(view), sayIn("queue-said"), () => openQueue(name, false));
  } catch (error) {
    if (turn === openedTurn) facts("queue-facts", [["Not told", error.message, "bad"]]);
  }
  await deadPage(turn);
};
/* Refreshes after a change, unless the user is editing. */
let shownOf = "";
const refreshQueue = () => {
  const queue = queues.find((one) => one.name === opened), now = queue ? `${opened} ${queue.dead} ${queue.paused}` : "";
  if (now === shownOf || $("queue").hidden || $("sure").open || $("queue").contains(document.activeElement)) return;
  shownOf = now;
  if (queue) openQueue(opened, false);
};
$("queue-close").addEventListener("click", () => { $("queue").hidden = true; $("filter").focus(); });
