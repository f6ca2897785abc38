/* doctor_directory.c: checks a data directory, its disk, and the file of tokens. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "findings.h"
#include "identity.h"
#include "token_store.h"

#define MIB (1ull << 20)
/* The broker refuses new tasks when less than 64 MiB and one segment are free; the doctor warns below four times
 * that. */
#define FREE_FAIL_BYTES (128 * MIB)
#define FREE_WARN_BYTES (512 * MIB)
#define FREE_WARN_PER_CENT 5u
#define SYNCS 16u
#define SYNC_BYTES 4096u
#define SYNC_WARN_US 20000u
#define SYNC_FAIL_US 500000u
#define EXPIRES_SOON_S (14ll * 24 * 3600)

static void look_at_room(struct findings *findings, const char *directory) {
    struct statvfs status;
    if (statvfs(directory, &status) != 0) return;
    unsigned long long free = (unsigned long long)status.f_bavail * status.f_frsize;
    unsigned long long all = (unsigned long long)status.f_blocks * status.f_frsize;
    enum found found = free < FREE_FAIL_BYTES                                            ? FOUND_FAIL
                       : free < FREE_WARN_BYTES || free < all / 100 * FREE_WARN_PER_CENT ? FOUND_WARN
                                                                                         : FOUND_FINE;
    finding_add(findings, found, "disk", found == FOUND_FINE ? NULL : DISK_MEND, "%llu MiB of %llu MiB are free at %s",
                free / MIB, all / MIB, directory);
    if (status.f_files != 0 && status.f_favail < 1000)
        finding_add(findings, FOUND_FAIL, "disk", "delete files, or create a file system with more inodes",
                    "the file system has only %llu inodes left", (unsigned long long)status.f_favail);
    if (status.f_flag & ST_RDONLY)
        finding_add(findings, FOUND_FAIL, "disk", "mount it for writing", "%s is on a file system mounted read-only",
                    directory);
}

static void look_at_kind(struct findings *findings, const char *directory) {
    struct statfs status;
    if (statfs(directory, &status) != 0) return;
    switch ((unsigned long)status.f_type) {
    case TMPFS_MAGIC:
        finding_add(findings, FOUND_FAIL, "filesystem", "put the data directory on a disk",
                    "%s is in memory (tmpfs): all data are lost when the machine stops", directory);
        break;
    case NFS_SUPER_MAGIC:
    case 0xFF534D42: /* CIFS */
    case FUSE_SUPER_MAGIC:
        finding_add(findings, FOUND_FAIL, "filesystem", "put the data directory on a local disk",
                    "%s is on a network or user-space file system, whose sync and memory mapping are not safe for LMDB",
                    directory);
        break;
    case OVERLAYFS_SUPER_MAGIC:
        finding_add(findings, FOUND_WARN, "filesystem", "mount a volume there",
                    "%s is in the writable layer of a container, and is deleted with the container", directory);
        break;
    default:
        finding_add(findings, FOUND_FINE, "filesystem", NULL, "%s is on a local file system", directory);
    }
}

static int compare_us(const void *a, const void *b) {
    unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;
    return (x > y) - (x < y);
}

/* Measures the duration of a sync with an unnamed file, which leaves nothing behind. */
static void look_at_syncs(struct findings *findings, const char *directory) {
    unsigned long long took_us[SYNCS];
    char block[SYNC_BYTES] = {0};
    int fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) {
        finding_add(findings, FOUND_WARN, "sync", "run this command as the broker's user or root",
                    "the duration of a sync cannot be measured: %s", strerror(errno));
        return;
    }
    for (size_t i = 0; i < SYNCS; i++) {
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block || fdatasync(fd) != 0) {
            finding_add(findings, FOUND_FAIL, "sync", "read the kernel's log: the disk fails, or is full",
                        "a write and its sync failed: %s", strerror(errno));
            close(fd);
            return;
        }
        clock_gettime(CLOCK_MONOTONIC, &after);
        took_us[i] = (unsigned long long)(after.tv_sec - before.tv_sec) * 1000000u +
                     (unsigned long long)((after.tv_nsec - before.tv_nsec) / 1000);
    }
    close(fd);
    qsort(took_us, SYNCS, sizeof *took_us, compare_us);
    unsigned long long median = took_us[SYNCS / 2], most = took_us[SYNCS - 1];
    enum found found = median >= SYNC_FAIL_US ? FOUND_FAIL : median >= SYNC_WARN_US ? FOUND_WARN : FOUND_FINE;
    finding_add(findings, found, "sync",
                found == FOUND_FINE ? NULL : "use a separate disk with a write cache that survives a power failure",
                "a write and its sync take %llu µs (the median of %u; %llu at most)", median, SYNCS, most);
}

