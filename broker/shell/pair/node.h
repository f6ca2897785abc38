/* node.h: this broker as one node of a pair: the thread that runs the rules (broker/pair), and what it needs for that.
 *
 *                         ┌───────────── pair thread: struct pair, one event after another ─────────────┐
 *   coordinator ◄────────►│ record_client                                                               │
 *   the other's /rpc ◄────│ rpc_client: Follow ► frames ► log, synced ► core thread applies commits     │
 *   rpc: a Follow ───────►│ leading: the question waits until there is an answer ──► frames of the log  │
 *   sync thread: batch ──►│ leading: released once committed and confirmed (R3) ──► delivery, callers   │
 *                         └─────────────────────────────────────────────────────────────────────────────┘
 *
 * While the node follows, the pair thread writes the log; from the moment it leads, the sync thread does. Without
 * --peer, `on` is false, and the pair thread does not run.
 *
 * Thread-safety: see each function. Lock order: a thread that holds `mutex` takes no other lock. */
#ifndef TARRY_SHELL_PAIR_NODE_H
#define TARRY_SHELL_PAIR_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alone.h"
#include "call.h"
#include "config.h"
#include "copy_progress.h"
#include "datadir.h"
#include "digests.h"
#include "follower_half.h"
#include "freshness.h"
#include "hard_state.h"
#include "leader_clock.h"
#include "leader_half.h"
#include "listen.h"
#include "log_serve.h"
#include "pair.h"
#include "peer_proof.h"
#include "record_client.h"
#include "record_reads.h"
#include "rpc_client.h"
#include "silence.h"
#include "summons.h"
#include "tcp_check.h"

struct batch;
struct clock;
struct disk;
struct disk_hang;
struct endpoints;
struct inbox;
struct index;
struct latency;
struct log;
struct releaser;
struct run;
struct tls;

/* Functions of the caller that the pair thread calls. */
struct node_calls {
    void *context;
    /* Reports that the follower's log is durable up to `position`. */
    void (*durable)(void *context, uint64_t position);
    /* Takes over a question about the log that the follower has confirmed. */
    void (*audit)(void *context, struct call *call);
    /* Takes over a question that has waited and may be answered now. */
    void (*go_on)(void *context, struct call *call);
    /* Returns a problem outside the pair that needs an operator, as a sentence in `buffer`; NULL: no problem. */
    const char *(*problem)(void *context, char *buffer, size_t size);
};

struct node_needs {
    const struct config *config;
    struct datadir *dir;
    struct run *run;
    struct clock *clock;
    struct disk *disk; /* disk of the log */
    const struct disk_hang *hang;
    struct latency *fsync_us;
    struct inbox *inbox; /* inbox of the core */
    struct releaser *releaser;
    const struct endpoints *endpoints;
    struct tls *tls; /* this broker's certificates; NULL: no TLS */
    const struct peer_key *peer_key;
    const struct peer_credentials *credentials;
    const _Atomic uint64_t *signed_to; /* position up to which the log is signed */
    struct node_calls calls;
};

/* The result of one sync of the leader's log. */
struct sync_point {
    uint64_t position; /* position up to which this sync made the log durable; 0: unused entry */
    uint64_t frames;   /* number of frames before `position` since this node leads */
    uint64_t ns;       /* MONOTONIC; time at which the frames were written */
};
#define SYNC_POINTS 1024u

/* The follower's lag behind its leader. */
struct node_lag {
    uint64_t frames;
    uint64_t bytes;
    uint64_t ms;      /* age of the oldest frame that the follower lacks */
    uint64_t left_ms; /* estimated time until the follower has caught up; 0: soon, or unknown */
};
/* Smallest lag that is reported. A smaller lag disappears before a person reads the report. */
#define CATCH_UP_BYTES (1u << 20)

