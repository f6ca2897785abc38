/* tails.c: see tails.h. */
#include "tails.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "json_out.h"
#include "table.h"

static struct quarantine quarantine_of(const struct store *store, char directory[STORE_PATH_SIZE]) {
    snprintf(directory, STORE_PATH_SIZE, "%s/%s", store->directory, QUARANTINE_NAME);
    struct quarantine quarantine = {.disk = &disk_posix, .directory = directory};
    memcpy(quarantine.cluster, store->cluster, sizeof quarantine.cluster);
    return quarantine;
}

/* Returns the size of a tail's name without its file extension: "0000000000001a40-5d3e…". */
static int name_size(const struct quarantine_tail *tail) {
    return (int)strcspn(tail->name, ".");
}

static int open_tail(const struct quarantine *quarantine, const struct quarantine_tail *tail, struct store *store,
                     struct log **out_log, struct log_recovery *out_recovery) {
    char message[1024] = "";
    int error = quarantine_open(out_log, quarantine, tail, out_recovery, message, sizeof message);
    if (error == 0) return 0;
    return store_damaged(store, "%s/%s: %s", quarantine->directory, tail->name,
                         message[0] != 0 ? message : store_sentence(error));
}

static int check_tail(const struct quarantine *quarantine, struct tail *tail, struct store *store) {
    struct log *log;
    struct log_recovery recovery;
    struct log_cursor *cursor;
    struct log_view view;
    quarantine_why(quarantine, &tail->file, tail->why);
    if (open_tail(quarantine, &tail->file, store, &log, &recovery) != 0) return EXIT_REFUSED;
    tail->epoch = recovery.epoch;
    int error = log_cursor_open(&cursor, log, recovery.start, false);
    if (error == 0) {
        while ((error = log_cursor_next(cursor, recovery.end, &view)) == 0) tail->frames++;
        log_cursor_close(cursor);
    }
    log_close(log);
    if (error == LOG_END) return 0;
    return store_damaged(store, "%s/%s: %s", quarantine->directory, tail->file.name, store_sentence(error));
}

int tails_check(struct tails *out, struct store *store) {
    struct quarantine quarantine = quarantine_of(store, out->directory);
    struct quarantine_tail *files;
    size_t count;
    int error = quarantine_list(&quarantine, &files, &count);
    if (error != 0) return store_damaged(store, "%s: %s", quarantine.directory, store_sentence(error));
    int status = 0;
    out->items = count > 0 ? tool_alloc(count * sizeof *out->items) : NULL;
    for (size_t i = 0; i < count && status == 0; i++) {
        out->items[i] = (struct tail){.file = files[i]};
        status = check_tail(&quarantine, &out->items[i], store);
        if (status == 0) out->count++;
    }
    free(files);
    return status;
}

void tails_deinit(struct tails *tails) {
    free(tails->items);
    tails->items = NULL;
    tails->count = 0;
}

void tails_json(const struct tails *tails, struct text *out) {
    out_key(out, "quarantined");
    text_add_char(out, '[');
    for (size_t i = 0; i < tails->count; i++) {
        const struct tail *tail = &tails->items[i];
        out_comma(out);
        out_begin(out, '{');
        out_bytes(out, "name", tail->file.name, (size_t)name_size(&tail->file));
        out_number(out, "from", tail->file.base);
        out_number(out, "to", tail->file.end);
        out_number(out, "frames", tail->frames);
        out_number(out, "epoch", tail->epoch);
        out_text(out, "why", tail->why);
        text_add_char(out, '}');
    }
    text_add_char(out, ']');
}

void tails_words(const struct tails *tails, const struct store *store, struct text *out) {
    for (size_t i = 0; i < tails->count; i++) {
        const struct tail *tail = &tails->items[i];
        text_printf(out, "%s  positions %" PRIu64 " … %" PRIu64 ", %" PRIu64 " frames, to epoch %u: cut off, put aside",
                    i == 0 ? "tails " : "      ", tail->file.base, tail->file.end, tail->frames, tail->epoch);
        if (tail->why[0] != 0) {
            text_add_str(out, "\n          ");
            plain_add(out, tail->why, strlen(tail->why));
        }
        text_printf(out, "\n          tarry audit --data %s --quarantined %.*s\n", store->directory,
                    name_size(&tail->file), tail->file.name);
    }
}

int tails_enter(struct store *store, const char *name) {
    char directory[STORE_PATH_SIZE];
    struct quarantine quarantine = quarantine_of(store, directory);
    struct quarantine_tail *files;
    size_t count, found = 0;
    struct log *log = NULL;
    struct log_recovery recovery = {0};
    int error = quarantine_list(&quarantine, &files, &count);
    if (error != 0) return store_damaged(store, "%s: %s", quarantine.directory, store_sentence(error));
    size_t size = strcspn(name, ".");
    while (found < count && (size != (size_t)name_size(&files[found]) || strncmp(files[found].name, name, size) != 0))
        found++;
    int status = found < count ? open_tail(&quarantine, &files[found], store, &log, &recovery)
                               : store_damaged(store, "%s has no tail \"%.100s\"; 'tarry verify' lists the tails",
                                               quarantine.directory, name);
    free(files);
    if (status != 0) return status;
    log_close(store->log);
    store->log = log;
    store->recovery = recovery;
    /* The archive belongs to another history, so the quarantine's directory replaces it. */
    memcpy(store->archive_directory, directory, sizeof directory);
    return 0;
}
