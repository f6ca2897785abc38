/* asof.c: see asof.h. */
#include "asof.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "arena.h"
#include "as_of.h"
#include "directory.h"
#include "disk.h"
#include "identity.h"
#include "json_out.h"
#include "output.h"
#include "progress.h"
#include "question.h"
#include "rfc3339.h"
#include "table.h"
#include "tarry_limits.h"

#define NS_PER_MS 1000000u
#define DIRECTORY_SIZE 3072 /* size of the name of the temporary directory */
#define NFTW_HANDLES 8

struct asof_queue {
    char *name; /* name of the queue that has this place in the table of queues; NULL: no queue has it */
    uint32_t number;
    bool paused;
    uint64_t paused_until_ms;
};

struct asof {
    struct tool *tool;
    const struct args *args;
    struct store store;
    struct as_of_source source;
    struct as_of_question question;
    struct as_of moment;
    struct progress progress;
    /* Names and states of the queues at the requested time, by place in the broker's table of queues. */
    struct asof_queue queues[QUEUE_PLACES + 1];
    const char *queue; /* queue of --queue; NULL: all queues */
    const char *prefix;
    uint32_t states; /* selected states: bits of enum tarry_state */
    uint64_t limit;
};

static bool asof_is_wanted(const struct asof *asof, uint32_t place) {
    const char *name = asof->queues[place].name;
    return name != NULL && (asof->queue == NULL || strcmp(name, asof->queue) == 0);
}

/* Appends the requested time and position as text: "2026-11-21T…, log position 4711". */
static void asof_words(const struct asof *asof, struct text *out) {
    char time[RFC3339_TEXT_SIZE];
    text_printf(out, "%s, log position %" PRIu64, rfc3339_format(asof->moment.steady_ns / NS_PER_MS, time),
                asof->moment.meta.position);
}

/* ---- the state at the requested time */

/* Stores an error message for an error of as_of.h; returns EXIT_REFUSED. */
static int asof_failed(struct asof *asof, int error) {
    const struct as_of *moment = &asof->moment;
    char time[RFC3339_TEXT_SIZE];
    rfc3339_format(moment->limit_ms, time);
    switch (error) {
    case AS_OF_BEFORE:
        if (moment->limit_ms == 0) return store_damaged(&asof->store, "the log is empty");
        return store_damaged(&asof->store, "the log begins at %s, position %" PRIu64 ": the broker had no data before",
                             time, moment->limit);
    case AS_OF_TOO_OLD:
        return store_damaged(&asof->store,
                             "the log and the archive no longer have the beginning of the history: an exact answer is "
                             "possible only from %s, log position %" PRIu64,
                             time, moment->limit);
    case AS_OF_BEYOND:
        return store_damaged(&asof->store, "the log ends at position %" PRIu64, moment->limit);
    case AS_OF_DIFFERS:
        return store_damaged(
            &asof->store,
            "index and log do not belong together: the directory is damaged; 'tarry verify %s' shows where",
            asof->store.directory);
    case AS_OF_ERASED:
        return store_damaged(&asof->store,
                             "the content of a task that was live then has been redacted since: no directory of that "
                             "time can be made; counts and lists (without --into) are possible");
    case -ENOSPC:
        return store_damaged(&asof->store, "the temporary index needs more disk space: %s", strerror(ENOSPC));
    default:
        return store_damaged(&asof->store, "the state cannot be computed: %s", store_sentence(error));
    }
}

static void show(void *argument, uint64_t done, uint64_t total, uint64_t records) {
    struct asof *asof = argument;
    progress_show(&asof->progress, done, total, records);
}

static int learn_queue(void *argument, const Tarry__QueuePut *queue) {
    struct asof *asof = argument;
    if (!queue_number_is_valid(queue->number)) return INDEX_DAMAGED;
    if (queue->deleted) return 0; /* at the requested time the queue did not exist */
    asof->queues[queue_place(queue->number)] = (struct asof_queue){
        .number = queue->number,
        .name = tool_strdup(queue->name),
        .paused = queue->paused,
        .paused_until_ms = queue->paused_until_ms,
    };
    return 0;
}

