/* pair.c: status and control of a pair. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>

/* The program's struct is the first member, so its address is also that of the arena. */
struct pair_box {
    struct tarry_pair_view view;
    char cluster[2 * CLUSTER_ID_SIZE + 1];
    struct arena arena;
};

static const char several[] = "this call needs a client with exactly one address";

#define SAME(public_name, wire_name) _Static_assert((int)(public_name) == (int)(wire_name), #public_name)
SAME(TARRY_PRIMARY, TARRY__PAIR_REPLY__ROLE__PRIMARY);
SAME(TARRY_FOLLOWER, TARRY__PAIR_REPLY__ROLE__FOLLOWER);
SAME(TARRY_LOOKING, TARRY__PAIR_REPLY__ROLE__LOOKING);
SAME(TARRY_PROMOTING, TARRY__PAIR_REPLY__ROLE__PROMOTING);
SAME(TARRY_HANDING_OVER, TARRY__PAIR_REPLY__ROLE__HANDING_OVER);
SAME(TARRY_COPYING, TARRY__PAIR_REPLY__ROLE__COPYING);
SAME(TARRY_REPLICATION_NONE, TARRY__PAIR_REPLY__MODE__NONE);
SAME(TARRY_REPLICATION_ASYNC, TARRY__PAIR_REPLY__MODE__ASYNC);
SAME(TARRY_REPLICATION_SYNC, TARRY__PAIR_REPLY__MODE__SYNC);

const char *tarry_role_name(enum tarry_role role) {
    static const char *const names[] = {"unknown",   "primary",      "follower", "looking",
                                        "promoting", "handing_over", "copying"};
    size_t at = (size_t)role;
    return names[at < sizeof(names) / sizeof(names[0]) ? at : 0];
}

const char *tarry_replication_name(enum tarry_replication replication) {
    static const char *const names[] = {"none", "async", "sync", "unknown"};
    size_t at = (size_t)replication;
    return names[at < 3 ? at : 3];
}

static void fill(const Tarry__PairReply *from, struct pair_box *box) {
    for (size_t i = 0; i < from->cluster.len && i < CLUSTER_ID_SIZE; i++)
        snprintf(box->cluster + 2 * i, 3, "%02x", from->cluster.data[i]);
    box->view = (struct tarry_pair_view){
        .role = (enum tarry_role)from->role,
        .epoch = from->epoch,
        .node = from->node,
        .cluster = box->cluster,
        .member = from->member,
        .url = from->url,
        .primary = from->primary,
        .replication = (enum tarry_replication)from->mode,
        .solo_after_ms = from->solo_after_ms,
        .coordinator = from->coordinator,
        .problem = from->problem,
        .since_ms = from->since_ms,
        .now_ms = from->now_ms,
        .in_sync = from->in_sync,
        .alone = from->alone,
        .appended = from->appended,
        .durable = from->durable,
        .committed = from->committed,
        .applied = from->applied,
        .copied_size = from->copied,
        .copy_size = from->copy_bytes,
        .peer_url = "",
        .peer_member = "",
        .alone_since_ms = from->alone_since_ms,
        .record = from->record,
        .urls = (const char *const *)from->urls,
        .url_count = from->n_urls,
        .took_over_ms = from->took_over_ms,
    };
}

static void fill_peer(const Tarry__PairReply *from, struct tarry_pair_view *view) {
    const Tarry__PairPeer *peer = from->peer;
    const Tarry__PairDigest *digest = from->digest;
    if (peer != NULL) {
        view->has_peer = true;
        view->peer_url = peer->url;
        view->peer_member = peer->member;
        view->peer_heard_ms = peer->heard_ms;
        view->peer_durable = peer->durable;
        view->peer_applied = peer->applied;
        view->lag_frames = peer->lag_frames;
        view->lag_size = peer->lag_bytes;
        view->lag_ms = peer->lag_ms;
        view->peer_copied_size = peer->copied;
        view->peer_copy_size = peer->copy_bytes;
        view->left_ms = peer->left_ms;
    }
    if (digest != NULL) {
        view->has_digest = true;
        view->digest_position = digest->position;
        view->digest = digest->own;
        view->peer_digest = digest->peer;
        view->compared_ms = digest->compared_ms;
        view->compared_count = digest->count;
    }
}

static int ask(tarry_client *client, Tarry__Pair *body, const struct tarry_call *given,
               struct tarry_pair_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    if (client == NULL || out_view == NULL) return message_say(out_message, TARRY_E_ARGUMENT);
    if (client->link.addresses.count > 1) {
        message_set(out_message, several);
        return TARRY_E_ARGUMENT;
    }
    Tarry__Request wire = TARRY__REQUEST__INIT;
    wire.body_case = TARRY__REQUEST__BODY_PAIR;
    wire.pair = body;
    struct call call;
    int rv = OPTIONS_TAKE(options, given);
    if (rv != TARRY_OK) return message_say(out_message, rv);
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv == TARRY_OK && call.reply->body_case != TARRY__REPLY__BODY_PAIR)
        rv = message_say(out_message, TARRY_E_PROTOCOL);
    struct pair_box *box = rv == TARRY_OK ? calloc(1, sizeof(*box)) : NULL;
    if (rv == TARRY_OK && box == NULL) rv = message_say(out_message, TARRY_E_NOMEM);
    if (box != NULL) {
        fill(call.reply->pair, box);
        fill_peer(call.reply->pair, &box->view);
        call_keep(&call, &box->arena);
        *out_view = &box->view;
    }
    call_end(&call);
    return rv;
}

int tarry_pair_status(tarry_client *client, const struct tarry_call *call, struct tarry_pair_view **out_view,
                      char out_message[TARRY_MESSAGE_SIZE]) {
    Tarry__Pair body = TARRY__PAIR__INIT;
    return ask(client, &body, call, out_view, out_message);
}

int tarry_promote(tarry_client *client, enum tarry_assertion assertion, const struct tarry_call *call,
                  struct tarry_pair_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    Tarry__Pair body = TARRY__PAIR__INIT;
    if ((unsigned)assertion > TARRY_FORCE) return message_say(out_message, TARRY_E_ARGUMENT);
    body.what = TARRY__PAIR__WHAT__PROMOTE;
    body.peer_is_stopped = assertion == TARRY_PEER_IS_STOPPED;
    body.force = assertion == TARRY_FORCE;
    return ask(client, &body, call, out_view, out_message);
}

int tarry_demote(tarry_client *client, const struct tarry_call *call, struct tarry_pair_view **out_view,
                 char out_message[TARRY_MESSAGE_SIZE]) {
    Tarry__Pair body = TARRY__PAIR__INIT;
    body.what = TARRY__PAIR__WHAT__DEMOTE;
    return ask(client, &body, call, out_view, out_message);
}

int tarry_pair_record(tarry_client *client, bool writes, enum tarry_assertion assertion, const struct tarry_call *call,
                      struct tarry_pair_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    Tarry__Pair body = TARRY__PAIR__INIT;
    if ((unsigned)assertion > TARRY_PEER_IS_STOPPED) return message_say(out_message, TARRY_E_ARGUMENT);
    body.what = writes ? TARRY__PAIR__WHAT__WRITE_RECORD : TARRY__PAIR__WHAT__RECORD;
    body.peer_is_stopped = assertion == TARRY_PEER_IS_STOPPED;
    return ask(client, &body, call, out_view, out_message);
}

void tarry_pair_free(struct tarry_pair_view *view) {
    if (view == NULL) return;
    struct pair_box *box = (struct pair_box *)view;
    arena_deinit(&box->arena);
    free(box);
}
