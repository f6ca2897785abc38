/* pair.h: decides which node of a pair leads: the rules R1-R8 of FAULTS.md as a state machine. The caller passes an
 * event to pair_step, and carries out the effects in their order.
 *
 * A pair has two nodes. A node leads an epoch, follows one, or is about to do either. With a coordinator, one record
 * says which node leads; the record changes by compare-and-set only. Without a coordinator (by_operator), the hard
 * states of the two nodes decide: a node leads after the other has promised it that epoch, or after an operator has
 * asserted that the other node is stopped.
 *
 * This machine does no I/O and reads no clock: PAIR_SILENT reports elapsed time, and positions describe the log. The
 * caller compares chain hashes and moves frames; callers are the shell, the simulator and the model in tests/model.
 * struct pair is plain data and may be copied.
 *
 * A run of the process leads at most once and follows at most once. A deposed leader, or a node that must cut frames
 * that recovery has already applied, gets PAIR_END and starts again: a start is the only well-tested way to another
 * role.
 *
 * Thread-safety: one owner. */
#ifndef TARRY_PAIR_PAIR_H
#define TARRY_PAIR_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pair_role {
    PAIR_LOOKING = 1, /* this node does not know yet which node leads */
    PAIR_FOLLOWING,
    PAIR_FENCING,   /* before a claim: the fence is being made durable (R6) */
    PAIR_CANDIDATE, /* the compare-and-set that makes this node the leader has been sent */
    PAIR_LEADING,
    PAIR_ENDED,    /* this run neither leads nor follows any more */
    PAIR_YIELDING, /* without a coordinator: this node has handed over; it acknowledges nothing more, and promises the
                      other node its epoch */
};

/* State that survives a restart. The node makes it durable before it acts on it. A directory that already has a log and
 * joins a pair for the first time gets {.floor = epoch of its last frame + 1, .alone = true}. A new, empty directory
 * gets zeros. With a coordinator `alone` is always true, because this state then does not note which node served alone;
 * if the coordinator is removed later, the safe value is needed. */
struct pair_hard_state {
    uint32_t floor; /* lowest epoch that this node takes part in; a promise of epoch 5 sets it to 5, a fence of epoch 5
                       sets it to 6 (R2, R6, R7) */
    uint32_t recorded; /* newest epoch that this node has seen in the coordinator's record, promised or led; 0: none
                          (F-31b) */
    /* The following members are used only without a coordinator. */
    uint32_t led; /* last epoch that this node claimed */
    bool in_sync; /* according to the leader's last message, this node had all acknowledged commits */
    bool alone; /* true: this node may have acknowledged commits that the other node lacks, so it never promises. False:
                   the other node has all acknowledged commits, on the disk that it had at that time */
};

/* The coordinator's record. */
struct pair_record {
    uint32_t epoch;
    uint8_t leader;  /* node */
    uint8_t in_sync; /* nodes in sync, as bits 1 << node */
    uint64_t run; /* the leader's run of the process (R6: a claim of unknown outcome succeeded only if the record names
                     this run) */
    uint64_t start;      /* end of the leader's log when its epoch began */
    uint64_t high_water; /* a node whose log ends below this position must not lead (F-9) */
};

enum pair_outcome {
    PAIR_DONE = 1,
    PAIR_REFUSED /* the record has another version */,
    PAIR_UNKNOWN /* no answer: the change is done, is not done, or will be done later */
};

/* Messages between the two nodes: the follower asks questions, and the leader answers. Log frames travel with
 * PAIR_FRAMES. */
