"""model.py: values that programs pass to a client and receive from it, and the conversion to and from messages."""
import contextvars
import datetime
import json as _json
import math
from dataclasses import dataclass, field

from . import tarry_pb2 as pb

# Attributes that carry a trace (W3C Trace Context) from a scheduling program to the handler. In a handler they are the
# task's own, so that tasks that the handler schedules continue the trace.
TRACE_NAMES = ("traceparent", "tracestate")
trace_context = contextvars.ContextVar("tarry_trace_context", default={})

REASON_SIZE_MAX = 255
UTC = datetime.timezone.utc


def milliseconds(duration):
    """Converts a duration (seconds or a timedelta) to whole milliseconds, rounded up, because a task must never be early."""
    seconds = duration.total_seconds() if isinstance(duration, datetime.timedelta) else duration
    if not (isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"a duration must be a number of seconds or a timedelta, 0 or more, not {duration!r}")
    return math.ceil(round(seconds * 1000, 3))


def unix_ms(at):
    """Converts a time (an aware datetime or Unix seconds) to Unix milliseconds, rounded up."""
    if isinstance(at, datetime.datetime):
        if at.tzinfo is None:
            raise ValueError(f"the time {at!r} has no time zone: add one, for example tzinfo=datetime.timezone.utc")
        at = (at - datetime.datetime(1970, 1, 1, tzinfo=UTC)) / datetime.timedelta(seconds=1)
    return milliseconds(at)


def time_of(unix_milliseconds):
    """Returns an aware datetime; None: no time is set."""
    return None if not unix_milliseconds else datetime.datetime.fromtimestamp(unix_milliseconds / 1000, UTC)


def when_of(delay, at):
    if delay is not None and at is not None:
        raise ValueError("give delay or at, not both")
    if at is not None:
        return pb.When(kind=pb.When.AT, ms=unix_ms(at))
    return pb.When(kind=pb.When.DELAY, ms=milliseconds(delay or 0))


def ref_of(queue, key, id):
    if id is not None:
        return pb.Ref(id=id)
    if queue is None or not key:
        raise ValueError("name the task by queue and key, or by id")
    return pb.Ref(queue=queue, key=key.encode())


def reason_of(text):
    """Returns the text in UTF-8, cut to the maximum size of a reason."""
    return text.encode("utf-8", "replace").replace(b"\0", b" ")[:REASON_SIZE_MAX].decode("utf-8", "ignore")


@dataclass
class Schedule:
    """A task to be scheduled. `body` is bytes or text; `json` is any value that JSON can hold."""

    queue: str
    body: bytes | str = b""
    key: str | None = None
    delay: float | datetime.timedelta | None = None
    at: datetime.datetime | float | None = None
    json: object = None
    attributes: dict = field(default_factory=dict)
    priority: int = 0
    expires: float | datetime.timedelta | None = None
    on_conflict: str = "reject"

    def operation(self, inject=None):
        attributes = dict(trace_context.get())
        if inject is not None:
            inject(attributes)
        attributes.update(self.attributes)
        payload = self.body.encode() if isinstance(self.body, str) else bytes(self.body)
        if self.json is not None:
            if payload:
                raise ValueError("give body or json, not both")
            payload = _json.dumps(self.json).encode()
            attributes.setdefault("content-type", "application/json")
        content = pb.Content(attributes=[pb.Attribute(name=name, value=value) for name, value in attributes.items()], payload=payload)
        return pb.Op(schedule=pb.Schedule(
            queue=self.queue, key=(self.key or "").encode(), when=when_of(self.delay, self.at), content=content.SerializeToString(),
            priority=self.priority, expires_ms=0 if self.expires is None else milliseconds(self.expires),
            on_conflict=pb.Schedule.OnConflict.Value(self.on_conflict.upper())))


@dataclass(frozen=True)
class Result:
    """The broker's result for one operation. `ok`: the operation took effect, in this request or an earlier one."""

    code: str
    outcome: str
    id: int
    due_ms: int
    deliveries: int
    attempt: int
    message: str

    @property
    def ok(self):
        return self.code == "OK"

    @property
    def due(self):
        return time_of(self.due_ms)


def outcome_name(number):
    """Returns the outcome's name in lower case. The outcome LIVE (a live task has the key) is called "exists", as in the
    output of `tarry`.
    """
    name = pb.Outcome.Name(number) if number in pb.Outcome.values() else f"outcome {number}"
    return "exists" if name == "LIVE" else name.lower()


def code_name(number):
    return pb.Code.Name(number) if number in pb.Code.values() else f"CODE_{number}"


def result_of(message):
    return Result(code_name(message.code), outcome_name(message.outcome), message.id, message.due_ms, message.deliveries, message.attempt,
                  message.message or code_name(message.code).lower())


class _Content:
    """Payload and attributes of a task."""

    def _unpack(self, packed):
        content = pb.Content.FromString(packed)
        self.body = content.payload
        self.attributes = {attribute.name: attribute.value for attribute in content.attributes}

    def json(self):
        """Returns the body, parsed as JSON."""
        return _json.loads(self.body)

    @property
    def due(self):
        return time_of(self.due_ms)


class View(_Content):
    """A task as `get` sees it. `state` is pending, ready, in_flight, dead, acked, cancelled, expired or dropped."""

    def __init__(self, message):
        self._unpack(message.content)
        self.id, self.queue, self.key = message.id, message.queue, message.key.decode() or None
        self.state, self.reason = message.state, message.reason
        self.due_ms, self.scheduled_ms, self.ended_ms = message.due_ms, message.scheduled_ms, message.ended_ms
        self.attempt, self.deliveries, self.priority = message.attempt, message.deliveries, message.priority

    def __repr__(self):
        return f"<tarry.View {self.queue} {self.key or self.id} {self.state}>"


class Task(_Content):
    """One delivery of a task."""

    def __init__(self, message, delivered_ms):
        self._unpack(message.content)
        self.id, self.queue, self.key = message.id, message.queue, message.key.decode() or None
        self.due_ms, self.delivered_ms = message.due_ms, delivered_ms
        self.attempt, self.deliveries, self.priority = message.attempt, message.deliveries, message.priority
        self.token = (message.token.epoch, message.token.position)
        self.lease_ms = max(1, message.lease_deadline_ms - delivered_ms)
        self.is_lease_lost = False  # another consumer may have the task now

    def __repr__(self):
        return f"<tarry.Task {self.queue} {self.key or self.id} attempt {self.attempt}>"

    def trace(self):
        return {name: self.attributes[name] for name in TRACE_NAMES if name in self.attributes}

    def _settling(self, kind, **fields):
        epoch, position = self.token
        return pb.Op(**{kind: {"id": self.id, "token": {"epoch": epoch, "position": position}, **fields}})

    def ack(self):
        return self._settling("ack")

    def extend(self):
        return self._settling("extend", lease_ms=self.lease_ms)

    def nack(self, reason, delay=None, dead=False):
        fields = {} if delay is None else {"has_delay": True, "delay_ms": milliseconds(delay)}
        return self._settling("nack", reason=reason_of(reason), dead=dead, **fields)

    def release(self, delay=0):
        return self._settling("release", **({"when": when_of(delay, None)} if delay else {}))
