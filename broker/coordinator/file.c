/* file.c: a coordinator in a file on this host: file:///path, for tests and demonstrations.
 *
 *   PATH       the entries (entries.h)
 *   PATH.new   the next version of PATH, while it is written
 *   PATH.lock  locked (flock) by the writer
 *   PATH.NAME  the presence of NAME
 *
 * Each change writes the whole file again: write PATH.new, sync it, rename it, sync the directory. After a kill -9 the
 * file is the old one (before the rename) or the new one (after it), and the caller gets PAIR_UNKNOWN. A multi changes
 * a single file, so it is atomic.
 *
 * A reader takes no lock, because a file never changes after the rename. Otherwise a node that is stopped (SIGSTOP)
 * while it reads would keep the other node from continuing alone.
 *
 * This is not an independent third party: it fails with its host, and protects only processes on that host.
 *
 * This backend is the shortest, and an example for others: the nine functions of coordinator_backend.h from top to
 * bottom, each call executed at once. README.md ("A new kind of coordinator") lists what else a new backend needs. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "coordinator_backend.h"
#include "disk.h"
#include "entries.h"
#include "frame.h"

/* ---- presence */

/* Presence for a coordinator in a file. PATH.NAME contains the BOOTTIME in ms until which NAME is present, and its
 * text. All processes are on one host, so they share one clock. The file is overwritten by a single write and not
 * synced. A damaged or missing file, a file from before a reboot, and a disk error all mean that the process is
 * absent. That is enough, because presence is only a hint. Thread-safety: one owner. */

#define FILE_PATH_SIZE (COORDINATOR_URL_SIZE_MAX + 8)

struct file_presence {
    char path[FILE_PATH_SIZE];                     /* path of the coordinator's file */
    uint32_t lasts_ms;                             /* lifetime of a declaration that is not renewed */
    uint64_t again_ms;                             /* time of the next renewal; 0: nothing is declared */
    struct presence declared;                      /* the declared presence; valid if again_ms is not 0 */
    char watched[COORDINATOR_NAME_SIZE_MAX + 1];   /* name of the watched presence; "": none */
    char words[COORDINATOR_PRESENCE_SIZE_MAX + 1]; /* last seen text of the watched presence; "": not present */
};

enum file_presence_news {
    FILE_PRESENCE_SAME,   /* the declared presence is unchanged and not old, so the file was not written */
    FILE_PRESENCE_STANDS, /* `declared` is in the file now */
    FILE_PRESENCE_GONE,   /* the file shows no presence: nothing is declared, or the file could not be written */
};

#define UNTIL_DIGITS 20
#define TEXT_SIZE (UNTIL_DIGITS + 1 + COORDINATOR_PRESENCE_SIZE_MAX + 1 + 1) /* "until text\n" */
#define LASTS_MAX_MS 600000 /* maximum lifetime of a presence; a longer one was written before a reboot */
#define NAMED_PATH_SIZE (FILE_PATH_SIZE + 32)

static void set_path(const struct file_presence *self, const char *name, char out[NAMED_PATH_SIZE]) {
    snprintf(out, NAMED_PATH_SIZE, "%s.%s", self->path, name);
}

/* Initializes the presence. `path` is the coordinator's file, shorter than FILE_PATH_SIZE; it is copied. */
static void file_presence_init(struct file_presence *self, const char *path, uint32_t lasts_ms) {
    *self = (struct file_presence){.lasts_ms = lasts_ms};
    snprintf(self->path, sizeof self->path, "%s", path);
}

/* Writes the time until which this process is present. Returns whether it was written. */
static bool write_until(const struct file_presence *self, uint64_t until_ms) {
    char path[NAMED_PATH_SIZE], text[TEXT_SIZE];
    set_path(self, self->declared.name, path);
    int size = snprintf(text, sizeof text, "%020" PRIu64 " %s\n", until_ms, self->declared.text);
    int handle = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (handle < 0) return false;
    bool is_written = pwrite(handle, text, (size_t)size, 0) == size;
    if (is_written) (void)!ftruncate(handle, size);
    close(handle);
    return is_written;
}