/* Events and calls that other threads have posted since the pair thread last looked. */
struct node_news {
    struct item *questions; /* the follower's questions, as calls; the newest is last */
    struct item **questions_last;
    struct batch *batches; /* batches that are durable on this node */
    struct batch **batches_last;
    uint64_t written; /* end of the sync thread's writes */
    uint64_t frames;  /* number of frames before `written` since this node leads */
    bool moved;       /* true: `written` has grown since the pair thread last read this struct */
    uint64_t durable;
    struct message *answer; /* answer to this node's newest question */
    bool answered;          /* the newest question is finished: `answer` is its answer, or NULL if none will come */
    struct message *probed; /* answer to the newest probe; NULL: no answer */
    bool refused;           /* a connection to the other node was refused */
    bool hung_up;           /* the connection that brings the other node's questions broke */
    bool kept;              /* the record client has finished its operation */
    bool began;             /* the core has begun to lead */
    bool changed;           /* the coordinator's record may have changed */
    bool paused;            /* the core has stopped deciding, for a hand-over */
    uint64_t paused_at;     /* end of the log when the core stopped deciding; valid if `paused` is true */
    struct item *audits;    /* questions about the log, as calls */
    struct item **audits_last;
    struct item *words; /* an operator's commands, as calls */
    struct item **words_last;
    struct item *wishes; /* questions with a demand on position or age, as calls (freshness.h) */
    struct item **wishes_last;
    bool applied; /* the core has applied the log up to the position that a question waits for (`awaited` of struct
                     node) */
    bool again;   /* an operator's command requires that the process starts again */
    bool leave;   /* SIGTERM has arrived: hand over, or announce the stop */
    bool stop;
};

/* The other node's state, as last reported. */
struct node_peer {
    uint8_t member[MEMBER_ID_SIZE]; /* zeros: unknown */
    char url[CONFIG_TEXT_SIZE];
    uint64_t heard_ns; /* MONOTONIC; when the other node was last heard; 0: never */
    uint32_t epoch;    /* newest epoch that the other node has led or promised, by its own report */
    uint64_t durable;
    uint64_t applied;
    struct copy_progress progress; /* estimate of the follower's catch-up; the follower is this node or the other one */
    /* The following members are valid while this node leads. */
    uint64_t copied, copy_bytes;  /* bytes copied and size of the snapshot that the follower fetches; 0: none */
    struct copy_progress copying; /* estimate of the time until that snapshot is copied */
    uint64_t frames;              /* number of frames before `durable` since this node leads */
    uint64_t lacks_since_ns;      /* MONOTONIC; when the first frame behind `durable` was written; 0: no such frame */
    /* The following members are valid while this node follows. */
    struct node_lag lag; /* this node's lag, as the leader last reported it */
};

/* A message of the rules for an operator. */
struct node_said {
    const char *sentence; /* the message, a static string; NULL: no message */
    uint32_t epoch;       /* epoch of the other node that the sentence mentions; 0: none */
};

/* The client that gave an operator's command. */
struct node_teller {
    char client[CLIENT_NAME_SIZE_MAX + 1];
    char peer[PEER_SIZE_MAX + 1];
    char principal[PRINCIPAL_SIZE_MAX + 1];
};

/* The record that this node serves alone, or no longer serves alone. The core thread builds one for a single event. */
struct node_alone_fact {
    Tarry__AlonePut put;
    uint8_t member[MEMBER_ID_SIZE];
    struct core_request by; /* the request that made this node serve alone, and its parts */
    Tarry__Request message;
    struct core_caller caller;
    struct node_teller teller;
};

/* State of the pair thread while its node leads. */
struct node_leading {
    struct leader_half half; /* the leader's decisions; the member `held` is a call */
    struct sync_point points[SYNC_POINTS];
    size_t point_next;
    uint64_t frame_count; /* number of frames before `written` */
    struct item *audits;  /* calls that wait for a confirmation (R3) */
    uint64_t audits_question;
    struct log_bytes frames;  /* frames to send with the answer */
    const uint8_t *requester; /* disk id of the node whose question is being handled; NULL: none */
    /* Result of the last comparison that found that a follower's log is not a prefix of this log (R8). A comparison
     * reads much of the log, so it may take longer than the follower waits for its answer. The follower's next question
     * is answered with this stored result. The result stays true, because this log does not change below its end. */
    uint64_t unfit_end; /* end of the follower's log; 0: no comparison yet */
    uint8_t unfit_chain[FRAME_CHAIN_SIZE];
    uint64_t common;
    uint8_t common_chain[FRAME_CHAIN_SIZE];
    uint8_t common_chain_size; /* size of common_chain; 0: there is no chain hash to send */
    bool has_common_chain;     /* true: this node's chain hash at the position `common` was looked up */
};

