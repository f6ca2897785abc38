/* backup.c: see backup.h. */
#include "backup.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archivist.h"
#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "erasures.h"
#include "fatal.h"
#include "heads.h"
#include "index.h"
#include "index_schedule.h"
#include "keyring.h"
#include "log.h"
#include "log_disk.h"
#include "logfmt.h"
#include "node.h"
#include "run.h"

/* ---- the files of a copy of the data directory; see backup.h */

#define COPY_PATH_SIZE 2048
#define FILES_FIRST 64
#define SEGMENT_HEADER_SIZE 4096u /* see FORMAT.md */

/* Adds a file. Takes over `bytes`, also if it fails. */
static int add(struct backup_files *files, const char *name, const char *path, uint8_t *bytes, uint64_t size) {
    int error = files->count >= BACKUP_FILES_MAX ? -EMFILE : 0;
    if (error == 0 && files->count == files->room) {
        size_t room = files->room == 0 ? FILES_FIRST : 2 * files->room;
        struct backup_file *items = realloc(files->items, room * sizeof(*items));
        if (items == NULL) {
            error = -ENOMEM;
        } else {
            files->items = items;
            files->room = room;
        }
    }
    char *name_copy = error == 0 ? strdup(name) : NULL;
    char *path_copy = name_copy != NULL && path != NULL ? strdup(path) : NULL;
    if (error == 0 && (name_copy == NULL || (path != NULL && path_copy == NULL))) error = -ENOMEM;
    if (error != 0) {
        free(name_copy);
        free(path_copy);
        free(bytes);
        return error;
    }
    files->items[files->count++] = (struct backup_file){name_copy, path_copy, bytes, size};
    files->bytes += size;
    return 0;
}

/* Adds a file of the data directory with its present size, if it exists. */
static int add_file(const struct backup_needs *needs, struct backup_files *files, const char *name) {
    char path[COPY_PATH_SIZE];
    struct stat status;
    snprintf(path, sizeof(path), "%s/%s", needs->dir->path, name);
    if (stat(path, &status) != 0) return errno == ENOENT ? 0 : -errno;
    return add(files, name, path, NULL, (uint64_t)status.st_size);
}

/* Adds the files of a folder with their present sizes. A missing folder counts as empty. */
static int add_folder(struct backup_files *files, const char *name, const char *path) {
    DIR *folder = opendir(path);
    if (folder == NULL) return errno == ENOENT ? 0 : -errno;
    int error = 0;
    /* The stream is used by this thread only; readdir_r is deprecated in glibc. */
    // cppcheck-suppress readdirCalled
    for (struct dirent *entry; error == 0 && (entry = readdir(folder)) != NULL;) {
        char from[COPY_PATH_SIZE], to[BACKUP_NAME_SIZE_MAX + 1];
        struct stat status;
        size_t length = strlen(entry->d_name);
        bool is_temporary = length > 4 && strcmp(entry->d_name + length - 4, ".tmp") == 0;
        if (entry->d_name[0] == '.' || is_temporary) continue;
        if ((size_t)snprintf(from, sizeof(from), "%s/%s", path, entry->d_name) >= sizeof(from)) continue;
        if ((size_t)snprintf(to, sizeof(to), "%s/%s", name, entry->d_name) >= sizeof(to)) continue;
        if (stat(from, &status) != 0) continue; /* deleted meanwhile */
        if (S_ISREG(status.st_mode)) error = add(files, to, from, NULL, (uint64_t)status.st_size);
    }
    closedir(folder);
    return error;
}

/* Adds the segment's frames up to `position`, and its summary if there is one. Does not copy the zeros after the last
 * frame, because recovery treats missing bytes of a segment as zeros. */
static int add_segment(const struct backup_needs *needs, struct backup_slot *slot, const struct log_segment *segment) {
    char name[64], path[COPY_PATH_SIZE];
    bool is_last = segment->end == 0 || segment->end >= slot->position;
    uint64_t end = is_last ? slot->position : segment->end;
    snprintf(name, sizeof(name), "log/%016" PRIx64 ".seg", segment->base);
    snprintf(path, sizeof(path), "%s/%s", needs->dir->path, name);
    int error = add(&slot->files, name, path, NULL, SEGMENT_HEADER_SIZE + (end - segment->base));
    if (error != 0 || is_last) return error;
    snprintf(name, sizeof(name), "log/%016" PRIx64 ".sum", segment->base);
    return add_file(needs, &slot->files, name);
}

/* Adds the file that notes the durable position, if the log has one. The added file contains the end of the copied log
 * instead. */
