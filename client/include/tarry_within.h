/* tarry_within.h: calls with a deadline of their own. A part of tarry.h, which includes it and has the rules on units,
 * errors and threads.
 *
 * Each function here is its namesake without `_within`, but for how long it may take: `timeout_ms` from when the call
 * is made, instead of the client's; 0: the client's; TARRY_FOREVER: until it is answered, or the client is closed.
 *
 * Calls that take options have a field `timeout_ms` there: tarry_schedule, tarry_nack, tarry_redact, tarry_list_open
 * (for each page that tarry_list_next asks for), tarry_consumer_open (for its opening). Commits have
 * tarry_commit_timeout, and what is set up once in a while (tarry_queue_set, _pause, _purge) goes in one, if the
 * client's deadline will not do.
 *
 *     #include <stdio.h>
 *     #include <tarry.h>
 *
 *     // An order is paid: the customer waits half a second for our word, and no longer.
 *     int order_is_paid(tarry_client *client, const char *order) {
 *         struct tarry_ref ref = {.queue = "close-order", .key = order};
 *         struct tarry_result result;
 *         int code = tarry_cancel_within(client, &ref, false, 500, &result);
 *         if (code != TARRY_OK) fprintf(stderr, "%s: %s\n", order, result.message);
 *         return code;
 *     }
 *
 *     // It is to be closed in half an hour, however long the broker has no room for it now.
 *     int order_is_placed(tarry_client *client, const char *order) {
 *         struct tarry_schedule_options close_order = {.queue = "close-order", .key = order, .when_ms = 1800000};
 *         close_order.timeout_ms = TARRY_FOREVER;
 *         return tarry_schedule_async(client, &close_order, NULL, NULL);
 *     }
 */
#ifndef TARRY_WITHIN_H
#define TARRY_WITHIN_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- operations */

TARRY_API int tarry_cancel_within(tarry_client *client, const struct tarry_ref *ref, bool withdraw, uint64_t timeout_ms,
                                  struct tarry_result *out_result);
TARRY_API int tarry_move_within(tarry_client *client, const struct tarry_ref *ref, enum tarry_when when,
                                uint64_t when_ms, uint64_t timeout_ms, struct tarry_result *out_result);
TARRY_API int tarry_ack_within(tarry_client *client, uint64_t id, struct tarry_token token, uint64_t timeout_ms,
                               struct tarry_result *out_result);
TARRY_API int tarry_extend_within(tarry_client *client, uint64_t id, struct tarry_token token, uint64_t lease_ms,
                                  uint64_t timeout_ms, struct tarry_result *out_result);
TARRY_API int tarry_release_within(tarry_client *client, uint64_t id, struct tarry_token token, uint64_t timeout_ms,
                                   struct tarry_result *out_result);
TARRY_API int tarry_dead_within(tarry_client *client, enum tarry_dead_what what, const struct tarry_ref *ref, bool all,
                                uint64_t timeout_ms, struct tarry_result *out_result);

TARRY_API TARRY_MUST_USE int tarry_cancel_async_within(tarry_client *client, const struct tarry_ref *ref, bool withdraw,
                                                       uint64_t timeout_ms, tarry_done_fn done, void *arg);
TARRY_API TARRY_MUST_USE int tarry_move_async_within(tarry_client *client, const struct tarry_ref *ref,
                                                     enum tarry_when when, uint64_t when_ms, uint64_t timeout_ms,
                                                     tarry_done_fn done, void *arg);
TARRY_API TARRY_MUST_USE int tarry_ack_async_within(tarry_client *client, uint64_t id, struct tarry_token token,
                                                    uint64_t timeout_ms, tarry_done_fn done, void *arg);
TARRY_API TARRY_MUST_USE int tarry_extend_async_within(tarry_client *client, uint64_t id, struct tarry_token token,
                                                       uint64_t lease_ms, uint64_t timeout_ms, tarry_done_fn done,
                                                       void *arg);
TARRY_API TARRY_MUST_USE int tarry_release_async_within(tarry_client *client, uint64_t id, struct tarry_token token,
                                                        uint64_t timeout_ms, tarry_done_fn done, void *arg);
TARRY_API TARRY_MUST_USE int tarry_dead_async_within(tarry_client *client, enum tarry_dead_what what,
                                                     const struct tarry_ref *ref, bool all, uint64_t timeout_ms,
                                                     tarry_done_fn done, void *arg);

/* ---- questions */

TARRY_API TARRY_MUST_USE int tarry_ping_within(tarry_client *client, uint64_t timeout_ms);
TARRY_API TARRY_MUST_USE int tarry_get_within(tarry_client *client, const struct tarry_ref *ref, bool with_content,
                                              uint64_t timeout_ms, struct tarry_view **out_view,
                                              char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API TARRY_MUST_USE int tarry_queues_within(tarry_client *client, uint64_t timeout_ms,
                                                 struct tarry_queues_view **out_view,
                                                 char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API TARRY_MUST_USE int tarry_stats_within(tarry_client *client, const char *queue, uint64_t timeout_ms,
                                                struct tarry_stats_view **out_view,
                                                char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API TARRY_MUST_USE int tarry_job_within(tarry_client *client, const char *queue, uint64_t job,
                                              uint64_t timeout_ms, struct tarry_job_view *out_view,
                                              char out_message[TARRY_MESSAGE_SIZE]);
TARRY_API TARRY_MUST_USE int tarry_pair_status_within(tarry_client *client, uint64_t timeout_ms,
                                                      struct tarry_pair_view **out_view,
                                                      char out_message[TARRY_MESSAGE_SIZE]);

/* ---- waiting for others */

/* TARRY_FOREVER: until there are so few. */
TARRY_API TARRY_MUST_USE int tarry_drain_within(tarry_client *client, size_t pending_max, uint64_t timeout_ms);
/* Counted from when its handler has returned. TARRY_FOREVER: until the broker has confirmed it. */
TARRY_API int tarry_consumer_close_within(tarry_consumer *consumer, uint32_t flags, uint64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
