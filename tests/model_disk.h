/* model_disk.h: a disk in memory that loses everything that it may lose (F-3 to F-6).
 *
 * - A crash may lose unsynced writes, sector by sector and in any order, also within one write.
 * - A directory entry (made, renamed, deleted) may be lost until its directory is synced, each entry by itself. The
 *   same is true for the directory itself, with its contents, until its parent is synced.
 * - A failed sync drops a part of the waiting writes and does not report them again; reads still show them.
 * - Writes and reads may be short.
 * - A test can make the n-th changing call fail, and all later ones: the machine stopped there.
 *
 * All randomness comes from `seed`, so a history can be replayed. One thread at a time. Header only: each test has
 * its own copy. */
#ifndef TARRY_TESTS_MODEL_DISK_H
#define TARRY_TESTS_MODEL_DISK_H

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"

#define MODEL_SECTOR_SIZE 512u
#define MODEL_FILES_MAX 512
#define MODEL_HANDLES_MAX 512

struct model_write { /* a write that waits for a sync */
    uint64_t offset;
    size_t size;
    uint8_t *data;
};

struct model_file {
    uint8_t *cached; /* contents as reads return them */
    uint64_t cached_size;
    uint8_t *durable; /* contents that survive every crash */
    uint64_t durable_size;
    struct model_write *writes;
    size_t write_count, write_room;
};

struct model_entry {
    char name[64]; /* last component of the file's path; "": the slot is free */
    int file;
};

enum model_change_kind { MODEL_LINK, MODEL_RENAME, MODEL_UNLINK };
struct model_change { /* a change of a directory that waits for a sync */
    enum model_change_kind kind;
    char name[64];
    char to[64];
    int file;
};

struct model_disk {
    struct disk disk; /* the disk's functions, which the test passes to the log */
    uint64_t seed;
    bool short_io;         /* reads and writes may be short */
    uint64_t calls;        /* number of changing calls so far */
    uint64_t fail_at;      /* number of the call that fails, from 1; 0: none */
    int fail_error;        /* error of the failing call */
    bool fail_for_ever;    /* true: all calls after the failed one fail too */
    int read_error;        /* error of all reads; 0: reads succeed */
    uint64_t room;         /* total size of all files, in bytes; 0: no limit */
    void *owner;           /* for the use of a wrapper around these functions */
    bool directory_exists; /* true: the directory exists; there is only one */
    struct model_file files[MODEL_FILES_MAX];
    int file_count;
    int entry_end;                  /* all used entries have an index below this */
    int handles[MODEL_HANDLES_MAX]; /* for each handle: number of the open file + 1; 0: free */
    struct model_entry cached[MODEL_FILES_MAX];
    struct model_entry durable[MODEL_FILES_MAX];
    struct model_change *changes;
    size_t change_count, change_room;
    uint64_t datasyncs, syncs, directory_syncs;
    char directory[128];     /* path of the directory, if it was made in this history */
    bool directory_unsynced; /* true: the directory was made, and its parent has not been synced since then */
};

