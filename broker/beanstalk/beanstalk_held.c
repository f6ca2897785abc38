/* beanstalk_held.c: the jobs that connections have reserved: enforces their TTR, and releases them when a connection
 * ends.
 *
 * This code enforces the TTR, not the broker's lease. The lease lasts BEANSTALK_LEASE_MS, and this code extends it
 * until the TTR is over. Then this code releases the job. A release costs no attempt, because beanstalkd never limits
 * attempts. If tarryd dies, no lease is extended, so all leases end within BEANSTALK_LEASE_MS. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "beanstalk_parts.h"
#include "waited.h"

/* A lease is extended when less than this time is left. */
#define LEASE_LEFT_MIN_MS (BEANSTALK_LEASE_MS / 2)

static void arm(struct beanstalk_connection *connection);

struct beanstalk_reserved *held_find(const struct beanstalk_connection *connection, uint64_t id) {
    struct beanstalk_reserved *reserved = NULL;
    TAILQ_FOREACH(reserved, &connection->reserved, all) {
        if (reserved->id == id && !reserved->is_settling) return reserved;
    }
    return NULL;
}

uint64_t held_soonest_ms(const struct beanstalk_connection *connection) {
    const struct beanstalk_reserved *reserved = NULL;
    uint64_t soonest_ms = UINT64_MAX;
    TAILQ_FOREACH(reserved, &connection->reserved, all) {
        if (reserved->deadline_ms < soonest_ms) soonest_ms = reserved->deadline_ms;
    }
    return soonest_ms;
}

void held_token(const struct beanstalk_reserved *reserved, Tarry__Token *out) {
    tarry__token__init(out);
    out->epoch = reserved->epoch;
    out->position = reserved->position;
}

static void note_deadline(struct beanstalk *server, uint64_t id, uint64_t deadline_ms) {
    struct beanstalk_note *note = beanstalk_note_make(&server->notes, id);
    if (note != NULL) note->deadline_ms = deadline_ms;
}

/* A commit of one operation for each of several reserved jobs. No client waits for its reply. */
struct batch {
    struct batch_entry {
        Tarry__Op op;
        union {
            Tarry__Release release;
            Tarry__Extend extend;
        } body;
        Tarry__Token token;
    } * entries;
    Tarry__Op **ops;
    size_t count;
};

/* Makes a batch. If memory is exhausted, batch_add returns NULL for each job, and the jobs' leases end at their
 * deadlines. */
static struct batch batch_new(size_t count_max) {
    struct batch batch = {.entries = calloc(count_max, sizeof(*batch.entries)),
                          .ops = calloc(count_max, sizeof(Tarry__Op *))};
    return batch;
}

static struct batch_entry *batch_add(struct batch *batch, const struct beanstalk_reserved *reserved) {
    if (batch->entries == NULL || batch->ops == NULL) return NULL;
    struct batch_entry *entry = &batch->entries[batch->count];
    batch->ops[batch->count++] = &entry->op;
    tarry__op__init(&entry->op);
    held_token(reserved, &entry->token);
    return entry;
}

/* Commits and frees the batch. */
static void batch_commit(struct batch *batch, struct gateway *gateway, const struct gateway_caller *caller) {
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    commit.ops = batch->ops;
    commit.n_ops = batch->count;
    if (batch->count > 0) (void)gateway_commit(gateway, caller, &commit, NULL, NULL, NULL);
    free(batch->entries);
    free(batch->ops);
}

/* Releases all `count` jobs of the list, and frees the entries. */
static void release_all(struct beanstalk *server, const struct gateway_caller *caller,
                        struct beanstalk_reserved_list *list, size_t count) {
    struct batch batch = batch_new(count);
    struct beanstalk_reserved *reserved = NULL;
    while ((reserved = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, reserved, all);
        struct batch_entry *entry = batch_add(&batch, reserved);
        if (entry != NULL) {
            tarry__release__init(&entry->body.release);
            entry->body.release.id = reserved->id;
            entry->body.release.token = &entry->token;
            entry->op.op_case = TARRY__OP__OP_RELEASE;
            entry->op.release = &entry->body.release;
        }
        note_deadline(server, reserved->id, 0);
        free(reserved);
    }
    batch_commit(&batch, server->gateway, caller);
    server->changes++;
}

/* Extends the leases of all reserved jobs to BEANSTALK_LEASE_MS from now. */
static void extend_all(struct beanstalk_connection *connection) {
    struct batch batch = batch_new(connection->reserved_count);
    struct beanstalk_reserved *reserved = NULL;
    uint64_t until_ms = beanstalk_now_ms() + BEANSTALK_LEASE_MS;
    TAILQ_FOREACH(reserved, &connection->reserved, all) {
        struct batch_entry *entry = reserved->is_settling ? NULL : batch_add(&batch, reserved);
        if (entry == NULL) continue;
        tarry__extend__init(&entry->body.extend);
        entry->body.extend.id = reserved->id;
        entry->body.extend.token = &entry->token;
        entry->body.extend.lease_ms = BEANSTALK_LEASE_MS;
        entry->op.op_case = TARRY__OP__OP_EXTEND;
        entry->op.extend = &entry->body.extend;
        reserved->lease_until_ms = until_ms;
    }
    const struct gateway_caller caller = connection_caller(connection);
    batch_commit(&batch, connection->server->gateway, &caller);
}

