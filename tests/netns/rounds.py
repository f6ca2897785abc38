"""rounds.py: a pair of real processes, with a real network and a real ZooKeeper, in rounds of trouble. A ledger notes what the
clients sent and received, and checks it.

    round:    choose one or two troubles, cause them, wait, repair them; then one node leads, both nodes are in sync, the clients
              are connected again, and the ledger has no complaint
    chapter:  some rounds with the same clients; then every reply is awaited, every due task is consumed, and the ledger checks all;
              both directories are verified and compared; quarantined tails must not contain acknowledged facts

What must be true: nothing acknowledged is lost; nothing is delivered early, or after an acknowledged ack or cancel; every reply
about the past is true; nothing takes effect twice; tokens grow (FENCE-1); both nodes have the same log and state (F-31). When the
trouble ends, the pair recovers without help.

Runs with the same seed have the same troubles, but at other moments. A failed round prints its story: every event, and all
messages of both brokers, with times.

rounds.py [--rounds N] [--seed S] …        (--help lists all options)
"""
import argparse
import os
import random
import sys
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name) for name in ("e2e", "crash")]
from harness import now_ms  # noqa: E402  (the path above)
from ledger import Ledger  # noqa: E402
from load import Load  # noqa: E402
from scene import CLIENT_TIMEOUT, COORDINATORS, NAMES, QUICK, SMALL, Scene, Unsettled  # noqa: E402
from trouble import NO_REASONS, NOT_WITH_RECORD, RECORD, Trouble, known  # noqa: E402

HOLD_S = ((0.1, 0.6), (0.9, 3.0))  # two ranges in seconds: shorter than a failover takes, and longer than that
BOTH = 0.35                        # probability of two troubles
CLIENTS_BACK_S = 60
STILL_LOOK_S = 0.02
STILL_S = 0.2                      # a machine that is paused for longer may look like a dead leader (QUICK, scene.py)
STORY_LINES = 160
VIOLATIONS_SHOWN = 20
CHECKS = ("lost", "early", "after_ack", "after_cancel", "untrue", "twice", "shrunk")
QUICK_CHECKS = ("early", "after_ack", "after_cancel", "twice", "shrunk")


class Story:
    """List of the events of a run, each with its time in seconds since the start."""

    def __init__(self, path):
        self.start = time.monotonic()
        self.lines = []
        self.file = open(path, "w", encoding="utf-8") if path else None

    def tell(self, line):
        self.lines.append(f"[{time.monotonic() - self.start:8.3f}] {line}")
        if self.file:
            print(self.lines[-1], file=self.file, flush=True)

    def begin(self):
        """Only the last two rounds are printed."""
        del self.lines[:-4 * STORY_LINES]

    def told(self):
        return "\n".join(self.lines[-STORY_LINES:])


class Stillness:
    """Measures how long this machine has delayed a waiting thread. Brokers were delayed as long, so messages that they missed
    or sent late may be the machine's fault.
    """

    def __init__(self):
        self.longest_s = 0.0
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            before = time.monotonic()
            time.sleep(STILL_LOOK_S)
            self.longest_s = max(self.longest_s, time.monotonic() - before - STILL_LOOK_S)

    def take(self):
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s


class Chapter:
    """Clients that work during some rounds, and their ledger."""

    def __init__(self, scene, number, seed, pace_s):
        self.scene, self.number = scene, number
        self.begun_ms = now_ms()
        self.load = Load(scene.clients, f"{seed}-{number}", hand_every=24, prefix=f"c{number}-", pause_s=pace_s,
                         timeout=CLIENT_TIMEOUT)
        self.judged = 0  # number of deliveries that were judged

    @property
    def ledger(self):
        return self.load.ledger

    def complaints(self):
        """Returns complaints about the deliveries since the last round. `finish` checks all deliveries."""
        part = Ledger()
        part.__dict__.update(self.ledger.__dict__)
        count = len(self.ledger.deliveries)
        part.deliveries = self.ledger.deliveries[self.judged:count]
        self.judged = count
        return self.load.deaths + [f"{name}: {what}" for name in QUICK_CHECKS for what in getattr(part, name)()]

    def wait_back(self):
        """Waits until clients that were cut off have found the leader again: a new request has its reply."""
        asked = self.load.count
        def are_back():
            if self.load.deaths:
                raise Unsettled(f"clients: {self.load.deaths}")
            return self.load.answered["schedule"] > asked
        self.scene.wait("clients are back", are_back, CLIENTS_BACK_S)

    def finish(self):
        """Waits for every reply and consumes all tasks. Returns complaints about all of it."""
        statuses, stats = self.load.finish()
        wrong = [f"{name}: {self.load.answered[name]} answers to {sent}" for name, sent in
                 (("schedule", self.load.count), ("cancel", self.load.cancels_sent), ("move", self.load.moves_sent))
                 if self.load.answered[name] != sent]
        # Acks by hand may be so slow that a task uses up its attempts.
        wrong += [f"unsettled: {queue}" for queue in stats if queue["pending"] or queue["ready"] or queue["in_flight"]
                  or (queue["dead"] and queue["name"] != "hand")]
        wrong += [f"stream {name}: {status}" for name, status in zip(("schedule", "cancel", "move"), statuses) if status != 0
                  and name == "schedule"]
        wrong += [f"{name}: {what}" for name in CHECKS for what in getattr(self.ledger, name)()]
        for stream in self.scene.clients.streams:
            stream.kill()
        self.scene.clients.streams.clear()
        return wrong


