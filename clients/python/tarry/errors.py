"""errors.py: exceptions of calls, and exceptions that a handler raises to decide about its task."""


class TarryError(Exception):
    """Base of all exceptions of calls. `code` is the name of the broker's code, such as "EXISTS"."""

    code = ""


class Refused(TarryError):
    """The broker refused the request or the operation permanently. `result` is the broker's result for the operation, or None."""

    def __init__(self, code, message, result=None):
        super().__init__(code, message, result)
        self.code, self.message, self.result = code, message, result

    def __str__(self):
        return f"{self.code.lower()}: {self.message}"


class Exists(Refused):
    """A live task of the queue has this key. `result.id` is its id."""


class NotDone(Refused):
    """The task's state does not allow the operation. `result.outcome` is that state."""


class StaleToken(Refused):
    """The lease has ended. Another consumer may have the task."""


class Denied(Refused):
    """The principal lacks the permission, or the broker does not accept the token or certificate."""


class Aborted(Refused):
    """The atomic request had no effect. `results` has one result for each operation."""

    def __init__(self, message, results):
        super().__init__("ABORTED", message)
        self.results = results


class Unavailable(TarryError):
    """The timeout has passed, and nothing was done: no broker could be reached, or each one refused as busy."""

    code = "UNAVAILABLE"


class OutcomeUnknown(TarryError):
    """The timeout has passed after the request was sent, so the request may have taken effect."""

    code = "UNKNOWN"


class Closed(TarryError):
    """The client was closed."""

    code = "CLOSED"


class Verdict(Exception):
    """Base class of exceptions by which a handler decides about its task."""


class Retry(Verdict):
    """Delivers the task again, `delay` later (seconds or a timedelta), or after the queue's backoff. An attempt is charged."""

    def __init__(self, reason="", delay=None):
        super().__init__(reason)
        self.delay = delay


class Dead(Verdict):
    """Moves the task to the dead letters, with this reason."""


class Release(Verdict):
    """Gives the task back without charging an attempt. It is due again after `delay` (seconds or a timedelta)."""

    def __init__(self, delay=0):
        super().__init__()
        self.delay = delay


BY_CODE = {"EXISTS": Exists, "NOT_DONE": NotDone, "STALE_TOKEN": StaleToken, "DENIED": Denied}


def refusal(code, message, result=None):
    return BY_CODE.get(code, Refused)(code, message, result)
