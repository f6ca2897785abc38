/* record_reads.c: see record_reads.h. */
#include "record_reads.h"

/* Delay before a failed read of the record is repeated. */
#define READ_AGAIN_NS UINT64_C(200000000)

void record_reads_init(struct record_reads *reads) {
    *reads = (struct record_reads){.again_ns = UINT64_MAX};
}

bool record_reads_ask(struct record_reads *reads, bool presence, uint64_t now_ns) {
    reads->presence = presence;
    if (!reads->failed) return true;
    reads->again_ns = now_ns + READ_AGAIN_NS;
    return false;
}

bool record_reads_due(struct record_reads *reads, uint64_t now_ns) {
    if (now_ns < reads->again_ns) return false;
    reads->again_ns = UINT64_MAX;
    return true;
}

bool record_reads_took(struct record_reads *reads, const struct pair *pair, const struct pair_event *event) {
    bool is_unknown = event->kind == PAIR_RECORD_READ && event->outcome == PAIR_UNKNOWN;
    reads->failed = is_unknown || pair_is_lost(pair, event);
    return is_unknown;
}

bool record_reads_is_copied(const struct pair *pair, const struct pair_event *event) {
    bool is_known = event->kind == PAIR_RECORD_READ && event->outcome == PAIR_DONE && event->version != 0;
    return is_known && pair->role == PAIR_LEADING && event->record.leader == pair->self &&
           event->record.epoch > pair->epoch;
}
