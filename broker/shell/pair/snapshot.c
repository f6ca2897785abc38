/* snapshot.c: see snapshot.h. */
#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "copy_progress.h"
#include "datadir.h"
#include "disk.h"
#include "fatal.h"
#include "logfmt.h"
#include "missed_redactions.h"
#include "wire.h"

#define PATH_SIZE 1400

/* Folders that are copied from the leader. The rest of its directory belongs to the leader alone. */
static const char *const folders[] = {"log", "index"};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

struct snapshot {
    struct blocking_rpc blocking_rpc;
    const char *directory;
    const char *url;
    const uint8_t *cluster; /* id of this node's cluster, CLUSTER_ID_SIZE bytes */
    char *message; /* buffer of DATADIR_MESSAGE_SIZE bytes; empty text: the connection failed or the leader has dropped
                      the backup, so try again */
    char said[LOGFMT_VALUE_SIZE]; /* reason in the last `snapshot_waits` log line */
    uint64_t number;              /* number of the leader's backup that this node must end; 0: no backup is open */
    uint32_t file_count;
    uint64_t bytes;
    uint64_t position;
    uint64_t copied; /* bytes copied or skipped so far */
    struct copy_progress progress;
};

static void path_of(const struct snapshot *snapshot, const char *name, char out[PATH_SIZE]) {
    snprintf(out, PATH_SIZE, "%s/" SNAPSHOT_NAME "/%s", snapshot->directory, name);
}

static int fail(struct snapshot *snapshot, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct snapshot *snapshot, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(snapshot->message, DATADIR_MESSAGE_SIZE, format, arguments);
    va_end(arguments);
    return 1;
}

/* ---- files */

