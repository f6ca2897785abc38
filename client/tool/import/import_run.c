/* import_run.c: see import.h: runs batch after batch, and prints the results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "alloc.h"
#include "import.h"
#include "json_out.h"
#include "output.h"
#include "signals.h"
#include "table.h"
#include "units.h"

#define ANSWER_SHOWN_MAX 60u

/* ---- for origins */

int import_lost(struct import *import) {
    tool_say("%s: %s", import->address, import->link.error);
    return EXIT_REFUSED;
}

int import_nonsense(struct import *import, const char *what, const char *answer, size_t size) {
    struct text text = {0};
    plain_add(&text, answer, size < ANSWER_SHOWN_MAX ? size : ANSWER_SHOWN_MAX);
    tool_say("%s: %s: %s", import->address, what, text_str(&text));
    text_deinit(&text);
    server_link_fail(&import->link, "%s", what);
    return EXIT_REFUSED;
}

void import_batch_clear(struct import_batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        free(batch->items[i].queue);
        free(batch->items[i].payload);
        free(batch->items[i].score);
    }
    batch->count = batch->bytes = 0;
}

struct import_item *import_batch_add(struct import_batch *batch) {
    struct import_item *item = &batch->items[batch->count++];
    *item = (struct import_item){.read_ms = steady_ms()};
    return item;
}

uint64_t import_hash(const void *bytes, size_t size) {
    return XXH3_64bits(bytes, size);
}

void import_digest(char out[ITEM_KEY_SIZE], const char *prefix, const void *const *parts, const size_t *sizes,
                   size_t count) {
    struct text all = {0};
    for (size_t i = 0; i < count; i++) {
        text_printf(&all, "%zu:", sizes[i]);
        text_add(&all, parts[i], sizes[i]);
    }
    const XXH128_hash_t hash = XXH3_128bits(all.data, all.size);
    snprintf(out, ITEM_KEY_SIZE, "%s:%016llx%016llx", prefix, (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    text_deinit(&all);
}

/* ---- the passes */

static void show_progress(struct import *import) {
    const uint64_t done = import->moved + import->copied + import->existed + import->refused + import->taken;
    progress_show(&import->progress, done, import->total, done);
}

static void tally(struct import *import, const struct import_batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        const struct import_item *item = &batch->items[i];
        const bool is_done = import->is_copy || item->fate == FATE_REMOVED;
        if (item->verdict == ITEM_HERE && is_done) import->existed++;
        if (item->verdict == ITEM_CAME && is_done) *(import->is_copy ? &import->copied : &import->moved) += 1;
    }
}

/* Removes items at the server after they are durable here, never before. */
static int take_batch(struct import *import, struct import_batch *batch) {
    int status = import_commit(import, batch);
    if (status == 0 && !import->is_copy) status = import->origin->remove(import, batch);
    if (status == 0 && !import->is_copy) status = import_withdraw(import, batch);
    if (status == 0) tally(import, batch);
    return status;
}

/* Imports batch after batch. `only`: the receipt of an unfinished import, whose items are in Tarry but still at the
 * server; NULL: all items. */
static int pass(struct import *import, const struct receipt *only) {
    struct import_batch batch = {.items = tool_alloc(BATCH_ITEMS_MAX * sizeof *batch.items)};
    int status = import->origin->start(import, only);
    while (status == 0 && !signals_ended()) {
        status = import->origin->next(import, &batch);
        if (status != 0 || batch.count == 0) break;
        status = take_batch(import, &batch);
        import_batch_clear(&batch);
        show_progress(import);
    }
    import_batch_clear(&batch);
    free(batch.items);
    if (status == 0 && signals_ended()) {
        progress_end(&import->progress);
        tool_say("interrupted; the jobs that were not imported stay at the source: repeat the import");
        status = EXIT_REFUSED;
    }
    return status;
}

/* Finishes an earlier, unfinished import: removes its items at the server. */
static int resolve(struct import *import) {
    struct receipt receipt;
    int status = import_receipt_find(import, &receipt);
    if (status == 0 && receipt.count > 0) {
        tool_say("an earlier import into this broker did not finish: this import first completes it");
        status = pass(import, &receipt);
    }
    receipt_deinit(&receipt);
    return status;
}

/* ---- output */

static void say_part(struct text *out, const char **gap, uint64_t count, const char *words) {
    if (count == 0) return;
    text_printf(out, "%s%llu %s", *gap, (unsigned long long)count, words);
    *gap = ", ";
}

static void summarize_words(const struct import *import, const struct counts *left) {
    char took[UNITS_TEXT_SIZE];
    struct text text = {0};
    const char *gap = "";
    say_part(&text, &gap, import->moved, "moved");
    say_part(&text, &gap, import->copied, "copied");
    say_part(&text, &gap, import->existed, "were already imported");
    say_part(&text, &gap, import->refused, "refused");
    say_part(&text, &gap, import->taken, "taken by other workers at the source meanwhile");
    if (text.size == 0) text_add_str(&text, "nothing to import");
    text_printf(&text, ", in %s", duration_format(steady_ms() - import->progress.started_ms, took));
    gap = "; still at the source: ";
    for (size_t i = 0; i < left->count; i++) say_part(&text, &gap, left->numbers[i], left->names[i]);
    tool_say("%s", text_str(&text));
    text_deinit(&text);
    if (import->doubled > 0)
        tool_say("%llu jobs were taken by a worker at the source while a consumer here already had them: both may "
                 "process them",
                 (unsigned long long)import->doubled);
}

static int summarize(const struct import *import, const struct counts *left, int status) {
    if (!import->tool->json) {
        summarize_words(import, left);
        return status;
    }
    struct text out = {0}, name = {0};
    out_begin(&out, '{');
    out_text(&out, "result", "imported");
    out_text(&out, "from", import->address);
    out_number(&out, "moved", import->moved);
    out_number(&out, "copied", import->copied);
    out_number(&out, "existed", import->existed);
    out_number(&out, "refused", import->refused);
    out_number(&out, "taken", import->taken);
    out_number(&out, "doubled", import->doubled);
    for (size_t i = 0; i < left->count; i++) {
        name.size = 0;
        text_printf(&name, "left_%s", left->names[i]);
        out_number(&out, text_str(&name), left->numbers[i]);
    }
    out_line_end(&out);
    status = output_flush(&out, status);
    text_deinit(&out);
    text_deinit(&name);
    return status;
}

/* ---- the import */

static uint64_t sum(const struct counts *counts) {
    uint64_t all = 0;
    for (size_t i = 0; i < counts->count; i++) all += counts->numbers[i];
    return all;
}

static int take_all(struct import *import) {
    struct counts left = {.count = 0};
    int status = tool_connect_lasting(import->tool);
    if (status != 0) return status;
    signals_graceful();
    progress_start(&import->progress, import->is_copy ? "copied" : "moved");
    import->total = sum(&import->before);
    if (!import->is_copy) status = resolve(import);
    if (status == 0) status = pass(import, NULL);
    if (status == 0) status = import_receipt_drop(import);
    progress_end(&import->progress);
    if (import->link.error[0] == 0 && import->origin->count(import, &left) != 0) left.count = 0;
    const bool is_left = !import->is_copy && sum(&left) > 0;
    return summarize(import, &left, status == 0 && (is_left || import->refused > 0) ? EXIT_REFUSED : status);
}

int import_run(struct import *import, bool is_dry) {
    int status = import->origin->begin(import);
    if (status == 0) status = is_dry ? import->origin->show(import) : take_all(import);
    import->origin->end(import);
    server_link_close(&import->link);
    return status;
}
