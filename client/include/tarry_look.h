/* tarry_look.h: asking, without changing anything: one task, a list, queues, statistics, jobs. A part of tarry.h, which
 * includes it and has the rules on units, errors and threads. */
#ifndef TARRY_LOOK_H
#define TARRY_LOOK_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A task as the broker knows it. */
struct tarry_view {
    enum tarry_outcome outcome; /* PENDING IN_FLIGHT DEAD, or how it ended, or UNKNOWN (then the rest is void) */
    uint64_t known_since_ms;    /* UNKNOWN: endings are remembered since */
    uint64_t id;
    const char *queue;
    const char *key; /* terminated; NULL: none */
    size_t key_size;
    const char *state; /* pending ready in_flight dead acked cancelled expired dropped */
    uint64_t due_ms;
    bool absolute; /* due was given as an absolute time */
    uint32_t priority;
    uint32_t attempt; /* charged so far; 0 of a task that has ended: it is not remembered, `deliveries` is */
    uint32_t deliveries;
    uint64_t scheduled_ms;
    uint64_t expires_ms; /* a duration after due; 0: never */
    uint64_t delivered_ms;
    uint64_t session;
    struct tarry_token token;
    uint64_t lease_deadline_ms;
    uint64_t dead_ms;
    const char *reason; /* of a dead letter; "" */
    uint64_t ended_ms;  /* 0: live */
    bool has_content;   /* whether the following were asked for and are known */
    bool redacted;      /* it has ended, and what it contained is erased, or about to be */
    const struct tarry_attribute *attributes;
    size_t attribute_count;
    const void *payload; /* never NULL */
    size_t payload_size;
    struct tarry_source source;
};

