/* summarizer.c: see summarizer.h. */
#include "summarizer.h"

#include <inttypes.h>
#include <string.h>

#include "logfmt.h"
#include "shell.h"

static struct logfmt_limit failure_limit;

void summarizer_init(struct summarizer *summarizer, struct shell *shell) {
    *summarizer = (struct summarizer){.shell = shell};
}

void summarizer_deinit(struct summarizer *summarizer) {
    summary_free(summarizer->summary);
    summarizer->summary = NULL;
}

/* Its segment is over. Without the file questions take longer, and nothing else changes. */
static void finish(struct summarizer *summarizer) {
    struct shell *shell = summarizer->shell;
    int error = summary_write(summarizer->summary, &shell->disk, shell->dir.log);
    if (error != 0 && logfmt_allowed(&failure_limit))
        logfmt("summary_failed", "base=%" PRIu64 " reason=\"%s\"", summarizer->summary->base, strerror(-error));
    summarizer_deinit(summarizer);
}

void summarizer_take(struct summarizer *summarizer, const struct frame_header *header, const Tarry__FrameBody *body) {
    struct log_segment segment;
    if (!log_segment_at(summarizer->shell->log, header->position, &segment)) return;
    if (summarizer->summary != NULL && summarizer->summary->base != segment.base) finish(summarizer);
    if (summarizer->summary == NULL && header->position == segment.base)
        summarizer->summary = summary_new(segment.base, segment.bytes); /* NULL: no memory for it this time */
    if (summarizer->summary != NULL) summary_add(summarizer->summary, header, body);
}
