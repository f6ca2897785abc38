/* silence.c: see silence.h. */
#include "silence.h"

/* Interval at which a node that does not lead asks the other node, in a pair without a coordinator. */
#define QUIET_MS 200u

/* Starts the timeout for the other node; it ends after `wait_ns`. */
static void silence_begin(struct silence *silence, uint64_t now_ns, uint64_t wait_ns) {
    silence->wait_ns = wait_ns;
    silence->until_ns = now_ns + wait_ns;
    silence->probe_ns = now_ns + wait_ns / 2;
    silence->probes = 0;
}

uint64_t silence_probe_wait_ns(const struct silence *silence) {
    return silence->wait_ns / SILENCE_PROBE_PART;
}

/* Returns whether to send a probe now. The other node counts as silent only after it had time to answer the probe. */
static bool silence_probes(struct silence *silence, uint64_t now_ns) {
    if (silence->probes == SILENCE_PROBES || now_ns < silence->probe_ns) return false;
    uint64_t answered_ns = now_ns + silence_probe_wait_ns(silence);
    silence->probes++;
    silence->probe_ns = silence->probes < SILENCE_PROBES ? answered_ns : UINT64_MAX;
    if (silence->until_ns < answered_ns) silence->until_ns = answered_ns;
    return true;
}

uint64_t silence_plan(struct silence *silence, uint64_t now_ns, uint64_t until_ns) {
    uint64_t look_ns = now_ns + silence->wait_ns / SILENCE_LOOKS;
    if (until_ns < look_ns) look_ns = until_ns;
    silence->look_ns = look_ns > now_ns ? look_ns : now_ns;
    return silence->look_ns;
}

/* Handles a check. Returns true if the check is so late that this process was stopped; the timeout for the other node
 * then starts again. */
static bool silence_overslept(struct silence *silence, uint64_t now_ns) {
    uint64_t late_ns = silence->wait_ns / SILENCE_LATE;
    if (silence->look_ns == 0 || now_ns <= silence->look_ns + late_ns) return false;
    silence->look_ns = now_ns;
    silence_begin(silence, now_ns, silence->wait_ns);
    return true;
}

/* ---- the node of a pair */

/* Returns whether this node reacts to silence only by asking again. Without a coordinator, a node that follows no
 * leader never replaces the other node by itself. */
static bool asks_only(const struct pair *pair) {
    bool is_quiet = pair->role != PAIR_LEADING && (pair->role != PAIR_FOLLOWING || pair->epoch == 0);
    return is_quiet && pair->by_operator;
}

/* Returns whether this node has a leader whose silence makes it claim the lead. */
static bool has_leader(const struct pair *pair, bool has_left) {
    return pair->role == PAIR_FOLLOWING && !pair->by_operator && !has_left;
}

/* Returns whether this leader reacts to the follower's death, by serving alone or by ending the hand-over. */
static bool awaits_follower(const struct pair *pair) {
    return pair->role == PAIR_LEADING && (pair->counted || pair->handing != PAIR_KEEPING);
}

void silence_heard(struct silence *silence, const struct pair *pair, const struct pair_times *times, uint64_t now_ns) {
    bool may_go_solo = pair->role == PAIR_LEADING && times->solo_after_ms != PAIR_TIME_NEVER;
    uint64_t wait_ms = may_go_solo ? times->solo_after_ms : times->failover_after_ms;
    if (asks_only(pair)) wait_ms = QUIET_MS;
    silence_begin(silence, now_ns, wait_ms * PAIR_NS_PER_MS);
}

void silence_is_left(struct silence *silence, uint64_t now_ns) {
    silence->until_ns = now_ns;
    silence->remind_ns = 0;
}

void silence_remind_by(struct silence *silence, uint64_t at_ns) {
    if (at_ns < silence->remind_ns) silence->remind_ns = at_ns;
}

bool silence_stood_still(struct silence *silence, const struct pair *pair, uint64_t now_ns) {
    return !asks_only(pair) && silence_overslept(silence, now_ns);
}

/* Returns when the other node will be reported as silent if it sends nothing. */
static uint64_t silent_ns(const struct silence *silence, bool has_left, uint64_t stuck_ns) {
    if (has_left) return UINT64_MAX;
    uint64_t until_ns = stuck_ns < silence->until_ns ? stuck_ns : silence->until_ns;
    return until_ns > silence->remind_ns ? until_ns : silence->remind_ns;
}

struct silence_verdict silence_look(struct silence *silence, const struct pair *pair, bool has_left, uint64_t stuck_ns,
                                    uint64_t now_ns) {
    struct silence_verdict verdict = {.stood_still = silence_stood_still(silence, pair, now_ns)};
    if (verdict.stood_still) return verdict;
    if (has_leader(pair, has_left)) verdict.probes = silence_probes(silence, now_ns);
    verdict.tells = now_ns >= silent_ns(silence, has_left, stuck_ns);
    verdict.gives_up = verdict.tells && pair->role == PAIR_LEADING && now_ns < silence->until_ns;
    if (verdict.tells) silence->remind_ns = now_ns + SILENCE_REMIND_NS;
    return verdict;
}

uint64_t silence_timer(const struct silence *silence, const struct pair *pair, bool has_left, uint64_t stuck_ns) {
    uint64_t until_ns = silent_ns(silence, has_left, stuck_ns);
    return has_leader(pair, has_left) && silence->probe_ns < until_ns ? silence->probe_ns : until_ns;
}

bool silence_probe_counts(const struct pair *pair, bool has_left, uint32_t epoch) {
    return has_leader(pair, has_left) && epoch != 0 && epoch >= pair->hard_state.floor;
}

bool silence_is_gone(struct silence *silence, const struct pair *pair, bool has_left, uint64_t now_ns) {
    if (awaits_follower(pair)) {
        silence_is_left(silence, now_ns);
        return true;
    }
    if (!has_leader(pair, has_left) || pair->epoch == 0 || now_ns < silence->remind_ns) return false;
    silence->remind_ns = now_ns + SILENCE_REMIND_NS;
    return true;
}
