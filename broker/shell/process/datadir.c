/* datadir.c: see datadir.h. */
#include "datadir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "disk.h"
#include "identity.h"
#include "logfmt.h"
#include "quarantine.h"

/* ---- the mark of a wanted snapshot */

#define MARK_PATH_SIZE 1400

int snapshot_want(const char *directory, uint64_t erased) {
    char text[32] = "", left[MARK_PATH_SIZE];
    /* Remove an empty folder DIR/snapshot, because it would look like a complete snapshot. It is left over if the
     * process was killed at the last step of an earlier snapshot. */
    snprintf(left, sizeof(left), "%s/" SNAPSHOT_NAME, directory);
    if (rmdir(left) != 0 && errno != ENOENT && errno != ENOTEMPTY) return -errno;
    if (erased != 0) snprintf(text, sizeof(text), "%" PRIu64 "\n", erased);
    return disk_replace(&disk_posix, directory, SNAPSHOT_WANTED_NAME ".new", SNAPSHOT_WANTED_NAME, text, strlen(text));
}

uint64_t snapshot_erased_before(const char *directory) {
    char text[32];
    int64_t size = disk_read_file(&disk_posix, directory, SNAPSHOT_WANTED_NAME, text, sizeof(text) - 1);
    if (size <= 0) return 0;
    text[size] = '\0';
    return strtoull(text, NULL, 10);
}

bool snapshot_is_wanted(const char *directory) {
    char path[MARK_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/" SNAPSHOT_WANTED_NAME, directory);
    return access(path, F_OK) == 0;
}

/* ---- directories beside this one */

/* A new data directory may have been made by mistake. A restore to the wrong place, a unit that names another
 * directory, or a typing error would start an empty broker beside the data, unnoticed. */

#define PATH_SIZE 2048
#define NEIGHBOURS_MAX 1000 /* maximum number of names beside the new directory that are checked */

struct search {
    const char *parent;
    const char *own; /* name of the new directory in `parent` */
    char found[PATH_SIZE];
    unsigned looked_at;
    unsigned others; /* number of further data directories beside it */
};

/* Returns whether `path` is a data directory: it has a readable identity and is not an unfinished copy. */
static bool neighbours_is_data(const char *path) {
    struct identity identity;
    char message[IDENTITY_MESSAGE_SIZE];
    return !directory_is_partial(path) && identity_read(path, &identity, message) == 0;
}

/* Returns the length of `path` without its last name and the slashes around it. */
static size_t parent_length(const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    while (length > 0 && path[length - 1] != '/') length--;
    while (length > 1 && path[length - 1] == '/') length--;
    return length;
}

/* Writes the parent directory of `path`, computed from the name alone: `path` need not exist. */
static void neighbours_parent(const char *path, char *out, size_t size) {
    size_t length = parent_length(path);
    snprintf(out, size, "%.*s", length == 0 ? 1 : (int)length, length == 0 ? "." : path);
}

static int each_neighbour(void *argument, const char *name) {
    struct search *search = argument;
    char path[PATH_SIZE];
    if (name[0] == '.' || strcmp(name, search->own) == 0) return 0;
    if (search->looked_at++ == NEIGHBOURS_MAX) return 1;
    int size = snprintf(path, sizeof(path), "%s/%s", search->parent, name);
    if (size < 0 || (size_t)size >= sizeof(path) || !neighbours_is_data(path)) return 0;
    if (search->found[0] != '\0')
        search->others++;
    else
        memcpy(search->found, path, sizeof(path));
    return 0;
}

/* Writes the last name of `path`, without trailing slashes. */
static void own_name(const char *path, char *out, size_t size) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    size_t from = length;
    while (from > 0 && path[from - 1] != '/') from--;
    snprintf(out, size, "%.*s", (int)(length - from), path + from);
}

/* Logs event=founded_beside if another data directory lies beside `path`, which has just been founded. Does nothing if
 * all users may write to the parent directory (/tmp), because the directories in it may belong to others. */