/* State of the pair thread while its node follows. */
struct node_following {
    struct peer_requester requester; /* proofs of this node and of the other node */
    struct peer_requester prober;    /* sends probes, like `requester` sends questions */
    uint64_t asked_ns;               /* BOOTTIME; when the newest question was sent */
    uint64_t answered_ns;    /* BOOTTIME; send time of the question whose answer is being handled. It may be older than
                                asked_ns, because the rules may have sent a newer question. */
    uint64_t probed_ns;      /* BOOTTIME; when the newest probe was sent */
    uint64_t probe_until_ns; /* MONOTONIC; deadline for the answer to the probe */
    struct follower_half half;
    struct leader_clock clock;
    struct log_epochs epochs; /* epochs of this node's log, up to `epochs_end` */
    uint64_t epochs_end;
};

/* A question that waits until this node may answer it (freshness.h). */
struct fresh_wait {
    struct call *call;
    struct freshness_wish wish;
};

struct node {
    struct node_needs needs;
    struct log *log;     /* the log; set by node_recovered */
    struct index *index; /* the index; set by node_recovered */
    bool on;
    bool is_new; /* true: the directory never belonged to a pair */
    struct hard_state hard_state;
    char url[CONFIG_TEXT_SIZE]; /* URL at which others reach this node; constant after node_start */

    /* Any thread may use the following members. */
    _Atomic bool writes;         /* true: the sync thread writes the log, because this node leads or is about to lead */
    _Atomic bool leads;          /* true: the core decides, so it accepts changes */
    _Atomic bool paused;         /* true during a hand-over: the core leads but decides nothing more */
    _Atomic bool follows;        /* true: this node follows a leader that has answered */
    _Atomic int role;            /* enum pair_role */
    _Atomic uint64_t stalled_ns; /* MONOTONIC; when the follower was last found to stall replies; 0: no stall */
    _Atomic uint64_t committed;  /* position up to which replies may be released */
    _Atomic uint64_t may_index; /* the index may include frames below this position as soon as the core has applied them
                                   (LOG-3), because they are committed */
    _Atomic uint64_t kept_from; /* position from which on the other node still needs the log */
    _Atomic uint64_t applied;
    _Atomic uint64_t awaited; /* lowest log position that the core must apply before a waiting question can be answered;
                                 UINT64_MAX: no question waits */

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* signals that `news` has changed; uses CLOCK_MONOTONIC, like settled_changed */
    pthread_cond_t settled_changed;
    struct node_news news;
    struct digests digests;
    struct node_peer peer;
    char problem[COORDINATOR_MESSAGE_SIZE]; /* problem that needs an operator, as a sentence; "": no problem */
    struct coordinator_session session;     /* session with the coordinator; all zeros: unknown */
    char doubt[COORDINATOR_MESSAGE_SIZE];   /* why the record could not be read or is not believed; "": the last read
                                               succeeded */
    uint64_t doubt_ns;                      /* MONOTONIC; when `doubt` began */
    uint64_t role_since_ms;                 /* logical time */
    uint64_t took_over_ms;                  /* logical time when this follower became the leader; 0: it did not */
    char primary[CONFIG_TEXT_SIZE];         /* URL of the primary; empty: unknown */
    struct alone alone;                     /* whether this leader serves alone; written by the pair thread only */
    struct node_teller teller;              /* the client that gave the last operator's command */
    struct pair shown;                      /* copy of the rules' state for other threads */
    bool settled;                           /* true: this node leads, or follows a leader that has answered */
    bool left;                              /* true: this node has finished node_take_leave */

