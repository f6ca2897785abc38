/* amqp_outbox.c: commits of one client, one at a time, so that its messages keep their order. Messages that arrive
 * during a commit go into the next one together. A message for several queues is one atomic commit, or part of one. If
 * a commit of several messages is refused as a whole, each message gets a commit of its own. */
#include <stdlib.h>
#include <string.h>

#include "amqp_parts.h"

void outbox_init(struct outbox *outbox, struct gateway *gateway, uint64_t principal, const char *peer, void *argument) {
    *outbox = (struct outbox){.gateway = gateway, .principal = principal, .peer = peer, .argument = argument};
    TAILQ_INIT(&outbox->items);
}

struct item *item_of_message(const struct amqp_targets *targets, uint8_t *content, size_t content_size,
                             struct amqp_bytes key) {
    size_t size = sizeof(struct item) + targets->count * sizeof(struct target), names = key.size + 1;
    for (size_t i = 0; i < targets->count; i++) names += strlen(targets->queues[i]->name) + 1;
    struct item *item = calloc(1, size + names);
    if (item == NULL) {
        free(content);
        return NULL;
    }
    char *at = (char *)item + size;
    item->kind = ITEM_MESSAGE;
    item->content = content;
    item->content_size = content_size;
    item->target_count = targets->count;
    for (size_t i = 0; i < targets->count; i++) {
        item->targets[i].queue = at;
        at = stpcpy(at, targets->queues[i]->name) + 1;
    }
    if (key.size > 0) {
        memcpy(at, key.at, key.size);
        item->key = at;
    }
    return item;
}

struct item *item_of_lease(enum item_kind kind, const struct leased_task *task) {
    struct item *item = calloc(1, sizeof(*item));
    if (item == NULL) return NULL;
    item->kind = kind;
    item->task = *task;
    return item;
}

/* The target queues' names are copied with the item's own bytes. */
struct item *item_without_key(const struct item *item) {
    size_t size = sizeof(*item) + item->target_count * sizeof(struct target), names = 1;
    for (size_t i = 0; i < item->target_count; i++) names += strlen(item->targets[i].queue) + 1;
    struct item *copy = calloc(1, size + names);
    uint8_t *content = malloc(item->content_size);
    if (copy == NULL || content == NULL) {
        free(copy);
        free(content);
        return NULL;
    }
    char *at = (char *)copy + size;
    memcpy(copy, item, size);
    memcpy(content, item->content, item->content_size);
    copy->content = content;
    copy->key = NULL;
    for (size_t i = 0; i < item->target_count; i++) {
        copy->targets[i].queue = at;
        at = stpcpy(at, item->targets[i].queue) + 1;
    }
    return copy;
}

void item_free(struct item *item) {
    if (item == NULL) return;
    free(item->content);
    free(item);
}

static size_t ops_of(const struct item *item) {
    return item->kind == ITEM_MESSAGE ? item->target_count + (item->acks ? 1 : 0) : 1;
}

static size_t bytes_of(const struct item *item) {
    return sizeof(*item) + item->content_size * (item->target_count > 0 ? item->target_count : 1);
}

void outbox_add(struct outbox *outbox, struct item *item) {
    TAILQ_INSERT_TAIL(&outbox->items, item, next);
    outbox->count++;
    outbox->bytes += bytes_of(item);
}

bool outbox_is_idle(const struct outbox *outbox) {
    return outbox->count == 0;
}

/* Removes and frees the first item. */
static void drop_first(struct outbox *outbox) {
    struct item *item = TAILQ_FIRST(&outbox->items);
    TAILQ_REMOVE(&outbox->items, item, next);
    outbox->count--;
    outbox->bytes -= bytes_of(item);
    if (outbox->sent > 0) outbox->sent--;
    if (outbox->alone > 0) outbox->alone--;
    item_free(item);
}

/* ---- the commit */

/* An operation with all objects that it points to. */
struct building {
    Tarry__Op op;
    union {
        Tarry__Schedule schedule;
        Tarry__Ack ack;
        Tarry__Release release;
        Tarry__Nack nack;
        Tarry__Extend extend;
    } body;
    Tarry__Token token;
    Tarry__When when;
};

