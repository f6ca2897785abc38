/* node.h: this broker as one of a pair: the thread that drives the rules (broker/pair), and what it needs for that.
 *
 *                         ┌───────────── pair thread: struct pair, one event after another ─────────────┐
 *   coordinator ◄────────►│ record_client                                                               │
 *   the other's /rpc ◄────│ rpc_client: Follow ► frames ► log, synced ► core thread applies what is committed
 *   rpc: a Follow ───────►│ leading: held until there is something to say ──► frames out of the log       │
 *   sync thread: batch ──►│ leading: let out once committed, and confirmed (R3) ──► delivery sender, callers      │
 *                         └─────────────────────────────────────────────────────────────────────────────┘
 *
 * While the node follows, this thread is the log's writer; from the moment it leads, the sync thread is. `on` is false
 * without --peer: then nothing of this runs, and nothing waits for it.
 *
 * Thread-safety: as each function says. Order of locks: `mutex` is taken alone. */
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

/* What the pair's thread tells the rooms above it, and asks them. */
struct node_calls {
    void *context;
    /* The follower's log is durable up to here. */
    void (*durable)(void *context, uint64_t position);
    /* A question about the log is confirmed: takes it over. */
    void (*audit)(void *context, struct call *call);
    /* A question has waited until it may be answered: takes it over. */
    void (*go_on)(void *context, struct call *call);
    /* What wants an operator beside the pair, a sentence in `buffer`; NULL: nothing. */
    const char *(*problem)(void *context, char *buffer, size_t size);
};

struct node_needs {
    const struct config *config;
    struct datadir *dir;
    struct run *run;
    struct clock *clock;
    struct disk *disk; /* the log's */
    const struct disk_hang *hang;
    struct latency *fsync_us;
    struct inbox *inbox; /* the core's */
    struct releaser *releaser;
    const struct endpoints *endpoints;
    struct tls *tls; /* NULL: none */
    const struct peer_key *peer_key;
    const struct peer_credentials *credentials;
    const _Atomic uint64_t *signed_to; /* the log is signed up to here */
    struct node_calls calls;
};

/* What one sync of the leader made durable. */
struct sync_point {
    uint64_t position; /* the end of it; 0: none */
    uint64_t frames;   /* up to there, since this node leads */
    uint64_t ns;       /* MONOTONIC, when it was written */
};
#define SYNC_POINTS 1024u

/* How far the follower is behind its leader. */
struct node_lag {
    uint64_t frames;
    uint64_t bytes;
    uint64_t ms;      /* the age of the oldest frame that it lacks */
    uint64_t left_ms; /* about so long until it has them; 0: soon, or not known */
};
/* Less is not worth a word: it is there before that is read. */
#define CATCH_UP_BYTES (1u << 20)

/* What other threads have posted since the thread looked last. */
struct node_news {
    struct item *questions; /* calls; the newest last */
    struct item **questions_last;
    struct batch *batches; /* that are durable here */
    struct batch **batches_last;
    uint64_t written; /* by the sync thread */
    uint64_t frames;  /* … since this node leads */
    bool moved;       /* `written` has grown */
    uint64_t durable;
    struct message *answer; /* to the own question */
    bool answered;          /* … or none came */
    struct message *probed; /* an answer to the newest probe; NULL: none */
    bool refused;           /* a connection to the other node was refused */
    bool hung_up;           /* the connection of the other node's questions broke */
    bool kept;              /* the record client is done */
    bool began;             /* the core leads */
    bool changed;           /* the record may be another */
    bool paused;            /* the core decides nothing any more ... */
    uint64_t paused_at;     /* ... and the log ends there */
    struct item *audits;    /* calls: questions about the log */
    struct item **audits_last;
    struct item *words; /* calls: an operator's */
    struct item **words_last;
    struct item *wishes; /* calls: questions that ask for so much, or so young an answer */
    struct item **wishes_last;
    bool applied; /* … and what one of them waits for is */
    bool again;   /* an operator's word wants a new run */
    bool leave;   /* SIGTERM came: hand over, or say goodbye */
    bool stop;
};