/* Declares the presence of this process, and renews it in time. `presence` NULL: not present. May be called repeatedly
 * with the same presence. */
static enum file_presence_news file_presence_declare(struct file_presence *self, const struct presence *presence) {
    uint64_t now_ms = coordinator_now_ms();
    if (presence == NULL) {
        if (self->again_ms == 0) return FILE_PRESENCE_SAME;
        self->again_ms = 0;
        (void)write_until(self, 0);
        return FILE_PRESENCE_GONE;
    }
    bool is_same = strcmp(self->declared.name, presence->name) == 0 && strcmp(self->declared.text, presence->text) == 0;
    if (is_same && now_ms < self->again_ms) return FILE_PRESENCE_SAME;
    self->declared = *presence;
    self->again_ms = now_ms + self->lasts_ms / PRESENCE_PARTS;
    return write_until(self, now_ms + self->lasts_ms) ? FILE_PRESENCE_STANDS : FILE_PRESENCE_GONE;
}

/* Reads the text of the presence `name` into `text`. Returns NULL if the process is not present, or its file is
 * invalid. */
static const char *find(const struct file_presence *self, const char *name, char text[TEXT_SIZE + 1]) {
    char path[NAMED_PATH_SIZE];
    set_path(self, name, path);
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = handle < 0 ? -1 : read(handle, text, TEXT_SIZE);
    if (handle >= 0) close(handle);
    if (size < UNTIL_DIGITS + 2 || text[UNTIL_DIGITS] != ' ' || text[size - 1] != '\n') return NULL;
    text[size - 1] = text[UNTIL_DIGITS] = '\0';
    uint64_t until_ms = strtoull(text, NULL, 10), now_ms = coordinator_now_ms();
    bool is_over = until_ms <= now_ms || until_ms > now_ms + LASTS_MAX_MS;
    return is_over ? NULL : text + UNTIL_DIGITS + 1;
}

/* Reads the presence of call->name: version 1 with its text in call->value, or version 0 if it is not present. Always
 * returns PAIR_DONE. */
static enum pair_outcome file_presence_read(const struct file_presence *self, struct coordinator_call *call) {
    char text[TEXT_SIZE + 1];
    const char *words = find(self, call->name, text);
    if (words == NULL) return PAIR_DONE;
    call->version = 1;
    call->size = strlen(words);
    memcpy(call->value, words, call->size + 1);
    return PAIR_DONE;
}

/* Makes file_presence_look watch `name` from now on. */
static void file_presence_watch(struct file_presence *self, const char *name) {
    snprintf(self->watched, sizeof self->watched, "%s", name);
}

/* Returns true if the watched presence has appeared, disappeared, or changed its text. */
static bool file_presence_look(struct file_presence *self) {
    char text[TEXT_SIZE + 1];
    if (self->watched[0] == '\0') return false;
    const char *words = find(self, self->watched, text);
    if (words == NULL) words = "";
    if (strcmp(words, self->words) == 0) return false;
    snprintf(self->words, sizeof self->words, "%s", words);
    return true;
}

/* ---- the file */

#define FILE_LOCK_TRY_MS 2

struct file {
    struct coordinator *coordinator;
    char path[FILE_PATH_SIZE], path_new[FILE_PATH_SIZE], path_lock[FILE_PATH_SIZE], directory[FILE_PATH_SIZE];
    struct file_presence presence;
    int lock;
    int notify; /* inotify descriptor of the directory */
    struct entries entries;
    char text[ENTRIES_SIZE_MAX + 1];
    char problem[COORDINATOR_MESSAGE_SIZE];
};

