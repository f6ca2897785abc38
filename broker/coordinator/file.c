/* file.c: a coordinator that is a file of this host: file:///path, for tests and demonstrations.
 *
 *   PATH       tarry-coordinator 1
 *              birth <16 hex digits, made at random with the file>
 *              entry <name> <version> <size>        … its bytes and a newline; as many times as there are entries
 *              sum <16 hex digits: XXH3-64 of all that stands before this line>
 *   PATH.new   the next one, while it is being written
 *   PATH.lock  locked (flock) by whoever reads or writes: alone in order to write
 *
 * *Each change writes the whole file anew*: PATH.new, synced, renamed, directory synced. A kill -9 before the rename
 * leaves the old file, one after it the new one; the caller was told nothing, which is PAIR_UNKNOWN. A multi is one
 * file, so it is whole or it is not.
 *
 * *It is no third party*: it lives and dies with its host, and protects only processes that run there. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <unistd.h>

#include "backend.h"
#include "disk.h"
#include "frame.h"

#define FILE_FIRST_LINE "tarry-coordinator 1\n"
#define FILE_LINE_MAX 128
#define FILE_SIZE_MAX (COORDINATOR_NAMES_MAX * (COORDINATOR_VALUE_SIZE_MAX + FILE_LINE_MAX) + 3 * FILE_LINE_MAX)
#define FILE_PATH_SIZE (COORDINATOR_URL_SIZE_MAX + 8)
#define FILE_LOCK_TRY_MS 2

struct entry {
    char name[COORDINATOR_NAME_SIZE_MAX + 1];
    uint64_t version;
    size_t size;
    char value[COORDINATOR_VALUE_SIZE_MAX];
};

struct content {
    uint64_t birth; /* 0: there is no file */
    size_t count;
    struct entry entries[COORDINATOR_NAMES_MAX];
};

struct file {
    struct coordinator *coordinator;
    char path[FILE_PATH_SIZE], path_new[FILE_PATH_SIZE], path_lock[FILE_PATH_SIZE], directory[FILE_PATH_SIZE];
    int lock;
    int notify; /* inotify of the directory */
    struct content content;
    char text[FILE_SIZE_MAX + 1];
    char problem[COORDINATOR_MESSAGE_SIZE];
};

