/* import_commit.c: see import.h: turns items into tasks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "json_out.h"
#include "output.h"
#include "tarry_limits.h"

/* ---- the receipt */

int import_receipt_find(struct import *import, struct receipt *out) {
    struct tarry_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE];
    *out = (struct receipt){0};
    import->receipt_task = 0;
    int code = tarry_get(import->tool->client, &(struct tarry_ref){.queue = RECEIPT_QUEUE, .key = import->receipt_key},
                         true, NULL, &view, message);
    if (code != TARRY_OK) return tool_refused(import->tool, code, message);
    int status = 0;
    if (view->outcome == TARRY_PENDING) {
        import->receipt_task = view->id;
        if (!view->has_content || !receipt_parse(out, view->payload, view->payload_size)) {
            tool_say("the task '%s' of queue %s is not a receipt of an import; cancel it if it is not needed",
                     import->receipt_key, RECEIPT_QUEUE);
            status = EXIT_REFUSED;
        }
    }
    tarry_view_free(view);
    return status;
}

int import_receipt_drop(struct import *import) {
    struct tarry_result result;
    if (import->receipt_task == 0) return 0;
    int code =
        tarry_cancel(import->tool->client, &(struct tarry_ref){.id = import->receipt_task}, false, NULL, &result);
    if (code != TARRY_OK && code != TARRY_NOT_DONE) return tool_refused(import->tool, code, result.message);
    import->receipt_task = 0;
    return 0;
}

/* ---- a batch */

static bool is_to_come(const struct import_item *item) {
    return item->verdict == ITEM_NEW;
}

static void add_receipt(struct import *import, const struct import_batch *batch, tarry_commit *commit) {
    struct text text = {0};
    receipt_begin(&text, import->server);
    for (size_t i = 0; i < batch->count; i++)
        if (batch->items[i].verdict != ITEM_REFUSED) receipt_add(&text, &batch->items[i].mark);
    if (import->receipt_task != 0) tarry_commit_cancel(commit, &(struct tarry_ref){.id = import->receipt_task}, false);
    tarry_commit_schedule(commit, &(struct tarry_schedule_options){.queue = RECEIPT_QUEUE,
                                                                   .key = import->receipt_key,
                                                                   .when = TARRY_DELAY,
                                                                   .when_ms = RECEIPT_DUE_MS,
                                                                   .expires_ms = 1,
                                                                   .payload = text.data,
                                                                   .payload_size = text.size});
    text_deinit(&text);
}

static void add_item(const struct import_item *item, tarry_commit *commit) {
    const struct tarry_attribute note = {"beanstalk", item->note};
    const uint64_t passed_ms = steady_ms() - item->read_ms;
    struct tarry_schedule_options task = {.queue = item->queue,
                                          .key = item->own_key != NULL ? item->own_key : item->key,
                                          .key_size = item->own_key != NULL ? item->payload_size : 0,
                                          .when = item->when,
                                          .when_ms = item->when_ms,
                                          .priority = item->priority,
                                          .payload = item->payload,
                                          .payload_size = item->payload_size,
                                          .attributes = item->note[0] != 0 ? &note : NULL,
                                          .attribute_count = item->note[0] != 0};
    if (item->when == TARRY_DELAY) task.when_ms = item->when_ms > passed_ms ? item->when_ms - passed_ms : 0;
    tarry_commit_schedule(commit, &task);
}

static void refuse(struct import *import, struct import_item *item, int code, const char *message) {
    struct text out = {0};
    const char *sentence = message[0] != 0 ? message : tarry_code_sentence(code);
    item->verdict = ITEM_REFUSED;
    import->refused++;
    if (import->tool->json) {
        out_begin(&out, '{');
        out_text(&out, "result", "error");
        if (item->mark.id != 0) out_id(&out, "job", item->mark.id);
        out_text(&out, "queue", item->queue);
        out_text(&out, "code", tarry_code_name(code));
        out_text(&out, "message", sentence);
        out_line_end(&out);
        output_write(&out, false);
    } else if (import->refused <= REFUSALS_SAID_MAX) {
        char name[32] = "a member";
        if (item->mark.id != 0) snprintf(name, sizeof name, "job %llu", (unsigned long long)item->mark.id);
        tool_say("%s (%s) stays there: %s", name, item->queue, sentence);
    }
    text_deinit(&out);
}

