/* page_calendar.js: how many tasks are due per minute, hour, day or month, in one queue or in all; and the tasks of one span.
 * The page requests hours, and adds them up to days and months of the browser's time zone, also across clock changes. */
const MINUTE_MS = 60000, HOUR_MS = 3600000, DAY_MS = 86400000, DUE_PAGE = 25;
const midnight = (ms, days = 0) => { const at = new Date(ms); return new Date(at.getFullYear(), at.getMonth(), at.getDate() + days).getTime(); };
const saidAs = (options) => new Intl.DateTimeFormat(undefined, options);
const DAY = saidAs({ weekday: "short", day: "numeric", month: "short" }), HOUR = saidAs({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" }), MONTH = saidAs({ month: "short", year: "numeric" });
const hours = (most) => Array.from({ length: most }, (_, i) => String(i).padStart(2, "0"));
/* The views of the calendar. Each has the start, number and length of the requested spans; the row and column of a span; and the labels of rows, columns and cells. */
const VIEWS = {
  minutes: { step: MINUTE_MS, every: 6000, from: (now) => now - now % MINUTE_MS, spans: () => 60, columns: () => Array.from({ length: 15 }, (_, i) => `+${i}`),
    place: (ms, from) => [Math.floor((ms - from) / MINUTE_MS / 15), Math.floor((ms - from) / MINUTE_MS) % 15], row: (ms) => HOUR.format(ms), cell: (ms) => HOUR.format(ms), one: "minute" },
  hours: { step: HOUR_MS, every: 6000, from: (now) => midnight(now), spans: (from) => Math.round((midnight(from, 8) - from) / HOUR_MS), columns: () => hours(24),
    place: (ms, from) => [Math.round((midnight(ms) - from) / DAY_MS), new Date(ms).getHours()], row: (ms) => DAY.format(ms), cell: (ms) => `${DAY.format(ms)}, ${HOUR.format(ms)}`, one: "hour" },
  days: { step: HOUR_MS, every: 10000, from: (now) => midnight(now, -((new Date(now).getDay() + 6) % 7)), spans: (from) => Math.round((midnight(from, 42) - from) / HOUR_MS),
    columns: () => Array.from({ length: 7 }, (_, i) => saidAs({ weekday: "short" }).format(new Date(2024, 0, 1 + i))),
    place: (ms, from) => { const day = Math.round((midnight(ms) - from) / DAY_MS); return [Math.floor(day / 7), day % 7]; }, row: (ms) => saidAs({ day: "numeric", month: "short" }).format(ms),
    cell: (ms) => DAY.format(ms), one: "day" },
  months: { step: HOUR_MS, every: 30000, from: (now) => { const at = new Date(now); return new Date(at.getFullYear(), at.getMonth(), 1).getTime(); },
    spans: (from) => { const at = new Date(from); return Math.round((new Date(at.getFullYear() + 1, at.getMonth() + 1, 1) - from) / HOUR_MS); }, 
    columns: (from) => Array.from({ length: 13 }, (_, i) => saidAs({ month: "short" }).format(new Date(new Date(from).getFullYear(), new Date(from).getMonth() + i, 1))),
    place: (ms, from) => { const at = new Date(ms), first = new Date(from); return [0, (at.getFullYear() - first.getFullYear()) * 12 + at.getMonth() - first.getMonth()]; },
    row: () => "Months", cell: (ms) => MONTH.format(ms), one: "month" } };
let calendarTurn = 0, calendarAt = 0, calendarCells = [], dueTurn = 0;

/* ---- the table: its cells are buttons with the number of tasks and a bar on a logarithmic scale, so that small numbers are visible beside a
 * peak */
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const addUp = (view, told) => {
  const cells = new Map();
  told.counts.forEach((value, i) => {
    const from = told.from_ms + i * told.step_ms, [row, column] = view.place(from, told.from_ms), key = `${row} ${column}`;
    const cell = cells.get(key) || { row, column, from, to: from, count: 0 };
    cell.count += value;
    cell.to = from + told.step_ms;
    cells.set(key, cell);
  });
  return [...cells.values()];
};
const cellButton = (view, cell, most, now) => {
  const button = element("button", undefined, "heat"), room = element("span", undefined, "room"), bar = element("span", undefined, "bar");
  button.type = "button";
  button.dataset.at = `${cell.row} ${cell.column}`;
  button.tabIndex = -1;
  button.title = `${view.cell(cell.from)}: ${count(cell.count)}`;
  button.setAttribute("aria-label", `${view.cell(cell.from)}: ${count(cell.count)} tasks${cell.to <= now ? ", overdue" : ""}`);
  if (cell.count) {
    bar.style.height = `${Math.max(8, 100 * Math.log1p(cell.count) / Math.log1p(most))}%`;
    button.append(element("span", COMPACT.format(cell.count), "amount"));
  }
  if (cell.count === most && most) button.classList.add("most");
  room.append(bar);
  button.append(room);
  button.addEventListener("click", () => openSpan(cell, view));
  return button;
};
const drawCalendar = (view, told) => {
  const cells = addUp(view, told), most = Math.max(0, ...cells.map((cell) => cell.count));
  const held = document.activeElement && document.activeElement.closest("#calendar-table") && document.activeElement.dataset.at;
  const head = element("tr"), columns = view.columns(told.from_ms), rowsOf = [];
  head.append(element("td"), ...columns.map((name) => { const th = element("th", name); th.scope = "col"; return th; }));
  cells.forEach((cell) => { (rowsOf[cell.row] = rowsOf[cell.row] || []).push(cell); });
  const body = rowsOf.map((row) => {
    const made = element("tr"), th = element("th", view.row(row[0].from));
    th.scope = "row";
    made.append(th, ...columns.map((_, column) => {
      const td = element("td"), cell = row.find((one) => one.column === column);
      if (cell) td.append(cellButton(view, cell, most, told.now_ms));
      return td;
    }));
    return made;
  });
  $("calendar-heads").replaceChildren(head);
  $("calendar-rows").replaceChildren(...body.filter(Boolean));
  $("calendar-rows").dataset.rows = String(body.length);
  const all = $("calendar-rows").querySelectorAll("button"), stays = [...all].find((button) => button.dataset.at === held) || all[0];
  if (stays) stays.tabIndex = 0;
  if (stays && held) stays.focus();
  calendarCells = cells;
  const herd = cells.find((cell) => cell.count === most);
  const sum = cells.reduce((total, cell) => total + cell.count, 0);
  $("calendar-said").textContent = `${count(sum)} tasks fall due in this time${most ? `; most in one ${view.one}: ${count(most)}, ${view.cell(herd.from)}` : ""}. ` +
    `Earlier: ${count(told.before)}; later: ${count(told.after)}.`;
};
const lookAtCalendar = async () => {
  const turn = ++calendarTurn, view = VIEWS[$("calendar-view").value], queue = $("calendar-queue").value.trim(), from = view.from(Date.now());
  calendarAt = Date.now();
  try {
    const answer = await call(`/v1/calendar?from=${from}&step=${view.step / MINUTE_MS}m&spans=${view.spans(from)}${queue ? `&queue=${segment(queue)}` : ""}`);
    if (!answer.ok) throw new Error(await refusal(answer));
    const told = await answer.json();
    if (turn !== calendarTurn) return;
    drawCalendar(view, told);
    $("calendar-table").hidden = false;
    document.body.dataset.calendar = `${$("calendar-view").value} ${queue}`;
  } catch (error) {
    if (turn !== calendarTurn) return;
    $("calendar-table").hidden = true;
    $("calendar-said").textContent = `Not told: ${error.message}.`;
  }
};
/* Requests the calendar again if it is older than the interval `every` of the view. */
const refreshCalendar = () => { if (Date.now() - calendarAt >= VIEWS[$("calendar-view").value].every) lookAtCalendar(); };

/* ---- the tasks of a span */
const dueRow = (view) => {
  const row = element("tr");
  row.append(openingHead(view), element("td", view.state), element("td", exact(view.due_ms)), element("td", String(view.priority || 0)));
  return row;
};
const duePage = async (span, queue, cursor, turn) => {
  const path = `/v1/queues/${segment(queue)}/tasks?state=pending,ready&due_from=${span.from}&due_to=${span.to}&limit=${DUE_PAGE}${cursor ? `&cursor=${segment(cursor)}` : ""}`;
  try {
    const answer = await call(path);
    if (!answer.ok) throw new Error(await refusal(answer));
    const told = parse(await answer.text());
    if (turn !== dueTurn) return;
    $("due-rows").replaceChildren(...told.tasks.map(dueRow));
    $("due-table").hidden = !told.tasks.length;
    $("due-state").textContent = told.tasks.length ? `Of ${queue}, in the order in which they fall due:` : `Of ${queue}: none ${cursor ? "more" : "any more"}.`;
    $("due-next").hidden = !told.next;
    $("due-next").onclick = () => duePage(span, queue, told.next, turn);
  } catch (error) {
    if (turn === dueTurn) $("due-state").textContent = `Not told: ${error.message}.`;
  }
};
const dueQueues = async (span, turn) => {
  try {
    const answer = await call(`/v1/calendar?from=${span.from}&step=${(span.to - span.from) / MINUTE_MS}m&spans=1&by_queue=true`);
    if (!answer.ok) throw new Error(await refusal(answer));
    const found = ((await answer.json()).queues || []).sort((a, b) => b.count - a.count);
    if (turn !== dueTurn) return;
    $("due-queues").hidden = !found.length;
    $("due-queues").replaceChildren(...found.slice(0, ROWS_MAX).map((queue) => {
      const item = element("li"), button = element("button", `${queue.name}: ${count(queue.count)}`);
      button.type = "button";
      button.addEventListener("click", () => duePage(span, queue.name, "", turn));
      item.append(button);
      return item;
    }));
    $("due-state").textContent = !found.length ? "None any more." : found.length > ROWS_MAX ? `The first ${ROWS_MAX} of ${found.length} queues: name one to see others.` : "";
    if (found.length === 1) await duePage(span, found[0].name, "", turn);
  } catch (error) {
    if (turn === dueTurn) $("due-state").textContent = `Not told: ${error.message}.`;
  }
};
const openSpan = async (span, view) => {
  const turn = ++dueTurn, queue = $("calendar-queue").value.trim();
  $("due").hidden = false;
  $("due-table").hidden = $("due-queues").hidden = $("due-next").hidden = true;
  $("due-title").textContent = `Due ${view.cell(span.from)}: ${count(span.count)} tasks`;
  $("due-state").textContent = "Reading …";
  $("due-title").focus();
  if (queue) await duePage(span, queue, "", turn); else await dueQueues(span, turn);
};

/* ---- keyboard: Tab reaches one cell, arrow keys move to the others */
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
$("calendar-rows").addEventListener("keydown", (event) => {
  const move = MOVES[event.key], at = event.target.dataset.at;
  if (!move || !at) return;
  const [row, column] = at.split(" ").map(Number);
  const next = [...$("calendar-rows").querySelectorAll("button")].find((button) => button.dataset.at === `${row + move[0]} ${column + move[1]}`);
  event.preventDefault();
  if (next) next.focus();
});
$("calendar-rows").addEventListener("focusin", (event) => {
  $("calendar-rows").querySelectorAll("button[tabindex='0']").forEach((button) => { button.tabIndex = -1; });
  event.target.tabIndex = 0;
});
$("calendar-view").addEventListener("change", lookAtCalendar);
$("calendar-form").addEventListener("submit", (event) => { event.preventDefault(); lookAtCalendar(); });
$("calendar-queue").addEventListener("change", lookAtCalendar);
$("due-close").addEventListener("click", () => {
  dueTurn++;
  $("due").hidden = true;
  const cell = $("calendar-rows").querySelector("button[tabindex='0']");
  (cell || $("calendar-view")).focus();
});
