/* tarry_pair.h: status and control of a pair, a primary and its follower. Part of tarry.h, which includes it and has
 * the rules on units, errors and threads.
 *
 * These calls concern one broker, so their client must have exactly one address; otherwise TARRY_E_ARGUMENT. A
 * broker answers them in every role. All of them block. */
#ifndef TARRY_PAIR_H
#define TARRY_PAIR_H

#ifndef TARRY_H
#error "include tarry.h before this header"
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum tarry_role {
    TARRY_PRIMARY = 1,
    TARRY_FOLLOWER = 2,
    TARRY_LOOKING = 3,      /* the node has no role yet: it does not know the primary, or waits for an operator */
    TARRY_PROMOTING = 4,    /* the node is about to become the primary */
    TARRY_HANDING_OVER = 5, /* the node is still the primary, but accepts no writes */
    TARRY_COPYING = 6       /* the node is a follower that must first fetch a snapshot */
};
/* Returns the role's name: "primary", "handing_over" …; "unknown" for a number that this version does not know.
 * Static string. */
TARRY_API const char *tarry_role_name(enum tarry_role role);

enum tarry_replication {
    TARRY_REPLICATION_NONE = 0,
    TARRY_REPLICATION_ASYNC = 1, /* the follower may lack acknowledged changes */
    TARRY_REPLICATION_SYNC = 2   /* acknowledged changes are durable on both nodes */
};
/* Returns "none", "async" or "sync". Static string. */
TARRY_API const char *tarry_replication_name(enum tarry_replication replication);

/* A broker's own view of its pair. The library owns the memory; strings are never NULL. */
struct tarry_pair_view {
    enum tarry_role role;
    uint32_t epoch;      /* epoch in which this broker leads or follows */
    uint32_t node;       /* number of this broker in the pair; 0: it founded the cluster; 1: it joined the cluster */
    const char *cluster; /* cluster id, hexadecimal */
    const char *member;  /* id of the data directory, hexadecimal */
    const char *url;     /* address that other nodes use for this broker */
    const char *primary; /* address of the primary; "": not known */
    enum tarry_replication replication;
    /* A duration: how long the primary waits for a silent follower before it continues alone. 0: it always waits. */
    uint64_t solo_after_ms;
    const char *coordinator; /* the configured coordinator; "": an operator decides */
    const char *problem;     /* one sentence: what prevents normal operation; "": no problem */
    uint64_t since_ms;       /* time at which the broker took its present role */
    uint64_t now_ms;
    bool in_sync; /* true: acknowledged changes are durable on both nodes */
    bool alone;   /* true: the primary has acknowledged changes without its follower since both were last in sync */
    uint64_t appended; /* end of this broker's log; log positions count bytes */
    /* end of this broker's durable log */
    uint64_t durable;
    /* end of the log that is durable on all nodes on which the replication mode requires durability */
    uint64_t committed;
    uint64_t applied;     /* answers of this broker show the log up to this position */
    uint64_t copied_size; /* TARRY_COPYING: bytes of the snapshot received so far */
    /* TARRY_COPYING: size of the snapshot in bytes */
    uint64_t copy_size;
    /* The fields from here to lag_ms describe the other node of the pair. */
    bool has_peer; /* whether the other node of the pair is known; if false, the peer_ and lag_ fields are invalid */
    const char *peer_url;
    const char *peer_member; /* id of the peer's data directory; "": the peer has never answered */
    uint64_t peer_heard_ms;  /* time of the last message from the peer; 0: never */
    uint64_t peer_durable;
    uint64_t peer_applied;
    uint64_t lag_frames; /* frames that the follower lacks, whether this node is the follower or the primary */
    uint64_t lag_size;
    uint64_t lag_ms; /* age of the oldest frame that the follower lacks; 0: it lacks none */
    /* Last comparison of both nodes' digests (checksums of their state) at the same log position. */
    bool has_digest;
    uint64_t digest_position;
    uint64_t digest;
    uint64_t peer_digest; /* digest of the peer; if it differs from `digest`, the state of one node is wrong */
    /* time of the last comparison of digests */
    uint64_t compared_ms;
    uint64_t compared_count; /* number of digest comparisons since the broker started */
    /* primary: time since which acknowledged changes are only on its own disk; 0: no such changes, or the mode is async
     */
    uint64_t alone_since_ms;
    /* The coordinator's record as text, for tarry_pair_record. "": there is none, or it was not requested. */
    const char *record;
    const char *const *urls;   /* addresses on which the broker listens, in the order of its --listen options */
    size_t url_count;          /* number of `urls`; 0: the broker's version does not report them */
    uint64_t peer_copied_size; /* primary whose follower fetches a snapshot: bytes that the follower has received */
    /* primary whose follower fetches a snapshot: the snapshot's size in bytes; 0: no snapshot is fetched */
    uint64_t peer_copy_size;
    /* Estimated time in milliseconds until the follower has the snapshot or the frames that it lacks. 0: the follower
     * lacks little, or the time is not known. */
    uint64_t left_ms;
    /* Primary: time when this broker took over from the other node. 0: this broker has been the primary since its
     * start. */
    uint64_t took_over_ms;
};