/* Restores the state of the requested time, with its queues, into `directory`. */
static int asof_find(struct asof *asof, const char *directory, bool is_lasting) {
    progress_start(&asof->progress, "records");
    int error = as_of_make(&asof->moment, &asof->source, &asof->question, directory, is_lasting);
    progress_end(&asof->progress);
    if (error == 0) error = index_each_queue(asof->moment.index, learn_queue, asof);
    if (error != 0) return asof_failed(asof, error);
    for (uint32_t place = 1; place <= QUEUE_PLACES; place++)
        if (asof_is_wanted(asof, place)) return 0;
    if (asof->queue == NULL) return 0;
    return store_damaged(&asof->store, "the queue '%s' did not exist then", asof->queue);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)status;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Deletes all files of the temporary index. */
static void remove_all(const char *directory) {
    if (nftw(directory, remove_one, NFTW_HANDLES, FTW_DEPTH | FTW_PHYS) == 0) return;
    tool_say("%s cannot be deleted: %s; delete it yourself, because it has the contents of tasks", directory,
             strerror(errno));
}

/* Restores the state in a temporary directory, and deletes its files while they are open. So no files remain if the
 * process is killed later. */
static int find_for_now(struct asof *asof) {
    const char *parent = getenv("TMPDIR");
    char directory[DIRECTORY_SIZE], index[DIRECTORY_SIZE + 16];
    if (parent == NULL || parent[0] == 0) parent = "/tmp";
    if (strlen(parent) > sizeof directory - 32) return store_damaged(&asof->store, "the value of $TMPDIR is too long");
    snprintf(directory, sizeof directory, "%s/tarry-as-of-XXXXXX", parent);
    if (mkdtemp(directory) == NULL)
        return store_damaged(&asof->store,
                             "a temporary directory cannot be created in %s: %s; set $TMPDIR to another directory",
                             parent, strerror(errno));
    snprintf(index, sizeof index, "%s/index", directory);
    int status = asof_find(asof, index, false);
    remove_all(directory);
    return status;
}

/* ---- counts */

static void json_queue(struct text *out, const struct asof *asof, uint32_t place, const struct as_of_counts *counts) {
    const struct asof_queue *queue = &asof->queues[place];
    const struct queue_tally *tally = &asof->moment.meta.tally.queues[place];
    out_begin(out, '{');
    out_text(out, "queue", queue->name);
    out_number(out, "pending", counts->pending);
    out_number(out, "ready", counts->ready);
    out_number(out, "in_flight", counts->in_flight);
    out_number(out, "dead", counts->dead);
    out_number(out, "expired_unrecorded", counts->expired);
    out_bool(out, "paused", queue->paused);
    if (queue->paused_until_ms != 0) out_number(out, "paused_until_ms", queue->paused_until_ms);
    out_number(out, "scheduled", tally->scheduled);
    out_number(out, "cancelled", tally->cancelled);
    out_number(out, "delivered", tally->delivered);
    out_number(out, "acked", tally->acked);
    out_number(out, "retried", tally->retried);
    out_number(out, "expired", tally->expired);
    out_number(out, "dropped", tally->dropped);
    out_line_end(out);
}

static void json_whole(struct text *out, const struct asof *asof) {
    const struct as_of *moment = &asof->moment;
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, moment->meta.tally.digest);
    out_begin(out, '{');
    out_null(out, "queue");
    out_number(out, "as_of_ms", moment->steady_ns / NS_PER_MS);
    out_number(out, "wall_ms", moment->wall_ns / NS_PER_MS);
    out_number(out, "position", moment->meta.position);
    out_number(out, "last_record_ms", moment->meta.steady_ns / NS_PER_MS);
    out_number(out, "epoch", moment->meta.tally.epoch);
    out_number(out, "live", moment->meta.tally.live);
    out_text(out, "digest", digest);
    out_line_end(out);
}

