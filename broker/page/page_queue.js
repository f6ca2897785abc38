/* page_queue.js: shows one queue: its policy, its pause, and its tasks in every state, in result pages; the actions for the queue, for one task,
 * for the selected tasks, and for all queues that the filter shows. */
const TASKS_PAGE = 25;
const STATES = { pending: "waiting", ready: "ready", in_flight: "in flight", dead: "dead letter" };
let opened = "", openedTurn = 0, pages = [""]; /* opened: name of the shown queue; openedTurn: number of the request whose answer is shown; pages: cursors of the result pages so far, the shown page last */
let listed = new Map(), chosen = new Set();      /* the tasks of the shown page by id; ids of the selected ones */

const duration = (ms) => seconds(ms / 1000);
const policyFacts = (view) => {
  const policy = view.policy || {};
  const items = [["Lease", duration(policy.lease_ms || 0)], ["Attempts", policy.max_attempts ? count(policy.max_attempts) : "no limit"],
    ["Backoff", `${policy.backoff || "fixed"}, ${duration(policy.backoff_min_ms || 0)} to ${duration(policy.backoff_max_ms || 0)}, up to ${policy.backoff_jitter || 0} % more`]];
  if (policy.push) items.push(["Pushed to", policy.push]);
  if (policy.rate) items.push(["Rate", `${count(policy.rate)} per ${duration(policy.rate_period_ms || 1000)}${policy.burst ? `, at once ${count(policy.burst)}` : ""}`]);
  if (policy.spread_ms) items.push(["Spread over", duration(policy.spread_ms)]);
  if (policy.filter) items.push(["Filter", policy.filter]);
  if (policy.max_in_flight) items.push(["In flight at most", count(policy.max_in_flight)]);
  const late = (ms, words) => { if (ms) items.push([words, duration(ms)]); };
  late(policy.overdue_expire_ms, "After an outage, expire if later than");
  late(policy.overdue_dead_ms, "After an outage, dead if later than");
  late(policy.overdue_spread_ms, "After an outage, spread over");
  items.push(["Paused", !view.paused ? "no" : view.paused_until_ms ? `until ${exact(view.paused_until_ms)}` : "until it is resumed", view.paused ? "warn" : ""]);
  return items;
};

/* ---- actions for one queue */
const pauseAction = (title, ops) => ({ role: "operate", name: "Pause", title, text: "The broker delivers none of its tasks. Consumers keep the tasks that they have.", yes: "Pause",
  field: { label: "For", value: "", help: "a duration: 10m, 2h; empty: until it is resumed" }, carryOut: (field) => carryOut(ops((queue) => ({ pause: { queue, ...(field ? { for: field } : {}) } }))) });
const resumeAction = (title, ops) => ({ role: "operate", name: "Resume", title, text: "The broker delivers its due tasks again.", yes: "Resume", carryOut: () => carryOut(ops((queue) => ({ resume: { queue } }))) });
const queueActions = (view) => {
  const name = view.name, dead = view.dead || 0, one = (make) => [make(name)], say = sayIn("queue-said");
  const all = (word, text, danger) => ({ role: "operate", name: `${word} all`, danger, title: `${word} all dead letters of ${name}?`, text: `${count(dead)} now. ${text}`, yes: `${word} all`,
    op: () => ({ [word.toLowerCase()]: { queue: name, all: true } }) });
  const schedule = { role: "produce", name: "Schedule a task", open: () => openSchedule(name, say, () => openQueue(name, { again: true })) };
  const policy = { role: "operate", name: "Change the policy", open: () => openPolicy(name, view.policy || {}, say, () => openQueue(name, { again: true })) };
  const purge = { role: "operate", name: "Purge", danger: true, title: `Purge ${name}?`, text: `All its tasks are deleted: ${count(view.pending || 0)} waiting or ready, ${count(view.in_flight || 0)} in flight, ${count(dead)} dead.`, yes: "Delete all tasks",
    field: { label: "The queue's name", value: "", help: `type ${name} to confirm` },
    carryOut: (field) => (field === name ? carryOut([{ purge: { queue: name } }]) : nothing("the name that was typed is not the queue's name")) };
  const remove = { role: "operate", name: "Delete the queue", danger: true, title: `Delete the queue ${name}?`, text: "It has no tasks. Its policy is deleted.", yes: "Delete the queue", op: () => ({ delete: { queue: name } }) };
  const isEmpty = !view.pending && !view.in_flight && !dead;
  return [schedule, policy, view.paused ? resumeAction(`Resume ${name}?`, one) : pauseAction(`Pause ${name}?`, one),
    ...(dead ? [all("Requeue", "These tasks are due at once."), all("Drop", "They are deleted.", true)] : []), isEmpty ? remove : purge];
};