/* Releases jobs whose TTR is over, and extends leases that end soon. */
static void on_timer(void *argument) {
    struct beanstalk_connection *connection = argument;
    struct beanstalk *server = connection->server;
    struct beanstalk_reserved_list over = TAILQ_HEAD_INITIALIZER(over);
    const uint64_t now_ms = beanstalk_now_ms();
    size_t count = 0;
    bool extends = false;
    connection->timer = 0;
    /* If this process was stopped for a while (F-13), commands may have arrived during the stop. They are executed
     * before any TTR ends. */
    if (now_ms > connection->timer_ms + STOOD_STILL_MS) connection->settles_ms = now_ms + STOOD_STILL_SETTLE_MS;
    const bool settles = now_ms < connection->settles_ms;
    for (struct beanstalk_reserved *reserved = TAILQ_FIRST(&connection->reserved), *next; reserved != NULL;
         reserved = next) {
        next = TAILQ_NEXT(reserved, all);
        if (reserved->is_settling) continue;
        if (reserved->deadline_ms > now_ms || settles) {
            extends |= reserved->lease_until_ms <= now_ms + LEASE_LEFT_MIN_MS;
            continue;
        }
        /* A part of the job may have been sent, so it counts as delivered. */
        gateway_left(server->gateway, reserved->lease, true);
        TAILQ_REMOVE(&connection->reserved, reserved, all);
        TAILQ_INSERT_TAIL(&over, reserved, all);
        connection->reserved_count--;
        server->timeouts++;
        struct beanstalk_note *note = beanstalk_note_make(&server->notes, reserved->id);
        if (note != NULL) note->timeouts++;
        count++;
    }
    const struct gateway_caller caller = connection_caller(connection);
    if (count > 0) release_all(server, &caller, &over, count);
    if (extends) extend_all(connection);
    arm(connection);
}

static void arm(struct beanstalk_connection *connection) {
    struct gateway *gateway = connection->server->gateway;
    const struct beanstalk_reserved *reserved = NULL;
    uint64_t now_ms = beanstalk_now_ms(), at_ms = UINT64_MAX;
    TAILQ_FOREACH(reserved, &connection->reserved, all) {
        if (reserved->is_settling) continue;
        uint64_t extend_ms = reserved->lease_until_ms - LEASE_LEFT_MIN_MS;
        if (reserved->deadline_ms < at_ms) at_ms = reserved->deadline_ms;
        if (extend_ms < at_ms) at_ms = extend_ms;
    }
    if (connection->timer != 0) gateway_timer_cancel(gateway, connection->timer);
    connection->timer = 0;
    if (at_ms == UINT64_MAX) return;
    if (at_ms < connection->settles_ms) at_ms = connection->settles_ms;
    connection->timer_ms = at_ms > now_ms ? at_ms : now_ms;
    connection->timer = gateway_timer(gateway, at_ms > now_ms ? at_ms - now_ms : 0, on_timer, connection);
}

void held_touch(struct beanstalk_connection *connection, struct beanstalk_reserved *reserved) {
    reserved->is_settling = false;
    reserved->deadline_ms = beanstalk_now_ms() + (uint64_t)reserved->job.ttr_s * 1000;
    note_deadline(connection->server, reserved->id, reserved->deadline_ms);
    arm(connection);
}

void held_add(struct beanstalk_connection *connection, struct beanstalk_reserved *reserved) {
    TAILQ_INSERT_TAIL(&connection->reserved, reserved, all);
    connection->reserved_count++;
    reserved->lease_until_ms = beanstalk_now_ms() + BEANSTALK_LEASE_MS;
    held_touch(connection, reserved);
}

void held_drop(struct beanstalk_connection *connection, struct beanstalk_reserved *reserved) {
    assert(connection->reserved_count > 0);
    /* A client has settled the lease, so the job counts as delivered. */
    gateway_left(connection->server->gateway, reserved->lease, true);
    note_deadline(connection->server, reserved->id, 0);
    TAILQ_REMOVE(&connection->reserved, reserved, all);
    connection->reserved_count--;
    free(reserved);
    arm(connection);
}

void held_give_back(struct beanstalk_connection *connection) {
    struct beanstalk *server = connection->server;
    const struct beanstalk_reserved *reserved = NULL;
    size_t count = connection->reserved_count;
    /* For some jobs the door has not reported whether they were sent. A part of such a job may be in the kernel, and
     * the client may read it. So these jobs count as delivered (TRUE-1). */
    TAILQ_FOREACH(reserved, &connection->reserved, all) {
        gateway_left(server->gateway, reserved->lease, true);
    }
    connection->reserved_count = 0;
    const struct gateway_caller caller = connection_caller(connection);
    if (count > 0) release_all(server, &caller, &connection->reserved, count);
}
