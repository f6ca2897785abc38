/* leader_half.c: see leader_half.h. */
#include "leader_half.h"

#include <assert.h>
#include <stddef.h>

#include "tarry_limits.h"

/* Delay after which a new committed position is sent even without new frames. */
#define COMMITTED_DELAY_NS (3 * PAIR_NS_PER_MS)
/* Time that a request may wait for a follower that counts. Beyond it, later requests are refused as busy. */
#define STALLED_NS (1000 * PAIR_NS_PER_MS)
/* Interval of the checks that measure how long requests wait for the follower. A check adds at most twice the interval.
 * So time in which this process was stopped is not counted: the follower's question may then wait in a socket (F-13).
 */
#define STALL_LOOK_EVERY_NS (250 * PAIR_NS_PER_MS)

void leader_half_init(struct leader_half *half, const struct pair_times *times) {
    *half = (struct leader_half){.times = *times,
                                 .kept_from = UINT64_MAX,
                                 .wake_ns = UINT64_MAX,
                                 .waits_since_ns = UINT64_MAX};
}

void leader_half_begin(struct leader_half *half, uint64_t end) {
    half->written = half->syncs_from = end;
}

void leader_half_written(struct leader_half *half, uint64_t end) {
    if (end <= half->written) return;
    uint64_t *slot = &half->syncs[half->sync_next++ % LEADER_SYNCS_KNOWN];
    if (*slot != 0) half->syncs_from = *slot;
    *slot = half->written = end;
}

/* ---- questions */

void leader_half_hear(struct leader_half *half, const struct pair *pair, const Tarry__Follow *follow, uint64_t now_ns) {
    if (now_ns - half->asked_ns > LEADER_NEAR_PATIENCE_MS * PAIR_NS_PER_MS)
        half->chased_ns = 0; /* the follower has asked nothing for LEADER_NEAR_PATIENCE_MS */
    half->asked_ns = now_ns;
    if (follow->end > half->follower_end) half->grown_ns = now_ns;
    half->follower_end = follow->end;
    /* Keep no log for a follower that has served alone, because it only asks again and again and never follows. */
    bool never_follows = pair->by_operator && follow->alone;
    if (pair->role == PAIR_LEADING && !never_follows) leader_half_keep(half, follow->end, now_ns);
}

/* Returns whether this node compares a requester's log with its own. Without a coordinator, a candidate also compares:
 * it leads from the first question of the node that promised. */
bool leader_half_compares(const struct pair *pair) {
    return pair->role == PAIR_LEADING || pair->role == PAIR_CANDIDATE;
}

/* Returns the number of the leader's syncs that the follower must still repeat; UINT64_MAX: more than `syncs` contains.
 */
static uint64_t syncs_behind(const struct leader_half *half, uint64_t follower_end) {
    uint64_t count = 0;
    if (follower_end < half->syncs_from) return UINT64_MAX;
    for (size_t i = 0; i < LEADER_SYNCS_KNOWN; i++) count += half->syncs[i] > follower_end;
    return count;
}

/* Returns the maximum number of syncs that the follower may still lack when the leader begins to wait for it. The
 * number grows while the follower cannot catch up; UINT64_MAX: no limit. */
static uint64_t syncs_near(uint64_t chased_ns) {
    uint64_t doublings = chased_ns / (LEADER_NEAR_PATIENCE_MS * PAIR_NS_PER_MS), syncs = LEADER_NEAR_SYNCS;
    while (doublings-- > 0 && syncs <= LEADER_SYNCS_KNOWN) syncs *= 2;
    return syncs > LEADER_SYNCS_KNOWN ? UINT64_MAX : syncs;
}

