/* history.c: tarry history: the life of a task, from the log. A key may have had several tasks, one after another. */
#include <stdlib.h>
#include <string.h>

#include "entry_words.h"
#include "json_map.h"
#include "output.h"
#include "scan.h"

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"data", ARG_VALUE, "DIR", "data directory of a broker that is not running, to read instead of a broker"},
    STORE_ARCHIVE_OPTION,
    OPTIONS_FRESH,
    {"id", ARG_VALUE, "ID", "id of the task, instead of QUEUE and KEY"},
    {0},
};

const struct command command_history = {
    .name = "history",
    .usage = "[--data DIR [--archive DIR]] QUEUE KEY\n[--data DIR [--archive DIR]] --id ID",
    .summary = "print the life of a task, from the log",
    .text = "Prints all that the log says about a task, or about every task that had the key: when it was\n"
            "scheduled, moved, delivered and settled, by whom, and how it ended. It reads all segments that the\n"
            "log and the archive still have (tarryd --retain-archive-age, --retain-archive-size). The exit\n"
            "status is 1 if they do not contain the task.",
    .options = options,
    .positional_min = 0,
    .positional_max = 2,
    .examples = "tarry history close-order order-1001\n"
                "tarry history --data /var/lib/tarry/main close-order order-1001\n"
                "tarry history --data /var/lib/tarry/main --id 4711 --json",
    .run = run,
};

struct telling {
    struct tool *tool;
    struct text out;
    uint64_t task; /* id of the task whose record was printed last */
    uint64_t count;
};

static int tell(void *argument, const struct entry *entry) {
    struct telling *telling = argument;
    uint64_t id = entry_id(entry, NULL);
    telling->count++;
    if (telling->tool->json) {
        json_entry(&telling->out, entry);
        return 0;
    }
    if (id != telling->task)
        text_printf(&telling->out, "%stask %llu of %s\n", telling->task != 0 ? "\n" : "", (unsigned long long)id,
                    entry->queue != NULL ? entry->queue : "a queue whose name the log no longer has");
    telling->task = id;
    entry_words(&telling->out, entry, false);
    return 0;
}

static int run(struct tool *tool, const struct args *args) {
    struct tarry_ref ref;
    struct telling telling = {.tool = tool};
    struct source source;
    int status = option_ref(args, &ref);
    if (status == 0) status = source_open(&source, tool, args, false);
    if (status != 0) return status;
    struct scan_filter filter = {.id = ref.id, .queue = ref.queue, .key = ref.key};
    status = scan_source(&source, &filter, tell, &telling);
    if (status == 0 && telling.count == 0) status = store_damaged(source.store, "the log has no such task");
    return source_finish(&source, &telling.out, status);
}