static int add_mark(const struct backup_needs *needs, struct backup_slot *slot) {
    char path[COPY_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/" LOG_MARK_NAME, needs->dir->log);
    if (access(path, F_OK) != 0) return errno == ENOENT ? 0 : -errno;
    uint8_t *bytes = malloc(LOG_MARK_SIZE);
    if (bytes == NULL) return -ENOMEM;
    log_mark_encode(needs->dir->cluster, slot->position, bytes);
    return add(&slot->files, "log/" LOG_MARK_NAME, NULL, bytes, LOG_MARK_SIZE);
}

static int add_log(const struct backup_needs *needs, struct backup_slot *slot) {
    uint64_t position = slot->log_start;
    for (;;) {
        struct log_segment segment;
        if (!log_segment_at(needs->log, position, &segment)) return -ENOENT;
        int error = add_segment(needs, slot, &segment);
        if (error != 0) return error;
        if (segment.end == 0 || segment.end >= slot->position) return 0;
        position = segment.end;
    }
}

/* Adds the identity of a new member, so that the copy cannot act as this member or reuse its epochs. */
static int add_identity(const struct backup_needs *needs, struct backup_files *files) {
    struct identity own, identity;
    struct member member;
    memcpy(own.cluster, needs->dir->cluster, sizeof(own.cluster));
    memcpy(own.secret, needs->dir->secret, sizeof(own.secret));
    uint8_t *member_bytes = malloc(MEMBER_SIZE), *identity_bytes = malloc(IDENTITY_SIZE);
    int error = member_bytes == NULL || identity_bytes == NULL ? -ENOMEM : 0;
    if (error == 0 && !identity_copy(&own, &needs->dir->member, atomic_load(&needs->run->epoch), &identity, &member))
        error = -EOVERFLOW;
    if (error != 0) {
        free(member_bytes);
        free(identity_bytes);
        return error;
    }
    member_encode(&member, member_bytes);
    identity_encode(&identity, identity_bytes);
    error = add(files, MEMBER_NAME, NULL, member_bytes, MEMBER_SIZE);
    if (error == 0) return add(files, IDENTITY_NAME, NULL, identity_bytes, IDENTITY_SIZE);
    free(identity_bytes);
    return error;
}

/* Lists the files of the copy, once the index has been copied. Returns 0 or a negative errno. */
static int backup_files_list(const struct backup_needs *needs, struct backup_slot *slot) {
    struct backup_files *files = &slot->files;
    struct stat status;
    if (fstat(slot->index_handle, &status) != 0) return -errno;
    int error = add(files, "index/data.mdb", NULL, NULL, (uint64_t)status.st_size);
    if (error == 0) error = add_file(needs, files, "index/" KEYRING_NAME);
    if (error == 0) error = add_file(needs, files, HEADS_NAME);
    if (error == 0 && slot->with_archive) error = add_file(needs, files, UNERASED_NAME);
    if (error == 0 && slot->with_archive) error = add_folder(files, "archive", needs->archivist->directory);
    slot->position = index_schedule_copy_end(node_committed(needs->node), slot->index_position);
    if (error == 0) error = add_log(needs, slot);
    if (error == 0) error = add_mark(needs, slot);
    if (error == 0) error = add_identity(needs, files);
    return error;
}

/* Frees the list of the copy's files. */
static void backup_files_free(struct backup_files *files) {
    for (size_t i = 0; i < files->count; i++) {
        free(files->items[i].name);
        free(files->items[i].path);
        free(files->items[i].bytes);
    }
    free(files->items);
    *files = (struct backup_files){0};
}

static int open_file(struct backup_slot *slot, size_t file) {
    if (slot->handle >= 0 && slot->open_file == file) return 0;
    if (slot->handle >= 0) close(slot->handle);
    slot->handle = open(slot->files.items[file].path, O_RDONLY | O_CLOEXEC);
    slot->open_file = file;
    return slot->handle >= 0 ? 0 : -errno;
}

/* Reads up to `size` bytes of a file of this backup. Returns their count, or a negative errno. */
static int64_t backup_files_read(struct backup_slot *slot, size_t file, uint64_t offset, uint8_t *out, size_t size) {
    const struct backup_file *item = &slot->files.items[file];
    if (offset >= item->size) return 0;
    if (size > item->size - offset) size = (size_t)(item->size - offset);
    if (item->bytes != NULL) {
        memcpy(out, item->bytes + offset, size);
        return (int64_t)size;
    }
    int error = item->path != NULL ? open_file(slot, file) : 0;
    if (error != 0) return error;
    int64_t count =
        disk_read_all(&disk_posix, item->path != NULL ? slot->handle : slot->index_handle, out, size, offset);
    return count < 0 || (size_t)count == size ? count : -ENODATA;
}

/* ---- the backups */

/* Bytes of the index copied between two checks for new requests. */
#define SLICE_BYTES ((size_t)4 << 20)
/* Interval of the checks whether a running backup is idle and whether the disk has free space. */
#define LOOK_NS (1000ull * 1000000u)
/* Maximum idle time that one check adds. If the whole process was stopped, that time must not count as idle, because
 * the client could not send requests (F-13). */
#define LOOK_COUNTS_NS (2 * LOOK_NS)
#define TEMPORARY_NAME "backup.tmp"
#define PATH_SIZE 1200

static const char too_many[] = "the maximum number of backups are running; an abandoned backup ends after a minute";
static const char no_such[] = "the backup does not exist any more: it ended, the client was silent for a minute, the "
                              "broker restarted, or the disk is full; begin another";
static const char no_room[] = "the broker's disk has too little free space for a copy of the index";
static const char not_ready[] = "the index is still being copied";
static const char no_file[] = "the backup has no such file";

/* ---- the life of one backup */

/* Creates a file without a name, which disappears with its descriptor. If the process dies before unlink, backup_start
 * deletes the file. */
static int open_unnamed(const struct backup *backup) {
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", backup->needs.dir->path, TEMPORARY_NAME);
    int handle = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (handle < 0) return -errno;
    if (unlink(path) == 0) return handle;
    int error = -errno;
    close(handle);
    return error;
}

static void slot_end(struct backup *backup, struct backup_slot *slot, const char *why) {
    index_copy_end(slot->copy);
    if (slot->index_handle >= 0) close(slot->index_handle);
    if (slot->handle >= 0) close(slot->handle);
    backup_files_free(&slot->files);
    if (slot->is_peers) node_copies(backup->needs.node, 0, 0);
    log_unpin(backup->needs.log);
    logfmt("backup_ended", "backup=%" PRIu64 " position=%" PRIu64 " reason=\"%s\"", slot->number, slot->position, why);
    *slot = (struct backup_slot){.state = BACKUP_FREE};
}

/* Returns NULL if BACKUPS_MAX backups exist. */
static struct backup_slot *slot_free(struct backup *backup) {
    for (size_t i = 0; i < BACKUPS_MAX; i++)
        if (backup->slots[i].state == BACKUP_FREE) return &backup->slots[i];
    return NULL;
}

static struct backup_slot *slot_find(struct backup *backup, uint64_t number) {
    for (size_t i = 0; i < BACKUPS_MAX; i++)
        if (backup->slots[i].state != BACKUP_FREE && backup->slots[i].number == number) return &backup->slots[i];
    return NULL;
}

static bool any_slot(const struct backup *backup, enum backup_state state) {
    for (size_t i = 0; i < BACKUPS_MAX; i++)
        if (backup->slots[i].state == state) return true;
    return false;
}

/* Returns NULL, or the reason of the failure. */
static const char *slot_begin(struct backup *backup, struct backup_slot *slot, bool with_archive) {
    const struct backup_needs *needs = &backup->needs;
    struct index_stats stats;
    index_stats(needs->index, &stats);
    if (!disk_space_spares(needs->disk_space, stats.bytes_file)) return no_room;
    int handle = open_unnamed(backup);
    if (handle < 0) return "the broker cannot create a file for a copy of the index in its data directory";
    uint64_t log_start = log_pin(needs->log);
    struct index_copy *copy;
    int error = index_copy_begin(&copy, needs->index);
    if (error != 0) {
        close(handle);
        log_unpin(needs->log);
        logfmt("backup_failed", "reason=\"%s\"", storage_error(error));
        return "the index cannot be copied; the broker's log messages say why";
    }
    *slot = (struct backup_slot){
        .state = BACKUP_COPYING,
        .number = ++backup->number_last,
        .asked_ns = monotonic_ns(),
        .with_archive = with_archive,
        .copy = copy,
        .index_handle = handle,
        .log_start = log_start,
        .handle = -1,
    };
    logfmt("backup_began", "backup=%" PRIu64 " index_bytes=%" PRIu64, slot->number, index_copy_size(copy));
    return NULL;
}

static void slot_step(struct backup *backup, struct backup_slot *slot) {
    int more = index_copy_step(slot->copy, slot->index_handle, SLICE_BYTES);
    if (more == 1) return;
    if (more == 0) {
        slot->index_position = index_copy_position(slot->copy);
        index_copy_end(slot->copy);
        slot->copy = NULL;
        more = backup_files_list(&backup->needs, slot);
    }
    if (more < 0) {
        slot_end(backup, slot, storage_error(more));
        return;
    }
    slot->state = BACKUP_READY;
    assert(slot->position >= slot->index_position); /* LOG-3 */
    logfmt("backup_ready", "backup=%" PRIu64 " position=%" PRIu64 " indexed=%" PRIu64 " files=%zu bytes=%" PRIu64,
           slot->number, slot->position, slot->index_position, slot->files.count, slot->files.bytes);
}

/* ---- replies */

static void answer(struct call *call, Tarry__BackupReply *backup) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.body_case = TARRY__REPLY__BODY_BACKUP;
    reply.backup = backup;
    call->answer(call, reply_pack(&reply));
}

