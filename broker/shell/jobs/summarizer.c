/* summarizer.c: see summarizer.h. */
#include "summarizer.h"

#include <inttypes.h>
#include <string.h>

#include "log.h"
#include "logfmt.h"

static struct logfmt_limit failure_limit;

void summarizer_init(struct summarizer *summarizer, struct log *log) {
    *summarizer = (struct summarizer){.log = log};
}

void summarizer_deinit(struct summarizer *summarizer) {
    summary_free(summarizer->summary);
    summarizer->summary = NULL;
}

/* Writes the summary at the end of its segment. Without the file, questions only take longer. */
static void finish(struct summarizer *summarizer) {
    int error = summary_write(summarizer->summary, summarizer->log);
    if (error != 0 && logfmt_allowed(&failure_limit))
        logfmt("summary_failed", "base=%" PRIu64 " reason=\"%s\"", summarizer->summary->base, strerror(-error));
    summarizer_deinit(summarizer);
}

/* Returns NULL if memory is exhausted; then the segment has no summary. */
static struct summary *begin(const struct summarizer *summarizer, uint64_t base) {
    struct log_segment segment;
    return log_segment_at(summarizer->log, base, &segment) ? summary_new(base, segment.bytes) : NULL;
}

void summarizer_take(struct summarizer *summarizer, uint64_t base, const struct frame_header *header,
                     const Tarry__FrameBody *body) {
    if (summarizer->summary != NULL && summarizer->summary->base != base) finish(summarizer);
    if (summarizer->summary == NULL && header->position == base) summarizer->summary = begin(summarizer, base);
    if (summarizer->summary != NULL) summary_add(summarizer->summary, header, body);
}
