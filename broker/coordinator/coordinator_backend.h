/* coordinator_backend.h: what a kind of coordinator must be able to do. coordinator.c owns the thread, the calls and
 * their deadlines; a backend starts what it is told and finishes it once.
 *
 * Thread-safety: all of this runs on the coordinator's own thread, save coordinator_wake. */
#ifndef TARRY_COORDINATOR_BACKEND_H
#define TARRY_COORDINATOR_BACKEND_H

#include "coordinator.h"

/* What this process has declared. */
struct presence {
    char name[COORDINATOR_NAME_SIZE_MAX + 1];
    char text[COORDINATOR_PRESENCE_SIZE_MAX + 1];
};
/* It is said again so often within its time. */
#define PRESENCE_PARTS 4u

struct backend {
    const char *scheme;    /* "zk://" */
    const char *warning;   /* see coordinator_warning */
    bool has_certificates; /* the options' ca, certificate and key are for it */
    /* The part behind the scheme. 0, or 1 with a sentence. */
    int (*check)(const char *place, char message[COORDINATOR_MESSAGE_SIZE]);
    /* On the opener's thread, before the coordinator's own runs. 0, or 1 with a sentence. */
    int (*open)(struct coordinator *coordinator, const char *place, const struct coordinator_options *options,
                void **out, char message[COORDINATOR_MESSAGE_SIZE]);
    /* No call is under way any more. */
    void (*close)(void *state);
    /* Until `wake` is readable or `turn` has something to do, for `wait_ms` at most. */
    void (*wait)(void *state, int wake, int wait_ms);
    /* Ends by coordinator_finish, here or later. */
    void (*start)(void *state, struct coordinator_call *call);
    /* The call's time is over: forget it; coordinator.c finishes it. */
    void (*abandon)(void *state, struct coordinator_call *call);
    /* After each wake-up, once a COORDINATOR_TURN_MS at least. */
    void (*turn)(void *state);
    /* Before each turn. This process is present, as `presence` says; NULL: it is not, or not any more. */
    void (*declare)(void *state, const struct presence *presence);
    /* From now on a watch waits for the entry, or for the presence under that name. */
    void (*watch)(void *state, const char *name);
};
#define COORDINATOR_TURN_MS 1000

extern const struct backend file_backend;
extern const struct backend zookeeper_backend;
extern const struct backend etcd_backend;
extern const struct backend etcds_backend;

/* Writes the sentence; 1. Pure. */
int coordinator_refuse(char message[COORDINATOR_MESSAGE_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* `call` is over; call->version, value, traits, the changes' versions and reason are set as the outcome asks. */
void coordinator_finish(struct coordinator *coordinator, struct coordinator_call *call, enum pair_outcome outcome);
/* The same as PAIR_UNKNOWN, or PAIR_REFUSED, with a sentence. */
void coordinator_fail(struct coordinator *coordinator, struct coordinator_call *call, enum pair_outcome outcome,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Whether the entry may be at `version` after what was seen of it. (An answer need not ask: coordinator_finish does.)
 */
bool coordinator_believes(struct coordinator *coordinator, const char *name, uint64_t version,
                          const struct coordinator_trait *trait);
void coordinator_is(struct coordinator *coordinator, enum coordinator_state state, uint64_t sessions,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
/* It has taken what was declared, `text`; NULL: it is not known (any more). */
void coordinator_stood(struct coordinator *coordinator, const char *text);
/* The entry may be another; NULL: all may be. */
void coordinator_changed(struct coordinator *coordinator, const char *name);
/* What `wait` does where there is one descriptor, or none (-1), beside `wake`. */
void coordinator_poll(int wake, int descriptor, int wait_ms);
/* Any thread: let `turn` run. */
void coordinator_wake(struct coordinator *coordinator);
uint64_t coordinator_now_ms(void); /* CLOCK_BOOTTIME */

#endif
