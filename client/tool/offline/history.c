/* history.c: tarry history: the life of a task, from the log. A key may have had several tasks, one after another. */
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "scan.h"

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"data", ARG_VALUE, "DIR", "the data directory of a broker that is not running"},
    {"id", ARG_VALUE, "ID", "the task by its id instead of QUEUE and KEY"},
    {0},
};

const struct command command_history = {
    .name = "history",
    .usage = "--data DIR QUEUE KEY\n--data DIR --id ID",
    .summary = "the life of a task, from the log",
    .text = "Prints all that the log knows about a task, or about every task that had the key: when it was scheduled,\n"
            "moved, delivered, settled, and by whom; how it ended. Exit status 1 if the log does not know it: it\n"
            "reaches as far back as segments are kept (tarryd --retain-log-age, --retain-log-size).",
    .options = options,
    .positional_min = 0,
    .positional_max = 2,
    .positional_names = "QUEUE and KEY",
    .examples = "tarry history --data /var/lib/tarry close-order order-1001\n"
                "tarry history --data /var/lib/tarry --id 4711 --json",
    .run = run,
};

struct telling {
    struct tool *tool;
    struct text out;
    uint64_t task; /* told about last */
    uint64_t count;
};

static int tell(void *argument, const struct entry *entry) {
    struct telling *telling = argument;
    const Tarry__Task *task = entry_task(entry);
    telling->count++;
    if (telling->tool->json) {
        entry_json(&telling->out, entry);
        return 0;
    }
    if (task->id != telling->task)
        text_printf(&telling->out, "%stask %llu of %s\n", telling->task != 0 ? "\n" : "", (unsigned long long)task->id,
                    entry->queue != NULL ? entry->queue : "a queue whose name is lost");
    telling->task = task->id;
    entry_words(&telling->out, entry, false);
    return 0;
}

static int run(struct tool *tool, const struct args *args) {
    struct tarry_ref ref;
    struct telling telling = {.tool = tool};
    struct store store;
    int status = option_ref(args, &ref);
    if (status == 0) status = store_open(&store, args);
    if (status != 0) return status;
    struct scan_filter filter = {.id = ref.id, .queue = ref.queue, .key = ref.key};
    status = scan(&store, &filter, tell, &telling);
    if (status == 0 && telling.count == 0) status = store_damaged(&store, "the log knows no such task");
    return store_finish(&store, &telling.out, status);
}
