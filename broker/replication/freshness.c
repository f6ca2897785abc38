/* freshness.c: see freshness.h. */
#include "freshness.h"

#include "tarry_limits.h"

#define NS_PER_MS UINT64_C(1000000)

static void prove(struct freshness *freshness, uint64_t applied) {
    while (freshness->next.asked_ns != 0 && applied >= freshness->next.known) {
        freshness->proved = freshness->next;
        freshness->next = freshness->newest;
        freshness->newest = (struct freshness_word){0};
    }
}

static uint64_t youngest_ns(const struct freshness *freshness) {
    if (freshness->newest.asked_ns != 0) return freshness->newest.asked_ns;
    return freshness->next.asked_ns != 0 ? freshness->next.asked_ns : freshness->proved.asked_ns;
}

void freshness_heard(struct freshness *freshness, uint32_t epoch, uint64_t asked_ns, uint64_t known, uint64_t applied) {
    const struct freshness_word word = {asked_ns, known};
    if (epoch != freshness->epoch) *freshness = (struct freshness){.epoch = epoch};
    if (known == 0 || asked_ns <= youngest_ns(freshness)) return;
    if (freshness->next.asked_ns == 0)
        freshness->next = word;
    else
        freshness->newest = word;
    prove(freshness, applied);
}

void freshness_applied(struct freshness *freshness, uint64_t applied) {
    prove(freshness, applied);
}

static uint64_t age_ns(const struct freshness_word *word, uint64_t now_ns) {
    return word->asked_ns == 0 ? UINT64_MAX : now_ns - word->asked_ns;
}

uint64_t freshness_age_ns(const struct freshness *freshness, uint64_t now_ns) {
    return age_ns(&freshness->proved, now_ns);
}

/* Returns whether the leader has confirmed a position that is new enough, so that this node only has to apply the log
 * up to it. */
static bool has_word(const struct freshness *freshness, uint64_t staleness_ns, uint64_t now_ns) {
    return age_ns(&freshness->next, now_ns) <= staleness_ns || age_ns(&freshness->newest, now_ns) <= staleness_ns;
}

static enum freshness_verdict judge_age(const struct freshness *freshness, struct freshness_wish *wish, bool follows,
                                        uint64_t now_ns) {
    if (wish->staleness_ns == 0) return FRESH_ENOUGH;
    if (follows && freshness_age_ns(freshness, now_ns) <= wish->staleness_ns) return FRESH_ENOUGH;
    if (now_ns >= wish->until_ns) return FRESH_TOO_OLD;
    if (follows && has_word(freshness, wish->staleness_ns, now_ns)) {
        wish->word_ns = 0;
        return FRESH_WAIT;
    }
    if (wish->word_ns == 0) wish->word_ns = now_ns;
    if (now_ns - wish->word_ns >= FRESH_WORD_MS * NS_PER_MS) return FRESH_TOO_OLD;
    return follows ? FRESH_ASK : FRESH_WAIT;
}

/* Decides whether a question may be answered, waits or is refused (TRUE-1). */
enum freshness_verdict freshness_judge(const struct freshness *freshness, struct freshness_wish *wish, bool follows,
                                       uint64_t applied, uint64_t now_ns) {
    if (applied < wish->at_least) return now_ns >= wish->until_ns ? FRESH_BEHIND : FRESH_WAIT;
    return judge_age(freshness, wish, follows, now_ns);
}

void freshness_overslept(struct freshness_wish *wish, uint64_t now_ns) {
    uint64_t until_ns = now_ns + FRESH_WORD_MS * NS_PER_MS;
    if (wish->word_ns != 0) wish->word_ns = now_ns;
    if (wish->until_ns < until_ns) wish->until_ns = until_ns;
}

uint64_t freshness_timer(const struct freshness_wish *wish) {
    uint64_t word_ns = wish->word_ns == 0 ? UINT64_MAX : wish->word_ns + FRESH_WORD_MS * NS_PER_MS;
    return word_ns < wish->until_ns ? word_ns : wish->until_ns;
}

uint64_t freshness_awaits(const struct freshness *freshness, const struct freshness_wish *wish, uint64_t applied) {
    if (applied < wish->at_least) return wish->at_least;
    return wish->staleness_ns != 0 && freshness->next.asked_ns != 0 ? freshness->next.known : UINT64_MAX;
}