bool leader_half_is_near(struct leader_half *half, uint64_t follower_end, uint64_t now_ns) {
    bool has_grown = follower_end > half->stuck_end;
    bool lacks_little = follower_end + FOLLOW_NEAR_BYTES >= half->written && has_grown;
    if (lacks_little && half->chased_ns == 0) half->chased_ns = now_ns;
    bool is_near = lacks_little && syncs_behind(half, follower_end) <= syncs_near(now_ns - half->chased_ns);
    if (is_near || !lacks_little) half->chased_ns = 0;
    return is_near;
}

/* Returns how long a question may be held. An idle follower must have time to ask again before it counts as silent, and
 * it does not know the leader's solo-after. */
static uint64_t hold_ns(const struct leader_half *half, const Tarry__Follow *follow) {
    uint64_t third_ms = half->times.solo_after_ms / 3;
    return (third_ms < follow->wait_ms ? third_ms : follow->wait_ms) * PAIR_NS_PER_MS;
}

bool leader_half_take(struct leader_half *half, const Tarry__Follow *follow, void *held,
                      const struct pair_message *answer, uint64_t committed, uint64_t now_ns) {
    /* The follower will fetch a snapshot, whose position is at or above `committed`. It then needs the log from the
     * snapshot's position on, so keep the log from `committed` on. */
    if (answer->kind == PAIR_RETIRED) leader_half_keep(half, committed, now_ns);
    if (answer->kind != PAIR_FRAMES) return false;
    assert(half->held == NULL);
    half->held = held;
    half->held_end = follow->end;
    half->held_stamp = follow->stamp;
    half->held_ns = now_ns;
    half->until_ns = now_ns + hold_ns(half, follow);
    return true;
}

void *leader_half_release(struct leader_half *half) {
    void *held = half->held;
    half->held = NULL;
    return held;
}

/* ---- releasing committed replies */

/* Notes that replies were sent. Each call that sent a reply restarts the stall timer, because under load some replies
 * always wait. */
void leader_half_released(struct leader_half *half, bool has_left, bool waits, uint64_t now_ns) {
    if (!waits || has_left) half->waits_since_ns = UINT64_MAX;
    if (waits && half->waits_since_ns == UINT64_MAX) half->waits_since_ns = now_ns;
}

bool leader_half_look(struct leader_half *half, uint64_t now_ns) {
    bool waits = half->waits_since_ns != UINT64_MAX;
    waited_look(&half->leaves, waits ? half->waits_since_ns : 0, now_ns, 2 * STALL_LOOK_EVERY_NS);
    bool is_stalled = waits && half->leaves.ns > STALLED_NS;
    if (is_stalled == (half->stalled_ns != 0)) return false;
    half->stalled_ns = is_stalled ? now_ns : 0;
    return true;
}

/* ---- answers */

void leader_half_look_at_disk(struct leader_half *half, uint64_t since_ns, uint64_t now_ns) {
    hung_disk_look(&half->disk, since_ns, now_ns);
}

/* F-31a: returns whether the follower should lead because this node's disk hangs. The follower has all acknowledged
 * frames, and also the frames that wait for this disk. The leader answers it with PAIR_TAKE_OVER; otherwise the
 * follower would lead only after the silence timeout. This node starts again when its disk works. */
bool leader_half_is_hung(const struct leader_half *half, const struct pair *pair) {
    bool may_lead = pair->counted && pair_is_in_sync(pair) && !pair->by_operator && !pair->is_async;
    return may_lead && hung_disk_ms(&half->disk) >= LEADER_DISK_HUNG_MS;
}

bool leader_half_must_answer(struct leader_half *half, const struct pair *pair, bool wants_word, uint64_t now_ns) {
    half->wake_ns = UINT64_MAX;
    if (half->held == NULL) return false;
    half->wake_ns = half->until_ns;
    if (pair_hands_over(pair) || leader_half_is_hung(half, pair)) return true;
    if (half->written > half->held_end || now_ns >= half->until_ns) return true;
    /* The follower has seen no answer of this epoch yet, so answer at once to tell it that it follows. */
    if (half->held_stamp == 0) return true;
    if (pair->counted && wants_word) return true;
    if (pair->committed <= half->told) return false;
    uint64_t tell_ns = half->held_ns + COMMITTED_DELAY_NS;
    if (tell_ns < half->wake_ns) half->wake_ns = tell_ns;
    return now_ns >= tell_ns;
}