/* The other node, as it was last heard of. */
struct node_peer {
    uint8_t member[MEMBER_ID_SIZE]; /* zeros: never heard of */
    char url[CONFIG_TEXT_SIZE];
    uint64_t heard_ns; /* MONOTONIC; 0: never */
    uint32_t epoch;    /* the latest that it has said to lead, or to have promised */
    uint64_t durable;
    uint64_t applied;
    struct copy_progress progress; /* of what the follower lacks, whichever of the two that is */
    /* while this node leads */
    uint64_t copied, copy_bytes;  /* of the snapshot that the follower fetches; 0: none */
    struct copy_progress copying; /* … */
    uint64_t frames;              /* up to `durable`, of those since it leads */
    uint64_t lacks_since_ns;      /* MONOTONIC, when the first frame behind `durable` was written; 0: there is none */
    /* while it follows */
    struct node_lag lag; /* its own, as the leader told it last */
};

/* What the rules tell an operator. */
struct node_said {
    const char *sentence; /* lasts for ever; NULL: nothing */
    uint32_t epoch;       /* … of the other node, which it is about; 0: about none */
};

/* The client that gave an operator's command. */
struct node_teller {
    char client[CLIENT_NAME_SIZE_MAX + 1];
    char peer[PEER_SIZE_MAX + 1];
    char principal[PRINCIPAL_SIZE_MAX + 1];
};

/* That it serves alone, or does no more, as it is recorded. The core's thread has one for a moment. */
struct node_alone_fact {
    Tarry__AlonePut put;
    uint8_t member[MEMBER_ID_SIZE];
    Tarry__Request request; /* of the client that told it to */
    struct core_caller caller;
    struct node_teller teller;
};

/* What is done as a leader. */
struct node_leading {
    struct leader_half half; /* `held` is a call */
    struct sync_point points[SYNC_POINTS];
    size_t point_next;
    uint64_t frame_count; /* up to `written` */
    struct item *audits;  /* calls that wait for a confirmation (R3) */
    uint64_t audits_question;
    struct log_bytes frames;  /* to be sent */
    const uint8_t *requester; /* the disk whose question is just being looked at; NULL: none */
    /* The last end that did not fit (R8), up to where it may be the same, and what the own chain is there. To find that
     * takes reading much, and the answer may come too late for that question; what lies below the own end stays as it
     * is, so the next one's does not. */
    uint64_t unfit_end; /* 0: none yet */
    uint8_t unfit_chain[FRAME_CHAIN_SIZE];
    uint64_t common;
    uint8_t common_chain[FRAME_CHAIN_SIZE];
    uint8_t common_chain_size; /* 0: there is none to tell */
    bool has_common_chain;     /* it has been looked for */
};

/* … and as a follower. */
struct node_following {
    struct peer_requester requester; /* what the other node must be shown, and must show */
    struct peer_requester prober;    /* … by a probe */
    uint64_t asked_ns;               /* BOOTTIME, when the newest question left … */
    uint64_t answered_ns;    /* … the one whose answer is being taken: the rules may have asked anew meanwhile … */
    uint64_t probed_ns;      /* … the newest probe */
    uint64_t probe_until_ns; /* MONOTONIC: until then it may be answered */
    struct follower_half half;
    struct leader_clock clock;
    struct log_epochs epochs; /* of the own log as it is up to `epochs_end` */
    uint64_t epochs_end;
};

/* A question that waits until this node may answer it (freshness.h). */
struct fresh_wait {
    struct call *call;
    struct freshness_wish wish;
};

struct node {
    struct node_needs needs;
    struct log *log;     /* from node_recovered on … */
    struct index *index; /* … and this */
    bool on;
    bool is_new; /* the directory was never one of a pair */
    struct hard_state hard_state;
    char url[CONFIG_TEXT_SIZE]; /* how others reach this node; fixed before node_start */

