/* tarry_look.h: read requests, which change nothing: one task, a list, a calendar, queues, statistics, jobs. Part of
 * tarry.h, which includes it and has the rules on units, errors and threads. */
#ifndef TARRY_LOOK_H
#define TARRY_LOOK_H

#ifndef TARRY_H
#error "include tarry.h before this header"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One share of a task that went to its groups (docs/GROUPS.md). */
struct tarry_share {
    const char *queue; /* the group */
    uint64_t id;       /* id of the share, for requests about it alone */
    const char *state; /* state of the share, as in struct tarry_view */
    uint32_t attempt;
    uint32_t deliveries;
    uint64_t delivered_ms; /* time of the last delivery; 0: never delivered */
    uint64_t ended_ms;     /* time at which the share ended; 0: it has not ended */
};

/* One task as the broker knows it. The library owns the memory; strings are valid as long as the view. */
struct tarry_view {
    /* TARRY_PENDING, _IN_FLIGHT or _DEAD, or how the task ended, or TARRY_UNKNOWN (then only known_since_ms is
     * valid). */
    enum tarry_outcome outcome;
    uint64_t known_since_ms; /* valid if `outcome` is TARRY_UNKNOWN: the broker remembers ended tasks since this time */
    uint64_t id;
    const char *queue;
    const char *key; /* ends with a 0; NULL: no key */
    size_t key_size;
    /* "pending", "ready", "in_flight", "dead", "acked", "cancelled", "expired", "dropped", "shared" or "unmatched" */
    const char *state;
    uint64_t due_ms;
    bool absolute; /* true: the due time was given as an absolute time (TARRY_AT) */
    uint32_t priority;
    uint32_t attempt; /* delivery attempts charged so far; 0 for an ended task, whose attempts are not remembered */
    uint32_t deliveries;
    uint64_t scheduled_ms;
    uint64_t expires_ms; /* duration after the due time at which an undelivered task expires; 0: never */
    /* time of the last delivery; 0: never delivered */
    uint64_t delivered_ms;
    /* session that holds the task, or held it last; 0: none */
    uint64_t session;
    /* token of the current lease; valid while the task is in flight */
    struct tarry_token token;
    uint64_t lease_deadline_ms;
    /* time at which the task became a dead letter */
    uint64_t dead_ms;
    const char *reason; /* why the task is a dead letter; "" if not known */
    uint64_t ended_ms;  /* when the task ended; 0: the task is live */
    bool has_content;   /* attributes and payload were requested and are known */
    bool redacted;      /* the task has ended, and its contents are erased or will be soon */
    const struct tarry_attribute *attributes;
    size_t attribute_count;
    const void *payload; /* without a final 0; never NULL */
    size_t payload_size;
    struct tarry_source source;
    const void *properties; /* properties of another protocol's message, such as AMQP; NULL: none */
    size_t properties_size;
    /* shares of a task in the state "shared": shares that are live, and shares whose end the broker still remembers */
    const struct tarry_share *shares;
    size_t share_count;
    uint64_t spread_ms; /* how much later than requested the task is due (spread_ms of struct tarry_policy) */
    const char *serial; /* serial name (struct tarry_schedule_options); NULL: none, or the task has ended */
    /* The task's own settings (struct tarry_schedule_options). 0: the task uses the setting of its queue, or the task
     * has ended. */
    uint64_t backoff_ms;
    uint64_t lease_ms;
    uint32_t max_attempts;
};

/* Looks up one task. TARRY_OK with outcome TARRY_UNKNOWN if the broker knows no such task. Blocks. The caller frees
 * *out_view with tarry_view_free. */
TARRY_API TARRY_MUST_USE int tarry_get(tarry_client *client, const struct tarry_ref *ref, bool with_content,
                                       const struct tarry_call *call, struct tarry_view **out_view,
                                       char out_message[TARRY_MESSAGE_SIZE]);
/* Frees the view. NULL is allowed. */
TARRY_API void tarry_view_free(struct tarry_view *view);