static inline uint64_t model_random(struct model_disk *model) {
    /* splitmix64 */
    uint64_t x = model->seed += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Counts a changing call. Returns the error if the call must fail, otherwise 0. */
static inline int model_call(struct model_disk *model) {
    model->calls++;
    if (model->fail_at == 0 || model->calls < model->fail_at) return 0;
    return model->calls == model->fail_at || model->fail_for_ever ? model->fail_error : 0;
}

static inline const char *model_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static inline struct model_entry *model_find(const struct model_disk *model, struct model_entry *entries,
                                             const char *name) {
    for (int i = 0; i < model->entry_end; i++)
        if (entries[i].name[0] && strcmp(entries[i].name, name) == 0) return &entries[i];
    return NULL;
}

static inline void model_change_apply(struct model_disk *model, struct model_entry *entries,
                                      const struct model_change *change) {
    struct model_entry *entry = model_find(model, entries, change->name);
    if (change->kind != MODEL_LINK && entry) entry->name[0] = 0;
    if (change->kind == MODEL_UNLINK) return;
    const char *name = change->kind == MODEL_LINK ? change->name : change->to;
    entry = model_find(model, entries, name);
    for (int i = 0; !entry && i < MODEL_FILES_MAX; i++)
        if (!entries[i].name[0]) entry = &entries[i];
    assert(entry);
    if (entry - entries >= model->entry_end) model->entry_end = (int)(entry - entries) + 1;
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    entry->file = change->file;
}

static inline void model_change_add(struct model_disk *model, enum model_change_kind kind, const char *name,
                                    const char *to, int file) {
    if (model->change_count == model->change_room) {
        model->change_room = model->change_room ? 2 * model->change_room : 16;
        model->changes = realloc(model->changes, model->change_room * sizeof(*model->changes));
        assert(model->changes);
    }
    struct model_change *change = &model->changes[model->change_count++];
    change->kind = kind;
    change->file = file;
    snprintf(change->name, sizeof(change->name), "%s", name);
    snprintf(change->to, sizeof(change->to), "%s", to ? to : "");
    model_change_apply(model, model->cached, change);
}

static inline void model_grow(uint8_t **data, uint64_t *size, uint64_t to) {
    if (to <= *size) return;
    *data = realloc(*data, to);
    assert(*data);
    memset(*data + *size, 0, to - *size);
    *size = to;
}

/* Makes a part of a waiting write durable. */
static inline void model_settle(struct model_file *file, const struct model_write *write, uint64_t from, uint64_t to) {
    if (from < write->offset) from = write->offset;
    if (to > write->offset + write->size) to = write->offset + write->size;
    if (from >= to) return;
    model_grow(&file->durable, &file->durable_size, to);
    memcpy(file->durable + from, write->data + (from - write->offset), to - from);
}

static inline void model_writes_drop(struct model_file *file) {
    for (size_t i = 0; i < file->write_count; i++) free(file->writes[i].data);
    file->write_count = 0;
}

static inline void model_file_sync(struct model_file *file) {
    for (size_t i = 0; i < file->write_count; i++) model_settle(file, &file->writes[i], 0, UINT64_MAX);
    model_writes_drop(file);
    model_grow(&file->durable, &file->durable_size, file->cached_size);
    file->durable_size = file->cached_size;
}

/* For each sector, a random number of the first writes that touch it survive. The later writes are lost. */
static inline void model_file_tear(struct model_disk *model, struct model_file *file) {
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < file->write_count; i++) {
        const struct model_write *write = &file->writes[i];
        if (write->offset < first) first = write->offset;
        if (write->offset + write->size > last) last = write->offset + write->size;
    }
    /* Choose how many unsynced writes of the file survive: sometimes nearly all, sometimes nearly none, sometimes half.
     */
    uint64_t odds = model_random(model) % 5;
    for (uint64_t sector = first == UINT64_MAX ? last : first / MODEL_SECTOR_SIZE * MODEL_SECTOR_SIZE; sector < last;
         sector += MODEL_SECTOR_SIZE) {
        size_t keep = file->write_count;
        if (model_random(model) % 4 >= odds) keep = model_random(model) % (file->write_count + 1);
        if (model_random(model) % 8 > 2 * odds) keep = 0;
        for (size_t i = 0; i < keep; i++) model_settle(file, &file->writes[i], sector, sector + MODEL_SECTOR_SIZE);
    }
    model_writes_drop(file);
}

static inline struct model_file *model_file(struct model_disk *model, int handle) {
    assert(handle >= 0 && handle < MODEL_HANDLES_MAX && model->handles[handle] > 0);
    return &model->files[model->handles[handle] - 1];
}

static inline bool model_file_is_named(const struct model_disk *model, int file) {
    for (int i = 0; i < model->entry_end; i++) {
        if (model->cached[i].name[0] && model->cached[i].file == file) return true;
        if (model->durable[i].name[0] && model->durable[i].file == file) return true;
    }
    for (size_t i = 0; i < model->change_count; i++)
        if (model->changes[i].file == file) return true;
    for (int i = 0; i < MODEL_HANDLES_MAX; i++)
        if (model->handles[i] == file + 1) return true;
    return false;
}

/* Makes a new, empty file; reuses the slot of a file without a name. */
static inline int model_file_new(struct model_disk *model) {
    if (model->file_count < MODEL_FILES_MAX) return model->file_count++;
    int file = 0;
    while (file < MODEL_FILES_MAX && model_file_is_named(model, file)) file++;
    assert(file < MODEL_FILES_MAX);
    struct model_file *old = &model->files[file];
    model_writes_drop(old);
    free(old->writes);
    free(old->cached);
    free(old->durable);
    *old = (struct model_file){0};
    return file;
}

