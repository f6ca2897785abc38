/* cmd_doctor.c: tarry doctor: checks a broker and its host, and says what to repair. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "findings.h"
#include "identity.h"
#include "json_out.h"
#include "output.h"
#include "table.h"
#include "tarry_limits.h"
#include "token_store.h"
#include "units.h"

/* ---- checks a data directory, its disk, and the file of tokens */

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
    struct flock lock = {
        .l_type = F_WRLCK,
        /* F_OFD_GETLK only asks whether the file is locked. Taking the lock could make a broker fail that starts now */
        .l_whence = SEEK_SET};
    bool is_free = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    close(fd);
    finding_add(findings, FOUND_FINE, "lock", NULL,
                is_free ? "no broker uses the data directory" : "a broker uses the data directory");
    return !is_free;
}

/* Checks a data directory and its disk: free space, duration of a sync, type of the file system. Returns whether a
 * broker runs on it. */
static bool doctor_directory(struct findings *findings, const char *directory) {
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

/* Checks a file of tokens. */
static void doctor_tokens(struct findings *findings, const char *path, bool must_exist) {
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
    if (token_store_open(&store, path, true, false) != 0) { /* the reason has already been printed */
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

/* ---- finds the process tarryd that has the lock file of a data directory open */

static bool is_tarryd(int process) {
    char name[32] = "";
    int fd = openat(process, "comm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t size = read(fd, name, sizeof name - 1);
    close(fd);
    return size > 0 && strcmp(name, "tarryd\n") == 0;
}

/* Returns whether the process has the file `wanted` open, as its descriptors in /proc show. */
static bool has_open(int process, const struct stat *wanted) {
    struct stat status;
    bool is_open = false;
    int fd = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *descriptors = fd < 0 ? NULL : fdopendir(fd);
    if (descriptors == NULL) {
        if (fd >= 0) close(fd);
        return false;
    }
    for (struct dirent *entry; !is_open && (entry = readdir(descriptors)) != NULL;)
        is_open = isdigit((unsigned char)entry->d_name[0]) && fstatat(fd, entry->d_name, &status, 0) == 0 &&
                  status.st_dev == wanted->st_dev && status.st_ino == wanted->st_ino;
    closedir(descriptors);
    return is_open;
}

/* Returns the process named tarryd that has DIRECTORY/lock open; 0: none, or it may not be inspected. */
static long doctor_broker_process(const char *directory) {
    char path[4200];
    struct stat lock;
    long found = 0;
    snprintf(path, sizeof path, "%s/lock", directory);
    DIR *processes = stat(path, &lock) == 0 ? opendir("/proc") : NULL;
    if (processes == NULL) return 0;
    for (struct dirent *entry; found == 0 && (entry = readdir(processes)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        int process = openat(dirfd(processes), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (process < 0) continue;
        if (is_tarryd(process) && has_open(process, &lock)) found = strtol(entry->d_name, NULL, 10);
        close(process);
    }
    closedir(processes);
    return found;
}

/* ---- checks this host's clock, and the limits of the broker's process */

/* Number of connections that tarryd serves at once if it has enough descriptors (net/door.h). */
#define DESCRIPTORS_WANTED (16384u + 256u)
#define DESCRIPTORS_LEAST 1024u
/* Size in bytes of memory that the broker must be able to lock: it keeps keys out of swap. */
#define LOCKED_LEAST (64u << 10)
#define YEAR_2024_MS 1704067200000ull
/* Error of the system clock in µs above which doctor warns. The kernel never reports more than 500,000 µs. */
#define OFFSET_WARN_US 100000

static void look_at_clock(struct findings *findings) {
    struct timex clock = {0};
    if (wall_ms() < YEAR_2024_MS) {
        finding_add(findings, FOUND_FAIL, "clock", "set the clock: absolute times depend on it",
                    "this host's clock is years in the past");
        return;
    }
    int state = adjtimex(&clock);
    if (state < 0) return;
    if (state == TIME_ERROR || (clock.status & STA_UNSYNC)) {
        finding_add(findings, FOUND_WARN, "clock",
                    "run chrony, ntpd or systemd-timesyncd (in a container: on its host)",
                    "no program synchronizes this host's clock");
        return;
    }
    long long offset_us = clock.status & STA_NANO ? clock.offset / 1000 : clock.offset;
    bool is_off = offset_us > OFFSET_WARN_US || offset_us < -OFFSET_WARN_US;
    finding_add(findings, is_off ? FOUND_WARN : FOUND_FINE, "clock",
                is_off ? "check the program that synchronizes the clock: chronyc tracking" : NULL,
                "the clock is synchronized, with an error of about %lld µs", offset_us);
}

/* Process whose limits are checked: the broker, if it runs and may be inspected; otherwise this process, because a
 * broker started from here would have the same limits. */
struct subject {
    char proc[32]; /* "/proc/123" */
    char name[48]; /* name of the process for messages */
};

/* Reads from /proc/N/limits the hard limit in the line that begins with `line`; RLIM_INFINITY: no limit. Returns false
 * if it cannot be read. */
static bool read_limit(const struct subject *subject, const char *line, rlim_t *out) {
    char path[64], text[256];
    bool is_found = false;
    snprintf(path, sizeof path, "%s/limits", subject->proc);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    while (!is_found && fgets(text, sizeof text, file) != NULL) {
        char hard[32];
        if (strncmp(text, line, strlen(line)) != 0 || sscanf(text + strlen(line), "%*s %31s", hard) != 1) continue;
        *out = strcmp(hard, "unlimited") == 0 ? RLIM_INFINITY : strtoull(hard, NULL, 10);
        is_found = true;
    }
    fclose(file);
    return is_found;
}

static enum found judge(rlim_t limit, rlim_t least, rlim_t wanted) {
    return limit < least ? FOUND_FAIL : limit < wanted ? FOUND_WARN : FOUND_FINE;
}

static void look_at_descriptors(struct findings *findings, const struct subject *subject) {
    rlim_t limit;
    if (!read_limit(subject, "Max open files", &limit)) return;
    enum found found = judge(limit, DESCRIPTORS_LEAST, DESCRIPTORS_WANTED);
    if (limit == RLIM_INFINITY)
        finding_add(findings, FOUND_FINE, "limits", NULL, "%s may open any number of file descriptors", subject->name);
    else
        finding_add(findings, found, "limits",
                    found == FOUND_FINE ? NULL
                                        : "set LimitNOFILE=65536 in the unit, or run `ulimit -Hn 65536` before the "
                                          "broker: each connection uses one",
                    "%s may open %llu file descriptors", subject->name, (unsigned long long)limit);
}

static void look_at_locked_memory(struct findings *findings, const struct subject *subject) {
    rlim_t limit;
    char size[UNITS_TEXT_SIZE];
    if (!read_limit(subject, "Max locked memory", &limit)) return;
    enum found found = judge(limit, LOCKED_LEAST, LOCKED_LEAST);
    if (limit == RLIM_INFINITY)
        finding_add(findings, FOUND_FINE, "limits", NULL, "%s may lock any amount of memory", subject->name);
    else
        finding_add(findings, found, "limits",
                    found == FOUND_FINE ? NULL
                                        : "set LimitMEMLOCK=1M in the unit: locked memory keeps keys out of swap space",
                    "%s may lock %s of memory", subject->name, size_format(limit, size));
}

/* Reads the text of a small file, without its line end. False: it cannot be read. */
static bool read_line(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool is_read = fgets(out, (int)size, file) != NULL;
    fclose(file);
    if (is_read) out[strcspn(out, "\n")] = 0;
    return is_read;
}

/* Checks the memory limit of cgroup v2: the lowest one of the process's group and its parent groups. */
static void look_at_cgroup(struct findings *findings, const struct subject *subject) {
    char line[1024] = "", path[2048], value[64];
    unsigned long long least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/cgroup", subject->proc);
    if (!read_line(path, line, sizeof line) || strncmp(line, "0::", 3) != 0) return;
    char *group = line + 3;
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", strcmp(group, "/") == 0 ? "" : group);
        if (read_line(path, value, sizeof value) && strcmp(value, "max") != 0) {
            unsigned long long bytes = strtoull(value, NULL, 10);
            if (bytes < least) least = bytes;
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL || slash == group) break;
        *slash = 0;
    }
    if (least == UINT64_MAX) {
        finding_add(findings, FOUND_FINE, "memory", NULL, "no cgroup limits the memory of %s", subject->name);
        return;
    }
    bool is_small = least < 2 * MEMORY_DEFAULT;
    finding_add(findings, is_small ? FOUND_WARN : FOUND_FINE, "memory",
                is_small
                    ? "give the group more memory (MemoryMax=), or tarryd less (--memory): tarryd uses up to twice that"
                    : NULL,
                "the cgroup of %s may use %llu MiB", subject->name, least >> 20);
}

/* Checks this host's clock, and the limits of the broker on `directory`: descriptors, locked memory, memory of the
 * cgroup. If no broker runs there (`is_running` false), checks the limits of a process that is started from here. */
static void doctor_host(struct findings *findings, const char *directory, bool is_running) {
    struct subject subject = {.proc = "/proc/self", .name = "a process started here"};
    long process = is_running ? doctor_broker_process(directory) : 0;
    look_at_clock(findings);
    if (is_running && process == 0) {
        finding_add(findings, FOUND_WARN, "limits", "run this command as the broker's user or root, on its host",
                    "the broker's process is not visible, so its limits cannot be checked");
        return;
    }
    if (process != 0) {
        snprintf(subject.proc, sizeof subject.proc, "/proc/%ld", process);
        snprintf(subject.name, sizeof subject.name, "the broker (process %ld)", process);
    }
    look_at_descriptors(findings, &subject);
    look_at_locked_memory(findings, &subject);
    look_at_cgroup(findings, &subject);
}

/* ---- the command */

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"data", ARG_VALUE, "DIR",
     "data directory on this host to check; no broker is asked then, unless\n--broker is given"},
    {"tokens", ARG_VALUE, "FILE", "file of tokens, if it is not in DIR"},
    {"certificate", ARG_MANY, "FILE", "certificate that the broker shows or trusts; may be repeated"},
    {0},
};

const struct command command_doctor = {
    .name = "doctor",
    .usage = "[--data DIR] [--tokens FILE] [--certificate FILE]…",
    .summary = "check a broker, its disk, clock, limits and files; say what to repair",
    .text = "Asks each broker that --broker names for its role, problems, clock, memory, disk, sync times and\n"
            "archive. For a pair it also checks that one node leads and the other is in sync.\n\n"
            "With --data DIR it checks that directory on this host, with or without a running broker: free disk\n"
            "space, the type of the file system, how long a sync takes (it writes 64 KiB into an unnamed file),\n"
            "the file of tokens and which of them expire soon, the host's clock, and the limits of the broker's\n"
            "process: descriptors, locked memory, memory of the cgroup. If no broker runs, it checks its own\n"
            "limits. It changes nothing.\n\n"
            "The exit status is 0 if there is nothing worse than a warning, and 1 if something is wrong. --json\n"
            "prints one object for each finding: check, result (fine, warning or wrong), what, mend.",
    .options = options,
    .positional_max = 0,
    .examples = "tarry doctor\n"
                "tarry doctor --broker ws://a:7272,ws://b:7272\n"
                "tarry doctor --data /var/lib/tarry/main --certificate /etc/tarry/tls.crt --json",
    .run = run,
};

void finding_add(struct findings *findings, enum found found, const char *check, const char *mend, const char *format,
                 ...) {
    if (findings->count == findings->capacity) {
        size_t capacity = findings->capacity == 0 ? 32 : findings->capacity * 2;
        struct finding *grown = realloc(findings->items, capacity * sizeof *grown);
        if (grown == NULL) return; /* without memory, omit this finding; the tool will soon end for lack of memory */
        findings->items = grown;
        findings->capacity = capacity;
    }
    struct finding *finding = &findings->items[findings->count++];
    *finding = (struct finding){.found = found, .check = check};
    if (mend != NULL) snprintf(finding->mend, sizeof finding->mend, "%s", mend);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->what, sizeof finding->what, format, arguments);
    va_end(arguments);
}

static void findings_deinit(struct findings *findings) {
    free(findings->items);
    *findings = (struct findings){0};
}

static const char *found_name(enum found found) {
    return found == FOUND_FAIL ? "wrong" : found == FOUND_WARN ? "warning" : "fine";
}

static void print_json(struct text *out, const struct finding *finding) {
    out_begin(out, '{');
    out_text(out, "check", finding->check);
    out_text(out, "result", found_name(finding->found));
    out_text(out, "what", finding->what);
    out_text(out, "mend", finding->mend[0] != 0 ? finding->mend : NULL);
    out_line_end(out);
}

static void print_words(struct text *out, const struct finding *finding) {
    const enum style style = finding->found == FOUND_FAIL   ? STYLE_BAD
                             : finding->found == FOUND_WARN ? STYLE_WARNING
                                                            : STYLE_GOOD;
    text_printf(out, "%s%-8s%s%-12s ", style_begin(STDOUT_FILENO, style), found_name(finding->found),
                style_end(STDOUT_FILENO), finding->check);
    for (const char *at = finding->what; *at != 0; at++)
        text_add_char(out, (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at);
    text_add_char(out, '\n');
    if (finding->mend[0] != 0) text_printf(out, "%21s%s\n", "→ ", finding->mend);
}

static int print(const struct tool *tool, const struct findings *findings) {
    struct text out = {0};
    size_t warnings = 0, wrong = 0;
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        if (tool->json)
            print_json(&out, finding);
        else
            print_words(&out, finding);
        warnings += finding->found == FOUND_WARN;
        wrong += finding->found == FOUND_FAIL;
    }
    int status = output_flush(&out, wrong > 0 ? EXIT_REFUSED : EXIT_FINE);
    text_deinit(&out);
    if (!tool->json)
        tool_say("%zu checks, %zu %s, %zu wrong", findings->count, warnings, warnings == 1 ? "warning" : "warnings",
                 wrong);
    return status;
}

static int run(struct tool *tool, const struct args *args) {
    struct findings findings = {0};
    const char *data = args_get(args, "data"), *tokens = args_get(args, "tokens");
    bool asks_broker = data == NULL || tool->broker != NULL;
    int status = EXIT_FINE;
    if (data != NULL) {
        char beside[4096];
        if (snprintf(beside, sizeof beside, "%s/tokens", data) >= (int)sizeof beside)
            return tool_usage(args, "--data: the name is too long");
        bool is_running = doctor_directory(&findings, data);
        doctor_tokens(&findings, tokens != NULL ? tokens : beside, tokens != NULL);
        doctor_host(&findings, data, is_running);
    } else if (tokens != NULL) {
        doctor_tokens(&findings, tokens, true);
    }
    for (size_t i = 0; i < args->many_count; i++) doctor_certificate(&findings, args->many[i].value);
    tool->follower_reads = true; /* also asks a follower, whose disk and clock are checked too */
    if (asks_broker) status = doctor_brokers(&findings, tool);
    if (status == EXIT_FINE) status = print(tool, &findings);
    findings_deinit(&findings);
    return status;
}
