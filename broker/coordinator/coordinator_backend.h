/* coordinator_backend.h: the interface of a kind of coordinator. coordinator.c owns the thread, the calls and their
 * deadlines; a backend starts each call and finishes it exactly once.
 *
 * Thread-safety: all of this runs on the coordinator's own thread, save coordinator_wake. */
#ifndef TARRY_COORDINATOR_BACKEND_H
#define TARRY_COORDINATOR_BACKEND_H

#include "coordinator.h"

/* The declaration of this process. */
struct presence {
    char name[COORDINATOR_NAME_SIZE_MAX + 1];
    char text[COORDINATOR_PRESENCE_SIZE_MAX + 1];
};
/* Renewals of a declaration within presence_ms. */
#define PRESENCE_PARTS 4u

struct backend {
    const char *scheme;    /* "zk://" */
    const char *warning;   /* see coordinator_warning */
    bool has_certificates; /* uses the options ca, certificate and key */
    /* Checks the part of the URL behind the scheme. Returns 0, or 1 with a sentence. */
    int (*check)(const char *place, char message[COORDINATOR_MESSAGE_SIZE]);
    /* Called on the thread of coordinator_open, before the coordinator's own starts. Returns 0, or 1 with a sentence.
     */
    int (*open)(struct coordinator *coordinator, const char *place, const struct coordinator_options *options,
                void **out, char message[COORDINATOR_MESSAGE_SIZE]);
    /* Called when no call is under way any more. */
    void (*close)(void *state);
    /* Waits until `wake` is readable or `turn` has work, at most `wait_ms`. */
    void (*wait)(void *state, int wake, int wait_ms);
    /* Starts a call; coordinator_finish or coordinator_fail ends it, at once or later. */
    void (*start)(void *state, struct coordinator_call *call);
    /* Forgets a call that timed out; coordinator.c finishes it. */
    void (*abandon)(void *state, struct coordinator_call *call);
    /* Called after each wake-up, at least every COORDINATOR_TURN_MS. */
    void (*turn)(void *state);
    /* Called before each turn with the declaration of this process; NULL: it is not present. */
    void (*declare)(void *state, const struct presence *presence);
    /* Starts to watch the entry, or the presence, of that name; does nothing if it is watched already. */
    void (*watch)(void *state, const char *name);
};
#define COORDINATOR_TURN_MS 1000

extern const struct backend file_backend;
extern const struct backend zookeeper_backend;
extern const struct backend etcd_backend;
extern const struct backend etcds_backend;

/* Writes the sentence and returns 1. Pure. */
int coordinator_refuse(char message[COORDINATOR_MESSAGE_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ends `call`. The backend has set call->version, value, traits, reason and the changes' versions as the outcome needs.
 */
void coordinator_finish(struct coordinator *coordinator, struct coordinator_call *call, enum pair_outcome outcome);
/* Ends `call` as PAIR_UNKNOWN or PAIR_REFUSED, with a sentence as its reason. */
void coordinator_fail(struct coordinator *coordinator, struct coordinator_call *call, enum pair_outcome outcome,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Returns whether `version` agrees with what was seen of the entry before. (coordinator_finish checks each answer
 * itself.) */
bool coordinator_believes(struct coordinator *coordinator, const char *name, uint64_t version,
                          const struct coordinator_trait *trait);
void coordinator_is(struct coordinator *coordinator, enum coordinator_state state, uint64_t sessions,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Notes that the coordinator has the declaration `text`; NULL: that is not known. */
void coordinator_stood(struct coordinator *coordinator, const char *text);
/* Calls the watches of the entry `name`; NULL: all watches. */
void coordinator_changed(struct coordinator *coordinator, const char *name);
/* Implements `wait` for a backend with one descriptor beside `wake`; -1: none. */
void coordinator_poll(int wake, int descriptor, int wait_ms);
/* Makes `turn` run soon. Any thread. */
void coordinator_wake(struct coordinator *coordinator);
uint64_t coordinator_now_ms(void); /* CLOCK_BOOTTIME */

#endif
