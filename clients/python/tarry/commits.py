"""commits.py: puts operations into commits, each of which takes effect once (ONCE-1). A `Committer` has one commit in flight.
Operations that arrive meanwhile gather for the next one. So operations take effect in the order of submission, and under
load thousands share one request. A commit keeps its producer and sequence until it is answered, through lost connections
and failovers. So the broker recognises a repeated commit, and repeats its first answer.
"""
import asyncio
import collections
import copy

from . import tarry_pb2 as pb
from .errors import Closed, OutcomeUnknown, Refused, TarryError, Unavailable, refusal
from .model import code_name

OPS_MAX = 8192
GATHER_SIZE_MAX = 4 << 20
BACKOFF_MIN_S = 0.005   # after BUSY and STOPPING, doubled each time
BACKOFF_MAX_S = 0.1
RETRIED = (pb.BUSY, pb.STOPPING, pb.NOT_PRIMARY, pb.FAILED)


class Ask:
    """One request, repeated until it gets a reply. `unanswered`: number of sends that may have been executed."""

    def __init__(self, link, request, changes):
        self.link, self.data, self.changes = link, request.SerializeToString(), changes
        self.unanswered = 0
        self.said = ""
        self.connection = None

    async def run(self, until):
        """Returns the reply, whatever its code. Raises Unavailable or OutcomeUnknown at `until` (the loop's time; None: never);
        the request may be run again afterwards."""
        try:
            async with asyncio.timeout_at(until):
                return await self._repeat()
        except TimeoutError:
            why = self.said or self.link.explain()
            if self.changes and self.unanswered > 0:
                raise OutcomeUnknown(f"no answer in time, and it may have taken effect: {why}") from None
            raise Unavailable(f"nothing was done in time: {why}") from None

    async def _repeat(self):
        backoff_s = BACKOFF_MIN_S
        while True:
            self.connection = connection = await self.link.ready()
            self.unanswered += 1
            try:
                reply = await connection.exchange(self.data)
            except ConnectionError:
                continue
            code = pb.NOT_PRIMARY if reply.follower else reply.code
            if code not in RETRIED:
                self.link.useful()
                return reply
            self.said = f"{connection_name(self.link, connection)}: {reply.message or code_name(code).lower()}"
            if code != pb.FAILED:
                self.unanswered -= 1  # the broker did not execute the request, so its outcome is known
            if code == pb.NOT_PRIMARY:
                self.link.leave(connection, reply.primary, reply.message or "not the primary")
                continue
            await asyncio.sleep(max(backoff_s, reply.retry_ms / 1000))
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)


def connection_name(link, connection):
    return link.urls[connection.index].geturl()


class Item:
    """Operations of one call, which stay together."""

    def __init__(self, ops, is_atomic, until):
        self.ops, self.is_atomic, self.until = ops, is_atomic, until
        self.is_alone = is_atomic  # true: the commit has no operations of other calls
        self.size = sum(op.ByteSize() for op in ops)
        self.future = asyncio.get_running_loop().create_future()

    def fail(self, error):
        """Each caller gets its own exception object. With a shared one, a caller could clear the stack frames of the
        committer.
        """
        if not self.future.done():
            self.future.set_exception(copy.copy(error))


