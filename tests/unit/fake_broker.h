/* fake_broker.h: a broker for tests of the client, in the test's own process: it does what a script says with each
 * commit: answer, execute and lose the answer, lose the request, say busy, forget. Or it is not the primary. It has one
 * lane, if asked to, and sends there what a test hands it.
 *
 * It remembers every (producer, sequence) as a real broker does, so that "took effect once" (ONCE-1) can be counted
 * from outside the library. How it is reached: fake_socket.h. */
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
    KEEP_ANSWER,  /* execute, and say nothing */
    ANSWER_LATE,  /* execute, and answer `late_ms` later */
    LOSE_REQUEST, /* drop the connection, nothing executed */
    SAY_BUSY,
    SAY_STOPPING,
    FORGET,      /* FORGOTTEN, and the producer is unknown from now on */
    SAY_NOTHING, /* not executed, connection kept */
    GARBAGE,
    FAIL_AND_EXECUTE, /* executed, and yet FAILED is all that it says */
};

struct fake {
    struct fake_socket *socket;
    char url[64];
    pthread_mutex_t lock;  /* of all that follows */
    enum deed script[256]; /* by number of the commit request received; ANSWER beyond */
    size_t script_size;
    uint32_t first_busy;  /* so many times the first sequence is told to wait, while others are answered */
    bool atomic_aborts;   /* atomic commits are refused by their last operation */
    bool keeps_producers; /* all that it ever gave out are known */
    bool refuses_hello;   /* as busy, so that commits gather */
    bool lacks_room;      /* commits that schedule are refused as busy, as a whole, and … */
    bool lacks_index;     /* … those that cancel or move */
    /* Audits; NULL: unsupported. What becomes of one is put into the reply. Lock held, the fake's thread. */
    void (*on_audit)(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply);
    void *argument; /* its own */
    /* Questions, likewise; NULL: an answer of no tasks, no queues … */
    void (*on_question)(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply);
    void (*on_executed)(struct fake *fake, const Tarry__Op *op); /* each operation, once; likewise */
    /* the lane */
    uint64_t session; /* the present one; 0: none */
    uint64_t silence_ms;
    size_t subscribes;
    size_t unsubscribes;
    uint64_t seen[64]; /* of the last Unsubscribe */
    size_t seen_count;
    Tarry__Code refuses_sessions; /* every Subscribe, so; OK: none */
    uint32_t lane_number;         /* that it names; 1 is there */
    bool has_lane;
    bool resumes; /* it knows former sessions */
    /* the pair */
    bool is_not_primary;   /* it says so to everything but questions */
    bool follows;          /* it answers questions, as a follower */
    unsigned refuses_late; /* counts its refusals down: the last one comes after `late_ms` */
    uint32_t late_ms;      /* … as answers do (ANSWER_LATE) */
    bool hangs;            /* it takes requests and answers nothing */
    char names[128];       /* as the primary */
    uint8_t cluster[CLUSTER_ID_SIZE];
    /* what happened */
    size_t requests;    /* of any kind */
    size_t not_primary; /* said so often */
    size_t commits;     /* requests, repeats included */
    size_t asked;       /* of these, those that only ask */
    size_t hellos;
    size_t goodbyes;
    size_t ops;      /* executed */
    size_t ops_most; /* in one commit */
    uint64_t producer;
    uint64_t last_sequence;
    uint64_t last_oldest;
    uint64_t widest;   /* sequence - oldest_unanswered at most */
    bool out_of_order; /* a fresh sequence that is not above the one before */
    char trace[8192];  /* what was executed: "[schedule a, ack 7] [cancel b] " …, cut */
    size_t trace_size;
    struct executed_log *executed;
};

/* The broker listens from now on. Beyond the script it answers. Ends the program if it cannot. */
struct fake *fake_start(const enum deed *script, size_t script_size);
void fake_stop(struct fake *fake);
/* From now on it takes subscriptions. */
void fake_open_lane(struct fake *fake);
/* Delivers task `id` under token (1, position), as `session`'s, on the lane of the session that there is. Waits for
 * that; fails if it does not come. */
void fake_deliver(struct fake *fake, uint64_t session, uint64_t id, uint64_t position);
/* Everything that `from` has recorded, as a follower would have it, and nothing else. Neither is being talked to. */
void fake_copy_log(struct fake *to, struct fake *from);

/* What it has counted until now. */
size_t fake_count(struct fake *fake, const size_t *counter);
#define COUNT(fake, what) fake_count((fake), &(fake)->what)

/* ---- for on_audit and on_question */

void fake_answer(struct fake_reply *reply, const Tarry__Reply *answer);
void fake_refuse(struct fake_reply *reply, Tarry__Code code);
/* As if there were no on_question. */
void fake_answer_question(const Tarry__Request *request, struct fake_reply *reply);

#endif
