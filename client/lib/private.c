/* private.c: see private.h. */
#include "private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHERS 077u

static_assert(PEM_FILE_MAX == 1048576, "the message below states this limit");

/* Returns why the file may not be read, to be placed after its name; NULL: it may be read. */
static const char *judge(const struct stat *status) {
    if (!S_ISREG(status->st_mode)) return "is not a regular file";
    return status->st_size > (off_t)PEM_FILE_MAX ? "is larger than 1 MiB" : NULL;
}

bool pem_check(const char *path, const char *what, char *said, size_t size) {
    struct stat status;
    if (stat(path, &status) != 0) {
        snprintf(said, size, "%s %s cannot be read: %s", what, path, strerror(errno));
        return false;
    }
    const char *problem = judge(&status);
    if (problem != NULL) snprintf(said, size, "%s %s %s", what, path, problem);
    return problem == NULL;
}

/* Returns a descriptor of the file, or -1. */
static int open_private(const char *path, const char *what, char *said, size_t size) {
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0) {
        snprintf(said, size, "%s %s cannot be read: %s", what, path, strerror(errno));
    } else if (judge(&status) != NULL) {
        snprintf(said, size, "%s %s %s", what, path, judge(&status));
    } else if ((status.st_mode & OTHERS) != 0) {
        snprintf(said, size, "%s %s can be read by other users (mode %04o): run chmod 600 on it", what, path,
                 (unsigned)(status.st_mode & 07777));
    } else if (status.st_size == 0) {
        snprintf(said, size, "%s %s is empty", what, path);
    } else {
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

bool private_check(const char *path, const char *what, char *said, size_t size) {
    const int fd = open_private(path, what, said, size);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

bool private_read_token(const char *path, char out[TOKEN_SIZE_MAX + 1], char *said, size_t size) {
    static const char what[] = "the token file";
    char text[TOKEN_SIZE_MAX + 3];
    const int fd = open_private(path, what, said, size);
    if (fd < 0) return false;
    const ssize_t took = read(fd, text, sizeof(text));
    close(fd);
    size_t length = took > 0 ? (size_t)took : 0;
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r')) length--;
    bool is_word = length > 0 && length <= TOKEN_SIZE_MAX;
    for (size_t i = 0; i < length && is_word; i++) is_word = text[i] > ' ' && text[i] < 127;
    if (is_word) {
        memcpy(out, text, length);
        out[length] = 0;
    } else {
        snprintf(said, size, "%s %s contains no token: it must have one word of at most %u characters", what, path,
                 TOKEN_SIZE_MAX);
    }
    explicit_bzero(text, sizeof(text));
    return is_word;
}
