/* store.c: see store.h. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"
#include "identity.h"
#include "tarry_limits.h"

void store_init(struct store *store, const char *directory) {
    *store = (struct store){.directory = directory, .lock = -1};
}

void store_close(struct store *store) {
    log_close(store->log);
    if (store->index != NULL) index_close(store->index);
    if (store->lock >= 0) close(store->lock);
    store_init(store, store->directory);
}

int store_damaged(struct store *store, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(store->message, sizeof store->message, format, list);
    va_end(list);
    return STORE_REFUSED;
}

const char *store_sentence(int error) {
    switch (error) {
    case LOG_DAMAGED:
    case INDEX_DAMAGED:
        return "the file is damaged";
    case LOG_VERSION:
    case INDEX_VERSION:
        return "the file has another format version";
    case LOG_FOREIGN:
    case INDEX_FOREIGN:
        return "the file belongs to another broker";
    case LOG_END:
        return "the file is truncated";
    case LOG_RETIRED:
        return "a part is missing";
    default:
        return error < 0 && error > -4096 ? strerror(-error) : "the index cannot be read";
    }
}

/* Takes a read lock, which keeps brokers out while this command runs. */
static int take_lock(struct store *store) {
    char path[STORE_PATH_SIZE];
    snprintf(path, sizeof path, "%s/lock", store->directory);
    store->lock = open(path, O_RDONLY | O_CLOEXEC);
    if (store->lock < 0 && errno == ENOENT) return 0; /* no broker can run on a directory without this file */
    if (store->lock < 0) return store_damaged(store, "%s: %s", path, strerror(errno));
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    if (fcntl(store->lock, F_OFD_SETLK, &lock) == 0) return 0;
    store->hindrance = "locked";
    return store_damaged(store,
                         "%s is locked, because a tarryd is running on it: stop the tarryd first, or use 'tarry "
                         "stats', or history and audit without --data",
                         store->directory);
}

int store_identity(struct store *store) {
    struct identity identity;
    char message[IDENTITY_MESSAGE_SIZE];
    if (directory_is_partial(store->directory)) {
        store->hindrance = "unfinished_backup";
        return store_damaged(store, "%s is an unfinished copy: delete it and copy it again", store->directory);
    }
    int error = identity_read(store->directory, &identity, message);
    if (error < 0) {
        store->hindrance = "no_data_directory";
        return store_damaged(store, "%s/%s: %s; this is not a data directory of tarryd", store->directory,
                             IDENTITY_NAME, strerror(-error));
    }
    if (error > 0) return store_damaged(store, "%s", message);
    memcpy(store->cluster, identity.cluster, sizeof store->cluster);
    return 0;
}

int store_lock(struct store *store) {
    int status = take_lock(store);
    return status == 0 ? store_identity(store) : status;
}

static int open_index(struct store *store, bool no_lookup) {
    char path[STORE_PATH_SIZE], message[1024] = "";
    snprintf(path, sizeof path, "%s/index", store->directory);
    struct index_options options = {.directory = path,
                                    .memory = MEMORY_DEFAULT,
                                    .outcomes_max = OUTCOMES_MAX_DEFAULT,
                                    .outcome_retention_ms = OUTCOME_RETENTION_DEFAULT_MS,
                                    .read_only = true,
                                    .no_lookup = no_lookup};
    memcpy(options.cluster, store->cluster, sizeof store->cluster);
    int error = index_open(&store->index, &options, message, sizeof message);
    if (error != 0) return store_damaged(store, "%s: %s", path, message[0] != 0 ? message : store_sentence(error));
    index_meta(store->index, &store->meta);
    return 0;
}

int store_open_index(struct store *store) {
    return open_index(store, false);
}

int store_open_all(struct store *store, const char *archive) {
    int status = store_lock(store);
    if (status == 0) status = open_index(store, true);
    if (status == 0) status = store_open_log(store, store->meta.position);
    return status == 0 ? store_open_archive(store, archive) : status;
}

/* Opens the log. Uses only the files of the log. */
static int open_log(struct store *store, uint64_t scan_from, char path[STORE_PATH_SIZE]) {
    char message[1024] = "";
    snprintf(path, STORE_PATH_SIZE, "%s/log", store->directory);
    struct log_options options = {.directory = path,
                                  .disk = &disk_posix,
                                  .segment_size = SEGMENT_SIZE_DEFAULT,
                                  .durable_min = store->meta.position,
                                  .read_only = true};
    memcpy(options.cluster, store->cluster, sizeof store->cluster);
    int error = log_open(&store->log, &options, scan_from, &store->recovery, message, sizeof message);
    if (error != 0) return store_damaged(store, "%s: %s", path, message[0] != 0 ? message : store_sentence(error));
    return 0;
}

int store_open_log_alone(struct store *store) {
    char path[STORE_PATH_SIZE];
    return open_log(store, 0, path);
}

int store_open_log(struct store *store, uint64_t scan_from) {
    char path[STORE_PATH_SIZE];
    int status = open_log(store, scan_from, path);
    if (status != 0) return status;
    if (store->recovery.end < store->meta.position)
        return store_damaged(store,
                             "%s ends at position %" PRIu64 ", before the index's position %" PRIu64
                             ": the end of the log is lost",
                             path, store->recovery.end, store->meta.position);
    if (store->recovery.start > store->meta.position)
        return store_damaged(store,
                             "%s starts at position %" PRIu64 ", after the index's position %" PRIu64
                             ": segments are missing",
                             path, store->recovery.start, store->meta.position);
    if (store->recovery.start > store->meta.log_start)
        return store_damaged(store,
                             "%s: the segments from position %" PRIu64 " to %" PRIu64
                             " are missing, and contents of live tasks with them",
                             path, store->meta.log_start, store->recovery.start);
    return 0;
}

int store_open_archive(struct store *store, const char *directory) {
    char *path = store->archive_directory;
    int size = directory != NULL ? snprintf(path, STORE_PATH_SIZE, "%s", directory)
                                 : snprintf(path, STORE_PATH_SIZE, "%s/archive", store->directory);
    if (size < 0 || (size_t)size + 64 > STORE_PATH_SIZE)
        return store_damaged(store, "--archive: the directory name is too long");
    store->archive = (struct archive){.disk = &disk_posix, .directory = path};
    memcpy(store->archive.cluster, store->cluster, sizeof store->archive.cluster);
    if (directory != NULL && access(path, R_OK | X_OK) != 0)
        return store_damaged(store, "--archive %s: %s", directory, strerror(errno));
    return 0;
}

/* ---- owner of new files */

#define PATH_SIZE 4096

struct owner owner_of(const char *directory) {
    char path[PATH_SIZE];
    struct stat status;
    struct owner own = {geteuid(), getegid()};
    size_t size = strlen(directory);
    if (size >= sizeof path) return own;
    memcpy(path, directory, size + 1);
    while (stat(path, &status) != 0) {
        char below[PATH_SIZE];
        memcpy(below, path, sizeof below);
        if (disk_parent(below, path, sizeof path) != 0 || strcmp(below, path) == 0) return own;
    }
    return (struct owner){status.st_uid, status.st_gid};
}

int owner_give(struct owner owner, const char *path) {
    if (geteuid() != 0 || (owner.uid == 0 && owner.gid == getegid())) return 0;
    if (lchown(path, owner.uid, owner.gid) == 0) return 0;
    return errno == EPERM || errno == EINVAL || errno == ENOTSUP ? 0 : -errno;
}
