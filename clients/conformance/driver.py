"""driver.py: the driver of clients/python (README.md). `driver.py threads` uses Client, otherwise AsyncClient."""
import asyncio
import json
import os
import sys
import threading

import tarry

OUT = threading.Lock()
TIMEOUT_S = int(os.environ.get("TARRY_TEST_TIMEOUT_MS", 30000)) / 1000


def tell(**what):
    with OUT:
        print(json.dumps(what), flush=True)


def measured(name, value, labels):
    if name == "tarry.worker.tasks":
        task = labels["task"]
        tell(event="settled", name=task.attributes.get("name"), result=labels["result"], deliveries=task.deliveries)


def seconds(call, name):
    return call[name + "_ms"] / 1000 if name + "_ms" in call else None


def options(call):
    chosen = {name: call[name] for name in ("key", "attributes", "priority", "on_conflict") if name in call}
    return {**chosen, "delay": seconds(call, "delay"), "at": seconds(call, "at"), "expires": seconds(call, "expires")}


def plain(result):
    return {"code": result.code, "outcome": result.outcome, "task": str(result.id), "due_ms": result.due_ms, "deliveries": result.deliveries}


def plan(task):
    """Handles a task: returns the ms to sleep and the exception to raise."""
    tell(event="task", name=task.attributes.get("name"), key=task.key, attempt=task.attempt, deliveries=task.deliveries, due_ms=task.due_ms,
         delivered_ms=task.delivered_ms, attributes=task.attributes)
    verb, *words = task.body.decode().split(" ")
    if verb == "sleep":
        return int(words[0]), None
    if verb == "fail":
        return 0, RuntimeError(" ".join(words))
    if verb == "dead":
        return 0, tarry.Dead(" ".join(words))
    if verb == "fail-first" and task.attempt <= int(words[0]):
        return 0, RuntimeError("not yet")
    if verb == "retry-first" and task.attempt <= int(words[0]):
        return 0, tarry.Retry("not yet", delay=int(words[1]) / 1000)
    if verb == "release-first" and task.deliveries <= int(words[0]):
        return 0, tarry.Release(delay=int(words[1]) / 1000)
    return 0, None


class Driver:
    """The driver's calls on AsyncClient."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.client = tarry.AsyncClient(measure=measured, timeout=TIMEOUT_S)

    async def handle(self, task):
        sleep_ms, error = plan(task)
        await asyncio.sleep(sleep_ms / 1000)
        verb, *words = task.body.decode().split(" ")
        if verb == "gate":
            await self.gate.wait()
        elif verb == "chain":
            await self.client.schedule(words[0], "ack", attributes={"name": words[1]})
        if error is not None:
            raise error

    async def call(self, call):
        kind, client = call["call"], self.client
        if kind == "schedule":
            return plain(await client.schedule(call["queue"], call.get("body", ""), **options(call)))
        if kind == "schedule_many":
            tasks = [tarry.Schedule(task["queue"], task.get("body", ""), **options(task)) for task in call["tasks"]]
            return {"results": [plain(result) for result in await client.schedule_many(tasks, atomic=call.get("atomic", False))]}
        if kind == "cancel":
            return plain(await client.cancel(call["queue"], call["key"], withdraw=call.get("withdraw", False)))
        if kind == "move":
            return plain(await client.move(call["queue"], call["key"], delay=seconds(call, "delay"), at=seconds(call, "at")))
        if kind == "get":
            view = await client.get(call["queue"], call["key"])
            if view is None:
                return {"state": "unknown"}
            return {"state": view.state, "body": view.body.decode(), "attributes": view.attributes, "reason": view.reason, "due_ms": view.due_ms,
                    "deliveries": view.deliveries}
        if kind == "worker":
            await client.worker(call["queue"], call["concurrency"], self.handle, lease=call.get("lease_ms", 0) / 1000,
                                drain=call.get("drain_ms", 30000) / 1000)
            return {}
        if kind == "open":
            self.open()
            return {}
        raise ValueError(f"unknown call {kind}")

    def open(self):
        self.gate.set()

    async def answer(self, call):
        try:
            tell(id=call["id"], **await self.call(call))
        except tarry.TarryError as error:
            result = getattr(error, "result", None)
            tell(id=call["id"], code=error.code, message=str(error), outcome=result.outcome if result else "")

    async def run(self):
        reader = asyncio.StreamReader(limit=1 << 24)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        calls = set()
        while line := await reader.readline():
            answering = asyncio.ensure_future(self.answer(json.loads(line)))
            calls.add(answering)
            answering.add_done_callback(calls.discard)
        await self.client.close()
        if calls:
            await asyncio.wait(calls)


class Threads:
    """The driver's calls on the class Client. Each call has a thread, because calls block. The worker runs in the main thread,
    which receives signals.
    """

    def __init__(self):
        self.gate = threading.Event()
        self.client = tarry.Client(measure=measured, timeout=TIMEOUT_S)
        self.working = threading.Event()
        self.worker = None

    def handle(self, task):
        sleep_ms, error = plan(task)
        verb, *words = task.body.decode().split(" ")
        if sleep_ms:
            threading.Event().wait(sleep_ms / 1000)
        if verb == "gate":
            self.gate.wait()
        elif verb == "chain":
            self.client.schedule(words[0], "ack", attributes={"name": words[1]})
        if error is not None:
            raise error

    def call(self, call):
        kind, client = call["call"], self.client
        if kind == "schedule":
            return plain(client.schedule(call["queue"], call.get("body", ""), **options(call)))
        if kind == "schedule_many":
            tasks = [tarry.Schedule(task["queue"], task.get("body", ""), **options(task)) for task in call["tasks"]]
            return {"results": [plain(result) for result in client.schedule_many(tasks, atomic=call.get("atomic", False))]}
        if kind == "cancel":
            return plain(client.cancel(call["queue"], call["key"], withdraw=call.get("withdraw", False)))
        if kind == "move":
            return plain(client.move(call["queue"], call["key"], delay=seconds(call, "delay"), at=seconds(call, "at")))
        view = client.get(call["queue"], call["key"])
        if view is None:
            return {"state": "unknown"}
        return {"state": view.state, "body": view.body.decode(), "attributes": view.attributes, "reason": view.reason, "due_ms": view.due_ms,
                "deliveries": view.deliveries}

    def answer(self, call):
        try:
            tell(id=call["id"], **self.call(call))
        except tarry.TarryError as error:
            result = getattr(error, "result", None)
            tell(id=call["id"], code=error.code, message=str(error), outcome=result.outcome if result else "")

    def read(self):
        for line in sys.stdin:
            call = json.loads(line)
            if call["call"] == "worker":
                self.worker = call
                self.working.set()
            elif call["call"] == "open":
                self.gate.set()
                tell(id=call["id"])
            else:
                threading.Thread(target=self.answer, args=(call,), daemon=True).start()
        self.client.stop_workers()
        self.working.set()

    def run(self):
        threading.Thread(target=self.read, daemon=True).start()
        self.working.wait()
        if self.worker is not None:
            call = self.worker
            self.client.worker(call["queue"], call["concurrency"], self.handle, lease=call.get("lease_ms", 0) / 1000,
                               drain=call.get("drain_ms", 30000) / 1000)
            tell(id=call["id"])
        self.client.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["threads"]:
        Threads().run()
    else:
        async def main():
            await Driver().run()
        asyncio.run(main())
