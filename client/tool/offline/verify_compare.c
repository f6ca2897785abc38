/* verify_compare.c: see verify_parts.h. Compares archive and log frame by frame. The chain hash of a frame covers all
 * earlier frames, so the histories differ from the first frame whose chain hash differs. Contents are compared too,
 * except those that were erased in one of the two directories.
 *
 * The indexes are not compared, because a copy may have been made without an index. Only one thing is read from them:
 * how far the log was durable. In the last segment, an erased content beyond that position is a torn write. */
#include "alloc.h"
#include "verify_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "entry.h"
#include "frames.h"
#include "json_out.h"
#include "output.h"
#include "progress.h"
#include "rfc3339.h"
#include "wire.h"

#define ARENA_SIZE_MAX (256u << 20)
#define KINDS_SHOWN 3u
#define NS_PER_MS 1000000u

struct side {
    struct store store;
    struct frames frames;
    struct log_view view; /* the frame that is compared next */
    int result;           /* result of frames_next; 0: `view` is valid */
};

struct compare {
    struct side sides[2];
    bool has_common;
    uint64_t common_from;
    uint64_t common_to;
    uint64_t frames;        /* number of frames that are in both directories */
    uint64_t erased;        /* number of contents that were erased in one directory or in both */
    bool differs;           /* at … */
    uint64_t differs_at;    /* position of the first differing frame */
    const char *difference; /* name of the part that differs */
    struct progress progress;
};

/* ---- reading */

static int open_log(struct side *side) {
    struct store *store = &side->store;
    int status = store_open_log_alone(store);
    char message[sizeof store->message];
    if (status == 0) return 0;
    memcpy(message, store->message, sizeof message);
    store->message[0] = 0; /* the error of the first attempt is reported only if the index does not help */
    if (store_open_index(store) == 0) status = store_open_log_alone(store);
    if (status != 0) memcpy(store->message, message, sizeof message);
    return status;
}

static int open_side(struct side *side, const char *directory, const char *archive) {
    store_init(&side->store, directory);
    int status = store_lock(&side->store);
    if (status == 0) status = open_log(side);
    if (status == 0) status = store_open_archive(&side->store, archive);
    return status == 0 ? frames_open(&side->frames, &side->store) : status;
}

/* Reads the next frame of a side. Skips gaps in the archive. */
static void step(struct side *side) {
    do side->result = frames_next(&side->frames, &side->view);
    while (side->result == FRAMES_GAP);
}

static uint64_t position_of(const struct side *side) {
    return side->result == 0 ? side->view.header.position : side->frames.at.position;
}

static void differ(struct compare *compare, uint64_t position, const char *difference) {
    compare->differs = true;
    compare->differs_at = position;
    compare->difference = difference;
}

/* Compares two frames at the same position. */
static void compare_frames(struct compare *compare) {
    const struct log_view *a = &compare->sides[0].view, *b = &compare->sides[1].view;
    uint64_t position = a->header.position;
    if (!compare->has_common) compare->common_from = position;
    compare->has_common = true;
    if (memcmp(a->header.chain, b->header.chain, FRAME_CHAIN_SIZE) != 0) {
        bool is_first = compare->common_from == position;
        differ(compare, position, is_first ? "the frames, or earlier data" : "the frames");
        return;
    }
    bool is_erased = ((a->header.flags | b->header.flags) & FRAME_FLAG_ERASED) != 0;
    compare->erased += is_erased;
    /* Equal chain hashes mean equal sizes and equal bodies. */
    if (!is_erased && memcmp(a->blob, b->blob, a->header.blob_size) != 0) {
        differ(compare, position, "the contents");
        return;
    }
    compare->frames++;
    compare->common_to = compare->sides[0].frames.at.position;
}

static void read_both(struct compare *compare) {
    struct side *a = &compare->sides[0], *b = &compare->sides[1];
    uint64_t end = a->store.recovery.end < b->store.recovery.end ? a->store.recovery.end : b->store.recovery.end;
    step(a);
    step(b);
    progress_start(&compare->progress, "frames");
    while (a->result == 0 && b->result == 0 && !compare->differs) {
        uint64_t at = position_of(a), other = position_of(b);
        if (at == other) {
            compare_frames(compare);
            if (compare->differs) break;
        } else if (compare->has_common && a->frames.gaps + b->frames.gaps == 0) {
            differ(compare, at < other ? at : other, "where frames begin");
            break;
        }
        if (at <= other) step(a);
        if (other <= at) step(b);
        progress_show(&compare->progress, at < end ? at : end, end, compare->frames);
    }
    progress_end(&compare->progress);
}

/* ---- saying */

