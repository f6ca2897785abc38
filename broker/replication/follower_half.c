/* follower_half.c: see follower_half.h. */
#include "follower_half.h"

/* Maximum time for which a leader may hold a question; less if the silence timeout is short. */
#define WAIT_MAX_MS 200u
/* Additional time that a follower waits for an answer after the time for which the leader may hold the question. After
 * both, the answer counts as lost. */
#define ANSWER_EXTRA_MS 1000u
/* Delay after a question that failed. */
#define AGAIN_NS (50 * PAIR_NS_PER_MS)
#define REFUSED_AGAIN_NS (1000 * PAIR_NS_PER_MS)

void follower_half_init(struct follower_half *half, const struct pair_times *times) {
    *half = (struct follower_half){.times = *times, .again_ns = UINT64_MAX};
}

/* ---- asking */

bool follower_half_ask(struct follower_half *half, const struct pair_message *question) {
    bool is_open = half->asking && half->question.serial == question->serial;
    half->question = *question;
    return !half->has_left && !is_open;
}

void follower_half_sent(struct follower_half *half, bool is_sent, uint64_t now_ns) {
    half->asking = is_sent;
    half->again_ns = is_sent ? UINT64_MAX : now_ns + AGAIN_NS;
}

bool follower_half_listens(const struct follower_half *half, const struct pair *pair) {
    return pair->role != PAIR_LEADING || half->question.kind == PAIR_PROPOSE;
}

bool follower_half_leave(struct follower_half *half, const struct pair *pair) {
    bool follows = pair->role == PAIR_FOLLOWING && pair->epoch != 0;
    if (!follows || pair->cutting || half->has_left) return false;
    half->has_left = true;
    half->again_ns = UINT64_MAX;
    return true;
}

uint32_t follower_half_wait_ms(const struct follower_half *half) {
    uint64_t third_ms = half->times.failover_after_ms / 3;
    return third_ms < WAIT_MAX_MS ? (uint32_t)third_ms : WAIT_MAX_MS;
}

uint32_t follower_half_patience_ms(const struct follower_half *half) {
    return follower_half_wait_ms(half) + ANSWER_EXTRA_MS;
}

enum follower_due follower_half_due(struct follower_half *half, const struct pair *pair, uint64_t now_ns) {
    if (now_ns < half->again_ns) return FOLLOWER_DUE_NOTHING;
    half->again_ns = UINT64_MAX;
    if (pair->cutting) return FOLLOWER_DUE_CUT;
    return half->has_left ? FOLLOWER_DUE_NOTHING : FOLLOWER_DUE_ASK;
}

void follower_half_ask_again(struct follower_half *half, uint64_t now_ns) {
    half->again_ns = now_ns + AGAIN_NS;
}

void follower_half_refused(struct follower_half *half, uint64_t now_ns) {
    half->again_ns = now_ns + REFUSED_AGAIN_NS;
}

enum follower_unproved follower_half_unproved(struct follower_half *half, bool is_challenge, uint64_t now_ns) {
    if (is_challenge && ++half->challenges <= FOLLOWER_CHALLENGES_MAX) {
        if (half->challenges == 1) return FOLLOWER_ASKS_NOW;
        follower_half_ask_again(half, now_ns);
        return FOLLOWER_ASKS_SOON;
    }
    follower_half_refused(half, now_ns);
    return FOLLOWER_REFUSED;
}

void follower_half_proved(struct follower_half *half) {
    half->challenges = 0;
}

void follower_half_put_off_cut(struct follower_half *half, uint64_t end, uint64_t now_ns) {
    half->cut_end = end;
    half->again_ns = now_ns + REFUSED_AGAIN_NS;
}

void follower_half_settle(struct follower_half *half, const struct pair *pair, uint64_t now_ns) {
    bool is_idle = !half->asking && !pair->writing_state && !pair->cutting;
    if (pair->role == PAIR_FOLLOWING && is_idle && half->again_ns == UINT64_MAX) follower_half_ask_again(half, now_ns);
}

/* ---- an answer */

struct follower_take follower_take_begin(const struct pair *pair, const struct pair_message *answer, bool has_frames,
                                         bool is_newest) {
    return (struct follower_take){.leads = answer->kind != PAIR_NOT_LEADING,
                                  .is_newest = is_newest,
                                  .copies = has_frames && pair_takes(pair, answer)};
}

void follower_take_unfit(struct follower_take *take) {
    take->is_unfit = true;
}

/* Returns whether `step` is needed for this answer. The answer to an older question does not show the leader's present
 * state, so only the newest answer needs all steps. */
static bool is_wanted(const struct follower_take *take, enum follower_step step, const struct pair *pair,
                      uint64_t applied) {
    switch (step) {
    case FOLLOWER_CLOCK:
        return take->leads && (take->copies || take->is_newest);
    case FOLLOWER_COPY:
        return take->copies;
    case FOLLOWER_SYNC:
        return take->copies && !take->is_unfit;
    case FOLLOWER_DURABLE:
        return take->copies && !take->is_unfit;
    case FOLLOWER_LEADER:
        return take->leads;
    case FOLLOWER_ANSWERED:
        return !take->is_unfit;
    case FOLLOWER_HEARD: /* the rules must accept the answer first; they decide how long the leader may be silent */
        return !take->is_unfit && take->leads && take->is_newest;
    case FOLLOWER_APPLY:
        return !take->is_unfit && follower_may_apply(pair) > applied;
    case FOLLOWER_BEGIN:
    case FOLLOWER_DONE:
        break;
    }
    return true;
}

/* Returns the next step. The order of the steps makes the frames durable before FOLLOWER_DURABLE and FOLLOWER_ANSWERED
 * report them to the rules (R2). */
enum follower_step follower_take_next(struct follower_take *take, const struct pair *pair, uint64_t applied) {
    if (take->step == FOLLOWER_DONE) return FOLLOWER_DONE;
    do take->step++;
    while (!is_wanted(take, take->step, pair, applied));
    return take->step;
}

/* Returns the position up to which the core may apply frames (LOG-3). */
uint64_t follower_may_apply(const struct pair *pair) {
    if (pair->role != PAIR_FOLLOWING) return 0;
    return pair->committed;
}

/* Returns the newest position that is known to be committed; a cut or a snapshot must keep it (R8). */
uint64_t follower_keeps(const struct pair *pair, uint64_t known) {
    return pair->committed > known ? pair->committed : known;
}
