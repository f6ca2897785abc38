/* evidence.c: see evidence.h. Reads signed heads from the files in the order of their positions, and inserts
 * the head of --head in that order. */
#include "evidence.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rfc3339.h"
#include "tarry_limits.h"

/* Greatest time without a head in a correct log: twice the interval at which a running broker signs. */
#define UNSIGNED_MAX_NS (2 * HEAD_INTERVAL_S * 1000000000ull)
#define NS_PER_MS 1000000u
#define LOG_HEADER_SIZE 4096u /* size of a segment's header (FORMAT.md) */

/* ---- heads */

size_t evidence_signer_of(const struct evidence *evidence, const struct head *head) {
    size_t i = 0;
    while (i < evidence->key_count && memcmp(evidence->keys[i].id, head->signer, SIGN_KEY_ID_SIZE) != 0) i++;
    return i;
}

const char *evidence_describe(const struct head *head, char out[EVIDENCE_HEAD_SIZE]) {
    char time[RFC3339_TEXT_SIZE];
    if (head->number == 0) return "where the log begins";
    snprintf(out, EVIDENCE_HEAD_SIZE, "head %" PRIu64 ", %s", head->number,
             rfc3339_format(head->wall_ns / NS_PER_MS, time));
    return out;
}

static int differs(struct evidence *evidence, uint64_t from, uint64_t to) {
    evidence->differs_from = from;
    evidence->differs_to = to;
    return STORE_REFUSED;
}

/* Checks one entry of a file, alone and against the entries before it. */
static int judge_entry(struct evidence *evidence, struct evidence_file *file, const struct head *head) {
    struct store *store = evidence->store;
    char id[SIGN_KEY_ID_TEXT_SIZE];
    size_t which = evidence_signer_of(evidence, head);
    const char *problem = NULL;
    if (which == evidence->key_count)
        return store_damaged(store, "%s, byte %" PRIu64 ": head %" PRIu64 " is signed by key %s, which no --key names",
                             file->path, file->read * HEAD_SIZE, head->number, sign_key_id_format(head->signer, id));
    if (!head_is_signed(head, &evidence->keys[which]))
        problem = "its signature is wrong: it was edited, or forged without the key";
    else if (memcmp(head->cluster, store->cluster, HEAD_CLUSTER_SIZE) != 0)
        problem = "the file belongs to another broker";
    else if (head->number > file->numbers[which] + 1)
        problem = "signed heads before this one were removed from the file";
    else if (head->number <= file->numbers[which])
        problem = "it was copied there: the file has an earlier head with this number";
    else if (file->has_next && head->position < file->next.position)
        problem = "its position is lower than that of the head before it";
    if (problem != NULL)
        return store_damaged(store, "%s, byte %" PRIu64 ", head %" PRIu64 " (position %" PRIu64 "): %s", file->path,
                             file->read * HEAD_SIZE, head->number, head->position, problem);
    file->numbers[which] = head->number;
    return 0;
}

/* Reads the next head of the file into `next`, if there is one. */
static int read_entry(struct evidence *evidence, struct evidence_file *file) {
    struct store *store = evidence->store;
    struct head head;
    bool is_over = file->read == file->heads.count;
    if (is_over) file->has_next = false;
    if (is_over) return 0;
    int result = heads_read(&file->heads, file->read, &head);
    if (result < 0) return store_damaged(store, "%s cannot be read: %s", file->path, strerror(-result));
    if (result == 1)
        return store_damaged(store, "%s, byte %" PRIu64 ": the head is damaged: it was edited", file->path,
                             file->read * HEAD_SIZE);
    int status = judge_entry(evidence, file, &head);
    file->read++;
    file->next = head;
    file->has_next = true;
    return status;
}

static int open_file(struct evidence *evidence, struct evidence_file *file) {
    struct store *store = evidence->store;
    if (file->is_own) snprintf(file->path, sizeof file->path, "%s/" HEADS_NAME, store->directory);
    int error = heads_open_file(&file->heads, &disk_posix, file->path);
    bool is_missing = error == -ENOENT && file->is_own;
    if (error != 0 && !is_missing) return store_damaged(store, "%s cannot be read: %s", file->path, strerror(-error));
    if (file->heads.count == 0 && file->heads.torn_bytes == 0)
        return store_damaged(store,
                             "%s: the directory has no signed head, so nothing can be proven (tarryd --sign-key)",
                             file->path);
    return read_entry(evidence, file);
}