enum pair_message_kind {
    PAIR_FOLLOW = 1, /* question, with floor, serial, end and stamp: the follower asks for frames */
    PAIR_FRAMES, /* answer, with epoch, serial, stamp and committed: the frames from the follower's end on, if there are
                    any yet */
    PAIR_PROMISE, /* answer, with epoch and serial: the follower must promise that epoch before it asks again */
    PAIR_CUT_TO,  /* answer, with epoch, serial and end: the follower's log is not a prefix of the leader's, and must be
                     cut at `end` (R8) */
    PAIR_NOT_LEADING, /* answer, with serial, floor, led, alone and stranger: the sender does not lead (`epoch` is 0),
                         or leads `epoch` but has dropped the question, so the follower must ask again */
    PAIR_PROPOSE,     /* question, with epoch, floor, serial, led and alone, without a coordinator: the other node must
                         promise that epoch, and then ask to follow. A candidate sends it. A leader that hears nothing also
                         sends it, to learn whether the other node leads a later epoch. */
    PAIR_TAKE_OVER, /* answer, with epoch and serial: the follower has the whole log, the leader writes no more, so the
                       follower must lead */
    PAIR_RETIRED, /* answer, with epoch, serial and end: the leader's log begins at `end`, behind the last position that
                     both logs share (R8) */
};

/* An operator's command, and the role of the node that accepts it. */
enum pair_word {
    PAIR_PROMOTE = 1, /* follower: lead, by a planned switch-over or by the other node's promise */
    PAIR_ASSERT, /* follower: lead; the operator asserts that the other node is stopped and has not served alone since
                    the last sync */
    PAIR_FORCE,  /* follower: lead, although acknowledged commits may be lost */
    PAIR_SOLO,   /* leader: serve without the follower until it is in sync again */
    PAIR_HAND_OVER, /* leader: let the follower lead; nothing is lost */
    PAIR_RESUME,    /* leader: abandon a hand-over that takes too long */
    PAIR_YIELD, /* without a coordinator, not leading: give up the commits that this node acknowledged alone; the other
                   node's log is valid */
};

struct pair_message {
    enum pair_message_kind kind;
    uint32_t epoch;
    uint32_t floor;
    uint64_t serial; /* number of the question; the answer repeats it */
    uint64_t end;    /* durable */
    uint64_t stamp;  /* PAIR_FRAMES: number of this answer. PAIR_FOLLOW: number of the newest answer that the follower
                        has seen (R3) */
    uint64_t committed; /* the leader's */
    uint32_t led;
    bool alone;
    bool in_sync; /* FRAMES, without a coordinator: the requester has all acknowledged commits */
    enum pair_word
        word;      /* PAIR_FOLLOW: PAIR_PROMOTE if the operator wants the sender to lead. PAIR_PROMISE: the operator's
                      command by which the leader leads, PAIR_ASSERT or PAIR_FORCE; each node logs it. 0: no command */
    bool stranger; /* NOT_LEADING: the requester's disk is not the known one, and gets no promise (F-29) */
    bool another;  /* set by the receiver: the sender's disk is not the disk of the other node that the receiver last
                      waited for or followed */
    bool differs;  /* CUT_TO, set by the receiver: its log differs from the leader's at `end`, although the epoch is the
                      same (F-31d) */
};

enum pair_event_kind {
    PAIR_RECORD_READ = 1, /* the end of a read of the record: has `outcome` (never REFUSED), `version` and `record`;
                             version 0: there is no record */
    PAIR_RECORD_SWAPPED,  /* the end of a compare-and-set: has `outcome`; after DONE also `version` */
    PAIR_STATE_WRITTEN,   /* the hard state is durable; `end` is the durable end of this node's log */
    PAIR_DURABLE,         /* this node's log is durable up to `end` */
    PAIR_ASKED,           /* a PAIR_FOLLOW (with fits, end) or a PAIR_PROPOSE has arrived */
    PAIR_ANSWERED, /* the answer to this node's question has arrived; its frames are in the log if pair_takes allowed it
                    */
    PAIR_SILENT,  /* no message except PAIR_NOT_LEADING arrived within the timeout. Without a coordinator the timeout is
                     shorter for a node that does not lead, because it only asks again */
    PAIR_TOLD,    /* an operator's command, `word`; a refusal is a PAIR_SAY with the reason */
    PAIR_STOPPED, /* after PAIR_STOP_WRITES: all writes have ended; `end` is the end of the log */
    PAIR_CHANGED, /* the coordinator's watch says that the record may have changed */
    PAIR_UNANSWERED, /* the newest question has failed: no answer arrived, or the connection was refused. If `present`
                        is true, the other node leads and refused this node's disk. */
};
struct pair_event {
    enum pair_event_kind kind;
    enum pair_outcome outcome;
    uint64_t version;
    struct pair_record record;
    uint64_t end; /* STATE_WRITTEN, DURABLE: durable end of this node's log. STOPPED: end of the log. ASKED: position at
                     which the requester must cut its log, or, if `retired` is true, the beginning of this node's log */
    bool near;    /* ASKED: the requester lacks so few frames that commits may wait for it */
    bool fits;    /* ASKED: the requester's log is a prefix of this node's, by chain hash (R2) */
    bool retired; /* ASKED: the requester's log does not fit, and this node has retired the frames to compare or to send
                   */
    bool present; /* RECORD_READ, if it was requested: the leader that the record names is present at the coordinator.
                     UNANSWERED: the other node leads and refused this disk */
    bool gone;    /* SILENT: the other node's process has died, even if the coordinator still shows it as present */
    struct pair_message message;
    enum pair_word word;
};

