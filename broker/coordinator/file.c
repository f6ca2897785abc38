/* file.c: a coordinator that is a file of this host: file:///path, for tests and demonstrations.
 *
 *   PATH       the entries (entries.h)
 *   PATH.new   the next one, while it is being written
 *   PATH.lock  locked (flock) by whoever writes
 *   PATH.NAME  who is present as NAME: the BOOTTIME until which it is, and what it says. One host, one clock
 *
 * *Each change writes the whole file anew*: PATH.new, synced, renamed, directory synced. A kill -9 before the rename
 * leaves the old file, one after it the new one; the caller was told nothing, which is PAIR_UNKNOWN. A multi is one
 * file, so it is whole or it is not.
 *
 * *Who reads takes no lock*: a file that has its name is never changed again. A node that is stopped (SIGSTOP) while it
 * reads must not keep the other one from going on alone; a reader with a lock would.
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
#include <sys/vfs.h>
#include <unistd.h>

#include "backend.h"
#include "disk.h"
#include "entries.h"
#include "frame.h"

#define FILE_PATH_SIZE (COORDINATOR_URL_SIZE_MAX + 8)
#define FILE_LOCK_TRY_MS 2

struct file {
    struct coordinator *coordinator;
    char path[FILE_PATH_SIZE], path_new[FILE_PATH_SIZE], path_lock[FILE_PATH_SIZE], directory[FILE_PATH_SIZE];
    uint32_t presence_ms;
    uint64_t declare_ms;                           /* not again before; 0: nothing is declared */
    struct presence presence;                      /* … and what was */
    char watched[COORDINATOR_NAME_SIZE_MAX + 1];   /* whose presence is watched; "": nobody's */
    char words[COORDINATOR_PRESENCE_SIZE_MAX + 1]; /* … and what it said, as was seen last */
    int lock;
    int notify; /* inotify of the directory */
    struct entries entries;
    char text[ENTRIES_SIZE_MAX + 1];
    char problem[COORDINATOR_MESSAGE_SIZE];
};

static int refuse(char message[COORDINATOR_MESSAGE_SIZE], const char *format, const char *path, const char *why) {
    snprintf(message, COORDINATOR_MESSAGE_SIZE, format, path, why); // NOLINT(clang-diagnostic-format-nonliteral)
    return 1;
}

/* ---- Where it lies: a lock and a rename of another host's may be seen late there, or not at all -------------------
 */

