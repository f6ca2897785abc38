/* follow_wire.c: see follow_wire.h. */
#include "follow_wire.h"

#include <string.h>

#include "log_serve.h"
#include "tarry_limits.h"

void follow_wire_ask(const struct pair_message *question, Tarry__Follow *out) {
    out->floor = question->floor;
    out->serial = question->serial;
    out->stamp = question->stamp;
    out->proposes = question->kind == PAIR_PROPOSE;
    out->epoch = question->epoch;
    out->led = question->led;
    out->alone = question->alone;
    out->wants = question->word == PAIR_PROMOTE;
}

static bool is_another(const ProtobufCBinaryData *member, const struct hard_state *hard_state) {
    return member->len == MEMBER_ID_SIZE && hard_state_is_another(hard_state, member->data);
}

struct pair_message follow_wire_asked(const Tarry__Follow *follow, const struct hard_state *hard_state) {
    return (struct pair_message){
        .kind = follow->proposes ? PAIR_PROPOSE : PAIR_FOLLOW,
        .epoch = follow->epoch,
        .led = follow->led,
        .alone = follow->alone,
        .word = follow->wants ? PAIR_PROMOTE : 0,
        .floor = follow->floor,
        .serial = follow->serial,
        .end = follow->end,
        .stamp = follow->stamp,
        .another = is_another(&follow->member, hard_state),
    };
}

void follow_wire_answer(const struct pair_message *answer, Tarry__FollowReply *out) {
    out->verdict = TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING;
    if (answer->kind == PAIR_PROMISE) out->verdict = TARRY__FOLLOW_REPLY__VERDICT__PROMISE;
    if (answer->kind == PAIR_CUT_TO) out->verdict = TARRY__FOLLOW_REPLY__VERDICT__CUT_TO;
    if (answer->kind == PAIR_TAKE_OVER) out->verdict = TARRY__FOLLOW_REPLY__VERDICT__TAKE_OVER;
    if (answer->kind == PAIR_RETIRED) out->verdict = TARRY__FOLLOW_REPLY__VERDICT__NEED_SNAPSHOT;
    out->epoch = answer->epoch;
    out->serial = answer->serial;
    out->cut = answer->end;
    out->stamp = answer->stamp;
    out->committed = answer->committed;
    out->floor = answer->floor;
    out->led = answer->led;
    out->alone = answer->alone;
    out->in_sync = answer->in_sync;
    out->stranger = answer->stranger;
    out->wants = answer->kind == PAIR_NOT_LEADING && answer->word == PAIR_PROMOTE;
    out->word = answer->kind == PAIR_PROMISE ? answer->word : 0;
}

struct pair_message follow_wire_answered(const Tarry__FollowReply *body, const struct hard_state *hard_state) {
    static const enum pair_message_kind kinds[] = {
        [TARRY__FOLLOW_REPLY__VERDICT__FRAMES] = PAIR_FRAMES,
        [TARRY__FOLLOW_REPLY__VERDICT__PROMISE] = PAIR_PROMISE,
        [TARRY__FOLLOW_REPLY__VERDICT__CUT_TO] = PAIR_CUT_TO,
        [TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING] = PAIR_NOT_LEADING,
        [TARRY__FOLLOW_REPLY__VERDICT__TAKE_OVER] = PAIR_TAKE_OVER,
        [TARRY__FOLLOW_REPLY__VERDICT__NEED_SNAPSHOT] = PAIR_RETIRED,
    };
    bool is_leading = body->verdict != TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING;
    return (struct pair_message){
        .kind = kinds[body->verdict],
        .epoch = body->epoch,
        .serial = body->serial,
        .end = body->verdict == TARRY__FOLLOW_REPLY__VERDICT__NEED_SNAPSHOT ? body->log_start : body->cut,
        .stamp = body->stamp,
        .committed = body->committed,
        .floor = body->floor,
        .led = body->led,
        .alone = body->alone,
        .in_sync = body->in_sync,
        .stranger = body->stranger,
        .word = is_leading    ? (enum pair_word)body->word
                : body->wants ? PAIR_PROMOTE
                              : 0,
        .another = is_another(&body->member, hard_state),
    };
}

