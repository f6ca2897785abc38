/* fake_broker.h: a broker for tests of the client, in the test's own process. A script decides about each commit:
 * answer; execute and lose the reply; lose the request; say busy; forget. Or the broker is not the primary. It has
 * one lane, if requested, and sends there what a test gives it.
 *
 * It remembers every (producer, sequence) like a real broker, so that tests can count outside of the library whether
 * a commit "took effect once" (ONCE-1). The connection: fake_socket.h. */
#ifndef FAKE_BROKER_H
#define FAKE_BROKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fake_socket.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

enum deed {
    ANSWER,
    LOSE_ANSWER,  /* execute, then drop the connection */
    KEEP_ANSWER,  /* execute, and send nothing */
    ANSWER_LATE,  /* execute, and reply `late_ms` later */
    LOSE_REQUEST, /* drop the connection without executing */
    SAY_BUSY,
    SAY_STOPPING,
    FORGET,      /* reply FORGOTTEN, and do not know the producer from now on */
    SAY_NOTHING, /* do not execute, keep the connection */
    GARBAGE,
    FAIL_AND_EXECUTE, /* execute, but reply FAILED */
};

struct fake {
    struct fake_socket *socket;
    char url[64];
    pthread_mutex_t lock;  /* protects all of the following */
    enum deed script[256]; /* what to do with each commit request, by number; after the end: ANSWER */
    size_t script_size;
    uint32_t first_busy;  /* number of times that the first sequence gets BUSY while others are answered */
    bool atomic_aborts;   /* refuse atomic commits because of their last operation */
    bool keeps_producers; /* know all producers ever given out */
    bool refuses_hello;   /* refuse Hello as busy, so that commits gather */
    bool lacks_room;      /* refuse commits that schedule as busy, as a whole */
    bool lacks_index;     /* refuse commits that cancel or move as busy, too */
    /* Called for audits; NULL: unsupported. Puts the reply's contents into `reply`. Called in the fake's thread,
     * with the lock held. */
    void (*on_audit)(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply);
    void *argument; /* for the test's callbacks */
    /* Called for each query; NULL: reply with no tasks, no queues, … */
    void (*on_question)(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply);
    void (*on_executed)(struct fake *fake, const Tarry__Op *op); /* called once for each executed operation */
    /* state of the lane */
    uint64_t session; /* the current session; 0: none */
    uint64_t silence_ms;
    size_t subscribes;
    size_t unsubscribes;
    uint64_t seen[64]; /* `seen` of the last Unsubscribe */
    size_t seen_count;
    Tarry__Code refuses_sessions; /* refuses every Subscribe with this code; OK: none */
    uint32_t lane_number;         /* lane that the reply names; only lane 1 exists */
    bool has_lane;
    bool resumes; /* the broker knows former sessions */
    /* state of the pair */
    bool is_not_primary;   /* the broker says so to all requests except queries */
    bool follows;          /* the broker answers queries, as a follower */
    unsigned refuses_late; /* remaining refusals; the last one is sent `late_ms` late */
    uint32_t late_ms;      /* delay of late replies (ANSWER_LATE) */
    bool hangs;            /* the broker takes requests and answers nothing */
    char names[128];       /* the address that it names as the primary's */
    uint8_t cluster[CLUSTER_ID_SIZE];
    /* counters of events */
    size_t requests;    /* requests of any kind */
    size_t not_primary; /* number of "not the primary" replies */
    size_t commits;     /* commit requests, repeats included */
    size_t asked;       /* number of these requests that only query an outcome */
    size_t hellos;
    size_t goodbyes;
    size_t ops;      /* executed operations */
    size_t ops_most; /* maximum in one commit */
    uint64_t producer;
    uint64_t last_sequence;
    uint64_t last_oldest;
    uint64_t widest;   /* maximum of sequence - oldest_unanswered */
    bool out_of_order; /* a new sequence was not above the one before */
    char trace[8192];  /* executed operations: "[schedule a, ack 7] [cancel b] " …, truncated */
    size_t trace_size;
    struct executed_log *executed;
};

/* Starts a broker that listens at once. After the script's end it answers. Ends the program if it cannot. */
struct fake *fake_start(const enum deed *script, size_t script_size);
void fake_stop(struct fake *fake);
/* From now on it accepts subscriptions. */
void fake_open_lane(struct fake *fake);
/* Delivers task `id` under token (1, position) for `session`, on the current session's lane. Waits for the lane;
 * fails if it does not come. */
void fake_deliver(struct fake *fake, uint64_t session, uint64_t id, uint64_t position);
/* Copies everything that `from` has recorded, and nothing else, as a follower has it. No client may be using either. */
void fake_copy_log(struct fake *to, struct fake *from);

/* Returns a count so far. */
size_t fake_count(struct fake *fake, const size_t *counter);
#define COUNT(fake, what) fake_count((fake), &(fake)->what)

/* ---- for on_audit and on_question */

void fake_answer(struct fake_reply *reply, const Tarry__Reply *answer);
void fake_refuse(struct fake_reply *reply, Tarry__Code code);
/* Makes the reply that is sent without on_question. */
void fake_answer_question(const Tarry__Request *request, struct fake_reply *reply);

#endif
