/* tarry_fresh.h: how new an answer must be. A part of tarry.h, which includes it and has the rules on units, errors and
 * threads.
 *
 * A follower (tarry_options.follower_reads) answers what it has, and that may be old. Two wishes say what will do:
 *
 *   at_least      everything that is recorded below this log position. `tarry_result.position` of a commit's answer is
 *                 such a position: a client that passes it on reads its own writes, also in another process, at any
 *                 node. A follower that does not have it yet is waited for until the deadline of the call; then
 *                 TARRY_BEHIND, and the message names its position. A primary whose log does not reach so far refuses
 *                 at once: TARRY_BEHIND.
 *   staleness_ms  everything that was acknowledged up to so long before the question came to the node. A follower must
 *                 prove that: it counts from when it asked its primary, on its own clock that goes on while the machine
 *                 sleeps, and asks anew if need be. One that hears nothing of its primary says TARRY_TOO_OLD, half a
 *                 second later at most. A primary is never stale: it answers once it is confirmed that it leads.
 *
 * Both hold of lists (struct tarry_list_options) and audits (struct tarry_audit_options), too, page by page.
 *
 * A position belongs to a cluster's log. After a promotion by force, or an unplanned one in asynchronous mode, a
 * position of the tail that was lost says nothing any more.
 *
 *     #include <stdio.h>
 *     #include <tarry.h>
 *
 *     // `writer` talks to the primary, `reader` to the follower (follower_reads): it sees what was just written.
 *     int place_and_look(tarry_client *writer, tarry_client *reader) {
 *         struct tarry_schedule_options close_order = {.queue = "close-order", .key = "order-1", .when_ms = 1800000};
 *         struct tarry_ref ref = {.queue = "close-order", .key = "order-1"};
 *         struct tarry_result result;
 *         int code = tarry_schedule(writer, &close_order, &result);
 *         if (code != TARRY_OK) return code;
 *         struct tarry_fresh_options fresh = {.at_least = result.position};
 *         char message[TARRY_MESSAGE_SIZE];
 *         struct tarry_view *view;
 *         code = tarry_get_fresh(reader, &ref, false, &fresh, &view, message);
 *         if (code != TARRY_OK) fprintf(stderr, "%s\n", message);
 *         if (code == TARRY_OK) tarry_view_free(view);
 *         return code;
 *     }
 */
#ifndef TARRY_FRESH_H
#define TARRY_FRESH_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct tarry_view;
struct tarry_queues_view;
struct tarry_stats_view;
struct tarry_job_view;

struct tarry_fresh_options {
    uint64_t timeout_ms;   /* 0: the client's; TARRY_FOREVER */
    uint64_t at_least;     /* a log position; 0: any */
    uint64_t staleness_ms; /* a duration, up to 24 days (INT32_MAX ms: otherwise TARRY_E_ARGUMENT); 0: any */
};

/* Each is its namesake without `_fresh`; `options` NULL: no wishes. */
TARRY_API TARRY_MUST_USE int tarry_get_fresh_sized(tarry_client *client, const struct tarry_ref *ref, bool with_content,
                                                   const struct tarry_fresh_options *options, size_t size,
                                                   struct tarry_view **out_view, char out_message[TARRY_MESSAGE_SIZE]);
TARRY_MUST_USE static inline int tarry_get_fresh(tarry_client *client, const struct tarry_ref *ref, bool with_content,
                                                 const struct tarry_fresh_options *options,
                                                 struct tarry_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    return tarry_get_fresh_sized(client, ref, with_content, options, sizeof(*options), out_view, out_message);
}
TARRY_API TARRY_MUST_USE int tarry_queues_fresh_sized(tarry_client *client, const struct tarry_fresh_options *options,
                                                      size_t size, struct tarry_queues_view **out_view,
                                                      char out_message[TARRY_MESSAGE_SIZE]);
TARRY_MUST_USE static inline int tarry_queues_fresh(tarry_client *client, const struct tarry_fresh_options *options,
                                                    struct tarry_queues_view **out_view,
                                                    char out_message[TARRY_MESSAGE_SIZE]) {
    return tarry_queues_fresh_sized(client, options, sizeof(*options), out_view, out_message);
}
TARRY_API TARRY_MUST_USE int tarry_stats_fresh_sized(tarry_client *client, const char *queue,
                                                     const struct tarry_fresh_options *options, size_t size,
                                                     struct tarry_stats_view **out_view,
                                                     char out_message[TARRY_MESSAGE_SIZE]);
TARRY_MUST_USE static inline int tarry_stats_fresh(tarry_client *client, const char *queue,
                                                   const struct tarry_fresh_options *options,
                                                   struct tarry_stats_view **out_view,
                                                   char out_message[TARRY_MESSAGE_SIZE]) {
    return tarry_stats_fresh_sized(client, queue, options, sizeof(*options), out_view, out_message);
}
TARRY_API TARRY_MUST_USE int tarry_job_fresh_sized(tarry_client *client, const char *queue, uint64_t job,
                                                   const struct tarry_fresh_options *options, size_t size,
                                                   struct tarry_job_view *out_view,
                                                   char out_message[TARRY_MESSAGE_SIZE]);
TARRY_MUST_USE static inline int tarry_job_fresh(tarry_client *client, const char *queue, uint64_t job,
                                                 const struct tarry_fresh_options *options,
                                                 struct tarry_job_view *out_view,
                                                 char out_message[TARRY_MESSAGE_SIZE]) {
    return tarry_job_fresh_sized(client, queue, job, options, sizeof(*options), out_view, out_message);
}

#ifdef __cplusplus
}
#endif

#endif
