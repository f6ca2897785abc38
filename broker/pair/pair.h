/* pair.h: which node may answer for the pair, and since when: the rules R1-R8 of FAULTS.md as a state machine.
 *
 *   event ──► pair_step ──► effects            (what a node must do, in this order)
 *
 * A node is one of two. It leads an epoch, follows one, or is on its way to either. One record, which a coordinator
 * keeps and changes by compare-and-set only, says which node leads; or there is no coordinator (by_operator), and then
 * the notes of the two say it: a node leads when the other has promised it that very epoch, or when an operator asserts
 * what no machine can know. The machine decides; it does no I/O, knows no clock and no bytes: time comes in as
 * PAIR_SILENT, the log as positions, and the caller (the shell, the simulator, the model in tests/model, which explores
 * this very code) compares chain hashes and moves frames. It is plain data: it can be copied.
 *
 * A run of the process plays each part at most once: a leader that is deposed, or a node that must cut what recovery
 * has already applied, is told to start again (PAIR_END), for starting is the one way of coming back, and it is well
 * tested.
 *
 * Thread-safety: one owner. */
#ifndef TARRY_PAIR_PAIR_H
#define TARRY_PAIR_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pair_role {
    PAIR_LOOKING = 1, /* which node leads? */
    PAIR_FOLLOWING,
    PAIR_FENCING,   /* about to claim: the fence is being made durable (R6) */
    PAIR_CANDIDATE, /* the compare-and-set that makes this node the leader is under way */
    PAIR_LEADING,
    PAIR_ENDED,    /* this run neither leads nor follows any more */
    PAIR_YIELDING, /* by_operator: it has handed over; it acknowledges nothing any more, and promises */
};

/* What a node must not forget: durable before anything rests on it. A directory whose log was written without this
 * machine gets {.floor = epoch of its last frame + 1, .alone = true}; a new, empty one gets zeros. With a coordinator
 * `alone` is always noted: the record knows better, and should there be none one day, no node does. */
struct pair_hard_state {
    uint32_t floor; /* it takes part in no epoch below: a promise of e is a floor of e, a fence of e one of e + 1 (R2,
                       R6, R7) */
    uint32_t recorded; /* the newest epoch that it has seen in the coordinator's record, or promised, or led; 0: there
                          was none (F-31b) */
    /* by_operator: */
    uint32_t led; /* the last epoch that it claimed */
    bool in_sync; /* when it last heard of it: whatever is acknowledged, it has */
    bool alone;   /* it may have acknowledged what the other lacks. It never promises. If it is false, the other has all
                     that was ever acknowledged, on the disk that it had then */
};

/* What the coordinator keeps. */
struct pair_record {
    uint32_t epoch;
    uint8_t leader;  /* node */
    uint8_t in_sync; /* bits 1 << node */
    uint64_t run;    /* the leader's run of the process (R6: an unknown outcome is a success for the same run only) */
    uint64_t start;  /* the leader's end as its epoch began */
    uint64_t high_water; /* no member's log may be shorter and lead (F-9) */
};

enum pair_outcome {
    PAIR_DONE = 1,
    PAIR_REFUSED /* another version is there */,
    PAIR_UNKNOWN /* no answer: done, or not, or not yet */
};

/* Between the two. The follower asks, the leader answers; frames travel beside a PAIR_FRAMES. */
enum pair_message_kind {
    PAIR_FOLLOW = 1, /* → floor, serial, end, stamp */
    PAIR_FRAMES, /* ← epoch, serial, stamp, committed; frames from the follower's end on, none if there are none yet */
    PAIR_PROMISE,     /* ← epoch, serial: promise it before you ask again */
    PAIR_CUT_TO,      /* ← epoch, serial, end: your log is not a part of mine; up to there it may be (R8) */
    PAIR_NOT_LEADING, /* ← serial; floor, led, alone, stranger. Or epoch: it leads, and has forgotten the question */
    PAIR_PROPOSE, /* → epoch, floor, serial, led, alone: promise me that epoch, then ask to follow (by_operator). From
                     a candidate, or from a leader that hears nothing: does the other lead a later epoch? */
    PAIR_TAKE_OVER, /* ← epoch, serial: you have everything, and no more is written: lead */
    PAIR_RETIRED, /* ← epoch, serial, end: my log begins there, behind all that yours is known to share with it (R8) */
};

/* An operator's command, and the node that takes it. */
enum pair_word {
    PAIR_PROMOTE = 1, /* follower: lead, by a planned switch-over or the other's promise */
    PAIR_ASSERT, /* follower: the other is stopped, and has not served alone since this node was last in sync: lead */
    PAIR_FORCE,  /* follower: lead, whatever may be lost */
    PAIR_SOLO,   /* leader: serve without the follower until it is in sync again */
    PAIR_HAND_OVER, /* leader: let the follower lead, nothing is lost */
    PAIR_RESUME,    /* leader: it has taken too long: no hand-over */
    PAIR_YIELD,     /* by_operator, quiet: what this node served alone is given up, the other's history is the one */
};

