/* tarry_limits.h: all limits of Tarry, by name (CAP-1, CALM-1).
 *
 * Every limit or default that users can see is defined here and nowhere else. Sizes are in bytes; `_MS` means
 * milliseconds, `_S` seconds. */
#ifndef TARRY_PROTO_TARRY_LIMITS_H
#define TARRY_PROTO_TARRY_LIMITS_H

#define WIRE_VERSION 1u
#define FORMAT_VERSION 1u /* version of the data directory's format: log and index */
#define DEFAULT_PORT 7272
#define DEFAULT_URL "ws://127.0.0.1:7272"
#define BEANSTALK_PORT 11300
#define AMQP_PORT 5672
#define AMQPS_PORT 5671

/* Tasks. */
#define QUEUE_NAME_SIZE_MAX 128
#define QUEUE_RESERVED_PREFIX "tarry." /* prefix of the broker's own queues (queue_is_reserved) */
#define KEY_SIZE_MAX 255
#define SERIAL_SIZE_MAX 255 /* maximum size of a serial name in bytes */
#define REASON_SIZE_MAX 255
#define CLIENT_NAME_SIZE_MAX 128
#define PRINCIPAL_SIZE_MAX 64 /* maximum size of a principal's name, in bytes */
#define PEER_SIZE_MAX 63      /* maximum size in bytes of an address as text: "[IPv6%interface]:port" */
#define CLUSTER_ID_SIZE 16
#define URL_SIZE_MAX 299 /* maximum size in bytes of a broker's URL: "ws://host:port" */
#define ATTRIBUTES_MAX 64
#define ATTRIBUTE_NAME_SIZE_MAX 128
#define ATTRIBUTE_VALUE_SIZE_MAX 4096
#define PAYLOAD_SIZE_MAX_DEFAULT (1u << 20)
#define PAYLOAD_SIZE_MAX_LIMIT (8u << 20)
#define CONTENT_OVERHEAD_MAX (64u << 10) /* maximum size in bytes of all attributes of one task */
#define PROPERTIES_SIZE_MAX (64u << 10)  /* maximum size in bytes of Content.properties of one task */
#define PRIORITY_COUNT 10
#define DUE_AHEAD_MAX_MS (3653ull * 24 * 3600 * 1000) /* ten years */
#define LEASE_MAX_MS (24ull * 3600 * 1000)
#define LEASE_MIN_MS 10ull
#define BACKOFF_MAX_MS (30ull * 24 * 3600 * 1000)
#define TASK_ATTEMPTS_MAX 10000u /* maximum of a task's own max_attempts */
#define PAUSE_MAX_MS DUE_AHEAD_MAX_MS

/* Definitions: values that the broker's doors keep in the log (broker/core/definitions.h). The sizes are in bytes. */
#define DEFINITION_SPACES_MAX 2u
#define DEFINITION_SPACE_SIZE_MAX 32u
#define DEFINITION_NAME_SIZE_MAX 255u
#define DEFINITION_VALUE_SIZE_MAX (16u << 10)
#define DEFINITIONS_MAX 65536u /* maximum number of definitions in one space */
/* Maximum size in bytes of all names and values of one space; each definition is rounded up to 60 bytes. */
#define DEFINITIONS_SIZE_MAX (8u << 20)
#define DEFINITIONS_LIMIT_MAX 1000u /* maximum number of definitions in one result page */
#define DEFINITIONS_PAGE_SIZE (1u << 20)
#define DEFINES_PER_COMMIT_MAX 1024u

