"""test_commits.py: how operations become commits: gathering, repetition, refusals, outcomes that are unknown. The broker is a list of answers."""
import asyncio
import unittest
from urllib.parse import urlsplit

import tarry
from tarry import tarry_pb2 as pb
from tarry.aio import AsyncClient
from tarry.link import Lost


def accepted(commit):
    return pb.Reply(commit=pb.CommitReply(results=[pb.OpResult(outcome=pb.SCHEDULED, id=number + 1) for number in range(len(commit.ops))]))


class Broker:
    """Replaces a connection and the link. `script`: functions that get a Commit and return the Reply, one for each commit.
    Commits after the last function are accepted.
    """

    index, is_open = 0, True

    def __init__(self, *script):
        self.script, self.commits, self.producers, self.left = list(script), [], 0, 0

    async def ready(self):
        await asyncio.sleep(0)
        return self

    def useful(self):
        pass

    def leave(self, _connection, _hint, _why):
        self.left += 1

    def is_up(self):
        return False

    def close(self):
        pass

    def explain(self):
        return "a script"

    async def exchange(self, data):
        request = pb.Request.FromString(data)
        if request.WhichOneof("body") == "hello":
            self.producers += 1
            return pb.Reply(hello=pb.HelloReply(producer=self.producers))
        self.commits.append(request.commit)
        answer = self.script.pop(0)(request.commit) if self.script else accepted(request.commit)
        if answer is Lost:
            raise Lost()
        if answer is None:
            await asyncio.sleep(60)
        return answer


def lost(_commit):
    return Lost


def silent(_commit):
    return None


def refuses(code, message=""):
    return lambda _commit: pb.Reply(code=code, message=message)


class Commits(unittest.IsolatedAsyncioTestCase):
    def client(self, *script, **options):
        client = AsyncClient("ws://127.0.0.1:1", **options)
        self.broker = client.link = Broker(*script)
        self.broker.urls = [urlsplit("ws://127.0.0.1:1")]
        self.addAsyncCleanup(client.close)
        return client

    async def test_operations_that_come_together_share_a_commit(self):
        client = self.client()
        await asyncio.gather(*(client.schedule("q", key=str(number)) for number in range(1000)))
        self.assertLessEqual(len(self.broker.commits), 3)
        self.assertEqual([op.schedule.key for commit in self.broker.commits for op in commit.ops], [str(number).encode() for number in range(1000)])

    async def test_a_lost_commit_is_repeated_byte_for_byte(self):
        client = self.client(lost, lost)
        await client.schedule("q")
        first, *others = self.broker.commits
        self.assertEqual(others, [first, first])  # ONCE-1

    async def test_a_busy_broker_is_asked_again(self):
        client = self.client(refuses(pb.BUSY), refuses(pb.STOPPING), refuses(pb.NOT_PRIMARY))
        await client.schedule("q")
        self.assertEqual(({commit.sequence for commit in self.broker.commits}, self.broker.left), ({1}, 1))

    async def test_in_time_means_that_nothing_was_done_if_all_was_refused(self):
        client = self.client(*[refuses(pb.BUSY, "the disk is full")] * 1000)
        with self.assertRaisesRegex(tarry.Unavailable, "the disk is full"):
            await client.schedule("q", timeout=1)
        self.broker.script.clear()
        await client.schedule("q")
        self.assertEqual(self.broker.commits[-1].sequence, 1)  # the producer used the refused commit's sequence again

    async def test_what_is_unknown_is_called_so_and_its_producer_is_left(self):
        client = self.client(silent)
        with self.assertRaises(tarry.OutcomeUnknown):
            await client.schedule("q", timeout=1)
        await client.schedule("q")
        self.assertEqual([commit.producer for commit in self.broker.commits], [1, 2])

    async def test_a_forgotten_producer_is_replaced(self):
        client = self.client(refuses(pb.FORGOTTEN))
        await client.schedule("q")
        self.assertEqual([(commit.producer, commit.sequence) for commit in self.broker.commits], [(1, 1), (2, 1)])

    async def test_a_repeated_commit_that_is_forgotten_is_unknown(self):
        client = self.client(lost, refuses(pb.FORGOTTEN))
        with self.assertRaises(tarry.OutcomeUnknown):
            await client.schedule("q")

    async def test_one_that_spoils_the_request_does_not_hurt_the_others(self):
        def spoilt(commit):
            if any(op.schedule.key == b"bad" for op in commit.ops):
                return pb.Reply(code=pb.INVALID, message="no")
            return accepted(commit)
        client = self.client(*[spoilt] * 10)
        answers = await asyncio.gather(*(client.schedule("q", key=key) for key in ("good", "bad", "fine")), return_exceptions=True)
        self.assertEqual([type(answer) for answer in answers], [tarry.Result, tarry.Refused, tarry.Result])

    async def test_a_short_timeout_does_not_end_the_others_of_its_commit(self):
        client = self.client(silent)
        patient = asyncio.ensure_future(client.schedule("q", key="patient", timeout=30))
        with self.assertRaises(tarry.OutcomeUnknown):
            await client.schedule("q", key="short", timeout=1)
        self.assertTrue((await patient).ok)
        self.assertEqual(self.broker.commits[0], self.broker.commits[1])

    async def test_acks_do_not_wait_behind_refused_schedules(self):
        def full(commit):
            return pb.Reply(code=pb.BUSY) if commit.ops[0].WhichOneof("op") == "schedule" else accepted(commit)
        client = self.client(*[full] * 1000)
        waiting = asyncio.ensure_future(client.schedule("q", timeout=1))
        await client.settles.commit([pb.Op(ack=pb.Ack(id=1))], False, client.until())
        self.assertFalse(waiting.done())
        with self.assertRaises(tarry.Unavailable):
            await waiting

    async def test_an_atomic_commit_is_alone(self):
        client = self.client()
        await asyncio.gather(client.schedule("q"), client.schedule_many([tarry.Schedule("q"), tarry.Schedule("q")], atomic=True), client.schedule("q"))
        self.assertEqual([(commit.atomic, len(commit.ops)) for commit in self.broker.commits], [(False, 2), (True, 2)])


if __name__ == "__main__":
    unittest.main()
