/* archive.c: tarry archive list, prune, hold, release: work on the archive's files, with or without a running broker.
 * The archive's lock (archive_keep.h) keeps deletions and holds consistent with the broker. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive_keep.h"
#include "directory.h"
#include "json_out.h"
#include "output.h"
#include "rfc3339.h"
#include "table.h"
#include "units.h"

#define NS_PER_MS 1000000u
#define LOCK_TRIES 100
#define LOCK_TRY_US 20000

static int run_list(struct tool *tool, const struct args *args);
static int run_prune(struct tool *tool, const struct args *args);
static int run_hold(struct tool *tool, const struct args *args);
static int run_release(struct tool *tool, const struct args *args);

/* clang-format off */
#define WHERE_OPTIONS                                                                                                  \
    {"data", ARG_VALUE, "DIR", "data directory of the broker, which may run"},                                         \
    {"archive", ARG_VALUE, "DIR", "archive, without --data too [DIR/archive]"}
/* clang-format on */

static const struct arg_spec list_options[] = {WHERE_OPTIONS, {0}};

const struct command command_archive_list = {
    .name = "archive list",
    .usage = "--data DIR | --archive DIR",
    .summary = "list the archived log segments",
    .text = "Lists the archived segments, the oldest first: file, log positions, times by the broker's clock,\n"
            "number of records, size, and the holds on it; then the holds. If a file is damaged, its line says\n"
            "so, and the exit status is 1. The command reads only the head of each file; 'tarry verify' reads\n"
            "everything.",
    .options = list_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry archive list --data /var/lib/tarry/main\ntarry archive list --archive /mnt/tarry-archive --json",
    .run = run_list,
};

static const struct arg_spec prune_options[] = {
    WHERE_OPTIONS,
    {"older-than", ARG_VALUE, "DUR", "delete segments that ended at least this long ago"},
    {"keep-size", ARG_VALUE, "SIZE", "delete the oldest segments until all files together have at most SIZE"},
    {"dry-run", ARG_FLAG, NULL, "print what would be deleted, and delete nothing"},
    {0},
};

const struct command command_archive_prune = {
    .name = "archive prune",
    .usage = "(--data DIR | --archive DIR) (--older-than DUR | --keep-size SIZE)… [--dry-run]",
    .summary = "delete the oldest archived segments",
    .text = "Deletes archived segments for good, the oldest first, and prints each one. Segments with a hold\n"
            "('tarry archive hold') stay. The broker can do the same by itself (tarryd --retain-archive-age,\n"
            "--retain-archive-size).",
    .options = prune_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry archive prune --data /var/lib/tarry/main --older-than 90d --dry-run\n"
                "tarry archive prune --data /var/lib/tarry/main --keep-size 10GiB",
    .run = run_prune,
};

static const struct arg_spec hold_options[] = {
    WHERE_OPTIONS,
    {"reason", ARG_VALUE, "TEXT", "reason for the hold, and who asked for it (required)"},
    {"from", ARG_VALUE, "T", "records at T or later: RFC 3339, or Unix ms"},
    {"to", ARG_VALUE, "T", "records before T; T may be in the future"},
    {"from-position", ARG_VALUE, "N", "records at log position N or later"},
    {"to-position", ARG_VALUE, "N", "records before log position N"},
    {0},
};

const struct command command_archive_hold = {
    .name = "archive hold",
    .usage = "(--data DIR | --archive DIR) --reason TEXT [--from T] [--to T] [--from-position N] [--to-position N]",
    .summary = "protect archived segments from being pruned",
    .text = "Protects each segment that overlaps the range: neither the broker nor anyone else prunes it until\n"
            "'tarry archive release' with the number that this command prints. The range may reach into the\n"
            "future: the hold also protects segments that are archived later.",
    .options = hold_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples = "tarry archive hold --data /var/lib/tarry/main --reason 'case 17' --from 2026-11-01T00:00:00Z "
                "--to 2026-12-01T00:00:00Z",
    .run = run_hold,
};

static const struct arg_spec release_options[] = {WHERE_OPTIONS, {0}};

const struct command command_archive_release = {
    .name = "archive release",
    .usage = "(--data DIR | --archive DIR) NUMBER",
    .summary = "end the protection of archived segments",
    .text = "Ends the hold with this number; 'tarry archive list' prints the numbers.",
    .options = release_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "NUMBER",
    .examples = "tarry archive release --data /var/lib/tarry/main 1",
    .run = run_release,
};