    /* any thread */
    _Atomic bool writes;         /* the sync thread writes the log, for this node leads or is about to */
    _Atomic bool leads;          /* the core decides: changes may be asked for */
    _Atomic bool paused;         /* … but hands over: nothing is decided any more */
    _Atomic bool follows;        /* a leader that has answered */
    _Atomic int role;            /* enum pair_role */
    _Atomic uint64_t stalled_ns; /* it leads, and the follower that counts has not confirmed for too long, as was seen
                                    then, MONOTONIC; 0: it has */
    _Atomic uint64_t committed;  /* what may be told */
    _Atomic uint64_t may_index;  /* the index may have what is below, if the core has it (LOG-3): it is committed, also
                                    while the core is still on its way to lead */
    _Atomic uint64_t kept_from;  /* the log from here on is still needed by the other node */
    _Atomic uint64_t applied;
    _Atomic uint64_t awaited; /* a question waits until it is applied up to here; UINT64_MAX: none does */

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC, both */
    pthread_cond_t settled_changed;
    struct node_news news;
    struct digests digests;
    struct node_peer peer;
    char problem[COORDINATOR_MESSAGE_SIZE]; /* a sentence; "": none */
    struct coordinator_session session;     /* with the coordinator; all zeros: nothing is known yet */
    char doubt[COORDINATOR_MESSAGE_SIZE];   /* why the record could not be read, or is not believed; "": it was read */
    uint64_t doubt_ns;                      /* MONOTONIC, since when */
    uint64_t role_since_ms;                 /* logical */
    uint64_t took_over_ms;                  /* logical: it leads since then and followed before; 0: not so */
    char primary[CONFIG_TEXT_SIZE];         /* URL; empty: not known */
    struct alone alone;                     /* does this leader serve alone? Written by the pair thread alone */
    struct node_teller teller;              /* whose word it was, of the last one */
    struct pair shown;                      /* the rules' state, for other threads */
    bool settled;                           /* it leads, or follows a leader that has answered */
    bool left;                              /* it was to take leave before it stops, and has nothing more to say */

    /* the core thread's own */
    struct alone alone_recorded; /* … in the log, by this reign */
    uint64_t alone_since_ms;     /* … since when: logical steady time */

    /* the pair thread's own */
    pthread_t thread;
    struct pair pair;
    struct rpc_client *rpc_client;
    struct rpc_client *prober; /* so that a probe waits for no answer that is under way */
    struct tcp_check *tcp_check;
    struct record_client record_client;
    struct record_reads reads;
    bool has_followed;            /* … a leader, since it started */
    bool is_told;                 /* this step is an operator's word */
    bool takes_no_wishes;         /* it stops */
    struct node_said said;        /* by the rules, in this step */
    struct node_said said_before; /* … and what was logged last */
    struct call *word;            /* an operator's, which waits for the other node's answer; NULL: none */
    uint64_t word_until_ns;       /* … MONOTONIC: no longer than this; valid with `word` */
    struct node_leading leading;
    struct node_following following;
    struct silence silence;          /* of the other node */
    struct summons summons;          /* … which is asked by way of the coordinator */
    uint64_t again_ns;               /* MONOTONIC: when this run ends, and the next begins; UINT64_MAX: not */
    struct record_word *record_word; /* the last one; NULL: none was asked for */
    struct freshness fresh;
    struct fresh_wait wishes[FRESH_WAITS_MAX];
    size_t wish_count;
};

/* Whether the options ask for a pair that there can be, of a node that listens at `own`; before anything is touched. 0,
 * or 1 with a sentence. */
int node_check(const struct config *config, const struct endpoints *endpoints, char message[DATADIR_MESSAGE_SIZE]);
/* With --follow: a new directory asks the peer until it answers, and gets the cluster's identity. 0, or 1 with a
 * sentence. Before datadir_open; SIGTERM and SIGINT are blocked, and end the process here. */
int node_join(const struct config *config, const struct peer_key *key, const struct peer_credentials *credentials,
              char message[DATADIR_MESSAGE_SIZE]);
/* Before recovery: is this one of a pair, and which? 0, or 1 with a sentence. */
int node_open(struct node *node, const struct node_needs *needs, char message[DATADIR_MESSAGE_SIZE]);
/* Log and index are open; before any caller asks how far the pair is, or a broker alone. */
void node_recovered(struct node *node, struct log *log, struct index *index);
/* … and the log, which no other thread writes. */
void node_start(struct node *node);
/* Returns once it leads, or follows a leader that has answered, or after `wait_ms`. */
void node_settle(struct node *node, uint64_t wait_ms);
/* The process is to stop, and the other node is not left to find out by silence (node_leave.c). A leader hands over
 * first; if the follower takes over this does not return, but ends the process with status 0. A follower says goodbye.
 * Returns within a second, and the broker stops as it would alone. Main thread. */
void node_leave(struct node *node);
/* The core has stopped. Callers that still wait are told that the outcome is unknown. */
void node_stop(struct node *node);

