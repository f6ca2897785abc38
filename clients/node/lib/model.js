"use strict";
// model.js: values that programs pass to a client and receive from it, and the conversion to and from messages.
const { AsyncLocalStorage } = require("node:async_hooks");
const { CONFLICTS, encode, decode, codeName, outcomeName } = require("./wire.js");

// In a handler: the task's trace (W3C Trace Context). Tasks that the handler schedules continue it.
const traceContext = new AsyncLocalStorage();
const TRACE_NAMES = ["traceparent", "tracestate"];
const REASON_SIZE_MAX = 255;
const DELAY = 0, AT = 1;

/** Converts to whole milliseconds, rounded up, because a task must never be early. */
function milliseconds(name, value) {
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0)
    throw new RangeError(`${name} must be a number of milliseconds, 0 or more, not ${value}`);
  return Math.ceil(value);
}

function whenOf({ delayMs, at }) {
  if (delayMs !== undefined && at !== undefined) throw new TypeError("give delayMs or at, not both");
  if (at !== undefined) return { kind: AT, ms: milliseconds("at", at instanceof Date ? at.getTime() : at) };
  return { kind: DELAY, ms: milliseconds("delayMs", delayMs ?? 0) };
}

/** Converts a task's queue and key, or { id }, to a reference. */
function refOf(queue, key) {
  if (queue !== null && typeof queue === "object" && queue.id !== undefined) return { id: BigInt(queue.id) };
  if (typeof queue !== "string" || typeof key !== "string" || key === "") throw new TypeError("name the task by queue and key, or by { id }");
  return { queue, key };
}

/** Cuts the text to the maximum size of a reason, before an incomplete character. */
function reasonOf(text) {
  const bytes = Buffer.from(String(text).toWellFormed?.() ?? String(text), "utf8");
  let size = Math.min(bytes.length, REASON_SIZE_MAX);
  while (size < bytes.length && size > 0 && (bytes[size] & 0xc0) === 0x80) size--;
  return bytes.toString("utf8", 0, size).replaceAll("\0", " ");
}

const SCHEDULE_OPTIONS = new Set(["queue", "body", "key", "delayMs", "at", "json", "attributes", "priority", "expiresMs", "onConflict", "timeoutMs"]);

function scheduleOp(task, inject) {
  for (const name of Object.keys(task)) if (!SCHEDULE_OPTIONS.has(name)) throw new TypeError(`unknown option ${name} of a schedule`);
  const attributes = { ...traceContext.getStore() };
  if (inject) inject(attributes);
  Object.assign(attributes, task.attributes);
  let payload = task.body ?? "";
  if (task.json !== undefined) {
    if (task.body !== undefined) throw new TypeError("give body or json, not both");
    payload = JSON.stringify(task.json);
    attributes["content-type"] ??= "application/json";
  }
  const conflict = CONFLICTS.indexOf((task.onConflict ?? "reject").toUpperCase());
  if (conflict < 0) throw new RangeError(`onConflict must be reject, replace, earlier or later, not ${task.onConflict}`);
  const content = encode("Content", {
    attributes: Object.entries(attributes).map(([name, value]) => ({ name, value: String(value) })),
    payload: typeof payload === "string" ? Buffer.from(payload, "utf8") : Buffer.from(payload),
  });
  return {
    schedule: {
      queue: task.queue, key: task.key ?? "", when: whenOf(task), content, priority: task.priority ?? 0,
      expires_ms: task.expiresMs === undefined ? 0 : milliseconds("expiresMs", task.expiresMs), on_conflict: conflict,
    },
  };
}

function resultOf(message) {
  const code = codeName(message.code);
  return {
    ok: code === "OK", code, outcome: outcomeName(message.outcome), id: String(message.id), dueMs: message.due_ms, deliveries: message.deliveries,
    attempt: message.attempt, message: message.message || code.toLowerCase(),
  };
}

class Content {
  constructor(message) {
    const content = decode("Content", message.content);
    this.id = String(message.id);
    this.queue = message.queue;
    this.key = message.key === "" ? null : message.key;
    this.body = content.payload;
    this.attributes = Object.fromEntries(content.attributes.map(({ name, value }) => [name, value]));
    this.dueMs = message.due_ms;
    this.attempt = message.attempt;
    this.deliveries = message.deliveries;
    this.priority = message.priority;
  }

  text() {
    return this.body.toString("utf8");
  }

  json() {
    return JSON.parse(this.text());
  }
}

/** A task as `get` sees it. */
class View extends Content {
  constructor(message) {
    super(message);
    this.state = message.state;
    this.reason = message.reason;
    this.scheduledMs = message.scheduled_ms;
    this.endedMs = message.ended_ms;
  }
}

/** One delivery of a task. */
class Task extends Content {
  constructor(message, deliveredMs) {
    super(message);
    this.deliveredMs = deliveredMs;
    this.token = `${message.token.epoch}-${message.token.position}`;
    this.leaseMs = Math.max(1, message.lease_deadline_ms - deliveredMs);
    this.isLeaseLost = false; // another consumer may have the task now
    Object.defineProperty(this, "lease", { value: { id: message.id, token: message.token } });
  }

  trace() {
    return Object.fromEntries(TRACE_NAMES.filter((name) => name in this.attributes).map((name) => [name, this.attributes[name]]));
  }
}

/** True: the lease with token `a` is older than the one with token `b`. */
const isOlder = (a, b) => (a.epoch !== b.epoch ? a.epoch < b.epoch : a.position < b.position);

module.exports = { Task, View, milliseconds, whenOf, refOf, reasonOf, scheduleOp, resultOf, isOlder, traceContext };
