/* datadir.c: see datadir.h. */
#include "datadir.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "disk.h"
#include "frame.h"
#include "tarry_limits.h"

static const uint8_t identity_magic[8] = {'T', 'A', 'R', 'R', 'Y', 'I', 'D', '1'};
#define IDENTITY_SUMMED (8 + 4 + 4 + CLUSTER_ID_SIZE + IDENTITY_SECRET_SIZE)
#define IDENTITY_SIZE (IDENTITY_SUMMED + 8)

static int refuse(char *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *message, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, DATADIR_MESSAGE_SIZE, format, arguments);
    va_end(arguments);
    return 1;
}
#define REFUSE(...) refuse(message, __VA_ARGS__)
/* A broker that was just killed holds its lock until the system has cleared it away. */
#define FOREIGN_NAME_SIZE 100
#define LOCK_TRIES 50
#define LOCK_TRY_US 20000

static int sync_path(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = fsync(fd);
    close(fd);
    return result;
}

/* The directory that `path` lies in. */
static void parent_of(const char *path, char *out, size_t size) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    while (length > 0 && path[length - 1] != '/') length--;
    snprintf(out, size, "%.*s", length == 0 ? 1 : (int)length, length == 0 ? "." : path);
}

static int make_directory(const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    if (mkdir(path, 0700) == 0) {
        char parent[1024];
        parent_of(path, parent, sizeof(parent));
        if (sync_path(parent) != 0)
            return REFUSE("data directory %s was made, but its parent cannot be synced: %s", path, strerror(errno));
        return 0;
    }
    if (errno != EEXIST)
        return REFUSE("data directory %s cannot be made: %s; %sname another with --data", path, strerror(errno),
                      errno == ENOENT ? "make its parent, or " : "");
    struct stat status;
    if (stat(path, &status) != 0) return REFUSE("data directory %s cannot be looked at: %s", path, strerror(errno));
    if (!S_ISDIR(status.st_mode)) return REFUSE("data directory %s is not a directory; name another with --data", path);
    return 0;
}

/* `type` is F_WRLCK or F_RDLCK. */
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
        return REFUSE("data directory %s is locked: another tarryd is running on it; stop that one first", dir->path);
    return REFUSE("data directory %s cannot be locked: %s", dir->path, strerror(error));
}

static int lock_directory(struct datadir *dir, char message[DATADIR_MESSAGE_SIZE]) {
    char path[1100];
    snprintf(path, sizeof(path), "%s/lock", dir->path);
    dir->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (dir->lock < 0)
        return REFUSE("data directory %s is not writable: %s: %s%s", dir->path, path, strerror(errno),
                      errno == EACCES ? "; give the broker's user write permission" : "");
    return take_lock(dir, F_WRLCK, message);
}

