"use strict";
// worker.js: a subscription, the handlers of its tasks, and their leases.
//
// The broker sends tasks over a lane as they fall due, at most `prefetch` that are not settled. Each comes with a lease. The worker extends the
// leases of all tasks that it has, waiting or handled, when half of the time is over. If the connection is lost or another broker leads, it
// subscribes again with the session's secret and keeps its leases and tokens.
const { Dead, Release, Retry, TarryError, refusal } = require("./errors.js");
const { Ask } = require("./commits.js");
const { now, sleep } = require("./link.js");
const { Task, isOlder, milliseconds, reasonOf, resultOf, traceContext } = require("./model.js");
const { codeName, decode } = require("./wire.js");

const PREFETCH_MAX = 16384;
const LANE_PATIENCE_MS = 2000;
const SUBSCRIBE_AGAIN_MS = 1000; // after a refusal of a later subscription
const EXTEND_AGAIN_MS = 200; // after an extension that got no answer
const DRAIN_DEFAULT_MS = 30000;
const SILENCE_MIN_MS = 1000;

class Worker {
  constructor(client, queue, concurrency, handler, { prefetch, leaseMs = 0, drainMs = DRAIN_DEFAULT_MS, signals = true, around } = {}) {
    if (!Number.isInteger(concurrency) || concurrency < 1) throw new RangeError(`concurrency must be an integer, 1 or more, not ${concurrency}`);
    Object.assign(this, { client, concurrency, handler, drainMs, signals, around });
    this.queues = [queue].flat();
    this.prefetch = Math.min(prefetch ?? 2 * concurrency, PREFETCH_MAX);
    this.leaseMs = milliseconds("leaseMs", leaseMs);
    this.session = 0n;
    this.secret = Buffer.alloc(0);
    this.lane = null;
    this.held = new Map(); // task id → the lease
    this.returned = new Map(); // task id → token that was settled and may be delivered once more
    this.waiting = []; // leases whose handlers are not started
    this.handling = new Set(); // leases
    this.pending = new Set(); // promises of acks, nacks, releases
    this.isStopping = false;
    this.stopped = new Promise((resolve) => (this.stop = () => { this.isStopping = true; resolve(); }));
    this.interruption = new AbortController();
    this.idle = () => {};
    this.timer = null;
    this.problem = null; // why the first subscription was refused
  }

  async run() {
    const onSignal = () => this.stop();
    for (const name of this.signals ? ["SIGTERM", "SIGINT"] : []) process.on(name, onSignal);
    try {
      this.subscribing = this.#subscribeAlways();
      await Promise.race([this.subscribing, this.stopped]);
      this.isStopping = true;
      if (this.problem !== null) throw this.problem;
      await this.#unsubscribe();
      this.lane?.terminate();
      await this.#drain();
    } finally {
      this.lane?.terminate();
      clearTimeout(this.timer);
      for (const name of ["SIGTERM", "SIGINT"]) process.off(name, onSignal);
    }
  }

  // ---- the subscription

