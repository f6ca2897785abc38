/* holder.h: the replay as a consumer: it takes what the target delivers, and keeps each lease until the record says how
 * it was settled.
 *
 * Its leases are as long as they may be, so that none runs out however long the record takes. One consumer a queue,
 * which takes every delivery of it. One thread. */
#ifndef TARRY_TOOL_HOLDER_H
#define TARRY_TOOL_HOLDER_H

#include "id_map.h"
#include "sender.h"

struct holder {
    struct sender *sender;
    struct id_map held; /* by id in the target */
    uint64_t timeout_ms;
};

/* A consumer of the route's queue, if there is none yet. A code. */
int holder_subscribe(struct holder *holder, struct route *route);
/* The lease that is held on the image's task. False: none is, so far. */
bool holder_has(struct holder *holder, uint64_t id, struct tarry_token *out_token);
/* Waits until the task has been delivered, with a token other than `but` (NULL: any), and takes it out. False: it will
 * not be: `image` is left out and the difference noted; or a signal asked for the end. */
bool holder_wait(struct holder *holder, struct image *image, const struct tarry_token *but,
                 struct tarry_token *out_token);
/* The task is about to change though no consumer holds it in the record: gives back what is held of it, or is about to
 * be, within the commit that is being filled. */
void holder_let_go(struct holder *holder, struct image *image, uint64_t now_ms);
/* Gives everything back unseen, and ends. */
void holder_close(struct holder *holder, struct routes *routes);

#endif