struct pair_message {
    enum pair_message_kind kind;
    uint32_t epoch;
    uint32_t floor;
    uint64_t serial;    /* of the question, given back with the answer */
    uint64_t end;       /* durable */
    uint64_t stamp;     /* FRAMES: counts the leader's answers; FOLLOW: of the newest one seen (R3) */
    uint64_t committed; /* the leader's */
    uint32_t led;
    bool alone;
    bool in_sync;        /* FRAMES, by_operator: the requester has all that is acknowledged */
    enum pair_word word; /* FOLLOW: PAIR_PROMOTE: its operator wants it to lead. PROMISE: by which word the leader leads
                            (PAIR_ASSERT, PAIR_FORCE, or none): log it, on both sides */
    bool stranger;       /* NOT_LEADING: the requester's disk is another one, and is promised nothing (F-29) */
    bool another;        /* not sent, the receiver knows it: the sender's disk is not the one that was last counted or
                            followed here */
    bool differs;        /* CUT_TO, not sent: at `end` the own log is another one, though of the same epoch (F-31d) */
};

enum pair_event_kind {
    PAIR_RECORD_READ = 1, /* outcome (REFUSED does not occur), version, record; version 0: there is none */
    PAIR_RECORD_SWAPPED,  /* outcome, version (DONE) */
    PAIR_STATE_WRITTEN,   /* the hard state is durable, as was asked; end: of the own log, durable */
    PAIR_DURABLE,         /* the own log is durable up to `end` */
    PAIR_ASKED,           /* a PAIR_FOLLOW came; fits, end; or a PAIR_PROPOSE */
    PAIR_ANSWERED,        /* the answer to this node's question came; its frames, if pair_takes, are in the log */
    PAIR_SILENT,     /* the other has said nothing (but PAIR_NOT_LEADING) for as long as is allowed; by_operator, not
                        leading: sooner, for all that follows is that it asks again */
    PAIR_TOLD,       /* word. If it is refused, a PAIR_SAY says why */
    PAIR_STOPPED,    /* after PAIR_STOP_WRITES: nothing is being written any more; end: of what was */
    PAIR_CHANGED,    /* the coordinator's watch: the record is not what it was */
    PAIR_UNANSWERED, /* the newest question is given up: no answer came, or the connection was refused. `present`: the
                        other node leads, and refused this disk */
};
struct pair_event {
    enum pair_event_kind kind;
    enum pair_outcome outcome;
    uint64_t version;
    struct pair_record record;
    uint64_t end; /* DURABLE, NOTED, STOPPED. ASKED: where the requester must cut, if its log does not fit; retired:
                     where this node's begins */
    bool near;    /* ASKED: it lacks so little that it may be waited for */
    bool fits;    /* ASKED: the requester's log up to its end is the beginning of this node's, by chain hash (R2) */
    bool retired; /* ASKED: … does not fit, for what it would have to be compared or go on with is no longer in this
                   * node's
                   */
    bool present; /* RECORD_READ, if it was asked for: the leader that the record names is present at the coordinator.
                     UNANSWERED: see there */
    bool gone;    /* SILENT: its process has died, whatever the coordinator says of its presence */
    struct pair_message message;
    enum pair_word word;
};

enum pair_effect_kind {
    PAIR_WRITE_STATE = 1, /* make pair->hard_state durable, then PAIR_STATE_WRITTEN */
    PAIR_READ,            /* read the record, linearizably, then PAIR_RECORD_READ; not too often if the last one failed.
                             `presence`: then ask for the presence of the leader that it names, too */
    PAIR_SWAP,            /* replace the record if it is at `version` (0: if there is none), then PAIR_RECORD_SWAPPED */
    PAIR_ASK, /* send `message`; the answer, if one comes, is a PAIR_ANSWERED. A newer question replaces an older one;
                 the same number is the same question, to be sent once more unless it is under way */
    PAIR_ANSWER,      /* send `message` as the answer to what was asked */
    PAIR_LEAD,        /* be the leader, under pair->epoch */
    PAIR_CUT,         /* quarantine the log behind `end`, cut it there, sync, then PAIR_DURABLE (R8) */
    PAIR_FETCH,       /* quarantine the log behind `end`; this run ends, the next one begins with a snapshot of the
                         leader's index and log (R8) */
    PAIR_END,         /* end this run and start again; `reason` */
    PAIR_STOP_WRITES, /* leading: take nothing more that appends, then PAIR_STOPPED; answers wait for nothing now */
    PAIR_TAKE_WRITES, /* leading: go on as before PAIR_STOP_WRITES */
    PAIR_SAY,         /* tell the operator: `reason` */
};
struct pair_effect {
    enum pair_effect_kind kind;
    uint64_t version;
    struct pair_record record;
    struct pair_message message;
    uint64_t end;
    const char *reason;
    uint32_t epoch; /* SAY, END: of the other node, which `reason` speaks of; 0: it speaks of none */
    bool presence;
};
#define PAIR_EFFECTS_MAX 4
struct pair_effects {
    struct pair_effect items[PAIR_EFFECTS_MAX];
    size_t count;
};

