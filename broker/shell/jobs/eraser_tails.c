/* eraser_tails.c: see eraser.h. A tail belongs to another history than the log, so log positions do not apply to it.
 * Contents in a tail are found by queue and key, and by the content itself, while the log still has the content. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "datadir.h"
#include "eraser.h"
#include "fatal.h"
#include "index.h"
#include "log.h"
#include "logfmt.h"
#include "quarantine.h"

/* Bytes of contents in memory at a time, plus one content of any size. */
#define CONTENTS_BYTES (16u << 20)

static struct logfmt_limit failure_limit;

struct meant {
    struct quarantine_meant *items;
    uint8_t **contents; /* owned; the pointers in `items` refer to these contents */
    size_t count;
    size_t bytes;
};

static struct quarantine quarantine_of(const struct eraser_needs *needs) {
    struct quarantine quarantine = {.disk = needs->disk, .directory = needs->dir->quarantine};
    memcpy(quarantine.cluster, needs->dir->cluster, sizeof(quarantine.cluster));
    return quarantine;
}

/* Returns the content with its salt; NULL: the log no longer has it. Release it with free(). */
static uint8_t *read_content(const struct eraser_needs *needs, const Tarry__Redaction *redaction) {
    if (redaction->frame == 0 || redaction->blob_size <= BLOB_SALT_SIZE) return NULL;
    uint8_t *content = fatal_calloc(redaction->blob_size);
    int error = log_read(needs->log, redaction->blob_at, content, redaction->blob_size);
    if (error != 0 && error != LOG_RETIRED) fatal("erase_failed", error);
    if (error == 0 && !content_is_erased(content, redaction->blob_size)) return content;
    free(content);
    return NULL;
}

static void add(struct meant *meant, const struct eraser_needs *needs, const Tarry__Redaction *redaction) {
    uint8_t *content = read_content(needs, redaction);
    meant->contents[meant->count] = content;
    meant->items[meant->count++] = (struct quarantine_meant){
        .queue = redaction->queue,
        .key = redaction->key.data,
        .key_size = redaction->key.len,
        .content = content != NULL ? content + BLOB_SALT_SIZE : NULL,
        .content_size = content != NULL ? redaction->blob_size - BLOB_SALT_SIZE : 0,
    };
    meant->bytes += content != NULL ? redaction->blob_size : 0;
}

/* Adds the queue's name, because tails may number their queues differently. */
static int name_queue(void *argument, const Tarry__QueuePut *queue) {
    struct meant *meant = argument;
    for (size_t i = 0; i < meant->count; i++) {
        if (meant->items[i].queue != queue->number) continue;
        char *name = strdup(queue->name);
        if (name == NULL) return -ENOMEM;
        meant->items[i].queue_name = name;
    }
    return 0;
}

static void forget(struct meant *meant) {
    for (size_t i = 0; i < meant->count; i++) {
        free(meant->contents[i]);
        free((char *)meant->items[i].queue_name);
    }
    meant->count = 0;
    meant->bytes = 0;
}

/* Erases the collected contents. Returns false if that is not possible now. */
static bool erase_some(const struct eraser_needs *needs, struct meant *meant) {
    struct quarantine quarantine = quarantine_of(needs);
    char message[LOGFMT_VALUE_SIZE / 2] = "", quoted[LOGFMT_VALUE_SIZE];
    size_t found = 0;
    int error = index_each_queue(needs->index, name_queue, meant);
    if (error != 0) fatal("erase_failed", error);
    error = quarantine_erase(&quarantine, meant->items, meant->count, &found, message, sizeof(message));
    forget(meant);
    if (found > 0) logfmt("erased_aside", "contents=%zu", found);
    if (error == 0) return true;
    if (logfmt_allowed(&failure_limit))
        logfmt("quarantine_unerased", "reason=%s",
               logfmt_quote(message[0] != '\0' ? message : storage_error(error), quoted));
    return false;
}

static bool has_tails(const struct eraser_needs *needs) {
    struct quarantine quarantine = quarantine_of(needs);
    struct quarantine_tail *tails;
    size_t count;
    if (quarantine_list(&quarantine, &tails, &count) != 0) return true; /* the later erasure reports this error */
    free(tails);
    return count > 0;
}

bool eraser_in_tails(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count) {
    if (!has_tails(&eraser->needs)) return true;
    struct meant meant = {.items = fatal_calloc(count * sizeof(*meant.items)),
                          .contents = fatal_calloc(count * sizeof(*meant.contents))};
    bool is_done = true;
    for (size_t i = 0; i < count && is_done; i++) {
        add(&meant, &eraser->needs, redactions[i]);
        if (meant.bytes >= CONTENTS_BYTES || i + 1 == count) is_done = erase_some(&eraser->needs, &meant);
    }
    forget(&meant);
    free(meant.items);
    free(meant.contents);
    return is_done;
}