/* Iterator over the tasks of a queue in order of due time. It requests them in pages. */
typedef struct tarry_list tarry_list;
/* Options of tarry_list_open. */
struct tarry_list_options {
    const char *queue;
    uint32_t states; /* bits of enum tarry_state; 0: pending, ready and in flight */
    /* only tasks due at this time or later */
    uint64_t due_from_ms;
    uint64_t due_to_ms;     /* only tasks due before this time; 0: no end */
    const char *prefix;     /* only keys that begin with this; NULL: all tasks */
    size_t prefix_size;     /* bytes; 0: strlen(prefix) */
    uint64_t limit;         /* limit for the number of tasks; 0: none */
    struct tarry_call call; /* settings of each page request */
    uint64_t reserved[6];   /* for later versions; must be 0 */
};
/* Opens a list. No request is sent yet. `options` is copied. The caller closes *out_list. One thread at a time may
 * use a list. */
TARRY_API TARRY_MUST_USE int tarry_list_open(tarry_client *client, const struct tarry_list_options *options,
                                             tarry_list **out_list);
/* Returns the next task. *out_view is valid until the next call on this list. TARRY_E_END: there are no more tasks.
 * After any other code the list is incomplete; the call may be repeated and continues where it stopped.
 * `out_message` may be NULL. Blocks. */
TARRY_API TARRY_MUST_USE int tarry_list_next(tarry_list *list, const struct tarry_view **out_view,
                                             char out_message[TARRY_MESSAGE_SIZE]);
/* Closes the list. NULL is allowed. */
TARRY_API void tarry_list_close(tarry_list *list);

/* Options of tarry_calendar, which counts waiting tasks (pending and ready) by due time. The counts are exact as of
 * one log position, which is not older than the request. */
struct tarry_calendar_options {
    const char *queue; /* NULL: all queues that the caller may see, added up */
    uint64_t from_ms;  /* start of the first span, Unix ms; a whole minute */
    uint64_t step_ms;  /* length of each span; whole minutes, at most 366 days */
    uint32_t spans;    /* number of spans, at most 10,080 */
    bool by_queue;     /* also count the tasks of each queue */
    struct tarry_call call;
    uint64_t reserved[6]; /* for later versions; must be 0 */
};
/* One queue and the number of its tasks in all spans together. */
struct tarry_calendar_queue {
    const char *name;
    uint64_t count;
};
/* Result of tarry_calendar. The library owns the memory. */
struct tarry_calendar_view {
    uint64_t from_ms; /* start of the first span, as in the options */
    uint64_t step_ms;
    size_t count;
    const uint64_t *counts; /* array of `count` numbers of tasks, one per span */
    uint64_t before;        /* number of tasks due before the first span */
    uint64_t after;         /* number of tasks due after the last span */
    size_t queue_count;
    /* with by_queue: array of `queue_count` queues that have tasks in the spans */
    const struct tarry_calendar_queue *const *queues;
    uint64_t position; /* the counts are as of this log position */
    uint64_t at_ms;    /* when the last frame below `position` was written */
    uint64_t now_ms;   /* time of the answer; tasks that are due before it are ready */
    struct tarry_source source;
};
/* Counts waiting tasks by due time. Blocks. The caller frees *out_view. TARRY_BUSY: the broker's index lags, or is
 * still recounting after an upgrade from an older version. TARRY_TOO_LARGE: too many counts for one request; ask for
 * spans of whole hours, for one queue or for a shorter time. */
TARRY_API TARRY_MUST_USE int tarry_calendar(tarry_client *client, const struct tarry_calendar_options *options,
                                            struct tarry_calendar_view **out_view,
                                            char out_message[TARRY_MESSAGE_SIZE]);
/* Frees the view. NULL is allowed. */
TARRY_API void tarry_calendar_free(struct tarry_calendar_view *view);

