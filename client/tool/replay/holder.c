/* holder.c: see holder.h. */
#include "holder.h"

#include <stdlib.h>

#include "alloc.h"
#include "signals.h"
#include "tarry_limits.h"
#include "tool.h"

#define TAKE_MAX 256u
#define LOOK_MS 100u     /* timeout of one wait in ms */
#define DOUBT_MS 1000u   /* after this time without a delivery, ask the target whether it will still deliver the task */
#define SOON_MS 500u     /* ms; a task that is due is delivered within this time, or another consumer has it */
#define PATIENCE_TIMES 3 /* a wait ends after this multiple of --timeout */

struct held_lease {
    uint64_t id;
    struct tarry_token token;
};

int holder_subscribe(struct holder *holder, struct route *route) {
    if (route->consumer != NULL) return TARRY_OK;
    sender_settle(holder->sender); /* an unanswered request may create the queue, so wait for all answers first */
    struct tarry_consumer_options options = {.queues = &route->name,
                                             .queue_count = 1,
                                             .prefetch = PREFETCH_MAX,
                                             .lease_ms = LEASE_MAX_MS};
    return tarry_consumer_open(holder->sender->client, &options, &route->consumer, NULL);
}

static bool is_newer(struct tarry_token a, struct tarry_token b) {
    return a.epoch != b.epoch ? a.epoch > b.epoch : a.position > b.position;
}

static void keep(struct holder *holder, const struct tarry_task *task) {
    struct held_lease *held = id_map_get(&holder->held, task->id);
    if (held == NULL) {
        held = tool_alloc(sizeof *held);
        held->id = task->id;
        id_map_put(&holder->held, task->id, held);
    } else if (!is_newer(task->token, held->token)) {
        return;
    }
    held->token = task->token;
}

/* Receives the deliveries that have arrived; waits up to wait_ms for the first. Returns false if none came. */
static bool holder_pump(struct holder *holder, struct route *route, uint64_t wait_ms) {
    const struct tarry_task *tasks[TAKE_MAX];
    size_t count = 0, all = 0;
    while (tarry_consumer_next_batch(route->consumer, all == 0 ? wait_ms : 0, tasks, TAKE_MAX, &count) == TARRY_OK) {
        for (size_t i = 0; i < count; i++) {
            keep(holder, tasks[i]);
            tarry_task_free(tasks[i]);
        }
        all += count;
    }
    return all > 0;
}

bool holder_has(struct holder *holder, uint64_t id, struct tarry_token *out_token) {
    const struct held_lease *held = id != 0 ? id_map_get(&holder->held, id) : NULL;
    if (held == NULL) return false;
    *out_token = held->token;
    return true;
}

static bool take(struct holder *holder, uint64_t id, const struct tarry_token *but, struct tarry_token *out_token) {
    if (!holder_has(holder, id, out_token)) return false;
    if (but != NULL && !is_newer(*out_token, *but)) return false;
    free(id_map_take(&holder->held, id));
    return true;
}

/* Returns why the target will not deliver the task; NULL: it will be delivered. */
static const char *wont_come(struct holder *holder, const struct image *image, uint64_t id) {
    struct tarry_ref ref = {.id = id};
    struct tarry_view *view = NULL;
    if (tarry_get(holder->sender->client, &ref, false, NULL, &view, NULL) != TARRY_OK) return NULL; /* asked again */
    const char *why = NULL;
    bool is_ours = view->session == tarry_consumer_session(image->route->consumer);
    if (view->outcome == TARRY_DEAD)
        why = "it is a dead letter at the target";
    else if (view->outcome == TARRY_IN_FLIGHT && !is_ours)
        why = "another consumer has it at the target";
    else if (view->outcome != TARRY_PENDING && view->outcome != TARRY_IN_FLIGHT)
        why = "it has already ended at the target";
    tarry_view_free(view);
    return why;
}

bool holder_wait(struct holder *holder, struct image *image, const struct tarry_token *but,
                 struct tarry_token *out_token) {
    uint64_t id = sender_id(holder->sender, image);
    if (id == 0) image->left_out = true; /* the task's scheduling was refused, which was reported */
    if (image->left_out) return false;
    sender_flush(holder->sender);
    uint64_t begin_ms = steady_ms(), asked_ms = begin_ms;
    const char *why = NULL;
    while (why == NULL && !signals_ended()) {
        if (take(holder, id, but, out_token)) return true;
        if (sender_failure(holder->sender) != TARRY_OK) return false;
        if (holder_pump(holder, image->route, LOOK_MS)) continue;
        uint64_t now_ms = steady_ms();
        if (now_ms - asked_ms < DOUBT_MS) continue;
        asked_ms = now_ms;
        why = wont_come(holder, image, id);
        if (why == NULL && now_ms - begin_ms > PATIENCE_TIMES * holder->timeout_ms)
            why = "the target did not deliver it for a long time";
    }
    if (why == NULL) return false;
    image->left_out = true;
    sender_differs(holder->sender, image, "deliver", why);
    return false;
}

void holder_let_go(struct holder *holder, struct image *image, uint64_t now_ms) {
    struct tarry_token token;
    bool may_be_out = image->due_ms <= now_ms && !image->route->paused;
    if (image->route->consumer == NULL || image->left_out) return;
    uint64_t id = may_be_out ? sender_id(holder->sender, image) : image->id;
    uint64_t end_ms = steady_ms() + SOON_MS;
    if (may_be_out) sender_flush(holder->sender);
    while (may_be_out && !holder_has(holder, id, &token) && steady_ms() < end_ms && !signals_ended())
        holder_pump(holder, image->route, LOOK_MS);
    if (!take(holder, id, NULL, &token)) return;
    struct op op = {.kind = OP_AUXILIARY, .task = image->recorded};
    sender_note(holder->sender, tarry_commit_release(holder->sender->commit, id, token), &op, 0);
}

static void give_back(void *argument, void *value) {
    struct holder *holder = argument;
    struct held_lease *held = value;
    struct op op = {.kind = OP_AUXILIARY};
    sender_note(holder->sender, tarry_commit_release(holder->sender->commit, held->id, held->token), &op, 0);
    free(held);
}

void holder_close(struct holder *holder, struct routes *routes) {
    for (size_t i = 0; i < routes->count; i++)
        if (routes->items[i]->consumer != NULL) holder_pump(holder, routes->items[i], 0);
    id_map_each(&holder->held, give_back, holder);
    id_map_deinit(&holder->held);
    sender_settle(holder->sender);
    for (size_t i = 0; i < routes->count; i++) {
        tarry_consumer_close(routes->items[i]->consumer, 0, NULL);
        routes->items[i]->consumer = NULL;
    }
}
