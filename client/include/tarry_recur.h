/* tarry_recur.h: recurrences: tasks that come again by a cron expression, an interval or an RRULE. Part of tarry.h,
 * which includes it. docs/RECURRING.md explains them.
 *
 *     struct tarry_recur_options report = {.queue = "reports", .name = "daily", .cron = "0 9 * * MON-FRI",
 *                                          .zone = "Asia/Shanghai"};
 *     if (tarry_recur_set(client, &report, &result) != TARRY_OK) fprintf(stderr, "%s\n", result.message);
 *
 * Each occurrence is an ordinary task of the queue with the key `recur:daily@2026-11-30T09:00:00+08:00`. The next
 * one always waits there: it can be listed, moved and cancelled like any other. */
#ifndef TARRY_RECUR_H
#define TARRY_RECUR_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

/* Options of tarry_recur_set. Exactly one of cron, every_ms and rrule is set. NULL and 0 are the defaults. */
struct tarry_recur_options {
    const char *queue;
    const char *name;   /* unique in the queue; at most 128 bytes of UTF-8 without control characters and without @ */
    const char *cron;   /* cron expression with 5 fields, or 6 with the seconds first */
    const char *rrule;  /* RFC 5545; its DTSTART is from_ms */
    uint64_t every_ms;  /* interval between occurrences, counted from from_ms; at least one second */
    const char *zone;   /* IANA time zone, such as "Europe/Berlin"; NULL: UTC */
    uint64_t from_ms;   /* Unix time before which there is no occurrence; 0: now */
    uint64_t until_ms;  /* Unix time after which there is no occurrence; 0: no end */
    uint64_t count;     /* number of occurrences; 0: no limit */
    uint64_t jitter_ms; /* longest random delay that is added to an occurrence's due time, in ms */
    const char *gap;    /* how to treat a local time that does not exist: "next" (default) or "skip" */
    const char *fold; /* which of two equal local times counts: "first" or "both"; the default depends on how often the
                         recurrence fires */
    const char *missed; /* what to do with occurrences that were due while no broker ran: "last" (default): run the last
                           one; "none"; or "all:N": run up to N */
    uint64_t missed_window_ms; /* maximum age in ms of a missed occurrence that still runs; 0: no limit */
    const char *overlap; /* action if an earlier occurrence has not ended: "skip" (default), "queue-one" or "allow" */
    const char *days;    /* required for a cron expression with a day of month and a day of week: "and" or "or" */
    /* Payload, attributes and priority of each occurrence, as in struct tarry_schedule_options. */
    const void *payload;
    size_t payload_size; /* bytes; payload and attributes together at most 16 KiB */
    const struct tarry_attribute *attributes;
    size_t attribute_count;
    uint32_t priority;
    uint64_t expires_ms;
    struct tarry_call call;
    uint64_t reserved[4]; /* for later versions; must be 0 */
};

/* Creates a recurrence, or replaces it and computes its next occurrence again. The result has that occurrence's id and
 * due time. TARRY_INVALID: the message names the wrong place of an expression, or says that it never fires. */
TARRY_API int tarry_recur_set(tarry_client *client, const struct tarry_recur_options *options,
                              struct tarry_result *out_result);

enum tarry_recur_what {
    TARRY_RECUR_PAUSE = 0,   /* cancels the next occurrence; none follows until it is resumed */
    TARRY_RECUR_RESUME = 1,  /* occurrences during the pause are left out */
    TARRY_RECUR_TRIGGER = 2, /* makes one occurrence now, besides the others; the result has its id */
    TARRY_RECUR_DELETE = 3   /* cancels the next occurrence; earlier ones stay */
};
/* Pauses, resumes, triggers or deletes a recurrence. TARRY_NOT_DONE with the outcome TARRY_UNKNOWN: the queue has no
 * such recurrence. */
TARRY_API int tarry_recur_do(tarry_client *client, const char *queue, const char *name, enum tarry_recur_what what,
                             const struct tarry_call *call, struct tarry_result *out_result);

/* State of a recurrence. Texts are never NULL. */
struct tarry_recur_view {
    const char *queue, *name, *cron, *rrule, *zone;
    uint64_t every_ms, from_ms, until_ms, count, jitter_ms;
    const char *gap, *fold, *missed, *overlap, *days;
    const char *state;      /* active, paused, ended or stuck */
    const char *problem;    /* stuck: why */
    uint64_t next_ms;       /* time of the next occurrence, before jitter; 0: there is none */
    uint64_t next_due_ms;   /* due time of the next occurrence's task */
    uint64_t next_id;       /* id of the next occurrence's task; 0: the task was cancelled */
    uint64_t last_ms;       /* time of the last occurrence that fell due; 0: none yet */
    uint64_t occurrences;   /* number of occurrences that fell due */
    uint64_t missed_count;  /* number of occurrences that were missed */
    uint64_t skipped_count; /* number of occurrences that were skipped because an earlier one had not ended */
    uint32_t open;          /* number of earlier occurrences that have not ended */
    const char *tzdata;     /* version of tzdata by which the next occurrence was computed */
    const uint64_t *times;  /* times of the next occurrences, Unix ms */
    size_t time_count;
    struct tarry_source source;
    /* State of the last occurrence, as in struct tarry_view; "cancelled" also if it was skipped or missed; "": not
     * known, for example because it ended too long ago. */
    const char *last_state;
    uint64_t last_ended_ms; /* Unix time at which it ended; 0: it has not, or this is not known */
};
/* Shows one recurrence with its next `times` occurrences (at most 100). *out_view is freed by tarry_recur_free; NULL:
 * the queue has no such recurrence. */
TARRY_API int tarry_recur_get(tarry_client *client, const char *queue, const char *name, uint32_t times,
                              const struct tarry_call *call, struct tarry_recur_view **out_view,
                              char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API void tarry_recur_free(struct tarry_recur_view *view);

#endif
