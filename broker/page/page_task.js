/* page_task.js: finds a task by its key or id, and shows its history from /v1, as far as the token allows. */
const SEARCHED_MAX = 200, SEARCHED_AT_ONCE = 6, EVENTS_MAX = 1000, PAYLOAD_SHOWN = 4096;
let searched = 0; /* number of the newest search; an answer to an earlier search is ignored */

/* Kind of event: [sentence, CSS class, sign]. The sign shows the CSS class to users who do not see colours. */
const CAUSES = { scheduled: ["Scheduled", "", "+"], moved: ["Moved", "", "→"], leased: ["Delivered", "", "▸"], extended: ["Lease extended", "", "…"],
  released: ["Released", "", "↩"], lease_lost: ["Lease lost: not settled before its end", "warn", "!"], unsent: ["Returned: the broker had not sent it", "", "↩"],
  retried: ["Failed, will be delivered again", "warn", "!"], dead: ["Dead", "bad", "✕"], redacted: ["Content erased (redacted)", "warn", "■"], shared: ["Went to its groups", "good", "⇉"], unmatched: ["No group's filter matched", "warn", "–"], requeued: ["Requeued", "", "↻"], acked: ["Acked", "good", "✓"],
  cancelled: ["Cancelled", "", "–"], withdrawn: ["Withdrawn", "", "–"], replaced: ["Replaced by a task with the same key", "", "–"], purged: ["Purged", "", "–"],
  expired: ["Expired", "warn", "–"], dropped: ["Dropped", "", "–"] };