static void refuse(struct call *call, Tarry__Code code, const char *sentence) {
    call->answer(call, reply_pack_refusal(code, sentence));
}

static void fill_status(const struct backup_slot *slot, Tarry__BackupReply *out) {
    out->backup = slot->number;
    out->ready = slot->state == BACKUP_READY;
    out->log_start = slot->log_start;
    if (!out->ready) {
        out->copied = index_copy_done(slot->copy);
        out->bytes = index_copy_size(slot->copy);
        return;
    }
    out->bytes = slot->files.bytes;
    out->position = slot->position;
    out->index_position = slot->index_position;
    out->file_count = (uint32_t)slot->files.count;
}

static void answer_list(struct call *call, const struct backup_slot *slot, uint32_t from) {
    Tarry__BackupReply reply = TARRY__BACKUP_REPLY__INIT;
    Tarry__BackupFile files[BACKUP_LIST_MAX], *pointers[BACKUP_LIST_MAX];
    fill_status(slot, &reply);
    for (size_t i = from; i < slot->files.count && reply.n_files < BACKUP_LIST_MAX; i++) {
        Tarry__BackupFile *file = pointers[reply.n_files] = &files[reply.n_files];
        reply.n_files++;
        tarry__backup_file__init(file);
        file->name = slot->files.items[i].name;
        file->size = slot->files.items[i].size;
    }
    reply.files = pointers;
    answer(call, &reply);
}

