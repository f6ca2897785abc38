/* page_numbers.js: the numbers of all queues and of the broker, now and over fifteen minutes. */
const KEPT = 450, ROWS_MAX = 200, BOUNDS_S = [@BOUNDS@];
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 450, HEIGHT = 100;
const samples = []; /* samples of the sums over all queues and of the broker's own numbers; oldest first */
let queues = [], before = new Map(), beforeMs = 0;
let sort = { column: 0, down: false };

/* ---- the numbers of /v1/stats and /v1/status; a missing one is 0 */
const QUEUE_NUMBERS = ["pending", "ready", "in_flight", "dead", "scheduled", "cancelled", "delivered", "acked", "retried", "consumers"];
const BROKER_NUMBERS = ["now_ms", "epoch", "uptime_ms", "durable", "indexed", "segments", "log_bytes", "index_bytes", "core_bytes", "core_bytes_max", "resident_bytes", "sessions",
  "archive_bytes", "disk_free", "disk_bytes", "signed_position", "signed_ms"];
const AMQP_NUMBERS = ["connections", "channels", "consumers", "blocked", "exchanges", "queues", "bindings"];
const numbersOf = (from, names) => Object.fromEntries(names.map((name) => [name, Number(from[name] || 0)]));
const queueOf = (said) => ({ ...numbersOf(said, QUEUE_NUMBERS), name: said.name || "", paused: Boolean(said.paused), ready_is_lower_bound: Boolean(said.ready_is_lower_bound),
  overdue_ms: said.oldest_overdue_ms || 0, lateness: (said.lateness && said.lateness.counts) || [] });
const tell = (broker, listed, status) => {
  const peer = status.peer || {};
  return { now_ms: broker.now_ms || Date.now(), queues: listed, push: broker.push || [],
    broker: { ...numbersOf(broker, BROKER_NUMBERS), version: broker.version || "", archive_error: broker.archive_error || "", clock_held: Boolean(broker.clock_held),
      syncs: (broker.syncs && broker.syncs.counts) || [], amqp: broker.amqp ? numbersOf(broker.amqp, AMQP_NUMBERS) : null, digest: broker.digest || "" },
    pair: { ...numbersOf(status, ["epoch", "since_ms", "took_over_ms"]), ...numbersOf(peer, ["lag_frames", "lag_bytes", "lag_ms"]), role: (status.role || "not said").replaceAll("_", " "),
      primary: status.primary || "", peer: peer.url || "", coordinator: status.coordinator || "", problem: status.problem || "", in_sync: Boolean(status.in_sync),
      compared_ms: (status.digest && status.digest.compared_ms) || 0 } };
};

/* Facts about AMQP: [name, text, class]; none if the broker does not listen for AMQP. */
const amqpFacts = (a) => (a ? [["AMQP clients", `${count(a.connections)} connections, ${count(a.channels)} channels, ${count(a.consumers)} consumers`],
  ["AMQP declarations", `${count(a.exchanges)} exchanges, ${count(a.queues)} queues, ${count(a.bindings)} bindings`],
  ...(a.blocked ? [["AMQP blocked", `${count(a.blocked)} connections: the broker has no capacity`, "bad"]] : [])] : []);