static void look_at_owner(struct findings *findings, const char *directory, const struct stat *status) {
    if ((status->st_mode & 0022) != 0)
        finding_add(findings, FOUND_FAIL, "directory", "run chmod go-w on it", "other users can write into %s",
                    directory);
    if (geteuid() != 0 && status->st_uid != geteuid())
        finding_add(findings, FOUND_WARN, "directory", "run this command as the broker's user or root",
                    "%s belongs to another user, so this command cannot check all of it", directory);
}

/* Returns whether a broker runs on the directory: then it holds a lock on the file DIR/lock. */
static bool look_at_lock(struct findings *findings, const char *directory) {
    char path[4200];
    snprintf(path, sizeof path, "%s/lock", directory);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT)
            finding_add(findings, FOUND_FINE, "lock", NULL, "no broker has ever run on it");
        else
            finding_add(findings, FOUND_WARN, "lock", "run this command as the broker's user or root", "%s: %s", path,
                        strerror(errno));
        return false;
    }
    struct flock lock = {.l_type = F_WRLCK,
                         /* F_OFD_GETLK only tests the lock, so this command does not keep a broker out. */
                         .l_whence = SEEK_SET};
    bool is_free = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    close(fd);
    finding_add(findings, FOUND_FINE, "lock", NULL, is_free ? "no broker runs on it" : "a broker runs on it");
    return !is_free;
}

bool doctor_directory(struct findings *findings, const char *directory) {
    struct stat status;
    if (stat(directory, &status) != 0) {
        finding_add(findings, FOUND_FAIL, "directory", "give the data directory (tarryd --data)", "%s: %s", directory,
                    strerror(errno));
        return false;
    }
    struct identity identity;
    char message[IDENTITY_MESSAGE_SIZE];
    int result = identity_read(directory, &identity, message);
    if (result == 0)
        finding_add(findings, FOUND_FINE, "directory", NULL, "%s is a broker's data directory", directory);
    else
        finding_add(findings, FOUND_FAIL, "directory", "give the data directory (tarryd --data), or restore a backup",
                    "%s: %s", directory,
                    result == 1 ? message : "the directory has no identity file, so it is not a data directory");
    if (directory_is_partial(directory))
        finding_add(findings, FOUND_FAIL, "directory", "run the `tarry backup` that made it once more",
                    "%s is an unfinished copy", directory);
    look_at_owner(findings, directory, &status);
    bool is_running = look_at_lock(findings, directory);
    look_at_room(findings, directory);
    look_at_kind(findings, directory);
    look_at_syncs(findings, directory);
    return is_running;
}

void doctor_tokens(struct findings *findings, const char *path, bool must_exist) {
    struct token_store store;
    struct stat status;
    if (stat(path, &status) != 0) {
        bool is_unused = errno == ENOENT && !must_exist;
        if (is_unused)
            finding_add(findings, FOUND_FINE, "tokens", NULL,
                        "the file %s does not exist, so no client can use a token", path);
        else
            finding_add(findings, FOUND_FAIL, "tokens",
                        errno == ENOENT ? "create it with `tarry token add`"
                                        : "run this command as the broker's user or root",
                        "%s: %s", path, strerror(errno));
        return;
    }
    if ((status.st_mode & 0077) != 0)
        finding_add(findings, FOUND_FAIL, "tokens", "chmod 600", "other users can read or write %s", path);
    if (token_store_open(&store, path, true, false) != 0) { /* token_store_open has printed the reason */
        finding_add(findings, FOUND_FAIL, "tokens",
                    "correct it, or create it again with `tarry token`: a running broker still uses the earlier rows",
                    "%s is invalid, or cannot be read", path);
        return;
    }
    finding_add(findings, FOUND_FINE, "tokens", NULL, "%s has %zu principals", path, store.file.count);
    const long long now_s = (long long)time(NULL);
    for (size_t i = 0; i < store.file.count; i++) {
        const struct access_entry *entry = &store.file.entries[i];
        long long left_s = (long long)entry->expires_s - now_s;
        if (entry->expires_s == 0 || left_s > EXPIRES_SOON_S) continue;
        const char *mend = "revoke it, and add a new one (`tarry token`)";
        if (left_s <= 0)
            finding_add(findings, FOUND_FAIL, "tokens", mend, "%s has expired", entry->name);
        else
            finding_add(findings, FOUND_WARN, "tokens", mend, "%s expires in %lld days", entry->name, left_s / 86400);
    }
    token_store_close(&store);
}