class Rounds:
    """`only`: parts of names, by which the troubles to choose from are selected. `pace_s`: time between two groups of a
    client's requests.
    """

    def __init__(self, scene, seed, chapter_rounds, only, pace_s):
        self.scene, self.seed, self.chapter_rounds, self.only, self.pace_s = scene, seed, chapter_rounds, only, pace_s
        self.drawn = {}
        self.stillness, self.judged, self.unjudged = Stillness(), 0, 0  # judged, unjudged: rounds without a reason for a takeover, in which an unneeded takeover was checked for, or not
        self.done = self.deliveries = self.scheduled = self.acks = self.tails = 0
        self.seen_tails = set()

    def run(self, count):
        """Returns the violations; empty if there are none."""
        for name in self.scene.brokers:
            self.scene.launch(name)
        self.scene.roles()
        number = 0
        while number < count:
            chapter = Chapter(self.scene, number, self.seed, self.pace_s)
            for _ in range(min(self.chapter_rounds, count - number)):
                number += 1
                if wrong := self.play(number, chapter):
                    return wrong
                self.done += 1
            if wrong := self.end(chapter):
                return wrong
        return []

    # ---- a round

    def draw(self, rng):
        """Chooses one trouble, or two that can be combined. Returns their names."""
        names = [name for name in known(self.scene, *NAMES) if not self.only or any(part in name for part in self.only)]
        chosen = rng.sample(names, 2 if len(names) > 1 and rng.random() < BOTH else 1)
        if any(name in RECORD for name in chosen):
            chosen = [name for name in chosen if name == chosen[0] or not {name, chosen[0]} <= NOT_WITH_RECORD]
        for name in chosen:
            self.drawn[name] = self.drawn.get(name, 0) + 1
        self.scene.is_alone = len(chosen) == 1
        return chosen

    def play(self, number, chapter):
        rng = random.Random(f"{self.seed}-{number}")
        story, started = self.scene.story, time.monotonic()
        story.begin()
        self.stillness.take()
        names = "at its beginning"
        try:
            chosen = self.draw(rng)
            names = " + ".join(chosen)
            if "record rolled back" in chosen:
                self.scene.age_record()
            leader, follower = self.scene.roles()
            epoch = self.scene.epoch()
            troubles = [Trouble(self.scene, name, known(self.scene, leader, follower)[name], rng) for name in chosen]
            story.tell(f"==== round {number}: {leader} leads: {names}")
            for trouble in troubles:
                trouble.strike()
                self.scene.pause(rng.choice((0, 0, rng.uniform(0, 1.5))))
            self.scene.pause(rng.uniform(*rng.choice(HOLD_S)))
            for trouble in sorted(rng.sample(troubles, len(troubles)), key=lambda trouble: trouble.name in RECORD):
                trouble.mend()  # the pair's record comes last: an operator writes it once all else works
            story.tell("---- mended")
            leader, _ = self.scene.roles()
            settled = time.monotonic()
            chapter.wait_back()
        except Unsettled as unsettled:
            return [f"round {number}, {names}: {unsettled}"]
        story.tell(f"---- {leader} leads, clients are back")
        if names in NO_REASONS and not self.may_take_over(epoch):
            return [f"round {number}: a healthy leader was deposed, for {names}"]
        print(f"# round {number}: {time.monotonic() - started:.1f} s (settled after {settled - started:.1f}), {names}: {leader} leads, "
              f"{len(chapter.ledger.schedules)} scheduled", flush=True)
        return [f"round {number}: {what}" for what in chapter.complaints()]

    def may_take_over(self, epoch):
        """Checks that no node took over, unless the machine gave the leader no time to show that it is alive."""
        was_still = self.stillness.take() > STILL_S
        self.unjudged += was_still
        self.judged += not was_still
        return was_still or self.scene.epoch() == epoch

    # ---- the end of a chapter

    def end(self, chapter):
        story = self.scene.story
        story.tell("==== the chapter ends")
        wrong = chapter.finish()
        ledger = chapter.ledger
        self.scheduled += len(ledger.schedules)
        self.deliveries += len(ledger.deliveries)
        self.acks += len(ledger.acks)
        if not wrong:
            try:
                self.scene.wait_equal()
                wrong = self.compare(chapter)
                for name in self.scene.brokers:
                    self.scene.launch(name)
                self.scene.roles()
            except Unsettled as unsettled:
                wrong.append(str(unsettled))
        return [f"after round {self.done}: {what}" for what in wrong]

    def compare(self, chapter):
        """Stops both nodes at the same point by force, so that only their disks are examined."""
        for name in self.scene.brokers:
            self.scene.freeze(name)
        for name in self.scene.brokers:
            self.scene.kill(name)
        paths = [broker.data for broker in self.scene.brokers.values()]
        wrong, aside = [], {}
        for path in paths:
            answer = self.scene.tool("verify", path)
            if answer.status == 0:
                aside |= self.read_tails(path, answer.one["quarantined"], chapter)
            else:
                wrong.append(f"verify {path}: {answer}")
        answer = self.scene.tool("verify", paths[0], "--against", paths[1])
        if answer.status != 0:
            wrong.append(f"the directories differ: {answer}")
        return wrong + self.judge_tails(paths, aside, chapter)

    def read_tails(self, path, tails, chapter):
        """Finds acknowledged facts in quarantined tails, which were cut off the log. Returns a dict from fact to the name of
        its tail.
        """
        found = {}
        for name in [tail["name"] for tail in tails if (path, tail["name"]) not in self.seen_tails]:
            self.seen_tails.add((path, name))
            self.tails += 1
            told = self.scene.tool("audit", "--data", path, "--quarantined", name)
            found |= dict.fromkeys(chapter.ledger.claims(told.objects), f"{name} of {path}")
        return found

    def judge_tails(self, paths, aside, chapter):
        """Complains about acknowledged facts in tails that neither log has: each must have been decided again. The log of a
        node that began with a snapshot may lack them.
        """
        missing = set(aside)
        for path in paths:
            if missing:
                missing -= chapter.ledger.claims(self.scene.tool("audit", "--data", path, "--from", chapter.begun_ms - 60_000).objects)
        return [f"{aside[claim]} holds what was acknowledged: {claim}" for claim in sorted(missing)]

    def summary(self):
        told = ", ".join(f"{name} {times}" for name, times in sorted(self.drawn.items()))
        return (f"rounds={self.done} scheduled={self.scheduled} deliveries={self.deliveries} acked_by_hand={self.acks} "
                f"quarantined={self.tails} no_reason_to_take_over={self.judged} machine_stood_still={self.unjudged}\n"
                f"troubles: {told}")