/* ---- sums */
const add = (into, from) => from.forEach((value, i) => { into[i] = (into[i] || 0) + value; });
/* Duration that `share` of the values between two samples did not exceed; interpolated within a bucket. */
const quantile = (now, then, share) => {
  const between = now.map((value, i) => Math.max(0, value - (then[i] || 0)));
  const all = between.reduce((a, b) => a + b, 0);
  if (!all) return null;
  let rank = share * all;
  for (let i = 0; i < between.length; i++) {
    if (rank > between[i]) { rank -= between[i]; continue; }
    const low = i ? BOUNDS_S[i - 1] : 0, high = BOUNDS_S[i] || low;
    return low + (high - low) * (between[i] ? rank / between[i] : 0);
  }
  return BOUNDS_S[BOUNDS_S.length - 1];
};
const take = (told) => {
  const sum = { ms: told.now_ms, lateness: [], syncs: told.broker.syncs, broker: told.broker };
  for (const name of QUEUE_NUMBERS) sum[name] = 0;
  sum.overdue_ms = 0;
  for (const queue of told.queues) {
    for (const name of QUEUE_NUMBERS) sum[name] += queue[name];
    if (!queue.paused) sum.overdue_ms = Math.max(sum.overdue_ms, queue.overdue_ms);
    add(sum.lateness, queue.lateness);
  }
  const last = samples[samples.length - 1];
  if (last && last.broker.uptime_ms > told.broker.uptime_ms) { samples.length = 0; before.clear(); } /* the broker has restarted */
  samples.push(sum);
  if (samples.length > KEPT) samples.shift();
  return sum;
};
/* The charts show the samples of this page, or the minutes of the last day, which the broker keeps (/v1/minutes). */
const MINUTES_KEPT = 1440, DAY_EVERY_MS = 60000;
let day = null, dayAt = 0; /* the broker's minutes; null: the charts show `samples` */
const moments = () => (day ? day.at_ms : samples.map((sample) => sample.ms));
const rate = (name) => (day ? day[name].map((value) => value / 60) : samples.map((now, i) => {
  const then = samples[i - 1];
  return then && now.ms > then.ms ? Math.max(0, (now[name] - then[name]) * 1000 / (now.ms - then.ms)) : null;
}));
const percentile = (name, share) => (day ? day[name].map((counts) => quantile(counts, [], share)) : samples.map((now, i) => (i ? quantile(now[name], samples[Math.max(0, i - 5)][name], share) : null)));
const level = (name) => (day ? day[name] : samples.map((sample) => sample[name]));

/* ---- views */
const tiles = (sum) => {
  const items = [["Waiting", count(sum.pending)], ["Ready", count(sum.ready)], ["In flight", count(sum.in_flight)],
    ["Dead letters", count(sum.dead), sum.dead ? "warn" : ""],
    ["Longest overdue", seconds(sum.overdue_ms / 1000), sum.overdue_ms > 300000 ? "bad" : ""],
    ["Disk free", bytes(sum.broker.disk_free), sum.broker.disk_free < 2 ** 28 ? "bad" : ""]];
  $("tiles").replaceChildren(...items.map(([name, value, mark]) => {
    const box = element("div");
    box.append(element("dt", name), element("dd", value, mark));
    return box;
  }));
};
const facts = (id, items) => $(id).replaceChildren(...items.flatMap(([name, value, mark]) => [element("dt", name), element("dd", value, mark)]));
/* ---- charts: made once; each round draws their lines again. The pointer, or the arrow keys, choose a sample whose values are shown. */
const drawing = (name, attributes) => {
  const made = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  return made;
};
const shownMax = () => (day ? MINUTES_KEPT : KEPT);
const xOf = (i, size) => WIDTH - (size - 1 - i) * WIDTH / (shownMax() - 1);
const curve = (values, most, style) => drawing("polyline", { class: style,
  points: values.map((value, i) => (value === null ? null : `${xOf(i, values.length).toFixed(1)},${(HEIGHT - value / most * (HEIGHT - 4) - 2).toFixed(1)}`)).filter(Boolean).join(" ") });
