/* follow_wire.c: see follow_wire.h. */
#include "follow_wire.h"

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

struct pair_message follow_wire_asked(const Tarry__Follow *follow) {
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
    };
}

void follow_wire_answer(const struct pair_message *answer, Tarry__FollowReply *out) {
    out->verdict = TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING;
    if (answer->kind == PAIR_PROMISE) out->verdict = TARRY__FOLLOW_REPLY__VERDICT__PROMISE;
    if (answer->kind == PAIR_CUT_TO) out->verdict = TARRY__FOLLOW_REPLY__VERDICT__CUT_TO;
    if (answer->kind == PAIR_TAKE_OVER) out->verdict = TARRY__FOLLOW_REPLY__VERDICT__TAKE_OVER;
    out->epoch = answer->epoch;
    out->serial = answer->serial;
    out->cut = answer->end;
    out->stamp = answer->stamp;
    out->committed = answer->committed;
    out->floor = answer->floor;
    out->led = answer->led;
    out->alone = answer->alone;
    out->in_sync = answer->in_sync;
    out->wants = answer->kind == PAIR_NOT_LEADING && answer->word == PAIR_PROMOTE;
    out->word = answer->kind == PAIR_PROMISE ? answer->word : 0;
}

struct pair_message follow_wire_answered(const Tarry__FollowReply *body) {
    static const enum pair_message_kind kinds[] = {
        [TARRY__FOLLOW_REPLY__VERDICT__FRAMES] = PAIR_FRAMES,
        [TARRY__FOLLOW_REPLY__VERDICT__PROMISE] = PAIR_PROMISE,
        [TARRY__FOLLOW_REPLY__VERDICT__CUT_TO] = PAIR_CUT_TO,
        [TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING] = PAIR_NOT_LEADING,
        [TARRY__FOLLOW_REPLY__VERDICT__TAKE_OVER] = PAIR_TAKE_OVER,
    };
    bool is_leading = body->verdict != TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING;
    return (struct pair_message){
        .kind = kinds[body->verdict],
        .epoch = body->epoch,
        .serial = body->serial,
        .end = body->cut,
        .stamp = body->stamp,
        .committed = body->committed,
        .floor = body->floor,
        .led = body->led,
        .alone = body->alone,
        .in_sync = body->in_sync,
        .word = is_leading    ? (enum pair_word)body->word
                : body->wants ? PAIR_PROMOTE
                              : 0,
    };
}

int follow_wire_common(struct log *log, const Tarry__Follow *follow, uint64_t *out_position) {
    struct log_epochs own, others = {.count = follow->n_epochs, .start = LOG_POSITION_FIRST, .end = follow->end};
    struct log_epoch items[FOLLOW_EPOCHS_MAX];
    int error = log_epochs_read(log, &own);
    if (error != 0) return error;
    for (size_t i = 0; i < others.count; i++) items[i] = (struct log_epoch){follow->epochs[i], follow->epoch_starts[i]};
    if (others.count == 0) items[others.count++] = (struct log_epoch){follow->last_epoch, LOG_POSITION_FIRST};
    others.start = items[0].start;
    others.items = items;
    *out_position = log_epochs_common(&own, &others);
    log_epochs_deinit(&own);
    return 0;
}