/* Reads the file into file->entries. Returns 0, or 1 with file->problem. */
static int load(struct file *file) {
    file->entries.birth = 0;
    file->entries.count = 0;
    int handle = disk_posix.open(NULL, file->path, O_RDONLY, 0);
    if (handle == -ENOENT) return 0;
    if (handle < 0)
        return coordinator_refuse(file->problem, "coordinator file %s cannot be opened: %s", file->path,
                                  strerror(-handle));
    int64_t size = disk_read_all(&disk_posix, handle, file->text, sizeof file->text, 0);
    (void)disk_posix.close(NULL, handle);
    if (size < 0)
        return coordinator_refuse(file->problem, "coordinator file %s cannot be read: %s", file->path,
                                  strerror((int)-size));
    if (size <= ENTRIES_SIZE_MAX && entries_read(file->text, (size_t)size, &file->entries)) return 0;
    return coordinator_refuse(file->problem,
                              "coordinator file %s is damaged, or Tarry did not write it: name another file, or stop "
                              "both nodes and remove it",
                              file->path);
}

/* Writes the file. Returns 0, or 1 with file->problem; the new file may then exist or not. */
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

/* Reads the file, and syncs the directory, because the writer may have died before it did so. */
static int load_durable(struct file *file) {
    if (load(file) != 0) return 1;
    int error = disk_posix.sync_directory(NULL, file->directory);
    if (error == 0) return 0;
    return coordinator_refuse(file->problem, "coordinator directory %s cannot be synced: %s", file->directory,
                              strerror(-error));
}