/* Requests. */
#define OPS_PER_COMMIT_MAX 8192
#define REDACT_OPS_MAX 64     /* maximum number of redactions in one commit; each searches the log */
#define REDACT_TASKS_MAX 1024 /* maximum number of tasks that the redactions of one commit may redact together */
#define REQUEST_SIZE_MAX (16u << 20)
#define QUEUES_PER_SUBSCRIBE_MAX 256
/* Maximum number of queue names per consumer in replies to Consumers and Subscribe. */
#define CONSUMER_QUEUES_SHOWN 16
#define LIST_LIMIT_MAX 1000
#define LIST_LIMIT_DEFAULT 1000
/* Maximum number of index reads for one result page, each of at most LIST_LIMIT_MAX tasks. */
#define LIST_READS_MAX 8u
/* Maximum size in bytes of the stored tasks that one request may read; less with a small --memory. */
#define FACTS_SIZE_MAX (16u << 20)
/* Maximum size in bytes of the contents in one message, unless a single task is larger. */
#define DELIVERY_SIZE_MAX (4u << 20)

/* Limits of requests that read the log (Audit). */
#define AUDIT_FRAMES_MAX 8192
#define AUDIT_SIZE_MAX (1u << 20)  /* size in bytes; a result page ends with the frame that reaches it */
#define AUDIT_WAIT_MAX_MS 10000ull /* longest time that a request waits for new frames */
/* Time of reading after which a result page is sent, even if it is incomplete, because other requests wait. */
#define AUDIT_PAGE_MAX_MS 20ull
#define AUDIT_READS_MAX 16 /* maximum number of requested result pages that have not been read yet; more: BUSY */
#define AUDIT_WAITS_MAX 32 /* maximum number of requests that wait for new frames at the same time; more: BUSY */

/* Limits of the broker's tables. */
#define QUEUES_MAX 4096 /* maximum number of queues that clients have created */
#define QUEUES_OWN 16   /* additional places for the broker's own queues (tarry.…) */
#define QUEUE_PLACES (QUEUES_MAX + QUEUES_OWN)
/* Maximum number of queues that a principal with prefixes may create, unless its token row has queues=. */
#define QUEUES_OF_CONFINED_DEFAULT 256
#define QUEUES_AWAITED_MAX 16384u /* maximum number of queues that do not exist yet and for which sessions wait */
#define QUEUES_FORMER_MAX 65536u  /* maximum number of deleted queues whose names the index keeps */
#define SESSIONS_MAX 1024
#define LANES_MAX SESSIONS_MAX
/* Time before the lane of an ended session may be given to another session. */
#define LANE_REST_MS 1000u
#define PREFETCH_DEFAULT 256
#define PREFETCH_MAX 16384
#define BATCH_DEFAULT 1024
#define BATCH_MAX 4096
#define LEASES_MAX (1u << 18) /* maximum number of tasks in flight, in all sessions together */
#define PRODUCERS_MAX 16384
/* Minimum number of producers of each principal in the table of producers: other principals' producers cannot replace
 * them. */
#define PRODUCERS_SHARE 16u
#define COMMITS_PER_PRODUCER_MAX 64
#define PRODUCER_IDLE_MS (24ull * 3600 * 1000)
#define JOBS_MAX 64
/* Maximum number of time spans in one calendar request: one week in spans of one minute. */
#define CALENDAR_SPANS_MAX 10080u
#define CALENDAR_STEP_MAX_MS (366ull * 24 * 3600 * 1000)
#define CALENDAR_TIME_MAX_MS 253402300800000ull /* the year 10000: the latest time in a request */
#define CALENDAR_UNIT_MS 60000ull
#define OUTCOMES_MAX_DEFAULT 262144
#define OUTCOME_RETENTION_DEFAULT_MS (3600ull * 1000)

/* Limits of a queue's rate (broker/core/gate.h). */
#define RATE_MAX 1000000u /* maximum number of tasks per period, and of tasks in a burst */
#define RATE_PERIOD_DEFAULT_MS 1000ull
#define RATE_PERIOD_MIN_MS 1000ull
#define RATE_PERIOD_MAX_MS (24ull * 3600 * 1000)
#define OVERDUE_MAX_MS (365ull * 24 * 3600 * 1000)
#define OVERDUE_SPREAD_MAX_MS (24ull * 3600 * 1000)
#define SPREAD_MAX_MS (24ull * 3600 * 1000)
/* Maximum number of outages for which a queue remembers what to do with the tasks that became due meanwhile
 * (broker/core/overdue.h). */