static int refuse(char message[COORDINATOR_MESSAGE_SIZE], const char *format, const char *path, const char *why) {
    snprintf(message, COORDINATOR_MESSAGE_SIZE, format, path, why); // NOLINT(clang-diagnostic-format-nonliteral)
    return 1;
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static bool take_line(const char **at, const char *end, char out[FILE_LINE_MAX]) {
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    if (newline == NULL || newline - *at >= FILE_LINE_MAX) return false;
    memcpy(out, *at, (size_t)(newline - *at));
    out[newline - *at] = '\0';
    *at = newline + 1;
    return true;
}

static int write_entry_line(const struct entry *entry, char *out, size_t room) {
    return snprintf(out, room, "entry %s %" PRIu64 " %zu", entry->name, entry->version, entry->size);
}

/* Strict: what it reads is what it would write. */
static bool take_entry(const char **at, const char *end, const char *line, struct content *out) {
    char again[FILE_LINE_MAX];
    if (out->count == COORDINATOR_NAMES_MAX) return false;
    struct entry *entry = &out->entries[out->count++];
    if (sscanf(line, "entry %31[a-z0-9-] %" SCNu64 " %zu", entry->name, &entry->version, &entry->size) != 3)
        return false;
    write_entry_line(entry, again, sizeof again);
    if (strcmp(again, line) != 0 || entry->version == 0 || entry->size > COORDINATOR_VALUE_SIZE_MAX) return false;
    if ((size_t)(end - *at) < entry->size + 1 || (*at)[entry->size] != '\n') return false;
    memcpy(entry->value, *at, entry->size);
    *at += entry->size + 1;
    return true;
}

static bool take_number(const char *line, const char *word, uint64_t *out) {
    char again[FILE_LINE_MAX];
    size_t size = strlen(word);
    if (strncmp(line, word, size) != 0 || line[size] != ' ' || sscanf(line + size + 1, "%" SCNx64, out) != 1)
        return false;
    snprintf(again, sizeof again, "%s %016" PRIx64, word, *out);
    return strcmp(again, line) == 0;
}

static bool read_content(const char *text, size_t size, struct content *out) {
    const char *at = text, *end = text + size, *before;
    char line[FILE_LINE_MAX];
    uint64_t sum;
    out->count = 0;
    size_t first = strlen(FILE_FIRST_LINE);
    if (size < first || memcmp(text, FILE_FIRST_LINE, first) != 0) return false;
    at += first;
    if (!take_line(&at, end, line) || !take_number(line, "birth", &out->birth) || out->birth == 0) return false;
    for (before = at; take_line(&at, end, line) && strncmp(line, "entry ", 6) == 0; before = at)
        if (!take_entry(&at, end, line, out)) return false;
    return at == end && take_number(line, "sum", &sum) && sum == frame_sum(text, (size_t)(before - text));
}

static size_t write_content(const struct content *content, char *out) {
    char *at = out;
    at += sprintf(at, FILE_FIRST_LINE "birth %016" PRIx64 "\n", content->birth);
    for (size_t i = 0; i < content->count; i++) {
        const struct entry *entry = &content->entries[i];
        at += write_entry_line(entry, at, FILE_LINE_MAX);
        *at++ = '\n';
        memcpy(at, entry->value, entry->size);
        at += entry->size;
        *at++ = '\n';
    }
    at += sprintf(at, "sum %016" PRIx64 "\n", frame_sum(out, (size_t)(at - out)));
    return (size_t)(at - out);
}

static struct entry *find(struct content *content, const char *name) {
    for (size_t i = 0; i < content->count; i++)
        if (strcmp(content->entries[i].name, name) == 0) return &content->entries[i];
    return NULL;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

/* Into file->content. 0, or 1 with file->problem. */
static int load(struct file *file) {
    file->content.birth = 0;
    file->content.count = 0;
    int handle = disk_posix.open(NULL, file->path, O_RDONLY, 0);
    if (handle == -ENOENT) return 0;
    if (handle < 0)
        return refuse(file->problem, "coordinator file %s cannot be opened: %s", file->path, strerror(-handle));
    int64_t size = disk_read_all(&disk_posix, handle, file->text, sizeof file->text, 0);
    (void)disk_posix.close(NULL, handle);
    if (size < 0)
        return refuse(file->problem, "coordinator file %s cannot be read: %s", file->path, strerror((int)-size));
    if (size <= FILE_SIZE_MAX && read_content(file->text, (size_t)size, &file->content)) return 0;
    return refuse(file->problem, "coordinator file %s is damaged, or not one of Tarry's%s", file->path,
                  ": name another, or stop both nodes before you remove it");
}

/* 0, or 1 with file->problem; the new file may be there, or not. */
static int store(struct file *file) {
    size_t size = write_content(&file->content, file->text);
    const char *what = "cannot be made";
    int handle = disk_posix.open(NULL, file->path_new, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int error = handle < 0 ? handle : 0;
    if (error == 0) {
        what = "cannot be written";
        error = disk_write_all(&disk_posix, handle, file->text, size, 0);
        if (error == 0) error = disk_posix.sync(NULL, handle);
        int closed = disk_posix.close(NULL, handle);
        if (error == 0) error = closed;
    }
    if (error == 0) error = disk_posix.rename(NULL, file->path_new, file->path);
    if (error == 0) error = disk_posix.sync_directory(NULL, file->directory);
    if (error == 0) return 0;
    snprintf(file->problem, sizeof file->problem, "coordinator file %s %s: %s", file->path_new, what, strerror(-error));
    return 1;
}

/* Waits until the call's time is over: who holds the lock may have been stopped. */
static int lock(struct file *file, int how, uint64_t deadline_ms) {
    while (flock(file->lock, how | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return refuse(file->problem, "coordinator file %s cannot be locked: %s", file->path_lock, strerror(errno));
        if (coordinator_now_ms() >= deadline_ms)
            return refuse(file->problem, "coordinator file %s is locked by another process for too long%s",
                          file->path_lock, "");
        (void)poll(NULL, 0, FILE_LOCK_TRY_MS);
    }
    return 0;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static enum pair_outcome read_one(struct file *file, struct coordinator_call *call) {
    const struct entry *entry = find(&file->content, call->name);
    if (entry == NULL) return PAIR_DONE;
    call->version = entry->version;
    call->births[0] = file->content.birth;
    call->size = entry->size;
    memcpy(call->value, entry->value, entry->size);
    call->value[entry->size] = '\0';
    return PAIR_DONE;
}

static struct entry *make_entry(struct content *content, const char *name) {
    if (content->count == COORDINATOR_NAMES_MAX) return NULL;
    if (content->birth == 0 && getrandom(&content->birth, sizeof content->birth, 0) != sizeof content->birth)
        return NULL;
    struct entry *entry = &content->entries[content->count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->version = 0;
    return entry;
}

/* In memory; 0, or 1: there is no room for another entry. */
static int apply(struct content *content, struct coordinator_call *call) {
    for (size_t i = 0; i < call->count; i++) {
        struct coordinator_change *change = &call->changes[i];
        if (change->value == NULL) continue;
        struct entry *entry = find(content, change->name);
        if (entry == NULL) entry = make_entry(content, change->name);
        if (entry == NULL) return 1;
        entry->size = change->size;
        memcpy(entry->value, change->value, change->size);
        change->version = ++entry->version;
        call->births[i] = content->birth;
    }
    return 0;
}

static enum pair_outcome change_all(struct file *file, struct coordinator_call *call) {
    for (size_t i = 0; i < call->count; i++) {
        const struct coordinator_change *change = &call->changes[i];
        const struct entry *entry = find(&file->content, change->name);
        uint64_t version = entry == NULL ? 0 : entry->version;
        if (version == change->version) continue;
        snprintf(call->reason, sizeof call->reason, "coordinator: entry '%s' is at version %" PRIu64 ", not %" PRIu64,
                 change->name, version, change->version);
        return PAIR_REFUSED;
    }
    if (apply(&file->content, call) == 0) return store(file) == 0 ? PAIR_DONE : PAIR_UNKNOWN;
    refuse(file->problem, "coordinator file %s has no room for another entry%s", file->path, "");
    return PAIR_UNKNOWN;
}

static void file_start(void *state, struct coordinator_call *call) {
    struct file *file = state;
    enum pair_outcome outcome = PAIR_UNKNOWN;
    file->problem[0] = '\0';
    if (lock(file, call->name != NULL ? LOCK_SH : LOCK_EX, call->deadline_ms) == 0) {
        if (load(file) == 0) outcome = call->name != NULL ? read_one(file, call) : change_all(file, call);
        (void)flock(file->lock, LOCK_UN);
    }
    if (outcome == PAIR_UNKNOWN) memcpy(call->reason, file->problem, sizeof call->reason);
    coordinator_is(file->coordinator, file->problem[0] == '\0' ? COORDINATOR_CONNECTED : COORDINATOR_CONNECTING, 1,
                   "%s", file->problem);
    coordinator_finish(file->coordinator, call, outcome);
}

static void file_abandon(void *state, struct coordinator_call *call) {
    (void)state;
    (void)call;
}

/* ---- Watching ---------------------------------------------------------------------------------------------------- */

static int file_descriptor(void *state) {
    return ((struct file *)state)->notify;
}

static void file_watch(void *state, const char *name) {
    (void)state; /* all that happens in the directory is seen anyway */
    (void)name;
}

static void file_turn(void *state) {
    struct file *file = state;
    const char *name = strrchr(file->path, '/') + 1;
    union {
        struct inotify_event event;
        char bytes[4096];
    } news;
    bool is_changed = false;
    for (ssize_t size; (size = read(file->notify, &news, sizeof news)) > 0;)
        for (char *at = news.bytes; at < news.bytes + size;) {
            const struct inotify_event *event = (const struct inotify_event *)at;
            if ((event->mask & IN_Q_OVERFLOW) != 0 || (event->len > 0 && strcmp(event->name, name) == 0))
                is_changed = true;
            at += sizeof *event + event->len;
        }
    if (is_changed) coordinator_changed(file->coordinator, NULL);
}

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

static int file_check(const char *place, char message[COORDINATOR_MESSAGE_SIZE]) {
    size_t size = strlen(place);
    if (place[0] != '/' || size < 2 || place[size - 1] == '/')
        return refuse(message, "coordinator 'file://%s': must be file:///path/of/a/file%s", place, "");
    return 0;
}

static void file_close(void *state) {
    struct file *file = state;
    if (file->notify >= 0) close(file->notify);
    if (file->lock >= 0) close(file->lock);
    free(file);
}

static int file_open(struct coordinator *coordinator, const char *place, const struct coordinator_options *options,
                     void **out, char message[COORDINATOR_MESSAGE_SIZE]) {
    (void)options;
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL) return refuse(message, "coordinator file %s: %s", place, "no memory");
    file->coordinator = coordinator;
    snprintf(file->path, sizeof file->path, "%s", place);
    snprintf(file->path_new, sizeof file->path_new, "%s.new", place);
    snprintf(file->path_lock, sizeof file->path_lock, "%s.lock", place);
    int size = (int)(strrchr(place, '/') - place);
    snprintf(file->directory, sizeof file->directory, "%.*s", size > 0 ? size : 1, place);
    file->lock = open(file->path_lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    file->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int failed = 0;
    if (file->lock < 0)
        failed = refuse(message, "coordinator file %s cannot be made: %s", file->path_lock, strerror(errno));
    else if (file->notify < 0 || inotify_add_watch(file->notify, file->directory, IN_MOVED_TO | IN_DELETE) < 0)
        failed =
            refuse(message, "coordinator file: directory %s cannot be watched: %s", file->directory, strerror(errno));
    if (failed != 0)
        file_close(file);
    else
        *out = file;
    return failed;
}

const struct backend file_backend = {
    .scheme = "file://",
    .warning = "the coordinator is a file: it protects only processes of one host, and is meant for tests and "
               "demonstrations; a pair on two hosts needs ZooKeeper (zk://…)",
    .check = file_check,
    .open = file_open,
    .close = file_close,
    .descriptor = file_descriptor,
    .start = file_start,
    .abandon = file_abandon,
    .turn = file_turn,
    .watch = file_watch,
};
