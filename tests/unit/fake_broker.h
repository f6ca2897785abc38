/* fake_broker.h: a broker for tests of the client, in the test's own process. A script decides about each commit:
 * answer; execute and lose the reply; lose the request; say busy; forget. Or the broker is not the primary. If
 * requested, it has one lane, on which it sends the deliveries of a test. It remembers every (producer, sequence) like
 * a real broker, so that tests can count outside of the library whether a commit "took effect once" (ONCE-1). The
 * connection: fake_socket.h. */
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
    LOSE_REQUEST, /* drop the connection without executing the commit */
    SAY_BUSY,
    SAY_STOPPING,
    FORGET,      /* reply FORGOTTEN, and do not know the producer from now on */
    SAY_NOTHING, /* neither execute nor reply, but keep the connection */
    GARBAGE,
    FAIL_AND_EXECUTE, /* execute, but reply FAILED */
};

struct fake {
    struct fake_socket *socket;
    char url[64];
    pthread_mutex_t lock;  /* protects all following members */
    enum deed script[256]; /* deed for each commit request, by its number; after the end of the script: ANSWER */
    size_t script_size;
    uint32_t
        first_busy; /* number of BUSY replies that the commit with sequence 1 still gets; other commits are answered */
    bool atomic_aborts;   /* true: refuse atomic commits because of their last operation */
    bool keeps_producers; /* true: remember all producers ever issued */
    bool refuses_hello;   /* true: refuse Hello as busy, so that commits gather */
    bool lacks_room;      /* true: refuse a commit with schedules as busy, as a whole */
    bool lacks_index;     /* true: refuse a commit with cancels or moves as busy, too */
    /* Called for audits; NULL: unsupported. Puts the reply's contents into `reply`. Called in the fake's thread,
     * with the lock held. */
    void (*on_audit)(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply);
    void *argument; /* passed to the test's callbacks */
    /* Called for each query; NULL: the reply has no tasks, queues, … */
    void (*on_question)(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply);
    void (*on_executed)(struct fake *fake, const Tarry__Op *op); /* called once for each executed operation */
    /* State of the fake broker's lane. */
    uint64_t session; /* the current session; 0: none */
    uint64_t silence_ms;
    size_t subscribes;
    size_t unsubscribes;
    uint64_t seen[64]; /* field `seen` of the last Unsubscribe */
    size_t seen_count;
    Tarry__Code refuses_sessions; /* code with which every Subscribe is refused; OK: not refused */
    uint32_t lane_number;         /* lane that the reply names; only lane 1 exists */
    bool has_lane;
    bool resumes; /* true: the broker resumes former sessions */
    /* State of the simulated pair. */
    bool is_not_primary;   /* true: the broker answers NOT_PRIMARY to all requests except queries */
    bool follows;          /* true: the broker answers queries as a follower */
    unsigned refuses_late; /* number of NOT_PRIMARY replies until the one that is `late_ms` late; 0: no late reply */
    uint32_t late_ms;      /* delay of late replies (ANSWER_LATE) */
    bool hangs;            /* true: the broker accepts requests and never replies */
    char names[128];       /* address that the broker names as the primary's */
    uint8_t cluster[CLUSTER_ID_SIZE];
    /* Counters of what the fake broker has received and done. */
    size_t requests;    /* number of requests of any kind */
    size_t not_primary; /* number of "not the primary" replies */
    size_t commits;     /* commit requests, repeats included */
    size_t asked;       /* number of commit requests that only ask for an outcome */
    size_t hellos;
    size_t goodbyes;
    size_t ops;      /* executed operations */
    size_t ops_most; /* maximum number of operations in one commit */
    uint64_t producer;
    uint64_t last_sequence;
    uint64_t last_oldest;
    uint64_t widest;   /* maximum of sequence - oldest_unanswered */
    bool out_of_order; /* true: a new sequence was not greater than the one before */
    char trace[8192];  /* executed operations: "[schedule a, ack 7] [cancel b] " …, truncated */
    size_t trace_size;
    struct executed_log *executed;
};

/* Starts a broker that listens at once. After the end of the script, it answers every commit. Ends the program if it
 * cannot start. */
struct fake *fake_start(const enum deed *script, size_t script_size);
void fake_stop(struct fake *fake);
/* Makes the broker accept subscriptions from now on. */
void fake_open_lane(struct fake *fake);
/* Delivers task `id` with the token (1, position) for `session`, on the lane of the current session. Waits for the
 * lane, and fails if it does not come. */
void fake_deliver(struct fake *fake, uint64_t session, uint64_t id, uint64_t position);
/* Copies all state that `from` has recorded, as replication would. No client may be using either fake. */
void fake_copy_log(struct fake *to, struct fake *from);

/* Returns the current value of a counter. */
size_t fake_count(struct fake *fake, const size_t *counter);
#define COUNT(fake, what) fake_count((fake), &(fake)->what)

/* ---- for on_audit and on_question */

void fake_answer(struct fake_reply *reply, const Tarry__Reply *answer);
void fake_refuse(struct fake_reply *reply, Tarry__Code code);
/* Makes the reply to a query that is sent if on_question is NULL. */
void fake_answer_question(const Tarry__Request *request, struct fake_reply *reply);

#endif
