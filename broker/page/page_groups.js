/* page_groups.js: shows the groups of topics, their filters, and how far their consumers are behind (docs/GROUPS.md). The filters come from
 * /v1/queues, the numbers from the statistics. */
const FILTERS_EVERY_MS = 10000;
let filtersAt = 0, filters = new Map(); /* filters by the name of their group */
const groupRow = ([name, filter]) => {
  const row = element("tr"), head = element("th"), open = element("button", name), numbers = queues.find((queue) => queue.name === name);
  head.scope = "row";
  open.type = "button";
  open.addEventListener("click", () => openQueue(name));
  head.append(open);
  row.append(head, element("td", filter, "reason"));
  if (numbers) {
    row.append(element("td", count(numbers.ready) + (numbers.ready_is_lower_bound ? "+" : "")), element("td", numbers.overdue_ms ? seconds(numbers.overdue_ms / 1000) : "–"),
      element("td", count(numbers.in_flight)), element("td", count(numbers.dead)), element("td", `${count(numbers.consumers)}${numbers.paused ? ", paused" : ""}`));
  }
  return row;
};
const showGroups = () => {
  if ($("groups-rows").contains(document.activeElement)) return; /* do not redraw now, because the button with the focus would be replaced and lose the focus */
  $("groups").hidden = !filters.size;
  $("groups-rows").replaceChildren(...[...filters].slice(0, ROWS_MAX).map(groupRow));
};
const readFilters = async () => {
  filtersAt = Date.now();
  try {
    const answer = await call("/v1/queues");
    if (!answer.ok) return;
    const told = await answer.json();
    filters = new Map(told.queues.filter((queue) => queue.policy && queue.policy.filter).map((queue) => [queue.name, queue.policy.filter]));
  } catch { /* nothing to report here: the part of the page with the statistics shows that the broker does not answer */ }
  showGroups();
};
const refreshGroups = () => { if (Date.now() - filtersAt >= FILTERS_EVERY_MS) readFilters(); else showGroups(); };
