"""trouble.py: the troubles of a pair. Each trouble is a generator: it causes the trouble, yields, and repairs it. `leader`:
the node that leads when the trouble begins. Two troubles may overlap, so a repair tolerates a broker that the other trouble
has killed or started again. All random choices use the round's own random numbers.
"""
import itertools

from scene import Unsettled

# Names of troubles that alone are no reason to depose a healthy leader: failures of the follower or the coordinator
# (F-13, F-30); a stall of both nodes (F-31a); one cut link of three (F-31c); a lost or old record of the pair (F-31b).
NO_REASONS = {
    "stall follower", "stall both", "SIGSTOP follower", "SIGKILL follower", "SIGKILL follower and start", "SIGTERM follower",
    "isolate follower", "slow follower", "hung disk follower", "SIGKILL coordinator", "SIGSTOP coordinator", "isolate zk", "slow zk",
    "cut leader = follower", "cut leader > follower", "cut follower > leader", "cut leader = zk", "cut leader > zk", "cut zk > leader",
    "cut follower = zk", "cut follower > zk", "cut zk > follower", "cut clients = leader", "cut clients > leader",
    "cut leader > clients"}
RECORD = {"record lost", "record rolled back"}
# Troubles whose repair needs a running coordinator; only one of them at a time.
NOT_WITH_RECORD = RECORD | {"SIGKILL coordinator", "SIGSTOP coordinator", "isolate zk", "slow zk"}
HUNG_LEADS_S = 20  # LEADER_DISK_HUNG_MS (broker/replication/leader_half.h), and the time of a failover on a busy machine


def kill(scene, name, _rng):
    scene.kill(name)
    yield
    scene.launch(name)


def kill_and_start(scene, name, _rng):
    """The broker is started again before the other node counts it as silent."""
    scene.kill(name)
    scene.launch(name)
    yield


def kill_both(scene, first, second, rng):
    scene.kill(first)
    scene.pause(rng.choice((0, 0.05, 0.4, 1.2)))
    scene.kill(second)
    yield
    for name in rng.sample((first, second), 2):
        scene.launch(name)
        scene.pause(rng.choice((0, 0, 0.3, 1.5)))


def freeze(scene, name, _rng):
    scene.freeze(name)
    yield
    scene.thaw(name)


def stall(scene, name, rng):
    """Pauses the node repeatedly, sometimes for longer than the other node waits."""
    for _ in range(rng.randrange(2, 6)):
        scene.freeze(name)
        scene.pause(rng.choice((0.1, 0.3, 0.6, 1.1)))
        scene.thaw(name)
        scene.pause(rng.uniform(0, 0.5))
    yield


def stall_both(scene, names, rng):
    """Pauses both nodes, as if the host of both virtual machines were paused."""
    for name in names:
        scene.freeze(name)
    scene.pause(rng.choice((0.6, 1.2, 2.5)))
    for name in rng.sample(names, 2):
        scene.thaw(name)
    scene.pause(1)  # for nodes that take the pause for the other's silence
    yield


def hang_disk(scene, name, _rng):
    scene.hang_disk(name)
    yield
    scene.free_disk(name)


def hang_disk_for_long(scene, name, other, _rng):
    """F-31a: the leader's disk hangs, so the in-sync follower must take over. The takeover is not checked if another trouble
    happens at the same time.
    """
    epoch = scene.epoch() if scene.is_alone else 0
    scene.hang_disk(name)
    yield
    if scene.is_alone:
        scene.wait(f"{other} leads, for {name}'s disk hangs", lambda: scene.leaders().get(other, 0) > epoch, HUNG_LEADS_S)
    scene.free_disk(name)


def break_record(scene, strike, _rng):
    """F-31b: the pair's record is broken. The leader continues, no node claims leadership because of the broken record, and an
    operator writes the record again.
    """
    before = scene.leaders()
    strike()
    yield
    if scene.is_alone and scene.leaders() != before:
        raise Unsettled(f"a healthy leader was deposed, for its record: {before}, {scene.leaders()}")
    scene.write_record()


def stop(scene, name, _rng):
    """Stops a broker as an operator does it. A broker that was killed before is started again by the trouble that killed it."""
    is_struck = scene.stop(name)
    yield
    if is_struck:
        scene.wait_gone(name)
        scene.launch(name)


def hand_over(scene, _rng):
    scene.demote()
    yield


def cut(scene, one, other, _rng):
    scene.cut(one, other)
    yield
    scene.heal(one, other)


def cut_one_way(scene, source, sink, _rng):
    scene.cut_one_way(source, sink)
    yield
    scene.heal(source, sink)


def isolate(scene, name, _rng):
    scene.isolate(name)
    yield
    for other in scene.network.names:
        if other != name:
            scene.heal(name, other)


def slow(scene, name, rng):
    scene.slow(name, rng.choice((300, 1000, 4000)))
    yield
    scene.slow(name, None)


def kill_server(scene, _rng):
    scene.kill_server()
    yield
    scene.start_server()


def freeze_server(scene, _rng):
    scene.freeze_server()
    yield
    scene.thaw_server()


def known(scene, leader, follower):
    """Returns name → trouble for the troubles that are possible in this scene."""
    troubles = {
        "SIGKILL leader": (kill, leader), "SIGKILL follower": (kill, follower),
        "SIGKILL leader and start": (kill_and_start, leader), "SIGKILL follower and start": (kill_and_start, follower),
        "SIGKILL leader, follower": (kill_both, leader, follower), "SIGKILL follower, leader": (kill_both, follower, leader),
        "SIGSTOP leader": (freeze, leader), "SIGSTOP follower": (freeze, follower),
        "stall leader": (stall, leader), "stall follower": (stall, follower), "stall both": (stall_both, [leader, follower]),
        "hung disk leader": (hang_disk, leader), "hung disk follower": (hang_disk, follower),
        "hung disk leader, long": (hang_disk_for_long, leader, follower),
        "SIGTERM leader": (stop, leader), "SIGTERM follower": (stop, follower), "hand over": (hand_over,),
    }
    if scene.server is not None:
        troubles |= {"SIGKILL coordinator": (kill_server,), "SIGSTOP coordinator": (freeze_server,),
                     "record lost": (break_record, scene.lose_record),
                     "record rolled back": (break_record, scene.put_record_back)}
    if scene.can_cut:
        hosts = {"leader": leader, "follower": follower, "zk": "zk", "clients": "clients"}
        for one, other in (("leader", "follower"), ("leader", "zk"), ("follower", "zk"), ("clients", "leader")):
            troubles[f"cut {one} = {other}"] = (cut, hosts[one], hosts[other])
            for source, sink in itertools.permutations((one, other)):
                troubles[f"cut {source} > {sink}"] = (cut_one_way, hosts[source], hosts[sink])
        for name in ("leader", "follower", "zk"):
            troubles[f"isolate {name}"] = (isolate, hosts[name])
            troubles[f"slow {name}"] = (slow, hosts[name])
    return troubles


class Trouble:
    """A trouble that was chosen for this round."""

    def __init__(self, scene, name, what, rng):
        self.name = name
        self.steps = what[0](scene, *what[1:], rng)

    def strike(self):
        next(self.steps)

    def mend(self):
        next(self.steps, None)
