/* verify.c: tarry verify DIR: checks a data directory (verify.h), or compares it with another one. */
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "arena.h"
#include "directory.h"
#include "entry.h"
#include "heads.h"
#include "json_out.h"
#include "output.h"
#include "progress.h"
#include "rfc3339.h"
#include "table.h"
#include "units.h"
#include "wire.h"

#define EVIDENCE_OPTIONS                                                                                               \
    {"key", ARG_MANY, "FILE", "public key; prove the log by the heads signed with it (repeat for each\nsigner)"},      \
        {"pruned", ARG_FLAG, NULL,                                                                                     \
         "with --key: accept gaps of pruned segments between archived segments with a hold"},                          \
        {"head", ARG_VALUE, "HEAD", "with --key: also check by this head, which was kept elsewhere"}, {                \
        "heads", ARG_MANY, "PATH", "with --key: heads that another node signed: its directory, or its file of\nheads"  \
    }

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {STORE_ARCHIVE_OPTION,
                                          EVIDENCE_OPTIONS,
                                          {"against", ARG_VALUE, "DIR2",
                                           "other data directory to compare with, instead: a backup, a follower"},
                                          {0}};

const struct command command_verify = {
    .name = "verify",
    .usage = "DIR [--archive DIR] [--key FILE]... [--heads PATH]... [--head HEAD] [--pruned]\nDIR [--archive DIR] "
             "--against DIR2",
    .summary = "check a data directory for damage, offline",
    .text = "Checks the data directory of a broker that is not running: each frame of the log by checksum,\n"
            "order and hash chain, each row of the index, the index against the log, the content of each task,\n"
            "and the digest. It changes nothing. The exit status is 0 if all is well. It is 1 if there is\n"
            "damage, with its place, or if nothing could be checked, with the reason (locked,\n"
            "no_data_directory). A crash leaves a torn tail, which the next start cuts: it is reported, but is\n"
            "no damage. A returning node of a pair puts aside tails that its leader did not have: they are\n"
            "checked, and listed for 'tarry audit --quarantined'.\n\n"
            "--key also proves, with the heads that the broker has signed (tarryd --sign-key), that nothing up\n"
            "to the last head was edited, dropped, reordered, inserted or cut. If not, it prints between which\n"
            "positions the first difference lies. It prints the last head. Keep this head where nobody who can\n"
            "write to DIR can change it: given to --head later, it proves that log and heads were not cut\n"
            "together. With the keys of both nodes of a pair, and the heads of the other node (--heads), it\n"
            "prints how far the log is countersigned: if a primary rewrote its log and signed it again, the\n"
            "heads of its follower show it. Check the node whose log is longer, with the heads of the other\n"
            "node.\n\n"
            "--against compares two directories frame by frame: whether both have the same history as far as\n"
            "both reach, where the first difference lies, and which one is longer. The exit status is 1 if they\n"
            "differ.",
    .options = options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "DIR",
    .examples =
        "tarry verify /var/lib/tarry/main\ntarry verify /var/lib/tarry/main --key /media/auditor/sign.key.pub --json\n"
        "tarry verify /var/lib/tarry/main --key a.pub --key b.pub --heads /media/auditor/follower/heads\n"
        "tarry verify /var/lib/tarry/main --against /backup/tarry",
    .run = run,
};

/* ---- --against */

/* Compares the two histories, each an archive and a log, frame by frame. The chain hash of a frame covers all earlier
 * frames, so the histories differ from the first frame whose chain hash differs. Contents are compared too, except
 * those that were erased in one of the two directories.
 *
 * The indexes are not compared, because a copy may have been made without an index. The index only says how far the log
 * was durable. After that position in the last segment, a content that seems to be erased is the rest of an unfinished
 * write. */

#define ARENA_SIZE_MAX (256u << 20)
#define KINDS_SHOWN 3u
#define NS_PER_MS 1000000u

struct side {
    struct store store;
    struct frames frames;
    struct log_view view; /* the frame of this side that is compared next */
    int result;           /* result of frames_next for this side; 0: `view` is valid */
};