const exact = (ms) => { /* local time, such as 2026-11-26 11:19:48.857 */
  const two = (n, size = 2) => String(n).padStart(size, "0"), at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${two(at.getMilliseconds(), 3)}`;
};
const quote = (text) => `“${text}”`;
const named = (view) => (view.key === null || view.key === undefined ? `task ${view.id}` : quote(view.key));

/* ---- history of the task */
const whose = (line) => {
  const who = [line.principal, line.client && quote(line.client)].filter((part) => part).join(" ");
  return who ? `by ${who}${line.peer ? ` at ${line.peer}` : ""}` : "";
};
const details = (line) => {
  const said = [], { kind } = line;
  if (kind === "scheduled" || kind === "requeued") said.push(`due ${exact(line.due_ms)}`);
  if (kind === "moved" || kind === "retried") said.push(`due ${exact(line.due_ms)}, before ${exact(line.before_due_ms || 0)}`);
  if (kind === "leased") {
    said.push(`delivery ${line.deliveries || 0}, attempt ${line.attempt || 0}, ${seconds((line.late_ms || 0) / 1000)} after it was due`);
    said.push(`leased until ${exact(line.lease_deadline_ms)} to session ${line.session || "?"}`);
  }
  if (kind === "extended") said.push(`until ${exact(line.lease_deadline_ms)}`);
  if (kind === "shared") said.push(`tasks ${line.first_share} to ${BigInt(line.first_share) + BigInt(line.shares) - 1n}, one for each group`);
  if (line.reason) said.push(`reason: ${line.reason}`);
  return said;
};
/* Returns the events of one line of the history: one, or none if the line is not about a task. */
const events = (line) => {
  if (line.gap_to) return [{ at_ms: 0, words: ["Records are missing here", "warn", "?"], said: [line.problem || ""], id: "" }];
  if (!line.id) return [];
  return [{ at_ms: line.at_ms, words: CAUSES[line.kind] || [line.kind, "", "?"], said: [...details(line), whose(line)], id: line.id }];
};
/* Events from the task's view, if the token may not read the history. */
const outline = (view) => [["Scheduled", view.scheduled_ms], ["Last delivered", view.delivered_ms], ["Dead", view.dead_ms], [`Ended: ${view.state}`, view.ended_ms]]
  .filter(([, ms]) => ms).map(([text, ms]) => ({ at_ms: ms, words: [text, "", "·"], said: [], id: view.id }));
const lived = (told, view) => {
  const ids = new Set(told.map((event) => event.id).filter((id) => id));
  let last = 0;
  $("life").replaceChildren(...told.map((event) => {
    const item = element("li", undefined, event.words[1]), sign = element("span", event.words[2], "sign"), head = element("strong", event.words[0]);
    const when = element("span", event.at_ms ? `${exact(event.at_ms)}${last ? ` (${seconds(Math.max(0, event.at_ms - last) / 1000)} later)` : ""}` : "", "quiet");
    sign.setAttribute("aria-hidden", "true");
    item.append(sign, head, when);
    if (ids.size > 1 && event.id) item.append(element("span", `task ${event.id}`, "quiet"));
    event.said.filter((text) => text).forEach((text) => item.append(element("span", text, "said")));
    last = event.at_ms || last;
    return item;
  }));
  if (!view.ended_ms && view.state === "pending") {
    const item = element("li", undefined, "ahead"), sign = element("span", "○", "sign");
    sign.setAttribute("aria-hidden", "true");
    item.append(sign, element("strong", "Due"), element("span", `${exact(view.due_ms)} (in ${seconds(Math.max(0, view.due_ms - Date.now()) / 1000)})`, "quiet"));
    $("life").append(item);
  }
};
/* Reads lines of JSON as they arrive, at most EVENTS_MAX. */
const lines = async (answer, take) => {
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  let rest = "", left = EVENTS_MAX;
  for (;;) {
    const { done, value } = await reader.read();
    rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
    const whole = rest.split("\n");
    rest = whole.pop();
    for (const line of whole) {
      if (!line) continue;
      if (!left--) { reader.cancel(); return false; }
      take(JSON.parse(line));
    }
    if (done) return true;
  }
};
const life = async (view, turn) => {
  const told = [], path = view.key === null ? `/v1/tasks/${segment(view.id)}/history` : `/v1/queues/${segment(view.queue)}/tasks/${segment(view.key)}/history`;
  lived(outline(view), view);
  $("life-state").textContent = "Reading its history …";
  let sentence = "";
  try {
    const answer = await call(path);
    if (!answer.ok) throw new Error(await refusal(answer));
    const is_whole = await lines(answer, (line) => told.push(...events(line)));
    if (!is_whole) sentence = `The first ${count(EVENTS_MAX)} events; tarry history tells all.`;
  } catch (error) {
    sentence = `Its history is not told, and this is what the task itself says: ${error.message}`;
  }
  if (turn !== searched) return;
  if (told.length) lived(told, view);
  $("life-state").textContent = sentence;
};

/* ---- the task's data */
const payload = (view) => {
  const text = "json" in view ? JSON.stringify(view.json, null, 2) : view.body !== undefined ? view.body : view.body_base64 !== undefined ? `base64: ${view.body_base64}` : null;
  $("task-payload").hidden = text === null;
  $("task-payload").textContent = text === null ? "" : text.length > PAYLOAD_SHOWN ? `${text.slice(0, PAYLOAD_SHOWN)}\n… (${count(text.length)} characters)` : text;
};
const showTask = async (view, turn) => {
  const items = [["State", view.redacted ? `${view.state}, redacted` : view.state, view.state === "dead" ? "bad" : ""], ["Queue", view.queue], ["Id", view.id], ["Due", exact(view.due_ms)],
    ["Priority", count(view.priority)], ["Deliveries", count(view.deliveries)]];
  if (view.attempt !== undefined) items.push(["Attempts", count(view.attempt)]);
  if (view.expires_ms) items.push(["Expires", exact(view.expires_ms)]);
  if (view.lease_deadline_ms) items.push(["Leased until", exact(view.lease_deadline_ms)]);
  if (view.reason) items.push(["Reason", view.reason, "bad"]);
  Object.entries(view.attributes || {}).forEach(([name, value]) => items.push([`Attribute ${name}`, value]));
  $("task").hidden = false;
  setLink({ task: view.id });
  $("task-title").textContent = named(view);
  facts("task-facts", items);
  payload(view);
  buttons($("task-actions"), taskActions(view, false), sayIn("task-said"), () => again(view, turn));
  $("task-again").onclick = () => { sayIn("task-said")(""); again(view, turn); };
  await life(view, turn);
};

/* Shows the task's current state. */
const again = async (view, turn) => {
  const path = view.key === null ? `/v1/tasks/${segment(view.id)}` : `/v1/queues/${segment(view.queue)}/tasks/${segment(view.key)}`;
  try {
    const now = await look(path);
    if (turn === searched && now) await showTask(now, turn);
  } catch (error) { sayIn("task-said")(`It cannot be looked at again: ${error.message}`, "bad"); }
};

/* ---- the search */
const look = async (path) => {
  const answer = await call(path);
  if (answer.ok) return parse(await answer.text());
  if (answer.status === 404) return null;
  throw new Error(await refusal(answer));
};
/* Requests the paths, a few at a time. Returns what was found, and the first refusal. */
const lookAll = async (paths) => {
  const found = [], left = [...paths];
  let problem = "";
  await Promise.all(Array.from({ length: SEARCHED_AT_ONCE }, async () => {
    for (let path = left.shift(); path; path = left.shift()) {
      try {
        const view = await look(path);
        if (view && !found.some((other) => other.id === view.id)) found.push(view);
      } catch (error) { problem = problem || error.message; }
    }
  }));
  return { found, problem };
};
const choose = (found, turn) => {
  $("matches").hidden = found.length < 2;
  $("matches").replaceChildren(...found.slice(0, found.length < 2 ? 0 : SEARCHED_MAX).map((view) => {
    const item = element("li"), button = element("button", `${view.queue}: ${named(view)}, ${view.state}`);
    button.type = "button";
    button.addEventListener("click", () => { showTask(view, turn); $("task").focus(); });
    item.append(button);
    return item;
  }));
};
const search = async (key, queue) => {
  const turn = ++searched;
  sayIn("task-said")("");
  const names = queue ? [queue] : queues.map((one) => one.name).sort(), asked_of = names.slice(0, SEARCHED_MAX);
  const paths = asked_of.map((name) => `/v1/queues/${segment(name)}/tasks/${segment(key)}`);
  if (/^[0-9]{1,20}$/.test(key)) paths.push(`/v1/tasks/${key}`);
  $("found").textContent = "Looking …";
  $("task").hidden = $("matches").hidden = true;
  const { found, problem } = await lookAll(paths);
  if (turn !== searched) return;
  const where = names.length > asked_of.length ? ` in the first ${asked_of.length} of ${names.length} queues: name the queue to see others` : queue ? ` in ${queue}` : "";
  $("found").textContent = found.length ? `${found.length === 1 ? "Found" : `${found.length} tasks`}${where}.${problem ? ` ${problem}` : ""}`
    : `No task of this key or id${where}.${problem ? ` ${problem}` : ""}`;
  choose(found, turn);
  if (found.length === 1) await showTask(found[0], turn);
};
$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("find-key").value) search($("find-key").value, $("find-queue").value);
});
/* Row header with the task's name, which opens the task. */
const openingHead = (view) => {
  const head = element("th"), open = element("button", named(view));
  head.scope = "row";
  open.type = "button";
  open.addEventListener("click", async () => {
    const turn = ++searched;
    $("found").textContent = "";
    $("matches").hidden = true;
    const whole = await look(`/v1/tasks/${segment(view.id)}`).catch(() => null);
    showTask(whole || view, turn);
    $("task").focus();
  });
  head.append(open);
  return head;
};
/* Offers the names of the queues for completion. */
const offered = () => {
  const list = $("find-queues"), names = queues.slice(0, ROWS_MAX).map((queue) => queue.name);
  if (names.length === list.children.length && names.every((name, i) => list.children[i].value === name)) return;
  list.replaceChildren(...names.map((name) => { const option = element("option"); option.value = name; return option; }));
};
