"use strict";
// commits.js: operations become commits, each of which takes effect once (ONCE-1).
//
// A Committer has one commit in flight. Operations that arrive meanwhile gather for the next one. So operations take effect in the order of
// submission, and under load thousands share one request. A commit keeps its producer and sequence until it is answered, through lost
// connections and failovers; the broker recognises a repeated one and gives the first one's answer.
const { Closed, OutcomeUnknown, Unavailable, refusal } = require("./errors.js");
const { Lost, TimedOut, atTime, before, now, sleep } = require("./link.js");
const { codeName, encode } = require("./wire.js");

const OPS_MAX = 8192;
const GATHER_SIZE_MAX = 4 << 20;
const BACKOFF_MIN_MS = 5; // after BUSY and STOPPING, doubled each time
const BACKOFF_MAX_MS = 100;
const RETRIED = new Set(["BUSY", "STOPPING", "NOT_PRIMARY", "FAILED"]);

/** One request, repeated until it gets a reply. `unanswered`: number of sends that may have been executed. */
class Ask {
  constructor(link, data, changes) {
    Object.assign(this, { link, data, changes, unanswered: 0, said: "", connection: null });
  }

  /** Returns the reply, whatever its code. Throws Unavailable or OutcomeUnknown at the time `until`. After that the caller
   * may call run again, which sends the same request. */
  async run(until) {
    try {
      return await this.#repeat(until);
    } catch (error) {
      if (!(error instanceof TimedOut)) throw error;
      const why = this.said || this.link.explain();
      if (this.changes && this.unanswered > 0) throw new OutcomeUnknown(`no answer in time, and it may have taken effect: ${why}`);
      throw new Unavailable(`nothing was done in time: ${why}`);
    }
  }

  async #repeat(until) {
    for (let backoffMs = BACKOFF_MIN_MS; ; backoffMs = Math.min(2 * backoffMs, BACKOFF_MAX_MS)) {
      const connection = (this.connection = await before(this.link.ready(), until));
      this.unanswered++;
      let reply;
      try {
        reply = await connection.exchange(this.data, until);
      } catch (error) {
        if (error instanceof Lost) continue;
        throw error;
      }
      const code = reply.follower ? "NOT_PRIMARY" : codeName(reply.code);
      if (!RETRIED.has(code)) {
        this.link.useful();
        return reply;
      }
      this.said = `${this.link.nameOf(connection.index)}: ${reply.message || code.toLowerCase()}`;
      if (code !== "FAILED") this.unanswered--; // this send was not executed
      if (code === "NOT_PRIMARY") {
        this.link.leave(connection, reply.primary, reply.message || "not the primary");
        continue;
      }
      await before(sleep(Math.max(backoffMs, reply.retry_ms)), until);
    }
  }
}

class Committer {
  constructor(client) {
    Object.assign(this, { client, queue: [], producer: 0n, sequence: 0, isRunning: false, isClosed: false });
  }

  /** Submits a commit and returns the results of its CommitReply, one for each operation. */
  commit(ops, isAtomic, until) {
    return new Promise((resolve, reject) => {
      const item = { ops: ops.map((op) => encode("Op", op)), isAtomic, isAlone: isAtomic, until, isDone: false };
      item.size = item.ops.reduce((sum, op) => sum + op.length, 0);
      const timer = atTime(until, () => this.#expire(item));
      const end = (finish) => (value) => {
        clearTimeout(timer);
        item.isDone = true;
        finish(value);
      };
      item.resolve = end(resolve);
      item.reject = end(reject);
      if (this.isClosed) return item.reject(new Closed("the client is closed"));
      this.queue.push(item);
      // Runs later in this turn of the event loop, so that operations submitted in the same turn share the commit.
      if (!this.isRunning) {
        this.isRunning = true;
        queueMicrotask(() => this.#run());
      }
    });
  }

  /** Fails an item whose timeout passed while it waited for earlier commits. */
  #expire(item) {
    const at = this.queue.indexOf(item);
    if (at < 0) return;
    this.queue.splice(at, 1);
    item.reject(new Unavailable(`nothing was done in time: ${this.client.link.explain()}`));
  }

  #gather() {
    const items = [];
    for (let count = 0, size = 0; this.queue.length > 0; ) {
      const item = this.queue[0];
      count += item.ops.length;
      size += item.size;
      if (items.length > 0 && (items[0].isAlone || item.isAlone || count > OPS_MAX || size > GATHER_SIZE_MAX)) break;
      items.push(this.queue.shift());
    }
    return items;
  }

