/* log_mark.c: stores the log's durable position in DIR/log/durable (FORMAT.md has the bytes).
 *
 * A leader's log needs no such file, because the next frame or seal has the durable position (LOG-5). A log that copies
 * another log writes no frames of its own, so it stores its durable position in this file in two cases.
 *
 * Case 1, log_sync: a copied frame arrived with erased contents. The position is stored before any later frame is
 * written. Reason: in the last segment, recovery trusts an erased flag only below the known durable position, because a
 * torn write could look like an erasure.
 *
 * Case 2, log_mark: a clean stop. The position covers the last frames that the follower has confirmed.
 *
 * *Rule:* the stored position is never beyond the durable position; a cut lowers the stored position first.
 * *Consequence:* a log that ends below the stored position has lost frames. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bytes.h"
#include "log_internal.h"
#include "tarry_limits.h"

#define MARK_TEMPORARY LOG_MARK_NAME ".tmp"

static const char mark_magic[8] = {'T', 'A', 'R', 'R', 'Y', 'D', 'U', 'R'};

enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_RESERVED = 12,
    AT_CLUSTER = 16,
    AT_POSITION = 32,
    AT_SUM = 40,
};

void log_mark_encode(const uint8_t cluster[16], uint64_t position, uint8_t out[LOG_MARK_SIZE]) {
    memcpy(out + AT_MAGIC, mark_magic, sizeof(mark_magic));
    put_u32(out + AT_VERSION, FORMAT_VERSION);
    put_u32(out + AT_RESERVED, 0);
    memcpy(out + AT_CLUSTER, cluster, 16);
    put_u64(out + AT_POSITION, position);
    put_u64(out + AT_SUM, frame_sum(out, AT_SUM));
}

int mark_write(struct log *log, uint64_t position) {
    uint8_t bytes[LOG_MARK_SIZE];
    log_mark_encode(log->cluster, position, bytes);
    int result = disk_replace(log->disk, log->directory, MARK_TEMPORARY, LOG_MARK_NAME, bytes, sizeof(bytes));
    if (result == 0) log->mark = position;
    return result;
}

int mark_load(struct recovery *recovery, uint64_t *out) {
    const struct log *log = recovery->log;
    uint8_t bytes[LOG_MARK_SIZE + 1];
    char path[LOG_PATH_SIZE];
    log_path(log, LOG_MARK_NAME, path);
    *out = 0;
    /* The file describes the log's segments, not a single quarantined tail. */
    if (log->single != 0) return 0;
    int64_t size = disk_read_file(log->disk, log->directory, LOG_MARK_NAME, bytes, sizeof(bytes));
    if (size == -ENOENT) return 0;
    if (size < 0) return recovery_fail_io(recovery, (int)size, "read", path);
    bool is_ours = size >= AT_RESERVED && memcmp(bytes, mark_magic, sizeof(mark_magic)) == 0;
    if (is_ours && get_u32(bytes + AT_VERSION) != FORMAT_VERSION)
        return recovery_fail(recovery, LOG_VERSION,
                             "%s: the file has format version %" PRIu32 "; this program reads version %u", path,
                             get_u32(bytes + AT_VERSION), FORMAT_VERSION);
    if (!is_ours || size != LOG_MARK_SIZE || get_u64(bytes + AT_SUM) != frame_sum(bytes, AT_SUM) ||
        get_u32(bytes + AT_RESERVED) != 0)
        return recovery_fail(recovery, LOG_DAMAGED,
                             "%s: the file is damaged; it records the durable position of the log. Restore it from a "
                             "copy, or move it away and check with 'tarry verify' where the log ends",
                             path);
    if (memcmp(bytes + AT_CLUSTER, log->cluster, sizeof(log->cluster)) != 0)
        return recovery_fail(recovery, LOG_FOREIGN, "%s: the file belongs to another cluster", path);
    *out = get_u64(bytes + AT_POSITION);
    return 0;
}

int log_mark(struct log *log) {
    assert(!log->read_only);
    int result = atomic_load_explicit(&log->error, memory_order_relaxed);
    if (result < 0) return result;
    uint64_t durable = log_durable(log);
    if (durable == log->mark) return 0;
    result = mark_write(log, durable);
    return result < 0 ? log_poison(log, result) : 0;
}
