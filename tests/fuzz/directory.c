/* directory.c: see directory.h. */
#include "directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../must.h"
#include "archive.h"
#include "bytes.h"
#include "log.h"

#define FRAMES 60
#define FRAMES_ARCHIVED 120 /* number of frames in the log if a part of it is archived */
#define FRAMES_AHEAD 6      /* number of frames that the index has not absorbed */
#define FRAMES_RETIRED 12
#define RECORDS_MAX 5

static struct directory *the_one;

static void path_of(const struct directory *directory, const char *name, char out[160]) {
    snprintf(out, 160, "%s/%s", directory->path, name);
}

static void write_file(const struct directory *directory, const char *name, const uint8_t *data, size_t size) {
    char path[160];
    path_of(directory, name, path);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    MUST(file >= 0);
    MUST(size == 0 || write(file, data, size) == (ssize_t)size);
    close(file);
}

static void write_identity(struct directory *directory) {
    uint8_t bytes[72] = "TARRYID1", *at = put_u32(bytes + 8, FORMAT_VERSION);
    memcpy(directory->cluster, "a small cluster.", sizeof(directory->cluster));
    put_u32(at, 0);
    memcpy(bytes + 16, directory->cluster, sizeof(directory->cluster));
    memset(bytes + 32, 0x5e, 32);
    put_u64(bytes + 64, frame_sum(bytes, 64));
    write_file(directory, "identity", bytes, sizeof(bytes));
    write_file(directory, "lock", NULL, 0);
}

/* Moves the oldest segments into the archive. */
static void archive_log(struct directory *directory, struct log *log, size_t count) {
    char path[160];
    const char *problem;
    struct archive archive = {.disk = &disk_posix, .directory = path};
    path_of(directory, "archive", path);
    memcpy(archive.cluster, directory->cluster, sizeof(archive.cluster));
    MUST(mkdir(path, 0700) == 0);
    for (size_t i = 0; i < count; i++) {
        struct archive_info info;
        MUST(archive_store(&archive, log, log_start(log), 3, &info, &problem) == 0);
        MUST(log_retire(log, log_start(log)) == 0);
    }
    while (directory->world->frames[directory->frames_archived].header.position < log_start(log))
        directory->frames_archived++;
}

/* Appends the frames of index_world.h's history to the log, which computes their chain. */
static void write_log(struct directory *directory, size_t frames, size_t archived) {
    char path[160], message[512];
    path_of(directory, "log", path);
    struct log_options options = {.directory = path, .disk = &disk_posix, .segment_size = DIRECTORY_SEGMENT_SIZE};
    memcpy(options.cluster, directory->cluster, sizeof(options.cluster));
    struct log_recovery recovery;
    struct log *log;
    MUST(log_open(&log, &options, 0, &recovery, message, sizeof(message)) == 0);
    struct world *world = directory->world;
    for (size_t i = 0; i < frames; i++) {
        world_frame(world, RECORDS_MAX, i < frames / 2 ? 10 : 50);
        struct frame_header *header = &world->frames[i].header;
        uint8_t blob[WORLD_BLOB_SIZE];
        world_blob(header->position, blob);
        struct log_piece piece = {blob, header->blob_size};
        struct log_frame frame = {.type = FRAME_COMMIT,
                                  .epoch = 1,
                                  .position = header->position,
                                  .steady_ns = header->steady_ns,
                                  .wall_ns = header->wall_ns,
                                  .body = world->frames[i].body,
                                  .body_size = header->body_size,
                                  .pieces = &piece,
                                  .piece_count = header->blob_size > 0 ? 1 : 0};
        MUST(log_append(log, &frame) == 0);
        if (i % 4 == 3) MUST(log_sync(log) == 0);
        log_chain(log, header->chain);
    }
    MUST(log_sync(log) == 0);
    if (archived > 0) archive_log(directory, log, archived);
    log_close(log);
}