static bool has_epoch(const struct log_epochs *epochs, uint32_t epoch) {
    size_t i = 0;
    while (i < epochs->count && epochs->items[i].epoch != epoch) i++;
    return i < epochs->count;
}

/* Returns whether this log has retired the position where the two logs part. This is so if the last common position
 * lies before the beginning of this log. It is also so if the other log has no frame of the epoch of this log's first
 * frame, although it has reported all its epochs back to the beginning of this log. */
static bool is_retired(const struct log_epochs *own, const struct log_epochs *others, uint64_t common) {
    if (own->start == LOG_POSITION_FIRST || own->count == 0) return false;
    /* True: the other node has reported all its epochs; false: only its newest ones. */
    bool is_all = others->count < FOLLOW_EPOCHS_MAX;
    bool is_told = others->start < own->start || (is_all && others->start == own->start);
    return common < own->start || (is_told && !has_epoch(others, own->items[0].epoch));
}

static int find_common(struct log *log, const Tarry__Follow *follow, uint64_t *out_position) {
    struct log_epochs own, others = {.count = follow->n_epochs, .start = LOG_POSITION_FIRST, .end = follow->end};
    struct log_epoch items[FOLLOW_EPOCHS_MAX];
    int error;
    do error = log_epochs_read(log, &own);
    while (error == LOG_RETIRED); /* a segment was retired while log_epochs_read ran, so read the epochs again */
    if (error != 0) return error;
    for (size_t i = 0; i < others.count; i++) items[i] = (struct log_epoch){follow->epochs[i], follow->epoch_starts[i]};
    if (others.count == 0) items[others.count++] = (struct log_epoch){follow->last_epoch, LOG_POSITION_FIRST};
    others.start = items[0].start;
    others.items = items;
    *out_position = log_epochs_common(&own, &others);
    if (follow->n_epochs > 0 && is_retired(&own, &others, *out_position)) error = LOG_RETIRED;
    log_epochs_deinit(&own);
    return error;
}

int follow_wire_compare(struct log *log, const Tarry__Follow *follow, struct pair_event *event) {
    struct log_point point;
    int error = log_point(log, follow->end, &point);
    bool is_told = error == LOG_END || error == LOG_WITHIN || error == LOG_RETIRED;
    if (error != 0 && !is_told) return error;
    event->fits = error == 0 && follow->chain.len == FRAME_CHAIN_SIZE &&
                  memcmp(follow->chain.data, point.chain, FRAME_CHAIN_SIZE) == 0;
    if (event->fits) return 0;
    if (error != LOG_RETIRED) error = find_common(log, follow, &event->end);
    event->retired = error == LOG_RETIRED;
    if (!event->retired) return error;
    event->end = log_start(log);
    return 0;
}

static bool is_told(const Tarry__Follow *follow, uint32_t epoch) {
    if (follow->n_epochs == 0) return follow->last_epoch == epoch;
    size_t i = 0;
    while (i < follow->n_epochs && follow->epochs[i] != epoch) i++;
    return i < follow->n_epochs;
}

int follow_wire_tell_chain(struct log *log, const Tarry__Follow *follow, uint8_t chain[FRAME_CHAIN_SIZE],
                           Tarry__FollowReply *body) {
    struct log_point point;
    if (body->verdict != TARRY__FOLLOW_REPLY__VERDICT__CUT_TO) return 0;
    int error = log_point(log, body->cut, &point);
    if (error == LOG_RETIRED || error == LOG_WITHIN || error == LOG_END)
        return 0; /* this log has no frame to compare with */
    if (error != 0 || !is_told(follow, point.epoch)) return error;
    memcpy(chain, point.chain, FRAME_CHAIN_SIZE);
    body->chain = (ProtobufCBinaryData){FRAME_CHAIN_SIZE, chain};
    return 0;
}

bool follow_wire_differs(struct log *log, const Tarry__FollowReply *body) {
    struct log_point point;
    if (body->verdict != TARRY__FOLLOW_REPLY__VERDICT__CUT_TO || body->chain.len != FRAME_CHAIN_SIZE) return false;
    int error = log_point(log, body->cut, &point);
    if (error == LOG_WITHIN) return true; /* in this log no frame begins at the cut's position */
    return error == 0 && memcmp(point.chain, body->chain.data, FRAME_CHAIN_SIZE) != 0;
}