    /* The following members are used by the core thread only. */
    struct alone alone_recorded; /* state of `alone` that the log has recorded in this epoch */
    uint64_t alone_since_ms;     /* logical steady time since when this node serves alone */

    /* The following members are used by the pair thread only. */
    pthread_t thread;
    struct pair pair;
    struct rpc_client *rpc_client;
    struct rpc_client *prober; /* client for probes, so that a probe does not wait for another answer */
    struct tcp_check *tcp_check;
    struct record_client record_client;
    struct record_reads reads;
    bool has_followed;     /* true: this node has followed a leader in this run of the process */
    bool is_told;          /* true: the current step carries out an operator's command */
    bool takes_no_wishes;  /* true: this node is stopping, and accepts no more questions that demand a log position or a
                              maximum age */
    struct node_said said; /* messages of the rules in the current step */
    struct node_said said_before; /* the message that was logged last */
    struct call *word;            /* an operator's command that waits for the other node's answer; NULL: none */
    uint64_t word_until_ns;       /* MONOTONIC; deadline of the operator's command `word` */
    struct node_leading leading;
    struct node_following following;
    struct silence silence; /* state of the other node's silence (silence.h) */
    struct summons summons; /* state of the questions to the leader through the coordinator (summons.h) */
    uint64_t again_ns;      /* MONOTONIC; when this run ends and the next begins; UINT64_MAX: no end is planned */
    struct record_word *record_word; /* the last operation on the record; NULL: none yet */
    struct freshness fresh;
    struct fresh_wait wishes[FRESH_WAITS_MAX];
    size_t wish_count;
};

/* Checks the options of a pair for a node that listens at `endpoints`, before anything changes. Returns 0, or 1 with a
 * sentence. */
int node_check(const struct config *config, const struct endpoints *endpoints, char message[DATADIR_MESSAGE_SIZE]);
/* Joins a cluster, if --follow is given and the directory is new. Asks the peer until it answers, and receives the
 * cluster's identity. Returns 0, or 1 with a sentence. The caller must block SIGTERM and SIGINT before and call it
 * before datadir_open. Each of these signals ends the process during this call. */
int node_join(const struct config *config, const struct peer_key *key, const struct peer_credentials *credentials,
              char message[DATADIR_MESSAGE_SIZE]);
/* Finds out whether this broker is one of a pair, and which node. Call before recovery. Returns 0, or 1 with a
 * sentence. */
int node_open(struct node *node, const struct node_needs *needs, char message[DATADIR_MESSAGE_SIZE]);
/* Stores the open log and index. Call before any thread reads a log position from this node, with or without a pair. */
void node_recovered(struct node *node, struct log *log, struct index *index);
/* Starts the pair thread, which becomes the log's only writer. */
void node_start(struct node *node);
/* Waits until this node leads, or follows a leader that has answered; at most `wait_ms`. */
void node_settle(struct node *node, uint64_t wait_ms);
/* Tells the other node that this process stops, so that it need not find out by silence (node.c). A leader hands
 * over first; if the follower takes over, this function ends the process with status 0. A follower announces its stop.
 * Otherwise this function returns within 1 s. Main thread. */
void node_leave(struct node *node);
/* Stops the pair thread after the core has stopped. Callers that still wait get the reply that the outcome is unknown.
 */
void node_stop(struct node *node);

/* ---- called by rpc's threads */
/* Takes a call whose request is a Follow. */
void node_question(struct node *node, struct call *call);
/* Reports that the connection that brought the newest Follow is closed. */
void node_hung_up(struct node *node);
/* Returns OK if the request may be passed to the core; otherwise `*out_sentence` gives the reason. */
Tarry__Code node_admits(const struct node *node, const struct core_request *request, const char **out_sentence);
/* Returns a NOT_PRIMARY reply that names the primary; NULL: out of memory. */
struct message *node_pack_refusal(struct node *node, const char *sentence);
/* Packs a follower's reply, with the primary's URL; NULL: out of memory. Core or delivery sender thread. */
struct message *node_pack(struct node *node, const Tarry__Reply *reply);

