"use strict";
// driver.js: the driver of clients/node (README.md).
const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const { Client, Dead, Release, Retry, TarryError } = require("tarry-client");

const tell = (what) => process.stdout.write(JSON.stringify(what) + "\n");

const client = new Client(undefined, {
  timeoutMs: Number(process.env.TARRY_TEST_TIMEOUT_MS ?? 30000),
  measure: (name, value, { task, result }) =>
    name === "tarry.worker.tasks" && tell({ event: "settled", name: task.attributes.name ?? null, result, deliveries: task.deliveries }),
});
let openGate;
const gate = new Promise((resolve) => (openGate = resolve));

async function handle(task) {
  const { key, attempt, deliveries, dueMs, deliveredMs, attributes } = task;
  tell({ event: "task", name: attributes.name ?? null, key, attempt, deliveries, due_ms: dueMs, delivered_ms: deliveredMs, attributes });
  const [verb, ...words] = task.text().split(" ");
  const text = words.join(" ");
  if (verb === "sleep") await sleep(Number(words[0]));
  else if (verb === "gate") await gate;
  else if (verb === "fail") throw new Error(text);
  else if (verb === "dead") throw new Dead(text);
  else if (verb === "fail-first" && attempt <= Number(words[0])) throw new Error("not yet");
  else if (verb === "retry-first" && attempt <= Number(words[0])) throw new Retry("not yet", { delayMs: Number(words[1]) });
  else if (verb === "release-first" && deliveries <= Number(words[0])) throw new Release({ delayMs: Number(words[1]) });
  else if (verb === "chain") await client.schedule(words[0], { body: "ack", attributes: { name: words[1] } });
}

const options = (call) => ({
  body: call.body, key: call.key, delayMs: call.delay_ms, at: call.at_ms, attributes: call.attributes, priority: call.priority,
  expiresMs: call.expires_ms, onConflict: call.on_conflict,
});
const plain = ({ code, outcome, id, dueMs, deliveries }) => ({ code, outcome, task: id, due_ms: dueMs, deliveries });

const CALLS = {
  schedule: async (call) => plain(await client.schedule(call.queue, options(call))),
  schedule_many: async (call) => ({
    results: (await client.scheduleMany(call.tasks.map((task) => ({ queue: task.queue, ...options(task) })), { atomic: call.atomic })).map(plain),
  }),
  cancel: async (call) => plain(await client.cancel(call.queue, call.key, { withdraw: call.withdraw })),
  move: async (call) => plain(await client.move(call.queue, call.key, { delayMs: call.delay_ms, at: call.at_ms })),
  get: async (call) => {
    const view = await client.get(call.queue, call.key);
    if (view === null) return { state: "unknown" };
    return { state: view.state, body: view.text(), attributes: view.attributes, reason: view.reason, due_ms: view.dueMs, deliveries: view.deliveries };
  },
  worker: async (call) => {
    await client.worker(call.queue, call.concurrency, handle, { leaseMs: call.lease_ms, drainMs: call.drain_ms });
    return {};
  },
  open: async () => {
    openGate();
    return {};
  },
};

async function answer(call) {
  try {
    tell({ id: call.id, ...(await CALLS[call.call](call)) });
  } catch (error) {
    if (!(error instanceof TarryError)) throw error;
    tell({ id: call.id, code: error.code, message: error.message, outcome: error.result?.outcome ?? "" });
  }
}

readline.createInterface({ input: process.stdin }).on("line", (line) => answer(JSON.parse(line))).on("close", () => client.close());