/* Checks that the head of --head, which was kept elsewhere, is also in the file, and is equal. */
static int judge_elsewhere(struct evidence *evidence) {
    const struct head *head = &evidence->elsewhere;
    const struct evidence_file *own = &evidence->files[0];
    char words[EVIDENCE_HEAD_SIZE];
    size_t which = evidence_signer_of(evidence, head);
    if (head->number > own->numbers[which])
        return store_damaged(evidence->store,
                             "%s ends at head %" PRIu64 ", but the one of --head is %s: the file was cut", own->path,
                             own->numbers[which], evidence_describe(head, words));
    return 0;
}

/* Keeps a head that matches the log. */
static void hold(struct evidence *evidence, struct evidence_file *file, const struct head *head) {
    struct evidence_signer *signer = &evidence->signers[evidence_signer_of(evidence, head)];
    if (head->position >= signer->held.position) signer->held = *head;
    if (head != &evidence->elsewhere) {
        file->seen++;
        signer->heads++;
    }
    file->held = *head;
    if (file->is_own) evidence->unsigned_frames = 0;
}

/* Reports that the frames before a head's position differ from the frames that the head's signer signed. */
static int tell_difference(struct evidence *evidence, const struct evidence_file *file, const struct head *head) {
    const struct frames_point *at = &evidence->at;
    char from[EVIDENCE_HEAD_SIZE], to[EVIDENCE_HEAD_SIZE], id[SIGN_KEY_ID_TEXT_SIZE],
        who[STORE_PATH_SIZE + 64] = "was signed";
    uint64_t start = file->held.number == 0 ? evidence->from : file->held.position;
    if (start < evidence->from) start = evidence->from;
    if (!file->is_own)
        snprintf(who, sizeof who, "another node signed (key %s, %s)", sign_key_id_format(head->signer, id), file->path);
    if (at->position == evidence->from)
        store_damaged(evidence->store,
                      "the chain hash at the beginning of the segment at position %" PRIu64
                      " differs from the one that %s (%s)",
                      at->position, who, evidence_describe(head, to));
    else
        store_damaged(evidence->store,
                      "the log differs from the one that %s: somebody changed it and recomputed its hash chain; the "
                      "first difference is between position %" PRIu64 " (%s) and position %" PRIu64 " (%s)",
                      who, start, evidence_describe(&file->held, from), head->position, evidence_describe(head, to));
    return differs(evidence, start, head->position);
}

static int compare(struct evidence *evidence, struct evidence_file *file, const struct head *head) {
    const struct frames_point *at = &evidence->at;
    bool is_same = memcmp(head->chain, at->chain, FRAME_CHAIN_SIZE) == 0 && head->epoch == at->epoch &&
                   head->steady_ns == at->steady_ns && head->wall_ns == at->wall_ns;
    /* The peer's log may have other segment boundaries, so compare the segment only with own heads. */
    if (file->is_own && head->segment != at->segment) is_same = false;
    if (head->position != at->position || !is_same) return tell_difference(evidence, file, head);
    hold(evidence, file, head);
    return 0;
}

/* Compares the heads at the current position of the log, and skips those before it. */
static int meet_file(struct evidence *evidence, struct evidence_file *file) {
    int status = 0;
    while (status == 0 && file->has_next && file->next.position <= evidence->at.position) {
        status = compare(evidence, file, &file->next);
        if (status == 0) status = read_entry(evidence, file);
    }
    return status;
}

static int meet(struct evidence *evidence) {
    int status = 0;
    if (evidence->has_elsewhere && evidence->elsewhere.position <= evidence->at.position) {
        evidence->has_elsewhere = false;
        status = compare(evidence, &evidence->files[0], &evidence->elsewhere);
    }
    for (size_t i = 0; i < evidence->file_count && status == 0; i++) status = meet_file(evidence, &evidence->files[i]);
    return status;
}

