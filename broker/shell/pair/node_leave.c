/* node_leave.c: a node of a pair that is stopped cleanly tells the other node, so that the other node need not wait for
 * a timeout; see node.h.
 *
 * The leader hands over; its clients see a planned switch-over. The follower asks once more, and announces its stop.
 * The leader then treats it as silent at once (PAIR_SILENT, R4); with `--solo-after never` the leader still counts it.
 *
 * Safety does not depend on this: an announcement that is lost or late costs only time. */
#include <inttypes.h>

#include "clock.h"
#include "fatal.h"
#include "logfmt.h"
#include "monotonic.h"
#include "node.h"
#include "node_parts.h"

/* Time limit of a planned switch-over, which usually takes about 40 ms. */
#define NODE_HAND_OVER_MAX_MS 1000u

/* ---- pair thread */

void node_has_left(struct node *node) {
    pthread_mutex_lock(&node->mutex);
    node->left = true;
    pthread_cond_broadcast(&node->settled_changed);
    pthread_mutex_unlock(&node->mutex);
}

void node_take_leave(struct node *node) {
    if (node_is_leading(node) && node->pair.handing == PAIR_KEEPING) node_tell(node, PAIR_HAND_OVER);
    bool hands_over = node_is_leading(node) && node->pair.handing != PAIR_KEEPING;
    bool says_goodbye = follower_leave(node);
    if (!hands_over && !says_goodbye) node_has_left(node);
}

void node_is_left(struct node *node) {
    logfmt("follower_left", "committed=%" PRIu64 " reason=\"the follower announced that it stops\"",
           node->pair.committed);
    alone_because(&node->alone, TARRY__ALONE_PUT__WHY__LEFT);
    silence_is_left(&node->silence, monotonic_ns());
}

/* ---- main thread */

void node_leave(struct node *node) {
    struct timespec until = monotonic_after(NODE_HAND_OVER_MAX_MS * NS_PER_MS);
    int error = 0;
    pthread_mutex_lock(&node->mutex);
    node->news.leave = true;
    pthread_cond_signal(&node->changed);
    while (!node->left && error == 0) error = pthread_cond_timedwait(&node->settled_changed, &node->mutex, &until);
    pthread_mutex_unlock(&node->mutex);
}
