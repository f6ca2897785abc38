/* archivist.c: see archivist.h. */
#include "archivist.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive_keep.h"
#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "fatal.h"
#include "log.h"
#include "log_disk.h"
#include "logfmt.h"

/* ---- counts */

static void archive_count_init(struct archive_count *count) {
    *count = (struct archive_count){0};
    pthread_mutex_init(&count->mutex, NULL);
}

void archive_count_read(struct archive_count *count, struct archive_numbers *out) {
    pthread_mutex_lock(&count->mutex);
    *out = count->numbers;
    pthread_mutex_unlock(&count->mutex);
}

static void take(struct archive_numbers *numbers, const struct archive_info *info) {
    if (numbers->segments == 0) numbers->oldest_ms = info->last_wall_ns / NS_PER_MS;
    numbers->segments++;
    numbers->bytes += info->bytes;
}

/* Counts all files. If the archive cannot be listed, the former numbers stay; an unreadable file is not counted. */
static void archive_count_survey(struct archive_count *count, const struct archive *archive) {
    struct archive_numbers numbers = {0};
    struct archive_holds holds;
    uint64_t *bases;
    size_t base_count;
    if (archive_list(archive, &bases, &base_count) != 0) return;
    if (archive_holds_read(archive, &holds) != 0) {
        free(bases);
        return;
    }
    for (size_t i = 0; i < base_count; i++) {
        struct archive_info info;
        const char *problem;
        bool all_held = false;
        if (archive_look(archive, bases[i], &info, &problem) != 0) continue;
        take(&numbers, &info);
        numbers.held += archive_held_by(&holds, &info, &all_held) != NULL || all_held;
    }
    archive_holds_free(&holds);
    free(bases);
    pthread_mutex_lock(&count->mutex);
    snprintf(numbers.failure, sizeof(numbers.failure), "%s", count->numbers.failure);
    count->numbers = numbers;
    pthread_mutex_unlock(&count->mutex);
}

/* Adds a new file of the archive to the numbers. */
static void archive_count_add(struct archive_count *count, const struct archive_info *info) {
    pthread_mutex_lock(&count->mutex);
    take(&count->numbers, info);
    pthread_mutex_unlock(&count->mutex);
}

/* Stores the reason why archiving fails; NULL: it works. */
static void archive_count_fail(struct archive_count *count, const char *sentence) {
    pthread_mutex_lock(&count->mutex);
    snprintf(count->numbers.failure, sizeof(count->numbers.failure), "%s", sentence != NULL ? sentence : "");
    pthread_mutex_unlock(&count->mutex);
}

/* ---- the archivist */

#define RETRY_NS 2000000000ull
#define SAY_NS 60000000000ull
#define PRUNE_NS 60000000000ull
/* Niceness of the thread. It is not the maximum, because the removal of segments from the log, and redactions, wait for
 * this thread. */
#define NICENESS 10

/* Error: the archive's directory is not mounted. The value differs from each errno and from the codes in
 * storage_codes.h. */
enum { NOT_MOUNTED = -30001 };

/* ---- the disk for writing: fails at a stop, and does not use the reserve */

static int64_t minded_pread(void *context, int handle, void *out, size_t size, uint64_t offset) {
    struct archivist *archivist = context;
    if (atomic_load(&archivist->stopping)) return -ECANCELED;
    return disk_posix.pread(NULL, handle, out, size, offset);
}

static int64_t minded_pwrite(void *context, int handle, const void *data, size_t size, uint64_t offset) {
    struct archivist *archivist = context;
    if (atomic_load(&archivist->stopping)) return -ECANCELED;
    if (archivist->is_same_disk && !disk_space_has(archivist->needs.disk_space, size)) return -ENOSPC;
    return disk_posix.pwrite(NULL, handle, data, size, offset);
}