static inline int model_open(void *context, const char *path, int flags, int mode) {
    struct model_disk *model = context;
    struct model_entry *entry = model_find(model, model->cached, model_name(path));
    int file = entry ? entry->file : -1;
    if (!entry) {
        if (!(flags & O_CREAT)) return -ENOENT;
        int error = model_call(model);
        if (error) return error;
        file = model_file_new(model);
        model_change_add(model, MODEL_LINK, model_name(path), NULL, file);
    }
    assert(!entry || !(flags & O_TRUNC) || model->files[file].cached_size == 0 || !"truncating a file that is there");
    for (int handle = 0; handle < MODEL_HANDLES_MAX; handle++) {
        if (model->handles[handle]) continue;
        model->handles[handle] = file + 1;
        return handle;
    }
    return -EMFILE;
}

static inline int model_close(void *context, int handle) {
    struct model_disk *model = context;
    model_file(model, handle);
    model->handles[handle] = 0;
    return 0;
}

static inline int64_t model_pread(void *context, int handle, void *out, size_t size, uint64_t offset) {
    struct model_disk *model = context;
    const struct model_file *file = model_file(model, handle);
    if (model->read_error) return model->read_error;
    if (offset >= file->cached_size) return 0;
    if (size > file->cached_size - offset) size = file->cached_size - offset;
    if (model->short_io && size > 1 && model_random(model) % 8 == 0) size = 1 + model_random(model) % (size - 1);
    memcpy(out, file->cached + offset, size);
    return (int64_t)size;
}

static inline uint64_t model_room_used(const struct model_disk *model) {
    uint64_t used = 0;
    for (int i = 0; i < model->entry_end; i++)
        if (model->cached[i].name[0]) used += model->files[model->cached[i].file].cached_size;
    return used;
}

static inline void model_write_add(struct model_file *file, const void *data, size_t size, uint64_t offset) {
    if (file->write_count == file->write_room) {
        file->write_room = file->write_room ? 2 * file->write_room : 16;
        file->writes = realloc(file->writes, file->write_room * sizeof(*file->writes));
        assert(file->writes);
    }
    uint8_t *copy = malloc(size ? size : 1);
    assert(copy);
    memcpy(copy, data, size);
    struct model_write *write = &file->writes[file->write_count++];
    write->offset = offset;
    write->size = size;
    write->data = copy;
    model_grow(&file->cached, &file->cached_size, offset + size);
    memcpy(file->cached + offset, data, size);
}

static inline int64_t model_pwrite(void *context, int handle, const void *data, size_t size, uint64_t offset) {
    struct model_disk *model = context;
    struct model_file *file = model_file(model, handle);
    int error = model_call(model);
    bool is_short = error || (model->short_io && model_random(model) % 8 == 0);
    if (is_short && size > 1) {
        size_t done = 1 + model_random(model) % (size - 1);
        /* A call that fails may still have done a part of its work. */
        if (!error || model_random(model) % 2) model_write_add(file, data, done, offset);
        return error ? error : (int64_t)done;
    }
    if (error) return error;
    if (model->room && offset + size > file->cached_size &&
        model_room_used(model) + (offset + size - file->cached_size) > model->room)
        return -ENOSPC;
    model_write_add(file, data, size, offset);
    return (int64_t)size;
}

static inline int model_sync_any(struct model_disk *model, int handle) {
    struct model_file *file = model_file(model, handle);
    int error = model_call(model);
    if (error) {
        model_file_tear(model, file);
        return error;
    }
    model_file_sync(file);
    return 0;
}

static inline int model_datasync(void *context, int handle) {
    struct model_disk *model = context;
    model->datasyncs++;
    return model_sync_any(model, handle);
}

static inline int model_sync(void *context, int handle) {
    struct model_disk *model = context;
    model->syncs++;
    return model_sync_any(model, handle);
}

static inline int model_allocate(void *context, int handle, uint64_t size) {
    struct model_disk *model = context;
    struct model_file *file = model_file(model, handle);
    int error = model_call(model);
    if (error) return error;
    if (model->room && model_room_used(model) + size > model->room) return -ENOSPC;
    assert(file->cached_size == 0);
    model_grow(&file->cached, &file->cached_size, size); /* after a crash without a sync, the file is empty */
    return 0;
}

static inline int64_t model_size(void *context, int handle) {
    return (int64_t)model_file(context, handle)->cached_size;
}

