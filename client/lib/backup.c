/* backup.c: tarry_backup: requests one part after another and writes the replies to a directory.
 *
 * The broker's values are checked: names (backup_directory.c), and sizes against those that were announced. If the
 * connection is lost, the engine repeats the request as usual. A broker that has restarted does not know the backup
 * and says so. */
#include "backup_directory.h"

#include <stdlib.h>
#include <string.h>

#include "client.h"

#define POLL_MS 20u /* poll interval while the broker copies the index */

struct backup {
    tarry_client *client;
    const struct tarry_backup_options *options;
    uint64_t deadline_ms; /* deadline on the clock of now_ms; UINT64_MAX: no deadline */
    uint64_t number;      /* number of the backup; 0: not begun, or ended */
    uint64_t written;
    uint64_t total;
    uint32_t file_count;
    struct tarry_backup_view view;
    struct backup_directory directory;
    char message[TARRY_MESSAGE_SIZE]; /* error message; "": use tarry_code_sentence of the code */
};

/* Sends a backup request and waits for the reply, which is call->reply->backup. The caller must use call_end, also
 * after a failure. */
static int ask(struct backup *backup, Tarry__Backup *body, struct call *call) {
    Tarry__Request wire = TARRY__REQUEST__INIT;
    body->backup = backup->number;
    wire.body_case = TARRY__REQUEST__BODY_BACKUP;
    wire.backup = body;
    int rv = call_run(backup->client, &wire, call, backup->message);
    if (rv != TARRY_OK) return rv;
    bool is_right = call->reply->body_case == TARRY__REPLY__BODY_BACKUP && call->reply->backup->backup != 0 &&
                    (backup->number == 0 || call->reply->backup->backup == backup->number);
    return is_right ? TARRY_OK : TARRY_E_PROTOCOL;
}

/* Is called between two requests: checks the deadline and calls the program's `progress`, which may stop the backup. */
static int go_on(struct backup *backup, uint64_t done, uint64_t total) {
    const struct tarry_backup_options *options = backup->options;
    if (options->progress != NULL && !options->progress(options->arg, done, total)) return TARRY_E_WOKEN;
    if (now_ms() < backup->deadline_ms) return TARRY_OK;
    message_set(backup->message, "the backup was not finished within its deadline");
    return TARRY_E_TIMEOUT;
}

static void take_status(struct backup *backup, const Tarry__BackupReply *reply) {
    backup->number = reply->backup;
    backup->total = reply->bytes;
    backup->file_count = reply->file_count;
    backup->view = (struct tarry_backup_view){.position = reply->position,
                                              .index_position = reply->index_position,
                                              .log_start = reply->log_start,
                                              .total_size = reply->bytes,
                                              .file_count = reply->file_count};
}

/* Begins the backup and waits until the broker has copied the index. */
static int begin(struct backup *backup) {
    Tarry__Backup body = TARRY__BACKUP__INIT;
    struct call call;
    body.what = TARRY__BACKUP__WHAT__BEGIN;
    body.with_archive = backup->options->with_archive;
    for (;;) {
        int rv = ask(backup, &body, &call);
        bool is_ready = false;
        if (rv == TARRY_OK) {
            const Tarry__BackupReply *reply = call.reply->backup;
            take_status(backup, reply);
            is_ready = reply->ready;
            if (!is_ready) rv = go_on(backup, 0, 0);
        }
        call_end(&call);
        if (rv != TARRY_OK || is_ready) return rv;
        sleep_ms(POLL_MS);
        body.what = TARRY__BACKUP__WHAT__STATUS;
    }
}

static int copy_file(struct backup *backup, uint32_t number, const Tarry__BackupFile *file) {
    int rv = backup_directory_create(&backup->directory, file->name);
    for (uint64_t offset = 0; rv == TARRY_OK && offset < file->size;) {
        Tarry__Backup body = TARRY__BACKUP__INIT;
        struct call call;
        body.what = TARRY__BACKUP__WHAT__READ;
        body.file = number;
        body.offset = offset;
        body.size = file->size - offset < BACKUP_READ_MAX ? (uint32_t)(file->size - offset) : BACKUP_READ_MAX;
        rv = ask(backup, &body, &call);
        if (rv == TARRY_OK && call.reply->backup->data.len != body.size) rv = TARRY_E_PROTOCOL;
        if (rv == TARRY_OK) rv = backup_directory_write(&backup->directory, call.reply->backup->data.data, body.size);
        call_end(&call);
        offset += body.size;
        backup->written += body.size;
        if (rv == TARRY_OK) rv = go_on(backup, backup->written, backup->total);
    }
    return rv == TARRY_OK ? backup_directory_close(&backup->directory) : rv;
}