/* A planned switch-over, on the leader's side. */
enum pair_handing { PAIR_KEEPING = 0, PAIR_STOPPING, PAIR_HANDING };

enum pair_change { PAIR_NO_CHANGE = 0, PAIR_CLAIM, PAIR_ADD, PAIR_REMOVE };

struct pair {
    /* for good */
    uint8_t self, other; /* nodes: 0 and 1 */
    bool founds;         /* it may make the record if there is none */
    bool may_lead_alone; /* solo-after: a silent follower is removed; otherwise strict. by_operator: none is */
    bool by_operator;    /* there is no coordinator */
    bool is_async;       /* the follower never counts, but in a hand-over */
    uint64_t run;        /* never used before by this node */

    enum pair_role role;
    struct pair_hard_state hard_state; /* as it is, or is just being made (writing_state) */
    bool writing_state;
    uint32_t epoch;     /* CANDIDATE: wanted. LEADING: this node's. FOLLOWING: the leader's, once it is promised */
    uint64_t durable;   /* of the own log */
    uint64_t committed; /* durable on every member that counts, as far as is known here */

    /* the record, as it was last seen */
    uint64_t version;
    struct pair_record record;
    bool reading;
    bool reads_again;        /* it has changed since that read was asked for, whose answer may be older */
    enum pair_change change; /* a compare-and-set that expects `version`, whose outcome is not known; by_operator: a
                                hard state that is not known to be durable */
    bool swapping;           /* … and no answer or failure has been heard yet */
    bool impatient;          /* FOLLOWING: the record is read in order to claim ... */
    bool heeds;              /* ... unless its leader is present: it is silent, and that is all that is known */
    bool asks_presence;      /* the read under way */

    /* leading */
    bool counted;   /* the other is in the maximal in-sync set (R3) */
    bool solo;      /* the operator's word: not strict until the other is in sync again */
    uint64_t acked; /* durable there, in this epoch; 0: nothing heard */
    uint64_t stamp; /* of the last answer sent */
    uint64_t seen;  /* newest one that is confirmed */
    uint64_t begun; /* this node's end as the epoch began */
    enum pair_handing handing;
    enum pair_word word; /* by which it claims or leads (FOLLOWING: the other); none: the record, or a promise */
    uint64_t stop;       /* HANDING: the end of what was written */

    /* following */
    uint64_t serial;           /* of the newest question; starts above that of any earlier run */
    struct pair_message asked; /* that question, if it asks to follow, or is a leader's PAIR_PROPOSE */
    bool cutting;              /* PAIR_CUT is being done */
    bool adopts;  /* PAIR_WRITE_STATE: with it the disk that was last answered from is the one that is followed */
    bool forcing; /* the record is read in order to claim, whatever it says (PAIR_FORCE), unless the epoch changes */
    uint32_t forced_epoch;
    bool wants;               /* the operator's word: to lead, if that loses nothing */
    enum pair_word asserting; /* by_operator: the operator says that the other node is stopped; that node is asked
                                 first, and the word is carried out if it does not answer as a leader; 0: none */
    uint32_t heard;           /* the highest floor of the other's that was heard of */
    uint64_t told;            /* what the leader has last said to be committed */
};

/* `end`: of the own log, verified and synced (R6). */
void pair_start(struct pair *pair, const struct pair_hard_state *hard_state, uint64_t end, struct pair_effects *out);
void pair_step(struct pair *pair, const struct pair_event *event, struct pair_effects *out);

/* May the frames that came with this answer be written to the log (R2)? Ask before PAIR_ANSWERED. */
bool pair_takes(const struct pair *pair, const struct pair_message *answer);
/* Is this a read of a record that is older than what this node has seen, or of none though there was one (F-31b)? It
 * proves nothing, and is not to be asked for again at once. */
bool pair_is_lost(const struct pair *pair, const struct pair_event *event);
/* LEADING: answers that rest on positions up to here may leave (R3). */
uint64_t pair_committed(const struct pair *pair);
/* LEADING: a question that appends nothing has arrived: what pair_may_answer wants to be asked with. */
uint64_t pair_question(const struct pair *pair);
bool pair_may_answer(const struct pair *pair, uint64_t question);
/* LEADING: the newest question that is confirmed; UINT64_MAX: no confirmation is needed. */
uint64_t pair_confirmed(const struct pair *pair);
/* LEADING, and not handing over. */
bool pair_takes_writes(const struct pair *pair);
/* LEADING: the follower has everything, and the answer to its question, PAIR_TAKE_OVER, need not wait. */
bool pair_hands_over(const struct pair *pair);
/* Leading, is the other counted and in sync? Following: is this node, as far as it knows? */
bool pair_is_in_sync(const struct pair *pair);
/* FOLLOWING, or a leader without a coordinator: does the newest question say what is so now? Then a silence asks no
 * other one. */
bool pair_asks_the_same(const struct pair *pair);

#endif