const newest = (values) => { for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return i; return -1; };
let pointed = null; /* ms of the chosen sample; null: the newest one */
const momentAt = (ms) => moments().reduce((best, at, i, all) => (Math.abs(at - ms) < Math.abs(all[best] - ms) ? i : best), 0);
const newChart = (title, series, say) => {
  const figure = element("figure"), caption = element("figcaption"), plot = element("div", undefined, "plot"), scale = element("div", undefined, "scale"), span = element("div", undefined, "span");
  const svg = drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", tabindex: 0 });
  const top = element("span"), half = element("span"), start = element("span");
  scale.append(top, half, element("span", "0"));
  span.append(start, element("span", "now"));
  scale.setAttribute("aria-hidden", "true");
  span.setAttribute("aria-hidden", "true");
  plot.append(scale, svg, span);
  figure.append(caption, plot);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), all = moments(), at = all.length - 1 - Math.round((1 - (event.clientX - box.left) / box.width) * (shownMax() - 1));
    point(all[Math.max(0, at)]);
  });
  svg.addEventListener("pointerleave", () => point(null));
  svg.addEventListener("blur", () => point(null));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], all = moments();
    if (!step || !all.length) return;
    event.preventDefault();
    point(all[Math.min(all.length - 1, Math.max(0, (pointed === null ? all.length - 1 : momentAt(pointed)) + step))]);
  });
  const draw = () => {
    const drawn = series.map(([name, of]) => [name, of()]), most = Math.max(1e-9, ...drawn.flatMap(([, values]) => values.filter((value) => value !== null)));
    const all = moments(), at = pointed === null || !all.length ? -1 : momentAt(pointed);
    const text = (values) => { const i = at < 0 ? newest(values) : at; return i < 0 || values[i] === null || values[i] === undefined ? "–" : say(values[i]); };
    caption.replaceChildren(element("strong", `${title}${at < 0 ? "" : `, at ${(day ? new Date(all[at]).toLocaleString() : new Date(all[at]).toLocaleTimeString())}`}`), ...drawn.map(([name, values], i) => element("span", `${name} ${text(values)}`, `s${i}`)));
    top.textContent = say(most === 1e-9 ? 0 : most);
    half.textContent = most === 1e-9 ? "" : say(most / 2);
    start.textContent = day ? "24 h ago" : "15 min ago";
    svg.setAttribute("aria-label", `${title}: ${drawn.map(([name, values]) => `${name} ${text(values)}`).join(", ")}. Arrow keys show earlier values.`);
    svg.replaceChildren(...[1, HEIGHT / 2, HEIGHT - 1].map((y) => drawing("line", { x1: 0, x2: WIDTH, y1: y, y2: y })), ...drawn.map(([, values], i) => curve(values, most, `s${i}`)),
      ...(at < 0 ? [] : [drawing("line", { class: "cursor", x1: xOf(at, all.length), x2: xOf(at, all.length), y1: 0, y2: HEIGHT })]));
  };
  return { figure, draw };
};
const CHARTS = [
  newChart("Per second", [["scheduled", () => rate("scheduled")], ["delivered", () => rate("delivered")], ["acked", () => rate("acked")], ["retried", () => rate("retried")]], count),
  newChart("Lateness", [["p50", () => percentile("lateness", 0.5)], ["p99", () => percentile("lateness", 0.99)], ["p99.9", () => percentile("lateness", 0.999)]], seconds),
  newChart("Sync to disk", [["p50", () => percentile("syncs", 0.5)], ["p99", () => percentile("syncs", 0.99)]], seconds),
  newChart("Tasks", [["ready", () => level("ready")], ["in flight", () => level("in_flight")], ["dead", () => level("dead")]], count)];
const charts = () => {
  if (!$("charts").children.length) $("charts").append(...CHARTS.map((chart) => chart.figure));
  CHARTS.forEach((chart) => chart.draw());
};
const point = (ms) => {
  if (ms === pointed || ms === undefined) return;
  pointed = ms;
  charts();
};
const lookAtDay = async () => {
  dayAt = Date.now();
  $("time-said").textContent = "";
  if ($("time-view").value !== "day") { day = null; charts(); return; }
  try {
    const answer = await call("/v1/minutes");
    if (!answer.ok) throw new Error(await refusal(answer));
    const told = await answer.json();
    if ($("time-view").value !== "day") return;
    day = told;
    $("time-said").textContent = day.at_ms.length < MINUTES_KEPT ? `The broker has counted ${count(day.at_ms.length)} minutes since it started.` : "";
  } catch (error) {
    day = null;
    $("time-said").textContent = `The last day cannot be shown: ${error.message}. These are the last fifteen minutes.`;
  }
  charts();
};
const refreshDay = () => { if ($("time-view").value === "day" && Date.now() - dayAt >= DAY_EVERY_MS) lookAtDay(); };
$("time-view").addEventListener("change", lookAtDay);

