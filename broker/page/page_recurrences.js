/* page_recurrences.js: shows when each recurrence fires next and how its last occurrence ended; has the actions, and a form to create or change
 * one (docs/RECURRING.md). The fields of the form come from /v1/openapi.json. */
const RECURRENCES_EVERY_MS = 10000;
/* Members of a recurrence that the form does not show. A change sends them again as they are; a new body replaces the payload. */
const OTHER_PAYLOADS = ["body_base64", "json"], NOT_IN_FORM = [...OTHER_PAYLOADS, "properties"];
let recurrencesAt = 0;

/* ---- the form */
let recurrenceFields = null;
const readRecurrenceFields = async () => {
  if (recurrenceFields) return recurrenceFields;
  const { fields } = await readFields("/v1/queues/{queue}/recurrences/{name}", "put");
  recurrenceFields = fields.filter((field) => !NOT_IN_FORM.includes(field.name)).map((field) => {
    const isAttributes = field.name === "attributes";
    return { ...field, isAttributes, kind: isAttributes || field.name === "body" ? "area" : field.kind,
      help: isAttributes ? "NAME=VALUE, one on each line" : field.isTime ? "a time such as 2026-12-01T09:00:00Z" : [field.schema.description, field.range].filter(Boolean).join("; ") };
  });
  return recurrenceFields;
};
const recurrenceValue = (field, view) => {
  if (field.isAttributes) return Object.entries(view.attributes || {}).map(([name, value]) => `${name}=${value}`).join("\n");
  if (field.isDuration) return view[`${field.name}_ms`] ? durationText(view[`${field.name}_ms`]) : "";
  return view[field.name] === undefined ? "" : String(view[field.name]);
};
const recurrenceBody = (fields, values, view) => {
  /* An unchanged field is sent as it was. The form cannot hold all texts: it changes line ends, and reads each line as an attribute. */
  const isSame = (field) => view && values[field.name] === field.value.replace(/\r\n?/g, "\n");
  const textOf = (field) => (isSame(field) ? field.value : values[field.name].trim() && values[field.name]);
  const memberOf = (field) => (field.isAttributes ? (isSame(field) ? view.attributes : attributesOf(textOf(field))) : field.isNumber ? Number(textOf(field)) : textOf(field));
  const shown = fields.filter(textOf).map((field) => [field.name, memberOf(field)]);
  const kept = NOT_IN_FORM.filter((name) => view && name in view && !(values.body.trim() && OTHER_PAYLOADS.includes(name)));
  return Object.fromEntries([...shown, ...kept.map((name) => [name, view[name]])]);
};
/* Opens the form for the recurrence `view`; without `view`, for a new recurrence. */
const openRecurrence = async (view) => {
  const say = sayIn("recurrences-said");
  try {
    const fields = (await readRecurrenceFields()).map((field) => ({ ...field, value: view ? recurrenceValue(field, view) : "" }));
    const isHidden = view && OTHER_PAYLOADS.some((name) => name in view);
    if (isHidden) fields.find((field) => field.name === "body").help = "the present payload is JSON or bytes, and is not shown; it stays if this field is empty";
    openForm({ title: view ? `Recurring task ${view.name} of ${view.queue}` : "Create a recurring task", yes: view ? "Replace it" : "Create",
      fields: [{ name: "of_queue", label: "Queue", value: view ? view.queue : "", list: "find-queues", fixed: Boolean(view) },
        { name: "its_name", label: "Name", value: view ? view.name : "", fixed: Boolean(view), help: "one of cron, every and rrule says when it fires" }, ...fields],
      send: async (values) => {
        if (!values.of_queue || !values.its_name) return { ok: false, text: "The recurring task needs a queue and a name." };
        const answer = await call(`/v1/queues/${segment(values.of_queue)}/recurrences/${segment(values.its_name)}`, { method: "PUT", body: JSON.stringify(recurrenceBody(fields, values, view)) });
        return outcome(answer, (result) => `Done: ${values.its_name} is set${result.due_ms ? `, next ${exact(result.due_ms)}` : ""}.`);
      },
      done: (text) => { say(text, "good"); lookAtRecurrences(); } });
  } catch (error) { say(`The form cannot be shown: ${error.message}`, "bad"); }
};

/* ---- the table */
const recurrenceRule = (view) => `${view.every_ms ? `every ${durationText(view.every_ms)}` : view.cron || view.rrule || ""}${view.every_ms ? "" : `, ${view.zone || "UTC"}`}`;
const recurrenceActions = (view) => {
  const op = (word) => () => ({ [`recur_${word}`]: { queue: view.queue, name: view.name } }), of = `${view.name} of ${view.queue}`;
  const action = (word, name, text, danger) => ({ role: "operate", name, danger, label: `${name} ${of}`, title: `${name} ${of}?`, text, yes: name, op: op(word) });
  return [{ role: "operate", name: "Change", label: `Change ${of}`, open: () => openRecurrence(view) },
    view.state === "paused" ? action("resume", "Resume", "The next occurrence is planned from now on.") : action("pause", "Pause", "The next occurrence is cancelled; none follows until it is resumed."),
    action("trigger", "Trigger", "One occurrence is created now, besides the others."), action("delete", "Delete", "The next occurrence is cancelled. Earlier ones stay.", true)];
};
const recurrenceRow = (view) => {
  const row = element("tr"), head = element("th", view.name), acts = element("td"), isBad = view.state === "stuck" || view.last_state === "dead";
  head.scope = "row";
  buttons(acts, recurrenceActions(view), sayIn("recurrences-said"), lookAtRecurrences);
  row.append(head, element("td", view.queue), element("td", recurrenceRule(view)), element("td", view.problem ? `${view.state}: ${view.problem}` : view.state, view.state === "stuck" ? "bad" : ""),
    element("td", view.next_ms ? toSecond(view.next_ms) : "none"), element("td", view.last_ms ? toSecond(view.last_ms) : "never"), element("td", view.last_state || "–", isBad ? "bad" : ""),
    element("td", count(view.missed_count || 0)), element("td", count(view.skipped_count || 0)), acts);
  return row;
};
const lookAtRecurrences = async () => {
  recurrencesAt = Date.now();
  try {
    const answer = await call(`/v1/recurrences?limit=${ROWS_MAX}`);
    if (!answer.ok) throw new Error(await refusal(answer));
    const { recurrences, next } = parse(await answer.text());
    $("recurrences-rows").replaceChildren(...recurrences.map(recurrenceRow));
    $("recurrences-table").hidden = !recurrences.length;
    $("recurrences-state").textContent = next ? `The first ${ROWS_MAX}; tarry recur list shows all.` : "";
    $("recurrences").hidden = !recurrences.length && !$("recurrences-said").textContent;
  } catch (error) {
    $("recurrences-table").hidden = true;
    $("recurrences-state").textContent = `The recurring tasks cannot be shown: ${error.message}`;
    $("recurrences").hidden = false;
  }
};
/* Refreshes the table, unless the user is at one of its buttons. */
const refreshRecurrences = () => {
  const isUsed = $("sure").open || $("form").open || $("recurrences-rows").contains(document.activeElement);
  if (Date.now() - recurrencesAt >= RECURRENCES_EVERY_MS && !isUsed) lookAtRecurrences();
};
