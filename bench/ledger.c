/* ledger.c: see ledger.h. */
#include "ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_DIGITS 16

static size_t bucket_of(uint64_t value) {
    if (value < 2 * HISTOGRAM_STEPS) return (size_t)value;
    /* Keep the highest bit of the value and the 7 bits after it. */
    const unsigned shift = 63u - (unsigned)__builtin_clzll(value) - 7;
    const size_t bucket = HISTOGRAM_STEPS * shift + (size_t)(value >> shift);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static uint64_t value_of(size_t bucket) {
    if (bucket < 2 * (size_t)HISTOGRAM_STEPS) return bucket;
    const unsigned shift = (unsigned)(bucket / HISTOGRAM_STEPS) - 1;
    return (uint64_t)(bucket - (size_t)HISTOGRAM_STEPS * shift) << shift;
}

void histogram_add(struct histogram *histogram, uint64_t value) {
    atomic_fetch_add_explicit(&histogram->counts[bucket_of(value)], 1, memory_order_relaxed);
}

static uint64_t count_in(const struct histogram *histogram, const struct histogram *before, size_t bucket) {
    const uint64_t then = before != NULL ? atomic_load_explicit(&before->counts[bucket], memory_order_relaxed) : 0;
    return atomic_load_explicit(&histogram->counts[bucket], memory_order_relaxed) - then;
}

uint64_t histogram_quantile(const struct histogram *histogram, const struct histogram *before, double q) {
    uint64_t count = 0, below = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) count += count_in(histogram, before, i);
    const uint64_t wanted = count > 0 ? (uint64_t)(q * (double)(count - 1)) + 1 : 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS && count > 0; i++) {
        below += count_in(histogram, before, i);
        if (below >= wanted) return value_of(i);
    }
    return 0;
}

void histogram_copy(struct histogram *to, const struct histogram *from) {
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        atomic_store_explicit(&to->counts[i], atomic_load_explicit(&from->counts[i], memory_order_relaxed),
                              memory_order_relaxed);
}

void ledger_init(struct ledger *ledger, uint64_t tasks) {
    memset(ledger, 0, sizeof(*ledger));
    ledger->tasks = tasks;
    ledger->seen = calloc(tasks / 8 + 1, sizeof(*ledger->seen));
    if (ledger->seen == NULL) bench_die("out of memory");
}

void ledger_deinit(struct ledger *ledger) {
    free(ledger->seen);
    ledger->seen = NULL;
}

static void write_number(char *text, uint64_t number) {
    for (int i = NUMBER_DIGITS - 1; i >= 0; i--, number >>= 4) text[i] = "0123456789abcdef"[number & 15];
}

static bool read_number(const char *text, uint64_t *out_number) {
    uint64_t number = 0;
    for (int i = 0; i < NUMBER_DIGITS; i++) {
        const unsigned digit = (unsigned char)text[i] - '0', letter = (unsigned char)text[i] - 'a';
        if (digit > 9 && letter > 5) return false;
        number = number << 4 | (digit <= 9 ? digit : letter + 10);
    }
    *out_number = number;
    return true;
}

void ledger_write(char *payload, size_t size, uint64_t number, uint64_t due_ms) {
    write_number(payload, number);
    write_number(payload + NUMBER_DIGITS, due_ms);
    memset(payload + LEDGER_PAYLOAD_SIZE_MIN, 'x', size - LEDGER_PAYLOAD_SIZE_MIN);
}

void ledger_prefetch(const struct ledger *ledger, const void *payload, size_t size) {
    uint64_t number;
    if (size < LEDGER_PAYLOAD_SIZE_MIN || !read_number(payload, &number) || number >= ledger->tasks) return;
    __builtin_prefetch((const void *)&ledger->seen[number / 8], 1);
}

uint64_t ledger_arrived(struct ledger *ledger, const void *payload, size_t size, uint64_t due_ms) {
    const uint64_t now_us = bench_wall_us();
    const char *text = payload;
    uint64_t number = 0, written_ms = 0;
    const bool is_ours = size >= LEDGER_PAYLOAD_SIZE_MIN && read_number(text, &number) &&
                         read_number(text + NUMBER_DIGITS, &written_ms) && number < ledger->tasks;
    if (!is_ours) {
        atomic_fetch_add(&ledger->foreign, 1);
        return UINT64_MAX;
    }
    const uint64_t due_us = (due_ms != 0 ? due_ms : written_ms) * 1000u;
    unsigned long long none = 0;
    if (atomic_load(&ledger->first_ns) == 0) atomic_compare_exchange_strong(&ledger->first_ns, &none, bench_now_ns());
    const unsigned char bit = (unsigned char)(1u << (number % 8));
    if ((atomic_fetch_or(&ledger->seen[number / 8], bit) & bit) != 0) {
        atomic_fetch_add(&ledger->twice, 1);
        return number;
    }
    if (now_us < due_us) atomic_fetch_add(&ledger->early, 1);
    histogram_add(&ledger->late_us, now_us > due_us ? now_us - due_us : 0);
    atomic_fetch_add(&ledger->arrived, 1);
    return number;
}

void ledger_print(const struct ledger *ledger) {
    static const struct {
        const char *name;
        double q;
    } quantiles[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1.0}};
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
        printf(" late_%s_us=%llu", quantiles[i].name,
               (unsigned long long)histogram_quantile(&ledger->late_us, NULL, quantiles[i].q));
    printf(" early=%llu twice=%llu foreign=%llu", (unsigned long long)ledger->early, (unsigned long long)ledger->twice,
           (unsigned long long)ledger->foreign);
}

bool ledger_is_good(const struct ledger *ledger, uint64_t expected) {
    return ledger->early == 0 && ledger->twice == 0 && ledger->foreign == 0 && ledger->arrived == expected;
}