static inline int model_rename(void *context, const char *from, const char *to) {
    struct model_disk *model = context;
    int error = model_call(model);
    if (error) return error;
    struct model_entry *entry = model_find(model, model->cached, model_name(from));
    if (!entry) return -ENOENT;
    model_change_add(model, MODEL_RENAME, model_name(from), model_name(to), entry->file);
    return 0;
}

static inline int model_unlink(void *context, const char *path) {
    struct model_disk *model = context;
    int error = model_call(model);
    if (error) return error;
    if (!model_find(model, model->cached, model_name(path))) return -ENOENT;
    model_change_add(model, MODEL_UNLINK, model_name(path), NULL, -1);
    return 0;
}

static inline int model_sync_parent(struct model_disk *model) {
    int error = model_call(model);
    if (!error) model->directory_unsynced = false;
    return error;
}

static inline int model_sync_directory(void *context, const char *path) {
    struct model_disk *model = context;
    model->directory_syncs++;
    if (model->directory[0] && strcmp(path, model->directory) != 0) return model_sync_parent(model);
    int error = model_call(model);
    if (error) return error;
    for (size_t i = 0; i < model->change_count; i++) model_change_apply(model, model->durable, &model->changes[i]);
    model->change_count = 0;
    return 0;
}

static inline int model_list(void *context, const char *path, int (*each)(void *argument, const char *name),
                             void *argument) {
    struct model_disk *model = context;
    if (!model->directory_exists) return -ENOENT;
    for (int i = 0; i < model->entry_end; i++) {
        if (!model->cached[i].name[0]) continue;
        int result = each(argument, model->cached[i].name);
        if (result) return result;
    }
    return 0;
}

static inline int model_make_directory(void *context, const char *path, int mode) {
    struct model_disk *model = context;
    int error = model_call(model);
    if (error) return error;
    if (model->directory_exists) return -EEXIST;
    model->directory_exists = model->directory_unsynced = true;
    snprintf(model->directory, sizeof(model->directory), "%s", path);
    return 0;
}

static inline struct model_disk *model_new(uint64_t seed) {
    struct model_disk *model = calloc(1, sizeof(*model));
    assert(model);
    model->seed = seed;
    model->disk = (struct disk){
        .context = model,
        .open = model_open,
        .close = model_close,
        .pread = model_pread,
        .pwrite = model_pwrite,
        .datasync = model_datasync,
        .sync = model_sync,
        .allocate = model_allocate,
        .size = model_size,
        .rename = model_rename,
        .unlink = model_unlink,
        .sync_directory = model_sync_directory,
        .list = model_list,
        .make_directory = model_make_directory,
    };
    return model;
}

static inline void model_free(struct model_disk *model) {
    for (int i = 0; i < model->file_count; i++) {
        model_writes_drop(&model->files[i]);
        free(model->files[i].writes);
        free(model->files[i].cached);
        free(model->files[i].durable);
    }
    free(model->changes);
    free(model);
}

/* Simulates that the process is killed: the page cache survives. From now on no call fails. */
static inline void model_kill(struct model_disk *model) {
    memset(model->handles, 0, sizeof(model->handles));
    model->fail_at = 0;
}

/* Simulates a power failure: only some of the unsynced writes survive. */
static inline void model_crash(struct model_disk *model) {
    model_kill(model);
    for (size_t i = 0; i < model->change_count; i++)
        if (model_random(model) % 2) model_change_apply(model, model->durable, &model->changes[i]);
    model->change_count = 0;
    memcpy(model->cached, model->durable, (size_t)model->entry_end * sizeof(model->cached[0]));
    for (int i = 0; i < model->file_count; i++) {
        struct model_file *file = &model->files[i];
        model_file_tear(model, file);
        model_grow(&file->cached, &file->cached_size, file->durable_size);
        if (file->durable_size) memcpy(file->cached, file->durable, file->durable_size);
        file->cached_size = file->durable_size;
    }
    if (model->directory_unsynced && model_random(model) % 2) {
        model->directory_exists = model->directory_unsynced = false;
        memset(model->cached, 0, sizeof(model->cached));
        memset(model->durable, 0, sizeof(model->durable));
    }
}

/* Returns the file of that name as reads see it; NULL: there is none. */
static inline struct model_file *model_lookup(struct model_disk *model, const char *name) {
    struct model_entry *entry = model_find(model, model->cached, name);
    return entry ? &model->files[entry->file] : NULL;
}

#endif
