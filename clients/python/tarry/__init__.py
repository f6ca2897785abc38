"""tarry: the client of Tarry, a durable delay broker. `Client` is for programs with threads, `AsyncClient` for asyncio. Both
schedule, cancel, move and get tasks, and both have workers.
"""
from .aio import AsyncClient
from .errors import (Aborted, Closed, Dead, Denied, Exists, NotDone, OutcomeUnknown, Refused, Release, Retry, StaleToken, TarryError,
                     Unavailable)
from .model import Result, Schedule, Task, View, trace_context
from .threads import Client

__all__ = ["Aborted", "AsyncClient", "Client", "Closed", "Dead", "Denied", "Exists", "NotDone", "OutcomeUnknown", "Refused", "Release",
           "Result", "Retry", "Schedule", "StaleToken", "Task", "TarryError", "Unavailable", "View", "trace_context"]