/* Handles the broker's result for one item. If a computed key exists already, the same item was imported before. If the
 * key comes from the item itself, another client's task may have it. */
static void judge(struct import *import, struct import_item *item, const struct tarry_result *result) {
    item->task = result->id;
    if (result->code == TARRY_OK) {
        item->verdict = ITEM_CAME;
    } else if (result->code == TARRY_EXISTS && item->own_key == NULL) {
        item->verdict = ITEM_HERE;
    } else if (result->code != TARRY_ABORTED) {
        refuse(import, item, result->code, result->message);
    }
}

static int refused_receipt(struct import *import, const struct tarry_result *result) {
    if (result->code == TARRY_EXISTS || result->code == TARRY_NOT_DONE) {
        tool_say("another import from %s is running; repeat this one when that has ended", import->address);
        return EXIT_REFUSED;
    }
    return tool_refused(import->tool, result->code, result->message);
}

/* Runs the commit and sets the verdict of each item. If *out_again is true, an atomic commit had no effect and must
 * be repeated. */
static int run(struct import *import, struct import_batch *batch, tarry_commit *commit, size_t receipt_ops,
               bool *out_again) {
    const struct tarry_result *results = NULL;
    size_t count = 0, at = receipt_ops;
    const size_t expected = tarry_commit_count(commit);
    int code = tarry_commit_run(commit, NULL, &results, &count);
    if (results == NULL || count != expected) return tool_refused(import->tool, code, NULL);
    for (size_t i = 0; i < receipt_ops; i++)
        if (results[i].code != TARRY_OK && results[i].code != TARRY_ABORTED)
            return refused_receipt(import, &results[i]);
    for (size_t i = 0; i < batch->count; i++)
        if (is_to_come(&batch->items[i])) judge(import, &batch->items[i], &results[at++]);
    *out_again = receipt_ops > 0 && results[receipt_ops - 1].code == TARRY_ABORTED;
    if (receipt_ops > 0 && !*out_again) import->receipt_task = results[receipt_ops - 1].id;
    return 0;
}

int import_commit(struct import *import, struct import_batch *batch) {
    tarry_commit *commit = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        struct import_item *item = &batch->items[i];
        if (is_to_come(item) && item->payload == NULL)
            refuse(import, item, TARRY_TOO_LARGE, "it is larger than the maximum size of a task");
    }
    int status = 0;
    for (bool again = true; again && status == 0;) {
        size_t receipt_ops = import->is_copy ? 0 : import->receipt_task != 0 ? 2 : 1, count = 0;
        for (size_t i = 0; i < batch->count; i++) count += is_to_come(&batch->items[i]);
        if (count == 0) break;
        int code = commit == NULL ? tarry_commit_new(import->tool->client, !import->is_copy, &commit) : TARRY_OK;
        if (code != TARRY_OK) return tool_refused(import->tool, code, NULL);
        tarry_commit_clear(commit);
        if (!import->is_copy) add_receipt(import, batch, commit);
        for (size_t i = 0; i < batch->count; i++)
            if (is_to_come(&batch->items[i])) add_item(&batch->items[i], commit);
        status = run(import, batch, commit, receipt_ops, &again);
    }
    tarry_commit_free(commit);
    return status;
}

int import_withdraw(struct import *import, struct import_batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        struct import_item *item = &batch->items[i];
        if (item->fate != FATE_TAKEN || item->verdict != ITEM_CAME) continue;
        struct tarry_result result;
        int code = tarry_cancel(import->tool->client, &(struct tarry_ref){.id = item->task}, false, NULL, &result);
        if (code == TARRY_OK)
            import->taken++;
        else if (code == TARRY_NOT_DONE)
            import->doubled++;
        else
            return tool_refused(import->tool, code, result.message);
    }
    return 0;
}