/* isUnserved: ready tasks wait, and no consumer is connected. isLate: a ready task has been due for five minutes. */
const isUnserved = (q) => !q.paused && q.consumers === 0 && q.overdue_ms > 10000;
const isLate = (q) => !q.paused && q.overdue_ms > 300000;
const COLUMNS = [["Queue", (q) => q.name, (q) => (q.paused ? `${q.name} (paused)` : q.name)], ["Waiting", (q) => q.pending, (q) => count(q.pending)],
  ["Ready", (q) => q.ready, (q) => count(q.ready) + (q.ready_is_lower_bound ? "+" : "")], ["In flight", (q) => q.in_flight, (q) => count(q.in_flight)],
  ["Dead", (q) => q.dead, (q) => count(q.dead)], ["Overdue", (q) => q.overdue_ms, (q) => seconds(q.overdue_ms / 1000), (q) => (isLate(q) ? "bad" : "")],
  ["Consumers", (q) => q.consumers, (q) => (isUnserved(q) ? "none" : count(q.consumers)), (q) => (isUnserved(q) ? "bad" : "")],
  ["In / s", (q) => q.in, (q) => count(q.in)], ["Out / s", (q) => q.out, (q) => count(q.out)], ["Late p99", (q) => q.p99 || 0, (q) => (q.p99 === null ? "–" : seconds(q.p99))]];