/* ---- actions for all queues that the filter shows */
const QUEUES_AT_ONCE_MAX = 64; /* maximum number of jobs that the broker runs at the same time (JOBS_MAX) */
const queuesActions = () => {
  const say = sayIn("queues-said"), ops = (of) => (make) => of.map((queue) => make(queue.name));
  const across = (name, wanted, make) => ({ role: "operate", name, open: () => {
    const of = shownQueues().filter(wanted).slice(0, QUEUES_AT_ONCE_MAX);
    if (!of.length) { say(`${name}: no queue of this list needs it.`); return; }
    const names = `${of.slice(0, 10).map((queue) => queue.name).join(", ")}${of.length > 10 ? ` and ${count(of.length - 10)} more` : ""}`;
    const action = make(of, names);
    sure(action).then(async (field) => {
      if (field === null) return;
      const done = await action.carryOut(field);
      say(done.text, done.ok ? "good" : "bad").focus();
    });
  } });
  /* Commit the operation on each queue separately, because each one starts a job. */
  const jobs = async (of, make) => {
    const refused = [];
    for (const queue of of) { const done = await carryOut([make(queue.name)]); if (!done.ok) refused.push(`${queue.name}: ${done.text}`); }
    return { ok: !refused.length, text: `Done: ${count(of.length - refused.length)} of ${count(of.length)} queues.${refused.length ? ` ${refused[0]}` : ""}` };
  };
  buttons($("queues-actions"), [
    { role: "produce", name: "Schedule a task", open: () => openSchedule("", say, (name) => openQueue(name)) },
    { role: "operate", name: "Create a recurring task", open: () => openRecurrence() },
    { role: "operate", name: "Create a queue", open: () => openPolicy("", null, say, (name) => openQueue(name)) },
    across("Pause these", (queue) => !queue.paused, (of, names) => ({ ...pauseAction(`Pause ${count(of.length)} queues?`, ops(of)), text: `${names}: the broker delivers none of their tasks. Consumers keep the tasks that they have.` })),
    across("Resume these", (queue) => queue.paused, (of, names) => ({ ...resumeAction(`Resume ${count(of.length)} queues?`, ops(of)), text: `${names}: the broker delivers their due tasks again.` })),
    across("Requeue their dead letters", (queue) => queue.dead > 0, (of, names) => ({ title: `Requeue the dead letters of ${count(of.length)} queues?`, text: `${names}: their dead letters are due at once.`, yes: "Requeue all", carryOut: () => jobs(of, (queue) => ({ requeue: { queue, all: true } })) })),
    { ...across("Drop their dead letters", (queue) => queue.dead > 0, (of, names) => ({ title: `Drop the dead letters of ${count(of.length)} queues?`, text: `${names}: their dead letters are deleted.`, yes: "Drop all", danger: true, carryOut: () => jobs(of, (queue) => ({ drop: { queue, all: true } })) })), danger: true },
  ], say, () => {});
};

/* ---- the tasks of the queue */
const toSecond = (ms) => exact(ms).slice(0, 19);
const stateText = (view) => (view.state === "dead" && view.dead_ms ? `dead since ${toSecond(view.dead_ms)}` : view.state === "in_flight" && view.lease_deadline_ms ? `in flight until ${toSecond(view.lease_deadline_ms)}` : STATES[view.state] || view.state);
/* The action of this name for the task; undefined: the task's state does not allow it. */
const actionOf = (view, name) => taskActions(view, true).find((action) => action.name === name);
const CHOSEN_ACTIONS = [["Move", "They are due after this duration."], ["Cancel", "They will not be delivered. A consumer that has one of them can no longer settle it."],
  ["Requeue", "They are due at once, and their attempts count from zero."], ["Drop", "The dead letters are deleted."]];