static void build_settle(struct building *to, const struct item *item) {
    tarry__token__init(&to->token);
    to->token.epoch = item->task.epoch;
    to->token.position = item->task.position;
    tarry__op__init(&to->op);
    if (item->kind == ITEM_RELEASE) {
        tarry__release__init(&to->body.release);
        to->body.release.id = item->task.id;
        to->body.release.token = &to->token;
        to->op.op_case = TARRY__OP__OP_RELEASE;
        to->op.release = &to->body.release;
    } else if (item->kind == ITEM_BURY) {
        tarry__nack__init(&to->body.nack);
        to->body.nack.id = item->task.id;
        to->body.nack.token = &to->token;
        to->body.nack.dead = true;
        to->body.nack.reason = "its AMQP queue, or its dead-letter exchange, is not declared any more";
        to->op.op_case = TARRY__OP__OP_NACK;
        to->op.nack = &to->body.nack;
    } else if (item->kind == ITEM_EXTEND) {
        tarry__extend__init(&to->body.extend);
        to->body.extend.id = item->task.id;
        to->body.extend.token = &to->token;
        to->body.extend.lease_ms = AMQP_LEASE_MS;
        to->op.op_case = TARRY__OP__OP_EXTEND;
        to->op.extend = &to->body.extend;
    } else {
        tarry__ack__init(&to->body.ack);
        to->body.ack.id = item->task.id;
        to->body.ack.token = &to->token;
        to->op.op_case = TARRY__OP__OP_ACK;
        to->op.ack = &to->body.ack;
    }
}

static void build_schedule(struct building *to, const struct item *item, const struct target *target) {
    Tarry__Schedule *schedule = &to->body.schedule;
    tarry__when__init(&to->when);
    to->when.ms = target->delay_ms;
    tarry__schedule__init(schedule);
    schedule->queue = (char *)target->queue;
    schedule->when = &to->when;
    schedule->content = (ProtobufCBinaryData){.data = item->content, .len = item->content_size};
    schedule->priority = target->priority;
    schedule->expires_ms = target->expires_ms;
    if (item->key != NULL)
        schedule->key = (ProtobufCBinaryData){.data = (uint8_t *)item->key, .len = strlen(item->key)};
    tarry__op__init(&to->op);
    to->op.op_case = TARRY__OP__OP_SCHEDULE;
    to->op.schedule = schedule;
}

/* Commits the first `items` items, which have `count` operations. Returns the handle; 0: out of memory. */
static uint64_t commit_first(struct outbox *outbox, size_t items, size_t count, bool is_atomic, gateway_reply *reply) {
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    struct building *buildings = calloc(count, sizeof(*buildings));
    Tarry__Op **pointers = calloc(count, sizeof(Tarry__Op *));
    bool has_memory = buildings != NULL && pointers != NULL;
    const struct item *item = TAILQ_FIRST(&outbox->items);
    size_t at = 0;
    for (size_t i = 0; has_memory && i < items; i++, item = TAILQ_NEXT(item, next)) {
        for (size_t j = 0; j < ops_of(item); j++, at++) {
            bool is_settle = item->kind != ITEM_MESSAGE || j == item->target_count;
            if (is_settle)
                build_settle(&buildings[at], item);
            else
                build_schedule(&buildings[at], item, &item->targets[j]);
            pointers[at] = &buildings[at].op;
        }
    }
    commit.ops = pointers;
    commit.n_ops = count;
    commit.atomic = is_atomic;
    const struct gateway_caller caller = {.principal = outbox->principal,
                                          .peer = outbox->peer,
                                          .client = "AMQP client"};
    uint64_t handle =
        has_memory ? gateway_commit(outbox->gateway, &caller, &commit, NULL, reply, reply != NULL ? outbox : NULL) : 0;
    free(buildings);
    free(pointers);
    return handle;
}

/* Returns the number of items for the next commit; at least one. */
static size_t choose(const struct outbox *outbox, size_t *out_ops, bool *out_is_atomic) {
    const struct item *item = TAILQ_FIRST(&outbox->items);
    size_t items = 0, bytes = 0;
    *out_ops = 0;
    *out_is_atomic = false;
    for (; item != NULL; item = TAILQ_NEXT(item, next), items++) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): drop_first has removed those that it freed
        bool is_full = *out_ops + ops_of(item) > AMQP_COMMIT_OPS_MAX || bytes + bytes_of(item) > AMQP_COMMIT_BYTES_MAX;
        if (outbox->is_whole) is_full = false;
        if (items > 0 && (is_full || outbox->alone > 0)) break;
        *out_ops += ops_of(item);
        bytes += bytes_of(item);
        *out_is_atomic |= ops_of(item) > 1;
    }
    *out_is_atomic |= outbox->is_whole;
    return items;
}

