/* page_push.js: shows how the webhook targets of pushed queues respond (docs/WEBHOOKS.md). A URL is shown as text, not as a link:
 * otherwise a client that sets a policy could choose where the user's click leads. */
const pushCells = (row, nowMs) => [row.url || "", count(row.in_flight || 0), count(row.acked || 0), count(row.refused || 0), count(row.failed || 0), row.status ? String(row.status) : row.sent ? "no answer" : "–",
  row.resting_until_ms > nowMs ? `${new Date(row.resting_until_ms).toLocaleTimeString()} (${seconds((row.resting_until_ms - nowMs) / 1000)})` : "–", row.error ? `${row.error}${row.failed_ms ? ` (${new Date(row.failed_ms).toLocaleTimeString()})` : ""}` : ""];
const pushed = (rows, nowMs) => {
  $("push").hidden = !rows.length;
  $("push-rows").replaceChildren(...[...rows].sort((a, b) => (a.queue < b.queue ? -1 : 1)).map((row) => {
    const line = element("tr"), name = element("th", row.queue), cells = pushCells(row, nowMs);
    name.scope = "row";
    line.append(name, ...cells.map((text, c) => element("td", text, c === cells.length - 1 ? "reason" : c === 0 ? "reason url" : c === 6 && text !== "–" ? "warn" : "")));
    return line;
  }));
};