struct compare {
    struct side sides[2];
    bool has_common;
    uint64_t common_from;
    uint64_t common_to;
    uint64_t frames;        /* number of frames that are in both directories */
    uint64_t erased;        /* number of contents that were erased in one directory or in both */
    bool differs;           /* at … */
    uint64_t differs_at;    /* position of the first differing frame */
    const char *difference; /* name of the part of the frame that differs */
    struct progress progress;
};

/* ---- reading */

static int open_side_log(struct side *side) {
    struct store *store = &side->store;
    int status = store_open_log_alone(store);
    char message[sizeof store->message];
    if (status == 0) return 0;
    memcpy(message, store->message, sizeof message);
    store->message[0] = 0; /* Try again with the index, which says where the log ends. If that fails too, report the
                              message of the first attempt. */
    if (store_open_index(store) == 0) status = store_open_log_alone(store);
    if (status != 0) memcpy(store->message, message, sizeof message);
    return status;
}

static int open_side(struct side *side, const char *directory, const char *archive) {
    store_init(&side->store, directory);
    int status = store_lock(&side->store);
    if (status == 0) status = open_side_log(side);
    if (status == 0) status = store_open_archive(&side->store, archive);
    return status == 0 ? frames_open(&side->frames, &side->store) : status;
}

/* Reads the next frame of a side. Skips gaps in the archive. */
static void step(struct side *side) {
    do side->result = frames_next(&side->frames, &side->view);
    while (side->result == FRAMES_GAP);
}

static uint64_t position_of(const struct side *side) {
    return side->result == 0 ? side->view.header.position : side->frames.at.position;
}

static void differ(struct compare *compare, uint64_t position, const char *difference) {
    compare->differs = true;
    compare->differs_at = position;
    compare->difference = difference;
}

/* Compares two frames at the same position. */
static void compare_frames(struct compare *compare) {
    const struct log_view *a = &compare->sides[0].view, *b = &compare->sides[1].view;
    uint64_t position = a->header.position;
    if (!compare->has_common) compare->common_from = position;
    compare->has_common = true;
    if (memcmp(a->header.chain, b->header.chain, FRAME_CHAIN_SIZE) != 0) {
        bool is_first = compare->common_from == position;
        differ(compare, position, is_first ? "the frames, or earlier data" : "the frames");
        return;
    }
    bool is_erased = ((a->header.flags | b->header.flags) & FRAME_FLAG_ERASED) != 0;
    compare->erased += is_erased;
    /* The chain hashes are equal, so the sizes and bodies are equal too, and only contents can differ. */
    if (!is_erased && memcmp(a->blob, b->blob, a->header.blob_size) != 0) {
        differ(compare, position, "the contents");
        return;
    }
    compare->frames++;
    compare->common_to = compare->sides[0].frames.at.position;
}

static void read_both(struct compare *compare) {
    struct side *a = &compare->sides[0], *b = &compare->sides[1];
    uint64_t end = a->store.recovery.end < b->store.recovery.end ? a->store.recovery.end : b->store.recovery.end;
    step(a);
    step(b);
    progress_start(&compare->progress, "frames");
    while (a->result == 0 && b->result == 0 && !compare->differs) {
        uint64_t at = position_of(a), other = position_of(b);
        if (at == other) {
            compare_frames(compare);
            if (compare->differs) break;
        } else if (compare->has_common && a->frames.gaps + b->frames.gaps == 0) {
            differ(compare, at < other ? at : other, "where frames begin");
            break;
        }
        if (at <= other) step(a);
        if (other <= at) step(b);
        progress_show(&compare->progress, at < end ? at : end, end, compare->frames);
    }
    progress_end(&compare->progress);
}

/* ---- saying */

