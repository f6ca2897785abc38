"""worker.py: a subscription, the handlers of its tasks, and their leases.

The broker sends tasks over a lane as they fall due, at most `prefetch` that are not settled. Each task comes with a lease.
When half of a lease's time is over, the worker extends the lease, also for tasks that wait for a handler. If the connection
is lost or another broker leads, the worker subscribes again with the session's secret and keeps its leases and tokens.
"""
import asyncio
import collections
import logging
import signal
import threading

import websockets

from . import tarry_pb2 as pb
from .commits import Ask
from .errors import Dead, Release, Retry, TarryError, refusal
from .model import Task, code_name, result_of, trace_context

log = logging.getLogger("tarry")

PREFETCH_MAX = 16384
LANE_PATIENCE_S = 2.0
SUBSCRIBE_AGAIN_S = 1.0      # after a refusal of a later subscription
EXTEND_AGAIN_S = 0.2         # after an extension that got no answer
DRAIN_DEFAULT_S = 30.0


class Held:
    """A lease. `until` is its end by the loop's clock, counted from the arrival of the task or the sending of the extension."""

    def __init__(self, task, now):
        self.task = task
        self.is_seen = False       # the task's handler was started
        self.is_settling = False
        self.may_return = False    # after a resumption the broker may deliver it once more under this token
        self.leased(now)

    def leased(self, now):
        self.until = now + self.task.lease_ms / 1000
        self.extend_at = now + self.task.lease_ms / 2000


