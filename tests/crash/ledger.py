"""ledger.py: records the broker's replies and the deliveries, outside of Tarry, and compares them. The ledger trusts only
replies that arrived. All times are CLOCK_REALTIME milliseconds of one machine, so the broker's `delivered_ms` and the
arrival times in the test can be compared. Not thread-safe, except `list.append`, which CPython makes atomic.
"""

import collections


class Ledger:
    def __init__(self):
        self.schedules = {}   # key → {"id", "due_ms"} of the reply
        self.moves = {}       # key → [(arrived_ms, due_ms)] of "moved" replies, in order of arrival
        self.cancels = {}     # key → [(arrived_ms, reply)]
        self.acks = {}        # id → arrived_ms of the "acked" reply to an ack by hand
        self.deliveries = []  # delivery objects, with _arrived_ms
        self.odd = []         # replies that can never be right
        self.open = {}        # key → request without a reply: it may have been carried out
        self.moving = collections.Counter()  # key → number of moves without a known outcome; only moves by clients that also consume
        self.jumped = False   # the broker's clock may jump: then it forgets outcomes, and producers that were idle for a day
        self.forgotten = 0    # schedules that were answered `forgotten`: their outcome is unknown
        self.may_have_ended = set()  # keys of cancels that were answered `forgotten`

    def ask(self, what, key):
        self.open.setdefault(key, set()).add(what)

    def answered(self, what, key):
        self.open[key].discard(what)

    # ---- facts from the replies

    def is_forgotten(self, answer):
        """Returns whether the broker replied that it has forgotten the producer. A producer id is valid for 24 idle hours
        (proto/WIRE.md), so this reply is right only after a jump of the clock. The request may be a repetition of one that
        took effect before the jump.
        """
        if answer.get("code") != "forgotten":
            return False
        if not self.jumped:
            self.odd.append(f"a producer in use was forgotten: {answer}")
        return self.jumped

    def scheduled(self, answer):
        if answer["result"] == "scheduled":
            self.schedules[answer["key"]] = answer
        elif self.is_forgotten(answer):
            self.forgotten += 1
        else:
            self.odd.append(f"schedule of a fresh key was answered {answer}")

    def moved(self, answer):
        if answer["result"] == "moved":
            self.moves.setdefault(answer["key"], []).append((answer["_arrived_ms"], answer["due_ms"]))
        elif self.is_forgotten(answer):
            self.moving[answer["key"]] += 1

    def cancelled(self, answer):
        if self.is_forgotten(answer):
            self.may_have_ended.add(answer["key"])
        self.cancels.setdefault(answer["key"], []).append((answer["_arrived_ms"], answer))

    def acked(self, task_id, arrived_ms):
        self.acks[task_id] = arrived_ms

    def delivered(self, delivery):
        self.deliveries.append(delivery)

    def was_known(self, key, answer):
        """Returns whether the schedule's reply had arrived before the query was sent. (They use different connections.)"""
        return key in self.schedules and self.schedules[key]["_arrived_ms"] < answer["_asked_ms"]

    def may_be_forgotten(self, key, deliveries):
        """Returns whether the broker may have forgotten the task's outcome after --outcome-retention, because its clock has
        jumped (docs/LIMITS.md, Time). The ledger cannot see whether the task ended before or after the jump.
        """
        return self.jumped and (bool(deliveries) or any(a["result"] == "cancelled" for _, a in self.cancels[key]))

    # ---- the comparison; each function returns a list of complaints

    def by_key(self):
        found = {}
        for delivery in self.deliveries:
            found.setdefault(delivery["key"], []).append(delivery)
        return found

    def lost(self):
        """Returns the confirmed tasks that were neither delivered nor cancelled. A cancel whose outcome is forgotten may have taken
        effect.
        """
        seen = self.by_key()
        ended = self.may_have_ended | {key for key, answers in self.cancels.items()
                                       if any(a["result"] in ("cancelled", "already_cancelled") for _, a in answers)}
        return [f"{key}: {answer}" for key, answer in self.schedules.items() if key not in seen and key not in ended]

    def claims(self, records):
        """Returns (kind, key, id) for each record of a log that a reply confirms: schedules, and acks by hand. In a tail that
        was never acknowledged, the same id may belong to another task.
        """
        claims = set()
        for record in records:
            kind, key, task_id = record["kind"], record.get("key"), record.get("id")
            if key in self.schedules and self.schedules[key]["id"] == task_id and (kind == "scheduled" or (
                    kind == "acked" and task_id in self.acks)):
                claims.add((kind, key, task_id))
        return claims

    # ---- against the tasks that a broker lists now: `live` is key → task, ready, pending or in flight

    def queues(self):
        return sorted({answer["queue"] for answer in self.schedules.values()})

    def has_ended(self, key):
        return self.schedules[key]["id"] in self.acks or any(
            answer["result"] in ("cancelled", "already_cancelled") for _, answer in self.cancels.get(key, []))

    def missing(self, live):
        """Returns the confirmed tasks that are missing, although no request ended them."""
        return [f"{key}: {answer}" for key, answer in self.schedules.items() if key not in live and not self.has_ended(key)
                and key not in self.may_have_ended and not {"ack", "cancel"} & self.open.get(key, set())]

    def risen(self, live):
        """Returns the tasks that are still live although a reply confirmed their end."""
        return [f"{key}: {live[key]}" for key in self.schedules if key in live and self.has_ended(key)]

    def displaced(self, live):
        """Returns the tasks whose due time differs from the last reply, although no client requested another one."""
        complaints = []
        for key, answer in self.schedules.items():
            due_ms = self.moves[key][-1][1] if key in self.moves else answer["due_ms"]
            if key in live and live[key]["due_ms"] != due_ms and "move" not in self.open.get(key, set()):
                complaints.append(f"{key}: {due_ms} was answered: {live[key]}")
        return complaints

    def early(self):
        """TIME-1: compares each delivery with its own due time, and with the last move that was confirmed before it."""
        complaints = []
        for delivery in self.deliveries:
            due_ms = delivery["due_ms"]
            if min(delivery["delivered_ms"], delivery["received_ms"], delivery["_arrived_ms"]) < due_ms:
                complaints.append(f"before its due time: {delivery}")
            if delivery["key"] not in self.schedules:
                continue
            may_have_moved = self.moving[delivery["key"]] > 0  # a delivery may arrive before the reply to a move
            moves = self.moves.get(delivery["key"], [])
            timeline = [self.schedules[delivery["key"]]["due_ms"], *[due for _, due in moves]]
            moved_before = sum(1 for arrived_ms, _ in moves if arrived_ms < delivery["delivered_ms"])
            if due_ms not in timeline:
                if not may_have_moved:
                    complaints.append(f"a due time that nobody asked for ({timeline}): {delivery}")
            elif due_ms not in timeline[moved_before:]:
                complaints.append(f"as before its move to {timeline[moved_before]}: {delivery}")
        return complaints

    def after_ack(self):
        return [f"acked at {self.acks[d['id']]}: {d}" for d in self.deliveries
                if d["id"] in self.acks and d["delivered_ms"] > self.acks[d["id"]]]

    def after_cancel(self):
        complaints = []
        for delivery in self.deliveries:
            for arrived_ms, answer in self.cancels.get(delivery["key"], []):
                if answer["result"] in ("cancelled", "already_cancelled") and delivery["delivered_ms"] > arrived_ms:
                    complaints.append(f"cancelled at {arrived_ms}: {delivery}")
        return complaints

    def untrue(self):
        """TRUE-1: a cancel's reply about the past must agree with the deliveries that consumers saw."""
        seen = self.by_key()
        complaints = []
        for key, answers in self.cancels.items():
            deliveries = seen.get(key, [])
            for arrived_ms, answer in answers:
                if answer["result"] == "cancelled" and answer["deliveries"] < len(deliveries):
                    complaints.append(f"{len(deliveries)} deliveries, but the answer was {answer}")
                elif answer["result"] == "acked" and not deliveries:
                    complaints.append(f"acked, but no consumer ever saw it: {answer}")
                elif answer["result"] in ("unknown", "expired", "dropped", "dead") and self.was_known(key, answer) and not (
                        answer["result"] == "unknown" and self.may_be_forgotten(key, deliveries)):
                    complaints.append(f"a task that was acknowledged: {answer}")
        return complaints

    def twice(self):
        """ONCE-1: returns replies that only a repeated execution explains, and deliveries of the same id with the same
        delivery count.
        """
        complaints = list(self.odd)
        tokens = {}
        for delivery in self.deliveries:
            other = tokens.setdefault((delivery["id"], delivery["token"]), delivery)
            if other is not delivery:
                complaints.append(f"the same lease was printed twice: {delivery}")
        return complaints

    def shrunk(self):
        """FENCE-1: of two leases of one task, the later one must have the greater token."""
        complaints, before = [], {}
        for delivery in sorted(self.deliveries, key=lambda item: item["delivered_ms"]):
            token = tuple(map(int, delivery["token"].split("-")))
            other = before.setdefault(delivery["id"], (token, delivery))
            if token < other[0] and delivery["delivered_ms"] > other[1]["delivered_ms"]:
                complaints.append(f"a later lease with a smaller token than {other[1]}: {delivery}")
            before[delivery["id"]] = max(other, (token, delivery), key=lambda pair: pair[0])
        return complaints