static void words_queue(struct table *table, const struct asof_queue *queue, const struct as_of_counts *counts) {
    struct text name = {0};
    text_printf(&name, "%s%s", queue->name, queue->paused ? " (paused)" : "");
    table_cell(table, text_str(&name));
    text_deinit(&name);
    table_cell_number(table, counts->pending);
    table_cell_number(table, counts->ready);
    table_cell_number(table, counts->in_flight);
    table_cell_number(table, counts->dead);
    table_cell_number(table, counts->expired);
}

static void print_counts(const struct asof *asof, const struct as_of_counts *counts, struct text *out) {
    static const char *const heads[] = {"QUEUE", ">PENDING", ">READY", ">IN FLIGHT", ">DEAD", ">EXPIRED"};
    struct table table;
    table_init(&table, heads, 6);
    for (uint32_t place = 1; place <= QUEUE_PLACES; place++) {
        if (!asof_is_wanted(asof, place)) continue;
        if (asof->tool->json)
            json_queue(out, asof, place, &counts[place]);
        else
            words_queue(&table, &asof->queues[place], &counts[place]);
    }
    if (asof->tool->json) {
        json_whole(out, asof);
    } else {
        text_add_str(out, "as of ");
        asof_words(asof, out);
        text_printf(out, ": %" PRIu64 " live tasks\n\n", asof->moment.meta.tally.live);
        table_print(&table, out);
    }
    table_deinit(&table);
}

static int asof_counts(struct asof *asof, struct text *out) {
    struct as_of_counts *counts = tool_alloc((QUEUE_PLACES + 1) * sizeof *counts);
    int error = as_of_count(&asof->moment, counts);
    int status = error != 0 ? asof_failed(asof, error) : 0;
    if (status == 0) print_counts(asof, counts, out);
    free(counts);
    return status;
}

/* ---- --list */

/* Lists the tasks as of an earlier time, by queue and due time, as 'tarry list' would have done then.
 * Tasks whose `expires` time had passed are left out. */

#define PAGE_TASKS 1000u
#define PAGE_BYTES (64u << 10)

struct listing {
    struct asof *asof;
    struct text *out;
    struct table table;
    struct arena arena;
    uint64_t count; /* printed */
};

/* Returns a copy in the arena, with a final 0. */
static char *copy(struct arena *arena, const char *text, size_t size) {
    char *out = arena_alloc(arena, size + 1);
    if (out == NULL) tool_out_of_memory();
    if (size > 0) memcpy(out, text, size);
    out[size] = 0;
    return out;
}

/* For a lease that was recorded before the due time, and whose delivery had not left at the moment asked for: returns
 * the task's row as it was before the lease. The earlier holder is unknown, because the lease's record does not name
 * it. */
static struct row not_yet_leased(const struct row *row) {
    struct row waiting = *row;
    waiting.attempt--;
    waiting.deliveries--;
    waiting.session = waiting.delivered_ms = waiting.lease_deadline_ms = 0;
    waiting.lease_epoch = 0;
    waiting.lease_position = 0;
    return waiting;
}

