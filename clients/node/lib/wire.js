"use strict";
// wire.js: the messages of proto/tarry.proto that this client uses, and their encoding (protobuf). Unknown fields are skipped.
// test/wire.test.js compares the tables with tarry.proto.

// Field: [number, type, "repeated"?]. Types: u64 (BigInt), ms and u32 (Number), bool, text, bytes, or the name of a message.
const MESSAGES = {
  Token: { epoch: [1, "u32"], position: [2, "u64"] },
  OpResult: {
    code: [1, "u32"], outcome: [2, "u32"], id: [3, "u64"], due_ms: [4, "ms"], deliveries: [5, "u32"], message: [12, "text"], attempt: [13, "u32"],
  },
  Request: {
    version: [1, "u32"], client: [2, "text"], cluster: [3, "bytes"], hello: [10, "Hello"], commit: [11, "Commit"], goodbye: [12, "Goodbye"],
    subscribe: [13, "Subscribe"], heartbeat: [14, "Heartbeat"], unsubscribe: [15, "Unsubscribe"], get: [16, "Get"],
  },
  Reply: {
    code: [1, "u32"], message: [2, "text"], primary: [3, "text"], follower: [5, "bool"], retry_ms: [9, "u32"], hello: [10, "HelloReply"],
    commit: [11, "CommitReply"], subscribe: [13, "SubscribeReply"], get: [16, "TaskReply"],
  },
  Hello: {},
  HelloReply: { producer: [1, "u64"], cluster: [5, "bytes"] },
  Goodbye: { producer: [1, "u64"] },
  Commit: { producer: [1, "u64"], sequence: [2, "ms"], oldest_unanswered: [3, "ms"], atomic: [4, "bool"], ops: [5, "Op", "repeated"] },
  CommitReply: { results: [1, "OpResult", "repeated"], aborted: [2, "bool"] },
  Op: {
    schedule: [1, "Schedule"], cancel: [2, "Cancel"], move: [3, "Move"], ack: [4, "Ack"], nack: [5, "Nack"], extend: [6, "Extend"],
    release: [7, "Release"],
  },
  When: { kind: [1, "u32"], ms: [2, "ms"] },
  Attribute: { name: [1, "text"], value: [2, "text"] },
  Content: { attributes: [1, "Attribute", "repeated"], payload: [2, "bytes"] },
  Schedule: {
    queue: [1, "text"], key: [2, "text"], when: [3, "When"], content: [4, "bytes"], priority: [5, "u32"], expires_ms: [6, "ms"],
    on_conflict: [7, "u32"],
  },
  Ref: { id: [1, "u64"], queue: [2, "text"], key: [3, "text"] },
  Cancel: { task: [1, "Ref"], withdraw: [2, "bool"] },
  Move: { task: [1, "Ref"], when: [2, "When"] },
  Ack: { id: [1, "u64"], token: [2, "Token"] },
  Nack: { id: [1, "u64"], token: [2, "Token"], has_delay: [3, "bool"], delay_ms: [4, "ms"], dead: [5, "bool"], reason: [6, "text"] },
  Extend: { id: [1, "u64"], token: [2, "Token"], lease_ms: [3, "ms"] },
  Release: { id: [1, "u64"], token: [2, "Token"], when: [3, "When"] },
  Subscribe: { queues: [1, "text", "repeated"], prefetch: [2, "u32"], lease_ms: [4, "ms"], resume: [5, "bytes"] },
  SubscribeReply: { session: [1, "u64"], lane: [2, "u32"], secret: [3, "bytes"], silence_ms: [4, "ms"], resumed: [5, "bool"] },
  Heartbeat: { session: [1, "u64"] },
  Unsubscribe: { session: [1, "u64"], keep_leases: [2, "bool"], seen: [3, "u64", "repeated"] },
  Delivery: { session: [1, "u64"], delivered_ms: [2, "ms"], tasks: [3, "DeliveredTask", "repeated"] },
  DeliveredTask: {
    id: [1, "u64"], queue: [2, "text"], key: [3, "text"], due_ms: [4, "ms"], attempt: [5, "u32"], deliveries: [6, "u32"], token: [7, "Token"],
    priority: [8, "u32"], lease_deadline_ms: [9, "ms"], content: [10, "bytes"],
  },
  Get: { task: [1, "Ref"], with_content: [2, "bool"] },
  TaskReply: { outcome: [1, "u32"], task: [2, "TaskView"] },
  TaskView: {
    id: [1, "u64"], queue: [2, "text"], key: [3, "text"], state: [4, "text"], due_ms: [5, "ms"], priority: [6, "u32"], attempt: [7, "u32"],
    deliveries: [8, "u32"], scheduled_ms: [9, "ms"], reason: [16, "text"], ended_ms: [17, "ms"], content: [18, "bytes"],
  },
};

const CODES = [
  "OK", "INVALID", "TOO_LARGE", "UNSUPPORTED", "NO_SUCH_QUEUE", "EXISTS", "NOT_DONE", "STALE_TOKEN", "ABORTED", "FORGOTTEN", "BUSY", "STOPPING",
  "NO_SUCH_SESSION", "NOT_PRIMARY", "FAILED", "DENIED", "BEHIND", "TOO_OLD",
];
const OUTCOMES = [
  "NONE", "SCHEDULED", "REPLACED", "KEPT", "LIVE", "MOVED", "CANCELLED", "ALREADY_CANCELLED", "IN_FLIGHT", "DEAD", "ACKED", "EXPIRED", "DROPPED",
  "UNKNOWN", "NACKED", "BURIED", "EXTENDED", "RELEASED", "REQUEUED", "DONE", "PENDING", "REDACTED", "SHARED", "UNMATCHED",
];
const CONFLICTS = ["REJECT", "REPLACE", "EARLIER", "LATER"];

const VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5;
const MESSAGE_DEFAULTS = new Map();
const BY_NUMBER = new Map(
  Object.entries(MESSAGES).map(([name, fields]) => [name, new Map(Object.entries(fields).map(([field, spec]) => [spec[0], [field, ...spec]]))]));

function varint(out, value) {
  if (typeof value === "number" && value <= 0x7fffffff) {
    for (; value > 0x7f; value >>>= 7) out.push((value & 0x7f) | 0x80);
    out.push(value);
    return;
  }
  let big = BigInt(value);
  for (; big > 0x7fn; big >>= 7n) out.push(Number(big & 0x7fn) | 0x80);
  out.push(Number(big));
}

function isDefault(type, value) {
  if (value === undefined || value === null) return true;
  if (type === "u64") return BigInt(value) === 0n;
  return type === "text" || type === "bytes" ? value.length === 0 : value === 0 || value === false;
}

function put(parts, number, type, value) {
  const head = [];
  if (type === "u64" || type === "ms" || type === "u32" || type === "bool") {
    varint(head, number << 3 | VARINT);
    varint(head, type === "bool" ? 1 : value);
    parts.push(Buffer.from(head));
    return;
  }
  const bytes = type === "text" ? Buffer.from(value, "utf8") : type === "bytes" ? value : encode(type, value);
  varint(head, number << 3 | BYTES);
  varint(head, bytes.length);
  parts.push(Buffer.from(head), bytes);
}

/** Packs an object as a message of this name. */
function encode(name, object) {
  const fields = MESSAGES[name], parts = [];
  for (const [field, value] of Object.entries(object)) {
    const spec = fields[field];
    if (spec === undefined) throw new TypeError(`message ${name} has no field ${field}`);
    const [number, type, repeated] = spec;
    if (repeated) {
      for (const item of value) put(parts, number, type, item);
    } else if (!isDefault(type, value)) {
      put(parts, number, type, value);
    }
  }
  return Buffer.concat(parts);
}

function defaultsOf(name) {
  let defaults = MESSAGE_DEFAULTS.get(name);
  if (defaults === undefined) {
    defaults = {};
    for (const [field, [, type, repeated]] of Object.entries(MESSAGES[name]))
      if (!repeated) defaults[field] = { u64: 0n, ms: 0, u32: 0, bool: false, text: "", bytes: Buffer.alloc(0) }[type] ?? null;
    MESSAGE_DEFAULTS.set(name, defaults);
  }
  return defaults;
}

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  varint() {
    let low = 0, shift = 0;
    for (; shift < 28; shift += 7) {
      const byte = this.byte();
      low |= (byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt(low);
    }
    let big = BigInt(low);
    for (; shift < 70; shift += 7) {
      const byte = this.byte();
      big |= BigInt(byte & 0x7f) << BigInt(shift);
      if (byte < 0x80) return BigInt.asUintN(64, big);
    }
    throw new RangeError("malformed message: a number of more than ten bytes");
  }

  byte() {
    if (this.at >= this.bytes.length) throw new RangeError("malformed message: it ends within a field");
    return this.bytes[this.at++];
  }

  take(size) {
    if (size > this.bytes.length - this.at) throw new RangeError("malformed message: it ends within a field");
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  skip(wire) {
    if (wire === VARINT) this.varint();
    else if (wire === FIXED64) this.take(8);
    else if (wire === BYTES) this.take(Number(this.varint()));
    else if (wire === FIXED32) this.take(4);
    else throw new RangeError(`malformed message: wire type ${wire}`);
  }
}

function value(reader, type) {
  if (type === "u64") return reader.varint();
  if (type === "ms" || type === "u32") return Number(reader.varint());
  if (type === "bool") return reader.varint() !== 0n;
  const bytes = reader.take(Number(reader.varint()));
  if (type === "bytes") return bytes;
  return type === "text" ? bytes.toString("utf8") : decode(type, bytes);
}

/** Unpacks a message of this name. Throws a RangeError if it is malformed. */
function decode(name, bytes) {
  const object = { ...defaultsOf(name) };
  for (const [field, [, , repeated]] of Object.entries(MESSAGES[name])) if (repeated) object[field] = [];
  const reader = new Reader(bytes);
  while (reader.at < bytes.length) {
    const tag = Number(reader.varint()), wire = tag & 7;
    const spec = BY_NUMBER.get(name).get(Math.floor(tag / 8));
    const expected = spec === undefined ? -1 : ["u64", "ms", "u32", "bool"].includes(spec[2]) ? VARINT : BYTES;
    if (wire !== expected) {
      reader.skip(wire);
      continue;
    }
    const [field, , type, repeated] = spec;
    if (repeated && wire === BYTES && type === "u64") throw new RangeError("malformed message: packed numbers");
    if (repeated) object[field].push(value(reader, type));
    else object[field] = value(reader, type);
  }
  return object;
}

const codeName = (number) => CODES[number] ?? `CODE_${number}`;
/** Returns the outcome's name in lower case. The outcome LIVE (a live task has the key) is called "exists", as in the output of `tarry`. */
const outcomeName = (number) => (OUTCOMES[number] === "LIVE" ? "exists" : (OUTCOMES[number] ?? `outcome ${number}`).toLowerCase());

module.exports = { MESSAGES, CODES, OUTCOMES, CONFLICTS, encode, decode, codeName, outcomeName };
