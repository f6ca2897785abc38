/* page_form.js: the forms that schedule a task, create a queue or change its policy. The fields of a policy, with their types, ranges and
 * descriptions, come from /v1/openapi.json, so a new one appears here by itself. The broker judges each value. */

/* The exact text of a duration: 90000 is 1m30s. */
const durationText = (ms) => {
  if (!ms) return "0s";
  let text = "", left = ms;
  for (const [unit, size] of [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000], ["ms", 1]]) {
    if (left >= size) text += `${Math.floor(left / size)}${unit}`;
    left %= size;
  }
  return text;
};
const control = (field) => {
  const made = element({ select: "select", area: "textarea" }[field.kind] || "input");
  made.id = `form-${field.name}`;
  made.autocomplete = "off";
  if (field.kind === "select") made.append(...field.options.map((name) => { const option = element("option", name); option.value = name; return option; }));
  if (field.kind === "number") { made.type = "number"; made.min = field.min; made.max = field.max; }
  if (field.kind === "time") made.type = "datetime-local";
  if (field.list) made.setAttribute("list", field.list);
  if (field.kind === "area") made.rows = 3;
  made.value = field.value;
  made.readOnly = Boolean(field.fixed);
  return made;
};
/* Shows a form. `send` gets the values by name, and returns { ok, text } or { difference }. With { difference }, the form shows what would change, and the next press sends the same values again, with `confirmed`. `done` gets the text of a success. */
const openForm = ({ title, fields, yes, send, done }) => {
  const values = () => Object.fromEntries(fields.map((field) => [field.name, $(`form-${field.name}`).value]));
  let shown = "";
  const reset = () => { shown = ""; $("form-difference").hidden = true; $("form-yes").textContent = yes; $("form-said").textContent = ""; };
  $("form-title").textContent = title;
  $("form-fields").replaceChildren(...fields.flatMap((field) => {
    const label = element("label", field.label), made = control(field), help = field.help ? element("span", field.help, "help") : null;
    label.htmlFor = made.id;
    if (help) { help.id = `${made.id}-help`; made.setAttribute("aria-describedby", help.id); }
    made.addEventListener("input", reset);
    return help ? [label, made, help] : [label, made];
  }));
  reset();
  $("form-form").onsubmit = async (event) => {
    event.preventDefault();
    const now = values(), text = JSON.stringify(now);
    $("form-yes").disabled = true;
    const result = await send(now, shown === text).catch(unknown);
    $("form-yes").disabled = false;
    if (result.difference) {
      shown = text;
      $("form-difference").replaceChildren(...result.difference.map((line) => element("li", line)));
      $("form-difference").hidden = false;
      $("form-yes").textContent = "Save these changes";
    } else if (result.ok) {
      $("form").close();
      done(result.text, now);
    } else {
      $("form-said").textContent = result.text;
    }
  };
  $("form-no").onclick = () => $("form").close();
  $("form").showModal();
  const first = fields.find((field) => !field.fixed);
  $(`form-${first.name}`).focus();
};

/* ---- schedule a task */
const attributesOf = (text) => Object.fromEntries(text.split("\n").filter((line) => line.trim()).map((line) => {
  const at = line.indexOf("=");
  return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1)];
}));
const isJson = (text) => { try { JSON.parse(text); return true; } catch { return false; } };
/* A payload that is valid JSON is sent as it was typed: reading it and writing it again would change numbers of many digits. */
const scheduleBody = (values) => {
  const { payload, ...task } = { queue: values.queue, ...(values.at ? { due_ms: new Date(values.at).getTime() } : { in: values.in }), ...(values.key ? { key: values.key } : {}),
    ...(Number(values.priority) ? { priority: Number(values.priority) } : {}), ...(values.attributes.trim() ? { attributes: attributesOf(values.attributes) } : {}), payload: values.payload };
  const text = JSON.stringify(task);
  return payload ? `${text.slice(0, -1)},${isJson(payload) ? `"json":${payload}` : `"body":${JSON.stringify(payload)}`}}` : text;
};
const openSchedule = (queue, say, after) => openForm({ title: "Schedule a task", yes: "Schedule",
  fields: [{ name: "queue", label: "Queue", value: queue, list: "find-queues" }, { name: "in", label: "Due in", value: "10m", help: "a duration from now: 90s, 30m, 1h30m, 2d" },
    { name: "at", label: "or at", kind: "time", value: "", help: "in this browser's time zone; if it is set, “Due in” is ignored" },
    { name: "key", label: "Key", value: "", help: "a name of your own, such as order-1001, by which the task can be cancelled and found" },
    { name: "payload", label: "Payload", kind: "area", value: "", help: "JSON or text" },
    { name: "priority", label: "Priority", kind: "number", min: 0, max: 9, value: "0", help: "0 to 9: of tasks that are due, 9 is delivered first" },
    { name: "attributes", label: "Attributes", kind: "area", value: "", help: "NAME=VALUE, one on each line" }],
  send: async (values) => {
    const answer = await call("/v1/tasks", { method: "POST", body: scheduleBody(values) });
    return outcome(answer, (result) => `Done: ${resultText({ op: "schedule", ...result })}, id ${result.id}.`);
  },
  done: (text, values) => { say(text, "good"); after(values.queue); } });