enum pair_effect_kind {
    PAIR_WRITE_STATE = 1, /* make pair->hard_state durable, then report PAIR_STATE_WRITTEN */
    PAIR_READ, /* read the record, linearizably, and report PAIR_RECORD_READ; back off if the last read failed.
                  `presence`: also ask whether the leader that the record names is present */
    PAIR_SWAP, /* compare-and-set of the record at `version` (0: create it), then report PAIR_RECORD_SWAPPED */
    PAIR_ASK,  /* send `message`; report its answer as PAIR_ANSWERED. A newer question replaces an older one. A question
                  with the same serial is the same one: send it again unless its answer may still come */
    PAIR_ANSWER,      /* send `message` as the answer to the question of PAIR_ASKED */
    PAIR_LEAD,        /* lead from now on, in epoch pair->epoch */
    PAIR_CUT,         /* quarantine the log behind `end`, cut it there, sync it, and report PAIR_DURABLE (R8) */
    PAIR_FETCH,       /* quarantine the log behind `end`. This run ends, and the next one begins with a snapshot of the
                         leader's index and log (R8) */
    PAIR_END,         /* end this run and start again, because of `reason` */
    PAIR_STOP_WRITES, /* leader: accept no more writes, and report PAIR_STOPPED; questions are answered at once */
    PAIR_TAKE_WRITES, /* leader: accept writes again */
    PAIR_SAY,         /* show `reason` to the operator */
};
struct pair_effect {
    enum pair_effect_kind kind;
    uint64_t version;
    struct pair_record record;
    struct pair_message message;
    uint64_t end;
    const char *reason;
    uint32_t epoch; /* SAY, END: epoch of the other node that `reason` mentions; 0: none */
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
    /* The following members are constant after pair_start. */
    uint8_t self, other; /* numbers of this node and of the other one: 0 and 1 */
    bool founds;         /* this node may create the record if there is none */
    bool may_lead_alone; /* true: a silent follower is removed from the in-sync set (solo-after); false: strict. Without
                            a coordinator it is never removed */
    bool by_operator;    /* the pair has no coordinator */
    bool is_async;       /* asynchronous mode: the leader waits for the follower only during a hand-over */
    uint64_t run;        /* number of this run; no earlier run of this node had it */

    enum pair_role role;
    struct pair_hard_state hard_state; /* the hard state that is durable, or is being made durable (writing_state) */
    bool writing_state;
    uint32_t epoch;   /* CANDIDATE: the epoch to claim. LEADING: this node's epoch. FOLLOWING: the leader's epoch, after
                         this node has promised it */
    uint64_t durable; /* durable end of this node's log */
    uint64_t committed; /* position up to which the log is known to be durable on every member that counts */