/* ---- the walk */

/* Skips heads of frames that no longer exist; only their order and signatures can be checked. */
static int skip_missing(struct evidence *evidence) {
    int status = 0;
    for (size_t i = 0; i < evidence->file_count; i++) {
        struct evidence_file *file = &evidence->files[i];
        while (status == 0 && file->has_next && file->next.position < evidence->at.position) {
            file->held = file->next;
            file->seen++;
            evidence->signers[evidence_signer_of(evidence, &file->next)].heads++;
            status = read_entry(evidence, file);
        }
    }
    if (evidence->has_elsewhere && evidence->elsewhere.position < evidence->at.position)
        evidence->has_elsewhere = false;
    return status == 0 ? meet(evidence) : status;
}

/* Returns whether the point is before the first frame that was ever written. */
static bool is_beginning(const struct frames_point *point) {
    return point->segment == 0 && point->epoch == 0 && point->steady_ns == 0 && point->wall_ns == 0 &&
           sodium_is_zero(point->chain, sizeof point->chain);
}

/* Checks a segment file's size: it equals the capacity in its header, or ends with the last frame, as in a backup or a
 * restored copy. The missing bytes would be zeros, and the chain proves the frames and the segment's end. Any other
 * size means that the file was changed. */
static int judge_size(struct store *store, const struct log_segment *segment) {
    char path[STORE_PATH_SIZE + 64];
    struct stat status;
    snprintf(path, sizeof path, "%s/log/%016" PRIx64 ".seg", store->directory, segment->base);
    if (stat(path, &status) != 0) return store_damaged(store, "%s: %s", path, strerror(errno));
    uint64_t end = segment->end != 0 ? segment->end : store->recovery.end, size = (uint64_t)status.st_size;
    uint64_t frames_size = LOG_HEADER_SIZE + (end - segment->base);
    if (size == segment->bytes || size == frames_size) return 0;
    return store_damaged(store,
                         "%s has %" PRIu64 " bytes, but its header says %" PRIu64
                         ", and a backup of it, which ends with its last frame (at position %" PRIu64
                         "), would have %" PRIu64 ": somebody changed it",
                         path, size, segment->bytes, end, frames_size);
}

static int judge_sizes(const struct frames *frames) {
    struct store *store = frames->store;
    struct log_segment segment;
    for (uint64_t position = store->recovery.start;
         position < store->recovery.end && log_segment_at(store->log, position, &segment); position = segment.end) {
        int status = judge_size(store, &segment);
        if (status != 0 || segment.end == 0) return status;
    }
    return 0;
}

int evidence_start(struct evidence *evidence, const struct frames *frames) {
    struct store *store = frames->store;
    if (evidence->key_count == 0) return 0;
    evidence->store = store;
    evidence->at = frames->at;
    evidence->start = evidence->from = frames->at.position;
    if (store->recovery.stray_bytes > 0)
        return store_damaged(store, "bytes that are not zero follow the segment that ends at position %" PRIu64,
                             store->recovery.stray_at);
    int status = judge_sizes(frames);
    if (status != 0) return status;
    if (evidence->at.position == LOG_POSITION_FIRST && !is_beginning(&evidence->at))
        return store_damaged(
            store, "the segment that begins at position %u has a chain hash of earlier data, but it is the first one",
            LOG_POSITION_FIRST);
    for (size_t i = 0; i < evidence->file_count && status == 0; i++) status = open_file(evidence, &evidence->files[i]);
    return status == 0 ? skip_missing(evidence) : status;
}

int evidence_frame(struct evidence *evidence, const struct frames *frames) {
    if (evidence->key_count == 0) return 0;
    if (evidence->unsigned_frames++ == 0 || frames->at.epoch != evidence->at.epoch)
        evidence->unsigned_ns = frames->at.steady_ns;
    evidence->at = frames->at;
    return meet(evidence);
}