static void neighbours_tell(const char *path) {
    char parent[PATH_SIZE], own[PATH_SIZE], sentence[3 * PATH_SIZE], quoted[LOGFMT_VALUE_SIZE], dir[LOGFMT_VALUE_SIZE];
    struct search search = {.parent = parent, .own = own};
    struct stat status;
    neighbours_parent(path, parent, sizeof(parent));
    own_name(path, own, sizeof(own));
    if (stat(parent, &status) != 0 || (status.st_mode & S_IWOTH) != 0) return;
    if (disk_posix.list(disk_posix.context, parent, each_neighbour, &search) < 0 || search.found[0] == '\0') return;
    snprintf(sentence, sizeof(sentence),
             "this broker starts with no tasks, but other data directories are near: if it should have the data in "
             "%.150s, stop it, and start it with that directory as --data, or move the data to %.150s",
             search.found, path);
    logfmt("founded_beside", "data=%s others=%u warning=%s", logfmt_quote(search.found, dir), search.others,
           logfmt_quote(sentence, quoted));
}

/* ---- opening the data directory */

#define FOREIGN_NAME_SIZE 100
/* Time limit of the wait for the lock. A broker that was just killed holds the lock until the system has cleaned up. */
#define LOCK_TRIES 50
#define LOCK_TRY_US 20000

static int refuse(char *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *message, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, DATADIR_MESSAGE_SIZE, format, arguments);
    va_end(arguments);
    return 1;
}
#define REFUSE(...) refuse(message, __VA_ARGS__)

static int sync_path(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = fsync(fd);
    close(fd);
    return result;
}

/* Writes the path's owner, this process's user and advice: "; it belongs to uid 0, and …". */
static void say_owner(const char *path, char *out, size_t size) {
    struct stat status;
    uid_t uid = geteuid();
    out[0] = '\0';
    if (stat(path, &status) != 0) return;
    if (status.st_uid != uid)
        snprintf(out, size, "; it belongs to uid %u, but this broker runs as uid %u: chown -R %u:%u %s",
                 (unsigned)status.st_uid, (unsigned)uid, (unsigned)uid, (unsigned)getegid(), path);
    else
        snprintf(out, size, "; give this broker's user (uid %u) write permission: chmod -R u+rwX %s", (unsigned)uid,
                 path);
}

static int refuse_unwritable(const char *path, const char *what, int error, char message[DATADIR_MESSAGE_SIZE]) {
    char owner[1300] = "";
    if (error == EACCES || error == EPERM) say_owner(path, owner, sizeof(owner));
    return REFUSE("data directory %s is not writable: %s%s%s", path, what, strerror(error), owner);
}

/* Refuses a new directory inside another broker's directory, because the operator must have made a mistake. */
static int check_not_nested(const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    char parent[1024], identity[1100];
    snprintf(identity, sizeof(identity), "%s/" IDENTITY_NAME, path);
    if (access(identity, F_OK) == 0) return 0;
    neighbours_parent(path, parent, sizeof(parent));
    if (!neighbours_is_data(parent)) return 0;
    return REFUSE("data directory %s would be inside the data directory %s: start with --data %s, or move its content "
                  "to %s (was a backup restored to the wrong place?)",
                  path, parent, parent, path);
}

static int make_directory(const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    if (check_not_nested(path, message) != 0) return 1;
    if (mkdir(path, 0700) == 0) {
        char parent[1024];
        neighbours_parent(path, parent, sizeof(parent));
        if (sync_path(parent) != 0)
            return REFUSE("data directory %s was created, but its parent cannot be synced: %s", path, strerror(errno));
        return 0;
    }
    if (errno != EEXIST)
        return REFUSE("data directory %s cannot be created: %s; %sgive another one with --data", path, strerror(errno),
                      errno == ENOENT ? "create its parent, or " : "");
    struct stat status;
    if (stat(path, &status) != 0) return REFUSE("data directory %s cannot be read: %s", path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return REFUSE("data directory %s is not a directory; give another one with --data", path);
    return 0;
}

/* Locks the directory. `type` is F_WRLCK or F_RDLCK. */
static int take_lock(struct datadir *dir, short type, char message[DATADIR_MESSAGE_SIZE]) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    int error = 0;
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (fcntl(dir->lock, F_OFD_SETLK, &lock) == 0) return 0;
        error = errno;
        if (error != EAGAIN && error != EACCES) break;
        usleep(LOCK_TRY_US);
    }
    close(dir->lock);
    if (error == EAGAIN || error == EACCES)
        return REFUSE("data directory %s is locked: another tarryd is running on it; stop that tarryd first",
                      dir->path);
    return REFUSE("data directory %s cannot be locked: %s", dir->path, strerror(error));
}