#define OVERDUES_MAX 8u
#define RATE_BURST_DEFAULT_MS 100u    /* the default burst is what the rate allows in this time, at least one task */
#define RATE_BURST_MIN_MS 2u          /* a burst is at least the number that the rate allows in this time */
#define RATE_BURST_MAX_MS 86400000ull /* a burst is at most the number that the rate allows in this time */

/* Groups (docs/GROUPS.md). */
#define GROUPS_MAX 16u       /* maximum number of groups of one topic */
#define FILTER_SIZE_MAX 512u /* maximum size of a group's filter in bytes */
#define FILTER_DEPTH_MAX 16u /* maximum depth of nested parentheses and `not` */
#define FAN_OUTS_PER_COMMIT_MAX 256u
/* Maximum number of shares (tasks that groups got from a topic's task) that the cancels and moves of one commit change.
 */
#define SHARES_PER_COMMIT_MAX (FAN_OUTS_PER_COMMIT_MAX * GROUPS_MAX)

/* Recurrences (docs/RECURRING.md). */
/* Maximum number of recurrences; they may also use at most an eighth of the memory that --memory gives the core. */
#define RECURRENCES_MAX 131072u
#define RECUR_NAME_SIZE_MAX 128u           /* maximum size of a recurrence's name, in bytes */
#define RECUR_TEXT_SIZE_MAX 512u           /* maximum size of a cron expression or an RRULE, in bytes */
#define RECUR_ZONE_SIZE_MAX 64u            /* maximum size of a time zone's name, in bytes */
#define RECUR_CONTENT_SIZE_MAX (16u << 10) /* maximum size in bytes of the packed content that each occurrence gets */
/* Maximum number of recurrences that one commit sets or changes, because each computes a calendar. */
#define RECUR_OPS_MAX 16
#define RECUR_MISSED_MAX 100u /* maximum N of --missed all:N */
#define RECUR_JITTER_MAX_MS (24ull * 3600 * 1000)
#define RECUR_TIMES_MAX 100u       /* maximum number of next occurrences in one answer */
#define RECURRENCES_LIMIT_MAX 256u /* maximum number of recurrences in one result page */
/* An occurrence that the broker handles this much later than its time counts as missed, because no broker served at its
 * time. Quartz's misfire threshold is the same. */
#define RECUR_GRACE_MS 60000ull

/* Webhooks (docs/WEBHOOKS.md). */
#define PUSH_URL_SIZE_MAX 512u
#define PUSH_QUEUES_MAX 256u /* maximum number of queues with a push URL */
/* Limits on the number of webhook requests in progress. PUSH_REQUESTS: in total (option --push-requests).
 * PUSH_HOST_REQUESTS: to one host. PUSH_QUEUE_REQUESTS: of one queue. */
#define PUSH_REQUESTS_DEFAULT 512u
#define PUSH_REQUESTS_MAX 4096u
#define PUSH_HOST_REQUESTS_DEFAULT 32u
#define PUSH_QUEUE_REQUESTS_DEFAULT 32u
/* PUSH_TIME: time limit of a webhook request. PUSH_CONNECT: time limit for making its connection. PUSH_REST: longest
 * pause after failures of a target. */
#define PUSH_TIME_DEFAULT_MS (30ull * 1000)
#define PUSH_CONNECT_DEFAULT_MS (10ull * 1000)
#define PUSH_REST_DEFAULT_MS (60ull * 1000)
#define PUSH_TIME_MIN_MS 100ull
#define PUSH_TIME_MAX_MS (3600ull * 1000)

/* Consumers. */
#define SESSION_SILENCE_MS (10ull * 1000) /* a session without a heartbeat for this long ends */
/* Lower limit for the silence after which a session ends. For a session with leases shorter than SESSION_SILENCE_MS,
 * that silence is the lease's duration, but at least this time. */
#define SESSION_SILENCE_MIN_MS 1000ull
/* After a restart, leases that no session has claimed within this time are ready again. */
#define CLAIM_AFTER_START_MS 2000ull

