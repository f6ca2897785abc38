/* token_store.c: see token_store.h. */
#include "token_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "tool.h"

#define PATH_SIZE 4096

static int refused(const char *path, const char *what, int error) {
    tool_say("%s cannot be %s: %s", path, what, strerror(error));
    return EXIT_REFUSED;
}

/* Gives the new file to the owner of its directory if root creates it, because the broker of that user must read it. */
static void take_owner(struct token_store *store) {
    struct stat status;
    bool is_root = geteuid() == 0 && fstat(store->directory, &status) == 0;
    store->owner = is_root ? status.st_uid : geteuid();
    store->group = is_root ? status.st_gid : getegid();
}

static int lock_directory(struct token_store *store) {
    char parent[PATH_SIZE];
    const char *slash = strrchr(store->path, '/');
    size_t size = slash == NULL ? 0 : slash == store->path ? 1 : (size_t)(slash - store->path);
    if (size >= sizeof parent) return refused(store->path, "used", ENAMETOOLONG);
    snprintf(parent, sizeof parent, "%.*s", slash == NULL ? 1 : (int)size, slash == NULL ? "." : store->path);
    store->directory = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->directory < 0) return refused(parent, "opened", errno);
    take_owner(store);
    while (flock(store->directory, LOCK_EX) != 0)
        if (errno != EINTR) return refused(parent, "locked", errno);
    return 0;
}

/* Checks that only the owner can use the file. Another user who can write it could add a token; one who can read it
 * could read the principals' names. */
static int check_mode(const char *path, const struct stat *status) {
    if (!S_ISREG(status->st_mode)) {
        tool_say("%s is not a regular file", path);
    } else if ((status->st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        tool_say("other users can use %s: run chmod 600 on it", path);
    } else if (status->st_uid != geteuid() && geteuid() != 0) {
        tool_say("%s belongs to another user (uid %u)", path, (unsigned)status->st_uid);
    } else if (status->st_size > TOKEN_FILE_SIZE_MAX) {
        tool_say("%s is larger than 4 MiB, so it is not a file of tokens", path);
    } else {
        return 0;
    }
    return EXIT_REFUSED;
}

static int read_all(int file, const char *path, size_t size, char *text) {
    for (size_t at = 0; at < size;) {
        ssize_t count = read(file, text + at, size - at);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return refused(path, "read", count < 0 ? errno : EIO);
        at += (size_t)count;
    }
    return 0;
}

static int read_file(struct token_store *store, int file) {
    struct stat status;
    char message[TOKEN_FILE_MESSAGE_SIZE];
    if (fstat(file, &status) != 0) return refused(store->path, "read", errno);
    int error = check_mode(store->path, &status);
    if (error != 0) return error;
    store->exists = true;
    store->owner = status.st_uid;
    store->group = status.st_gid;
    char *text = tool_alloc((size_t)status.st_size + 1);
    error = read_all(file, store->path, (size_t)status.st_size, text);
    if (error == 0 && token_file_parse(text, (size_t)status.st_size, &store->file, message) != 0) {
        tool_say("%s, %s", store->path, message);
        error = EXIT_REFUSED;
    }
    free(text);
    return error;
}

int token_store_open(struct token_store *store, const char *path, bool must_exist, bool writes) {
    *store = (struct token_store){.path = path, .directory = -1};
    int error = writes ? lock_directory(store) : 0;
    if (error != 0) return error;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) return errno == ENOENT && !must_exist ? 0 : refused(path, "opened", errno);
    error = read_file(store, file);
    close(file);
    return error;
}

/* Writes and syncs the new file. Returns 0 or errno. */
static int write_new(const struct token_store *store, const char *path, const char *text, size_t size) {
    /* A killed command may have left this file; no other command uses it, because the directory is locked. */
    (void)unlink(path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return errno;
    int error = 0;
    if ((store->owner != geteuid() || store->group != getegid()) && fchown(file, store->owner, store->group) != 0)
        error = errno;
    for (size_t at = 0; error == 0 && at < size;) {
        ssize_t count = write(file, text + at, size - at);
        if (count < 0 && errno != EINTR) error = errno;
        if (count > 0) at += (size_t)count;
    }
    if (error == 0 && fsync(file) != 0) error = errno;
    if (close(file) != 0 && error == 0) error = errno;
    return error;
}

int token_store_write(const struct token_store *store) {
    char path[PATH_SIZE];
    size_t size = 0;
    if (snprintf(path, sizeof path, "%s.new", store->path) >= (int)sizeof path)
        return refused(store->path, "written", ENAMETOOLONG);
    char *text = token_file_format(&store->file, &size);
    if (text == NULL) return refused(store->path, "written", ENOMEM);
    int error = write_new(store, path, text, size);
    free(text);
    if (error == 0 && rename(path, store->path) != 0) error = errno;
    if (error != 0) (void)unlink(path);
    if (error == 0 && fsync(store->directory) != 0) error = errno;
    return error == 0 ? 0 : refused(store->path, "written", error);
}

void token_store_close(struct token_store *store) {
    token_file_deinit(&store->file);
    if (store->directory >= 0) close(store->directory);
    store->directory = -1;
}