static void on_busy(void *argument) {
    struct outbox *outbox = argument;
    outbox->timer = 0;
    outbox_flush(outbox);
}

static void try_later(struct outbox *outbox) {
    outbox->sent = 0;
    outbox->busy_count++;
    if (outbox->timer == 0) outbox->timer = gateway_timer(outbox->gateway, AMQP_BUSY_MS, on_busy, outbox);
}

/* Returns the code and the message of the first refused operation among the `count` operations from `at` on; OK if none
 * was refused. */
static Tarry__Code code_of(const Tarry__CommitReply *commit, size_t at, size_t count, const char **out_message) {
    *out_message = "";
    for (size_t i = at; i < at + count; i++) {
        if (i >= commit->n_results) return TARRY__CODE__FAILED;
        Tarry__Code code = commit->results[i]->code;
        if (code == TARRY__CODE__OK || code == TARRY__CODE__ABORTED) continue;
        *out_message = commit->results[i]->message;
        return code;
    }
    return TARRY__CODE__OK;
}

/* Reports the results of the items that were sent. Returns false if the rest will be tried again later. */
static bool settle_sent(struct outbox *outbox, const Tarry__CommitReply *commit) {
    size_t at = 0;
    while (outbox->sent > 0) {
        const struct item *item = TAILQ_FIRST(&outbox->items);
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): drop_first has removed those that it freed
        size_t count = ops_of(item);
        const char *message = "";
        Tarry__Code code = code_of(commit, at, count, &message);
        if (code == TARRY__CODE__OK && commit->aborted) code = TARRY__CODE__ABORTED;
        if (code == TARRY__CODE__BUSY) return false;
        at += count;
        outbox->settled(outbox->argument, item, code, message);
        drop_first(outbox);
    }
    return true;
}

static void on_committed(void *argument, const Tarry__Reply *reply) {
    struct outbox *outbox = argument;
    Tarry__Code code = reply != NULL ? reply->code : TARRY__CODE__FAILED;
    bool is_known = code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_COMMIT;
    outbox->asked = 0;
    outbox->is_telling = true;
    if (code == TARRY__CODE__BUSY) {
        try_later(outbox);
    } else if (is_known && reply->commit->aborted && outbox->sent > 1 && !outbox->is_whole) {
        outbox->alone = outbox->sent; /* no operation of the commit took effect */
        outbox->sent = 0;
    } else if (is_known) {
        if (settle_sent(outbox, reply->commit))
            outbox->busy_count = 0;
        else
            try_later(outbox);
    } else {
        while (outbox->sent > 0) {
            outbox->settled(outbox->argument, TAILQ_FIRST(&outbox->items), code, reply != NULL ? reply->message : "");
            drop_first(outbox);
        }
    }
    outbox->is_telling = false;
    outbox_flush(outbox);
    outbox->went_on(outbox->argument);
}

void outbox_flush(struct outbox *outbox) {
    size_t ops;
    bool is_atomic, has_told = false;
    while (outbox->asked == 0 && outbox->timer == 0 && outbox->count > 0 && !outbox->is_telling) {
        size_t items = choose(outbox, &ops, &is_atomic);
        if (ops > 0) {
            outbox->sent = items;
            outbox->asked = commit_first(outbox, items, ops, is_atomic, on_committed);
            if (outbox->asked == 0) try_later(outbox);
            break;
        }
        outbox->is_telling = true;
        for (; items > 0; items--) { /* these messages are routed to no queue, so no commit is needed */
            outbox->settled(outbox->argument, TAILQ_FIRST(&outbox->items), TARRY__CODE__OK, "");
            drop_first(outbox);
        }
        outbox->is_telling = false;
        has_told = true;
    }
    if (has_told) outbox->went_on(outbox->argument);
}

void outbox_end(struct outbox *outbox) {
    size_t ops;
    bool is_atomic;
    if (outbox->asked != 0) gateway_forget(outbox->gateway, outbox->asked);
    if (outbox->timer != 0) gateway_timer_cancel(outbox->gateway, outbox->timer);
    outbox->asked = outbox->timer = 0;
    while (outbox->sent > 0) drop_first(outbox);
    while (outbox->count > 0) {
        size_t items = choose(outbox, &ops, &is_atomic);
        if (ops > 0) (void)commit_first(outbox, items, ops, is_atomic, NULL);
        for (; items > 0; items--) drop_first(outbox);
    }
}
