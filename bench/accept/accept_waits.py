"""How long a write waits when something happens to a pair. Three clients know both nodes and make one call after another. The
first uses HTTP, and after 0.1 s without an answer asks the other node ("any client": it measures how long the pair answers no write). The
second uses libtarry. The third uses HTTP, waits for answers and obeys Retry-After. For each event and client: the longest call,
median and maximum of TIMES, in ms. The pair has tarryd's default times; its hosts are network namespaces.

./dev bench accept_waits [COORDINATOR [TIMES [EVENT,… [OPTION…]]]]      (zookeeper and etcd, 12 times each event)

An event passes if the median of "any client" is within its limit in EVENTS.
"""
import http.client
import json
import os
import sys
import threading
import time

from accept import Verdict, quantile
from pair_at_work import Producer
from scene import Scene, netns  # importing pair_at_work adds the path of this module

ALL = ("zookeeper", "etcd")
CALLS_AROUND = 20
WAIT_S = 60
HELD_S = 3.5
# Event → (its action, limit of the median in ms).
EVENTS = {
    "kill follower": 300, "stop follower": 2000, "lose follower": 2000, "end follower": 300,
    "kill leader": 300, "stop leader": 1000, "lose leader": 1000, "end leader": 300, "hang leader": 2000,
    "kill coordinator": 300, "stop coordinator": 300,
}


class Story:
    def tell(self, line):
        if os.environ.get("WAITS_STORY"):
            print(f"{time.time() % 1000:.3f} {line}", file=sys.stderr, flush=True)


class Web(threading.Thread):
    """Makes calls one after another, each repeated until it is answered with 200 or 201. `calls` is as in Producer."""

    timeout_s = 15

    def __init__(self, urls, story):
        super().__init__(daemon=True)
        self.story = story
        self.hosts = [url.removeprefix("ws://") for url in urls]
        self.calls, self.running = [], True
        self.connection, self.at = None, 0
        self.start()

    def other(self):
        if self.connection:
            self.connection.close()
        self.connection, self.at = None, 1 - self.at

    def once(self):
        """Returns the seconds to wait before the next try; None: the call is done."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.hosts[self.at], timeout=self.timeout_s)
            self.connection.request("POST", "/v1/queues/web/tasks", json.dumps({"delay_ms": 3600000}), {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.story.tell(f"web {self.at}: {error!r}")
            self.other()
            return 0.01
        if answer.status in (200, 201):
            return None
        self.story.tell(f"web {self.at}: {answer.status} {answer.headers.get('Retry-After')} {text[:200]}")
        if answer.status == 503:
            return float(answer.headers["Retry-After"])
        assert answer.status == 421, (answer.status, text)
        self.other()
        return 0.01

    def run(self):
        while self.running:
            asked_ms = time.time() * 1000
            while (wait_s := self.once()) is not None and self.running:
                time.sleep(wait_s)
            self.calls.append((asked_ms, time.time() * 1000))

    longest_ms = Producer.longest_ms

    def end(self):
        self.running = False
        self.join(WAIT_S)


class Prober(Web):
    """A client that waits 0.1 s for an answer and then asks the other node: it measures how long the pair as a whole answers no
    write."""

    timeout_s = 0.1

    def once(self):
        wait_s = super().once()
        return min(wait_s, 0.01) if wait_s is not None else None


def strike(scene, what, name):
    if what == "kill":
        scene.kill(name)
    elif what == "stop":
        scene.freeze(name)
    elif what == "lose":
        scene.isolate(name)
        scene.kill(name)
    elif what == "end":
        scene.stop(name)
    elif what == "hang":
        scene.hang_disk(name)


def mend(scene, what, name):
    if what == "stop":
        scene.thaw(name)
    elif what == "lose":
        scene.network.heal()
    elif what == "end":
        scene.wait_gone(name)
    elif what == "hang":
        scene.free_disk(name)
    scene.launch(name)


def strike_server(scene, what):
    (scene.kill_server if what == "kill" else scene.freeze_server)()


def mend_server(scene, what):
    scene.thaw_server() if what == "stop" else scene.start_server()
    scene.server.wait_ready()


def wait(what, check):
    end = time.monotonic() + WAIT_S
    while not check():
        assert time.monotonic() < end, f"{what}: not within {WAIT_S} s"
        time.sleep(0.01)


def play(scene, clients, event):
    """Returns ms of each client's longest call that was in flight or began during the event."""
    what, target = event.split()
    leader, follower = scene.roles()
    time.sleep(0.3)
    since = [len(client.calls) for client in clients]
    wait("calls before", lambda: all(len(client.calls) > before + CALLS_AROUND for client, before in zip(clients, since)))
    since = [len(client.calls) for client in clients]
    scene.story.tell(f"==== {event}")
    if target == "coordinator":
        strike_server(scene, what)
    else:
        strike(scene, what, leader if target == "leader" else follower)
    time.sleep(HELD_S)
    if target == "coordinator":  # the coordinator's return too
        mend_server(scene, what)
        time.sleep(HELD_S)
    wait("calls after", lambda: all(len(client.calls) > before + CALLS_AROUND for client, before in zip(clients, since)))
    times = [client.longest_ms(before) for client, before in zip(clients, since)]
    if target != "coordinator":
        mend(scene, what, leader if target == "leader" else follower)
    return times


def measure(coordinator, times, events, options, verdict):
    scene = Scene(Story(), options, lack=netns.missing, coordinator=coordinator)
    if scene.server is None or not scene.can_cut:
        sys.exit(f"not here: {scene.lacks[-1]}")
    try:
        for name in scene.brokers:
            scene.launch(name)
        scene.roles()
        urls = [broker.listen for broker in scene.brokers.values()]
        clients = [Prober(urls, scene.story), Producer(scene.clients), Web(urls, scene.story)]
        for event in events:
            figures = []
            for _ in range(times):
                figures.append(play(scene, clients, event))
                print(f"     {coordinator} {event}: " + ", ".join(f"{ms:.0f}" for ms in figures[-1]), flush=True)
            told = "; ".join(f"{client} {quantile(ms, 0.5):.0f}, {max(ms):.0f}" for client, ms in zip(("any client", "libtarry", "HTTP"), zip(*figures)))
            verdict.check(quantile([item[0] for item in figures], 0.5) <= EVENTS[event],
                          f"{coordinator}, {event}, {times} times: the longest call, median and worst in ms: {told}")
        for client in clients:
            client.end()
    finally:
        scene.close()


def main():
    if missing := netns.missing():
        sys.exit(missing)
    words = sys.argv[1:]
    coordinators = ALL if not words or words[0] == "all" else (words[0],)
    times = int(words[1]) if len(words) > 1 else 12
    events = list(EVENTS) if len(words) < 3 or words[2] == "all" else words[2].split(",")
    verdict = Verdict()
    for coordinator in coordinators:
        measure(coordinator, times, events, words[3:], verdict)
    verdict.exit()


if __name__ == "__main__":
    assert os.environ.get("TARRY_BUILD_ROOT"), "run by ./dev bench accept_waits"
    main()