/* Describes a frame, for example: "1 commit of epoch 3, 2026-…: scheduled, cancelled; by producer 7, sequence 2". */
static void describe_frame(struct text *out, const struct log_view *view) {
    const struct frame_header *header = &view->header;
    char time[RFC3339_TEXT_SIZE];
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    text_printf(out, "%s of epoch %u, %s", header->type == FRAME_SEAL ? "seal" : "commit", header->epoch,
                rfc3339_format(header->steady_ns / NS_PER_MS, time));
    const Tarry__FrameBody *body =
        header->type == FRAME_COMMIT ? frame_body_unpack(&arena, header->body_size, view->body) : NULL;
    for (size_t i = 0; body != NULL && i < body->n_records && i < KINDS_SHOWN; i++) {
        struct entry entry = {.header = header, .body = body, .record = body->records[i]};
        text_printf(out, "%s %s", i == 0 ? ":" : ",", entry_kind_name(entry_kind(&entry)));
        if (entry_task(&entry) != NULL) text_printf(out, " task %" PRIu64, entry_task(&entry)->id);
    }
    if (body != NULL && body->n_records > KINDS_SHOWN)
        text_printf(out, " and %zu records more", body->n_records - KINDS_SHOWN);
    if (body != NULL && body->producer != 0)
        text_printf(out, "; by producer %" PRIu64 ", sequence %" PRIu64, body->producer, body->sequence);
    text_printf(out, "; %u bytes of contents", header->blob_size);
    arena_deinit(&arena);
}

static const char *summary_of(struct text *out, const struct side *side) {
    out->size = 0;
    if (side->result == 0)
        describe_frame(out, &side->view);
    else
        text_add_str(out, "no frame: it ends before");
    return text_str(out);
}

static void compare_json(const struct compare *compare, struct text *out) {
    const struct side *a = &compare->sides[0], *b = &compare->sides[1];
    struct text summary = {0};
    uint64_t ends[2] = {a->store.recovery.end, b->store.recovery.end};
    out_begin(out, '{');
    out_text(out, "directory", a->store.directory);
    out_text(out, "against", b->store.directory);
    out_text(out, "result", compare->differs ? "differs" : compare->has_common ? "same" : "nothing_in_common");
    out_number(out, "frames", compare->frames);
    out_number(out, "erased", compare->erased);
    out_number(out, "common_from", compare->common_from);
    out_number(out, "common_to", compare->common_to);
    out_number(out, "log_end", ends[0]);
    out_number(out, "against_log_end", ends[1]);
    out_text(out, "longer", ends[0] == ends[1] ? NULL : ends[0] > ends[1] ? "directory" : "against");
    if (compare->differs) {
        out_number(out, "differs_at", compare->differs_at);
        out_text(out, "difference", compare->difference);
        out_text(out, "frame", summary_of(&summary, a));
        out_text(out, "against_frame", summary_of(&summary, b));
    }
    out_line_end(out);
    text_deinit(&summary);
}

static void compare_words(const struct compare *compare, struct text *out) {
    const struct side *a = &compare->sides[0], *b = &compare->sides[1];
    struct text summary = {0};
    uint64_t ends[2] = {a->store.recovery.end, b->store.recovery.end};
    if (compare->has_common)
        text_printf(out, "same    positions %" PRIu64 " … %" PRIu64 ", %" PRIu64 " frames\n", compare->common_from,
                    compare->common_to, compare->frames);
    else
        text_add_str(out, "no common positions: one log ends before the other begins\n");
    if (compare->erased > 0)
        text_printf(out, "        %" PRIu64 " frames of which contents are erased in one or both\n", compare->erased);
    if (compare->differs) {
        text_printf(out, "differs at position %" PRIu64 ": %s\n", compare->differs_at, compare->difference);
        text_printf(out, "        %s: %s\n", a->store.directory, summary_of(&summary, a));
        text_printf(out, "        %s: %s\n", b->store.directory, summary_of(&summary, b));
    } else if (ends[0] != ends[1]) {
        text_printf(out, "longer  %s, by %" PRIu64 " bytes\n",
                    ends[0] > ends[1] ? a->store.directory : b->store.directory,
                    ends[0] > ends[1] ? ends[0] - ends[1] : ends[1] - ends[0]);
    }
    text_deinit(&summary);
}

static void close_side(struct side *side) {
    frames_close(&side->frames);
    store_close(&side->store);
}

