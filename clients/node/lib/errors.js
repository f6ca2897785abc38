"use strict";
// errors.js: errors of calls, and errors that a handler throws to decide about its task.

class TarryError extends Error {
  constructor(code, message) {
    super(message);
    this.name = this.constructor.name;
    this.code = code;
  }
}

/** The broker refused the request or the operation permanently. `result` is the broker's result for the operation, or null. */
class Refused extends TarryError {
  constructor(code, message, result = null) {
    super(code, `${code.toLowerCase()}: ${message}`);
    this.result = result;
  }
}
/** A live task of the queue has this key. */
class Exists extends Refused {}
/** The task's state does not allow the operation; `result.outcome` is that state. */
class NotDone extends Refused {}
/** The lease has ended. */
class StaleToken extends Refused {}
/** The principal lacks the permission, or the broker does not accept the token or certificate. */
class Denied extends Refused {}
/** The atomic request had no effect. `results` has one result for each operation. */
class Aborted extends Refused {
  constructor(message, results) {
    super("ABORTED", message);
    this.results = results;
  }
}
/** The timeout has passed, and nothing was done. */
class Unavailable extends TarryError {
  constructor(message) {
    super("UNAVAILABLE", message);
  }
}
/** The timeout has passed after the request was sent, so the request may have taken effect. */
class OutcomeUnknown extends TarryError {
  constructor(message) {
    super("UNKNOWN", message);
  }
}
class Closed extends TarryError {
  constructor(message) {
    super("CLOSED", message);
  }
}

/** Delivers the task again, `delayMs` later, or after the queue's backoff. An attempt is charged. */
class Retry extends Error {
  constructor(reason = "", { delayMs } = {}) {
    super(reason);
    this.delayMs = delayMs;
  }
}
/** Moves the task to the dead letters, with this reason. */
class Dead extends Error {}
/** Gives the task back without charging an attempt. It is due again after `delayMs`. */
class Release extends Error {
  constructor({ delayMs = 0 } = {}) {
    super("released");
    this.delayMs = delayMs;
  }
}

const BY_CODE = { EXISTS: Exists, NOT_DONE: NotDone, STALE_TOKEN: StaleToken, DENIED: Denied };
const refusal = (code, message, result = null) => new (BY_CODE[code] ?? Refused)(code, message, result);

module.exports = {
  TarryError, Refused, Exists, NotDone, StaleToken, Denied, Aborted, Unavailable, OutcomeUnknown, Closed, Retry, Dead, Release, refusal,
};
