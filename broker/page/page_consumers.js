/* page_consumers.js: shows the connected consumers: their names and addresses, the queues that they consume, and when they last settled a task. */
const CONSUMERS_EVERY_MS = 10000;
let consumersAt = 0;
const consumerRow = (consumer) => {
  const row = element("tr"), head = element("th", consumer.client || "without a name"), shown = [...consumer.queues, ...(consumer.awaited || []).map((name) => `${name} (does not exist yet)`)];
  const more = consumer.queue_count - shown.length;
  head.scope = "row";
  row.append(head, element("td", consumer.principal || "local", "list"), element("td", consumer.peer || "", "list"), element("td", `${shown.join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`, "list"),
    element("td", count(consumer.prefetch)), element("td", count(consumer.in_flight)), element("td", consumer.settled_ms ? exact(consumer.settled_ms) : "never"));
  return row;
};
const lookAtConsumers = async () => {
  consumersAt = Date.now();
  try {
    const answer = await call("/v1/consumers");
    if (!answer.ok) throw new Error(await refusal(answer));
    const { consumers } = await answer.json();
    $("consumers-rows").replaceChildren(...consumers.slice(0, ROWS_MAX).map(consumerRow));
    $("consumers-table").hidden = !consumers.length;
    $("consumers-state").textContent = !consumers.length ? "No consumer is connected." : consumers.length > ROWS_MAX ? `${ROWS_MAX} of ${count(consumers.length)} consumers.` : "";
  } catch (error) {
    $("consumers-table").hidden = true;
    $("consumers-state").textContent = `The consumers cannot be shown: ${error.message}`;
  }
  $("consumers").hidden = false;
};
const refreshConsumers = () => { if (Date.now() - consumersAt >= CONSUMERS_EVERY_MS) lookAtConsumers(); };