    /* the record as last seen */
    uint64_t version;
    struct pair_record record;
    bool reading;
    bool reads_again; /* read once more, because the record changed after the present read began */
    /* the change of the record that a compare-and-set at `version` makes and whose outcome is unknown. Without a
     * coordinator: the change of the hard state that is not yet known to be durable */
    enum pair_change change;
    bool swapping;  /* the compare-and-set has neither an answer nor a failure yet */
    bool impatient; /* FOLLOWING: the record is being read in order to claim the lead */
    bool heeds; /* the other node is only silent, so do not claim while the coordinator shows that node as present */
    bool asks_presence; /* the present read also asks for the leader's presence */

    /* leading */
    bool counted;   /* this node acknowledges nothing that the other node has not stored (R3) */
    bool solo;      /* PAIR_SOLO: not strict until the other node is in sync again */
    uint64_t acked; /* durable end of the follower's log in this epoch; 0: not known yet */
    uint64_t stamp; /* number of the last answer that was sent */
    uint64_t seen;  /* newest stamp that the follower has confirmed */
    uint64_t begun; /* end of this node's log when the epoch began */
    enum pair_handing handing;
    /* operator's command by which this node claims or leads; FOLLOWING: by which the other node leads. 0: the lead
     * comes from the record or from a promise */
    enum pair_word word;
    uint64_t stop; /* HANDING: end of the log */

    /* following */
    uint64_t serial;           /* serial of the newest question; starts above those of all earlier runs */
    struct pair_message asked; /* the newest question, if it is a PAIR_FOLLOW or a leader's PAIR_PROPOSE */
    bool cutting;              /* a PAIR_CUT has not ended yet */
    bool adopts;               /* PAIR_WRITE_STATE: note the disk that answered last as the leader's disk */
    bool forcing; /* PAIR_FORCE: the record is being read, and then this node claims, whichever nodes are in sync. It
                     does not claim if the record's epoch is not forced_epoch, because another node has then claimed. */
    uint32_t forced_epoch;
    bool wants;               /* PAIR_PROMOTE: this node must lead as soon as no commit is lost by that */
    enum pair_word asserting; /* without a coordinator: the operator's assertion that the other node is stopped
                                 (PAIR_ASSERT …); 0: none. This node first asks the other node, and refuses the command
                                 if that node answers as a leader. */
    uint32_t heard;           /* highest floor that the other node has reported */
    uint64_t told;            /* committed position that the leader reported last */
};

/* Starts the rules. `end` is the end of this node's log, verified and synced (R6). */
void pair_start(struct pair *pair, const struct pair_hard_state *hard_state, uint64_t end, struct pair_effects *out);
void pair_step(struct pair *pair, const struct pair_event *event, struct pair_effects *out);

/* Returns whether the frames of this answer may be written to the log (R2). Call it before PAIR_ANSWERED. */
bool pair_takes(const struct pair *pair, const struct pair_message *answer);
/* Returns whether this read shows that the record was lost (F-31b): the record is older than one that this node has
 * seen, or is missing although this node has seen one. Decide nothing by such a read, and back off before the next
 * read. */
bool pair_is_lost(const struct pair *pair, const struct pair_event *event);
/* Returns, for a leader, the position up to which replies that depend on it may be sent (R3). */
uint64_t pair_committed(const struct pair *pair);
/* Returns, for a leader, the number to pass to pair_may_answer later. Use it for a client's request that arrives now
 * and appends nothing. */
uint64_t pair_question(const struct pair *pair);
bool pair_may_answer(const struct pair *pair, uint64_t question);
/* Returns, for a leader, the newest stamp that is confirmed; UINT64_MAX: no confirmation is needed. */
uint64_t pair_confirmed(const struct pair *pair);
/* Returns whether this node leads and does not hand over. */
bool pair_takes_writes(const struct pair *pair);
/* Returns, for a leader, whether the follower has the whole log, so that its question may be answered now, with
 * PAIR_TAKE_OVER. */
bool pair_hands_over(const struct pair *pair);
/* Returns, for a leader, whether the other node counts and is in sync; for a follower, whether this node is in sync as
 * far as it knows. */
bool pair_is_in_sync(const struct pair *pair);
/* Returns whether the newest question would be sent again unchanged. For a follower, or a leader without a coordinator.
 */
bool pair_asks_the_same(const struct pair *pair);

#endif