/* Reports the error that ended the reading of a side. Returns whether there was an error. */
static bool is_damaged(const struct side *side) {
    if (side->store.message[0] == 0) return false;
    tool_say("%s: %s", side->store.directory, side->store.message);
    return true;
}

/* Compares the history of two data directories from the first position that both have. Returns the exit status: 0 if
 * the common part is equal. */
static int compare_directories(struct tool *tool, const char *directory, const char *archive, const char *against) {
    struct compare *compare = tool_alloc(sizeof *compare);
    struct text out = {0};
    memset(compare, 0, sizeof *compare);
    store_init(&compare->sides[1].store, against);
    int status = open_side(&compare->sides[0], directory, archive);
    if (status == 0) status = open_side(&compare->sides[1], against, NULL);
    if (status == 0) read_both(compare);
    bool is_unreadable = is_damaged(&compare->sides[0]);
    is_unreadable |= is_damaged(&compare->sides[1]);
    if (!is_unreadable) {
        if (tool->json)
            compare_json(compare, &out);
        else
            compare_words(compare, &out);
        status = compare->differs || !compare->has_common ? EXIT_REFUSED : EXIT_FINE;
    }
    status = output_flush(&out, is_unreadable ? EXIT_REFUSED : status);
    close_side(&compare->sides[0]);
    close_side(&compare->sides[1]);
    text_deinit(&out);
    free(compare);
    return status;
}

/* ---- --key, --head, --heads */

static int read_key(const struct args *args, const char *path, struct sign_public *out) {
    char text[SIGN_KEY_TEXT_SIZE];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int64_t size = file >= 0 ? disk_read_all(&disk_posix, file, text, sizeof text, 0) : -errno;
    if (file >= 0) close(file);
    if (size < 0) {
        tool_say("--key: %s cannot be read: %s", path, strerror((int)-size));
        return EXIT_REFUSED;
    }
    const char *problem = sign_public_parse(text, (size_t)size, out);
    return problem == NULL ? 0 : tool_usage(args, "--key: %s %s", path, problem);
}

static int option_keys(struct evidence *evidence, const struct args *args) {
    int status = 0;
    for (size_t i = 0; i < args->many_count && status == 0; i++) {
        if (strcmp(args->many[i].option, "key") != 0) continue;
        if (evidence->key_count == EVIDENCE_KEYS_MAX)
            return tool_usage(args, "--key may be given %u times", EVIDENCE_KEYS_MAX);
        status = read_key(args, args->many[i].value, &evidence->keys[evidence->key_count++]);
    }
    return status;
}

/* Adds a file of signed heads to the evidence. PATH: the data directory that has the file, or a copy of the file. */
static int option_file(struct evidence *evidence, const struct args *args, const char *path) {
    struct stat status;
    if (evidence->file_count == EVIDENCE_FILES_MAX)
        return tool_usage(args, "--heads may be given %u times", EVIDENCE_FILES_MAX - 1);
    struct evidence_file *file = &evidence->files[evidence->file_count++];
    bool is_directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    int size = snprintf(file->path, sizeof file->path, "%s%s", path, is_directory ? "/" HEADS_NAME : "");
    return size > 0 && (size_t)size < sizeof file->path ? 0 : tool_usage(args, "--heads: the path is too long");
}

static int option_files(struct evidence *evidence, const struct args *args) {
    int status = 0;
    for (size_t i = 0; i < args->many_count && status == 0; i++)
        if (strcmp(args->many[i].option, "heads") == 0) status = option_file(evidence, args, args->many[i].value);
    if (status == 0 && evidence->file_count > 1 && evidence->key_count == 0)
        return tool_usage(args, "--heads needs --key with the public key of each node, because a head "
                                "proves something only if its signature was checked");
    return status;
}