static const struct {
    uint32_t type; /* statfs(2) */
    const char *name;
} network_systems[] = {
    {0x6969, "NFS"},      {0x517b, "SMB"},       {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},    {0x00c36400, "Ceph"},
    {0x01021997, "9P"},   {0x5346414f, "AFS"},   {0x6b414653, "AFS"},  {0x73757245, "Coda"},   {0x0bd00bd0, "Lustre"},
    {0x01161970, "GFS2"}, {0x7461636f, "OCFS2"}, {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"},
};

static int check_system(const char *directory, char message[COORDINATOR_MESSAGE_SIZE]) {
    struct statfs system;
    if (statfs(directory, &system) != 0) return 0; /* whoever opens it has a better sentence */
    for (size_t i = 0; i < sizeof network_systems / sizeof *network_systems; i++) {
        if ((uint32_t)system.f_type != network_systems[i].type) continue;
        return refuse(message,
                      "coordinator directory %s lies on a network file system (%s): a file is a coordinator for the "
                      "processes of one host; name a directory of a local disk, or ZooKeeper (zk://…)",
                      directory, network_systems[i].name);
    }
    return 0;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

/* Into file->entries. 0, or 1 with file->problem. */
static int load(struct file *file) {
    file->entries.birth = 0;
    file->entries.count = 0;
    int handle = disk_posix.open(NULL, file->path, O_RDONLY, 0);
    if (handle == -ENOENT) return 0;
    if (handle < 0)
        return refuse(file->problem, "coordinator file %s cannot be opened: %s", file->path, strerror(-handle));
    int64_t size = disk_read_all(&disk_posix, handle, file->text, sizeof file->text, 0);
    (void)disk_posix.close(NULL, handle);
    if (size < 0)
        return refuse(file->problem, "coordinator file %s cannot be read: %s", file->path, strerror((int)-size));
    if (size <= ENTRIES_SIZE_MAX && entries_read(file->text, (size_t)size, &file->entries)) return 0;
    return refuse(file->problem, "coordinator file %s is damaged, or not one of Tarry's%s", file->path,
                  ": name another, or stop both nodes before you remove it");
}

/* 0, or 1 with file->problem; the new file may be there, or not. */
static int store(struct file *file) {
    size_t size = entries_write(&file->entries, file->text);
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

/* What was read stays, though its writer may have died before it had synced the directory. */
static int load_durable(struct file *file) {
    if (load(file) != 0) return 1;
    int error = disk_posix.sync_directory(NULL, file->directory);
    if (error == 0) return 0;
    return refuse(file->problem, "coordinator directory %s cannot be synced: %s", file->directory, strerror(-error));
}

/* Waits until the call's time is over: who holds the lock may have been stopped. */
static int lock(struct file *file, uint64_t deadline_ms) {
    while (flock(file->lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return refuse(file->problem, "coordinator file %s cannot be locked: %s", file->path_lock, strerror(errno));
        if (coordinator_now_ms() >= deadline_ms)
            return refuse(file->problem, "coordinator file %s is locked by another process for too long%s",
                          file->path_lock, "");
        (void)poll(NULL, 0, FILE_LOCK_TRY_MS);
    }
    return 0;
}

/* ---- Presence ---------------------------------------------------------------------------------------------------- */

#define PRESENCE_TEXT_SIZE (20 + 1 + COORDINATOR_PRESENCE_SIZE_MAX + 1 + 1) /* "until text\n" */

static void set_presence_path(const struct file *file, const char *name, char out[FILE_PATH_SIZE + 32]) {
    snprintf(out, FILE_PATH_SIZE + 32, "%s.%s", file->path, name);
}

/* In place, by one write, and not synced: what is damaged or lost is nobody's presence. */
static void write_presence(const struct file *file, uint64_t until_ms) {
    char path[FILE_PATH_SIZE + 32], text[PRESENCE_TEXT_SIZE];
    set_presence_path(file, file->presence.name, path);
    int size = snprintf(text, sizeof text, "%020" PRIu64 " %s\n", until_ms, file->presence.text);
    int handle = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (handle < 0) return;
    bool is_written = pwrite(handle, text, (size_t)size, 0) == size;
    if (is_written) (void)!ftruncate(handle, size);
    close(handle);
    coordinator_stood(file->coordinator, is_written && until_ms != 0 ? file->presence.text : NULL);
}

static void file_declare(void *state, const struct presence *presence) {
    struct file *file = state;
    uint64_t now_ms = coordinator_now_ms();
    if (presence == NULL) {
        if (file->declare_ms != 0) write_presence(file, 0);
        file->declare_ms = 0;
        return;
    }
    bool is_same = strcmp(file->presence.name, presence->name) == 0 && strcmp(file->presence.text, presence->text) == 0;
    if (is_same && now_ms < file->declare_ms) return;
    file->presence = *presence;
    file->declare_ms = now_ms + file->presence_ms / PRESENCE_PARTS;
    write_presence(file, now_ms + file->presence_ms);
}

/* What it says; NULL: nobody is there. What makes no sense is nobody. */
static const char *find_presence(const struct file *file, const char *name, char text[PRESENCE_TEXT_SIZE + 1]) {
    char path[FILE_PATH_SIZE + 32];
    uint64_t now_ms = coordinator_now_ms(), until_ms;
    set_presence_path(file, name, path);
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = handle < 0 ? -1 : read(handle, text, PRESENCE_TEXT_SIZE);
    if (handle >= 0) close(handle);
    if (size < 22 || text[20] != ' ' || text[size - 1] != '\n') return NULL;
    text[size - 1] = text[20] = '\0';
    until_ms = strtoull(text, NULL, 10);
    bool is_over = until_ms <= now_ms || until_ms > now_ms + 600000; /* … or of before a reboot */
    return is_over ? NULL : text + 21;
}

static enum pair_outcome read_presence(const struct file *file, struct coordinator_call *call) {
    char text[PRESENCE_TEXT_SIZE + 1];
    const char *words = find_presence(file, call->name, text);
    if (words == NULL) return PAIR_DONE;
    call->version = 1;
    call->size = strlen(words);
    memcpy(call->value, words, call->size + 1);
    return PAIR_DONE;
}

/* It is written in place all the while, which inotify would tell each time; so it is looked at, at every turn. */
static void look_at_presence(struct file *file) {
    char text[PRESENCE_TEXT_SIZE + 1];
    const char *words = file->watched[0] == '\0' ? NULL : find_presence(file, file->watched, text);
    if (words == NULL) words = "";
    if (file->watched[0] == '\0' || strcmp(words, file->words) == 0) return;
    snprintf(file->words, sizeof file->words, "%s", words);
    coordinator_changed(file->coordinator, file->watched);
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static struct coordinator_trait trait_of(const struct entries *entries, const struct entry *entry) {
    return (struct coordinator_trait){.birth = entries->birth, .mark = frame_sum(entry->value, entry->size)};
}

static enum pair_outcome read_one(struct file *file, struct coordinator_call *call) {
    if (load_durable(file) != 0) return PAIR_UNKNOWN;
    const struct entry *entry = entries_find(&file->entries, call->name);
    if (entry == NULL) return PAIR_DONE;
    call->version = entry->version;
    call->traits[0] = trait_of(&file->entries, entry);
    call->size = entry->size;
    memcpy(call->value, entry->value, entry->size);
    call->value[entry->size] = '\0';
    return PAIR_DONE;
}

static struct entry *make_entry(struct entries *entries, const char *name) {
    if (entries->count == COORDINATOR_NAMES_MAX) return NULL;
    if (entries->birth == 0 && getrandom(&entries->birth, sizeof entries->birth, 0) != sizeof entries->birth)
        return NULL;
    struct entry *entry = &entries->items[entries->count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->version = 0;
    return entry;
}

/* In memory; 0, or 1: there is no room for another entry. */
static int apply(struct entries *entries, struct coordinator_call *call) {
    for (size_t i = 0; i < call->count; i++) {
        struct coordinator_change *change = &call->changes[i];
        if (change->value == NULL) continue;
        struct entry *entry = entries_find(entries, change->name);
        if (entry == NULL) entry = make_entry(entries, change->name);
        if (entry == NULL) return 1;
        entry->size = change->size;
        memcpy(entry->value, change->value, change->size);
        change->version = ++entry->version;
        call->traits[i] = trait_of(entries, entry);
    }
    return 0;
}

static enum pair_outcome change_loaded(struct file *file, struct coordinator_call *call) {
    for (size_t i = 0; i < call->count; i++) {
        const struct coordinator_change *change = &call->changes[i];
        const struct entry *entry = entries_find(&file->entries, change->name);
        uint64_t version = entry == NULL ? 0 : entry->version;
        struct coordinator_trait trait = {0};
        if (entry != NULL) trait = trait_of(&file->entries, entry);
        bool is_known = entry == NULL || coordinator_believes(file->coordinator, change->name, version, &trait);
        if (version == change->version && is_known) continue;
        if (version == change->version) {
            snprintf(call->reason, sizeof call->reason,
                     "coordinator: entry '%s' is at version %" PRIu64
                     ", with another content or history than what was seen",
                     change->name, version);
            return PAIR_REFUSED;
        }
        snprintf(call->reason, sizeof call->reason, "coordinator: entry '%s' is at version %" PRIu64 ", not %" PRIu64,
                 change->name, version, change->version);
        return PAIR_REFUSED;
    }
    if (apply(&file->entries, call) == 0) return store(file) == 0 ? PAIR_DONE : PAIR_UNKNOWN;
    refuse(file->problem, "coordinator file %s has no room for another entry%s", file->path, "");
    return PAIR_UNKNOWN;
}

static enum pair_outcome change_all(struct file *file, struct coordinator_call *call) {
    if (lock(file, call->deadline_ms) != 0) return PAIR_UNKNOWN;
    enum pair_outcome outcome = load(file) == 0 ? change_loaded(file, call) : PAIR_UNKNOWN;
    (void)flock(file->lock, LOCK_UN);
    return outcome;
}

static void file_start(void *state, struct coordinator_call *call) {
    struct file *file = state;
    file->problem[0] = '\0';
    enum pair_outcome outcome = call->is_presence    ? read_presence(file, call)
                                : call->name != NULL ? read_one(file, call)
                                                     : change_all(file, call);
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

static void file_wait(void *state, int wake, int wait_ms) {
    coordinator_poll(wake, ((struct file *)state)->notify, wait_ms);
}

/* What is renamed in the directory is seen anyway. */
static void file_watch(void *state, const char *name) {
    struct file *file = state;
    if (strncmp(name, "present", 7) == 0) snprintf(file->watched, sizeof file->watched, "%s", name);
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
    look_at_presence(file);
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
    if (file->declare_ms != 0) write_presence(file, 0);
    if (file->notify >= 0) close(file->notify);
    if (file->lock >= 0) close(file->lock);
    free(file);
}

static int file_open(struct coordinator *coordinator, const char *place, const struct coordinator_options *options,
                     void **out, char message[COORDINATOR_MESSAGE_SIZE]) {
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL) return refuse(message, "coordinator file %s: %s", place, "no memory");
    file->coordinator = coordinator;
    file->presence_ms = options->presence_ms;
    snprintf(file->path, sizeof file->path, "%s", place);
    snprintf(file->path_new, sizeof file->path_new, "%s.new", place);
    snprintf(file->path_lock, sizeof file->path_lock, "%s.lock", place);
    int size = (int)(strrchr(place, '/') - place);
    snprintf(file->directory, sizeof file->directory, "%.*s", size > 0 ? size : 1, place);
    if (check_system(file->directory, message) != 0) {
        free(file);
        return 1;
    }
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
               "demonstrations; a pair on two hosts needs etcd (etcd://…) or ZooKeeper (zk://…)",
    .check = file_check,
    .open = file_open,
    .close = file_close,
    .wait = file_wait,
    .start = file_start,
    .abandon = file_abandon,
    .declare = file_declare,
    .turn = file_turn,
    .watch = file_watch,
};
