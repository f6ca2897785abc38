/* boot.c: see boot.h. */
#include "boot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define TIME_NAMESPACE_PATH "/proc/self/ns/time"
#define BOOT_ID_SIZE 36
#define NAME_SIZE 128
#define NOTE_SIZE (NAME_SIZE + 32)
#define PATH_SIZE 1200

/* Reads a file as a string; empty if it cannot be read. */
static void read_text(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, out, size - 1);
    if (fd >= 0) close(fd);
    out[got > 0 ? got : 0] = '\0';
}

/* Makes a name that is unique to this boot and time namespace: BOOTTIME differs between time namespaces. */
static bool boot_name(char out[NAME_SIZE]) {
    char id[BOOT_ID_SIZE + 1], space[64];
    read_text(BOOT_ID_PATH, id, sizeof(id));
    ssize_t got = readlink(TIME_NAMESPACE_PATH, space, sizeof(space) - 1);
    space[got > 0 ? got : 0] = '\0';
    snprintf(out, NAME_SIZE, "%s %s", id, space);
    return strlen(id) == BOOT_ID_SIZE;
}

uint64_t boot_recall(const char *directory) {
    char path[PATH_SIZE], name[NAME_SIZE], note[NOTE_SIZE], expected[NOTE_SIZE];
    uint64_t steady_ns;
    snprintf(path, sizeof(path), "%s/boot", directory);
    read_text(path, note, sizeof(note));
    if (!boot_name(name) || strncmp(note, name, strlen(name)) != 0) return 0;
    if (sscanf(note + strlen(name), " %" SCNu64, &steady_ns) != 1) return 0;
    snprintf(expected, sizeof(expected), "%s %" PRIu64 "\n", name, steady_ns);
    return strcmp(note, expected) == 0 ? steady_ns : 0;
}

int boot_note(const char *directory, uint64_t steady_ns) {
    char path[PATH_SIZE], fresh[PATH_SIZE], name[NAME_SIZE];
    if (!boot_name(name)) return 0;
    snprintf(path, sizeof(path), "%s/boot", directory);
    snprintf(fresh, sizeof(fresh), "%s/boot.new", directory);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : 0;
    if (error == 0 && dprintf(fd, "%s %" PRIu64 "\n", name, steady_ns) < 0) error = errno;
    if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && rename(fresh, path) != 0) error = errno;
    if (error != 0) (void)unlink(path);
    return error;
}
