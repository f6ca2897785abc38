"use strict";
// link.js: the connection to the primary. One WebSocket at a time; the addresses in turn (proto/WIRE.md).
const { EventEmitter } = require("node:events");
const fs = require("node:fs");
const net = require("node:net");
const WebSocket = require("ws");
const { Closed, Denied } = require("./errors.js");
const { decode } = require("./wire.js");

const DEFAULT_URL = "ws://127.0.0.1:7272";
const DIAL_PATIENCE_MS = 1000; // limit for one connection attempt if there are other addresses
const DIAL_PATIENCE_ALONE_MS = 5000;
const DIAL_AGAIN_MIN_MS = 25; // pause after a round over all addresses, doubled each time
const DIAL_AGAIN_MAX_MS = 400;
const SILENCE_MS = 5000; // a connection without a reply for this long is given up
const MESSAGE_SIZE_MAX = 64 << 20;
const TIMER_MAX_MS = 0x7fffffff; // setTimeout treats larger values as 1 ms
const FIRST_NUMBER = 0x80000000; // SP: the first bit marks a request's number

class Lost extends Error {}
class TimedOut extends Error {}

const now = () => performance.now();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Calls the function `late` at the time `until`. If `until` is more than 24 days away, too long for a timer, never calls `late`. */
function atTime(until, late) {
  const ms = until - now();
  return ms > TIMER_MAX_MS ? undefined : setTimeout(late, Math.max(0, ms));
}