static int evidence_options(struct evidence *evidence, const struct args *args) {
    *evidence = (struct evidence){.file_count = 1, .files[0].is_own = true};
    for (size_t i = 0; i < EVIDENCE_FILES_MAX; i++) evidence->files[i].heads.handle = -1;
    const char *text = args_get(args, "head");
    if (sodium_init() < 0) {
        tool_say("the system provides no random numbers");
        return EXIT_REFUSED;
    }
    int status = option_keys(evidence, args);
    if (status == 0) status = option_files(evidence, args);
    evidence->pruned = args_has(args, "pruned");
    if (status != 0 || text == NULL) return status;
    if (evidence->key_count == 0)
        return tool_usage(args,
                          "--head needs --key, because a head proves something only if its signature was checked");
    if (!head_parse(text, &evidence->elsewhere))
        return tool_usage(args, "--head: this is not a complete head; 'tarry heads DIR --last' prints one");
    size_t which = evidence_signer_of(evidence, &evidence->elsewhere);
    if (which == evidence->key_count || !head_is_signed(&evidence->elsewhere, &evidence->keys[which]))
        return tool_usage(args, "--head: this head is not signed by the key of --key");
    evidence->has_elsewhere = true;
    return 0;
}

/* ---- output */

#define DAMAGED_ACTION                                                                                                 \
    "move %s away and keep it. On a node of a pair, start the node with an empty directory and the "                   \
    "option "                                                                                                          \
    "follow: it copies the other node's data. Otherwise restore the newest backup: tarry restore BACKUP --data DIR"

static void json_signers(const struct evidence *evidence, struct text *out) {
    char id[SIGN_KEY_ID_TEXT_SIZE];
    out_key(out, "signers");
    text_add_char(out, '[');
    for (size_t i = 0; i < evidence->key_count; i++) {
        const struct evidence_signer *signer = &evidence->signers[i];
        out_comma(out);
        out_begin(out, '{');
        out_text(out, "key", sign_key_id_format(evidence->keys[i].id, id));
        out_number(out, "heads", signer->heads);
        out_number(out, "signed_to", signer->held.position);
        out_number(out, "signed_at_ms", signer->held.wall_ns / NS_PER_MS);
        text_add_char(out, '}');
    }
    text_add_char(out, ']');
}

static void evidence_json(const struct evidence *evidence, struct text *out) {
    const struct evidence_file *own = &evidence->files[0];
    const struct head *held = &own->held;
    char text[HEAD_TEXT_SIZE], id[SIGN_KEY_ID_TEXT_SIZE];
    if (evidence->key_count == 0) return;
    out_number(out, "heads", own->seen);
    out_number(out, "signed_from", evidence->start);
    out_number(out, "signed_to", held->position);
    out_number(out, "signed_at_ms", held->wall_ns / NS_PER_MS);
    out_number(out, "unsigned_frames", evidence->unsigned_frames);
    out_number(out, "unsigned_bytes", held->number == 0 ? 0 : evidence->at.position - held->position);
    out_text(out, "signer", held->number == 0 ? NULL : sign_key_id_format(held->signer, id));
    out_text(out, "head", held->number == 0 ? NULL : head_format(held, text));
    out_number(out, "countersigned_to", evidence_countersigned_to(evidence));
    json_signers(evidence, out);
    if (evidence->differs_to == 0) return;
    out_number(out, "differs_from", evidence->differs_from);
    out_number(out, "differs_to", evidence->differs_to);
}

static void words_signers(const struct evidence *evidence, struct text *out) {
    char words[EVIDENCE_HEAD_SIZE], id[SIGN_KEY_ID_TEXT_SIZE];
    for (size_t i = 0; i < evidence->key_count; i++) {
        const struct evidence_signer *signer = &evidence->signers[i];
        text_printf(out, "        key %s: ", sign_key_id_format(evidence->keys[i].id, id));
        if (signer->held.number == 0)
            text_add_str(out, "no head within this log\n");
        else
            text_printf(out, "%" PRIu64 " heads, to position %" PRIu64 " (%s)\n", signer->heads, signer->held.position,
                        evidence_describe(&signer->held, words));
    }
    uint64_t position = evidence_countersigned_to(evidence);
    if (position > 0)
        text_printf(out,
                    "        countersigned up to position %" PRIu64
                    ": signed with two keys, so no owner of a single key could have changed it\n",
                    position);
    else
        text_add_str(out, "        not countersigned: only one key has signed it\n");
}