/* Buttons for the selected tasks. A button acts only on the tasks in a state that allows its action. */
const showChosen = () => {
  const boxes = [...$("tasks").querySelectorAll("input[type=checkbox]")], selected = [...chosen].map((id) => listed.get(id));
  $("tasks-chosen").hidden = !chosen.size;
  $("tasks-count").textContent = `${count(chosen.size)} selected`;
  $("tasks-all").checked = boxes.length > 0 && boxes.every((box) => box.checked);
  buttons($("tasks-actions"), CHOSEN_ACTIONS.flatMap(([name, text]) => {
    const views = selected.filter((view) => actionOf(view, name));
    if (!views.length) return [];
    const { role, danger, field } = actionOf(views[0], name), what = `${name} ${count(views.length)}`;
    return [{ role, danger, field, name: what, title: `${what} tasks of ${opened}?`, text: `${views.slice(0, 5).map(named).join(", ")}${views.length > 5 ? ` and ${views.length - 5} more` : ""}. ${text}`,
      yes: what, carryOut: (said) => carryOut(views.map((view) => actionOf(view, name).op(said))) }];
  }), sayIn("queue-said"), () => openQueue(opened, { again: true }));
};
const taskRow = (view) => {
  const row = element("tr"), acts = element("td"), mark = element("td"), box = element("input");
  box.type = "checkbox";
  box.setAttribute("aria-label", `Select ${named(view)}`);
  box.addEventListener("change", () => { if (box.checked) chosen.add(view.id); else chosen.delete(view.id); showChosen(); });
  mark.append(box);
  buttons(acts, taskActions(view, true), sayIn("queue-said"), () => openQueue(opened, { again: true }));
  row.append(mark, openingHead(view), element("td", stateText(view)), element("td", toSecond(view.due_ms)), element("td", count(view.deliveries || 0)), element("td", view.reason || "", "reason"), acts);
  return row;
};
const tasksPath = () => {
  const wanted = new URLSearchParams({ limit: TASKS_PAGE }), cursor = pages[pages.length - 1], from = $("tasks-from").value, to = $("tasks-to").value;
  wanted.set("state", $("tasks-state-wanted").value || Object.keys(STATES).join(","));
  if ($("tasks-prefix").value) wanted.set("prefix", $("tasks-prefix").value);
  if (from) wanted.set("due_from", new Date(from).getTime());
  if (to) wanted.set("due_to", new Date(to).getTime());
  if (cursor) wanted.set("cursor", cursor);
  return `/v1/queues/${segment(opened)}/tasks?${wanted}`;
};
const tasksPage = async (turn) => {
  try {
    const answer = await call(tasksPath());
    if (!answer.ok) throw new Error(await refusal(answer));
    const told = parse(await answer.text());
    if (turn !== openedTurn) return;
    listed = new Map(told.tasks.map((view) => [view.id, view]));
    chosen = new Set();
    $("tasks").replaceChildren(...told.tasks.map(taskRow));
    showChosen();
    $("tasks-table").hidden = !told.tasks.length;
    $("tasks-back").disabled = pages.length < 2;
    $("tasks-next").disabled = !told.next;
    $("tasks-next").onclick = () => { pages.push(told.next); tasksPage(turn); };
    $("tasks-back").onclick = () => { pages.pop(); tasksPage(turn); };
    $("tasks-pages").hidden = pages.length < 2 && !told.next;
    $("tasks-state").textContent = told.tasks.length ? (pages.length > 1 || told.next ? `Page ${pages.length}` : "") : "No such task.";
  } catch (error) {
    if (turn === openedTurn) $("tasks-state").textContent = `The tasks cannot be shown: ${error.message}`;
  }
};
/* Opens a queue. `state`: the state of the shown tasks; without it, dead letters if there are any. `again`: refreshes what is shown. */
const openQueue = async (name, { again: isAgain = false, state } = {}) => {
  const turn = ++openedTurn;
  opened = name;
  if (!isAgain) { pages = [""]; sayIn("queue-said")(""); $("tasks").replaceChildren(); $("tasks-chosen").hidden = true; }
  $("queue").hidden = false;
  $("tasks-state").textContent = "Reading …";
  $("queue-title").textContent = `Queue ${name}`;
  if (!isAgain) $("queue-title").focus();
  try {
    const answer = await call(`/v1/queues/${segment(name)}`);
    if (!answer.ok) throw new Error(await refusal(answer));
    const view = await answer.json();
    if (turn !== openedTurn) return;
    if (!isAgain) $("tasks-state-wanted").value = state !== undefined ? state : view.dead ? "dead" : "";
    facts("queue-facts", policyFacts(view));
    buttons($("queue-actions"), queueActions(view), sayIn("queue-said"), () => openQueue(name, { again: true }));
  } catch (error) {
    if (turn === openedTurn) facts("queue-facts", [["Not shown", error.message, "bad"]]);
  }
  if (!isAgain) linkQueue();
  await tasksPage(turn);
};
const linkQueue = () => setLink({ queue: opened, state: $("tasks-state-wanted").value, prefix: $("tasks-prefix").value, from: $("tasks-from").value, to: $("tasks-to").value });
/* Refreshes after a change, unless the user is editing. */
let shownOf = "";
const refreshQueue = () => {
  const queue = queues.find((one) => one.name === opened), now = queue ? `${opened} ${queue.pending} ${queue.in_flight} ${queue.dead} ${queue.paused}` : "";
  if (now === shownOf || $("queue").hidden || $("sure").open || $("form").open || chosen.size || $("queue").contains(document.activeElement)) return;
  shownOf = now;
  if (queue) openQueue(opened, { again: true });
};
const showFirstPage = () => { pages = [""]; linkQueue(); tasksPage(++openedTurn); };
$("tasks-form").addEventListener("submit", (event) => { event.preventDefault(); showFirstPage(); });
$("tasks-state-wanted").addEventListener("change", showFirstPage);
$("tasks-all").addEventListener("change", () => {
  $("tasks").querySelectorAll("input[type=checkbox]").forEach((box) => { box.checked = $("tasks-all").checked; });
  chosen = new Set($("tasks-all").checked ? listed.keys() : []);
  showChosen();
});
$("queue-close").addEventListener("click", () => { $("queue").hidden = true; setLink({}); $("filter").focus(); });