/** Resolves to the promise's value. Rejects with TimedOut at `until`; Infinity: never. */
function before(promise, until) {
  if (until === Infinity) return promise;
  return new Promise((resolve, reject) => {
    const timer = atTime(until, () => reject(new TimedOut()));
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

const isLocal = (host) => host === "localhost" || host === "[::1]" || (net.isIPv4(host) && host.startsWith("127."));

function readToken(path) {
  let text;
  try {
    if (fs.statSync(path).mode & 0o077) throw new Denied("DENIED", `other users may read the token file ${path}: chmod 600 ${path}`);
    text = fs.readFileSync(path, "ascii").trim();
  } catch (error) {
    throw error instanceof Denied ? error : new Denied("DENIED", `the token file ${path} cannot be read: ${error.message}`);
  }
  if (text === "" || /\s/.test(text)) throw new Denied("DENIED", `the token file ${path} must hold one token without blanks`);
  return text;
}

/** Credentials that the client sends to a broker. Files are read at each connection attempt, so they may be replaced. */
class Identity {
  constructor({ token, tokenFile, tlsCa, tlsCert, tlsKey, unsafePlainToken }, env = process.env) {
    if (token && tokenFile) throw new TypeError("give token or tokenFile, not both");
    this.token = token;
    this.tokenFile = tokenFile ?? (token ? undefined : env.TARRY_TOKEN_FILE);
    this.ca = tlsCa ?? env.TARRY_TLS_CA;
    this.cert = tlsCert ?? env.TARRY_TLS_CERT;
    this.key = tlsKey ?? env.TARRY_TLS_KEY;
    this.unsafePlainToken = unsafePlainToken ?? env.TARRY_UNSAFE_PLAIN_TOKEN === "1";
  }

  bearer(url) {
    if (!this.token && !this.tokenFile) return undefined;
    if (url.protocol === "ws:" && !isLocal(url.hostname) && !this.unsafePlainToken)
      throw new Denied("DENIED", `the token is not sent over ws:// to ${url.hostname}, where others can read it: use wss://, or set unsafePlainToken`);
    return this.token ?? readToken(this.tokenFile);
  }

  /** Opens a WebSocket; `onMessage` may get the first message before the promise is resolved. Rejects with an error that may have the HTTP `status`. */
  open(url, path, protocol, bearer, patienceMs, onMessage) {
    const file = (name) => (name && url.protocol === "wss:" ? fs.readFileSync(name) : undefined);
    const socket = new WebSocket(url.href.replace(/\/$/, "") + path, protocol, {
      headers: bearer ? { Authorization: `Bearer ${bearer}` } : {}, perMessageDeflate: false, maxPayload: MESSAGE_SIZE_MAX,
      handshakeTimeout: patienceMs, ca: file(this.ca), cert: file(this.cert), key: file(this.key ?? this.cert),
    });
    if (onMessage) socket.on("message", onMessage);
    return new Promise((resolve, reject) => {
      socket.once("open", () => resolve(socket));
      socket.on("error", reject); // stays, because an error event without a listener would end the program
      socket.once("unexpected-response", (request, response) => {
        request.destroy();
        reject(Object.assign(new Error(`HTTP ${response.statusCode}`), { status: response.statusCode }));
      });
    });
  }
}

/** A WebSocket to /rpc of one address, with requests and replies in any order. */
class Connection {
  constructor(socket, index) {
    this.socket = socket;
    this.index = index;
    this.waiting = new Map();
    this.number = Math.floor(Math.random() * 0x40000000);
    this.isOpen = true;
    this.isUseful = false; // the last request was answered
    socket.on("message", (message) => this.#take(message));
    socket.on("close", () => this.close());
  }

  #take(message) {
    try {
      if (message.length < 4) throw new RangeError("malformed message: no number");
      this.waiting.get(message.readUInt32BE(0))?.resolve(decode("Reply", message.subarray(4)));
    } catch {
      this.close(); // malformed: the requests are repeated elsewhere
    }
  }

  /**
   * Sends a request and returns its reply. Throws Lost if the connection ends, or after SILENCE_MS without a reply; TimedOut
   * at `until`.
   */
  async exchange(request, until) {
    if (!this.isOpen) throw new Lost();
    this.number = (this.number + 1) % FIRST_NUMBER;
    const number = FIRST_NUMBER + this.number, head = Buffer.alloc(4);
    head.writeUInt32BE(number);
    const silent = now() + SILENCE_MS;
    try {
      const reply = await before(new Promise((resolve, reject) => {
        this.waiting.set(number, { resolve, reject });
        this.socket.send(Buffer.concat([head, request]), (error) => error && this.close());
      }), Math.min(until, silent));
      this.isUseful = true;
      return reply;
    } catch (error) {
      if (!(error instanceof TimedOut) || until < silent) throw error;
      this.isUseful = false;
      this.close();
      throw new Lost();
    } finally {
      this.waiting.delete(number);
    }
  }

  close() {
    this.isOpen = false;
    this.socket.terminate();
    for (const { reject } of this.waiting.values()) reject(new Lost());
  }
}

/** Finds the primary. `ready` returns the open connection; `leave` leaves it for the next address. Emits "connection". */
class Link extends EventEmitter {
  constructor(urls, identity) {
    super();
    this.urls = (urls || process.env.TARRY_BROKER || DEFAULT_URL).split(",").map((text) => {
      const url = URL.canParse?.(text.trim()) === false ? undefined : new URL(text.trim());
      if (!url || !/^wss?:$/.test(url.protocol) || url.pathname !== "/" || url.search)
        throw new TypeError(`the broker's address "${text}" must look like ws://host:7272 or wss://host:7272`);
      return url;
    });
    this.identity = identity;
    this.connection = null;
    this.dialing = null;
    this.isClosed = false;
    this.index = 0; // index of the next address to try
    this.tried = new Set(); // addresses of this round
    this.rounds = 0;
    this.said = new Map(); // address → why it was of no use
    this.denied = new Set(); // addresses that do not accept this client
  }

  nameOf(index) {
    return this.urls[index].href.replace(/\/$/, "");
  }

  explain() {
    return [...this.said].map(([index, text]) => `${this.nameOf(index)}: ${text}`).join("; ") || "no broker has replied";
  }

  isUp() {
    return this.connection !== null && this.connection.isOpen;
  }

  ready() {
    if (this.isClosed) return Promise.reject(new Closed("the client is closed"));
    if (this.isUp()) return Promise.resolve(this.connection);
    if (this.dialing === null) {
      this.dialing = this.#dial().finally(() => (this.dialing = null));
      this.dialing.catch(() => {}); // callers that wait for the connection get the error
    }
    return this.dialing;
  }

  /** Records that the current broker handled a request. */
  useful() {
    this.tried.clear();
    this.rounds = 0;
    this.said.delete(this.index);
  }

  /**
   * Leaves the broker at `connection`, because it is not the primary. `hint` is the address that it names as the primary, or
   * "".
   */
  leave(connection, hint, why) {
    if (connection !== this.connection) return;
    this.#drop(why);
    this.tried.add(this.index);
    const named = this.urls.findIndex((_, index) => this.nameOf(index) === hint.replace(/\/$/, ""));
    this.#goOn(named);
  }

  #drop(why) {
    this.said.set(this.index, why);
    if (this.connection === null) return;
    this.connection.close();
    this.connection = null;
    this.emit("connection", this.nameOf(this.index), false, why);
  }

  /** Chooses the next address. The address `named` comes next if it was not tried in this round. */
  #goOn(named = -1) {
    const count = this.urls.length;
    const order = Array.from({ length: count }, (_, step) => (this.index + step + 1) % count);
    if (named >= 0) order.unshift(named);
    this.index = order.find((index) => !this.tried.has(index)) ?? (this.index + 1) % count;
  }

  async #dial() {
    if (this.connection !== null) {
      const { isUseful } = this.connection; // after a lost connection that was useful, try the same address first
      this.#drop(isUseful ? "the connection was lost" : "the broker does not answer requests");
      if (!isUseful) {
        this.tried.add(this.index);
        this.#goOn();
      }
    }
    for (;;) {
      if (this.tried.size >= this.urls.length) {
        this.tried.clear();
        this.rounds++;
        await sleep(Math.min(DIAL_AGAIN_MIN_MS * 2 ** this.rounds, DIAL_AGAIN_MAX_MS) * (0.5 + Math.random() / 2));
      }
      if (this.isClosed) throw new Closed("the client is closed");
      try {
        const url = this.urls[this.index];
        const patienceMs = this.urls.length === 1 ? DIAL_PATIENCE_ALONE_MS : DIAL_PATIENCE_MS;
        const socket = await this.identity.open(url, "/rpc", "rep.sp.nanomsg.org", this.identity.bearer(url), patienceMs);
        if (this.isClosed) {
          socket.terminate();
          throw new Closed("the client is closed");
        }
        this.denied.delete(this.index);
        this.connection = new Connection(socket, this.index);
        this.emit("connection", this.nameOf(this.index), true, "");
        return this.connection;
      } catch (error) {
        if (error instanceof Closed) throw error;
        this.#failed(error);
        if (this.denied.size === this.urls.length) throw new Denied("DENIED", this.explain());
        this.#goOn();
      }
    }
  }

  #failed(error) {
    const isDenied = error.status === 401 || error.status === 403 || error instanceof Denied;
    if (isDenied) this.denied.add(this.index);
    else this.denied.delete(this.index);
    this.said.set(this.index, error.status && isDenied ? `the broker does not accept this client's token or certificate (HTTP ${error.status})` :
      error.message || error.code || String(error));
    this.tried.add(this.index);
  }

  /** Opens the WebSocket that brings a session's tasks. */
  openLane(index, lane, secret, patienceMs, onMessage) {
    return this.identity.open(this.urls[index], `/lane/${lane}`, "push.sp.nanomsg.org", secret.toString("hex"), patienceMs, onMessage);
  }

  close() {
    this.isClosed = true;
    this.#drop("the client was closed");
  }
}

module.exports = { Link, Identity, Lost, TimedOut, atTime, before, now, sleep };