/* One queue. Part of struct tarry_queues_view. */
struct tarry_queue_view {
    const char *name;
    const struct tarry_policy *policy;
    bool paused;
    uint64_t paused_until_ms; /* end of the pause; 0: the queue stays paused until it is resumed */
    uint64_t pending;         /* number of waiting tasks, ready tasks included */
    uint64_t in_flight;
    uint64_t dead;
    uint32_t jobs; /* number of jobs (purges and the like) that are still running */
};
/* Result of tarry_queues. The library owns the memory. */
struct tarry_queues_view {
    size_t count;
    const struct tarry_queue_view *const *queues; /* array of `count` queues, sorted by name */
    struct tarry_source source;
};
/* Lists all queues that the caller may see. Blocks. The caller frees *out_view. */
TARRY_API TARRY_MUST_USE int tarry_queues(tarry_client *client, const struct tarry_call *call,
                                          struct tarry_queues_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);
/* Frees the view. NULL is allowed. */
TARRY_API void tarry_queues_free(struct tarry_queues_view *view);

/* Quantiles of `count` measured values. The field name has the unit. This struct never changes. */
struct tarry_quantiles {
    uint64_t count;
    double p50, p99, p999, max;
};
/* Statistics of one queue. */
struct tarry_queue_stats {
    const char *name;
    uint64_t pending; /* number of tasks that are not due yet */
    uint64_t ready;
    /* `ready` is a lower bound: there may be more */
    bool ready_is_lower_bound;
    uint64_t in_flight;
    uint64_t dead;
    bool paused;
    uint64_t paused_until_ms;
    uint64_t scheduled; /* this and the following counters up to `dropped` count since the creation of the queue */
    uint64_t cancelled;
    uint64_t delivered;
    uint64_t acked;
    uint64_t retried;
    uint64_t expired;
    uint64_t dropped;
    uint64_t oldest_overdue_ms; /* how long the oldest ready task has been due; 0: no task is ready */
    /* delay between due time and delivery */
    struct tarry_quantiles lateness_ms;
    uint32_t jobs;      /* number of jobs (purges and the like) that are still running */
    uint32_t consumers; /* number of connected consumers */
    uint64_t parked;    /* number of ready tasks that wait until no other task of their serial name is in flight */
};
/* Statistics of the broker. */
struct tarry_broker_stats {
    const char *version;
    /* current epoch: it grows with each start and failover */
    uint32_t epoch;
    uint64_t now_ms;
    uint64_t uptime_ms;
    uint64_t appended; /* end of the log, in memory or on disk; a log position counts bytes */
    /* end of the durable log */
    uint64_t durable;
    /* the index contains the log below this position */
    uint64_t indexed;
    /* start of the oldest segment of the log */
    uint64_t log_start;
    /* number of segments of the log, without the archive */
    uint64_t segments;
    uint64_t log_bytes;
    uint64_t index_bytes;
    uint64_t near_tasks; /* tasks held in memory */
    /* memory for tasks that is in use */
    uint64_t core_bytes;
    uint64_t core_bytes_max;
    uint64_t resident_bytes;
    /* open sessions of consumers */
    uint64_t sessions;
    uint64_t producers;
    /* live tasks: pending, ready, in flight and dead letters */
    uint64_t live;
    struct tarry_quantiles fsync_us;
    /* checksum of the broker's state, compared between the nodes of a pair */
    uint64_t digest;
    bool clock_held;    /* true: the wall clock jumped, and tasks with an absolute due time wait (TIME-2) */
    const char *member; /* id of the data directory, in hexadecimal; a restored copy has another id */
    uint64_t erased;    /* redactions recorded below this log position are complete */
    /* number of archived segments; this and the archive fields below are updated once a minute */
    uint64_t archived_segments;
    uint64_t archive_bytes;
    uint64_t archive_oldest_ms; /* end time of the oldest archived segment; 0: the archive is empty */
    uint64_t archive_held;      /* number of archived segments that the operator has protected from pruning */
    const char *archive_error;  /* why the broker cannot archive segments now; "": no error */
    uint64_t disk_free_bytes;   /* free bytes of the data directory's file system */
    uint64_t disk_size_bytes; /* size of the data directory's file system in bytes; 0: the broker does not report it */
    uint64_t signed_position; /* log position of the last signed head; 0: the broker signs nothing */
    uint64_t signed_ms;       /* time of the last signed head of the log */
    /* the wall clock of the broker's host, right or wrong; 0: the broker does not report it */
    uint64_t host_ms;
};
/* Statistics of one queue with a push URL (docs/WEBHOOKS.md), counted since this broker became the primary. */
struct tarry_push_stats {
    const char *queue;
    uint32_t in_flight; /* number of POST requests that have no response yet */
    uint64_t sent;      /* number of POST requests that have ended */
    uint64_t acked;     /* number of ended requests with a 2xx response */
    uint64_t failed;    /* number of ended requests with another response or none */
    uint64_t refused;   /* number of responses with status 410; their tasks became dead letters */
    /* HTTP status of the request that ended last; 0: it had no response, or none has ended */
    uint32_t status;
    uint64_t succeeded_ms;     /* time of the last success; 0: none */
    uint64_t failed_ms;        /* time of the last failure; 0: none */
    const char *error;         /* the last failure, or the reason why nothing is sent; "": no failure */
    uint64_t resting_until_ms; /* nothing is sent before this time; 0: sending is not suspended */
    const char *url;           /* target URL from the queue's policy */
    bool signs; /* true: the file of secrets has a secret for this queue; false: nothing is sent, and `error` says why
                   if known */
};
/* Result of tarry_stats. The library owns the memory. */
struct tarry_stats_view {
    size_t count;
    const struct tarry_queue_stats *const *queues; /* array of `count` queues, sorted by name */
    const struct tarry_broker_stats *broker;
    struct tarry_source source;
    const struct tarry_pair_stats *pair; /* NULL: the broker has no peer */
    size_t push_count;
    const struct tarry_push_stats *const *push; /* array of `push_count` entries, one per queue with a push URL */
};
/* Returns statistics of the broker and of one queue, or of all queues if `queue` is NULL. Blocks. The caller frees
 * *out_view. */