/* The main numbers of struct tarry_pair_view, as part of tarry_stats. */
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
    uint64_t digest_position; /* log position of the last digest comparison; 0: none yet */
    uint64_t compared_count;
    uint64_t copied_size; /* bytes of the snapshot, as peer_copied_size and peer_copy_size of struct tarry_pair_view */
    uint64_t copy_size;
    uint64_t left_ms;
};

/* Asks the broker for its view of the pair. The caller frees *out_view. TARRY_UNSUPPORTED: the broker's version has
 * no pairs. */
TARRY_API TARRY_MUST_USE int tarry_pair_status(tarry_client *client, const struct tarry_call *call,
                                               struct tarry_pair_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);
/* Frees the view. NULL is allowed. */
TARRY_API void tarry_pair_free(struct tarry_pair_view *view);

/* Statement of the operator about the peer, for a pair without a coordinator. The brokers record it. */
enum tarry_assertion {
    TARRY_ASSERT_NOTHING = 0,
    /* The operator states that the peer is stopped, and that the peer has not served alone after the last time when
       both nodes were in sync. If this is wrong, tasks are lost. */
    TARRY_PEER_IS_STOPPED = 1,
    TARRY_FORCE = 2 /* promote even if changes that the peer has acknowledged are lost */
};
/* Starts to make the broker the primary. If the peer is the primary, the peer hands over first. Returns at once with
 * the current status; call tarry_pair_status until the role is TARRY_PRIMARY. TARRY_OK if the broker is the primary
 * already. TARRY_NOT_DONE: the message has the reason. The caller frees *out_view. */
TARRY_API TARRY_MUST_USE int tarry_promote(tarry_client *client, enum tarry_assertion assertion,
                                           const struct tarry_call *call, struct tarry_pair_view **out_view,
                                           char out_message[TARRY_MESSAGE_SIZE]);
/* Starts to hand over to the follower, which becomes the primary once it has the whole log. Returns at once with the
 * current status. The caller frees *out_view. */
TARRY_API TARRY_MUST_USE int tarry_demote(tarry_client *client, const struct tarry_call *call,
                                          struct tarry_pair_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);
/* Returns the coordinator's record of the pair, in out_view->record. If `writes` is true, the broker also writes the
 * record again, and restarts itself; use this after the record was lost or set back to an old version. If `writes` is
 * true and the broker is not the primary, `assertion` must be TARRY_PEER_IS_STOPPED. TARRY_NOT_DONE: the message has
 * the reason. The caller frees *out_view. */
TARRY_API TARRY_MUST_USE int tarry_pair_record(tarry_client *client, bool writes, enum tarry_assertion assertion,
                                               const struct tarry_call *call, struct tarry_pair_view **out_view,
                                               char out_message[TARRY_MESSAGE_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
