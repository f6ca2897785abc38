/* index_copy.c: copies the index's file while the index is in use.
 *
 * LMDB never writes into a page that a reader may still see. So an open read transaction keeps the pages of its
 * snapshot unchanged while they are copied in file order. Other pages of the file are copied too, but are unused.
 * (mdb_env_copy reads through the map, which would make the whole index resident, and in one call that cannot be
 * interrupted.) */
#include "index_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "disk.h"

#define BLOCK_SIZE ((size_t)1 << 20)
#define GROW_WAIT_US 1000

struct index_copy {
    struct index *index;
    struct db_snapshot snapshot;
    bool holds; /* true: the copy has an open snapshot */
    uint64_t size;
    uint64_t done;
    uint64_t position;
    uint8_t *block;
};

static void let_go(struct index_copy *copy) {
    if (copy->holds) db_snapshot_end(&copy->index->db, &copy->snapshot);
    copy->holds = false;
}

static int take_hold(struct index_copy *copy) {
    int error = db_snapshot_begin(&copy->index->db, &copy->snapshot);
    if (error != 0) return error;
    struct meta_record meta;
    copy->holds = true;
    copy->size = copy->snapshot.size;
    copy->done = 0;
    error = meta_read(copy->index, copy->snapshot.txn, &meta);
    if (error != 0) return error > 0 ? INDEX_DAMAGED : error;
    copy->position = meta.position;
    return 0;
}

int index_copy_begin(struct index_copy **out, struct index *index) {
    struct index_copy *copy = calloc(1, sizeof *copy);
    uint8_t *block = malloc(BLOCK_SIZE);
    if (copy == NULL || block == NULL) {
        free(copy);
        free(block);
        return -ENOMEM;
    }
    *copy = (struct index_copy){.index = index, .block = block};
    int error = take_hold(copy);
    if (error != 0) {
        index_copy_end(copy);
        return error;
    }
    *out = copy;
    return 0;
}

/* Copies one block from `done` on. The file may be shorter than the snapshot's size, because pages at its end were
 * allocated and never written. */
static int copy_block(struct index_copy *copy, int handle) {
    size_t heads_size = 2 * copy->snapshot.page_size;
    if (copy->done == 0) {
        int error = disk_write_all(&disk_posix, handle, copy->snapshot.heads, heads_size, 0);
        if (error == 0) copy->done = heads_size;
        return error;
    }
    size_t size = copy->size - copy->done < BLOCK_SIZE ? (size_t)(copy->size - copy->done) : BLOCK_SIZE;
    int64_t count = disk_read_all(&disk_posix, copy->snapshot.handle, copy->block, size, copy->done);
    if (count < 0) return (int)count;
    memset(copy->block + count, 0, size - (size_t)count);
    int error = disk_write_all(&disk_posix, handle, copy->block, size, copy->done);
    if (error == 0) copy->done += size;
    return error;
}

int index_copy_step(struct index_copy *copy, int handle, size_t size_max) {
    if (!copy->holds) {
        /* The writer waits for map_lock to grow the map. Let it finish first: if this thread released the lock and took
         * it again at once, the writer might never get it. */
        if (db_grow_waits(&copy->index->db)) {
            usleep(GROW_WAIT_US);
            return 1;
        }
        int error = take_hold(copy);
        if (error != 0) return error;
    }
    for (uint64_t from = copy->done; copy->done < copy->size && copy->done - from < size_max;) {
        int error = copy_block(copy, handle);
        if (error != 0) return error;
        if (copy->done < copy->size && db_grow_waits(&copy->index->db)) {
            let_go(copy);
            return 1;
        }
    }
    if (copy->done < copy->size) return 1;
    let_go(copy);
    return 0;
}

uint64_t index_copy_size(const struct index_copy *copy) {
    return copy->size;
}

uint64_t index_copy_done(const struct index_copy *copy) {
    return copy->done;
}

uint64_t index_copy_position(const struct index_copy *copy) {
    return copy->position;
}

void index_copy_end(struct index_copy *copy) {
    if (copy == NULL) return;
    let_go(copy);
    free(copy->block);
    free(copy);
}