/* Takes over a question for which fresh_is_asked_for is true. The pair thread later passes the question to
 * node_calls.go_on, or refuses it. */
void node_wish(struct node *node, struct call *call);
bool fresh_is_asked_for(const Tarry__Request *request);
/* Returns the error message, in `arena`, for a request that demands position `at_least` of a primary whose log ends at
 * `end`, below `at_least`. Any thread. */
const char *fresh_beyond(struct arena *arena, uint64_t at_least, uint64_t end);
/* Asks the follower to confirm a question that the auditor, not the core, answers (R3). Call only while node_confirms.
 */
void node_confirm(struct node *node, struct call *call);
bool node_confirms(const struct node *node);
/* Takes a call whose request is a Pair that commands a change. */
void node_word(struct node *node, struct call *call);
/* Answers a call whose request is a Pair that asks for the status. Any thread. */
void node_status(struct node *node, struct call *call);
/* Like node_status, with the coordinator's record as text. Any thread. */
void node_status_with(struct node *node, struct call *call, const char *record);
/* Ends this run soon; the next one begins in the same process. Any thread. */
void node_start_again(struct node *node);

/* ---- called by the sync thread, while node_writes */
/* Reports the number of frames that were appended. The log is now readable up to `position`. */
void node_written(struct node *node, uint64_t position, size_t frames);
/* Reports that the log is durable up to `position`. Takes over the batches: a list linked by `next`, not empty. */
void node_durable(struct node *node, uint64_t position, struct batch *batches);

/* ---- called by the core thread */
/* Called while leading: notes the digest of the state after everything up to `position`. */
void node_digest(struct node *node, uint64_t position, uint64_t digest);
/* Called while following: reports that one more frame is applied. Ends the process if the leader's state differs
 * (F-31). */
void node_applied(struct node *node, uint64_t position, uint64_t digest);
/* Reports that the core has handled CORE_START. */
void node_began(struct node *node);
/* Returns whether the log must record that this node serves alone, or no longer serves alone. If true, the core handles
 * `*out_event`, which borrows from `*out`. Call once the core decides. */
bool node_is_alone_news(struct node *node, struct node_alone_fact *out, struct core_event *out_event);
/* Called after inbox_pause: reports that the core decides nothing more, and that everything up to `position`, the log's
 * end, is committed. */
void node_paused(struct node *node, uint64_t position);

/* ---- called by any thread */
/* Returns the position up to which replies may be released (R3): in a pair, the committed position that this node
 * knows; without a pair, the durable one. */
uint64_t node_committed(const struct node *node);
/* Returns whether the sync thread may append what this node's core decides. */
bool node_writes(const struct node *node);
/* Returns the first position that the other node lacks: the log must be kept from there on. UINT64_MAX: no limit. */
uint64_t node_kept_from(const struct node *node);
/* Writes the URL of the primary; empty: unknown. */
void node_primary(struct node *node, char out[CONFIG_TEXT_SIZE]);
/* Notes how many of `bytes` the other node has copied of its snapshot; `bytes` 0: it no longer fetches one. */
void node_copies(struct node *node, uint64_t copied, uint64_t bytes);
/* Adds the statistics of the pair. */
void node_stats(struct node *node, Tarry__BrokerStats *stats, struct arena *arena);
/* Returns the follower's lag. The follower is this node or the other one. The caller holds `node->mutex`. */
struct node_lag node_lag(const struct node *node);
/* Returns the name of the role: "leading", "following", "looking", … */
const char *node_role(const struct node *node);

static inline struct record_client_access node_access(const struct config *config) {
    return (struct record_client_access){.url = config->coordinator,
                                         .credentials = config->coordinator_credentials,
                                         .ca = config->coordinator_ca,
                                         .certificate = config->coordinator_certificate,
                                         .key = config->coordinator_key};
}

