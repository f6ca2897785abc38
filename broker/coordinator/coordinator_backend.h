/* coordinator_backend.h: the interface of the kinds of coordinator (etcd, ZooKeeper, file). coordinator.c owns the
 * thread, the calls and their deadlines; a backend executes each call and finishes it once. Thread-safety: all
 * functions run on the coordinator's own thread, except coordinator_wake. */
#ifndef TARRY_COORDINATOR_BACKEND_H
#define TARRY_COORDINATOR_BACKEND_H

#include "coordinator.h"

/* Presence that this process has declared. */
struct presence {
    char name[COORDINATOR_NAME_SIZE_MAX + 1];
    char text[COORDINATOR_PRESENCE_SIZE_MAX + 1];
};
/* Number of times that a presence is renewed within its lifetime. */
#define PRESENCE_PARTS 4u

struct backend {
    const char *scheme;    /* "zk://" */
    const char *warning;   /* see coordinator_warning */
    bool has_certificates; /* this kind of coordinator uses the options ca, certificate and key */
    /* Checks the part of the URL behind the scheme. Returns 0, or 1 with an error message. */
    int (*check)(const char *place, char message[COORDINATOR_MESSAGE_SIZE]);
    /* Opens the backend. Runs on the opener's thread, before the coordinator's thread starts. Returns 0, or 1 with an
     * error message. */
    int (*open)(struct coordinator *coordinator, const char *place, const struct coordinator_options *options,
                void **out, char message[COORDINATOR_MESSAGE_SIZE]);
    /* Closes the backend, when no call is running any more. */
    void (*close)(void *state);
    /* Waits at most `wait_ms` until `wake` is readable or `turn` has work. */
    void (*wait)(void *state, int wake, int wait_ms);
    /* Starts the call; coordinator_finish ends it, within this function or later. */
    void (*start)(void *state, struct coordinator_call *call);
    /* Abandons a call that has timed out. coordinator.c reports the timeout to the caller. */
    void (*abandon)(void *state, struct coordinator_call *call);
    /* Does pending work. Called after each wake-up, at least every COORDINATOR_TURN_MS. */
    void (*turn)(void *state);
    /* Sets the presence of this process; NULL: not present. Called before each turn. */
    void (*declare)(void *state, const struct presence *presence);
    /* Starts to watch an entry, or the presence under that name. */
    void (*watch)(void *state, const char *name);
};
#define COORDINATOR_TURN_MS 1000

extern const struct backend file_backend;
extern const struct backend zookeeper_backend;
extern const struct backend etcd_backend;
extern const struct backend etcds_backend;

/* Writes the error message and returns 1. Pure. */
int coordinator_refuse(char message[COORDINATOR_MESSAGE_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ends `call`. Its version, value, traits, reason and the versions of its changes must be set as the outcome requires.
 */
void coordinator_finish(struct coordinator *coordinator, struct coordinator_call *call, enum pair_outcome outcome);
/* Ends `call` as PAIR_UNKNOWN or PAIR_REFUSED, with an error message. */
void coordinator_fail(struct coordinator *coordinator, struct coordinator_call *call, enum pair_outcome outcome,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Returns false if an answer with `version` and `trait` contradicts an earlier answer about the entry.
 * coordinator_finish makes this check itself for each answer. */
bool coordinator_believes(struct coordinator *coordinator, const char *name, uint64_t version,
                          const struct coordinator_trait *trait);
void coordinator_is(struct coordinator *coordinator, enum coordinator_state state, uint64_t sessions,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Reports that the coordinator has the declared `text`; NULL: this is unknown. */
void coordinator_stood(struct coordinator *coordinator, const char *text);
/* Reports that the entry may have changed; NULL: every entry may have changed. */
void coordinator_changed(struct coordinator *coordinator, const char *name);
/* Implements `wait` for a backend with one descriptor beside `wake`, or with none (-1). */
void coordinator_poll(int wake, int descriptor, int wait_ms);
/* Lets `turn` run soon. Any thread. */
void coordinator_wake(struct coordinator *coordinator);
uint64_t coordinator_now_ms(void); /* CLOCK_BOOTTIME */

#endif
