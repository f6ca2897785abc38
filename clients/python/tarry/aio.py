"""aio.py: the client for asyncio."""
import asyncio
import logging
import os
import sys

from . import tarry_pb2 as pb
from .commits import OPS_MAX, Ask, Committer
from .errors import Aborted, TarryError, refusal
from .link import Identity, Link
from .model import Schedule, View, code_name, ref_of, result_of, when_of
from .worker import Worker

log = logging.getLogger("tarry")

TIMEOUT_DEFAULT_S = 10.0


class AsyncClient:
    """A client of one broker, or of a pair. `urls` has their addresses, separated by commas; default: $TARRY_BROKER, then
    ws://127.0.0.1:7272.

    Every call ends within `timeout` seconds. `measure(name, value, labels)` gets measurements (see README).
    `inject(attributes)` adds the trace context to the attributes of a scheduled task. Without `inject`, a task that a
    handler schedules continues the trace of the handler's own task.
    """

    def __init__(self, urls=None, *, token=None, token_file=None, tls_ca=None, tls_cert=None, tls_key=None, unsafe_plain_token=False,
                 name=None, timeout=TIMEOUT_DEFAULT_S, measure=None, inject=None):
        self.name = (name or f"{os.path.basename(sys.argv[0] or 'python3')[:64]}/{os.getpid()}").encode()[:128].decode("utf-8", "ignore")
        self.timeout, self.inject, self._measure = timeout, inject, measure
        self.link = Link(urls, Identity(token, token_file, tls_ca, tls_cert, tls_key, unsafe_plain_token), self._on_connection)
        self.cluster = b""
        self.changes = Committer(self)   # schedules, cancels, moves
        self.settles = Committer(self)   # acks, nacks, extends, releases: they do not wait behind schedules that a full broker refuses
        self.workers = set()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    # ---- functions for the other modules

    def request(self, **body):
        return pb.Request(version=1, client=self.name, cluster=self.cluster, **body)

    def met_cluster(self, cluster):
        """With several addresses, each request names the cluster, because a producer's number is valid in one cluster only."""
        if len(self.link.urls) > 1:
            self.cluster = cluster

    def until(self, timeout=None):
        return asyncio.get_running_loop().time() + (self.timeout if timeout is None else timeout)

    def measure(self, name, value, **labels):
        if self._measure is None:
            return
        try:
            self._measure(name, value, labels)
        except Exception:  # a program's hook must not stop its work
            log.exception("the hook `measure` failed")

    def _on_connection(self, address, is_up, why):
        log.info("%s: %s", address, "connected" if is_up else why)
        self.measure("tarry.client.connections", 1 if is_up else -1, address=address)

    # ---- calls

    async def _one(self, op, timeout):
        result = result_of((await self.changes.commit([op], False, self.until(timeout)))[0])
        self.measure("tarry.client.operations", 1, operation=op.WhichOneof("op"), code=result.code)
        if not result.ok:
            raise refusal(result.code, result.message, result)
        return result

    async def schedule(self, queue, body=b"", *, timeout=None, **options):
        """Schedules a task (see Schedule for the options) and returns its Result. Raises Exists if a live task has the key."""
        return await self._one(Schedule(queue, body, **options).operation(self.inject), timeout)

    async def schedule_many(self, tasks, *, atomic=False, timeout=None):
        """Schedules a list of Schedule. Returns their Results in order; a refused one is not `ok`. With `atomic` (at most
        8,192 tasks) either all are scheduled, or none is and Aborted is raised.
        """
        ops = [task.operation(self.inject) for task in tasks]
        if atomic and len(ops) > OPS_MAX:
            raise ValueError(f"at most {OPS_MAX} tasks can be scheduled atomically, not {len(ops)}")
        chunks = [ops[at:at + OPS_MAX] for at in range(0, len(ops), OPS_MAX)] if atomic else list(self._chunks(ops))
        answers = await asyncio.gather(*(self.changes.commit(chunk, atomic, self.until(timeout)) for chunk in chunks), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        results = [result_of(message) for answer in answers for message in answer]
        for result in results:
            self.measure("tarry.client.operations", 1, operation="schedule", code=result.code)
        if atomic and any(not result.ok for result in results):
            refused = next(result for result in results if not result.ok and result.code != "ABORTED")
            raise Aborted(refused.message, results)
        return results

    @staticmethod
    def _chunks(ops):
        """Divides operations into requests of at most a megabyte, or of one task, so that other calls do not wait long."""
        chunk, size = [], 0
        for op in ops:
            if chunk and (size + op.ByteSize() > 1 << 20 or len(chunk) == OPS_MAX):
                yield chunk
                chunk, size = [], 0
            chunk.append(op)
            size += op.ByteSize()
        if chunk:
            yield chunk

    async def cancel(self, queue=None, key=None, *, id=None, withdraw=False, timeout=None):
        """Cancels a task. If the Result has `deliveries` 0, no consumer has seen the task, and none will. Raises NotDone if a
        consumer has the task; with `withdraw`, cancels the task even if a consumer has it.
        """
        return await self._one(pb.Op(cancel=pb.Cancel(task=ref_of(queue, key, id), withdraw=withdraw)), timeout)

    async def move(self, queue=None, key=None, *, id=None, delay=None, at=None, timeout=None):
        """Gives a task another due time: `delay` from now, or `at`."""
        if delay is None and at is None:
            raise ValueError("give delay or at")
        return await self._one(pb.Op(move=pb.Move(task=ref_of(queue, key, id), when=when_of(delay, at))), timeout)

    async def get(self, queue=None, key=None, *, id=None, timeout=None):
        """Returns the task as a View; None if the broker does not know it."""
        reply = await self.ask(timeout, get=pb.Get(task=ref_of(queue, key, id), with_content=True))
        if reply.get.outcome == pb.UNKNOWN or not reply.get.HasField("task"):
            return None
        return View(reply.get.task)

    async def ask(self, timeout=None, **body):
        """Returns the reply to a request that changes nothing. Raises Refused if the broker refuses."""
        reply = await Ask(self.link, self.request(**body), changes=False).run(self.until(timeout))
        if reply.code != pb.OK:
            raise refusal(code_name(reply.code), reply.message)
        return reply

    # ---- working

    async def worker(self, queue, concurrency, handler, **options):
        """Calls `await handler(task)` for each due task, at most `concurrency` at a time, until SIGTERM, SIGINT or `stop_workers`. Acks a
        task when its handler returns. See Worker for the options."""
        worker = Worker(self, queue, concurrency, handler, **options)
        self.workers.add(worker)
        try:
            await worker.run()
        finally:
            self.workers.discard(worker)

    def stop_workers(self):
        """Makes every worker finish the tasks that it has begun, give back the others, and return."""
        for worker in self.workers:
            worker.stop()

    async def close(self):
        self.stop_workers()
        try:
            await asyncio.gather(*(worker.ended.wait() for worker in list(self.workers)))
            await self.changes.close()
            await self.settles.close()
        except TarryError:
            log.exception("closing")
        self.link.close()
