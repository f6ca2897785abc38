"use strict";
// commits.test.js: how operations become commits. The broker is a list of answers.
const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const test = require("node:test");
const { Client, Denied, OutcomeUnknown, Refused, Unavailable } = require("../index.js");
const { Identity, Lost, TimedOut, now } = require("../lib/link.js");
const { milliseconds, reasonOf, scheduleOp, traceContext } = require("../lib/model.js");
const { CODES, OUTCOMES, decode } = require("../lib/wire.js");

const accepted = (commit) => ({ code: 0, commit: { results: commit.ops.map((_, at) => ({ code: 0, outcome: OUTCOMES.indexOf("SCHEDULED"), id: BigInt(at + 1) })) } });
const refuses = (code, message = "") => () => ({ code: CODES.indexOf(code), message, primary: "", retry_ms: 0 });
const lost = () => { throw new Lost(); };
const silent = () => null;

/** A broker for tests, which replaces the link and the connection. */
class Broker {
  constructor(...script) {
    Object.assign(this, { script, commits: [], producers: 0n, left: 0, index: 0, urls: [1] });
  }
  async ready() { return this; }
  useful() {}
  leave() { this.left++; }
  isUp() { return false; }
  close() {}
  explain() { return "a script"; }
  nameOf() { return "a script"; }
  async exchange(data, until) {
    const request = decode("Request", data);
    if (request.hello) return { code: 0, hello: { producer: ++this.producers, cluster: Buffer.alloc(0) } };
    const { commit } = request;
    this.commits.push({ ...commit, ops: commit.ops.map((op) => op.schedule?.key ?? "ack"), bytes: data.toString("hex") });
    const reply = await (this.script.shift() ?? accepted)(commit);
    if (reply !== null) return reply;
    await new Promise((done) => setTimeout(done, until - now()));
    throw new TimedOut();
  }
}

function clientOf(...script) {
  const client = new Client("ws://127.0.0.1:1");
  client.link = new Broker(...script);
  return [client, client.link];
}

test("operations that come together share a commit", async () => {
  const [client, broker] = clientOf();
  await Promise.all(Array.from({ length: 1000 }, (_, at) => client.schedule("q", { key: String(at) })));
  assert.ok(broker.commits.length <= 3);
  assert.deepStrictEqual(broker.commits.flatMap((commit) => commit.ops), Array.from({ length: 1000 }, (_, at) => String(at)));
});

test("a lost commit is repeated byte for byte (ONCE-1)", async () => {
  const [client, broker] = clientOf(lost, lost);
  await client.schedule("q");
  assert.deepStrictEqual([broker.commits.length, new Set(broker.commits.map(({ bytes }) => bytes)).size], [3, 1]);
});

test("a busy broker is asked again", async () => {
  const [client, broker] = clientOf(refuses("BUSY"), refuses("STOPPING"), refuses("NOT_PRIMARY"));
  await client.schedule("q");
  assert.deepStrictEqual([new Set(broker.commits.map(({ sequence }) => sequence)).size, broker.left], [1, 1]);
});

test("when all was refused in time nothing was done, and the sequence is given back", async () => {
  const [client, broker] = clientOf(...Array(1000).fill(refuses("BUSY", "the disk is full")));
  await assert.rejects(client.schedule("q", { timeoutMs: 50 }), (error) => error instanceof Unavailable && /the disk is full/.test(error.message));
  broker.script.length = 0;
  await client.schedule("q");
  assert.strictEqual(broker.commits.at(-1).sequence, 1);
});

test("an unknown outcome is called so, and its producer is left", async () => {
  const [client, broker] = clientOf(silent);
  await assert.rejects(client.schedule("q", { timeoutMs: 50 }), OutcomeUnknown);
  await client.schedule("q");
  assert.deepStrictEqual(broker.commits.map(({ producer }) => producer), [1n, 2n]);
});

test("a forgotten producer is replaced; a repeated commit that is forgotten is unknown", async () => {
  const [client, broker] = clientOf(refuses("FORGOTTEN"));
  await client.schedule("q");
  assert.deepStrictEqual(broker.commits.map(({ producer, sequence }) => [producer, sequence]), [[1n, 1], [2n, 1]]);
  await assert.rejects(clientOf(lost, refuses("FORGOTTEN"))[0].schedule("q"), OutcomeUnknown);
});

