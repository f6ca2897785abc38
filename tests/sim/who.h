/* who.h: checks that the log names the responsible client. Every commit, queue, job and producer names the client that
 * requested it; every lease names the consumer of its session. A session begins once and ends once. After a stop only a
 * start follows. Records that a leader begins to serve alone and records that it ends to serve alone alternate. */
#ifndef TARRY_TESTS_SIM_WHO_H
#define TARRY_TESTS_SIM_WHO_H

#include "flat.h"

#define WHO_SESSIONS_MAX 4096

struct who {
    struct who_session {
        uint64_t id;
        const char *client;
        const char *peer;
        uint32_t credit; /* pooled session: the credit that the core got last */
        bool over;
    } sessions[WHO_SESSIONS_MAX]; /* the sessions of this run of the broker */
    size_t session_count;
    bool stopped;                   /* true: the last record is a stop */
    bool alone;                     /* true: the log says that the leader of this epoch serves alone */
    uint64_t alone_since_ms;        /* time since which the leader serves alone, in ms */
    Tarry__EpochPut__Before before; /* how the log ended before this run; the next start must record this value */
};

/* Begins at the end of a log. `last`: the log's last frame with a body; NULL: the log is empty. Computes what the next
 * start must record about the log's end. */
void who_begin(struct who *who, const Tarry__FrameBody *last);
/* Checks a frame before it is applied to `head`. `commit` is the commit that is being decided. */
void who_frame(struct who *who, const struct flat *head, const Tarry__FrameBody *body, const Tarry__Commit *commit);
/* Notes a new credit that the core got for a pooled session. Ignores unknown sessions. */
void who_credit(struct who *who, uint64_t session, uint32_t credit);
/* Returns the credit that the core got last for the session. */
uint32_t who_may_get(const struct who *who, uint64_t session);
/* Checks that the log records the end of a session that has left its lane and got no other one. */
void who_left(const struct who *who, uint64_t session);

#endif
