/* backup_directory.c: see backup_directory.h.
 *
 * The mark is a file that says that the directory is incomplete. Order: create and sync the mark, write and sync each
 * file, sync the folders, delete the mark, sync. So after a crash the directory is either complete, or has the mark. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup_directory.h"
#include "tarry.h"

static int fail(struct backup_directory *directory, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(struct backup_directory *directory, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(directory->message, sizeof(directory->message), format, arguments);
    va_end(arguments);
    return code;
}

static int fail_system(struct backup_directory *directory, const char *what, const char *path) {
    return fail(directory, TARRY_E_SYSTEM, "cannot %s %s: %s", what, path, strerror(errno));
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

bool backup_name_is_right(const char *name) {
    size_t size = strlen(name), slashes = 0;
    if (size == 0 || size > BACKUP_NAME_SIZE_MAX || strcmp(name, BACKUP_PARTIAL_NAME) == 0) return false;
    for (size_t i = 0; i < size; i++) {
        bool is_first = i == 0 || name[i - 1] == '/';
        if (name[i] == '/' && (is_first || i + 1 == size || ++slashes > 1)) return false;
        if (name[i] != '/' && !is_name_char(name[i])) return false;
        if (is_first && name[i] == '.') return false;
    }
    return true;
}

static int path_join(struct backup_directory *directory, const char *name, char out[BACKUP_PATH_SIZE]) {
    int size = snprintf(out, BACKUP_PATH_SIZE, "%s/%s", directory->path, name);
    if (size >= 0 && size < BACKUP_PATH_SIZE) return TARRY_OK;
    return fail(directory, TARRY_E_ARGUMENT, "the name of the directory is too long");
}

static int sync_path(struct backup_directory *directory, const char *path) {
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle < 0) return fail_system(directory, "open", path);
    int rv = fsync(handle) == 0 ? TARRY_OK : fail_system(directory, "sync", path);
    close(handle);
    return rv;
}

/* Calls `each` for every name in `path` except . and .. */
static int each_name(struct backup_directory *directory, const char *path,
                     int (*each)(struct backup_directory *directory, const char *path, const char *name)) {
    DIR *stream = opendir(path);
    if (stream == NULL) return fail_system(directory, "list", path);
    int rv = TARRY_OK;
    /* No other thread uses this stream; readdir_r is deprecated in glibc. */
    // cppcheck-suppress readdirCalled
    for (struct dirent *entry; rv == TARRY_OK && (entry = readdir(stream)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rv = each(directory, path, entry->d_name);
    closedir(stream);
    return rv;
}

static int refuse_name(struct backup_directory *directory, const char *path, const char *name) {
    return fail(directory, TARRY_E_ARGUMENT, "%s contains \"%.100s\"; give a new or an empty directory", path, name);
}

static int remove_file(struct backup_directory *directory, const char *path, const char *name) {
    char full[BACKUP_PATH_SIZE + BACKUP_NAME_SIZE_MAX + 2];
    snprintf(full, sizeof(full), "%s/%s", path, name);
    return unlink(full) == 0 ? TARRY_OK : fail_system(directory, "delete", full);
}

/* Deletes the files and folders of an unfinished backup. */
static int remove_left(struct backup_directory *directory, const char *path, const char *name) {
    char full[BACKUP_PATH_SIZE];
    struct stat status;
    if (strcmp(name, BACKUP_PARTIAL_NAME) == 0) return TARRY_OK;
    int rv = path_join(directory, name, full);
    if (rv != TARRY_OK) return rv;
    if (lstat(full, &status) != 0) return fail_system(directory, "look at", full);
    if (!S_ISDIR(status.st_mode)) return remove_file(directory, path, name);
    rv = each_name(directory, full, remove_file);
    if (rv == TARRY_OK && rmdir(full) != 0) rv = fail_system(directory, "delete", full);
    return rv;
}

static int mark(struct backup_directory *directory) {
    char path[BACKUP_PATH_SIZE];
    int rv = path_join(directory, BACKUP_PARTIAL_NAME, path);
    if (rv != TARRY_OK) return rv;
    int handle = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (handle < 0) return fail_system(directory, "make", path);
    rv = fsync(handle) == 0 ? TARRY_OK : fail_system(directory, "sync", path);
    close(handle);
    return rv == TARRY_OK ? sync_path(directory, directory->path) : rv;
}

int backup_directory_begin(struct backup_directory *directory, const char *path) {
    *directory = (struct backup_directory){.path = path, .handle = -1};
    char marker[BACKUP_PATH_SIZE];
    int rv = path_join(directory, BACKUP_PARTIAL_NAME, marker);
    if (rv != TARRY_OK) return rv;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return fail_system(directory, "make", path);
    bool is_unfinished = access(marker, F_OK) == 0;
    rv = each_name(directory, path, is_unfinished ? remove_left : refuse_name);
    return rv == TARRY_OK ? mark(directory) : rv;
}

/* Finds the folder that contains `name`. */
static int make_folder(struct backup_directory *directory, const char *name) {
    const char *slash = strchr(name, '/');
    char path[BACKUP_PATH_SIZE];
    if (slash == NULL) return TARRY_OK;
    size_t size = (size_t)(slash - name);
    for (size_t i = 0; i < directory->folder_count; i++)
        if (strlen(directory->folders[i]) == size && memcmp(directory->folders[i], name, size) == 0) return TARRY_OK;
    if (directory->folder_count == BACKUP_FOLDERS_MAX)
        return fail(directory, TARRY_E_PROTOCOL, "the broker's backup has more folders than a data directory can have");
    char *folder = directory->folders[directory->folder_count];
    memcpy(folder, name, size);
    folder[size] = 0;
    int rv = path_join(directory, folder, path);
    if (rv == TARRY_OK && mkdir(path, 0700) != 0) rv = fail_system(directory, "make", path);
    if (rv == TARRY_OK) directory->folder_count++;
    return rv;
}

int backup_directory_create(struct backup_directory *directory, const char *name) {
    if (!backup_name_is_right(name))
        return fail(directory, TARRY_E_PROTOCOL,
                    "the broker's backup has a file that does not belong in a data directory: \"%.100s\"", name);
    int rv = make_folder(directory, name);
    if (rv == TARRY_OK) rv = path_join(directory, name, directory->file_path);
    if (rv != TARRY_OK) return rv;
    directory->handle = open(directory->file_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    directory->offset = 0;
    return directory->handle >= 0 ? TARRY_OK : fail_system(directory, "make", directory->file_path);
}

int backup_directory_write(struct backup_directory *directory, const void *data, size_t size) {
    const uint8_t *bytes = data;
    while (size > 0) {
        ssize_t count = pwrite(directory->handle, bytes, size, (off_t)directory->offset);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return fail_system(directory, "write", directory->file_path);
        bytes += count;
        size -= (size_t)count;
        directory->offset += (uint64_t)count;
    }
    return TARRY_OK;
}

int backup_directory_close(struct backup_directory *directory) {
    int rv = fsync(directory->handle) == 0 ? TARRY_OK : fail_system(directory, "sync", directory->file_path);
    if (close(directory->handle) != 0 && rv == TARRY_OK) rv = fail_system(directory, "close", directory->file_path);
    directory->handle = -1;
    return rv;
}

/* Syncs the directory that contains the backup, opened as `PATH/..`. Removing the last part of PATH would not work for
 * a path such as ".". */
static int sync_parent(struct backup_directory *directory) {
    char parent[BACKUP_PATH_SIZE];
    int rv = path_join(directory, "..", parent);
    return rv == TARRY_OK ? sync_path(directory, parent) : rv;
}

int backup_directory_end(struct backup_directory *directory) {
    char path[BACKUP_PATH_SIZE];
    int rv = TARRY_OK;
    for (size_t i = 0; i < directory->folder_count && rv == TARRY_OK; i++) {
        rv = path_join(directory, directory->folders[i], path);
        if (rv == TARRY_OK) rv = sync_path(directory, path);
    }
    if (rv == TARRY_OK) rv = sync_path(directory, directory->path);
    if (rv == TARRY_OK) rv = sync_parent(directory);
    if (rv == TARRY_OK) rv = remove_file(directory, directory->path, BACKUP_PARTIAL_NAME);
    return rv == TARRY_OK ? sync_path(directory, directory->path) : rv;
}

void backup_directory_abandon(struct backup_directory *directory) {
    if (directory->handle >= 0) close(directory->handle);
    directory->handle = -1;
}