static void view_of(struct listing *listing, const struct row *as_recorded, uint32_t state, Tarry__TaskView *out,
                    Tarry__Token *token) {
    const bool is_ahead = as_recorded->state == ROW_LEASED && state != STATE_IN_FLIGHT;
    const struct row waiting = not_yet_leased(as_recorded), *row = is_ahead ? &waiting : as_recorded;
    tarry__task_view__init(out);
    out->id = row->id;
    out->queue = (char *)listing->asof->queues[queue_place(row->queue)].name;
    out->key = (ProtobufCBinaryData){row->key_size, (uint8_t *)as_recorded->key};
    out->state = (char *)state_bit_name(state);
    out->due_ms = row->due_ms;
    out->absolute = row->base == ROW_WALL;
    out->spread_ms = row->spread_ms;
    out->max_attempts = row->max_attempts;
    out->backoff_ms = row->backoff_ms;
    out->lease_ms = row->lease_ms;
    out->serial = (ProtobufCBinaryData){row->serial_size, (uint8_t *)as_recorded->serial};
    out->priority = row->priority;
    out->attempt = row->attempt;
    out->deliveries = row->deliveries;
    out->scheduled_ms = row->scheduled_ms;
    out->expires_ms = row->expires_ms;
    out->delivered_ms = row->delivered_ms;
    out->session = row->session;
    if (state == STATE_IN_FLIGHT) {
        tarry__token__init(token);
        token->epoch = row->lease_epoch;
        token->position = row->lease_position;
        out->token = token;
        out->lease_deadline_ms = row->lease_deadline_ms;
    } else if (state == STATE_DEAD) {
        out->dead_ms = row->dead_ms;
        out->reason = copy(&listing->arena, row->reason, row->reason_size);
    }
}

static void say_session(struct text *out, const ProtobufCMessage *message) {
    if (((const Tarry__TaskView *)message)->token != NULL) field_say(out, message, "session");
}