/* Absorbs the first `absorbed` frames into the index; the first `retired` of them are removed from the log. */
static void write_index(struct directory *directory, size_t absorbed, size_t retired) {
    char path[160], message[512];
    path_of(directory, "index", path);
    struct index_options options = {.directory = path,
                                    .memory = 1u << 20,
                                    .map_size = 4u << 20,
                                    .outcomes_max = 1000,
                                    .outcome_retention_ms = 1ull << 40,
                                    .no_sync = true};
    memcpy(options.cluster, directory->cluster, sizeof(options.cluster));
    struct world *world = directory->world;
    struct index *index;
    bool more = true;
    MUST(index_open(&index, &options, message, sizeof(message)) == 0);
    for (size_t i = 0; i < absorbed; i++) {
        MUST(world_absorb(world, i, index) == 0);
        if (i % 5 != 4 && i != absorbed - 1) continue;
        MUST(index_commit(index) == 0);
        MUST(index_maintain(index, &more) == 0);
        world->committed = i + 1;
    }
    if (retired > 0) {
        MUST(world_retire(world, retired, index) == 0);
        MUST(world_retired(world, retired, index) == 0);
    }
    index_close(index);
}

static void remember(struct directory *directory, const char *name) {
    char path[160];
    struct stat status;
    path_of(directory, name, path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    MUST(file >= 0 && fstat(file, &status) == 0 && directory->file_count < DIRECTORY_FILES_MAX);
    struct directory_file *out = &directory->files[directory->file_count++];
    snprintf(out->name, sizeof(out->name), "%s", name);
    out->size = (size_t)status.st_size;
    out->data = malloc(out->size + 1);
    MUST(out->data != NULL && read(file, out->data, out->size) == (ssize_t)out->size);
    close(file);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Reads every file of a directory whose name ends in `suffix`. */
static void remember_all(struct directory *directory, const char *below, const char *suffix) {
    char path[160], names[DIRECTORY_FILES_MAX][48];
    size_t count = 0;
    path_of(directory, below, path);
    DIR *list = opendir(path);
    if (list == NULL) return;
    // cppcheck-suppress readdirCalled ; one thread
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        size_t size = strlen(entry->d_name);
        if (size > strlen(suffix) && strcmp(entry->d_name + size - strlen(suffix), suffix) == 0 &&
            count < DIRECTORY_FILES_MAX)
            snprintf(names[count++], sizeof(names[0]), "%.8s/%.32s", below, entry->d_name);
    }
    closedir(list);
    qsort(names, count, sizeof(names[0]), compare_names);
    for (size_t i = 0; i < count; i++) remember(directory, names[i]);
}

static void remove_all(const char *path) {
    DIR *directory = opendir(path);
    // cppcheck-suppress readdirCalled ; one thread
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char below[400];
        if (entry->d_name[0] == '.') continue;
        snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
        if (unlink(below) != 0) remove_all(below);
    }
    if (directory != NULL) closedir(directory);
    rmdir(path);
}

static void forget_all(void) {
    remove_all(the_one->path);
}

static void begin(struct directory *directory, size_t frames, size_t archived) {
    const char *where = getenv("TMPDIR");
    MUST(the_one == NULL);
    snprintf(directory->path, sizeof(directory->path), "%.64s/tarry-fuzz-XXXXXX", where != NULL ? where : "/dev/shm");
    MUST(mkdtemp(directory->path) != NULL);
    the_one = directory;
    atexit(forget_all);
    directory->world = calloc(1, sizeof(*directory->world));
    MUST(directory->world != NULL);
    world_init(directory->world, 1);
    write_identity(directory);
    write_log(directory, frames, archived);
}

static void finish(struct directory *directory) {
    remember(directory, "identity");
    remember(directory, "index/data.mdb");
    remember_all(directory, "log", ".seg");
    remember_all(directory, "archive", ".zst");
}

void directory_make(struct directory *directory, bool retired) {
    begin(directory, FRAMES, 0);
    write_index(directory, FRAMES - FRAMES_AHEAD, retired ? FRAMES_RETIRED : 0);
    finish(directory);
}

void directory_make_archived(struct directory *directory, size_t segments) {
    begin(directory, FRAMES_ARCHIVED, segments);
    write_index(directory, directory->frames_archived, directory->frames_archived);
    finish(directory);
}

void directory_add(struct directory *directory, const char *name, const uint8_t *data, size_t size) {
    write_file(directory, name, data, size);
    remember(directory, name);
}

void directory_write(struct directory *directory, size_t file, const uint8_t *data, size_t size) {
    char path[160];
    path_of(directory, directory->files[file].name, path);
    directory->files[file].changed = true;
    if (data != NULL)
        write_file(directory, directory->files[file].name, data, size);
    else
        unlink(path);
}

void directory_restore(struct directory *directory) {
    for (size_t i = 0; i < directory->file_count; i++) {
        struct directory_file *file = &directory->files[i];
        if (file->changed) write_file(directory, file->name, file->data, file->size);
        file->changed = false;
    }
}