test("an operation that spoils the request does not hurt the others", async () => {
  const spoilt = (commit) => (commit.ops.some((op) => op.schedule.key === "bad") ? refuses("INVALID", "no")() : accepted(commit));
  const [client] = clientOf(...Array(10).fill(spoilt));
  const answers = await Promise.allSettled(["good", "bad", "fine"].map((key) => client.schedule("q", { key })));
  assert.deepStrictEqual(answers.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
  assert.ok(answers[1].reason instanceof Refused);
});

test("a short timeout does not end the others of its commit", async () => {
  const [client, broker] = clientOf(silent);
  const patient = client.schedule("q", { timeoutMs: 30000 });
  await assert.rejects(client.schedule("q", { timeoutMs: 50 }), OutcomeUnknown);
  assert.ok((await patient).ok);
  assert.strictEqual(broker.commits[0].bytes, broker.commits[1].bytes);
});

test("acks do not wait behind refused schedules", async () => {
  const full = (commit) => (commit.ops[0].schedule ? refuses("BUSY")() : accepted(commit));
  const [client] = clientOf(...Array(1000).fill(full));
  let isDone = false;
  const waiting = assert.rejects(client.schedule("q", { timeoutMs: 500 }), Unavailable).then(() => (isDone = true));
  await client.settles.commit([{ ack: { id: 1n, token: { epoch: 1, position: 1n } } }], false, client.until());
  assert.ok(!isDone);
  await waiting;
});

test("a timeout may be longer than a timer, or none", async () => {
  for (const timeoutMs of [Infinity, 2 ** 40]) {
    const slow = (commit) => new Promise((done) => setTimeout(() => done(accepted(commit)), 50));
    const [client, broker] = clientOf(slow);
    const first = client.schedule("q", { timeoutMs });
    while (broker.commits.length === 0) await new Promise(setImmediate); // the second commit waits behind the first
    assert.ok((await client.schedule("q", { timeoutMs })).ok && (await first).ok);
  }
});

test("an atomic commit is alone", async () => {
  const [client, broker] = clientOf();
  await Promise.all([client.schedule("q"), client.scheduleMany([{ queue: "q" }, { queue: "q" }], { atomic: true }), client.schedule("q")]);
  assert.deepStrictEqual(broker.commits.map(({ atomic, ops }) => [atomic, ops.length]), [[false, 1], [true, 2], [false, 1]]);
});

test("what is submitted as a commit ends is not forgotten", async () => {
  const [client] = clientOf();
  for (let round = 0; round < 200; round++) await Promise.all([client.schedule("q").then(() => client.schedule("q")), client.schedule("q")]);
});

test("times round up, reasons are cut at a character, bad arguments are refused", async () => {
  assert.deepStrictEqual([0, 0.1, 1500].map((ms) => milliseconds("x", ms)), [0, 1, 1500]);
  assert.strictEqual(reasonOf("ü".repeat(200)), "ü".repeat(127));
  for (const options of [{ delayMs: -1 }, { delayMs: NaN }, { delayMs: 1, at: 2 }, { onConflict: "twice" }, { body: "a", json: 1 }, { delay: 1 }])
    assert.throws(() => scheduleOp({ queue: "q", ...options }), JSON.stringify(options));
  for (const urls of ["http://a:1", "ws://", "ws://a:1/path", "a:1", "ws://a:1,"]) assert.throws(() => new Client(urls), TypeError, urls);
});

test("the trace goes along unless the program says another", () => {
  const sent = (options, inject) =>
    Object.fromEntries(decode("Content", scheduleOp({ queue: "q", ...options }, inject).schedule.content).attributes.map(({ name, value }) => [name, value]));
  traceContext.run({ traceparent: "mine" }, () => {
    assert.deepStrictEqual(sent({}), { traceparent: "mine" });
    assert.deepStrictEqual(sent({}, (carrier) => (carrier.traceparent = "hook's")), { traceparent: "hook's" });
    assert.deepStrictEqual(sent({ attributes: { traceparent: "own" } }), { traceparent: "own" });
  });
});

test("a token is not sent in the clear, and its file is private", () => {
  const bearer = (options, url) => new Identity(options, {}).bearer(new URL(url));
  assert.strictEqual(bearer({ token: "t" }, "ws://127.0.0.1:1"), "t");
  assert.strictEqual(bearer({ token: "t" }, "wss://shop.example:1"), "t");
  assert.throws(() => bearer({ token: "t" }, "ws://shop.example:1"), /use wss/);
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "tarry-")), "token");
  assert.throws(() => bearer({ tokenFile: file }, "wss://a:1"), Denied);
  for (const text of ["one\n", "two"]) {
    fs.writeFileSync(file, text, { mode: 0o600 });
    assert.strictEqual(bearer({ tokenFile: file }, "wss://a:1"), text.trim());
  }
  fs.chmodSync(file, 0o640);
  assert.throws(() => bearer({ tokenFile: file }, "wss://a:1"), /chmod 600/);
  fs.rmSync(path.dirname(file), { recursive: true });
});
