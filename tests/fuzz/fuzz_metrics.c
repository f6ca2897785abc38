/* fuzz_metrics.c: the one page of the HTTP interface that is made of data: an answer about statistics as Prometheus
 * text. Every line is a comment or a sample; there is a sample of each metric per queue, with the queue's own name in
 * its label.
 *
 * The rest of broker/shell/http.c is nng's: its server reads the requests, and the handlers look at nothing in them.
 *
 * The input: a packed StatsReply. */
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "fuzz.h"
#include "stats.h"

#define QUEUE_GAUGES 12u /* samples of a queue, quantiles left out */
#define BROKER_GAUGES 25u
#define PAIR_GAUGES 16u

static const char *past_name(const char *at) {
    assert(strncmp(at, "tarry_", 6) == 0);
    while (islower((unsigned char)*at) || isdigit((unsigned char)*at) || *at == '_') at++;
    return at;
}

/* Past a label's value; `name`, if not NULL, is what it must say. */
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

/* One line, of the i-th sample of its metric. Returns the next line; counts samples that have no quantile. */
static const char *past_line(const char *at, const Tarry__StatsReply *stats, size_t *sample, size_t *gauges) {
    if (*at == '#') {
        assert(strncmp(at, "# TYPE tarry_", 13) == 0);
        *sample = 0;
        return strchr(at, '\n') + 1;
    }
    at = past_name(at);
    bool has_quantile = false;
    if (*at == '{') {
        at++;
        const char *equal = strchr(at, '=');
        if (strncmp(at, "queue=\"", 7) == 0) {
            /* A summary has four samples a queue, and leaves out queues without one. */
            const char *name = *sample < stats->n_queues ? stats->queues[*sample]->name : NULL;
            const char *end = past_value(at + 7, NULL);
            if (*end == '}') (void)past_value(at + 7, name);
            at = *end == ',' ? end + 1 : end;
        }
        if (*at != '}') {
            assert(equal != NULL && strncmp(at, "quantile=\"", 10) == 0);
            at = past_value(at + 10, NULL);
            has_quantile = true;
        }
        assert(*at == '}');
        at++;
    }
    assert(*at == ' ');
    char *end;
    (void)strtod(at + 1, &end);
    assert(end > at + 1 && *end == '\n');
    ++*sample;
    *gauges += !has_quantile;
    return end + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct arena arena; /* kept: its first block is large */
    if (size > 4096) return 0;
    if (arena.size_max == 0) arena_init(&arena, 16u << 20);
    const Tarry__StatsReply *stats = tarry__stats_reply__unpack(&arena.pb, size, data);
    if (stats != NULL) {
        size_t text_size, sample = 0, gauges = 0;
        char *text = stats_text(stats, &text_size);
        assert(text != NULL && strlen(text) == text_size);
        for (const char *at = text; *at != 0;) at = past_line(at, stats, &sample, &gauges);
        bool has_pair = stats->broker != NULL && stats->broker->pair != NULL;
        assert(gauges == stats->n_queues * QUEUE_GAUGES + (stats->broker != NULL ? BROKER_GAUGES : 0) +
                             (has_pair ? PAIR_GAUGES : 0));
        free(text);
    }
    arena_reset(&arena);
    return 0;
}
