/* page_do.js: the actions of a user: each needs a confirmation, and the page then shows the broker's result. The token is sent
 * in a header that no other page can send, there are no cookies, and the broker refuses requests from pages of other origins. */
let roles = [];
const may = (...any) => any.some((role) => roles.includes(role));
const whoAmI = async () => {
  try {
    const answer = await call("/v1/caller");
    roles = answer.ok ? (await answer.json()).roles : [];
  } catch { roles = []; }
};
/* Resolves with the field's text (or "") if the user confirms, otherwise with null. `field`: { label, value, help }. */
const sure = ({ title, text, yes, field, danger }) => new Promise((resolve) => {
  const dialog = $("sure");
  let said = null;
  $("sure-title").textContent = title;
  $("sure-text").textContent = text;
  $("sure-yes").textContent = yes;
  $("sure-yes").className = danger ? "danger" : "";
  $("sure-ask").hidden = !field;
  $("sure-label").textContent = field ? field.label : "";
  $("sure-field").value = field ? field.value : "";
  $("sure-help").textContent = field ? field.help : "";
  $("sure-form").onsubmit = (event) => { event.preventDefault(); said = $("sure-field").value.trim(); dialog.close(); };
  $("sure-no").onclick = () => dialog.close();
  dialog.onclose = () => resolve(said);
  dialog.showModal();
  $(field ? "sure-field" : "sure-no").focus();
});
/* Returns the broker's sentence about the result of one operation. */
const resultText = (result) => {
  const what = result.result === "done" ? result.op.replace("recur_", "") : result.result, left = result.job ? `: ${count(result.count || 0)} tasks, one after the other (job ${result.job})` : "";
  return `${what}${left}${["schedule", "move", "requeue"].includes(result.op) && result.due_ms ? `, due ${exact(result.due_ms)}` : ""}${result.paused_until_ms ? ` until ${exact(result.paused_until_ms)}` : ""}`;
};
const problemText = (result) => `${result.message || result.code}${result.result !== "error" ? ` (it is ${result.result})` : ""}`;
const nothing = (why) => ({ ok: false, text: `Nothing was done: ${why}.` });
/* The request may have been executed; only the reply is missing. */
const unknown = (error) => ({ ok: false, text: `Whether it was done is not known: ${error.message}. Look again.` });
/* Reads the answer to a request with one operation. Returns { ok, text }. */
const outcome = async (answer, textOf) => {
  if (!answer.ok) return nothing(await refusal(answer));
  const result = parse(await answer.text());
  return result.code ? nothing(problemText(result)) : { ok: true, text: textOf(result) };
};
/* Sends operations that may fail independently of each other. Returns { ok, text }: the result of one operation, or the numbers of
 * those that were done and refused, with the first reason. */
const carryOut = async (ops) => {
  try {
    const answer = await call("/v1/commit", { method: "POST", body: JSON.stringify({ ops, atomic: false }) });
    if (!answer.ok) return nothing(await refusal(answer));
    const { results } = await answer.json(), refused = results.filter((result) => result.code);
    if (results.length === 1) return refused.length ? nothing(problemText(results[0])) : { ok: true, text: `Done: ${resultText(results[0])}.` };
    return { ok: !refused.length, text: `Done: ${count(results.length - refused.length)} of ${count(results.length)}.${refused.length ? ` The first refusal: ${problemText(refused[0])}.` : ""}` };
  } catch (error) { return unknown(error); }
};
const sayIn = (id) => (text, mark = "") => { $(id).textContent = text; $(id).className = mark; return $(id); };
/* Makes a button for each action that the roles allow; calls `after` when an action is done. An action with `open` opens a form
 * instead. */
const buttons = (into, actions, say, after) => into.replaceChildren(...actions.filter(({ role }) => may(role)).map((action) => {
  const button = element("button", action.name, action.danger ? "danger" : undefined);
  button.type = "button";
  if (action.label) button.setAttribute("aria-label", action.label);
  button.addEventListener("click", async () => {
    if (action.open) { action.open(button); return; }
    const field = await sure(action);
    if (field === null) return;
    const done = action.carryOut ? await action.carryOut(field) : await carryOut([action.op(field)]), said = say(done.text, done.ok ? "good" : "bad");
    await after();
    if (document.activeElement === document.body) said.focus(); /* the button with the focus has been replaced, so move the focus to the message */
  });
  return button;
}));

/* ---- actions for a task */
const taskActions = (view, short) => {
  const of = `${named(view)} of ${view.queue}`, label = (word) => (short ? `${word} ${named(view)}` : undefined);
  const cancel = { role: "produce", name: "Cancel", danger: true, title: `Cancel ${of}?`, text: view.state === "in_flight" ? "A consumer has the task now; its ack or nack will be refused." : "The task will not be delivered.",
    yes: "Cancel the task", label: label("Cancel"), op: () => ({ cancel: { id: view.id, ...(view.state === "in_flight" ? { withdraw: true } : {}) } }) };
  const move = { role: "produce", name: "Move", title: `Move ${of}?`, text: `Present due time: ${exact(view.due_ms)}.`, yes: "Move the task", label: label("Move"),
    field: { label: "Due in", value: "30m", help: "a duration from now: 90s, 30m, 1h30m, 2d" }, op: (field) => ({ move: { id: view.id, in: field } }) };
  const requeue = { role: "operate", name: "Requeue", title: `Requeue ${of}?`, text: "The task is due at once, and its attempts count from zero.", yes: "Requeue it", label: label("Requeue"), op: () => ({ requeue: { id: view.id } }) };
  const drop = { role: "operate", name: "Drop", danger: true, title: `Drop ${of}?`, text: "The dead letter is deleted.", yes: "Drop it", label: label("Drop"), op: () => ({ drop: { id: view.id } }) };
  return { pending: [move, cancel], ready: [move, cancel], in_flight: [cancel], dead: [requeue, drop] }[view.state] || [];
};