int archivist_init(struct archivist *archivist, const struct archivist_needs *needs) {
    *archivist = (struct archivist){.needs = *needs, .on = needs->config->archiving && !needs->config->inspect};
    const char *given = needs->config->archive;
    int size = given[0] != '\0'
                   ? snprintf(archivist->directory, sizeof(archivist->directory), "%s", given)
                   : snprintf(archivist->directory, sizeof(archivist->directory), "%s/archive", needs->dir->path);
    if (size < 0 || (size_t)size + 64 > sizeof(archivist->directory)) return 1;
    archivist->archive = (struct archive){.disk = &disk_posix, .directory = archivist->directory};
    memcpy(archivist->archive.cluster, needs->dir->cluster, sizeof(archivist->archive.cluster));
    archivist->disk = disk_posix;
    archivist->disk.context = archivist;
    archivist->disk.pread = minded_pread;
    archivist->disk.pwrite = minded_pwrite;
    pthread_mutex_init(&archivist->mutex, NULL);
    pthread_mutex_init(&archivist->working, NULL);
    monotonic_cond_init(&archivist->changed);
    archive_count_init(&archivist->count);
    return 0;
}

bool archivist_has(struct archivist *archivist, uint64_t end) {
    return !archivist->on || end <= atomic_load(&archivist->done);
}

bool archivist_pause(struct archivist *archivist) {
    return pthread_mutex_trylock(&archivist->working) == 0;
}

void archivist_resume(struct archivist *archivist) {
    pthread_mutex_unlock(&archivist->working);
}

void archivist_want(struct archivist *archivist, uint64_t base) {
    pthread_mutex_lock(&archivist->mutex);
    archivist->wanted = base;
    pthread_cond_signal(&archivist->changed);
    pthread_mutex_unlock(&archivist->mutex);
}

/* ---- the archive's directory */

/* DIR/archived stores the directory in which this broker has written its name. If that directory is empty later, its
 * disk is not mounted. */
static void note_path(const struct archivist *archivist, char out[1100]) {
    snprintf(out, 1100, "%s/archived", archivist->needs.dir->path);
}

