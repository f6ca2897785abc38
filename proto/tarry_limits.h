/* tarry_limits.h: every limit of Tarry, by name (CAP-1, CALM-1).
 *
 * A value that a user meets is here and nowhere else; what can be configured has its default here.
 * Sizes are bytes, `_ms` are milliseconds. */
#ifndef TARRY_PROTO_TARRY_LIMITS_H
#define TARRY_PROTO_TARRY_LIMITS_H

#define WIRE_VERSION 1u
#define FORMAT_VERSION 1u /* of the data directory: log and index */
#define DEFAULT_PORT 7272
#define DEFAULT_URL "ws://127.0.0.1:7272"
#define BEANSTALK_PORT 11300

/* Tasks */
#define QUEUE_NAME_SIZE_MAX 128
#define QUEUE_RESERVED_PREFIX "tarry." /* of the broker's own queues (queue_is_reserved) */
#define KEY_SIZE_MAX 255
#define REASON_SIZE_MAX 255
#define CLIENT_NAME_SIZE_MAX 128
#define PRINCIPAL_SIZE_MAX 64 /* its name */
#define PEER_SIZE_MAX 63      /* an address as text: "[IPv6%interface]:port" */
#define CLUSTER_ID_SIZE 16
#define URL_SIZE_MAX 299 /* of a broker: "ws://host:port" */
#define ATTRIBUTES_MAX 64
#define ATTRIBUTE_NAME_SIZE_MAX 128
#define ATTRIBUTE_VALUE_SIZE_MAX 4096
#define PAYLOAD_SIZE_MAX_DEFAULT (1u << 20)
#define PAYLOAD_SIZE_MAX_LIMIT (8u << 20)
#define CONTENT_OVERHEAD_MAX (64u << 10) /* attributes of one task, all together */
#define PRIORITY_COUNT 10
#define DUE_AHEAD_MAX_MS (3653ull * 24 * 3600 * 1000) /* ten years */
#define LEASE_MAX_MS (24ull * 3600 * 1000)
#define LEASE_MIN_MS 10ull
#define BACKOFF_MAX_MS (30ull * 24 * 3600 * 1000)
#define PAUSE_MAX_MS DUE_AHEAD_MAX_MS

/* Requests */
#define OPS_PER_COMMIT_MAX 8192
#define REDACT_OPS_MAX 64     /* of a commit: each is a search through the log */
#define REDACT_TASKS_MAX 1024 /* tasks that one operation redacts, and all of a commit's together */
#define REQUEST_SIZE_MAX (16u << 20)
#define QUEUES_PER_SUBSCRIBE_MAX 256
#define LIST_LIMIT_MAX 1000
#define LIST_LIMIT_DEFAULT 1000
#define LIST_READS_MAX 8u            /* of the index, for one result page: each looks at LIST_LIMIT_MAX tasks at most */
#define FACTS_SIZE_MAX (16u << 20)   /* stored tasks that one request may read, bytes; less with a small --memory */
#define DELIVERY_SIZE_MAX (4u << 20) /* contents in one message, save when a single task is larger */

/* Looking at the log (Audit) */
#define AUDIT_FRAMES_MAX 8192
#define AUDIT_SIZE_MAX (1u << 20)  /* a page ends with the frame that reaches it */
#define AUDIT_WAIT_MAX_MS 10000ull /* a long poll */
#define AUDIT_PAGE_MAX_MS 20ull    /* a page is read for so long, then answered as it is: others wait */
#define AUDIT_READS_MAX 16         /* pages asked for and not read yet; beyond: BUSY */
#define AUDIT_WAITS_MAX 32         /* long polls at once; beyond: BUSY */

