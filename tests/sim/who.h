/* who.h: does the log say who? Every commit, queue, job and producer names the client that asked; every lease names the
 * consumer that its session is; a session comes once and goes once; after a stop comes nothing but a start. That a
 * leader serves alone begins and is over in turn. */
#ifndef TARRY_TESTS_SIM_WHO_H
#define TARRY_TESTS_SIM_WHO_H

#include "flat.h"

#define WHO_SESSIONS_MAX 4096

struct who {
    struct who_session {
        uint64_t id;
        const char *client;
        const char *peer;
        uint32_t credit; /* of a pooled one, as the core was told */
        bool over;
    } sessions[WHO_SESSIONS_MAX]; /* of this life of the broker */
    size_t session_count;
    bool stopped;                   /* the last record is a stop */
    bool alone;                     /* this reign serves alone, it says … */
    uint64_t alone_since_ms;        /* … since then */
    Tarry__EpochPut__Before before; /* what the next start has to say about the log's end */
};

/* What the next start has to say of a log whose last frame with a body is this one; NULL: there is none. */
void who_begin(struct who *who, const Tarry__FrameBody *last);
/* Before the frame is applied to `head`; `commit`: what is being decided on. */
void who_frame(struct who *who, const struct flat *head, const Tarry__FrameBody *body, const Tarry__Commit *commit);
/* The core is told how many tasks each delivery to the pooled session may have; one that is not there hears nothing. */
void who_credit(struct who *who, uint64_t session, uint32_t credit);
/* … as it was told last. */
uint32_t who_may_get(const struct who *who, uint64_t session);
/* A session has left its lane for good: the log says so by now. */
void who_left(const struct who *who, uint64_t session);

#endif