static void answer_read(struct backup *backup, struct call *call, struct backup_slot *slot,
                        const Tarry__Backup *request) {
    if (request->file >= slot->files.count) {
        refuse(call, TARRY__CODE__INVALID, no_file);
        return;
    }
    int64_t count = backup_files_read(slot, request->file, request->offset, backup->block, request->size);
    if (count < 0) {
        char sentence[512];
        snprintf(sentence, sizeof(sentence), "%s cannot be read any more (%s); begin another backup",
                 slot->files.items[request->file].name, strerror((int)-count));
        slot_end(backup, slot, sentence);
        refuse(call, TARRY__CODE__NOT_DONE, sentence);
        return;
    }
    slot->read += (uint64_t)count;
    if (slot->is_peers) node_copies(backup->needs.node, slot->read, slot->files.bytes);
    Tarry__BackupReply reply = TARRY__BACKUP_REPLY__INIT;
    reply.backup = slot->number;
    reply.ready = true;
    reply.data = (ProtobufCBinaryData){(size_t)count, backup->block};
    answer(call, &reply);
}

static void take_begin(struct backup *backup, struct call *call, const Tarry__Backup *request) {
    struct backup_slot *slot = slot_free(backup);
    const char *problem = slot == NULL ? too_many : slot_begin(backup, slot, request->with_archive);
    if (problem != NULL) {
        refuse(call, TARRY__CODE__NOT_DONE, problem);
        return;
    }
    slot->is_peers = call->from_peer;
    Tarry__BackupReply reply = TARRY__BACKUP_REPLY__INIT;
    fill_status(slot, &reply);
    answer(call, &reply);
}

static void take(struct backup *backup, struct call *call) {
    const Tarry__Backup *request = call->engine_request.event.request.message->backup;
    if (request->what == TARRY__BACKUP__WHAT__BEGIN) {
        take_begin(backup, call, request);
        return;
    }
    struct backup_slot *slot = slot_find(backup, request->backup);
    if (slot == NULL) {
        refuse(call, TARRY__CODE__NOT_DONE, no_such);
        return;
    }
    slot->asked_ns = monotonic_ns();
    bool needs_ready = request->what == TARRY__BACKUP__WHAT__LIST || request->what == TARRY__BACKUP__WHAT__READ;
    Tarry__BackupReply reply = TARRY__BACKUP_REPLY__INIT;
    if (needs_ready && slot->state != BACKUP_READY) {
        refuse(call, TARRY__CODE__NOT_DONE, not_ready);
    } else if (request->what == TARRY__BACKUP__WHAT__LIST) {
        answer_list(call, slot, request->file);
    } else if (request->what == TARRY__BACKUP__WHAT__READ) {
        answer_read(backup, call, slot, request);
    } else {
        fill_status(slot, &reply);
        if (request->what == TARRY__BACKUP__WHAT__END) slot_end(backup, slot, "done");
        answer(call, &reply);
    }
}