/* Copies the files of one list page, starting with number `from`. *out_count: number of files. */
static int copy_page(struct backup *backup, uint32_t from, uint32_t *out_count) {
    Tarry__Backup body = TARRY__BACKUP__INIT;
    struct call call;
    body.what = TARRY__BACKUP__WHAT__LIST;
    body.file = from;
    int rv = ask(backup, &body, &call);
    if (rv == TARRY_OK) {
        const Tarry__BackupReply *reply = call.reply->backup;
        bool is_right = reply->n_files > 0 && reply->n_files <= backup->file_count - from;
        for (size_t i = 0; is_right && i < reply->n_files; i++) {
            /* Refuses a file that is longer than announced, because it might never end. */
            is_right = reply->files[i]->size <= backup->total - backup->written;
            if (is_right) rv = copy_file(backup, from + (uint32_t)i, reply->files[i]);
            if (rv != TARRY_OK) break;
        }
        if (!is_right) rv = TARRY_E_PROTOCOL;
        *out_count = (uint32_t)reply->n_files;
    }
    call_end(&call);
    return rv;
}

static int copy(struct backup *backup) {
    uint32_t count = 0;
    int rv = TARRY_OK;
    for (uint32_t file = 0; rv == TARRY_OK && file < backup->file_count; file += count)
        rv = copy_page(backup, file, &count);
    if (rv == TARRY_OK && backup->written != backup->total) rv = TARRY_E_PROTOCOL;
    return rv == TARRY_OK ? backup_directory_end(&backup->directory) : rv;
}

/* Copies the error message of the first failure into backup->directory.message, because later calls overwrite
 * backup->message. */
static void keep_message(struct backup *backup, int rv) {
    char *text = backup->directory.message;
    if (text[0] != 0) return;
    message_copy(text, sizeof(backup->directory.message),
                 backup->message[0] != 0 ? backup->message : tarry_code_sentence(rv));
}

/* Ends the backup at the broker, so that it may retire segments again. A lost request does not matter: the backup
 * ends by timeout. */
static void end(struct backup *backup) {
    Tarry__Backup body = TARRY__BACKUP__INIT;
    struct call call;
    body.what = TARRY__BACKUP__WHAT__END;
    if (backup->number == 0) return;
    (void)ask(backup, &body, &call);
    call_end(&call);
}

int tarry_backup(tarry_client *client, const struct tarry_backup_options *given, struct tarry_backup_view *out_view,
                 char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_backup_options taken;
    const struct tarry_backup_options *options = &taken;
    int rv = OPTIONS_TAKE(taken, given);
    if (rv == TARRY_OK && (client == NULL || options->directory == NULL)) rv = TARRY_E_ARGUMENT;
    if (rv != TARRY_OK) return message_say(out_message, rv);
    struct backup *backup = calloc(1, sizeof(*backup));
    if (backup == NULL) return message_say(out_message, TARRY_E_NOMEM);
    uint64_t from_ms = now_ms();
    backup->client = client;
    backup->options = options;
    backup->deadline_ms = options->deadline_ms == 0 || options->deadline_ms > UINT64_MAX - from_ms
                              ? UINT64_MAX
                              : from_ms + options->deadline_ms;
    rv = backup_directory_begin(&backup->directory, options->directory);
    if (rv == TARRY_OK) rv = begin(backup);
    if (rv == TARRY_OK) rv = copy(backup);
    backup_directory_abandon(&backup->directory);
    if (rv != TARRY_OK) keep_message(backup, rv);
    bool is_lost = rv == TARRY_E_TIMEOUT || rv == TARRY_E_NO_BROKER || rv == TARRY_E_CLOSED || rv == TARRY_E_CALLBACK ||
                   rv == TARRY_E_FORKED;
    if (!is_lost || now_ms() >= backup->deadline_ms) end(backup);
    backup->view.took_ms = now_ms() - from_ms;
    if (rv == TARRY_OK && out_view != NULL) *out_view = backup->view;
    message_set(out_message, rv == TARRY_OK ? "" : backup->directory.message);
    free(backup);
    return rv;
}
