"use strict";
// wire.test.js: the tables agree with proto/tarry.proto, and messages are unchanged after encoding and decoding.
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const { MESSAGES, CODES, OUTCOMES, CONFLICTS, encode, decode } = require("../lib/wire.js");

const PROTO = fs.readFileSync(path.join(__dirname, "..", "..", "..", "proto", "tarry.proto"), "utf8").replace(/\/\/.*$/gm, "");
const TYPES = { uint64: ["u64", "ms"], uint32: ["u32"], bool: ["bool"], string: ["text"], bytes: ["bytes", "text"] };

/** Returns the text between the braces of `message NAME {` or `enum NAME {`. */
function body(kind, name) {
  const start = PROTO.search(new RegExp(`\\b${kind} ${name} \\{`));
  assert.ok(start >= 0, `${kind} ${name} is in tarry.proto`);
  let depth = 0;
  for (let at = PROTO.indexOf("{", start); ; at++) {
    if (PROTO[at] === "{") depth++;
    if (PROTO[at] === "}" && --depth === 0) return PROTO.slice(PROTO.indexOf("{", start) + 1, at);
  }
}

test("each field has its number, its type and its repetition", () => {
  for (const [name, fields] of Object.entries(MESSAGES)) {
    for (const [field, [number, type, repeated]] of Object.entries(fields)) {
      const found = new RegExp(`(repeated )?([\\w.]+) ${field} = (\\d+);`).exec(body("message", name));
      assert.ok(found, `${name}.${field}`);
      assert.deepStrictEqual([Number(found[3]), Boolean(found[1])], [number, repeated === "repeated"], `${name}.${field}`);
      const isEnum = type === "u32" && /^(Code|Outcome|Kind|OnConflict)$/.test(found[2]);
      assert.ok(isEnum || found[2] === type || TYPES[found[2]]?.includes(type), `${name}.${field} is ${found[2]}, not ${type}`);
    }
  }
});

test("codes, outcomes and rules for conflicts have their numbers", () => {
  for (const [kind, names] of [["Code", CODES], ["Outcome", OUTCOMES], ["OnConflict", CONFLICTS]])
    assert.deepStrictEqual([...body("enum", kind).matchAll(/(\w+) = (\d+);/g)].map(([, name, number]) => [Number(number), name]), [...names.entries()]);
});

test("a message survives encoding and decoding", () => {
  const op = { ack: { id: 2n ** 64n - 1n, token: { epoch: 7, position: 2n ** 40n } } };
  const decoded = decode("Op", encode("Op", op));
  assert.deepStrictEqual(decoded.ack, op.ack);
  assert.deepStrictEqual(decode("When", encode("When", { kind: 1, ms: 253402300799999 })), { kind: 1, ms: 253402300799999 });
  assert.strictEqual(encode("Op", { ack: {} }).length, 2); // the empty ack is present in the bytes
  assert.deepStrictEqual(decode("Unsubscribe", encode("Unsubscribe", { seen: [1n, 300n] })).seen, [1n, 300n]);
});

test("unknown fields are skipped, malformed messages are refused", () => {
  const unknown = Buffer.from([0xf8, 0x01, 0x05, 0xfa, 0x01, 0x01, 0xff, 0xfd, 0x01, 1, 2, 3, 4, 0xf9, 0x01, 1, 2, 3, 4, 5, 6, 7, 8]);
  assert.strictEqual(decode("Reply", Buffer.concat([unknown, encode("Reply", { message: "ü" })])).message, "ü");
  for (const bytes of [[0x12], [0x12, 5, 1], [0x08], [0x08, ...Array(10).fill(0xff), 1], [0x0b], [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]])
    assert.throws(() => decode("Reply", Buffer.from(bytes)), RangeError, bytes.join(" "));
});

test("no bytes from outside do more than throw a RangeError", () => {
  const bytes = encode("Delivery", { session: 1n, tasks: [{ id: 5n, queue: "q", token: { epoch: 1, position: 2n }, content: Buffer.from("abc") }] });
  for (let seed = 1; seed < 20000; seed++) {
    const copy = Buffer.from(bytes.subarray(0, 1 + (seed * 7919) % bytes.length));
    copy[(seed * 104729) % copy.length] = (seed * 31) & 0xff;
    try {
      decode("Delivery", copy);
    } catch (error) {
      assert.ok(error instanceof RangeError, error.stack);
    }
  }
});