/* Tables of the broker */
#define QUEUES_MAX 4096 /* queues of clients */
#define QUEUES_OWN 16   /* places beside them that only the broker's own queues (tarry.…) take */
#define QUEUE_PLACES (QUEUES_MAX + QUEUES_OWN)
#define QUEUES_OF_CONFINED_DEFAULT 256 /* that a principal with prefixes may create, unless its row says queues= */
#define QUEUES_AWAITED_MAX 16384u      /* names of queues that do not exist and that sessions wait for */
#define QUEUES_FORMER_MAX 65536u       /* former queues whose names the index keeps */
#define SESSIONS_MAX 1024
#define LANES_MAX SESSIONS_MAX
#define LANE_REST_MS 1000u /* a lane that a session has left is not given to the next at once */
#define PREFETCH_DEFAULT 256
#define PREFETCH_MAX 16384
#define BATCH_DEFAULT 1024
#define BATCH_MAX 4096
#define LEASES_MAX (1u << 18) /* tasks in flight, all sessions together */
#define PRODUCERS_MAX 16384
#define PRODUCERS_SHARE 16u /* of each principal, that no other one can push out of the table */
#define COMMITS_PER_PRODUCER_MAX 64
#define PRODUCER_IDLE_MS (24ull * 3600 * 1000)
#define JOBS_MAX 64
#define CALENDAR_SPANS_MAX 10080u /* of one question: a week of minutes */
#define CALENDAR_STEP_MAX_MS (366ull * 24 * 3600 * 1000)
#define CALENDAR_TIME_MAX_MS 253402300800000ull /* the year 10000: no question goes further */
#define CALENDAR_UNIT_MS 60000ull
#define OUTCOMES_MAX_DEFAULT 262144
#define OUTCOME_RETENTION_DEFAULT_MS (3600ull * 1000)

/* Defaults of a queue's policy */
#define LEASE_DEFAULT_MS (30ull * 1000)
#define MAX_ATTEMPTS_DEFAULT 16
#define BACKOFF_MIN_DEFAULT_MS 1000ull
#define BACKOFF_MAX_DEFAULT_MS (10ull * 60 * 1000)
#define BACKOFF_JITTER_DEFAULT 20

/* The fields of a policy that QueueSet may name: X(field of tarry.Policy, least, most, the range for people). */
#define QUEUE_POLICY(X)                                                                                                \
    X(lease_ms, LEASE_MIN_MS, LEASE_MAX_MS, "10 ms to 24 hours")                                                       \
    X(max_attempts, 0, UINT32_MAX, "0 to 4294967295")                                                                  \
    X(backoff, 0, 1, "fixed or exponential")                                                                           \
    X(backoff_min_ms, 0, BACKOFF_MAX_MS, "0 to 30 days")                                                               \
    X(backoff_max_ms, 0, BACKOFF_MAX_MS, "0 to 30 days")                                                               \
    X(backoff_jitter, 0, 100, "0 to 100 per cent")
#define QUEUE_POLICY_NUMBERS 6
/* … and `push`, a text (check_push.c) */
#define QUEUE_POLICY_FIELDS 7

/* Webhooks (docs/WEBHOOKS.md) */
#define PUSH_URL_SIZE_MAX 512u
#define PUSH_QUEUES_MAX 256u /* queues that are pushed */
/* Requests at once: in all (--push-requests), to one host, of one queue. */
#define PUSH_REQUESTS_DEFAULT 512u
#define PUSH_REQUESTS_MAX 4096u
#define PUSH_HOST_REQUESTS_DEFAULT 32u
#define PUSH_QUEUE_REQUESTS_DEFAULT 32u
/* How long a request may take, its connection, and the rest of a target that fails. */
#define PUSH_TIME_DEFAULT_MS (30ull * 1000)
#define PUSH_CONNECT_DEFAULT_MS (10ull * 1000)
#define PUSH_REST_DEFAULT_MS (60ull * 1000)
#define PUSH_TIME_MIN_MS 100ull
#define PUSH_TIME_MAX_MS (3600ull * 1000)