/* The queues whose names contain the filter's text, in the order of the table. The table shows the first ROWS_MAX. */
const filtered = () => {
  const wanted = $("filter").value.toLowerCase(), of = COLUMNS[sort.column][1], found = queues.filter((queue) => queue.name.toLowerCase().includes(wanted));
  return found.sort((a, b) => { const x = of(a), y = of(b); return (x < y ? -1 : x > y ? 1 : 0) * (sort.down ? -1 : 1); });
};
const shownQueues = () => filtered().slice(0, ROWS_MAX);
const rows = () => {
  const found = filtered(), shown = found.slice(0, ROWS_MAX);
  $("shown").textContent = found.length > shown.length ? `${shown.length} of ${found.length} queues: narrow the name to see others` : `${found.length} ${found.length === 1 ? "queue" : "queues"}`;
  const body = $("rows");
  while (body.rows.length > shown.length) body.deleteRow(-1);
  shown.forEach((queue, i) => {
    let row = body.rows[i];
    if (!row) {
      row = body.insertRow();
      const head = element("th"), button = element("button");
      head.scope = "row";
      button.type = "button";
      button.addEventListener("click", () => openQueue(head.title));
      head.append(button);
      row.append(head, ...COLUMNS.slice(1).map(() => element("td")));
    }
    row.cells[0].title = queue.name;
    COLUMNS.forEach(([, , say, mark], c) => {
      const text = say(queue), cell = c ? row.cells[c] : row.cells[0].firstChild, className = mark ? mark(queue) : "";
      if (cell.textContent !== text) cell.textContent = text;
      if (c && cell.className !== className) cell.className = className;
    });
  });
};
const heads = () => $("heads").replaceChildren(...COLUMNS.map(([name], c) => {
  const head = element("th"), button = element("button", name);
  head.scope = "col";
  button.type = "button";
  if (c === sort.column) head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
  button.append(element("span", c === sort.column ? (sort.down ? " ▼" : " ▲") : "", "quiet"));
  button.addEventListener("click", () => {
    sort = { column: c, down: c === sort.column ? !sort.down : c > 0 };
    heads();
    $("heads").children[c].firstChild.focus();
    rows();
  });
  head.append(button);
  return head;
}));
const rates = (told) => {
  const took = told.now_ms - beforeMs, now = new Map();
  for (const queue of told.queues) {
    const then = before.get(queue.name);
    queue.in = then && took > 0 ? Math.max(0, (queue.scheduled - then.scheduled) * 1000 / took) : 0;
    queue.out = then && took > 0 ? Math.max(0, (queue.acked - then.acked) * 1000 / took) : 0;
    queue.p99 = quantile(queue.lateness, [], 0.99);
    now.set(queue.name, queue);
  }
  before = now;
  beforeMs = told.now_ms;
  queues = told.queues;
};
const pair = (p) => {
  if (!p.peer) { facts("pair", [["Peer", "none: this broker is alone"]]); return; }
  facts("pair", [["This node", `${p.role} since ${time(p.since_ms)}`], ["Primary", p.primary || "not known"],
    ["Last failover", p.took_over_ms ? `${time(p.took_over_ms)}: this node took over` : p.role === "primary" ? "none since this node leads" : "the primary says"], ["Epoch", count(p.epoch)],
    ["In sync", p.in_sync ? "yes" : "no", p.in_sync ? "" : "bad"], ["Lag", `${count(p.lag_frames)} frames, ${bytes(p.lag_bytes)}, ${seconds(p.lag_ms / 1000)}`],
    ["Peer", p.peer], ["Coordinator", p.coordinator || "none: an operator decides"]]);
};
const show = (told) => {
  const b = told.broker;
  rates(told);
  const sum = take(told);
  tiles(sum);
  charts();
  rows();
  offered();
  refreshQueue();
  refreshCalendar();
  refreshConsumers();
  refreshGroups();
  refreshRecurrences();
  refreshDay();
  pushed(told.push, told.now_ms);
  pair(told.pair);
  facts("integrity", [["Signed up to", b.signed_position ? `${bytes(b.signed_position)} (all but ${bytes(Math.max(0, b.durable - b.signed_position))})` : "nothing is signed"],
    ["Last signature", time(b.signed_ms)], ["Digest of the state", b.digest], ["Compared with the peer", told.pair.compared_ms ? time(told.pair.compared_ms) : "never"]]);
  facts("broker", [["Version", b.version], ["Up", seconds(b.uptime_ms / 1000)], ["Memory of tasks", `${bytes(b.core_bytes)} of ${bytes(b.core_bytes_max)}`],
    ["Resident", bytes(b.resident_bytes)], ["Log", `${bytes(b.log_bytes)}, ${count(b.segments)} segments`], ["Index", `${bytes(b.index_bytes)}, ${bytes(Math.max(0, b.durable - b.indexed))} behind`],
    ["Archive", b.archive_error || `${bytes(b.archive_bytes)}`, b.archive_error ? "bad" : ""], ["Disk", `${bytes(b.disk_free)} free of ${bytes(b.disk_bytes)}`],
    ["Consumers", count(b.sessions)], ...amqpFacts(b.amqp), ["Clock", b.clock_held ? "the clock jumped: tasks with absolute times wait" : "fine", b.clock_held ? "bad" : ""]]);
  const unserved = told.queues.filter(isUnserved).map((queue) => queue.name);
  const problem = [told.pair.problem, unserved.length ? `Ready, but no consumer: ${unserved.slice(0, 5).join(", ")}${unserved.length > 5 ? ` and ${unserved.length - 5} more` : ""}` : ""].filter(Boolean).join(". ");
  $("problem").hidden = !problem;
  $("problem").textContent = problem || "";
  $("state").textContent = `${told.pair.role}, as of ${new Date(told.now_ms).toLocaleTimeString()}`;
  document.body.dataset.ready = "true";
};