static const struct column columns[] = {
    {">ID", "id", NULL},
    {"QUEUE", "queue", NULL},
    {"KEY", "key", NULL},
    {"STATE", "state", NULL},
    {"DUE", "due_ms", NULL},
    {">PRIORITY", "priority", NULL},
    {">ATTEMPT", "attempt", NULL},
    {">DELIVERIES", "deliveries", NULL},
    {">HELD BY", NULL, say_session},
    {"UNTIL", "lease_deadline_ms", NULL},
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static void take(struct listing *listing, const struct row *row) {
    struct asof *asof = listing->asof;
    uint32_t wanted = asof->states != 0 ? asof->states : STATE_PENDING | STATE_READY | STATE_IN_FLIGHT;
    uint32_t state = as_of_state(&asof->moment, row);
    if (listing->count == asof->limit || (wanted & state) == 0) return;
    Tarry__TaskView view;
    Tarry__Token token;
    view_of(listing, row, state, &view, &token);
    listing->count++;
    if (asof->tool->json)
        json_line(listing->out, &view.base, &(struct tarry_source){.follower = false});
    else
        columns_row(&listing->table, columns, COLUMNS, &view.base);
}

static uint32_t row_states(uint32_t wanted) {
    uint32_t states = 0;
    if (wanted == 0) wanted = STATE_PENDING | STATE_READY | STATE_IN_FLIGHT;
    if (wanted & (STATE_PENDING | STATE_READY)) states |= 1u << ROW_WAITING;
    /* Selects leased rows, too: a lease that was recorded before the due time leaves the task pending until then. */
    if (wanted & (STATE_IN_FLIGHT | STATE_PENDING)) states |= 1u << ROW_LEASED;
    if (wanted & STATE_DEAD) states |= 1u << ROW_BURIED;
    return states;
}

static int list_queue(struct listing *listing, uint32_t number) {
    struct asof *asof = listing->asof;
    struct index_query query = {
        .queue = number,
        .states = row_states(asof->states),
        .prefix = asof->prefix,
        .prefix_size = asof->prefix != NULL ? strlen(asof->prefix) : 0,
        .count_max = PAGE_TASKS,
    };
    while (query.after.due_ms != UINT64_MAX && listing->count < asof->limit && !output_lost()) {
        struct index_rows rows;
        arena_reset(&listing->arena);
        int error = index_list(asof->moment.index, &query, &listing->arena, &rows, &query.after);
        if (error != 0) return asof_failed(asof, error);
        for (size_t i = 0; i < rows.count; i++) take(listing, &rows.rows[i]);
        if (!asof->tool->json && rows.count > 0) table_print(&listing->table, listing->out);
        if (listing->out->size >= PAGE_BYTES) output_write(listing->out, false);
    }
    return 0;
}

/* Prints counts or tasks. 0, or EXIT_REFUSED after an error message in store.message. */
static int asof_list(struct asof *asof, struct text *out) {
    struct listing listing = {.asof = asof, .out = out};
    struct text summary = {0};
    int status = 0;
    columns_table(&listing.table, columns, COLUMNS);
    arena_init(&listing.arena, SIZE_MAX);
    for (uint32_t place = 1; place <= QUEUE_PLACES && status == 0; place++)
        if (asof_is_wanted(asof, place)) status = list_queue(&listing, asof->queues[place].number);
    if (status == 0 && !asof->tool->json) {
        asof_words(asof, &summary);
        tool_say("%llu tasks as of %s", (unsigned long long)listing.count, text_str(&summary));
    }
    text_deinit(&summary);
    arena_deinit(&listing.arena);
    table_deinit(&listing.table);
    return status;
}

/* ---- --into */

/* Makes a data directory NEWDIR with the state as of an earlier moment.
 *
 * The first file in NEWDIR is a mark: it says that the directory is unfinished. Then the tool writes the index, which
 * gets the contents and replies that the log had; a log that begins at the moment; and the identity of a new member
 * (identity.h). The new member's epochs are higher than those of the source, because the source continued after the
 * moment. After all files are synced, the mark is deleted. Neither the broker nor the tool opens a directory with a
 * mark; after a crash the operator deletes it. The source is only read. */

#define NAME_ROOM 64 /* bytes reserved for the longest file name in a data directory */

struct target {
    struct asof *asof;
    const char *directory;
    char log[STORE_PATH_SIZE];
    char index[STORE_PATH_SIZE];
};

static int failed(struct target *target, const char *what, int error) {
    return store_damaged(&target->asof->store, "%s cannot be %s: %s", target->directory, what,
                         strerror(error < 0 ? -error : error));
}

static int make_file(const char *directory, const char *name) {
    char path[STORE_PATH_SIZE + NAME_ROOM];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int handle = disk_posix.open(disk_posix.context, path, O_RDWR | O_CREAT | O_EXCL, 0600);
    return handle < 0 ? handle : disk_posix.close(disk_posix.context, handle);
}

static int each_name(void *argument, const char *name) {
    struct target *target = argument;
    store_damaged(&target->asof->store, "%s contains \"%.100s\"; --into needs a new or empty directory",
                  target->directory, name);
    return 1;
}

/* Returns whether `directory`, or its nearest existing parent, lies in `source`. */
static bool lies_in(const char *directory, const char *source) {
    char at[STORE_PATH_SIZE], *whole = realpath(source, NULL), *real = NULL;
    snprintf(at, sizeof at, "%s", directory);
    while ((real = realpath(at, NULL)) == NULL) {
        char *slash = strrchr(at, '/');
        if (slash == NULL) snprintf(at, sizeof at, ".");
        if (slash != NULL) slash[slash == at] = 0;
        if (slash == at) break;
    }
    size_t size = whole != NULL ? strlen(whole) : 0;
    bool is_in = size > 0 && real != NULL && strncmp(real, whole, size) == 0 && (real[size] == '/' || real[size] == 0);
    free(real);
    free(whole);
    return is_in;
}

/* Creates NEWDIR, or checks that it is empty, and marks it as unfinished. */
static int begin(struct target *target) {
    const struct disk *disk = &disk_posix;
    char parent[STORE_PATH_SIZE + NAME_ROOM];
    snprintf(parent, sizeof parent, "%s/..", target->directory);
    if (lies_in(target->directory, target->asof->store.directory))
        return store_damaged(
            &target->asof->store,
            "--into %s: the directory is inside the data directory that the command reads; give another one",
            target->directory);
    int error = disk->make_directory(disk->context, target->directory, 0700);
    if (error == 0) error = disk->sync_directory(disk->context, parent);
    if (error != 0 && error != -EEXIST) return failed(target, "created", error);
    error = disk->list(disk->context, target->directory, each_name, target);
    if (error > 0) return EXIT_REFUSED;
    /* If two processes use the same target at once, the second one fails here, because the file exists. */
    if (error == 0) error = make_file(target->directory, BACKUP_PARTIAL_NAME);
    if (error == 0) error = disk->sync_directory(disk->context, target->directory);
    return error != 0 ? failed(target, "begun", error) : 0;
}

static int give_identity(struct target *target) {
    struct store *store = &target->asof->store;
    struct identity own, identity;
    struct member parent = {0}, member;
    char message[IDENTITY_MESSAGE_SIZE];
    int error = identity_read(store->directory, &own, message);
    if (error == 0) error = member_read(store->directory, &parent, message);
    if (error == -ENOENT) error = 0; /* an earlier version of Tarry wrote no DIR/member */
    if (error > 0) return store_damaged(store, "%s", message);
    if (error < 0) return failed(target, "given an identity", error);
    if (!identity_copy(&own, &parent, store->recovery.epoch, &identity, &member))
        return store_damaged(store, "%s has been copied so often that no epoch number is left", store->directory);
    error = member_write(target->directory, &member);
    if (error == 0) error = identity_write(target->directory, &identity);
    return error != 0 ? failed(target, "given an identity", error) : 0;
}

static int end(struct target *target) {
    const struct disk *disk = &disk_posix;
    char mark[STORE_PATH_SIZE + NAME_ROOM];
    snprintf(mark, sizeof mark, "%s/%s", target->directory, BACKUP_PARTIAL_NAME);
    int error = make_file(target->directory, "lock"); /* for readers */
    if (error == 0) error = disk->sync_directory(disk->context, target->log);
    if (error == 0) error = disk->sync_directory(disk->context, target->index);
    if (error == 0) error = disk->sync_directory(disk->context, target->directory);
    if (error == 0) error = disk->unlink(disk->context, mark);
    if (error == 0) error = disk->sync_directory(disk->context, target->directory);
    return error != 0 ? failed(target, "finished", error) : 0;
}

static int complete(struct target *target) {
    struct asof *asof = target->asof;
    char message[1024] = "";
    struct log_options options = {
        .directory = target->log,
        .disk = &disk_posix,
        .segment_size = SEGMENT_SIZE_DEFAULT,
    };
    memcpy(options.cluster, asof->source.cluster, sizeof options.cluster);
    int error = as_of_complete(&asof->moment, &asof->source, &options, message, sizeof message);
    if (error == 0) return 0;
    return message[0] != 0 && error != AS_OF_ERASED ? store_damaged(&asof->store, "%s: %s", target->directory, message)
                                                    : asof_failed(asof, error);
}

static void print(const struct asof *asof, const char *directory, struct text *out) {
    const struct as_of *moment = &asof->moment;
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, moment->meta.tally.digest);
    if (!asof->tool->json) {
        text_printf(out, "%s: as of ", directory);
        asof_words(asof, out);
        text_printf(out,
                    ", %" PRIu64 " live tasks, digest %s\n"
                    "inspect it with: tarryd --inspect --data %s\n",
                    moment->meta.tally.live, digest, directory);
        return;
    }
    out_begin(out, '{');
    out_text(out, "directory", directory);
    out_number(out, "as_of_ms", moment->steady_ns / 1000000);
    out_number(out, "wall_ms", moment->wall_ns / 1000000);
    out_number(out, "position", moment->meta.position);
    out_number(out, "live", moment->meta.tally.live);
    out_text(out, "digest", digest);
    out_line_end(out);
}