int evidence_gap(struct evidence *evidence, const struct frames *frames) {
    if (evidence->key_count == 0) return 0;
    if (!evidence->pruned) {
        store_damaged(evidence->store,
                      "the archive and the log do not have the positions %" PRIu64 " to %" PRIu64
                      ": the segment %016" PRIx64
                      " (and those after it) was pruned or removed (--pruned proves the rest)",
                      frames->gap_from, frames->gap_to, frames->gap_from);
        return differs(evidence, frames->gap_from, frames->gap_to);
    }
    evidence->unsigned_frames = 0;
    evidence->at = frames->at;
    evidence->from = frames->at.position;
    return skip_missing(evidence);
}

/* Reports a head beyond the end of the log. */
static int judge_reach(struct evidence *evidence) {
    const struct evidence_file *file = &evidence->files[0];
    for (size_t i = 0; i < evidence->file_count; i++)
        if (!file->has_next && evidence->files[i].has_next) file = &evidence->files[i];
    const struct head *head = file->has_next ? &file->next : &evidence->elsewhere;
    char words[EVIDENCE_HEAD_SIZE];
    if (!file->has_next && !evidence->has_elsewhere) return 0;
    store_damaged(evidence->store,
                  "the log ends at position %" PRIu64 ", but it was signed up to position %" PRIu64
                  " (%s)%s%s: somebody cut it%s",
                  evidence->at.position, head->position, evidence_describe(head, words),
                  file->is_own ? "" : " according to what ", file->is_own ? "" : file->path,
                  file->is_own ? "" : " says, or this node was not running then");
    /* This error also covers a log that was cut and then continued with new frames. */
    return differs(evidence, file->held.position > evidence->from ? file->held.position : evidence->from,
                   head->position);
}

static int tell_torn(struct evidence *evidence, const struct evidence_file *file) {
    return store_damaged(evidence->store,
                         "%s, byte %" PRIu64 ": the last head is incomplete: a crash tore it, and the next start of "
                         "tarryd overwrites it, or somebody edited it",
                         file->path, file->heads.count * HEAD_SIZE);
}

/* Reports a log's end that a crash of the broker cannot explain. */
static int judge_end(struct evidence *evidence) {
    struct store *store = evidence->store;
    const struct evidence_file *own = &evidence->files[0];
    const struct head *held = &own->held;
    char words[EVIDENCE_HEAD_SIZE];
    for (size_t i = 0; i < evidence->file_count; i++)
        if (evidence->files[i].heads.torn_bytes > 0) return tell_torn(evidence, &evidence->files[i]);
    if (held->kept_from < evidence->start) {
        store_damaged(store,
                      "the log begins at position %" PRIu64 ", but by its newest head (%s) it began at %" PRIu64
                      ": segments are missing",
                      evidence->start, evidence_describe(held, words), held->kept_from);
        return differs(evidence, held->kept_from, evidence->start);
    }
    if (evidence->unsigned_frames == 0 || evidence->at.steady_ns - evidence->unsigned_ns <= UNSIGNED_MAX_NS) return 0;
    store_damaged(store,
                  "after position %" PRIu64 " (%s) the log has no head for %" PRIu64
                  " s: heads were cut off, or the broker could not sign, or ran without its key",
                  held->position, evidence_describe(held, words),
                  (evidence->at.steady_ns - evidence->unsigned_ns) / 1000000000u);
    return differs(evidence, held->position, evidence->at.position);
}

int evidence_end(struct evidence *evidence) {
    if (evidence->key_count == 0) return 0;
    bool has_elsewhere = evidence->has_elsewhere;
    int status = judge_reach(evidence);
    /* Checks the heads of the files before the head of --head, because a message about a head in a file is more
     * precise. */
    if (status == 0 && evidence->elsewhere.number != 0 && !has_elsewhere) status = judge_elsewhere(evidence);
    return status == 0 ? judge_end(evidence) : status;
}

void evidence_close(struct evidence *evidence) {
    for (size_t i = 0; i < evidence->file_count; i++) heads_close(&evidence->files[i].heads);
}

uint64_t evidence_countersigned_to(const struct evidence *evidence) {
    uint64_t best = 0, second = 0;
    for (size_t i = 0; i < evidence->key_count; i++) {
        uint64_t position = evidence->signers[i].held.position;
        if (position > best) {
            second = best;
            best = position;
        } else if (position > second) {
            second = position;
        }
    }
    return second;
}