/* ---- the thread */

static void look_after(struct backup *backup) {
    uint64_t now_ns = monotonic_ns();
    for (size_t i = 0; i < BACKUPS_MAX; i++) {
        struct backup_slot *slot = &backup->slots[i];
        if (slot->state == BACKUP_COPYING) slot_step(backup, slot);
        if (slot->state == BACKUP_FREE) continue;
        waited_look(&slot->idle, slot->asked_ns, now_ns, LOOK_COUNTS_NS);
        if (slot->idle.ns > BACKUP_IDLE_MS * NS_PER_MS)
            slot_end(backup, slot, "idle");
        else if (!disk_space_spares(backup->needs.disk_space, 0))
            slot_end(backup, slot, "the disk has too little free space");
    }
}

/* Returns the next call. NULL: no call has come, so the thread copies a part of the index or checks for idle backups.
 * If the thread must end, sets *out_stop and returns NULL. */
static struct call *next_call(struct backup *backup, bool *out_stop) {
    bool copying = any_slot(backup, BACKUP_COPYING), ready = any_slot(backup, BACKUP_READY);
    int error = 0;
    pthread_mutex_lock(&backup->mutex);
    struct timespec until = monotonic_after(LOOK_NS);
    while (backup->first == NULL && !backup->stop && !copying && error == 0) {
        if (ready)
            error = pthread_cond_timedwait(&backup->changed, &backup->mutex, &until);
        else
            pthread_cond_wait(&backup->changed, &backup->mutex);
    }
    struct item *item = backup->first;
    if (item != NULL) backup->first = item->next;
    if (backup->first == NULL) backup->last = &backup->first;
    *out_stop = backup->stop && item == NULL;
    pthread_mutex_unlock(&backup->mutex);
    return (struct call *)item;
}

static void *backup_run(void *argument) {
    struct backup *backup = argument;
    uint64_t looked_ns = 0;
    for (bool stop = false; !stop;) {
        struct call *call = next_call(backup, &stop);
        if (call != NULL) take(backup, call);
        uint64_t now_ns = monotonic_ns();
        if (!any_slot(backup, BACKUP_COPYING) && now_ns - looked_ns < LOOK_NS) continue;
        looked_ns = now_ns;
        if (!stop) look_after(backup);
    }
    for (size_t i = 0; i < BACKUPS_MAX; i++)
        if (backup->slots[i].state != BACKUP_FREE) slot_end(backup, &backup->slots[i], "the broker is stopping");
    return NULL;
}

void backup_start(struct backup *backup, const struct backup_needs *needs) {
    char path[PATH_SIZE];
    *backup = (struct backup){.needs = *needs, .block = fatal_calloc(BACKUP_READ_MAX)};
    /* Numbers are unique across runs, so that the number of an earlier run's backup matches no backup of this run. */
    backup->number_last = (uint64_t)atomic_load(&needs->run->epoch) << 32;
    backup->last = &backup->first;
    pthread_mutex_init(&backup->mutex, NULL);
    monotonic_cond_init(&backup->changed);
    snprintf(path, sizeof(path), "%s/%s", needs->dir->path, TEMPORARY_NAME);
    if (!needs->config->inspect && unlink(path) != 0 && errno != ENOENT)
        logfmt("backup_left", "path=%s reason=\"%s\"", path, strerror(errno));
    thread_start(&backup->thread, "tarry-backup", backup_run, backup);
}

void backup_post(struct backup *backup, struct call *call) {
    struct item *item = &call->engine_request.item;
    item->next = NULL;
    pthread_mutex_lock(&backup->mutex);
    *backup->last = item;
    backup->last = &item->next;
    pthread_cond_signal(&backup->changed);
    pthread_mutex_unlock(&backup->mutex);
}

void backup_stop(struct backup *backup) {
    pthread_mutex_lock(&backup->mutex);
    backup->stop = true;
    pthread_cond_signal(&backup->changed);
    pthread_mutex_unlock(&backup->mutex);
    pthread_join(backup->thread, NULL);
    free(backup->block);
}