TARRY_API TARRY_MUST_USE int tarry_stats(tarry_client *client, const char *queue, const struct tarry_call *call,
                                         struct tarry_stats_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);
/* Frees the view. NULL is allowed. */
TARRY_API void tarry_stats_free(struct tarry_stats_view *view);

/* Progress of one job of a queue. A plain value. */
struct tarry_job_view {
    /* false: the other fields are invalid. The broker forgets a job when it starts again, and when 64 newer jobs have
     * run. */
    bool known;
    bool running;
    uint64_t done; /* tasks that the job has ended or requeued so far */
    uint64_t left; /* dead letters that stay because a live task has their key */
    struct tarry_source source;
    uint64_t reserved[11]; /* always 0 */
};
/* Looks up a job by the number in tarry_result.job. Blocks. */
TARRY_API TARRY_MUST_USE int tarry_job(tarry_client *client, const char *queue, uint64_t job,
                                       const struct tarry_call *call, struct tarry_job_view *out_view,
                                       char out_message[TARRY_MESSAGE_SIZE]);

/* A reply as packed bytes of tarry.Reply in tarry.proto (`pkg-config --variable=proto tarry`). The library owns the
 * memory. */
struct tarry_answer {
    const void *reply;
    size_t size; /* bytes */
    struct tarry_source source;
};
/* Sends `request`, a packed tarry.Request of `size` bytes, and returns the packed reply. It serves programs that use
 * the messages of tarry.proto: they can read fields that are newer than this header. The body is a Get, List, Queues,
 * Stats, Calendar or Pair (STATUS); the library sets the other fields. Blocks. The caller frees *out_answer. */
TARRY_API TARRY_MUST_USE int tarry_question(tarry_client *client, const void *request, size_t size,
                                            const struct tarry_call *call, struct tarry_answer **out_answer,
                                            char out_message[TARRY_MESSAGE_SIZE]);
/* Frees the answer. NULL is allowed. */
TARRY_API void tarry_answer_free(struct tarry_answer *answer);

#ifdef __cplusplus
}
#endif

#endif
