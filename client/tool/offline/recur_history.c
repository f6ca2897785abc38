/* recur_history.c: tarry recur history: what the log says about a recurrence and its occurrences. */
#include <string.h>

#include "check.h"
#include "entry_words.h"
#include "json_map.h"
#include "output.h"
#include "source.h"

#define PAGE_BYTES (256u << 10)

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"data", ARG_VALUE, "DIR", "data directory of a broker that is not running, to read instead of a broker"},
    STORE_ARCHIVE_OPTION,
    OPTIONS_FRESH,
    {"queue", ARG_VALUE, "QUEUE", "queue of the recurrence [all queues that have one of this name]"},
    {"from", ARG_VALUE, "T", "only records at T or later: RFC 3339, or Unix ms"},
    {"to", ARG_VALUE, "T", "only records before T"},
    {0},
};

const struct command command_recur_history = {
    .name = "recur history",
    .usage = "[--data DIR [--archive DIR]] NAME [--queue QUEUE] [--from T] [--to T]",
    .summary = "print the past of a recurring task, from the log",
    .text = "Prints the records of the recurrence (set, fell due, missed, skipped, paused, …) and of the tasks of\n"
            "its occurrences, the oldest first. It reads all segments that the log and the archive still have\n"
            "(tarryd --retain-archive-age, --retain-archive-size). The exit status is 1 if they contain none.",
    .options = options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "NAME",
    .examples = "tarry recur history daily\n"
                "tarry recur history --data /var/lib/tarry/main daily --from 2026-11-21T00:00:00Z --json",
    .run = run,
};

struct telling {
    struct tool *tool;
    const char *name;
    struct text out;
    uint64_t count;
};

static bool is_of(const char *name, const struct entry *entry) {
    const Tarry__Task *task = entry_task(entry);
    if (entry->record->fact_case == TARRY__RECORD__FACT_RECUR) return strcmp(entry->record->recur->name, name) == 0;
    if (task == NULL) return false;
    const size_t size = occurrence_name_size(task->key.data, task->key.len);
    return size == strlen(name) && memcmp(task->key.data + OCCURRENCE_PREFIX_SIZE, name, size) == 0;
}

static int tell(void *argument, const struct entry *entry) {
    struct telling *telling = argument;
    if (!is_of(telling->name, entry)) return 0;
    telling->count++;
    if (telling->tool->json)
        json_entry(&telling->out, entry);
    else
        entry_words(&telling->out, entry, true);
    if (telling->out.size >= PAGE_BYTES) output_write(&telling->out, false);
    return output_lost();
}

static int run(struct tool *tool, const struct args *args) {
    struct telling telling = {.tool = tool, .name = args->positional[0]};
    struct scan_filter filter = {.queue = args_get(args, "queue")};
    struct source source;
    int status = option_time(args, "from", &filter.from_ms);
    if (status == 0) status = option_time(args, "to", &filter.to_ms);
    if (status == 0) status = source_open(&source, tool, args, false);
    if (status != 0) return status;
    status = scan_source(&source, &filter, tell, &telling);
    if (status == 0 && telling.count == 0) status = store_damaged(source.store, "the log has no such recurrence");
    return source_finish(&source, &telling.out, status);
}