/* ---- fields from /v1/openapi.json */
/* Reads the fields of a request's body. A duration or time NAME_ms is shown as NAME. Returns { schemas, fields }. */
const readFields = async (path, method) => {
  const answer = await call("/v1/openapi.json");
  if (!answer.ok) throw new Error(await refusal(answer));
  const { components, paths } = await answer.json(), { properties } = paths[path][method].requestBody.content["application/json"].schema;
  return { schemas: components.schemas, fields: Object.entries(properties).filter(([name]) => !(name.endsWith("_ms") && name.slice(0, -3) in properties)).map(([name, schema]) => {
    const isNumber = schema.type === "integer", isTime = schema.format === "date-time";
    return { name, schema, isNumber, isTime, isDuration: `${name}_ms` in properties && !isTime, label: name.replaceAll("_", " "), kind: schema.enum ? "select" : isNumber ? "number" : "text", options: schema.enum,
      min: schema.minimum, max: schema.maximum, range: isNumber ? `${count(schema.minimum)} to ${count(schema.maximum)}` : "" };
  }) };
};

/* ---- create a queue, or change its policy */
let policyFields = null;
const readPolicyFields = async () => {
  if (policyFields) return policyFields;
  const { schemas, fields } = await readFields("/v1/queues/{queue}", "patch"), told = schemas.QueuePolicy.properties;
  policyFields = fields.filter((field) => field.schema.type !== "boolean").map((field) => {
    const of = told[field.name] || told[`${field.name}_ms`] || {}, range = field.isDuration ? "a duration: 250ms, 30s, 1h30m" : field.range;
    return { ...field, help: [of.description || field.schema.description, range].filter(Boolean).join("; ") };
  });
  return policyFields;
};
const policyValue = (field, policy) => (field.isDuration ? durationText(policy[`${field.name}_ms`]) : String(policy[field.name] ?? (field.isNumber ? 0 : field.options ? field.options[0] : "")));
const openPolicy = async (name, policy, say, after) => {
  try {
    const fields = (await readPolicyFields()).map((field) => ({ ...field, value: policy ? policyValue(field, policy) : "" }));
    if (!policy) fields.forEach((field) => { if (field.options) field.options = ["", ...field.options.filter((one) => one)]; });
    const changed = (values) => fields.filter((field) => values[field.name] !== field.value);
    const body = (values) => Object.fromEntries(changed(values).map((field) => [field.name, field.isNumber ? Number(values[field.name]) : values[field.name]]));
    openForm({ title: policy ? `Policy of ${name}` : "Create a queue", yes: policy ? "Show the changes" : "Create",
      fields: policy ? fields : [{ name: "queue", label: "Name", value: "", help: "an empty field below takes the broker's default" }, ...fields],
      send: async (values, confirmed) => {
        const of = changed(values), queue = policy ? name : values.queue;
        if (policy && !of.length) return { ok: false, text: "Nothing has been changed in this form." };
        if (!policy && !queue) return { ok: false, text: "The queue needs a name." };
        if (policy && !confirmed) return { difference: of.map((field) => `${field.label}: ${field.value || "nothing"} → ${values[field.name] || "nothing"}`) };
        const answer = await call(`/v1/queues/${segment(queue)}`, { method: "PATCH", body: JSON.stringify(body(values)) });
        return outcome(answer, () => (policy ? "Done: the policy is changed." : `Done: queue ${queue} exists.`));
      },
      done: (text, values) => { say(text, "good"); after(policy ? name : values.queue); } });
  } catch (error) { say(`The form cannot be shown: ${error.message}`, "bad"); }
};
