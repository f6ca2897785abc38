/* holder.h: the replay as a consumer. It receives the deliveries of the target, and keeps each lease until the log
 * says how the delivery was settled.
 *
 * It asks for the longest possible leases, so that no lease ends before its settlement in the log. One consumer for
 * each queue receives all its deliveries. One thread. */
#ifndef TARRY_TOOL_HOLDER_H
#define TARRY_TOOL_HOLDER_H

#include "id_map.h"
#include "sender.h"

struct holder {
    struct sender *sender;
    struct id_map held; /* leases that the target has given, by the target's id of the task */
    uint64_t timeout_ms;
};

/* Subscribes to the queue of the route, if that is not done yet. Returns a code. */
int holder_subscribe(struct holder *holder, struct route *route);
/* Gets the token of the lease on the task. False: there was no lease so far. */
bool holder_has(struct holder *holder, uint64_t id, struct tarry_token *out_token);
/* Waits until the task has been delivered with a token other than `but` (NULL: any), and removes it from `held`.
 * False: it will not be delivered (`image` is left out and the difference is recorded), or a signal asked for the
 * end. */
bool holder_wait(struct holder *holder, struct image *image, const struct tarry_token *but,
                 struct tarry_token *out_token);
/* Releases the lease on the task, also one that arrives soon, within the commit that is being filled. Called before a
 * change of a task that had no lease in the log. */
void holder_let_go(struct holder *holder, struct image *image, uint64_t now_ms);
/* Releases all leases without an attempt, and closes the consumers. */
void holder_close(struct holder *holder, struct routes *routes);

#endif