/* Limits of log and index. */
#define SEGMENT_SIZE_DEFAULT (64u << 20)
#define SEGMENT_SIZE_MIN (1u << 20)
/* Maximum of a segment's size and of its allocated size. A segment header with a larger value is damaged. */
#define SEGMENT_SIZE_MAX (1u << 30)
#define FRAME_BODY_SIZE_MAX (16u << 20)
/* Maximum size in bytes of a frame's contents: those of a full request, with their salts. */
#define FRAME_BLOB_SIZE_MAX (17u << 20)
#define FRAME_SIZE_MAX (FRAME_BODY_SIZE_MAX + FRAME_BLOB_SIZE_MAX + 112u)
#define SEAL_IDLE_MS 20ull
#define INDEX_BATCH_RECORDS 50000u
#define INDEX_BATCH_SCALE_MAX 5u /* the batch size grows with --memory / MEMORY_DEFAULT, at most by this factor */
#define HEAD_INTERVAL_S 60ull    /* signing interval while the log grows */
#define INDEX_DELAY_MS 200ull    /* the index is updated at least this often while the log grows */
#define RETAIN_LOG_AGE_DEFAULT_MS (7ull * 24 * 3600 * 1000)
#define RETAIN_LOG_SIZE_DEFAULT (1ull << 30)
#define RETAIN_ARCHIVE_AGE_DEFAULT_MS (90ull * 24 * 3600 * 1000)
#define RETAIN_ARCHIVE_SIZE_DEFAULT (4ull << 30)
#define ARCHIVE_LEVEL_DEFAULT 3 /* zstd level */
#define MEMORY_DEFAULT (256ull << 20)
#define MEMORY_MIN (64ull << 20)

/* Limits of the pair (broker/shell/pair). */
/* Maximum size in bytes of the frames in one reply, unless a single frame is larger. */
#define FOLLOW_BYTES_MAX (4u << 20)
/* The primary waits only for a follower that lacks at most this many bytes of the log (R5). */
#define FOLLOW_NEAR_BYTES (16ull << 20)
#define FOLLOW_EPOCHS_MAX 64u       /* maximum number of epochs that one request may list */
#define FOLLOW_WAIT_MAX_MS 10000ull /* longest time that a request waits for new frames */
#define FRESH_WAIT_MAX_MS 2000u     /* longest time that a request waits for its position (Request.at_least) */
#define FRESH_WAITS_MAX 64u /* maximum number of requests that wait for a position at the same time; more: BUSY */
#define FRESH_WORD_MS 500u  /* the leader must answer a question about its position within this time */
/* The leader keeps the segments that a follower lacks for this time after the follower's last request. */
#define FOLLOW_KEEP_MS (10ull * 60 * 1000)
#define SOLO_AFTER_DEFAULT_MS 1500ull
#define FAILOVER_AFTER_DEFAULT_MS 750ull

/* Limits of a backup. RESTORE_EPOCH_GAP: a restored copy starts at least this many epochs after the last
 * epoch in its data (storage/files/identity.h). */
#define BACKUPS_MAX 2u              /* maximum number of backups at the same time */
#define BACKUP_READ_MAX (1u << 20)  /* maximum number of bytes of a file in one reply */
#define BACKUP_LIST_MAX 1000u       /* maximum number of file names in one reply */
#define BACKUP_FILES_MAX (1u << 20) /* maximum number of files in one backup */
#define BACKUP_NAME_SIZE_MAX 255u   /* maximum size in bytes of a file name, including its folder */
/* A backup without requests for this long ends, and its segments may be retired. */
#define BACKUP_IDLE_MS (60ull * 1000)
#define RESTORE_EPOCH_GAP (1u << 22)
/* Marker file in an unfinished copy. tarryd and the tool refuse to open such a copy. */
#define BACKUP_PARTIAL_NAME "backup.partial"

/* Clock (TIME-2). */
#define CLOCK_JUMP_RUN_MS (3600ull * 1000)
#define CLOCK_JUMP_START_MS (30ull * 24 * 3600 * 1000)

#endif