/* ---- rpc's threads */
/* A call whose request is a Follow. */
void node_question(struct node *node, struct call *call);
/* The connection that brought the newest one is gone. */
void node_hung_up(struct node *node);
/* OK: the request may go on to the core. Otherwise `*out_sentence` says why not. */
Tarry__Code node_admits(const struct node *node, const struct core_event *event, const char **out_sentence);
/* A NOT_PRIMARY that says where the primary is; NULL: no memory. */
struct message *node_pack_refusal(struct node *node, const char *sentence);
/* What a follower answers (core or delivery sender thread), with where the primary is; NULL: no memory. */
struct message *node_pack(struct node *node, const Tarry__Reply *reply);

/* A question that fresh_is_asked_for: it goes on by node_calls.go_on, or is refused, then or later. */
void node_wish(struct node *node, struct call *call);
bool fresh_is_asked_for(const Tarry__Request *request);
/* The sentence for a primary whose log ends at `end`. In `arena`. Any thread. */
const char *fresh_beyond(struct arena *arena, uint64_t at_least, uint64_t end);
/* A question that the core does not answer is confirmed first (R3): it goes to the auditor then. While node_confirms.
 */
void node_confirm(struct node *node, struct call *call);
bool node_confirms(const struct node *node);
/* A call whose request is a Pair that asks for a change. */
void node_word(struct node *node, struct call *call);
/* A call whose request is a Pair that asks how it is: any thread. */
void node_status(struct node *node, struct call *call);
/* … with the coordinator's record as text. Any thread. */
void node_status_with(struct node *node, struct call *call, const char *record);
/* This run ends soon, and the next begins. Any thread. */
void node_start_again(struct node *node);

/* ---- sync thread, while node_writes */
/* Appended and readable up to here. */
void node_written(struct node *node, uint64_t position, size_t frames);
/* … and durable. Takes the batches over (a list by `next`, not empty). */
void node_durable(struct node *node, uint64_t position, struct batch *batches);

/* ---- core thread */
/* Leading: the state after everything up to `position` has this digest. */
void node_digest(struct node *node, uint64_t position, uint64_t digest);
/* Following: one more frame is applied. Ends the process if the leader's state was another (F-31). */
void node_applied(struct node *node, uint64_t position, uint64_t digest);
/* Leading: NULL, or a sentence: the follower's state after `position` was another. */
const char *node_compare(struct node *node, uint64_t position, uint64_t digest);
/* CORE_START was stepped. */
void node_began(struct node *node);
/* Once the core decides: does this node serve alone, or no more, and the log does not say so? Then `*out_event` is to
 * be stepped, which borrows from `*out`. */
bool node_is_alone_news(struct node *node, struct node_alone_fact *out, struct core_event *out_event);
/* After inbox_pause: nothing is decided any more, and all up to `position`, where the log ends, is committed. */
void node_paused(struct node *node, uint64_t position);

/* ---- any thread */
/* What may be told (R3): committed, as far as this node knows; of a broker alone, durable. */
uint64_t node_committed(const struct node *node);
/* Whether what is decided here may be appended. */
bool node_writes(const struct node *node);
/* The log from this position on is not to be retired: the other node lacks it. UINT64_MAX: it is free. */
uint64_t node_kept_from(const struct node *node);
/* What wants an operator, of a node as `pair` and `peer` show it, as a sentence; NULL: nothing. It may lie in
 * `buffer`. */
const char *node_problem(struct node *node, const struct pair *pair, const struct node_peer *peer,
                         char buffer[COORDINATOR_MESSAGE_SIZE]);
/* The URL of the primary; empty: not known. */
void node_primary(struct node *node, char out[CONFIG_TEXT_SIZE]);
/* The other node has so much of the snapshot that it fetches here; `bytes` 0: it fetches none any more. */
void node_copies(struct node *node, uint64_t copied, uint64_t bytes);
/* Adds what the statistics say of the pair. */
void node_stats(struct node *node, Tarry__BrokerStats *stats, struct arena *arena);
/* How far the follower is behind, whichever of the two that is; `node->mutex` is held. */
struct node_lag node_lag(const struct node *node);
/* "leading", "following", "looking", … */
const char *node_role(const struct node *node);