  async #run() {
    while (this.queue.length > 0) await this.#send(this.#gather());
    this.isRunning = false; // before anything else can be queued
  }

  /** Commits the operations of `items` (each item: the operations of one call). After that each item has its results, or is in the queue again. */
  async #send(items) {
    const started = now();
    let ask = null;
    while (items.length > 0) {
      const until = Math.min(...items.map((item) => item.until));
      let reply;
      try {
        if (this.producer === 0n) await this.#hello(until);
        if (ask === null) {
          this.sequence++;
          ask = new Ask(this.client.link, this.#pack(items), true);
        }
        reply = await ask.run(until);
      } catch (error) {
        if (!(error instanceof Unavailable || error instanceof OutcomeUnknown)) {
          if (ask !== null && ask.unanswered > 0) this.producer = 0n;
          for (const item of items) item.reject(error);
          return;
        }
        const time = Math.max(until, now()); // a timer may fire a moment early
        for (const item of items) if (item.until <= time) item.reject(error);
        items = items.filter((item) => item.until > time);
        if (error instanceof Unavailable) {
          if (ask !== null) this.sequence--; // nothing was executed: the other items are sent again
          this.queue.unshift(...items);
          return;
        }
        continue;
      }
      if (codeName(reply.code) === "FORGOTTEN" && ask.unanswered === 1) { // it was sent only once, so the broker has not executed it
        this.producer = 0n;
        ask = null;
        continue;
      }
      this.#answer(items, reply, now() - started);
      return;
    }
    this.producer = 0n; // a commit of unknown outcome: its producer is not used again
  }

  #pack(items) {
    const commit = encode("Commit", {
      producer: this.producer, sequence: this.sequence, oldest_unanswered: this.sequence, atomic: items[0].isAtomic,
    });
    const ops = [];
    for (const item of items) for (const op of item.ops) ops.push(field(5, op)); // Commit.ops
    return this.client.pack({}, field(11, Buffer.concat([commit, ...ops]))); // Request.commit
  }

  #answer(items, reply, ms) {
    this.client.measure("tarry.client.commit.seconds", ms / 1000, { operations: items.reduce((sum, item) => sum + item.ops.length, 0) });
    const code = codeName(reply.code);
    if (code === "FORGOTTEN") {
      this.producer = 0n;
      for (const item of items) item.reject(new OutcomeUnknown("the broker has forgotten whether the operation took effect"));
    } else if (code !== "OK") {
      if (items.length > 1) { // one bad operation refuses the whole request: send each alone
        for (const item of items) item.isAlone = true;
        this.queue.unshift(...items);
        return;
      }
      items[0].reject(refusal(code, reply.message));
    } else {
      let at = 0;
      for (const item of items) item.resolve(reply.commit.results.slice(at, (at += item.ops.length)));
    }
  }

  async #hello(until) {
    const reply = await new Ask(this.client.link, this.client.pack({ hello: {} }), false).run(until);
    if (codeName(reply.code) !== "OK") throw refusal(codeName(reply.code), reply.message);
    this.producer = reply.hello.producer;
    this.sequence = 0;
    this.client.metCluster(reply.hello.cluster);
  }

  async close() {
    this.isClosed = true;
    for (const item of this.queue.splice(0)) item.reject(new Closed("the client was closed; nothing was done"));
    if (!this.isRunning && this.producer !== 0n && this.client.link.isUp()) {
      try {
        await this.client.link.connection.exchange(this.client.pack({ goodbye: { producer: this.producer } }), now() + 1000);
      } catch {} // the broker forgets the producer after a day
    }
  }
}

/** Packs a field whose value is a packed message. */
function field(number, bytes) {
  const head = [number << 3 | 2];
  let size = bytes.length;
  for (; size > 0x7f; size >>>= 7) head.push((size & 0x7f) | 0x80);
  head.push(size);
  return Buffer.concat([Buffer.from(head), bytes]);
}

module.exports = { Ask, Committer, OPS_MAX };