/* Describes a frame, for example: "1 commit of epoch 3, 2026-…: scheduled, cancelled; by producer 7, sequence 2". */
static void describe(struct text *out, const struct log_view *view) {
    const struct frame_header *header = &view->header;
    char time[RFC3339_TEXT_SIZE];
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    text_printf(out, "%s of epoch %u, %s", header->type == FRAME_SEAL ? "seal" : "commit", header->epoch,
                rfc3339_format(header->steady_ns / NS_PER_MS, time));
    const Tarry__FrameBody *body =
        header->type == FRAME_COMMIT ? frame_body_unpack(&arena, header->body_size, view->body) : NULL;
    for (size_t i = 0; body != NULL && i < body->n_records && i < KINDS_SHOWN; i++) {
        struct entry entry = {.header = header, .body = body, .record = body->records[i]};
        text_printf(out, "%s %s", i == 0 ? ":" : ",", entry_kind_name(entry_kind(&entry)));
        if (entry_task(&entry) != NULL) text_printf(out, " task %" PRIu64, entry_task(&entry)->id);
    }
    if (body != NULL && body->n_records > KINDS_SHOWN)
        text_printf(out, " and %zu records more", body->n_records - KINDS_SHOWN);
    if (body != NULL && body->producer != 0)
        text_printf(out, "; by producer %" PRIu64 ", sequence %" PRIu64, body->producer, body->sequence);
    text_printf(out, "; %u bytes of contents", header->blob_size);
    arena_deinit(&arena);
}

static const char *summary_of(struct text *out, const struct side *side) {
    out->size = 0;
    if (side->result == 0)
        describe(out, &side->view);
    else
        text_add_str(out, "no frame: it ends before");
    return text_str(out);
}

static void print_json(const struct compare *compare, struct text *out) {
    const struct side *a = &compare->sides[0], *b = &compare->sides[1];
    struct text summary = {0};
    uint64_t ends[2] = {a->store.recovery.end, b->store.recovery.end};
    out_begin(out, '{');
    out_text(out, "directory", a->store.directory);
    out_text(out, "against", b->store.directory);
    out_text(out, "result", compare->differs ? "differs" : compare->has_common ? "same" : "nothing_in_common");
    out_number(out, "frames", compare->frames);
    out_number(out, "erased", compare->erased);
    out_number(out, "common_from", compare->common_from);
    out_number(out, "common_to", compare->common_to);
    out_number(out, "log_end", ends[0]);
    out_number(out, "against_log_end", ends[1]);
    out_text(out, "longer", ends[0] == ends[1] ? NULL : ends[0] > ends[1] ? "directory" : "against");
    if (compare->differs) {
        out_number(out, "differs_at", compare->differs_at);
        out_text(out, "difference", compare->difference);
        out_text(out, "frame", summary_of(&summary, a));
        out_text(out, "against_frame", summary_of(&summary, b));
    }
    out_line_end(out);
    text_deinit(&summary);
}

static void print_words(const struct compare *compare, struct text *out) {
    const struct side *a = &compare->sides[0], *b = &compare->sides[1];
    struct text summary = {0};
    uint64_t ends[2] = {a->store.recovery.end, b->store.recovery.end};
    if (compare->has_common)
        text_printf(out, "same    positions %" PRIu64 " … %" PRIu64 ", %" PRIu64 " frames\n", compare->common_from,
                    compare->common_to, compare->frames);
    else
        text_add_str(out, "no common positions: one log ends before the other begins\n");
    if (compare->erased > 0)
        text_printf(out, "        %" PRIu64 " frames of which contents are erased in one or both\n", compare->erased);
    if (compare->differs) {
        text_printf(out, "differs at position %" PRIu64 ": %s\n", compare->differs_at, compare->difference);
        text_printf(out, "        %s: %s\n", a->store.directory, summary_of(&summary, a));
        text_printf(out, "        %s: %s\n", b->store.directory, summary_of(&summary, b));
    } else if (ends[0] != ends[1]) {
        text_printf(out, "longer  %s, by %" PRIu64 " bytes\n",
                    ends[0] > ends[1] ? a->store.directory : b->store.directory,
                    ends[0] > ends[1] ? ends[0] - ends[1] : ends[1] - ends[0]);
    }
    text_deinit(&summary);
}

static void close_side(struct side *side) {
    frames_close(&side->frames);
    store_close(&side->store);
}

/* Reports the error that ended the reading of a side. Returns whether there was an error. */
static bool is_damaged(const struct side *side) {
    if (side->store.message[0] == 0) return false;
    tool_say("%s: %s", side->store.directory, side->store.message);
    return true;
}

int compare_directories(struct tool *tool, const char *directory, const char *archive, const char *against) {
    struct compare *compare = tool_alloc(sizeof *compare);
    struct text out = {0};
    memset(compare, 0, sizeof *compare);
    store_init(&compare->sides[1].store, against);
    int status = open_side(&compare->sides[0], directory, archive);
    if (status == 0) status = open_side(&compare->sides[1], against, NULL);
    if (status == 0) read_both(compare);
    bool is_unreadable = is_damaged(&compare->sides[0]);
    is_unreadable |= is_damaged(&compare->sides[1]);
    if (!is_unreadable) {
        if (tool->json)
            print_json(compare, &out);
        else
            print_words(compare, &out);
        status = compare->differs || !compare->has_common ? EXIT_REFUSED : EXIT_FINE;
    }
    status = output_flush(&out, is_unreadable ? EXIT_REFUSED : status);
    close_side(&compare->sides[0]);
    close_side(&compare->sides[1]);
    text_deinit(&out);
    free(compare);
    return status;
}