  async #subscribeAlways() {
    for (let isFirst = true; !this.isStopping; ) {
      let ask, reply;
      try {
        const subscribe = { queues: this.queues, prefetch: this.prefetch, lease_ms: this.leaseMs, resume: this.secret };
        ask = new Ask(this.client.link, this.client.pack({ subscribe }), false);
        reply = await ask.run(Infinity);
        if (codeName(reply.code) !== "OK") throw refusal(codeName(reply.code), reply.message);
      } catch (error) {
        if (error.code === "NO_SUCH_SESSION" || (error.code === "INVALID" && this.secret.length > 0)) {
          this.secret = Buffer.alloc(0);
          this.#forget();
          continue;
        }
        if (isFirst) {
          this.problem = error;
          return;
        }
        this.client.log(`the subscription to ${this.queues} was refused: ${error.message}`);
        await Promise.race([sleep(SUBSCRIBE_AGAIN_MS), this.stopped]);
        continue;
      }
      isFirst = false;
      await this.#serve(reply.subscribe, ask.connection.index);
    }
  }

  /** Serves one session at one broker, until the lane or the heartbeats show that the session has ended. */
  async #serve(reply, index) {
    if (reply.resumed) {
      this.returned.clear();
      for (const held of this.held.values()) held.mayReturn = true;
    } else {
      this.#forget();
    }
    this.session = reply.session;
    this.secret = Buffer.from(reply.secret);
    let lane;
    const onMessage = (message) => {
      try {
        this.#deliver(decode("Delivery", message));
      } catch (error) {
        this.client.log(`the lane of session ${reply.session}: ${error.message}`);
        lane?.terminate();
      }
    };
    try {
      lane = await this.client.link.openLane(index, reply.lane, this.secret, LANE_PATIENCE_MS, onMessage);
    } catch (error) {
      this.client.log(`the lane of session ${reply.session}: ${error.message}`);
      await sleep(10);
      return;
    }
    this.lane = lane;
    const heart = { isBeating: true };
    this.#beat(heart, lane, index, Math.max(reply.silence_ms, SILENCE_MIN_MS) / 3);
    await new Promise((resolve) => (lane.readyState === lane.CLOSED ? resolve() : lane.on("close", resolve)));
    heart.isBeating = false;
    this.lane = null;
  }

  /** Sends heartbeats. Closes the lane when the session has ended, or when another broker leads. */
  async #beat(heart, lane, index, intervalMs) {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, intervalMs).unref());
      if (!heart.isBeating) return;
      const ask = new Ask(this.client.link, this.client.pack({ heartbeat: { session: this.session } }), false);
      try {
        const reply = await ask.run(Infinity);
        if (heart.isBeating && (codeName(reply.code) === "NO_SUCH_SESSION" || ask.connection.index !== index)) lane.terminate();
      } catch (error) {
        if (error.code === "CLOSED") return;
        this.client.log(`heartbeat: ${error.message}`);
      }
    }
  }

  /** Drops all tasks that no handler has begun, because a new session begins. The broker delivers them again. */
  #forget() {
    this.waiting = [];
    this.returned.clear();
    for (const [id, held] of this.held) {
      if (!held.isSeen) this.held.delete(id);
      held.mayReturn = false;
    }
  }

  // ---- tasks

  #deliver(delivery) {
    if (delivery.session !== this.session || this.isStopping) return;
    for (const message of delivery.tasks) {
      const present = this.held.get(message.id), returned = this.returned.get(message.id);
      if ((present && !isOlder(present.task.lease.token, message.token)) || (returned && !isOlder(returned, message.token))) continue;
      if (present) this.#lost(present);
      const task = new Task(message, delivery.delivered_ms);
      const held = { task, interrupt: null, isSeen: false, isSettling: false, mayReturn: false };
      this.#leased(held, now());
      this.held.set(message.id, held);
      this.waiting.push(held);
      this.client.measure("tarry.worker.lateness.seconds", Math.max(0, task.deliveredMs - task.dueMs) / 1000, { queue: task.queue });
    }
    this.#start();
    this.#keepLeases();
  }

  #start() {
    while (this.waiting.length > 0 && this.handling.size < this.concurrency && !this.isStopping) {
      const held = this.waiting.shift();
      if (this.held.get(held.task.lease.id) !== held) continue; // a later lease replaced it
      if (now() >= held.until) {
        this.#lost(held);
        continue;
      }
      held.isSeen = true;
      this.handling.add(held);
      this.#handle(held).finally(() => {
        this.handling.delete(held);
        this.#start();
        this.idle();
      });
    }
  }

  async #handle(held) {
    const { task } = held, started = now(), { signal } = this.interruption;
    const { id, token } = task.lease;
    let result, op;
    try {
      const handle = () => traceContext.run(task.trace(), () => this.handler(task, { signal }));
      const interrupted = new Promise((_, reject) => (held.interrupt = () => reject(new Release())));
      await Promise.race([this.around ? this.around(task, handle) : handle(), interrupted]);
      [result, op] = ["acked", { ack: { id, token } }];
    } catch (error) {
      const delay = (ms) => (ms === undefined ? {} : { has_delay: true, delay_ms: milliseconds("delayMs", ms) });
      if (error instanceof Release) [result, op] = ["released", { release: { id, token, ...(error.delayMs ? { when: { kind: 0, ms: milliseconds("delayMs", error.delayMs) } } : {}) } }];
      else if (error instanceof Dead) [result, op] = ["dead", { nack: { id, token, dead: true, reason: reasonOf(error.message) } }];
      else if (error instanceof Retry) [result, op] = ["retried", { nack: { id, token, ...delay(error.delayMs), reason: reasonOf(error.message) } }];
      else [result, op] = ["retried", { nack: { id, token, reason: reasonOf(error instanceof Error ? `${error.name}: ${error.message}` : error) } }];
    }
    this.client.measure("tarry.worker.handler.seconds", (now() - started) / 1000, { queue: task.queue, result });
    const settling = this.#settle(held, op, result).finally(() => this.pending.delete(settling));
    this.pending.add(settling);
  }

  /** Sends an ack, nack or release. Another handler may start before the reply; operations of many tasks share a request. */
  async #settle(held, op, result) {
    held.isSettling = true;
    const { task } = held;
    try {
      const answer = resultOf((await this.client.settles.commit([op], false, this.client.until()))[0]);
      if (answer.ok && result === "retried" && answer.outcome === "buried") result = "dead"; // the last attempt has failed
      this.client.measure("tarry.worker.tasks", 1, { queue: task.queue, result: answer.ok ? result : "lost", task });
      if (held.mayReturn) this.returned.set(task.lease.id, task.lease.token);
    } catch (error) {
      if (!(error instanceof TarryError)) throw error;
      this.client.log(`${Object.keys(op)[0]} of ${task.queue} ${task.key ?? task.id}: ${error.message}`);
      this.client.measure("tarry.worker.tasks", 1, { queue: task.queue, result: "unknown", task });
    }
    this.#drop(held);
  }

  #drop(held) {
    if (this.held.get(held.task.lease.id) === held) this.held.delete(held.task.lease.id);
  }

  #lost(held) {
    held.task.isLeaseLost = true;
    if (!held.isSeen) this.client.measure("tarry.worker.tasks", 1, { queue: held.task.queue, result: "lost", task: held.task });
    this.#drop(held);
  }

  // ---- leases

  /** Sets the end of a lease. It counts from the arrival of the task, or from the sending of the extension. */
  #leased(held, since) {
    held.until = since + held.task.leaseMs;
    held.extendAt = since + held.task.leaseMs / 2;
  }

  #keepLeases() {
    clearTimeout(this.timer);
    const time = now();
    let next = Infinity;
    for (const held of this.held.values()) {
      if (held.isSettling) continue;
      if (held.extendAt <= time) this.#extend(held, time);
      next = Math.min(next, held.extendAt);
    }
    if (next < Infinity) this.timer = setTimeout(() => this.#keepLeases(), Math.max(1, next - time));
  }

  async #extend(held, time) {
    held.extendAt = Infinity; // no further extension until this one is answered
    const { id, token } = held.task.lease;
    try {
      const answer = resultOf((await this.client.settles.commit([{ extend: { id, token, lease_ms: held.task.leaseMs } }], false, this.client.until()))[0]);
      if (answer.ok) this.#leased(held, time);
      else if (!held.isSettling) this.#lost(held);
    } catch (error) {
      this.client.log(`extend of ${held.task.queue} ${held.task.key ?? held.task.id}: ${error.message}`);
      held.extendAt = now() + EXTEND_AGAIN_MS;
    }
    if (this.held.size > 0) this.#keepLeases();
  }

  // ---- the end

  /**
   * Ends the session. Tasks that no handler has begun are released at once without an attempt; the other leases stay until
   * they are settled. Call this while the lane is open, because the broker withdraws all
   * leases of a session that lost its lane.
   */
  async #unsubscribe() {
    this.waiting = [];
    for (const held of [...this.held.values()]) if (!held.isSeen) this.#drop(held);
    if (this.session === 0n) return;
    try {
      await this.client.ask({ unsubscribe: { session: this.session, keep_leases: true, seen: [...this.held.keys()] } });
    } catch (error) {
      this.client.log(`unsubscribe: ${error.message}`);
    }
  }

  async #drain() {
    const late = setTimeout(() => {
      this.client.log(`${this.handling.size} handlers did not finish within ${this.drainMs} ms: their tasks go back`);
      this.interruption.abort();
      for (const held of this.handling) held.interrupt();
    }, this.drainMs);
    while (this.handling.size > 0) await new Promise((resolve) => (this.idle = resolve));
    clearTimeout(late);
    while (this.pending.size > 0) await Promise.allSettled([...this.pending]);
  }
}

module.exports = { Worker };
