"""threads.py: the client for programs with threads. One thread runs an event loop; any thread may make calls."""
import asyncio
import contextlib
import contextvars
import functools
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

from .aio import AsyncClient


class Client:
    """AsyncClient with blocking calls. A child process after a fork must not use it, but may make a new one."""

    def __init__(self, urls=None, **options):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tarry", daemon=True)
        self._thread.start()
        try:
            self._client = self._run(self._open(urls, options))
        except BaseException:
            self._end_loop()
            raise

    @staticmethod
    async def _open(urls, options):
        return AsyncClient(urls, **options)

    def _submit(self, coroutine):
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a blocking call inside a hook of the client would hang")
        # The coroutine runs in the trace context of the calling thread, because asyncio gives its new task a copy of
        # this context.
        context = contextvars.copy_context()
        future = asyncio.run_coroutine_threadsafe(_within(context, coroutine), self._loop)
        return future

    def _run(self, coroutine):
        return self._submit(coroutine).result()

    def schedule(self, queue, body=b"", **options):
        return self._run(self._client.schedule(queue, body, **options))

    def schedule_many(self, tasks, **options):
        return self._run(self._client.schedule_many(tasks, **options))

    def cancel(self, queue=None, key=None, **options):
        return self._run(self._client.cancel(queue, key, **options))

    def move(self, queue=None, key=None, **options):
        return self._run(self._client.move(queue, key, **options))

    def get(self, queue=None, key=None, **options):
        return self._run(self._client.get(queue, key, **options))

    def worker(self, queue, concurrency, handler, *, around=None, signals=True, **options):
        """Calls handler(task) for each due task in one of `concurrency` threads, until SIGTERM, SIGINT or `stop_workers`. A thread
        cannot be cancelled: if a handler runs longer than `drain` seconds after the stop, its task goes back although it still runs."""
        with ThreadPoolExecutor(concurrency, thread_name_prefix="tarry-handler") as pool, self._caught(signals):

            def handle(task):
                with around(task) if around is not None else contextlib.nullcontext():
                    handler(task)

            async def in_thread(task):
                await self._loop.run_in_executor(pool, functools.partial(contextvars.copy_context().run, handle, task))
            self._run(self._client.worker(queue, concurrency, in_thread, signals=False, **options))

    @contextlib.contextmanager
    def _caught(self, signals):
        if not signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, lambda *_: self.stop_workers()) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop_workers(self):
        self._loop.call_soon_threadsafe(self._client.stop_workers)

    def close(self):
        if self._thread.is_alive():
            self._run(self._client.close())
            self._end_loop()

    def _end_loop(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


async def _within(context, coroutine):
    return await asyncio.get_running_loop().create_task(coroutine, context=context)
