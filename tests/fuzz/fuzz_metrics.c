/* fuzz_metrics.c: statistics as Prometheus text. Every line is a comment or a sample; the number of samples is
 * right, and the labels have the queues' names, in their order.
 *
 * The input: a packed StatsReply. */
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "fuzz.h"
#include "metrics.h"

#define HISTOGRAM_SERIES (DURATION_BUCKETS + 2u)
#define BROKER_SERIES (36u + 2u * HISTOGRAM_SERIES)
#define SUM_SERIES (13u + HISTOGRAM_SERIES)
#define PAIR_SERIES 16u
#define AMQP_SERIES 7u /* number of series that only a broker with an AMQP listener has */

static const char *past_name(const char *at) {
    assert(strncmp(at, "tarry_", 6) == 0);
    while (islower((unsigned char)*at) || isdigit((unsigned char)*at) || *at == '_') at++;
    return at;
}

/* Returns the position after a label's value; `name`, if not NULL, is the expected value. */
static const char *past_value(const char *at, const char *name) {
    for (; *at != '"'; at++) {
        assert(*at != '\n' && *at != 0);
        char c = *at;
        if (c == '\\') {
            at++;
            assert(*at == 'n' || *at == '"' || *at == '\\');
            c = *at == 'n' ? '\n' : *at;
        }
        assert(name == NULL || *name == c);
        if (name != NULL) name++;
    }
    assert(name == NULL || *name == 0);
    return at + 1;
}

/* Returns the queue's name that this sample of the family must have. Webhooks have families of their own. */
static const char *name_of(const char *line, const Tarry__StatsReply *stats, size_t turn) {
    if (strncmp(line, "tarry_push_", 11) == 0) {
        assert(stats->broker != NULL && turn < stats->broker->n_push);
        return stats->broker->push[turn]->queue;
    }
    assert(turn < stats->n_queues && turn < METRICS_QUEUES_MAX);
    return stats->queues[turn]->name;
}

/* Returns the position after `{…}`. `name` is the expected value of the label `queue`; NULL: there is none. */
static const char *past_labels(const char *at, const char *name) {
    while (*at != '}') {
        while (islower((unsigned char)*at)) at++;
        assert(at[0] == '=' && at[1] == '"');
        at = past_value(at + 2, name);
        name = NULL;
        assert(*at == ',' || *at == '}');
        if (*at == ',') at++;
    }
    return at + 1;
}

/* Returns how many samples per queue the family of this TYPE line has. */
static size_t samples_of(const char *at) {
    const char *end = strchr(at, '\n');
    if (strncmp(end - strlen(" histogram"), " histogram", strlen(" histogram")) == 0) return HISTOGRAM_SERIES;
    return strncmp(at, "# TYPE tarry_queue_tasks ", 25) == 0 ? 4 : 1;
}

static const char *past_line(const char *at, const Tarry__StatsReply *stats, size_t *per_queue, size_t *sample,
                             size_t *count) {
    if (*at == '#') {
        bool is_help = strncmp(at, "# HELP tarry_", 13) == 0;
        assert(is_help || strncmp(at, "# TYPE tarry_", 13) == 0);
        if (!is_help) *per_queue = samples_of(at);
        *sample = 0;
        return strchr(at, '\n') + 1;
    }
    const char *line = at;
    at = past_name(at);
    if (*at == '{') {
        const bool has_queue = strncmp(at, "{queue=\"", 8) == 0;
        at = past_labels(at + 1, has_queue ? name_of(line, stats, *sample / *per_queue) : NULL);
    }
    assert(*at == ' ');
    char *end;
    (void)strtod(at + 1, &end);
    assert(end > at + 1 && *end == '\n');
    ++*sample;
    ++*count;
    return end + 1;
}

static size_t series_of_broker(const Tarry__BrokerStats *broker) {
    if (broker == NULL) return 0;
    return BROKER_SERIES + (broker->pair != NULL ? PAIR_SERIES : 0) + (broker->amqp != NULL ? AMQP_SERIES : 0) +
           broker->n_push * METRICS_PUSH_SERIES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct arena arena; /* static, so that its large first block is kept between inputs */
    if (size > 4096) return 0;
    if (arena.size_max == 0) arena_init(&arena, 16u << 20);
    const Tarry__StatsReply *stats = tarry__stats_reply__unpack(&arena.pb, size, data);
    if (stats != NULL) {
        size_t text_size, per_queue = 1, sample = 0, count = 0;
        char *text = metrics_text(stats, &text_size);
        assert(text != NULL && strlen(text) == text_size);
        for (const char *at = text; *at != 0;) at = past_line(at, stats, &per_queue, &sample, &count);
        size_t shown = stats->n_queues < METRICS_QUEUES_MAX ? stats->n_queues : METRICS_QUEUES_MAX;
        assert(count == SUM_SERIES + shown * METRICS_QUEUE_SERIES + series_of_broker(stats->broker));
        free(text);
    }
    arena_reset(&arena);
    return 0;
}