static void evidence_words(const struct evidence *evidence, struct text *out) {
    const struct evidence_file *own = &evidence->files[0];
    const struct head *held = &own->held;
    char text[HEAD_TEXT_SIZE], words[96], id[SIGN_KEY_ID_TEXT_SIZE];
    if (evidence->key_count == 0 || held->number == 0) return;
    text_printf(out, "signed  positions %" PRIu64 " … %" PRIu64 " (%s) by key %s, %" PRIu64 " heads\n", evidence->start,
                held->position, evidence_describe(held, words), sign_key_id_format(held->signer, id), own->seen);
    if (evidence->unsigned_frames > 0)
        text_printf(out,
                    "        %" PRIu64 " frames (%" PRIu64
                    " bytes) after that are not signed yet, so they are not proven\n",
                    evidence->unsigned_frames, evidence->at.position - held->position);
    if (evidence->key_count > 1) words_signers(evidence, out);
    text_printf(out, "head    %s\n", head_format(held, text));
}

static void tails_json(const struct tails *tails, struct text *out) {
    out_key(out, "quarantined");
    text_add_char(out, '[');
    for (size_t i = 0; i < tails->count; i++) {
        const struct tail *tail = &tails->items[i];
        out_comma(out);
        out_begin(out, '{');
        out_bytes(out, "name", tail->file.name, (size_t)tail_name_size(&tail->file));
        out_number(out, "from", tail->file.base);
        out_number(out, "to", tail->file.end);
        out_number(out, "frames", tail->frames);
        out_number(out, "epoch", tail->epoch);
        out_text(out, "why", tail->why);
        text_add_char(out, '}');
    }
    text_add_char(out, ']');
}

static void tails_words(const struct tails *tails, const struct store *store, struct text *out) {
    for (size_t i = 0; i < tails->count; i++) {
        const struct tail *tail = &tails->items[i];
        text_printf(out, "%s  positions %" PRIu64 " … %" PRIu64 ", %" PRIu64 " frames, to epoch %u: cut off, put aside",
                    i == 0 ? "tails " : "      ", tail->file.base, tail->file.end, tail->frames, tail->epoch);
        if (tail->why[0] != 0) {
            text_add_str(out, "\n          ");
            plain_add(out, tail->why, strlen(tail->why));
        }
        text_printf(out, "\n          tarry audit --data %s --quarantined %.*s\n", store->directory,
                    tail_name_size(&tail->file), tail->file.name);
    }
}

static void print_json(const struct verify *v, int status, uint64_t took_ms, struct text *out) {
    char digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, v->tail.digest);
    out_begin(out, '{');
    out_text(out, "directory", v->store.directory);
    out_text(out, "result", status == 0 ? "fine" : v->store.hindrance != NULL ? v->store.hindrance : "damaged");
    if (status != 0) out_text(out, "message", v->store.message);
    if (status != 0 && v->store.hindrance == NULL) {
        char action[STORE_PATH_SIZE + sizeof(DAMAGED_ACTION)];
        snprintf(action, sizeof action, DAMAGED_ACTION, v->store.directory);
        out_text(out, "action", action);
    }
    out_number(out, "segments", v->store.recovery.segments);
    out_number(out, "frames", v->frame_count);
    out_number(out, "archived_segments", v->frames.archived_segments);
    out_number(out, "records", v->records);
    out_number(out, "contents", v->contents.checked);
    out_number(out, "erased", v->contents.erased);
    out_number(out, "erasures_under_way", v->contents.under_way);
    out_number(out, "summaries", v->summaries.checked);
    out_number(out, "summaries_unused", v->summaries.unused);
    out_number(out, "log_start", v->store.recovery.start);
    out_number(out, "log_end", v->store.recovery.end);
    out_number(out, "index_position", v->store.meta.position);
    out_number(out, "rows", v->rows.rows);
    out_number(out, "epoch", v->store.recovery.epoch);
    out_number(out, "torn_tail_bytes", v->store.recovery.cut_bytes);
    out_number(out, "stray_bytes", v->store.recovery.stray_bytes);
    evidence_json(&v->evidence, out);
    tails_json(&v->tails, out);
    if (status == 0) {
        out_number(out, "live", v->tail.live);
        out_text(out, "digest", digest);
    }
    out_number(out, "took_ms", took_ms);
    out_line_end(out);
}

