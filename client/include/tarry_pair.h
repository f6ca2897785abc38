/* tarry_pair.h: a primary and its follower: how each is, and which leads. A part of tarry.h, which includes it and has
 * the rules on units, errors and threads.
 *
 * These calls mean one broker, so the client that they are given has one address; with several they are refused
 * (TARRY_E_ARGUMENT). A broker answers them whatever its role. */
#ifndef TARRY_PAIR_H
#define TARRY_PAIR_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum tarry_role {
    TARRY_PRIMARY = 1,
    TARRY_FOLLOWER = 2,
    TARRY_LOOKING = 3,      /* neither: it does not know the leader yet, or waits for an operator */
    TARRY_PROMOTING = 4,    /* on its way to be the primary */
    TARRY_HANDING_OVER = 5, /* still the primary, and takes no writes any more */
    TARRY_COPYING = 6       /* a follower that fetches a snapshot first */
};
/* "primary", "handing_over" …; "unknown" for numbers that this version does not know. Static. */
TARRY_API const char *tarry_role_name(enum tarry_role role);

enum tarry_replication {
    TARRY_REPLICATION_NONE = 0,
    TARRY_REPLICATION_ASYNC = 1, /* the follower may lack what was acknowledged */
    TARRY_REPLICATION_SYNC = 2   /* acknowledged is what is durable on both */
};
TARRY_API const char *tarry_replication_name(enum tarry_replication replication); /* "none", "async", "sync" */

/* A broker as it sees itself. Owned by the library; texts are never NULL. */
struct tarry_pair_view {
    enum tarry_role role;
    uint32_t epoch;      /* that it leads or follows */
    uint32_t node;       /* 0: it founded the cluster, 1: it joined */
    const char *cluster; /* hexadecimal */
    const char *member;  /* the data directory's own id, hexadecimal */
    const char *url;     /* how others reach it */
    const char *primary; /* where the primary is, as far as known; "": not known */
    enum tarry_replication replication;
    uint64_t
        solo_after_ms; /* a duration: the primary goes on without a follower that is silent for so long; 0: never */
    const char *coordinator; /* ""; an operator decides */
    const char *problem;     /* a sentence: what keeps it from what it should do; "" */
    uint64_t since_ms;       /* of the role */
    uint64_t now_ms;
    bool in_sync;      /* what is acknowledged is durable on both */
    bool alone;        /* a primary that has acknowledged without its follower since they were last in sync */
    uint64_t appended; /* log positions count bytes */
    uint64_t durable;
    uint64_t committed;   /* durable wherever it must be */
    uint64_t applied;     /* shown by answers */
    uint64_t copied_size; /* TARRY_COPYING: so far, of … */
    uint64_t copy_size;
    /* the other */
    bool has_peer; /* otherwise the rest is void */
    const char *peer_url;
    const char *peer_member; /* "": never heard of */
    uint64_t peer_heard_ms;  /* the last word of it; 0: never */
    uint64_t peer_durable;
    uint64_t peer_applied;
    uint64_t lag_frames; /* the follower's behind the primary, whichever of them this one is */
    uint64_t lag_size;
    uint64_t lag_ms; /* age of the oldest frame that the follower lacks; 0: it has all */
    /* the last digests of both, after the same log position */
    bool has_digest;
    uint64_t digest_position;
    uint64_t digest;
    uint64_t peer_digest; /* the same, or one of the two is wrong */
    uint64_t compared_ms;
    uint64_t compared_count; /* how often since the broker started */
    uint64_t alone_since_ms; /* a primary: since when what it acknowledges is on its disk only; 0: it is not */
    const char *record;      /* of tarry_pair_record: the coordinator's, as text; "": there is none, or it was not asked
                                for */
    const char *const *urls; /* where it listens, in the order of its --listen … */
    size_t url_count;        /* … all of it; 0: a version that does not say */
    uint64_t peer_copied_size; /* asked of a primary, whose follower fetches a snapshot: so far, of … */
    uint64_t peer_copy_size;   /* … so many bytes; 0: it fetches none */
    uint64_t left_ms; /* about so long until the follower has that, or what it lacks; 0: little, or not known */
    uint64_t
        took_over_ms; /* a primary: when it took over from the node that it followed; 0: it has led since it began */
};

/* The same in numbers, as tarry_stats tells them; see tarry_pair_view. */
struct tarry_pair_stats {
    enum tarry_role role;
    uint32_t epoch;
    bool in_sync;
    bool alone;
    uint64_t committed;
    uint64_t applied;
    uint64_t lag_frames;
    uint64_t lag_size;
    uint64_t lag_ms;
    uint64_t digest_position; /* 0: none has been compared yet */
    uint64_t compared_count;
    uint64_t copied_size; /* as peer_copied_size of tarry_pair_view */
    uint64_t copy_size;
    uint64_t left_ms;
};

/* How the broker is. The caller frees *out_view. TARRY_UNSUPPORTED: a broker that knows no pairs. */
TARRY_API TARRY_MUST_USE int tarry_pair_status(tarry_client *client, const struct tarry_call *call,
                                               struct tarry_pair_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API void tarry_pair_free(struct tarry_pair_view *view);

/* An operator's word, where no coordinator decides. Recorded by the brokers. */
enum tarry_assertion {
    TARRY_ASSERT_NOTHING = 0,
    TARRY_PEER_IS_STOPPED =
        1,          /* and has not served alone since this broker was in sync: if that is wrong, tasks are lost */
    TARRY_FORCE = 2 /* even if what the peer has acknowledged is lost */
};
/* Begins to make the broker the primary; if another is, it hands over first. Answered at once, with how it is by then:
 * ask for its status until it is TARRY_PRIMARY. It is no error if it is already. TARRY_NOT_DONE: the message says what
 * stands in the way. */
TARRY_API TARRY_MUST_USE int tarry_promote(tarry_client *client, enum tarry_assertion assertion,
                                           struct tarry_pair_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);
/* Begins to hand over to the follower, which becomes the primary once it has everything. Answered at once, as above. */
TARRY_API TARRY_MUST_USE int tarry_demote(tarry_client *client, struct tarry_pair_view **out_view,
                                          char out_message[TARRY_MESSAGE_SIZE]);
/* What the coordinator keeps of the pair. `writes`: it was lost, or put back to an earlier state, and the broker writes
 * it again, then starts again; for a broker that is not the primary the assertion must be TARRY_PEER_IS_STOPPED.
 * TARRY_NOT_DONE: the message says what stands in the way. */
TARRY_API TARRY_MUST_USE int tarry_pair_record(tarry_client *client, bool writes, enum tarry_assertion assertion,
                                               struct tarry_pair_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