class Committer:
    """Sends commits over the connection of `client`, as one producer."""

    def __init__(self, client):
        self.client = client
        self.queue = collections.deque()
        self.producer = self.sequence = 0
        self.task = None

    async def commit(self, ops, is_atomic, until):
        """Submits a commit and returns the results of its CommitReply, one for each operation."""
        item = Item(ops, is_atomic, until)
        self.queue.append(item)
        if self.task is None or self.task.done():
            self.task = asyncio.ensure_future(self._run())
        expiry = asyncio.get_running_loop().call_at(until, self._expire, item)
        try:
            return await item.future
        finally:
            expiry.cancel()

    def _expire(self, item):
        """Fails an item whose timeout passed while it waited for earlier commits."""
        if item in self.queue:
            self.queue.remove(item)
            item.fail(Unavailable(f"nothing was done in time: {self.client.link.explain()}"))

    def _gather(self):
        items = [self.queue.popleft()]
        count, size = len(items[0].ops), items[0].size
        while self.queue and not items[0].is_alone and not self.queue[0].is_alone:
            count, size = count + len(self.queue[0].ops), size + self.queue[0].size
            if count > OPS_MAX or size > GATHER_SIZE_MAX:
                break
            items.append(self.queue.popleft())
        return items

    async def _run(self):
        items = []
        try:
            while self.queue:
                items = [item for item in self._gather() if not item.future.done()]
                if items:
                    await self._send(items)
        except asyncio.CancelledError:
            for item in [*items, *self.queue]:
                item.fail(Closed("the client was closed; whether the operation took effect is unknown"))
            self.queue.clear()
            raise

    async def _send(self, items):
        """Commits the operations of `items`. After that each item's future is done, or the item is in the queue again."""
        started = asyncio.get_running_loop().time()
        ask = None
        while items:
            until = min(item.until for item in items)
            try:
                if self.producer == 0:
                    await self._hello(until)
                if ask is None:
                    self.sequence += 1
                    commit = pb.Commit(producer=self.producer, sequence=self.sequence, oldest_unanswered=self.sequence,
                                       atomic=items[0].is_atomic, ops=[op for item in items for op in item.ops])
                    ask = Ask(self.client.link, self.client.request(commit=commit), changes=True)
                reply = await ask.run(until)
            except (Unavailable, OutcomeUnknown) as error:
                now = max(until, asyncio.get_running_loop().time())  # a timer may fire a moment too early
                for item in items:
                    if item.until <= now:
                        item.fail(error)
                items = [item for item in items if item.until > now]
                if isinstance(error, Unavailable):  # no item was executed, so the items whose time is not over are sent again
                    self._unsent(ask)
                    self.queue.extendleft(reversed(items))
                    return
                continue
            except TarryError as error:  # Hello was refused, or the broker does not accept this client
                if ask is not None and ask.unanswered > 0:
                    self.producer = 0
                for item in items:
                    item.fail(error)
                return
            if reply.code == pb.FORGOTTEN and ask.unanswered == 1:  # the commit was sent only once, so the broker has not executed it
                self.producer, ask = 0, None
                continue
            self._answer(items, reply, asyncio.get_running_loop().time() - started)
            return
        self.producer = 0  # the commit's outcome is unknown, so its producer is not used again

    def _unsent(self, ask):
        if ask is not None:
            self.sequence -= 1

    def _answer(self, items, reply, seconds):
        operations = sum(len(item.ops) for item in items)
        self.client.measure("tarry.client.commit.seconds", seconds, operations=operations)
        if reply.code != pb.OK:
            if reply.code == pb.FORGOTTEN:
                self.producer = 0
                error = OutcomeUnknown("the broker has forgotten whether the operation took effect")
            else:
                error = refusal(code_name(reply.code), reply.message)
            if len(items) > 1 and isinstance(error, Refused):  # the broker refuses a whole request for one bad operation, so send each operation alone
                for item in items:
                    item.is_alone = True
                self.queue.extendleft(reversed(items))
                return
            for item in items:
                item.fail(error)
            return
        results, at = reply.commit.results, 0
        for item in items:
            if not item.future.done():
                item.future.set_result(list(results[at:at + len(item.ops)]))
            at += len(item.ops)

    async def _hello(self, until):
        reply = await Ask(self.client.link, self.client.request(hello=pb.Hello()), changes=False).run(until)
        if reply.code != pb.OK:
            raise refusal(code_name(reply.code), reply.message)
        self.producer, self.sequence = reply.hello.producer, 0
        self.client.met_cluster(reply.hello.cluster)

    async def close(self):
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])
        if self.producer != 0 and self.client.link.is_up():
            goodbye = self.client.request(goodbye=pb.Goodbye(producer=self.producer)).SerializeToString()
            try:
                await asyncio.wait_for(self.client.link.connection.exchange(goodbye), 1)
            except (ConnectionError, asyncio.TimeoutError):
                pass  # no retry is needed, because the broker forgets the producer after a day