static void print_words(const struct verify *v, int status, uint64_t took_ms, struct text *out) {
    char took[UNITS_TEXT_SIZE];
    if (v->store.index != NULL)
        text_printf(out, "index   position %" PRIu64 ", %" PRIu64 " rows\n", v->store.meta.position, v->rows.rows);
    if (v->store.log != NULL) {
        text_printf(out, "log     positions %" PRIu64 " … %" PRIu64 ", %" PRIu64 " segments, epoch %u\n",
                    v->store.recovery.start, v->store.recovery.end, v->store.recovery.segments,
                    v->store.recovery.epoch);
        text_printf(out, "        %" PRIu64 " frames, %" PRIu64 " records, %" PRIu64 " contents checked\n",
                    v->frame_count, v->records, v->contents.checked);
    }
    if (v->contents.erased > 0)
        text_printf(out, "        %" PRIu64 " of them erased, by redactions in the log\n", v->contents.erased);
    if (v->contents.under_way > 0)
        text_printf(out, "        %" PRIu64 " redactions not completed yet: the running broker completes them\n",
                    v->contents.under_way);
    if (v->store.recovery.cut_bytes > 0)
        text_printf(out,
                    "        torn tail of %" PRIu64 " bytes at %" PRIu64 ": the next start cuts it, nothing is lost\n",
                    v->store.recovery.cut_bytes, v->store.recovery.cut_at);
    if (v->store.recovery.stray_bytes > 0)
        text_printf(out, "        %" PRIu64 " foreign bytes in the unused ends of segments; harmless\n",
                    v->store.recovery.stray_bytes);
    evidence_words(&v->evidence, out);
    tails_words(&v->tails, &v->store, out);
    if (status != 0) {
        if (v->store.hindrance == NULL)
            text_printf(out, "damaged; what to do: " DAMAGED_ACTION "\n", v->store.directory);
        return;
    }
    text_printf(out, "digest  %016" PRIx64 "%s, %" PRIu64 " live tasks\nfine, in %s\n", v->tail.digest,
                v->has_whole ? ", confirmed by the whole log" : "", v->tail.live, duration_format(took_ms, took));
}

static void show_progress(void *argument, const char *noun, uint64_t done, uint64_t total, uint64_t count) {
    struct progress *progress = argument;
    if (noun == NULL) {
        progress_end(progress);
        return;
    }
    if (progress->what != noun) progress_start(progress, noun);
    progress_show(progress, done, total, count);
}

static int run(struct tool *tool, const struct args *args) {
    struct verify v = {0};
    struct text out = {0};
    uint64_t started_ms = steady_ms();
    store_init(&v.store, args->positional[0]);
    if (strlen(v.store.directory) + 16 > STORE_PATH_SIZE) return tool_usage(args, "the directory name is too long");
    int status = evidence_options(&v.evidence, args);
    if (status != 0) return status;
    if (args_has(args, "against") && v.evidence.key_count > 0)
        return tool_usage(args, "--against cannot be used with --key: check each directory separately with --key");
    v.archive = args_get(args, "archive");
    if (args_has(args, "against")) {
        const char *against = args_get(args, "against");
        if (strlen(against) + 16 > STORE_PATH_SIZE)
            return tool_usage(args, "--against: the directory name is too long");
        return compare_directories(tool, v.store.directory, v.archive, against);
    }
    struct progress progress = {0};
    v.progress = show_progress;
    v.progress_argument = &progress;
    status = verify_check(&v);
    if (tool->json)
        print_json(&v, status, steady_ms() - started_ms, &out);
    else
        print_words(&v, status, steady_ms() - started_ms, &out);
    verify_deinit(&v);
    return store_finish(&v.store, &out, status);
}
