/* verify_summaries.c: see verify_parts.h. */
#include "verify_parts.h"

#include <inttypes.h>
#include <stdio.h>

static int unreadable(struct summaries *summaries, struct store *store, int error) {
    return store_damaged(store, "%s/%016" PRIx64 ".sum cannot be read: %s", summaries->directory, summaries->segment,
                         store_sentence(error));
}

int summaries_end(struct summaries *summaries, struct store *store) {
    if (summaries->made == NULL) return 0;
    int result = summary_check(summaries->made, &disk_posix, summaries->directory);
    summary_free(summaries->made);
    summaries->made = NULL;
    if (result < 0) return unreadable(summaries, store, result);
    if (result == SUMMARY_LIES)
        return store_damaged(
            store,
            "%s/%016" PRIx64
            ".sum does not match its segment, so queries could miss records: delete this file; that loses no records",
            summaries->directory, summaries->segment);
    summaries->unused += result == 1;
    summaries->checked += result == 0;
    return 0;
}

static int begin(struct summaries *summaries, const struct frames *frames) {
    struct store *store = frames->store;
    summaries->segment = frames->segment;
    if (frames->archived != NULL)
        snprintf(summaries->directory, sizeof summaries->directory, "%s", store->archive_directory);
    else
        snprintf(summaries->directory, sizeof summaries->directory, "%s/log", store->directory);
    int result = summary_like(&summaries->made, &disk_posix, summaries->directory, summaries->segment);
    summaries->unused += result == 1;
    return result < 0 ? unreadable(summaries, store, result) : 0;
}

int summaries_frame(struct summaries *summaries, const struct frames *frames, const struct frame_header *header,
                    const Tarry__FrameBody *body) {
    int status = 0;
    if (summaries->segment != frames->segment) {
        status = summaries_end(summaries, frames->store);
        if (status == 0) status = begin(summaries, frames);
    }
    if (status == 0 && summaries->made != NULL) summary_add(summaries->made, header, body);
    return status;
}

void summaries_deinit(struct summaries *summaries) {
    summary_free(summaries->made);
    summaries->made = NULL;
}