/* Makes the directory that --into names. Calls asof_find itself. */
static int asof_into(struct asof *asof, const char *directory, struct text *out) {
    struct target target = {.asof = asof, .directory = directory};
    if (directory[0] == 0 || strlen(directory) + NAME_ROOM > STORE_PATH_SIZE)
        return store_damaged(&asof->store, "--into: the directory name is empty or too long");
    snprintf(target.log, sizeof target.log, "%s/log", directory);
    snprintf(target.index, sizeof target.index, "%s/index", directory);
    int status = begin(&target);
    if (status == 0) status = asof_find(asof, target.index, true);
    if (status == 0) status = complete(&target);
    if (status == 0) {
        /* Syncs the last writes before the file that marks NEWDIR as unfinished is deleted. */
        index_close(asof->moment.index);
        asof->moment.index = NULL;
        status = give_identity(&target);
    }
    if (status == 0) status = end(&target);
    if (status == 0) print(asof, directory, out);
    return status;
}

/* ---- the command */

static int check_options(struct asof *asof) {
    static const char *const others[] = {"from", "to", "kind", "key", "id", "producer", "session", "follow"};
    const struct args *args = asof->args;
    bool is_list = args_has(args, "list"), is_into = args_has(args, "into");
    asof->queue = args_get(args, "queue");
    asof->prefix = args_get(args, "prefix");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (args_has(args, others[i])) return tool_usage(args, "--%s cannot be used with --as-of", others[i]);
    if (args_has(args, "as-of") && args_has(args, "as-of-position"))
        return tool_usage(args, "--as-of and --as-of-position exclude each other");
    if (is_into && (is_list || asof->queue != NULL || asof->prefix != NULL))
        return tool_usage(args,
                          "--into excludes --list, --queue, --state, --prefix and --limit: it makes a whole directory");
    if (!is_list && (asof->prefix != NULL || args_has(args, "state") || args_has(args, "limit")))
        return tool_usage(args, "--prefix, --state and --limit need --list");
    return 0;
}