class Result:
    """The result of some rounds."""

    def __init__(self, wrong, told, summary, lacks):
        self.wrong = wrong      # violations
        self.told = told        # the story of the last rounds
        self.summary = summary
        self.lacks = lacks      # what is missing on this machine


def play(count, seed, chapter_rounds=10, only=(), is_loopback=False, path=None, weakness=None, more=(), coordinator="zookeeper",
         pace_s=0.1):
    """Plays `count` rounds. `path`: file for all events, or None. `weakness`: passed to Scene. `more`: options of both
    brokers.
    """
    story = Story(path)
    options = {"lack": lambda: "asked for the loopback device"} if is_loopback else {}
    scene = Scene(story, (*QUICK, *more), weakness=weakness, coordinator=coordinator, **options)
    rounds = Rounds(scene, seed, chapter_rounds, only, pace_s)
    try:
        wrong = rounds.run(count)
    finally:
        scene.close()
    return Result(wrong, story.told(), rounds.summary(), scene.lacks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 24))
    parser.add_argument("--chapter", type=int, default=10, help="rounds with the same clients")
    parser.add_argument("--only", default="", help="draw only troubles whose names have one of these, separated by commas")
    parser.add_argument("--loopback", action="store_true", help="no network namespaces: nothing can be cut")
    parser.add_argument("--small", action="store_true", help="small segments, which are soon retired")
    parser.add_argument("--also", default="", metavar="OPTIONS", help="more options for both brokers: --also='--solo-after never'")
    parser.add_argument("--weak", metavar="NAME", help="both brokers break this rule (tests/sim/bugs/pair.bug): the rounds must fail; needs "
                        "ninja -C build tests/netns/tarryd_weak")
    parser.add_argument("--coordinator", default="zookeeper", choices=COORDINATORS)
    parser.add_argument("--pace", type=float, default=0.1, metavar="SECONDS", help="between two handfuls of a client's requests: more "
                        "where several run beside each other")
    parser.add_argument("--story", metavar="FILE", help="tells every round there, not only one that fails")
    options = parser.parse_args()
    started = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    only = [part for part in options.only.split(",") if part]
    result = play(options.rounds, options.seed, options.chapter, only, options.loopback, options.story, options.weak,
                  [*(SMALL if options.small else ()), *options.also.split()], options.coordinator, options.pace)
    for why in result.lacks:
        print(f"LACKING: {why}")
    if result.wrong:
        print(result.told)
    for what in result.wrong[:VIOLATIONS_SHOWN]:
        print(f"VIOLATION (seed {options.seed}): {what}")
    print(f"{result.summary}\nseed={options.seed} seconds={time.monotonic() - started:.0f} violations={len(result.wrong)}")
    sys.exit(1 if result.wrong else 0)


if __name__ == "__main__":
    main()