/* Consumers */
#define SESSION_SILENCE_MS (10ull * 1000) /* no heartbeat for so long: the session is gone */
#define SESSION_SILENCE_MIN_MS                                                                                         \
    1000ull /* … or for as long as its leases last, if that is shorter, but no less than this */
#define CLAIM_AFTER_START_MS 2000ull /* after a restart, leases no session has claimed are ready again */

/* Log and index */
#define SEGMENT_SIZE_DEFAULT (64u << 20)
#define SEGMENT_SIZE_MIN (1u << 20)
#define SEGMENT_SIZE_MAX (1u << 30) /* and of its room: a header that says more is damaged */
#define FRAME_BODY_SIZE_MAX (16u << 20)
#define FRAME_BLOB_SIZE_MAX (17u << 20) /* a request full of contents, and their salts */
#define FRAME_SIZE_MAX (FRAME_BODY_SIZE_MAX + FRAME_BLOB_SIZE_MAX + 112u)
#define SEAL_IDLE_MS 20ull
#define INDEX_BATCH_RECORDS 50000u
#define INDEX_BATCH_SCALE_MAX 5u /* with so many times MEMORY_DEFAULT batches are as much larger, and later */
#define HEAD_INTERVAL_S 60ull    /* a head is signed at least this often while there is news */
#define INDEX_DELAY_MS 200ull    /* the index absorbs at least this often while there is something */
#define RETAIN_LOG_AGE_DEFAULT_MS (7ull * 24 * 3600 * 1000)
#define RETAIN_LOG_SIZE_DEFAULT (1ull << 30)
#define RETAIN_ARCHIVE_AGE_DEFAULT_MS (90ull * 24 * 3600 * 1000)
#define RETAIN_ARCHIVE_SIZE_DEFAULT (4ull << 30)
#define ARCHIVE_LEVEL_DEFAULT 3 /* zstd's */
#define MEMORY_DEFAULT (256ull << 20)
#define MEMORY_MIN (64ull << 20)

/* The pair (broker/shell/pair) */
#define FOLLOW_BYTES_MAX (4u << 20)     /* of frames in one answer; one frame is always whole */
#define FOLLOW_NEAR_BYTES (16ull << 20) /* who lacks no more than this may be waited for (R5) */
#define FOLLOW_EPOCHS_MAX 64u           /* that a question tells of */
#define FOLLOW_WAIT_MAX_MS 10000ull     /* a question waits for news so long at most */
#define FRESH_WAIT_MAX_MS 2000u         /* a question waits for what it asks for (Request.at_least) so long at most */
#define FRESH_WAITS_MAX 64u             /* … and no more of them at once; beyond: BUSY */
#define FRESH_WORD_MS 500u              /* a leader that is asked how far it is answers by then, or nothing is proved */
#define FOLLOW_KEEP_MS (10ull * 60 * 1000) /* segments that a follower lacks stay for so long after it was heard */
#define SOLO_AFTER_DEFAULT_MS 1500ull
#define FAILOVER_AFTER_DEFAULT_MS 750ull

/* Backup (storage/files/identity.h says why the gap) */
#define BACKUPS_MAX 2u                /* at a time */
#define BACKUP_READ_MAX (1u << 20)    /* of a file, in one answer */
#define BACKUP_LIST_MAX 1000u         /* names in one answer */
#define BACKUP_FILES_MAX (1u << 20)   /* in one backup */
#define BACKUP_NAME_SIZE_MAX 255u     /* of a file in it, folder included */
#define BACKUP_IDLE_MS (60ull * 1000) /* nobody asks for so long: it ends, and segments may be retired again */
#define RESTORE_EPOCH_GAP (1u << 22)
#define BACKUP_PARTIAL_NAME "backup.partial" /* a file in a copy that is not whole yet: nobody opens it */

/* Clock (TIME-2) */
#define CLOCK_JUMP_RUN_MS (3600ull * 1000)
#define CLOCK_JUMP_START_MS (30ull * 24 * 3600 * 1000)

#endif