static int parse(struct asof *asof) {
    const struct args *args = asof->args;
    struct as_of_question *question = &asof->question;
    int status = check_options(asof);
    asof->limit = UINT64_MAX;
    question->by_position = args_has(args, "as-of-position");
    if (status == 0) status = option_number(args, "as-of-position", 0, UINT64_MAX, &question->position);
    if (status == 0) status = option_time(args, "as-of", &question->steady_ms);
    if (status == 0) status = option_states(args, &asof->states);
    if (status == 0) status = option_number(args, "limit", 1, UINT64_MAX, &asof->limit);
    if (status == 0 && !question->by_position && question->steady_ms > wall_ms())
        status = tool_usage(args, "--as-of: the time is in the future");
    return status;
}

static int answer(struct asof *asof, struct text *out) {
    const char *into = args_get(asof->args, "into");
    if (into != NULL) return asof_into(asof, into, out);
    int status = find_for_now(asof);
    if (status != 0) return status;
    return args_has(asof->args, "list") ? asof_list(asof, out) : asof_counts(asof, out);
}

int asof_run(struct tool *tool, const struct args *args) {
    struct asof *asof = tool_alloc(sizeof *asof);
    struct text out = {0};
    *asof = (struct asof){.tool = tool, .args = args};
    int status = parse(asof);
    if (status == 0) status = store_open(&asof->store, args);
    if (status == 0) {
        asof->source = (struct as_of_source){
            .log = asof->store.log,
            .archive = &asof->store.archive,
            .end = asof->store.recovery.end,
            .index = asof->store.index,
            .meta = asof->store.meta,
            .progress = show,
            .argument = asof,
        };
        memcpy(asof->source.cluster, asof->store.cluster, sizeof asof->source.cluster);
        status = answer(asof, &out);
        as_of_close(&asof->moment);
        status = store_finish(&asof->store, &out, status);
    }
    for (size_t i = 0; i <= QUEUE_PLACES; i++) free(asof->queues[i].name);
    free(asof);
    return status;
}
