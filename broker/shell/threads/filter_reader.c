/* filter_reader.c: see filter_reader.h. */
#include "filter_reader.h"

#include <inttypes.h>

#include "clock.h"
#include "fatal.h"
#include "index.h"
#include "logfmt.h"

static void *filter_reader_run(void *argument) {
    struct filter_reader *reader = argument;
    uint64_t from_ns = monotonic_ns();
    bool more = true, was_unread = false;
    while (more && !atomic_load(&reader->stop)) {
        int error = index_read_filters(reader->index, &more);
        if (error != 0) fatal("filters_failed", error);
        was_unread |= more;
    }
    struct index_stats stats;
    index_stats(reader->index, &stats);
    if (was_unread && !more)
        logfmt("filters_read", "keys=%" PRIu64 " took_ms=%" PRIu64, stats.key_entries,
               (monotonic_ns() - from_ns) / NS_PER_MS);
    return NULL;
}

void filter_reader_start(struct filter_reader *reader, struct index *index) {
    reader->index = index;
    atomic_init(&reader->stop, false);
    thread_start(&reader->thread, "tarry-filters", filter_reader_run, reader);
}

void filter_reader_stop(struct filter_reader *reader) {
    atomic_store(&reader->stop, true);
    pthread_join(reader->thread, NULL);
}