/* Returns how long a node counts as present without a refresh, at most failover-after. */
static inline uint32_t node_presence_ms(const struct config *config) {
    bool is_short = config->failover_after_ms < COORDINATOR_PRESENCE_MS;
    return is_short ? (uint32_t)config->failover_after_ms : COORDINATOR_PRESENCE_MS;
}

/* ---- between the files node*.c; pair thread, unless stated otherwise */
/* Passes the event to the rules (pair_step) and carries out their effects. If the event is a question of the other
 * node, `*out_answer` receives the answer to send; otherwise `out_answer` may be NULL. */
void node_step(struct node *node, const struct pair_event *event, struct pair_message *out_answer);
/* Quarantines the log behind `end` and cuts it there, at once or later. Informs the rules afterwards. */
void node_cut(struct node *node, uint64_t end);
bool node_is_leading(const struct node *node);
/* Carries out an operator's command. Takes the call over. Pair thread. */
void node_take_word(struct node *node, struct call *call);
void node_tell(struct node *node, enum pair_word word);
/* Notes an operator's command that may make this node serve alone. */
void node_alone_told(struct node *node, const struct call *call);
/* Writes the members that the record names, as this node knows them. */
void node_members(struct node *node, struct record_member members[RECORD_NODES]);
/* Lets node_leave return, because the other node needs no more messages. */
void node_has_left(struct node *node);
/* Handles the follower's announced stop: from now on the follower counts as silent. */
void node_is_left(struct node *node);
/* Notes a sign of life of the other node. */
void node_heard(struct node *node);
/* Probes a silent node, and tells the rules when the silence has lasted long enough. */
void node_check_silence(struct node *node, uint64_t now_ns);
uint64_t node_silence_timer(const struct node *node); /* MONOTONIC */
/* Checks whether this process was stopped for a while, and so may have missed the other node's messages. */
void node_check_sleep(struct node *node);
/* Returns whether this node declares itself present as the leader at the coordinator. */
bool node_is_declaring(struct node *node);
/* Declares this node as the leader, or asks its leader through the coordinator. Called after each turn. */
void node_declare(struct node *node);
/* Reads the record when node->reads and the role require it. */
void node_read_record(struct node *node);
/* If the record was read with the question whether the leader is present, sets the answer in the event. */
void node_take_presence(struct node *node, struct pair_event *event);
/* Handles the answer to a probe. Takes it over. */
void node_take_probed(struct node *node, struct message *answer);
/* Handles a refused connection: the other node's process has died. */
void node_take_refused(struct node *node);
void node_take_wishes(struct node *node, struct item *items);
/* Answers or refuses the waiting questions that are due. Called after each turn. */
void node_look_wishes(struct node *node);
/* Returns when a waiting question must be looked at again; MONOTONIC. UINT64_MAX: none waits. */
uint64_t node_wishes_timer(const struct node *node);
void node_refuse_wishes(struct node *node); /* refuses all waiting questions, because this node stops */
/* Notes that the leader of `epoch`, asked at `asked_ns` (BOOTTIME), has reported `known` as acknowledged. */
void node_fresh_heard(struct node *node, uint32_t epoch, uint64_t asked_ns, uint64_t known);
/* Logs a message for an operator once, and shows it in the status until this node leads or follows. `sentence` is
 * static. `epoch`: the other node's epoch that the sentence mentions; 0: none. */
void node_say(struct node *node, const char *sentence, uint32_t epoch);
/* Writes the message as text. */
void node_format_said(const struct node_said *said, char out[COORDINATOR_MESSAGE_SIZE]);
/* Handles that this node's newest question gets no answer. */
void node_unanswered(struct node *node, bool is_refused_by_leader);
/* Refuses the operator's command that waits, before the process starts again or stops. */
void node_drop_word(struct node *node, Tarry__Code code, const char *sentence);
/* Answers the operator's command that waits, if the last step has carried it out or refused it. */
void node_answer_word(struct node *node);
/* Reports a problem that an operator must solve, and ends the process. */
_Noreturn void node_refuse(const char *sentence);

#endif