/* ---- directory of the archive */

/* Returns whether the archive may be missing, because a broker creates it only when it archives the first segment. */
static bool is_yet_to_come(const struct store *store, const struct args *args) {
    char used[STORE_PATH_SIZE + 16];
    snprintf(used, sizeof used, "%s/archived", store->directory);
    return args_get(args, "archive") == NULL && access(store->archive.directory, F_OK) != 0 && errno == ENOENT &&
           access(used, F_OK) != 0;
}

/* Creates the archive's directory as the broker does. */
static int make_place(struct store *store) {
    if (mkdir(store->archive.directory, 0700) != 0 && errno != EEXIST)
        return store_damaged(store, "%s cannot be created: %s", store->archive.directory, strerror(errno));
    int error = owner_give(owner_of(store->directory), store->archive.directory);
    if (error == 0) error = disk_posix.sync_directory(NULL, store->directory);
    return error == 0 ? 0
                      : store_damaged(store, "%s cannot be created: %s", store->archive.directory, strerror(-error));
}

/* Changes the owner of a file in the archive to the owner of the archive's directory. */
static int give_file(struct store *store, const char *name) {
    char path[STORE_PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", store->archive.directory, name);
    int error = owner_give(owner_of(store->archive.directory), path);
    return error == 0 ? 0 : store_damaged(store, "%s: %s", path, strerror(-error));
}

enum place { PLACE_AS_IT_IS, PLACE_MADE };

/* Opens the archive of the data directory, or the one that --archive names. A missing archive counts as empty, unless
 * it is to be created. */
static int open_place(struct store *store, const struct args *args, enum place place, bool *out_is_yet_to_come) {
    const char *data = args_get(args, "data"), *archive = args_get(args, "archive");
    if (data == NULL && archive == NULL) return tool_usage(args, "missing archive: give --data DIR or --archive DIR");
    store_init(store, data != NULL ? data : "");
    if (strlen(store->directory) + 16 > STORE_PATH_SIZE)
        return tool_usage(args, "--data: the directory name is too long");
    int status = data != NULL ? store_identity(store) : 0;
    if (status == 0) status = store_open_archive(store, archive);
    *out_is_yet_to_come = status == 0 && is_yet_to_come(store, args);
    if (*out_is_yet_to_come && place == PLACE_AS_IT_IS) return 0;
    if (*out_is_yet_to_come) status = make_place(store);
    if (status == 0 && access(store->archive.directory, R_OK | X_OK) != 0)
        status = store_damaged(store, "%s: %s", store->archive.directory, strerror(errno));
    if (status == 0 && data == NULL) {
        struct archive_owner owner = {0};
        int error = archive_owner_read(&store->archive, &owner);
        memcpy(store->archive.cluster, owner.cluster, sizeof owner.cluster);
        if (error != 0)
            status = store_damaged(store, "%s: this is not an archive of tarryd (its file `owner`: %s)",
                                   store->archive.directory, store_sentence(error));
    }
    if (status != 0) tool_say("%s", store->message);
    return status;
}

static int failed(struct store *store, int error) {
    return store_damaged(store, "%s: %s", store->archive.directory, store_sentence(error));
}

/* Takes the archive's lock. The caller closes *out_lock. */
static int take_lock(struct store *store, int *out_lock) {
    int lock = -EAGAIN;
    for (int i = 0; i < LOCK_TRIES && lock == -EAGAIN; i++) {
        if (i > 0) usleep(LOCK_TRY_US);
        lock = archive_lock(&store->archive);
    }
    if (lock == -EAGAIN)
        return store_damaged(store, "%s: another command or the broker is changing the archive; try again",
                             store->archive.directory);
    if (lock < 0) return failed(store, lock);
    *out_lock = lock;
    return give_file(store, "lock");
}

/* ---- printing */

static void file_name(uint64_t base, char out[32]) {
    snprintf(out, 32, "%016" PRIx64 ".seg.zst", base);
}

/* Appends the numbers of the holds (marks against pruning) on the segment, for a JSON array or for people. */
static void add_holds(struct text *out, const struct archive_holds *holds, const struct archive_info *info, bool json) {
    size_t count = 0;
    for (size_t i = 0; i < holds->count; i++) {
        const struct archive_holds one = {.holds = &holds->holds[i], .count = 1};
        bool all;
        if (archive_held_by(&one, info, &all) == NULL) continue;
        text_printf(out, "%s%" PRIu32, count++ > 0 ? "," : "", holds->holds[i].number);
    }
    if (holds->unreadable != 0 && !json) text_printf(out, "%s%" PRIu32 "?", count > 0 ? "," : "", holds->unreadable);
}

static void file_json(struct text *out, const struct archive_info *info, const char *result) {
    char name[32];
    file_name(info->base, name);
    out_begin(out, '{');
    out_text(out, "file", name);
    out_text(out, "result", result);
    out_number(out, "base", info->base);
    out_number(out, "end", info->end);
    out_number(out, "first_ms", info->first_ns / NS_PER_MS);
    out_number(out, "last_ms", info->last_ns / NS_PER_MS);
    out_number(out, "frames", info->frames);
    out_number(out, "records", info->records);
    out_number(out, "erased", info->erased);
    out_number(out, "bytes", info->bytes);
}

static void file_cells(struct table *table, const struct archive_info *info) {
    char name[32];
    file_name(info->base, name);
    table_cell(table, name);
    table_cell_number(table, info->base);
    table_cell_number(table, info->end);
    table_cell_time(table, info->first_ns / NS_PER_MS);
    table_cell_time(table, info->last_ns / NS_PER_MS);
    table_cell_number(table, info->records);
    table_cell_number(table, info->bytes);
}

static void hold_json(struct text *out, const struct archive_hold *hold, const char *result) {
    out_begin(out, '{');
    out_number(out, "hold", hold->number);
    out_text(out, "result", result);
    out_text(out, "reason", hold->reason);
    out_number(out, "made_ms", hold->made_ms);
    out_number(out, "from", hold->from);
    if (hold->to != 0) out_number(out, "to", hold->to);
    out_number(out, "from_ms", hold->from_ns / NS_PER_MS);
    if (hold->to_ns != 0) out_number(out, "to_ms", hold->to_ns / NS_PER_MS);
}

static void hold_words(struct text *out, const struct archive_hold *hold) {
    char time[RFC3339_TEXT_SIZE];
    text_printf(out, "hold %" PRIu32 "  placed %s", hold->number, rfc3339_format(hold->made_ms, time));
    if (hold->from != 0) text_printf(out, "  from position %" PRIu64, hold->from);
    if (hold->to != 0) text_printf(out, "  to position %" PRIu64, hold->to);
    if (hold->from_ns != 0) text_printf(out, "  from %s", rfc3339_format(hold->from_ns / NS_PER_MS, time));
    if (hold->to_ns != 0) text_printf(out, "  to %s", rfc3339_format(hold->to_ns / NS_PER_MS, time));
    text_printf(out, "  ");
    plain_add(out, hold->reason, strlen(hold->reason));
    text_add_char(out, '\n');
}

/* ---- list */

struct listing {
    struct store *store;
    bool json;
    struct archive_holds holds;
    struct table table;
    struct text out;
    uint64_t bytes;
    uint64_t files;
    uint64_t wrong;
};

static const char *const list_heads[] = {"file", ">from", ">to", "first", "last", ">records", ">bytes", "held"};
#define LIST_COLUMNS (sizeof list_heads / sizeof list_heads[0])

static void list_wrong(struct listing *listing, uint64_t base, int error, const char *problem) {
    char name[32];
    const char *sentence = problem != NULL ? problem : store_sentence(error);
    file_name(base, name);
    listing->wrong++;
    tool_say("%s/%s %s", listing->store->archive.directory, name, sentence);
    if (!listing->json) return;
    out_begin(&listing->out, '{');
    out_text(&listing->out, "file", name);
    out_text(&listing->out, "result", "damaged");
    out_text(&listing->out, "message", sentence);
    out_line_end(&listing->out);
}

static void list_file(struct listing *listing, uint64_t base) {
    struct archive_info info;
    const char *problem;
    int error = archive_look(&listing->store->archive, base, &info, &problem);
    if (error == -ENOENT) return; /* pruned meanwhile */
    if (error != 0) {
        list_wrong(listing, base, error, problem);
        return;
    }
    listing->files++;
    listing->bytes += info.bytes;
    if (listing->json) {
        file_json(&listing->out, &info, "archived");
        out_key(&listing->out, "holds");
        text_add_char(&listing->out, '[');
        add_holds(&listing->out, &listing->holds, &info, true);
        text_add_char(&listing->out, ']');
        out_line_end(&listing->out);
        return;
    }
    struct text held = {0};
    add_holds(&held, &listing->holds, &info, false);
    file_cells(&listing->table, &info);
    table_cell(&listing->table, held.size > 0 ? text_str(&held) : "-");
    text_deinit(&held);
}

static void list_holds(struct listing *listing) {
    const struct archive_holds *holds = &listing->holds;
    if (!listing->json && holds->count > 0) text_add_char(&listing->out, '\n');
    for (size_t i = 0; i < holds->count; i++) {
        if (listing->json) {
            hold_json(&listing->out, &holds->holds[i], "held");
            out_line_end(&listing->out);
        } else {
            hold_words(&listing->out, &holds->holds[i]);
        }
    }
    if (holds->unreadable == 0) return;
    listing->wrong++;
    tool_say("hold %" PRIu32 " cannot be read: the broker prunes nothing until it is released", holds->unreadable);
}

static int run_list(struct tool *tool, const struct args *args) {
    struct store store = {0};
    struct listing listing = {.store = &store, .json = tool->json};
    uint64_t *bases = NULL;
    size_t count = 0;
    bool is_yet_to_come = false;
    int status = open_place(&store, args, PLACE_AS_IT_IS, &is_yet_to_come);
    if (status != 0) return status;
    int error = is_yet_to_come ? 0 : archive_holds_read(&store.archive, &listing.holds);
    if (error == 0 && !is_yet_to_come) error = archive_list(&store.archive, &bases, &count);
    if (error != 0) status = failed(&store, error);
    table_init(&listing.table, list_heads, LIST_COLUMNS);
    for (size_t i = 0; i < count; i++) list_file(&listing, bases[i]);
    if (!tool->json && listing.files > 0) table_print(&listing.table, &listing.out);
    list_holds(&listing);
    if (!tool->json)
        tool_say("%" PRIu64 " segments, %" PRIu64 " bytes%s", listing.files, listing.bytes,
                 is_yet_to_come ? ": the broker has archived nothing yet" : "");
    if (status == 0 && listing.wrong > 0)
        status = store_damaged(&store, "%" PRIu64 " files are damaged or do not belong there", listing.wrong);
    table_deinit(&listing.table);
    archive_holds_free(&listing.holds);
    free(bases);
    return store_finish(&store, &listing.out, status);
}

/* ---- prune */

struct printing {
    struct tool *tool;
    const char *word;
    struct text out;
};

static void print_pruned(void *argument, const struct archive_info *info) {
    struct printing *printing = argument;
    char name[32];
    if (printing->tool->json) {
        file_json(&printing->out, info, printing->word);
        out_line_end(&printing->out);
        return;
    }
    file_name(info->base, name);
    text_printf(&printing->out, "%s %s (%" PRIu64 " bytes)\n", printing->word, name, info->bytes);
}

static int prune_limits(const struct args *args, struct archive_limits *out) {
    uint64_t age_ms = 0, now_ms = wall_ms();
    const char *size = args_get(args, "keep-size");
    int status = option_duration_positive(args, "older-than", &age_ms);
    if (status != 0) return status;
    *out = (struct archive_limits){.bytes_max = UINT64_MAX};
    if (size != NULL && !size_parse(size, &out->bytes_max))
        return tool_usage(args, "--keep-size: '%s' is not a size such as 500MiB or 10GiB", size);
    if (size == NULL && age_ms == 0)
        return tool_usage(args, "missing limit: give --older-than DUR or --keep-size SIZE");
    if (age_ms != 0 && now_ms > age_ms) out->before_wall_ns = (now_ms - age_ms) * NS_PER_MS;
    return 0;
}

static int run_prune(struct tool *tool, const struct args *args) {
    struct store store = {0};
    struct archive_limits limits;
    struct archive_pruning pruning = {0};
    bool dry = args_has(args, "dry-run");
    struct printing printing = {.tool = tool, .word = dry ? "would prune" : "pruned"};
    int lock = -1;
    bool is_yet_to_come = false;
    int status = prune_limits(args, &limits);
    if (status == 0) status = open_place(&store, args, PLACE_AS_IT_IS, &is_yet_to_come);
    if (status != 0) return status;
    if (is_yet_to_come) tool_say("the broker has archived nothing yet");
    if (!is_yet_to_come) status = take_lock(&store, &lock);
    if (status == 0 && !is_yet_to_come) {
        int error = archive_prune(&store.archive, &limits, dry, print_pruned, &printing, &pruning);
        if (error != 0) status = failed(&store, error);
        tool_say("%s %" PRIu64 " segments, %" PRIu64 " bytes; %" PRIu64 " more are held", printing.word, pruning.files,
                 pruning.bytes, pruning.held);
    }
    if (lock >= 0) close(lock);
    if (status == 0 && pruning.unknown > 0)
        status = store_damaged(&store, "%" PRIu64 " files cannot be read and were left; see 'tarry archive list'",
                               pruning.unknown);
    return store_finish(&store, &printing.out, status);
}

/* ---- hold and release */

static int hold_options_take(const struct args *args, struct archive_hold *out) {
    uint64_t from_ms = 0, to_ms = 0;
    const char *reason = args_get(args, "reason");
    if (reason == NULL || reason[0] == 0) return tool_usage(args, "missing --reason TEXT, the reason for the hold");
    if (strlen(reason) >= ARCHIVE_REASON_SIZE)
        return tool_usage(args, "--reason: at most %u bytes", ARCHIVE_REASON_SIZE - 1);
    *out = (struct archive_hold){.made_ms = wall_ms()};
    memcpy(out->reason, reason, strlen(reason) + 1);
    bool some = args_has(args, "from") || args_has(args, "to") || args_has(args, "from-position") ||
                args_has(args, "to-position");
    if (!some) return tool_usage(args, "missing range: give --from, --to, --from-position or --to-position");
    int status = option_time(args, "from", &from_ms);
    if (status == 0) status = option_time(args, "to", &to_ms);
    if (status == 0) status = option_number(args, "from-position", 0, UINT64_MAX, &out->from);
    if (status == 0) status = option_number(args, "to-position", 1, UINT64_MAX, &out->to);
    if (status != 0) return status;
    if (from_ms > UINT64_MAX / NS_PER_MS || to_ms > UINT64_MAX / NS_PER_MS)
        return tool_usage(args, "--from, --to: the time is too far in the future");
    if ((args_has(args, "to") && to_ms <= from_ms) || (out->to != 0 && out->to <= out->from))
        return tool_usage(args, "the range ends before it begins");
    out->from_ns = from_ms * NS_PER_MS;
    out->to_ns = to_ms * NS_PER_MS;
    return 0;
}

static int run_hold(struct tool *tool, const struct args *args) {
    struct store store = {0};
    struct archive_hold hold;
    struct text out = {0};
    int lock = -1;
    bool is_yet_to_come = false;
    int status = hold_options_take(args, &hold);
    if (status == 0) status = open_place(&store, args, PLACE_MADE, &is_yet_to_come);
    if (status != 0) return status;
    status = take_lock(&store, &lock);
    if (status == 0) {
        char name[ARCHIVE_HOLD_NAME_SIZE];
        int error = archive_hold_place(&store.archive, &hold);
        archive_hold_name(hold.number, name);
        status = error != 0 ? failed(&store, error) : give_file(&store, name);
    }
    if (lock >= 0) close(lock);
    if (status == 0 && tool->json) {
        hold_json(&out, &hold, "held");
        out_line_end(&out);
    } else if (status == 0) {
        hold_words(&out, &hold);
    }
    return store_finish(&store, &out, status);
}

static int run_release(struct tool *tool, const struct args *args) {
    struct store store = {0};
    struct text out = {0};
    char *end;
    const char *text = args->positional[0];
    unsigned long number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != 0 || number == 0 || number > UINT32_MAX)
        return tool_usage(args, "'%s' is not the number of a hold; 'tarry archive list' prints them", text);
    int lock = -1;
    bool is_yet_to_come = false;
    int status = open_place(&store, args, PLACE_AS_IT_IS, &is_yet_to_come);
    if (status != 0) return status;
    if (!is_yet_to_come) status = take_lock(&store, &lock);
    if (status == 0) {
        int error = is_yet_to_come ? -ENOENT : archive_hold_release(&store.archive, (uint32_t)number);
        if (error == -ENOENT) status = store_damaged(&store, "hold %lu does not exist", number);
        if (error != 0 && error != -ENOENT) status = failed(&store, error);
    }
    if (lock >= 0) close(lock);
    if (status == 0 && tool->json) {
        out_begin(&out, '{');
        out_number(&out, "hold", number);
        out_text(&out, "result", "released");
        out_line_end(&out);
    } else if (status == 0) {
        text_printf(&out, "released %lu\n", number);
    }
    return store_finish(&store, &out, status);
}