/* Takes the lock; waits at most until the call's deadline, because the process that holds the lock may be stopped. */
static int lock(struct file *file, uint64_t deadline_ms) {
    while (flock(file->lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return coordinator_refuse(file->problem, "coordinator file %s cannot be locked: %s", file->path_lock,
                                      strerror(errno));
        if (coordinator_now_ms() >= deadline_ms)
            return coordinator_refuse(file->problem, "coordinator file %s is locked by another process for too long",
                                      file->path_lock);
        (void)poll(NULL, 0, FILE_LOCK_TRY_MS);
    }
    return 0;
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

/* Applies the call in memory. Returns 0, or 1 if there would be too many entries. */
static int apply(struct entries *entries, struct coordinator_call *call) {
    for (size_t i = 0; i < call->count; i++) {
        struct coordinator_change *change = &call->changes[i];
        if (change->value == NULL) continue;
        struct entry *entry = entries_find(entries, change->name);
        if (entry == NULL) entry = entries_add(entries, change->name);
        if (entry == NULL) return 1;
        entry->size = change->size;
        memcpy(entry->value, change->value, change->size);
        change->version = ++entry->version;
        call->traits[i] = trait_of(entries, entry);
    }
    return 0;
}

/* Returns whether the entry has the version that the change expects; if not, writes a reason. */
static bool fits(struct file *file, struct coordinator_call *call, const struct coordinator_change *change) {
    const struct entry *entry = entries_find(&file->entries, change->name);
    uint64_t version = entry == NULL ? 0 : entry->version;
    struct coordinator_trait trait = {0};
    if (entry != NULL) trait = trait_of(&file->entries, entry);
    bool is_known = entry == NULL || coordinator_believes(file->coordinator, change->name, version, &trait);
    if (version == change->version && is_known) return true;
    const char *what = version == change->version ? " as this node read it, but with another content or history" : "";
    snprintf(call->reason, sizeof call->reason,
             "coordinator: entry '%s' is at version %" PRIu64 ", not at version %" PRIu64 "%s", change->name, version,
             change->version, what);
    return false;
}

static enum pair_outcome change_loaded(struct file *file, struct coordinator_call *call) {
    for (size_t i = 0; i < call->count; i++)
        if (!fits(file, call, &call->changes[i])) return PAIR_REFUSED;
    if (apply(&file->entries, call) == 0) return store(file) == 0 ? PAIR_DONE : PAIR_UNKNOWN;
    coordinator_refuse(file->problem,
                       "coordinator file %s already has the maximum number of entries: name another file", file->path);
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
    enum pair_outcome outcome = call->is_presence    ? file_presence_read(&file->presence, call)
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

static void file_declare(void *state, const struct presence *presence) {
    struct file *file = state;
    enum file_presence_news news = file_presence_declare(&file->presence, presence);
    if (news == FILE_PRESENCE_SAME) return;
    coordinator_stood(file->coordinator, news == FILE_PRESENCE_STANDS ? file->presence.declared.text : NULL);
}

/* ---- Watching ---------------------------------------------------------------------------------------------------- */

static void file_wait(void *state, int wake, int wait_ms) {
    coordinator_poll(wake, ((struct file *)state)->notify, wait_ms);
}

/* Watches a presence. For other names it does nothing, because inotify reports every rename in the directory. */
static void file_watch(void *state, const char *name) {
    struct file *file = state;
    if (strncmp(name, "present", 7) == 0) file_presence_watch(&file->presence, name);
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
    if (file_presence_look(&file->presence)) coordinator_changed(file->coordinator, file->presence.watched);
}

/* ---- opening and closing */

static int file_check(const char *place, char message[COORDINATOR_MESSAGE_SIZE]) {
    size_t size = strlen(place);
    if (place[0] != '/' || size < 2 || place[size - 1] == '/')
        return coordinator_refuse(message, "coordinator 'file://%s': must be file:///path/of/a/file", place);
    return 0;
}

static void file_close(void *state) {
    struct file *file = state;
    (void)file_presence_declare(&file->presence, NULL);
    if (file->notify >= 0) close(file->notify);
    if (file->lock >= 0) close(file->lock);
    free(file);
}

static const struct {
    uint32_t type; /* statfs(2) */
    const char *name;
} network_systems[] = {
    {0x6969, "NFS"},      {0x517b, "SMB"},       {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},    {0x00c36400, "Ceph"},
    {0x01021997, "9P"},   {0x5346414f, "AFS"},   {0x6b414653, "AFS"},  {0x73757245, "Coda"},   {0x0bd00bd0, "Lustre"},
    {0x01161970, "GFS2"}, {0x7461636f, "OCFS2"}, {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"},
};

/* Returns the name (static) of the network file system that contains the directory. Returns NULL for a local file
 * system, and for a directory that cannot be examined, because the later opening of the file gives a better error. On a
 * network file system, another host's lock or rename may be visible late, or never. */
static const char *network_disk(const char *directory) {
    struct statfs system;
    if (statfs(directory, &system) != 0) return NULL;
    for (size_t i = 0; i < sizeof network_systems / sizeof *network_systems; i++)
        if ((uint32_t)system.f_type == network_systems[i].type) return network_systems[i].name;
    return NULL;
}

static int open_files(struct file *file, char message[COORDINATOR_MESSAGE_SIZE]) {
    const char *network = network_disk(file->directory);
    if (network != NULL)
        return coordinator_refuse(
            message,
            "coordinator directory %s lies on a network file system (%s): a file is a coordinator for the processes of "
            "one host; name a directory of a local disk, or etcd (etcd://…)",
            file->directory, network);
    file->lock = open(file->path_lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file->lock < 0)
        return coordinator_refuse(message, "coordinator file %s cannot be made: %s", file->path_lock, strerror(errno));
    file->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (file->notify >= 0 && inotify_add_watch(file->notify, file->directory, IN_MOVED_TO | IN_DELETE) >= 0) return 0;
    return coordinator_refuse(message, "coordinator file: directory %s cannot be watched: %s", file->directory,
                              strerror(errno));
}

static int file_open(struct coordinator *coordinator, const char *place, const struct coordinator_options *options,
                     void **out, char message[COORDINATOR_MESSAGE_SIZE]) {
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL) return coordinator_refuse(message, "coordinator file %s: no memory", place);
    int size = (int)(strrchr(place, '/') - place);
    file->coordinator = coordinator;
    file->lock = file->notify = -1;
    snprintf(file->path, sizeof file->path, "%s", place);
    snprintf(file->path_new, sizeof file->path_new, "%s.new", place);
    snprintf(file->path_lock, sizeof file->path_lock, "%s.lock", place);
    snprintf(file->directory, sizeof file->directory, "%.*s", size > 0 ? size : 1, place);
    file_presence_init(&file->presence, place, options->presence_ms);
    *out = file;
    if (open_files(file, message) == 0) return 0;
    file_close(file);
    return 1;
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