/* Where the record lies, as the configuration has it, which must outlive what comes back. */
static inline struct record_client_access node_access(const struct config *config) {
    return (struct record_client_access){.url = config->coordinator,
                                         .credentials = config->coordinator_credentials,
                                         .ca = config->coordinator_ca,
                                         .certificate = config->coordinator_certificate,
                                         .key = config->coordinator_key};
}

/* As long as the other is given, or less: a node that is not present any more is not waited for. */
static inline uint32_t node_presence_ms(const struct config *config) {
    bool is_short = config->failover_after_ms < COORDINATOR_PRESENCE_MS;
    return is_short ? (uint32_t)config->failover_after_ms : COORDINATOR_PRESENCE_MS;
}

/* ---- between node*.c */
/* Empties every list of `news`; also before the first use. */
void node_news_empty(struct node_news *news);
void node_step(struct node *node, const struct pair_event *event, struct pair_message *out_answer);
/* Puts the log behind `end` aside and cuts it off, now or later, and tells the rules. */
void node_cut(struct node *node, uint64_t end);
bool node_is_leading(const struct node *node);
/* An operator's word, on the pair thread. Takes the call over. */
void node_take_word(struct node *node, struct call *call);
void node_tell(struct node *node, enum pair_word word);
/* node_alone.c. Says loudly since when this node serves alone, or that it does no more; after each turn. */
void node_show_alone(struct node *node);
/* An operator's word comes, which may have it serve alone. */
void node_alone_told(struct node *node, const struct call *call);
/* The nodes that the record names, as this node knows them. */
void node_members(struct node *node, struct record_member members[RECORD_NODES]);
/* The process is to stop: hands over if this node leads, else says goodbye. Pair thread, as all of these. */
void node_take_leave(struct node *node);
/* Nothing more is to be said before it stops: node_leave returns. */
void node_has_left(struct node *node);
/* The follower has said goodbye: it is silent from now on. */
void node_is_left(struct node *node);
/* node_silence.c. A sign of life: the other node is not silent. */
void node_heard(struct node *node);
/* Probes a node that says nothing, and tells the rules when it is silent. */
void node_check_silence(struct node *node, uint64_t now_ns);
uint64_t node_silence_timer(const struct node *node); /* MONOTONIC */
/* This node may have stood still, and not heard what the other said meanwhile. */
void node_check_sleep(struct node *node);
/* Does this node declare itself as the leader? */
bool node_is_declaring(struct node *node);
/* … it does, or asks its leader; after each turn. */
void node_declare(struct node *node);
/* Reads the record, as node->reads and the role want it. */
void node_read_record(struct node *node);
/* It was read: is the leader present, if it was asked? */
void node_take_presence(struct node *node, struct pair_event *event);
/* What came to a probe; takes it over. */
void node_take_probed(struct node *node, struct message *answer);
/* The other node's process is gone. */
void node_take_refused(struct node *node);
/* node_fresh.c */
void node_take_wishes(struct node *node, struct item *items);
/* After each turn. */
void node_look_wishes(struct node *node);
/* This node stood still. */
void node_wishes_overslept(struct node *node);
uint64_t node_wishes_timer(const struct node *node); /* MONOTONIC */
void node_refuse_wishes(struct node *node);          /* it stops */
/* The leader of `epoch` was asked at `asked_ns` (BOOTTIME), and has said what is acknowledged. */
void node_fresh_heard(struct node *node, uint32_t epoch, uint64_t asked_ns, uint64_t known);
/* Tells an operator, in the log once and in the status until this node leads or follows. `sentence` is for ever.
 * `epoch`: of the other node, which it speaks of; 0: it speaks of none. */
void node_say(struct node *node, const char *sentence, uint32_t epoch);
/* … as text. */
void node_format_said(const struct node_said *said, char out[COORDINATOR_MESSAGE_SIZE]);
/* No answer came to this node's newest question. */
void node_unanswered(struct node *node, bool is_refused_by_leader);
/* Before the process starts anew, or stops: the operator whose word waits is told why nothing came of it. */
void node_drop_word(struct node *node, Tarry__Code code, const char *sentence);
/* A step is over in which the word that waits may have been carried out, or refused: then it is answered. */
void node_answer_word(struct node *node);
/* An operator must look: says so, and ends the process. */
_Noreturn void node_refuse(const char *sentence);

#endif