static int lock_directory(struct datadir *dir, char message[DATADIR_MESSAGE_SIZE]) {
    char path[1100];
    snprintf(path, sizeof(path), "%s/lock", dir->path);
    dir->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (dir->lock < 0) return refuse_unwritable(dir->path, "lock: ", errno, message);
    return take_lock(dir, F_WRLCK, message);
}

static bool is_ours(const char *name) {
    static const char *const ours[] = {"lock",
                                       "identity",
                                       "identity.new",
                                       "member.new",
                                       "archive",
                                       "lost+found",
                                       "tokens",
                                       "tokens.new",
                                       MEMBER_NAME,
                                       HARD_STATE_NAME,
                                       (HARD_STATE_NAME ".new"),
                                       SNAPSHOT_WANTED_NAME,
                                       (SNAPSHOT_WANTED_NAME ".new")};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (strcmp(name, ours[i]) == 0) return true;
    return false;
}

/* Copies the first name that is not Tarry's to `argument`. */
static int each_name(void *argument, const char *name) {
    if (is_ours(name)) return 0;
    snprintf(argument, FOREIGN_NAME_SIZE, "%s", name);
    return 1;
}

/* Checks that a directory without identity is empty. A directory that has other files is not Tarry's, or has lost its
 * identity. */
static int check_empty(const struct datadir *dir, char message[DATADIR_MESSAGE_SIZE]) {
    char foreign[FOREIGN_NAME_SIZE];
    int result = disk_posix.list(disk_posix.context, dir->path, each_name, foreign);
    if (result < 0) return REFUSE("data directory %s cannot be read: %s", dir->path, strerror(-result));
    if (result == 0) return 0;
    char below[sizeof(dir->path) + FOREIGN_NAME_SIZE];
    snprintf(below, sizeof(below), "%s/%s", dir->path, foreign);
    if (neighbours_is_data(below))
        return REFUSE("%s is not a data directory, but %s is one: start with --data %s", dir->path, below, below);
    return REFUSE("data directory %s contains \"%s\" but no identity file of Tarry; give an empty directory with "
                  "--data, or restore its identity file",
                  dir->path, foreign);
}

/* Reads the identity and the member id. At the first start, creates them unless the directory is read-only. Older
 * versions of Tarry did not write the file `member`, so it is created if it is missing. */
static int identity_open(struct datadir *dir, bool may_write, char message[DATADIR_MESSAGE_SIZE]) {
    struct identity identity;
    int error = identity_read(dir->path, &identity, message);
    if (error == -ENOENT && may_write) {
        if (check_empty(dir, message) != 0) return 1;
        identity_make(&identity);
        error = identity_write(dir->path, &identity);
        if (error == 0) neighbours_tell(dir->path);
    }
    if (error < 0)
        return REFUSE("identity file %s/identity cannot be read or created: %s", dir->path, strerror(-error));
    if (error > 0) return 1;
    memcpy(dir->cluster, identity.cluster, sizeof(dir->cluster));
    memcpy(dir->secret, identity.secret, sizeof(dir->secret));
    error = member_read(dir->path, &dir->member, message);
    if (error == -ENOENT) {
        member_make(&dir->member);
        error = may_write ? member_write(dir->path, &dir->member) : 0;
    }
    if (error < 0) return REFUSE("identity file %s/member cannot be read or created: %s", dir->path, strerror(-error));
    return error;
}

static int name_directory(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    *dir = (struct datadir){.lock = -1};
    if (strlen(path) >= sizeof(dir->path)) return REFUSE("the name of the data directory is too long");
    memcpy(dir->path, path, strlen(path) + 1);
    snprintf(dir->log, sizeof(dir->log), "%s/log", path);
    snprintf(dir->quarantine, sizeof(dir->quarantine), "%s/" QUARANTINE_NAME, path);
    snprintf(dir->index, sizeof(dir->index), "%s/index", path);
    if (directory_is_partial(path))
        return REFUSE("data directory %s is an unfinished copy; delete it and copy it again, or give another directory "
                      "with --data",
                      path);
    return 0;
}