class Worker:
    """`queue` is a name or a list of names. `prefetch`: tasks that this worker may have; default: 2 × concurrency. `lease`:
    length of the leases in seconds; default: as the queue's policy says. `drain`: seconds that handlers have to finish
    after `stop`; after that they are cancelled, and their tasks go back. `signals`: SIGTERM and SIGINT stop the worker.
    `around(task)`: a context manager that each handler runs in.
    """

    def __init__(self, client, queue, concurrency, handler, *, prefetch=None, lease=0, drain=DRAIN_DEFAULT_S, signals=True, around=None):
        if concurrency < 1:
            raise ValueError(f"concurrency must be 1 or more, not {concurrency}")
        self.client, self.handler, self.concurrency, self.around = client, handler, concurrency, around
        self.queues = [queue] if isinstance(queue, str) else list(queue)
        self.prefetch = min(prefetch or 2 * concurrency, PREFETCH_MAX)
        self.lease_ms, self.drain_s, self.signals = round(lease * 1000), drain, signals
        self.loop = asyncio.get_running_loop()
        self.session, self.secret, self.lane = 0, b"", None
        self.held = {}                     # task id → Held
        self.returned = {}                 # task id → token that was settled and may be delivered once more
        self.waiting = collections.deque()  # leases whose tasks no handler has begun
        self.handlers = {}                 # asyncio task → Held
        self.settling = set()              # asyncio tasks
        self.stopping = asyncio.Event()
        self.leases_changed = asyncio.Event()
        self.ended = asyncio.Event()
        self.problem = None                # why the first subscription was refused

    def stop(self):
        self.stopping.set()

    async def run(self):
        restore = self._catch_signals()
        keeper = asyncio.ensure_future(self._keep_leases())
        subscription = asyncio.ensure_future(self._subscribe_always())
        try:
            stopped = asyncio.ensure_future(self.stopping.wait())
            await asyncio.wait([subscription, stopped], return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            await self._unsubscribe()
            await self._cancel(subscription)
            await self._drain()
        finally:
            await self._cancel(subscription, keeper, *self.handlers)
            restore()
            self.ended.set()
        if self.problem is not None:
            raise self.problem

    def _catch_signals(self):
        if not self.signals or threading.current_thread() is not threading.main_thread():
            return lambda: None
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        for number in before:
            self.loop.add_signal_handler(number, self.stop)

        def restore():
            for number, handler in before.items():
                self.loop.remove_signal_handler(number)
                signal.signal(number, handler)
        return restore

    @staticmethod
    async def _cancel(*tasks):
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ---- the subscription

    async def _subscribe_always(self):
        is_first = True
        while not self.stopping.is_set():
            try:
                ask = Ask(self.client.link, self.client.request(subscribe=pb.Subscribe(
                    queues=self.queues, prefetch=self.prefetch, lease_ms=self.lease_ms, resume=self.secret)), changes=False)
                reply = await ask.run(None)
                if reply.code != pb.OK:
                    raise refusal(code_name(reply.code), reply.message)
            except TarryError as error:
                if error.code == "NO_SUCH_SESSION" or self.secret and error.code == "INVALID":
                    self.secret = b""
                    self._forget()
                    continue
                if is_first:
                    self.problem = error
                    return
                log.warning("the subscription to %s was refused: %s", self.queues, error)
                await asyncio.sleep(SUBSCRIBE_AGAIN_S)
                continue
            is_first = False
            await self._session(reply.subscribe, ask.connection.index)

    async def _session(self, reply, index):
        """Serves one session at one broker, until the lane or the heartbeats show that the session has ended."""
        if reply.resumed:
            self.returned = {}
            for held in self.held.values():
                held.may_return = True
        else:
            self._forget()
        self.session, self.secret = reply.session, reply.secret
        beating = None
        try:
            self.lane = await asyncio.wait_for(self.client.link.open_lane(index, reply.lane, reply.secret), LANE_PATIENCE_S)
            log.info("session %d of %s %s", reply.session, ",".join(self.queues), "goes on" if reply.resumed else "begins")
            beating = asyncio.ensure_future(self._beat(self.lane, index, max(reply.silence_ms, 1000) / 3000))
            async for message in self.lane:
                self._deliver(pb.Delivery.FromString(message))
        except (asyncio.TimeoutError, OSError, websockets.WebSocketException) as error:
            log.info("the lane of session %d was lost: %s", reply.session, error or type(error).__name__)
            await asyncio.sleep(0.01)
        finally:
            if beating is not None:
                beating.cancel()
            if self.lane is not None:
                self.lane.transport.abort()
                self.lane = None

    async def _beat(self, lane, index, interval_s):
        """Sends heartbeats. Closes the lane when the session has ended, or when another broker leads."""
        while True:
            await asyncio.sleep(interval_s)
            ask = Ask(self.client.link, self.client.request(heartbeat=pb.Heartbeat(session=self.session)), changes=False)
            try:
                reply = await ask.run(None)
            except TarryError as error:
                log.warning("heartbeat: %s", error)
                continue
            if reply.code == pb.NO_SUCH_SESSION or ask.connection.index != index:
                lane.transport.abort()
                return

    def _forget(self):
        """Drops all tasks that no handler has begun, because a new session begins. The broker delivers them again."""
        self.waiting.clear()
        self.returned = {}
        self.held = {id: held for id, held in self.held.items() if held.is_seen}
        for held in self.held.values():
            held.may_return = False

    # ---- tasks

    def _deliver(self, delivery):
        if delivery.session != self.session or self.stopping.is_set():
            return
        for message in delivery.tasks:
            task = Task(message, delivery.delivered_ms)
            present = self.held.get(task.id)
            if present is not None and present.task.token >= task.token or self.returned.get(task.id) == task.token:
                continue
            if present is not None:
                self._lost(present)
            held = self.held[task.id] = Held(task, self.loop.time())
            self.waiting.append(held)
            self.client.measure("tarry.worker.lateness.seconds", max(0, task.delivered_ms - task.due_ms) / 1000, queue=task.queue)
        self.leases_changed.set()
        self._start()

    def _start(self):
        while self.waiting and len(self.handlers) < self.concurrency and not self.stopping.is_set():
            held = self.waiting.popleft()
            if self.held.get(held.task.id) is not held:
                continue  # a later lease of the task has replaced this one
            if held.task.is_lease_lost or self.loop.time() >= held.until:
                self._lost(held)
                continue
            held.is_seen = True
            handling = asyncio.ensure_future(self._handle(held))
            self.handlers[handling] = held
            handling.add_done_callback(self._handled)

    def _handled(self, handling):
        self.handlers.pop(handling, None)
        self._start()

    async def _handle(self, held):
        task = held.task
        trace_context.set(task.trace())
        started = self.loop.time()
        try:
            if self.around is None:
                await self.handler(task)
            else:
                with self.around(task):
                    await self.handler(task)
            result, op = "acked", task.ack()
        except asyncio.CancelledError:
            result, op = "released", task.release()  # the handler did not finish in the time for draining
        except Release as verdict:
            result, op = "released", task.release(verdict.delay)
        except Retry as verdict:
            result, op = "retried", task.nack(str(verdict), verdict.delay)
        except Dead as verdict:
            result, op = "dead", task.nack(str(verdict), dead=True)
        except Exception as error:
            log.warning("the handler of %s failed", task, exc_info=True)
            result, op = "retried", task.nack(f"{type(error).__name__}: {error}")
        self.client.measure("tarry.worker.handler.seconds", self.loop.time() - started, queue=task.queue, result=result)
        settling = asyncio.ensure_future(self._settle(held, op, result))
        self.settling.add(settling)
        settling.add_done_callback(self.settling.discard)

    async def _settle(self, held, op, result):
        """Sends an ack, nack or release. Does not hold up the next handler; operations of many tasks share a request."""
        held.is_settling = True
        task = held.task
        try:
            answer = result_of((await self.client.settles.commit([op], False, self.client.until()))[0])
        except TarryError as error:
            log.warning("%s of %s: %s", op.WhichOneof("op"), task, error)
            self.client.measure("tarry.worker.tasks", 1, queue=task.queue, result="unknown", task=task)
            self._drop(held)
            return
        if answer.ok and result == "retried" and answer.outcome == "buried":
            result = "dead"  # that was the last attempt, so the task is a dead letter
        self.client.measure("tarry.worker.tasks", 1, queue=task.queue, result=result if answer.ok else "lost", task=task)
        if held.may_return:
            self.returned[task.id] = task.token
        self._drop(held)

    def _drop(self, held):
        if self.held.get(held.task.id) is held:
            del self.held[held.task.id]

    def _lost(self, held):
        held.task.is_lease_lost = True
        if not held.is_seen:
            self.client.measure("tarry.worker.tasks", 1, queue=held.task.queue, result="lost", task=held.task)
        self._drop(held)

    # ---- leases

    async def _keep_leases(self):
        while True:
            self.leases_changed.clear()
            now = self.loop.time()
            due = [held for held in self.held.values() if held.extend_at <= now and not held.is_settling]
            if due:
                await asyncio.wait([asyncio.ensure_future(self._extend(held, now)) for held in due])
                continue
            next_at = min((held.extend_at for held in self.held.values() if not held.is_settling), default=None)
            try:
                await asyncio.wait_for(self.leases_changed.wait(), None if next_at is None else max(0, next_at - now))
            except asyncio.TimeoutError:
                pass

    async def _extend(self, held, now):
        held.extend_at = now + EXTEND_AGAIN_S
        try:
            answer = result_of((await self.client.settles.commit([held.task.extend()], False, self.client.until()))[0])
        except TarryError as error:
            log.warning("extend of %s: %s", held.task, error)
            return
        if answer.ok:
            held.leased(now)
        elif not held.is_settling:
            self._lost(held)

    # ---- the end

    async def _unsubscribe(self):
        """Ends the session. Tasks that no handler has begun are released at once without an attempt; the other leases stay
        until they are settled. Call it while the lane is open, because the broker withdraws all leases of a session that
        lost its lane.
        """
        self.stopping.set()
        self.waiting.clear()
        for held in [held for held in self.held.values() if not held.is_seen]:
            self._drop(held)
        if self.session != 0:
            try:
                await self.client.ask(unsubscribe=pb.Unsubscribe(session=self.session, keep_leases=True, seen=list(self.held)))
            except TarryError as error:
                log.warning("unsubscribe: %s", error)

    async def _drain(self):
        if self.handlers:
            await asyncio.wait(list(self.handlers), timeout=self.drain_s)
        if self.handlers:
            log.warning("%d handlers did not finish within %s s: their tasks go back", len(self.handlers), self.drain_s)
            await self._cancel(*self.handlers)
        while self.settling:
            await asyncio.wait(list(self.settling))
