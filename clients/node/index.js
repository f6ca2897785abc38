"use strict";
// index.js: the client of Tarry, a durable delay broker. See README.md and index.d.ts.
const { debuglog } = require("node:util");
const errors = require("./lib/errors.js");
const { Ask, Committer, OPS_MAX } = require("./lib/commits.js");
const { Identity, Link, now } = require("./lib/link.js");
const { View, refOf, resultOf, scheduleOp, whenOf } = require("./lib/model.js");
const { Worker } = require("./lib/worker.js");
const { codeName, encode, outcomeName } = require("./lib/wire.js");

const TIMEOUT_DEFAULT_MS = 10000;
const CHUNK_SIZE_MAX = 1 << 20; // other operations need not wait long behind one request of schedule_many
const NAME_SIZE_MAX = 128;

class Client {
  constructor(urls, options = {}) {
    this.name = Buffer.from(options.name ?? `node/${process.pid}`).toString("utf8", 0, NAME_SIZE_MAX);
    this.timeoutMs = options.timeoutMs ?? TIMEOUT_DEFAULT_MS;
    this.inject = options.inject;
    this.hook = options.measure;
    this.log = options.log ?? debuglog("tarry");
    this.link = new Link(urls, new Identity(options));
    this.link.on("connection", (address, isUp, why) => {
      this.log(`${address}: ${isUp ? "connected" : why}`);
      this.measure("tarry.client.connections", isUp ? 1 : -1, { address });
    });
    this.cluster = Buffer.alloc(0);
    this.changes = new Committer(this); // schedules, cancels, moves
    this.settles = new Committer(this); // acks, nacks, extends, releases: they do not wait behind schedules that a full broker refuses
    this.workers = new Map(); // Worker → the promise of its end
  }

  // ---- for the other modules

  pack(body, packed = Buffer.alloc(0)) {
    return Buffer.concat([encode("Request", { version: 1, client: this.name, cluster: this.cluster, ...body }), packed]);
  }

  metCluster(cluster) {
    if (this.link.urls.length > 1) this.cluster = Buffer.from(cluster); // a producer belongs to a cluster
  }

  until(timeoutMs = this.timeoutMs) {
    return now() + timeoutMs;
  }

  measure(name, value, labels) {
    try {
      this.hook?.(name, value, labels);
    } catch (error) {
      this.log(`the hook measure failed: ${error.stack}`); // a program's hook must not stop its work
    }
  }

  async ask(body, timeoutMs) {
    const reply = await new Ask(this.link, this.pack(body), false).run(this.until(timeoutMs));
    if (codeName(reply.code) !== "OK") throw errors.refusal(codeName(reply.code), reply.message);
    return reply;
  }

  // ---- calls

  async #one(op, timeoutMs) {
    const result = resultOf((await this.changes.commit([op], false, this.until(timeoutMs)))[0]);
    this.measure("tarry.client.operations", 1, { operation: Object.keys(op)[0], code: result.code });
    if (!result.ok) throw errors.refusal(result.code, result.message, result);
    return result;
  }

  async schedule(queue, options = {}) {
    return this.#one(scheduleOp({ ...options, queue }, this.inject), options.timeoutMs);
  }

  async scheduleMany(tasks, { atomic = false, timeoutMs } = {}) {
    const ops = tasks.map((task) => scheduleOp(task, this.inject));
    if (atomic && ops.length > OPS_MAX) throw new RangeError(`at most ${OPS_MAX} tasks can be scheduled atomically, not ${ops.length}`);
    const chunks = atomic ? (ops.length > 0 ? [ops] : []) : chunksOf(ops);
    const answers = await Promise.allSettled(chunks.map((chunk) => this.changes.commit(chunk, atomic, this.until(timeoutMs))));
    const failed = answers.find((answer) => answer.status === "rejected");
    if (failed) throw failed.reason;
    const results = answers.flatMap((answer) => answer.value.map(resultOf));
    for (const { code } of results) this.measure("tarry.client.operations", 1, { operation: "schedule", code });
    if (atomic && results.some((result) => !result.ok))
      throw new errors.Aborted(results.find((result) => !result.ok && result.code !== "ABORTED").message, results);
    return results;
  }

  async cancel(queue, key, options = typeof key === "object" ? key : {}) {
    return this.#one({ cancel: { task: refOf(queue, key), withdraw: options.withdraw ?? false } }, options.timeoutMs);
  }

  async move(queue, key, options = typeof key === "object" ? key : {}) {
    if (options.delayMs === undefined && options.at === undefined) throw new TypeError("give delayMs or at");
    return this.#one({ move: { task: refOf(queue, key), when: whenOf(options) } }, options.timeoutMs);
  }

  async get(queue, key, options = typeof key === "object" ? key : {}) {
    const { get } = await this.ask({ get: { task: refOf(queue, key), with_content: true } }, options.timeoutMs);
    return outcomeName(get.outcome) === "unknown" || get.task === null ? null : new View(get.task);
  }

  // ---- working

  async worker(queue, concurrency, handler, options) {
    const worker = new Worker(this, queue, concurrency, handler, options);
    const ended = worker.run();
    this.workers.set(worker, ended);
    try {
      await ended;
    } finally {
      this.workers.delete(worker);
    }
  }

  stopWorkers() {
    for (const worker of this.workers.keys()) worker.stop();
  }

  async close() {
    this.stopWorkers();
    await Promise.allSettled([...this.workers.values()]);
    await Promise.all([this.changes.close(), this.settles.close()]);
    this.link.close();
  }
}

function chunksOf(ops) {
  const chunks = [];
  let size = Infinity;
  for (const op of ops) {
    const opSize = op.schedule.content.length + 64;
    if (size + opSize > CHUNK_SIZE_MAX || chunks.at(-1).length === OPS_MAX) {
      chunks.push([]);
      size = 0;
    }
    chunks.at(-1).push(op);
    size += opSize;
  }
  return chunks;
}

const { TarryError, Refused, Exists, NotDone, StaleToken, Denied, Aborted, Unavailable, OutcomeUnknown, Closed, Retry, Dead, Release } = errors;
module.exports = {
  Client, TarryError, Refused, Exists, NotDone, StaleToken, Denied, Aborted, Unavailable, OutcomeUnknown, Closed, Retry, Dead, Release,
};