static int remove_name(void *argument, const char *name) {
    char path[2 * PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", (const char *)argument, name);
    return disk_posix.unlink(NULL, path);
}

/* Removes a folder of plain files; a missing folder is no error. */
static int remove_folder(const char *path) {
    int error = disk_posix.list(NULL, path, remove_name, (void *)path);
    if (error == -ENOENT) return 0;
    if (error == 0 && rmdir(path) != 0) error = -errno;
    return error;
}

static int make_folder(const char *path) {
    int error = disk_posix.make_directory(NULL, path, 0700);
    return error == -EEXIST ? 0 : error;
}

static int touch(const char *path) {
    int handle = disk_posix.open(NULL, path, O_WRONLY | O_CREAT, 0600);
    if (handle < 0) return handle;
    int error = disk_posix.sync(NULL, handle);
    disk_posix.close(NULL, handle);
    return error;
}

/* Creates an empty DIR/snapshot with the mark of an incomplete snapshot. */
static int begin_files(const struct snapshot *snapshot) {
    char base[PATH_SIZE], path[PATH_SIZE];
    path_of(snapshot, "", base);
    path_of(snapshot, BACKUP_PARTIAL_NAME, path);
    int error = make_folder(base);
    if (error == 0) error = touch(path);
    if (error == 0) error = disk_posix.sync_directory(NULL, base);
    for (size_t i = 0; i < FOLDERS && error == 0; i++) {
        path_of(snapshot, folders[i], path);
        error = remove_folder(path);
        if (error == 0) error = make_folder(path);
    }
    return error == 0 ? disk_posix.sync_directory(NULL, snapshot->directory) : error;
}

static int end_files(const struct snapshot *snapshot) {
    char path[PATH_SIZE];
    int error = 0;
    for (size_t i = 0; i < FOLDERS && error == 0; i++) {
        path_of(snapshot, folders[i], path);
        error = disk_posix.sync_directory(NULL, path);
    }
    path_of(snapshot, BACKUP_PARTIAL_NAME, path);
    if (error == 0) error = disk_posix.unlink(NULL, path);
    path_of(snapshot, "", path);
    return error == 0 ? disk_posix.sync_directory(NULL, path) : error;
}

static bool is_whole(const struct snapshot *snapshot) {
    char base[PATH_SIZE], partial[PATH_SIZE];
    path_of(snapshot, "", base);
    path_of(snapshot, BACKUP_PARTIAL_NAME, partial);
    return access(base, F_OK) == 0 && access(partial, F_OK) != 0;
}

/* Moves a folder into place, unless an earlier run has done that. */
static int move_folder(const struct snapshot *snapshot, const char *name) {
    char from[PATH_SIZE], to[PATH_SIZE];
    path_of(snapshot, name, from);
    snprintf(to, sizeof(to), "%s/%s", snapshot->directory, name);
    if (access(from, F_OK) != 0) return 0;
    int error = remove_folder(to);
    return error == 0 ? disk_posix.rename(NULL, from, to) : error;
}

/* Replaces log and index. If the process crashes meanwhile, the next start repeats it, because the mark is removed
 * last. */
static int put_in_place(const struct snapshot *snapshot) {
    char path[PATH_SIZE];
    int error = 0;
    for (size_t i = 0; i < FOLDERS && error == 0; i++) error = move_folder(snapshot, folders[i]);
    if (error == 0) error = disk_posix.sync_directory(NULL, snapshot->directory);
    snprintf(path, sizeof(path), "%s/" SNAPSHOT_WANTED_NAME, snapshot->directory);
    if (error == 0) error = disk_posix.unlink(NULL, path);
    if (error == 0) error = disk_posix.sync_directory(NULL, snapshot->directory);
    path_of(snapshot, "", path);
    return error == 0 ? remove_folder(path) : error;
}

/* ---- waiting */

/* Logs each new reason once, because this node answers no requests meanwhile and its leader may never come back. */
static void say_waiting(struct snapshot *snapshot, const char *reason) {
    char quoted[LOGFMT_VALUE_SIZE];
    logfmt_quote(reason, quoted);
    if (strcmp(quoted, snapshot->said) == 0) return;
    memcpy(snapshot->said, quoted, sizeof(quoted));
    logfmt("snapshot_waits",
           "peer=%s reason=%s hint=\"this node serves no requests until it has the leader's snapshot. If the leader is "
           "lost for good, stop this broker, delete %.900s/%s, and start it again with its former data\"",
           snapshot->url, quoted, snapshot->directory, SNAPSHOT_WANTED_NAME);
}

/* Logs why a request failed or was refused. */
static void say_why(struct snapshot *snapshot, const Tarry__Reply *reply) {
    char why[DATADIR_MESSAGE_SIZE];
    if (reply == NULL)
        blocking_rpc_why(&snapshot->blocking_rpc, why, sizeof(why));
    else
        snprintf(why, sizeof(why), "%s",
                 reply->message[0] != '\0'
                     ? reply->message
                     : "this version does not understand its reply; run the same version of tarryd on both nodes");
    say_waiting(snapshot, why);
}

static void pause_talk(const struct snapshot *snapshot) {
    if (!blocking_rpc_pause()) return;
    logfmt("stopped", "reason=\"the snapshot from %s is not complete; the next start fetches it again\"",
           snapshot->url);
    _exit(0);
}

/* ---- requests. They return -1 if there is no answer, or the leader has dropped the backup. */

/* Checks that the peer is a node of this cluster. */
static int check_peer(struct snapshot *snapshot) {
    Tarry__Request request = blocking_rpc_request(TARRY__REQUEST__BODY_PAIR);
    Tarry__Pair pair = TARRY__PAIR__INIT;
    request.pair = &pair;
    Tarry__Reply *reply = blocking_rpc_ask(&snapshot->blocking_rpc, &request);
    bool is_pair = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_PAIR;
    bool is_ours = is_pair && reply->pair->cluster.len == CLUSTER_ID_SIZE &&
                   memcmp(reply->pair->cluster.data, snapshot->cluster, CLUSTER_ID_SIZE) == 0;
    if (!is_pair) say_why(snapshot, reply);
    if (is_pair && !is_ours)
        say_waiting(snapshot, "the peer belongs to another cluster, so this node copies nothing and keeps its data: "
                              "bring the leader back; if it is lost for good, make an independent broker of this "
                              "directory with 'tarry restore DIR --data NEW'");
    if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
    return is_ours ? 0 : -1;
}

static int ask(struct snapshot *snapshot, Tarry__Backup *body, Tarry__Reply **out) {
    Tarry__Request request = blocking_rpc_request(TARRY__REQUEST__BODY_BACKUP);
    request.backup = body;
    body->backup = snapshot->number;
    for (int i = 0; i < 5; i++) {
        Tarry__Reply *reply = blocking_rpc_ask(&snapshot->blocking_rpc, &request);
        bool is_right =
            reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_BACKUP;
        if (is_right) {
            *out = reply;
            return 0;
        }
        bool is_gone = reply != NULL && reply->code == TARRY__CODE__NOT_DONE;
        say_why(snapshot, reply);
        if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
        if (is_gone) return -1;
        pause_talk(snapshot);
    }
    return -1;
}

static int begin(struct snapshot *snapshot) {
    Tarry__Backup body = TARRY__BACKUP__INIT;
    body.what = TARRY__BACKUP__WHAT__BEGIN;
    snapshot->number = 0;
    for (;;) {
        Tarry__Reply *reply;
        int error = ask(snapshot, &body, &reply);
        if (error != 0) return error;
        bool is_ready = reply->backup->ready;
        snapshot->number = reply->backup->backup;
        snapshot->file_count = reply->backup->file_count;
        snapshot->bytes = reply->backup->bytes;
        snapshot->position = reply->backup->position;
        tarry__reply__free_unpacked(reply, NULL);
        if (is_ready) return 0;
        pause_talk(snapshot);
        body.what = TARRY__BACKUP__WHAT__STATUS;
    }
}

/* Logs the progress from time to time, because this node answers no requests meanwhile. The leader's status shows it,
 * too. */
static void say_progress(struct snapshot *snapshot, uint64_t size) {
    snapshot->copied += size;
    uint64_t left = snapshot->bytes > snapshot->copied ? snapshot->bytes - snapshot->copied : 0;
    copy_progress_see(&snapshot->progress, left, monotonic_ns());
    if (left != 0 && copy_progress_says(&snapshot->progress, monotonic_ns()))
        logfmt("snapshot_copying", "copied=%" PRIu64 " bytes=%" PRIu64 " left_ms=%" PRIu64, snapshot->copied,
               snapshot->bytes, snapshot->progress.left_ms);
}

static int copy_content(struct snapshot *snapshot, uint32_t number, uint64_t size, int handle) {
    int error = 0;
    for (uint64_t offset = 0; offset < size && error == 0;) {
        Tarry__Backup body = TARRY__BACKUP__INIT;
        Tarry__Reply *reply;
        body.what = TARRY__BACKUP__WHAT__READ;
        body.file = number;
        body.offset = offset;
        body.size = size - offset < BACKUP_READ_MAX ? (uint32_t)(size - offset) : BACKUP_READ_MAX;
        error = ask(snapshot, &body, &reply);
        if (error != 0) return error;
        const ProtobufCBinaryData *data = &reply->backup->data;
        if (data->len != body.size)
            error = fail(snapshot, "the leader sent another number of bytes than it announced; start this node again");
        else if ((error = disk_write_all(&disk_posix, handle, data->data, data->len, offset)) != 0)
            error = fail(snapshot,
                         "%s: the snapshot cannot be written: %s; check that disk and its free space, then start this "
                         "node again",
                         snapshot->directory, strerror(-error));
        tarry__reply__free_unpacked(reply, NULL);
        offset += body.size;
        say_progress(snapshot, body.size);
    }
    return error;
}

/* Returns whether the file lies in one of the copied folders. */
static bool is_wanted(const char *name) {
    if (strlen(name) > BACKUP_NAME_SIZE_MAX) return false;
    for (size_t i = 0; i < FOLDERS; i++) {
        size_t size = strlen(folders[i]);
        if (strncmp(name, folders[i], size) != 0 || name[size] != '/') continue;
        const char *file = name + size + 1;
        return file[0] != '\0' && file[0] != '.' && strchr(file, '/') == NULL;
    }
    return false;
}

static int copy_file(struct snapshot *snapshot, uint32_t number, const Tarry__BackupFile *file) {
    char path[PATH_SIZE];
    if (!is_wanted(file->name)) {
        say_progress(snapshot, file->size);
        return 0;
    }
    path_of(snapshot, file->name, path);
    int handle = disk_posix.open(NULL, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (handle < 0) return fail(snapshot, "%.1000s cannot be created: %s", path, strerror(-handle));
    int error = copy_content(snapshot, number, file->size, handle);
    int synced = disk_posix.sync(NULL, handle);
    disk_posix.close(NULL, handle);
    if (error == 0 && synced != 0) error = fail(snapshot, "%.1000s cannot be synced: %s", path, strerror(-synced));
    return error;
}

static int copy_files(struct snapshot *snapshot) {
    int error = 0;
    for (uint32_t from = 0; from < snapshot->file_count && error == 0;) {
        Tarry__Backup body = TARRY__BACKUP__INIT;
        Tarry__Reply *reply;
        body.what = TARRY__BACKUP__WHAT__LIST;
        body.file = from;
        error = ask(snapshot, &body, &reply);
        if (error != 0) return error;
        size_t count = reply->backup->n_files;
        if (count == 0) error = fail(snapshot, "the leader lists fewer files than it announced; start this node again");
        for (size_t i = 0; i < count && error == 0; i++)
            error = copy_file(snapshot, from + (uint32_t)i, reply->backup->files[i]);
        tarry__reply__free_unpacked(reply, NULL);
        from += (uint32_t)count;
    }
    return error;
}

/* Tells the leader once that the backup is over, even if it failed. Otherwise the leader keeps its log and a copy of
 * its index for 1 min. A follower whose disk is full would begin another backup at each start. */
static void end(struct snapshot *snapshot) {
    Tarry__Request request = blocking_rpc_request(TARRY__REQUEST__BODY_BACKUP);
    Tarry__Backup body = TARRY__BACKUP__INIT;
    if (snapshot->number == 0) return;
    request.backup = &body;
    body.what = TARRY__BACKUP__WHAT__END;
    body.backup = snapshot->number;
    snapshot->number = 0;
    Tarry__Reply *reply = blocking_rpc_ask(&snapshot->blocking_rpc, &request);
    if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
}

/* Records the redactions made since the end of this node's log. The snapshot says that they are carried out, but that
 * is true of the leader's disk only. */
static int keep_redactions(struct snapshot *snapshot) {
    uint64_t position = snapshot_erased_before(snapshot->directory);
    int error;
    int result =
        position != 0 ? missed_redactions_ask(&snapshot->blocking_rpc, snapshot->directory, position, &error) : 0;
    if (result <= 0) return result;
    return fail(
        snapshot,
        "%s: the redactions made during the copy cannot be recorded: %s; check that disk, then start this node again",
        snapshot->directory, storage_error(error));
}

static int fetch_begun(struct snapshot *snapshot) {
    int error = begin(snapshot);
    if (error != 0) return error;
    snapshot->copied = 0;
    snapshot->progress = (struct copy_progress){0};
    logfmt("snapshot_begun", "bytes=%" PRIu64 " position=%" PRIu64, snapshot->bytes, snapshot->position);
    int made = begin_files(snapshot);
    if (made == 0) error = copy_files(snapshot);
    if (made == 0 && error == 0) error = keep_redactions(snapshot);
    if (made == 0 && error == 0) made = end_files(snapshot);
    if (error != 0) return error;
    return made == 0 ? 0
                     : fail(snapshot,
                            "%s: the snapshot cannot be written: %s; check that disk and its free space, then start "
                            "this node again",
                            snapshot->directory, strerror(-made));
}

static int fetch_once(struct snapshot *snapshot) {
    int error = check_peer(snapshot);
    if (error != 0) return error;
    error = fetch_begun(snapshot);
    end(snapshot);
    return error;
}

/* Fetches all files. Returns 0, or 1 with a sentence. */
static int fetch_all(struct snapshot *snapshot, const struct peer_key *key,
                     const struct peer_credentials *credentials) {
    if (is_whole(snapshot)) return 0;
    int error = blocking_rpc_open(&snapshot->blocking_rpc, snapshot->url, key, credentials);
    if (error != 0)
        return fail(snapshot, "cannot prepare a connection to the peer %s: %s", snapshot->url, strerror(error));
    do {
        error = fetch_once(snapshot);
        if (error < 0) pause_talk(snapshot);
    } while (error < 0 || (error == 0 && !is_whole(snapshot)));
    blocking_rpc_close(&snapshot->blocking_rpc);
    return error;
}

int snapshot_fetch(const struct datadir *dir, const char *url, const struct peer_key *key,
                   const struct peer_credentials *credentials, char message[DATADIR_MESSAGE_SIZE]) {
    const char *directory = dir->path;
    struct snapshot snapshot = {.directory = directory, .url = url, .cluster = dir->cluster, .message = message};
    message[0] = '\0';
    if (fetch_all(&snapshot, key, credentials) != 0) return 1;
    int error = put_in_place(&snapshot);
    if (error != 0)
        return fail(&snapshot,
                    "%s: the snapshot cannot be moved into place: %s; check that disk, then start this node again",
                    directory, strerror(-error));
    logfmt("snapshot_taken", "position=%" PRIu64 " bytes=%" PRIu64, snapshot.position, snapshot.bytes);
    return 0;
}