void leader_half_answer(struct leader_half *half, const struct pair *pair, struct pair_message *answer) {
    if (answer->kind != PAIR_FRAMES) return;
    if (leader_half_is_hung(half, pair)) {
        answer->kind = PAIR_TAKE_OVER;
        return;
    }
    if (!half->began) answer->committed = 0;
    half->told = answer->committed;
}

bool leader_half_declares(const struct leader_half *half, const struct pair *pair) {
    bool is_hung = hung_disk_ms(&half->disk) >= LEADER_DISK_HUNG_MS;
    return pair->role == PAIR_LEADING && !pair->by_operator && !is_hung;
}

uint64_t leader_half_known(const struct pair *pair) {
    if (pair->role != PAIR_LEADING) return 0;
    bool is_below = pair->committed < pair->begun; /* earlier leaders acknowledged the commits between `committed` and
                                                      `begun`, the end of the log when this epoch began */
    return is_below ? pair->begun : pair->committed;
}

/* Returns when leader_half_look is due. */
static uint64_t stall_timer(const struct leader_half *half) {
    if (half->waits_since_ns == UINT64_MAX || half->stalled_ns != 0) return UINT64_MAX;
    bool is_looked_at = half->leaves.since_ns == half->waits_since_ns;
    uint64_t left_ns = is_looked_at ? STALLED_NS + 1 - half->leaves.ns : STALLED_NS;
    uint64_t from_ns = is_looked_at ? half->leaves.looked_ns : half->waits_since_ns;
    return from_ns + (left_ns < STALL_LOOK_EVERY_NS ? left_ns : STALL_LOOK_EVERY_NS);
}

uint64_t leader_half_timer(const struct leader_half *half) {
    uint64_t stall_ns = stall_timer(half);
    uint64_t look_ns = hung_disk_timer(&half->disk), until_ns = stall_ns < look_ns ? stall_ns : look_ns;
    return until_ns < half->wake_ns ? until_ns : half->wake_ns;
}

/* ---- the log that the follower needs */

void leader_half_keep(struct leader_half *half, uint64_t from, uint64_t now_ns) {
    half->kept_from = from;
    half->kept_ns = now_ns;
}

void leader_half_forget_needs(struct leader_half *half, bool is_copied, uint64_t now_ns) {
    if (half->kept_from == UINT64_MAX) return;
    if (is_copied) half->kept_ns = now_ns;
    if ((now_ns - half->kept_ns) / PAIR_NS_PER_MS > half->times.keep_ms) half->kept_from = UINT64_MAX;
}

/* ---- a follower that stores nothing (F-28) */

uint64_t leader_half_stuck_ns(const struct leader_half *half, const struct pair *pair) {
    uint64_t since_ns = half->waits_since_ns, wait_ms = half->times.solo_after_ms;
    if (pair->role != PAIR_LEADING || !pair->counted) return UINT64_MAX;
    if (since_ns == UINT64_MAX || wait_ms == PAIR_TIME_NEVER) return UINT64_MAX;
    if (half->grown_ns > since_ns) since_ns = half->grown_ns;
    return since_ns + wait_ms * PAIR_NS_PER_MS;
}

/* Gives up a follower that stores nothing. Returns false if the follower has everything: it has nothing to store, and
 * only its confirmation is late. */
bool leader_half_give_up(struct leader_half *half) {
    if (half->follower_end >= half->written) return false;
    bool is_first = half->stuck_end != half->follower_end;
    half->stuck_end = half->follower_end;
    return is_first;
}

void leader_half_overslept(struct leader_half *half, uint64_t now_ns) {
    half->grown_ns = now_ns;
}