/* One task. TARRY_OK with outcome UNKNOWN when there is none. The caller frees *out_view. */
TARRY_API TARRY_MUST_USE int tarry_get(tarry_client *client, const struct tarry_ref *ref, bool with_content,
                                       const struct tarry_call *call, struct tarry_view **out_view,
                                       char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API void tarry_view_free(struct tarry_view *view);

/* Tasks of a queue in order of due time, paged inside. */
typedef struct tarry_list tarry_list;
struct tarry_list_options {
    const char *queue;
    uint32_t states; /* bits of enum tarry_state; 0: all but the dead */
    uint64_t due_from_ms;
    uint64_t due_to_ms;    /* exclusive; 0: no end */
    const char *prefix;    /* of the key; NULL: any */
    size_t prefix_size;    /* 0: strlen(prefix) */
    uint64_t limit;        /* 0: no limit */
    uint64_t timeout_ms;   /* of each page that is asked for; 0: the client's; TARRY_FOREVER */
    uint64_t at_least;     /* of each page: as in struct tarry_call */
    uint64_t staleness_ms; /* likewise */
    uint64_t reserved[6];  /* must be 0 */
};
/* Asks nothing yet. A list is used by one thread at a time. */
TARRY_API TARRY_MUST_USE int tarry_list_open(tarry_client *client, const struct tarry_list_options *options,
                                             tarry_list **out_list);
/* TARRY_E_END after the last, and only then. Otherwise the call may be repeated and goes on where it was: a list that
 * ends with another code is not whole. *out_view is valid until the next call on this list. `out_message` as above. */
TARRY_API TARRY_MUST_USE int tarry_list_next(tarry_list *list, const struct tarry_view **out_view,
                                             char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API void tarry_list_close(tarry_list *list);

/* How many waiting tasks (pending and ready) fall due when: exactly, as of one log position, which is not older than
 * the question, however many there are. */
struct tarry_calendar_options {
    const char *queue;     /* NULL: all that one may see, together */
    uint64_t from_ms;      /* of the first span; a whole minute */
    uint64_t step_ms;      /* how long each span is; whole minutes, 366 days at most */
    uint32_t spans;        /* how many; 10,080 at most */
    bool by_queue;         /* moreover, how many of each queue lie in the spans */
    uint64_t timeout_ms;   /* 0: the client's; TARRY_FOREVER */
    uint64_t at_least;     /* as in struct tarry_call */
    uint64_t staleness_ms; /* likewise */
    uint64_t reserved[6];  /* must be 0 */
};
struct tarry_calendar_queue {
    const char *name;
    uint64_t count;
};
struct tarry_calendar_view {
    uint64_t from_ms; /* as asked */
    uint64_t step_ms;
    size_t count;
    const uint64_t *counts; /* `count` of them, one a span */
    uint64_t before;        /* due before the first span … */
    uint64_t after;         /* … and behind the last one */
    size_t queue_count;
    const struct tarry_calendar_queue *const *queues; /* by_queue: `queue_count` of them, those that have any */
    uint64_t position;                                /* the counts are as of it */
    uint64_t at_ms;                                   /* when what is below it was recorded last */
    uint64_t now_ms;                                  /* when it was answered: what is due before is ready */
    struct tarry_source source;
};
/* TARRY_BUSY: the broker's index does not have it yet, or counts anew after an older program. TARRY_TOO_LARGE: more
 * than can be read at once; ask for whole hours, for fewer queues, or for less time. The caller frees *out_view. */
TARRY_API TARRY_MUST_USE int tarry_calendar(tarry_client *client, const struct tarry_calendar_options *options,
                                            struct tarry_calendar_view **out_view,
                                            char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API void tarry_calendar_free(struct tarry_calendar_view *view);

struct tarry_queue_view {
    const char *name;
    const struct tarry_policy *policy;
    bool paused;
    uint64_t paused_until_ms; /* 0: until resumed */
    uint64_t pending;         /* ready ones included */
    uint64_t in_flight;
    uint64_t dead;
    uint32_t jobs; /* purges and the like that still run */
};
struct tarry_queues_view {
    size_t count;
    const struct tarry_queue_view *const *queues; /* `count` of them, by name */
    struct tarry_source source;
};
TARRY_API TARRY_MUST_USE int tarry_queues(tarry_client *client, const struct tarry_call *call,
                                          struct tarry_queues_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API void tarry_queues_free(struct tarry_queues_view *view);

struct tarry_quantiles {
    uint64_t count;
    double p50, p99, p999, max;
};
struct tarry_queue_stats {
    const char *name;
    uint64_t pending; /* not yet due */
    uint64_t ready;
    bool ready_is_lower_bound;
    uint64_t in_flight;
    uint64_t dead;
    bool paused;
    uint64_t paused_until_ms;
    uint64_t scheduled; /* counted since the queue came into being */
    uint64_t cancelled;
    uint64_t delivered;
    uint64_t acked;
    uint64_t retried;
    uint64_t expired;
    uint64_t dropped;
    uint64_t oldest_overdue_ms; /* how long the oldest ready task has been due; 0: none */
    struct tarry_quantiles lateness_ms;
    uint32_t jobs; /* purges and the like that still run */
};
struct tarry_broker_stats {
    const char *version;
    uint32_t epoch;
    uint64_t now_ms;
    uint64_t uptime_ms;
    uint64_t appended; /* log positions count bytes */
    uint64_t durable;
    uint64_t indexed;
    uint64_t log_start;
    uint64_t segments;
    uint64_t log_bytes;
    uint64_t index_bytes;
    uint64_t near_tasks; /* tasks held in memory */
    uint64_t core_bytes;
    uint64_t core_bytes_max;
    uint64_t resident_bytes;
    uint64_t sessions;
    uint64_t producers;
    uint64_t live;
    struct tarry_quantiles fsync_us;
    uint64_t digest;
    bool clock_held;            /* absolute times wait: the wall clock jumped (TIME-2) */
    const char *member;         /* the data directory's own id, hexadecimal; a restored copy has another */
    uint64_t erased;            /* redactions recorded below this log position have been carried out */
    uint64_t archived_segments; /* counted anew once a minute, like the following */
    uint64_t archive_bytes;
    uint64_t archive_oldest_ms; /* when the oldest of them ended; 0: there is none */
    uint64_t archive_held;      /* of them, those that a hold keeps from being pruned */
    const char *archive_error;  /* why nothing can be archived just now; "": all is well */
    uint64_t disk_free_bytes;   /* that the data directory's file system has left … */
    uint64_t disk_size_bytes;   /* … and has in all; 0: the broker does not say */
    uint64_t signed_position;   /* of the last signed head; 0: nothing is signed */
    uint64_t signed_ms;         /* when that was */
    uint64_t host_ms;           /* what the clock of its host says, right or wrong; 0: the broker does not say */
};
/* How it goes with one queue that is pushed (docs/WEBHOOKS.md), since this broker leads. */
struct tarry_push_stats {
    const char *queue;
    uint32_t in_flight;        /* requests on their way */
    uint64_t sent;             /* requests that have ended */
    uint64_t acked;            /* … answered with 2xx */
    uint64_t failed;           /* … answered otherwise, or not at all */
    uint64_t refused;          /* of `failed`: answered with 410, and dead letters since */
    uint32_t status;           /* HTTP's, of the request that ended last; 0: none has, or it had no answer */
    uint64_t succeeded_ms;     /* the last success; 0: none */
    uint64_t failed_ms;        /* the last failure; 0: none */
    const char *error;         /* what that was, or why nothing is sent; "": nothing has gone wrong */
    uint64_t resting_until_ms; /* nothing is sent before; 0: it is sent */
    const char *url;           /* where to, as the policy has it */
};
struct tarry_stats_view {
    size_t count;
    const struct tarry_queue_stats *const *queues; /* `count` of them, by name */
    const struct tarry_broker_stats *broker;
    struct tarry_source source;
    const struct tarry_pair_stats *pair; /* NULL: the broker has no peer */
    size_t push_count;
    const struct tarry_push_stats *const *push; /* `push_count` of them */
};
/* `queue` NULL: all. */
TARRY_API TARRY_MUST_USE int tarry_stats(tarry_client *client, const char *queue, const struct tarry_call *call,
                                         struct tarry_stats_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API void tarry_stats_free(struct tarry_stats_view *view);

/* How far a job of `queue` has come. */
struct tarry_job_view {
    bool known; /* false: it ended before the broker's last start, or before 64 others: the rest is void */
    bool running;
    uint64_t done; /* tasks ended or requeued so far */
    uint64_t left; /* dead letters left alone, because a live task holds their key */
    struct tarry_source source;
    uint64_t reserved[11]; /* always 0 */
};
TARRY_API TARRY_MUST_USE int tarry_job(tarry_client *client, const char *queue, uint64_t job,
                                       const struct tarry_call *call, struct tarry_job_view *out_view,
                                       char out_message[TARRY_MESSAGE_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