static bool is_noted(const struct archivist *archivist) {
    char path[1100], noted[ARCHIVE_PATH_SIZE] = "";
    note_path(archivist, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t size = read(fd, noted, sizeof(noted) - 1);
    close(fd);
    return size > 0 && strcmp(noted, archivist->directory) == 0;
}

/* Writes DIR/archived. It is not synced: a power failure can only lose the warning about a missing disk. */
static int note(const struct archivist *archivist) {
    char path[1100];
    note_path(archivist, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    int error = disk_write_all(&disk_posix, fd, archivist->directory, strlen(archivist->directory), 0);
    close(fd);
    return error;
}

static struct archive_owner us(const struct archivist *archivist) {
    struct archive_owner owner;
    memcpy(owner.cluster, archivist->needs.dir->cluster, sizeof(owner.cluster));
    memcpy(owner.member, archivist->needs.dir->member.id, sizeof(owner.member));
    return owner;
}

/* Returns LOG_FOREIGN if the archive is another broker's. An archive inside the data directory was copied with it, and
 * belongs to the copy. */
static int check_owner(const struct archivist *archivist) {
    struct archive_owner owner, own = us(archivist);
    int error = archive_owner_read(&archivist->archive, &owner);
    if (error != 0) return error;
    if (memcmp(owner.cluster, own.cluster, sizeof(own.cluster)) != 0) return LOG_FOREIGN;
    if (memcmp(owner.member, own.member, sizeof(own.member)) == 0) return 0;
    return archivist->needs.config->archive[0] == '\0' ? -ENOENT : LOG_FOREIGN;
}

/* Syncs the parent directory first, so that the archive's own name is durable. */
static int take_possession(struct archivist *archivist) {
    char parent[ARCHIVE_PATH_SIZE + 4];
    snprintf(parent, sizeof(parent), "%s/..", archivist->directory);
    int error = disk_posix.sync_directory(NULL, parent);
    /* -EACCES: this process may not open the parent, so another user has made the directory; continue. */
    if (error != 0 && error != -EACCES) return error;
    int lock = archive_lock(&archivist->archive);
    if (lock < 0) return lock;
    struct archive_owner owner = us(archivist);
    error = archive_owner_write(&archivist->archive, &owner);
    close(lock);
    return error;
}

/* Checks the owner of the directory. Returns -ENOENT if no broker owns it, for example because it is new or was copied.
 * Returns NOT_MOUNTED instead if this broker has used the directory before, because its disk is probably not mounted.
 * `is_new`: this start has made the default directory, so no disk is missing. */
static int check_ours(const struct archivist *archivist, bool is_new) {
    int error = check_owner(archivist);
    return error == -ENOENT && !is_new && is_noted(archivist) ? NOT_MOUNTED : error;
}

/* Checks that the archive's directory exists and is this broker's. Creates the default directory. Does not create a
 * configured directory: if its disk is not mounted, the new directory would be on another disk. */
static int check_place(struct archivist *archivist) {
    struct stat data, place;
    bool is_made = archivist->needs.config->archive[0] == '\0' && mkdir(archivist->directory, 0700) == 0;
    if (stat(archivist->directory, &place) != 0) return -errno;
    if (stat(archivist->needs.dir->path, &data) != 0) return -errno;
    archivist->is_same_disk = data.st_dev == place.st_dev;
    int error = check_ours(archivist, is_made);
    if (error == -ENOENT) error = take_possession(archivist);
    if (error == 0 && !archivist->swept) error = archive_sweep(&archivist->archive);
    if (error == 0) archivist->swept = true;
    if (error == 0 && !is_noted(archivist)) error = note(archivist);
    return error;
}

/* ---- log messages */

static const char *sentence(int error, const char *problem) {
    switch (error) {
    case NOT_MOUNTED:
        return "the directory is empty, although this broker has archived segments there: mount its disk. If you "
               "emptied the directory on purpose, delete the file `archived` in the data directory";
    case LOG_FOREIGN:
        return "the directory belongs to another broker; give each broker its own (--archive)";
    case -ENOENT:
        return "the directory does not exist; create it, or mount its disk";
    default:
        return problem != NULL ? problem : storage_error(error);
    }
}

int archivist_check(const struct archivist *archivist, const char **out_sentence) {
    bool is_new = archivist->needs.config->archive[0] == '\0' && access(archivist->directory, F_OK) != 0;
    int error = check_ours(archivist, is_new);
    if (error == -ENOENT) error = 0;
    if (error == LOG_FOREIGN) error = ARCHIVE_NOT_OURS;
    *out_sentence = error != 0 ? sentence(error, NULL) : NULL;
    return error;
}

static void say_failure(struct archivist *archivist, uint64_t base, int error, const char *problem) {
    char quoted[2][LOGFMT_VALUE_SIZE];
    uint64_t now_ns = monotonic_ns();
    archive_count_fail(&archivist->count, sentence(error, problem));
    if (error == archivist->error && now_ns - archivist->said_ns < SAY_NS) return;
    archivist->error = error;
    archivist->said_ns = now_ns;
    logfmt("archive_failed",
           "archive=%s base=%" PRIu64 " reason=%s action=\"the segment stays in the log; the broker tries again\"",
           logfmt_quote(archivist->directory, quoted[0]), base, logfmt_quote(sentence(error, problem), quoted[1]));
}

static void say_done(struct archivist *archivist, const struct archive_info *info, uint64_t took_ns) {
    if (archivist->error != 0) logfmt("archive_resumed", "base=%" PRIu64, info->base);
    archivist->error = 0;
    archive_count_fail(&archivist->count, NULL);
    archive_count_add(&archivist->count, info);
    logfmt("segment_archived",
           "base=%" PRIu64 " end=%" PRIu64 " records=%" PRIu64 " bytes=%" PRIu64 " took_ms=%" PRIu64, info->base,
           info->end, info->records, info->bytes, took_ns / NS_PER_MS);
}

/* ---- the work */

/* Returns whether the segment is now in the archive. */
static bool archive_segment(struct archivist *archivist, uint64_t base) {
    const struct archivist_needs *needs = &archivist->needs;
    struct archive archive = archivist->archive;
    struct archive_info info;
    const char *problem = NULL;
    uint64_t from_ns = monotonic_ns();
    archive.disk = &archivist->disk;
    int error = check_place(archivist);
    if (error == 0)
        error = archive_store(&archive, archivist->log, base, (int)needs->config->archive_level, &info, &problem);
    if (error == -ECANCELED) return false;
    if (error != 0) {
        say_failure(archivist, base, error, problem);
        return false;
    }
    say_done(archivist, &info, monotonic_ns() - from_ns);
    atomic_store(&archivist->done, info.end);
    needs->archived(needs->context);
    return true;
}

static void say_pruned(void *argument, const struct archive_info *info) {
    logfmt("archive_pruned", "base=%" PRIu64 " end=%" PRIu64 " bytes=%" PRIu64, info->base, info->end, info->bytes);
}

/* Applies the retention. After an error it is tried again later. */
static void prune(struct archivist *archivist) {
    const struct config *config = archivist->needs.config;
    uint64_t now_ns = clock_now(archivist->needs.clock, NULL).wall_ns,
             age_ns = config->retain_archive_age_ms * NS_PER_MS;
    struct archive_limits limits = {
        .before_wall_ns = config->retain_archive_age_ms != 0 && now_ns > age_ns ? now_ns - age_ns : 0,
        .bytes_max = config->retain_archive_size != 0 ? config->retain_archive_size : UINT64_MAX,
    };
    struct archive_pruning pruning;
    archivist->pruned_ns = monotonic_ns();
    if (limits.before_wall_ns == 0 && limits.bytes_max == UINT64_MAX) return;
    /* Prune nothing in a directory that is not this broker's archive, such as an empty mount point. */
    if (check_owner(archivist) != 0) return;
    int lock = archive_lock(&archivist->archive);
    if (lock < 0) return;
    int error = archive_prune(&archivist->archive, &limits, false, say_pruned, NULL, &pruning);
    close(lock);
    if (pruning.files > 0) archivist->surveyed_ns = 0;
    if (error != 0 && error != -ENOENT) logfmt("archive_unpruned", "reason=\"%s\"", storage_error(error));
}

static void survey(struct archivist *archivist) {
    if (archivist->surveyed_ns != 0 && monotonic_ns() - archivist->surveyed_ns < PRUNE_NS) return;
    archive_count_survey(&archivist->count, &archivist->archive);
    archivist->surveyed_ns = monotonic_ns();
}

/* Waits at most `wait_ns` for a requested segment. Returns its base; 0: none. */
static uint64_t take_wanted(struct archivist *archivist, uint64_t wait_ns) {
    struct timespec until = monotonic_after(wait_ns);
    int error = 0;
    pthread_mutex_lock(&archivist->mutex);
    while (archivist->wanted == 0 && !atomic_load(&archivist->stopping) && error == 0)
        error = pthread_cond_timedwait(&archivist->changed, &archivist->mutex, &until);
    uint64_t base = archivist->wanted;
    archivist->wanted = 0;
    pthread_mutex_unlock(&archivist->mutex);
    return base;
}

static void *archivist_run(void *argument) {
    struct archivist *archivist = argument;
    uint64_t base = 0; /* base of the segment that was requested and is not archived yet; 0: none */
    /* On Linux, a thread id makes setpriority affect this thread only. */
    if (setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS) != 0)
        logfmt("priority_unchanged", "thread=tarry-archive reason=\"%s\"", strerror(errno));
    survey(archivist);
    while (!atomic_load(&archivist->stopping)) {
        uint64_t wanted = take_wanted(archivist, base != 0 ? RETRY_NS : PRUNE_NS);
        if (wanted != 0) base = wanted;
        pthread_mutex_lock(&archivist->working);
        if (base != 0 && archive_segment(archivist, base)) base = 0;
        if (monotonic_ns() - archivist->pruned_ns >= PRUNE_NS || base == 0) prune(archivist);
        survey(archivist);
        pthread_mutex_unlock(&archivist->working);
    }
    return NULL;
}

/* Logs a missing archive at the start. Otherwise only a retirement would notice it, perhaps weeks later. */
static void look_at_place(const struct archivist *archivist) {
    char place[ARCHIVE_PATH_SIZE + 4], quoted[LOGFMT_VALUE_SIZE];
    snprintf(place, sizeof(place), "%s/.", archivist->directory);
    if (archivist->needs.config->archive[0] == '\0' || access(place, W_OK | X_OK) == 0) return;
    const char *reason = errno == ENOENT ? sentence(-ENOENT, NULL) : strerror(errno);
    logfmt("archive_absent", "archive=%s reason=\"%s\" action=\"segments stay in the log until the archive is usable\"",
           logfmt_quote(archivist->directory, quoted), reason);
}

void archivist_start(struct archivist *archivist, struct log *log) {
    archivist->log = log;
    if (!archivist->on) return;
    look_at_place(archivist);
    thread_start(&archivist->thread, "tarry-archive", archivist_run, archivist);
}

void archivist_stop(struct archivist *archivist) {
    if (!archivist->on) return;
    atomic_store(&archivist->stopping, true);
    pthread_mutex_lock(&archivist->mutex);
    pthread_cond_signal(&archivist->changed);
    pthread_mutex_unlock(&archivist->mutex);
    pthread_join(archivist->thread, NULL);
}