/* Refuses a directory that other users can write: they could replace its files and forge tasks, tokens, history. */
static int check_writers(const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    struct stat status;
    uid_t uid = geteuid();
    if (stat(path, &status) != 0) return REFUSE("data directory %s cannot be read: %s", path, strerror(errno));
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        bool is_shared = (status.st_mode & S_ISVTX) != 0; /* a shared directory like /tmp, or the root of a tmpfs */
        return REFUSE("other users can write to data directory %s (mode %04o): %s%s%sgive a directory below it with "
                      "--data, which tarryd then creates",
                      path, (unsigned)(status.st_mode & 07777), is_shared ? "" : "chmod go-w ", is_shared ? "" : path,
                      is_shared ? "" : ", or ");
    }
    /* Another user's directory is no problem here: if this process cannot write to it, the next steps report that. */
    if (status.st_uid == uid || access(path, W_OK | X_OK) != 0) return 0;
    return REFUSE("data directory %s belongs to uid %u, which could replace its content, but this broker runs as uid "
                  "%u: run tarryd as the owner, or chown -R %u:%u %s",
                  path, (unsigned)status.st_uid, (unsigned)uid, (unsigned)uid, (unsigned)getegid(), path);
}

int datadir_open(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    if (name_directory(dir, path, message) != 0) return 1;
    if (make_directory(path, message) != 0) return 1;
    /* Check this before the lock file is made, so that no file is left in a directory that is not Tarry's. */
    char identity[1100];
    snprintf(identity, sizeof(identity), "%s/identity", path);
    if (access(identity, F_OK) != 0 && errno == ENOENT && check_empty(dir, message) != 0) return 1;
    if (check_writers(path, message) != 0) return 1;
    if (lock_directory(dir, message) != 0) return 1;
    /* On a read-only file system an existing lock file can still be opened, but later writes would fail. */
    if (access(path, W_OK | X_OK) != 0) return refuse_unwritable(path, "", errno, message);
    return identity_open(dir, true, message);
}

int datadir_join(const char *path, const struct identity *identity, const struct hard_state *hard_state,
                 bool wants_snapshot, char message[DATADIR_MESSAGE_SIZE]) {
    struct datadir dir;
    struct member member;
    if (name_directory(&dir, path, message) != 0) return 1;
    if (make_directory(path, message) != 0) return 1;
    if (check_empty(&dir, message) != 0 || check_writers(path, message) != 0) return 1;
    member_make(&member);
    int error = member_write(path, &member);
    if (error == 0) error = hard_state_write(&disk_posix, path, hard_state);
    if (error == 0 && wants_snapshot) error = snapshot_want(path, 0);
    /* Written last, so that a directory with an identity has all other files. */
    if (error == 0) error = identity_write(path, identity);
    return error == 0 ? 0 : REFUSE("data directory %s cannot be written: %s", path, strerror(-error));
}

int datadir_inspect(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    char name[1100];
    if (name_directory(dir, path, message) != 0) return 1;
    /* Check this first, because identity_open would create an identity. */
    snprintf(name, sizeof(name), "%s/identity", path);
    if (access(name, F_OK) != 0)
        return REFUSE("%s: %s; this is not a data directory, and --inspect creates none", name, strerror(errno));
    snprintf(name, sizeof(name), "%s/lock", path);
    dir->lock = open(name, O_RDONLY | O_CLOEXEC);
    if (dir->lock < 0 && errno != ENOENT) return REFUSE("%s cannot be opened: %s", name, strerror(errno));
    if (dir->lock >= 0 && take_lock(dir, F_RDLCK, message) != 0) return 1;
    return identity_open(dir, false, message);
}

bool datadir_note_boot(const struct datadir *dir, uint64_t steady_ns) {
    static struct logfmt_limit limit;
    int error = boot_note(dir->path, steady_ns);
    if (error != 0 && logfmt_allowed(&limit))
        logfmt("boot_unnoted", "action=\"the next start uses the wall clock\" reason=\"%s\"", strerror(error));
    return error == 0;
}
