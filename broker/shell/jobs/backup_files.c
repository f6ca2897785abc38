/* backup_files.c: the files of a copy of the data directory; see backup.h. */
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
#include "backup.h"
#include "datadir.h"
#include "erasures.h"
#include "heads.h"
#include "index_schedule.h"
#include "keyring.h"
#include "log.h"
#include "node.h"
#include "run.h"

#define PATH_SIZE 2048
#define FILES_FIRST 64
#define SEGMENT_HEADER_SIZE 4096u /* see FORMAT.md */

/* Adds a file. Takes over `bytes` in any case. */
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
    char path[PATH_SIZE];
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
        char from[PATH_SIZE], to[BACKUP_NAME_SIZE_MAX + 1];
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

/* Adds the segment's frames up to `position`, and its summary if there is one. After the last frame there are only
 * zeros. They are not copied, because an opened log treats missing bytes as zeros. */
static int add_segment(const struct backup_needs *needs, struct backup_slot *slot, const struct log_segment *segment) {
    char name[64], path[PATH_SIZE];
    bool is_last = segment->end == 0 || segment->end >= slot->position;
    uint64_t end = is_last ? slot->position : segment->end;
    snprintf(name, sizeof(name), "log/%016" PRIx64 ".seg", segment->base);
    snprintf(path, sizeof(path), "%s/%s", needs->dir->path, name);
    int error = add(&slot->files, name, path, NULL, SEGMENT_HEADER_SIZE + (end - segment->base));
    if (error != 0 || is_last) return error;
    snprintf(name, sizeof(name), "log/%016" PRIx64 ".sum", segment->base);
    return add_file(needs, &slot->files, name);
}

/* Adds the file that notes the durable position, if the log has one. In the copy, the position is the copied log's end.
 */
static int add_mark(const struct backup_needs *needs, struct backup_slot *slot) {
    char path[PATH_SIZE];
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

int backup_files_list(const struct backup_needs *needs, struct backup_slot *slot) {
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

void backup_files_free(struct backup_files *files) {
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

int64_t backup_files_read(struct backup_slot *slot, size_t file, uint64_t offset, uint8_t *out, size_t size) {
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