static bool is_ours(const char *name) {
    static const char *const ours[] = {"lock", "identity", "identity.new", "lost+found"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (strcmp(name, ours[i]) == 0) return true;
    return false;
}

/* A name that is not ours, copied to `argument`. */
static int each_name(void *argument, const char *name) {
    if (is_ours(name)) return 0;
    snprintf(argument, FOREIGN_NAME_SIZE, "%s", name);
    return 1;
}

/* A directory without identity must hold nothing else, or it is somebody else's, or has lost its identity. */
static int check_empty(const struct datadir *dir, char message[DATADIR_MESSAGE_SIZE]) {
    char foreign[FOREIGN_NAME_SIZE];
    int result = disk_posix.list(disk_posix.context, dir->path, each_name, foreign);
    if (result < 0) return REFUSE("data directory %s cannot be read: %s", dir->path, strerror(-result));
    if (result == 0) return 0;
    return REFUSE(
        "data directory %s holds \"%s\" but no identity file of Tarry; name an empty directory with --data, or "
        "restore its identity file",
        dir->path, foreign);
}

static void identity_encode(const struct datadir *dir, uint8_t out[IDENTITY_SIZE]) {
    uint8_t *at = out;
    memcpy(at, identity_magic, 8);
    at = put_u32(at + 8, FORMAT_VERSION);
    at = put_u32(at, 0);
    memcpy(at, dir->cluster, CLUSTER_ID_SIZE);
    at += CLUSTER_ID_SIZE;
    memcpy(at, dir->secret, IDENTITY_SECRET_SIZE);
    at += IDENTITY_SECRET_SIZE;
    assert(at == out + IDENTITY_SUMMED);
    put_u64(at, frame_sum(out, IDENTITY_SUMMED));
}

static int identity_write(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    char fresh[1120];
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    randombytes_buf(dir->cluster, sizeof(dir->cluster));
    randombytes_buf(dir->secret, sizeof(dir->secret));
    uint8_t bytes[IDENTITY_SIZE];
    identity_encode(dir, bytes);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return REFUSE("identity file %s cannot be made: %s", fresh, strerror(errno));
    int error = -disk_write_all(&disk_posix, fd, bytes, sizeof(bytes), 0);
    if (error == 0 && fsync(fd) != 0) error = errno;
    if (close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && rename(fresh, path) != 0) error = errno;
    if (error == 0 && sync_path(dir->path) != 0) error = errno;
    if (error != 0) return REFUSE("identity file %s cannot be written: %s", path, strerror(error));
    return 0;
}

static int identity_decode(struct datadir *dir, const char *path, const uint8_t *bytes, int64_t size,
                           char message[DATADIR_MESSAGE_SIZE]) {
    if (size < 12 || memcmp(bytes, identity_magic, 8) != 0)
        return REFUSE("%s is no identity file of Tarry; name another directory with --data", path);
    uint32_t version = get_u32(bytes + 8);
    if (version != FORMAT_VERSION)
        return REFUSE(
            "data directory %s has format version %u, this tarryd reads version %u; use the tarryd that wrote it",
            dir->path, version, FORMAT_VERSION);
    if (size != IDENTITY_SIZE || get_u64(bytes + IDENTITY_SUMMED) != frame_sum(bytes, IDENTITY_SUMMED))
        return REFUSE("identity file %s is damaged; restore it from a copy of the data directory", path);
    memcpy(dir->cluster, bytes + 16, CLUSTER_ID_SIZE);
    memcpy(dir->secret, bytes + 16 + CLUSTER_ID_SIZE, IDENTITY_SECRET_SIZE);
    return 0;
}

static int identity_open(struct datadir *dir, char message[DATADIR_MESSAGE_SIZE]) {
    char path[1100];
    snprintf(path, sizeof(path), "%s/identity", dir->path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (check_empty(dir, message) != 0) return 1;
        return identity_write(dir, path, message);
    }
    if (fd < 0) return REFUSE("identity file %s cannot be read: %s", path, strerror(errno));
    uint8_t bytes[IDENTITY_SIZE + 1];
    int64_t size = disk_read_all(&disk_posix, fd, bytes, sizeof(bytes), 0);
    close(fd);
    if (size < 0) return REFUSE("identity file %s cannot be read: %s", path, strerror((int)-size));
    return identity_decode(dir, path, bytes, size, message);
}

static int name_directory(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    *dir = (struct datadir){.lock = -1};
    if (strlen(path) >= sizeof(dir->path)) return REFUSE("the name of the data directory is too long");
    memcpy(dir->path, path, strlen(path) + 1);
    snprintf(dir->log, sizeof(dir->log), "%s/log", path);
    snprintf(dir->index, sizeof(dir->index), "%s/index", path);
    return 0;
}

int datadir_open(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    if (name_directory(dir, path, message) != 0) return 1;
    if (make_directory(path, message) != 0) return 1;
    /* Looked at before the lock file is made, so that nothing is left in somebody else's directory. */
    char identity[1100];
    snprintf(identity, sizeof(identity), "%s/identity", path);
    if (access(identity, F_OK) != 0 && errno == ENOENT && check_empty(dir, message) != 0) return 1;
    if (lock_directory(dir, message) != 0) return 1;
    /* A read-only file system may still open a lock file that exists; what follows could not be written. */
    if (access(path, W_OK | X_OK) != 0)
        return REFUSE("data directory %s is not writable: %s%s", path, strerror(errno),
                      errno == EACCES ? "; give the broker's user write permission" : "");
    return identity_open(dir, message);
}

int datadir_inspect(struct datadir *dir, const char *path, char message[DATADIR_MESSAGE_SIZE]) {
    char name[1100];
    if (name_directory(dir, path, message) != 0) return 1;
    /* Looked at first, for identity_open would make one. */
    snprintf(name, sizeof(name), "%s/identity", path);
    if (access(name, F_OK) != 0)
        return REFUSE("%s: %s; this is no data directory, and --inspect makes none", name, strerror(errno));
    snprintf(name, sizeof(name), "%s/lock", path);
    dir->lock = open(name, O_RDONLY | O_CLOEXEC);
    if (dir->lock < 0 && errno != ENOENT) return REFUSE("%s cannot be opened: %s", name, strerror(errno));
    if (dir->lock >= 0 && take_lock(dir, F_RDLCK, message) != 0) return 1;
    return identity_open(dir, message);
}
