/* index_schedule.c: see index_schedule.h. */
#include "index_schedule.h"

#include <assert.h>

#include "tarry_limits.h"

/* Time between attempts to commit to a full disk. Meanwhile the index lags, and new tasks are refused (F-4). */
#define FULL_RETRY_NS 250000000ull
#define NS_PER_MS 1000000ull
/* Delay, or size of durable log, after which the writer wakes to absorb. */
#define GATHER_NS (20 * NS_PER_MS)
#define GATHER_BYTES (256u << 10)
/* Maximum wait of the writer in an inspection, where only orders arrive. An order wakes the writer. */
#define INSPECT_WAIT_NS (3600ull * 1000000000ull)

struct index_times index_times_of(uint64_t memory) {
    uint64_t scale = memory / MEMORY_DEFAULT;
    scale = scale < 1 ? 1 : scale < INDEX_BATCH_SCALE_MAX ? scale : INDEX_BATCH_SCALE_MAX;
    return (struct index_times){
        .delay_ns = INDEX_DELAY_MS * NS_PER_MS * scale,
        .gather_ns = GATHER_NS,
        .gather_bytes = GATHER_BYTES,
        .batch_records = INDEX_BATCH_RECORDS * scale,
        .maintains = true,
    };
}

void index_schedule_begin(struct index_schedule *out, const struct index_times *times, uint64_t position) {
    *out = (struct index_schedule){
        .times = *times, .absorbed = position, .committed = position, .told = position, .maintain = times->maintains};
}

static uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t until(uint64_t at_ns, uint64_t now_ns) {
    return at_ns > now_ns ? at_ns - now_ns : 0;
}

static enum index_effect wait(struct index_schedule *schedule, uint64_t wait_ns, uint64_t wanted) {
    schedule->wait_ns = wait_ns;
    schedule->wanted = wanted;
    return INDEX_WAIT;
}

/* F-4: the disk is full, so only the commit is tried again. Records missing in the index are in the log, and the next
 * start replays them. */
static enum index_effect when_full(struct index_schedule *schedule, const struct index_orders *orders) {
    if (schedule->stop_tried) return INDEX_STOP;
    uint64_t wait_ns = until(schedule->retry_ns, orders->now_ns);
    if (!orders->stop && wait_ns > 0) return wait(schedule, wait_ns, UINT64_MAX);
    schedule->stop_tried = orders->stop;
    return INDEX_COMMIT;
}

/* Returns the time until the next commit; UINT64_MAX: nothing to commit. */
static uint64_t commit_wait_ns(const struct index_schedule *schedule, const struct index_orders *orders) {
    if (schedule->absorbed == schedule->committed) return UINT64_MAX;
    bool is_awaited = schedule->committed < orders->hurry_to && schedule->absorbed >= orders->hurry_to;
    if (orders->stop || is_awaited || schedule->records >= schedule->times.batch_records) return 0;
    return until(schedule->oldest_ns + schedule->times.delay_ns, orders->now_ns);
}

/* Returns the time in ns until the writer has work other than to absorb durable frames. */
static uint64_t rest_ns(const struct index_schedule *schedule, const struct index_orders *orders) {
    if (orders->stop || schedule->maintain) return 0;
    uint64_t wait_ns = min_u64(orders->sign_wait_ns, commit_wait_ns(schedule, orders));
    wait_ns = min_u64(wait_ns, orders->maintain_wait_ns);
    return min_u64(wait_ns, min_u64(orders->erase_wait_ns, orders->retire_wait_ns));
}

/* Returns true once enough frames have gathered. The first frame wakes the writer, which then waits for more. */
static bool has_gathered(struct index_schedule *schedule, const struct index_orders *orders) {
    if (orders->durable - schedule->absorbed >= schedule->times.gather_bytes) return true;
    if (schedule->gather_until_ns == 0) schedule->gather_until_ns = orders->now_ns + schedule->times.gather_ns;
    return orders->now_ns >= schedule->gather_until_ns;
}

static bool may_absorb(struct index_schedule *schedule, const struct index_orders *orders) {
    if (orders->durable <= schedule->absorbed || schedule->records >= schedule->times.batch_records) return false;
    if (schedule->absorbed < orders->hurry_to) return true;
    return rest_ns(schedule, orders) == 0 || has_gathered(schedule, orders);
}

static enum index_effect rest(struct index_schedule *schedule, const struct index_orders *orders) {
    uint64_t wait_ns = rest_ns(schedule, orders);
    if (orders->durable <= schedule->absorbed) return wait(schedule, wait_ns, schedule->absorbed + 1);
    wait_ns = min_u64(wait_ns, until(schedule->gather_until_ns, orders->now_ns));
    return wait(schedule, wait_ns, schedule->absorbed + schedule->times.gather_bytes);
}

enum index_effect index_schedule_next(struct index_schedule *schedule, const struct index_orders *orders) {
    if (schedule->told < schedule->committed) {
        schedule->told = schedule->committed;
        return INDEX_TELL;
    }
    if (schedule->full) return when_full(schedule, orders);
    if (orders->sign_wait_ns == 0) return INDEX_SIGN;
    if (orders->has_window) return INDEX_LOAD_WINDOW;
    if (orders->inspects) return orders->stop ? INDEX_STOP : wait(schedule, INSPECT_WAIT_NS, UINT64_MAX);
    if (may_absorb(schedule, orders)) {
        schedule->limit = orders->durable; /* LOG-3 */
        return INDEX_ABSORB;
    }
    if (commit_wait_ns(schedule, orders) == 0) return INDEX_COMMIT;
    if (orders->stop) return INDEX_STOP;
    if (orders->erase_wait_ns == 0) return INDEX_ERASE;
    if (orders->retire_wait_ns == 0) return INDEX_RETIRE;
    if (schedule->maintain || orders->maintain_wait_ns == 0) return INDEX_MAINTAIN;
    return rest(schedule, orders);
}

void index_schedule_absorbed(struct index_schedule *schedule, uint64_t position, size_t records, uint64_t now_ns) {
    assert(position >= schedule->absorbed);
    if (schedule->absorbed == schedule->committed) schedule->oldest_ns = now_ns;
    schedule->absorbed = position;
    schedule->records = records;
    schedule->gather_until_ns = 0;
}

static void note_room(struct index_schedule *schedule, bool has_room, uint64_t now_ns) {
    if (!has_room) schedule->retry_ns = now_ns + FULL_RETRY_NS;
    schedule->full = !has_room;
}

void index_schedule_committed(struct index_schedule *schedule, bool has_room, uint64_t now_ns) {
    note_room(schedule, has_room, now_ns);
    if (!has_room) return;
    schedule->committed = schedule->absorbed;
    schedule->records = 0;
    schedule->maintain = schedule->times.maintains;
}

void index_schedule_sliced(struct index_schedule *schedule, enum index_effect effect, bool has_room, bool more,
                           uint64_t now_ns) {
    note_room(schedule, has_room, now_ns);
    if (effect == INDEX_MAINTAIN && has_room) schedule->maintain = more;
}

enum index_news_effect index_news_next(struct index_news *news, uint64_t indexed) {
    if (indexed <= news->told) return INDEX_NEWS_NONE;
    if (!news->is_renewed) {
        news->is_renewed = true;
        return INDEX_NEWS_RENEW_FILTER;
    }
    news->is_renewed = false;
    news->told = indexed;
    return INDEX_NEWS_STEP;
}

uint64_t index_schedule_copy_end(uint64_t committed, uint64_t indexed) {
    return indexed > committed ? indexed : committed;
}
