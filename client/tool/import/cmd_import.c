/* cmd_import.c: tarry import. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "alloc.h"
#include "bean_words.h"
#include "import.h"
#include "json_out.h"
#include "output.h"
#include "signals.h"
#include "table.h"
#include "tarry_limits.h"
#include "units.h"

/* ---- the receipt */

/* Finds the receipt of an unfinished import. Its count is 0 if there is none. */
static int import_receipt_find(struct import *import, struct receipt *out) {
    struct tarry_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE];
    *out = (struct receipt){0};
    import->receipt_task = 0;
    int code = tarry_get(import->tool->client, &(struct tarry_ref){.queue = RECEIPT_QUEUE, .key = import->receipt_key},
                         true, NULL, &view, message);
    if (code != TARRY_OK) return tool_refused(import->tool, code, message);
    int status = 0;
    if (view->outcome == TARRY_PENDING) {
        import->receipt_task = view->id;
        if (!view->has_content || !receipt_parse(out, view->payload, view->payload_size)) {
            tool_say("the task '%s' of queue %s is not a receipt of an import; cancel it if it is not needed",
                     import->receipt_key, RECEIPT_QUEUE);
            status = EXIT_REFUSED;
        }
    }
    tarry_view_free(view);
    return status;
}

static int import_receipt_drop(struct import *import) {
    struct tarry_result result;
    if (import->receipt_task == 0) return 0;
    int code =
        tarry_cancel(import->tool->client, &(struct tarry_ref){.id = import->receipt_task}, false, NULL, &result);
    if (code != TARRY_OK && code != TARRY_NOT_DONE) return tool_refused(import->tool, code, result.message);
    import->receipt_task = 0;
    return 0;
}

/* ---- a batch */

static bool is_to_come(const struct import_item *item) {
    return item->verdict == ITEM_NEW;
}

static void add_receipt(struct import *import, const struct import_batch *batch, tarry_commit *commit) {
    struct text text = {0};
    receipt_begin(&text, import->server);
    for (size_t i = 0; i < batch->count; i++)
        if (batch->items[i].verdict != ITEM_REFUSED) receipt_add(&text, &batch->items[i].mark);
    if (import->receipt_task != 0) tarry_commit_cancel(commit, &(struct tarry_ref){.id = import->receipt_task}, false);
    tarry_commit_schedule(commit, &(struct tarry_schedule_options){.queue = RECEIPT_QUEUE,
                                                                   .key = import->receipt_key,
                                                                   .when = TARRY_DELAY,
                                                                   .when_ms = RECEIPT_DUE_MS,
                                                                   .expires_ms = 1,
                                                                   .payload = text.data,
                                                                   .payload_size = text.size});
    text_deinit(&text);
}

static void add_item(const struct import_item *item, tarry_commit *commit) {
    const struct tarry_attribute note = {"beanstalk", item->note};
    const uint64_t passed_ms = steady_ms() - item->read_ms;
    struct tarry_schedule_options task = {.queue = item->queue,
                                          .key = item->own_key != NULL ? item->own_key : item->key,
                                          .key_size = item->own_key != NULL ? item->payload_size : 0,
                                          .when = item->when,
                                          .when_ms = item->when_ms,
                                          .priority = item->priority,
                                          .payload = item->payload,
                                          .payload_size = item->payload_size,
                                          .attributes = item->note[0] != 0 ? &note : NULL,
                                          .attribute_count = item->note[0] != 0};
    if (item->when == TARRY_DELAY) task.when_ms = item->when_ms > passed_ms ? item->when_ms - passed_ms : 0;
    tarry_commit_schedule(commit, &task);
}

static void refuse(struct import *import, struct import_item *item, int code, const char *message) {
    struct text out = {0};
    const char *sentence = message[0] != 0 ? message : tarry_code_sentence(code);
    item->verdict = ITEM_REFUSED;
    import->refused++;
    if (import->tool->json) {
        out_begin(&out, '{');
        out_text(&out, "result", "error");
        if (item->mark.id != 0) out_id(&out, "job", item->mark.id);
        out_text(&out, "queue", item->queue);
        out_text(&out, "code", tarry_code_name(code));
        out_text(&out, "message", sentence);
        out_line_end(&out);
        output_write(&out, false);
    } else if (import->refused <= REFUSALS_SAID_MAX) {
        char name[32] = "a member";
        if (item->mark.id != 0) snprintf(name, sizeof name, "job %llu", (unsigned long long)item->mark.id);
        tool_say("%s (%s) stays there: %s", name, item->queue, sentence);
    }
    text_deinit(&out);
}

/* Handles the broker's result for one item. If its key was computed from the item (own_key is NULL) and exists already,
 * the same item was imported before. If the key was taken from the payload, the existing task may be another client's.
 */
static void judge(struct import *import, struct import_item *item, const struct tarry_result *result) {
    item->task = result->id;
    if (result->code == TARRY_OK) {
        item->verdict = ITEM_CAME;
    } else if (result->code == TARRY_EXISTS && item->own_key == NULL) {
        item->verdict = ITEM_HERE;
    } else if (result->code != TARRY_ABORTED) {
        refuse(import, item, result->code, result->message);
    }
}

static int refused_receipt(struct import *import, const struct tarry_result *result) {
    if (result->code == TARRY_EXISTS || result->code == TARRY_NOT_DONE) {
        tool_say("another import from %s is running; repeat this one when that has ended", import->address);
        return EXIT_REFUSED;
    }
    return tool_refused(import->tool, result->code, result->message);
}

/* Runs the commit and sets the verdict of each item. Sets *out_again if the commit was atomic and had no effect,
 * because an operation was refused; the caller then runs it again without the refused items. */
static int run_commit(struct import *import, struct import_batch *batch, tarry_commit *commit, size_t receipt_ops,
                      bool *out_again) {
    const struct tarry_result *results = NULL;
    size_t count = 0, at = receipt_ops;
    const size_t expected = tarry_commit_count(commit);
    int code = tarry_commit_run(commit, NULL, &results, &count);
    if (results == NULL || count != expected) return tool_refused(import->tool, code, NULL);
    for (size_t i = 0; i < receipt_ops; i++)
        if (results[i].code != TARRY_OK && results[i].code != TARRY_ABORTED)
            return refused_receipt(import, &results[i]);
    for (size_t i = 0; i < batch->count; i++)
        if (is_to_come(&batch->items[i])) judge(import, &batch->items[i], &results[at++]);
    *out_again = receipt_ops > 0 && results[receipt_ops - 1].code == TARRY_ABORTED;
    if (receipt_ops > 0 && !*out_again) import->receipt_task = results[receipt_ops - 1].id;
    return 0;
}

/* Commits the batch and its receipt. Returns 0, or an exit status after a message. */
static int import_commit(struct import *import, struct import_batch *batch) {
    tarry_commit *commit = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        struct import_item *item = &batch->items[i];
        if (is_to_come(item) && item->payload == NULL)
            refuse(import, item, TARRY_TOO_LARGE, "it is larger than the maximum size of a task");
    }
    int status = 0;
    for (bool again = true; again && status == 0;) {
        size_t receipt_ops = import->is_copy ? 0 : import->receipt_task != 0 ? 2 : 1, count = 0;
        for (size_t i = 0; i < batch->count; i++) count += is_to_come(&batch->items[i]);
        if (count == 0) break;
        int code = commit == NULL ? tarry_commit_new(import->tool->client, !import->is_copy, &commit) : TARRY_OK;
        if (code != TARRY_OK) return tool_refused(import->tool, code, NULL);
        tarry_commit_clear(commit);
        if (!import->is_copy) add_receipt(import, batch, commit);
        for (size_t i = 0; i < batch->count; i++)
            if (is_to_come(&batch->items[i])) add_item(&batch->items[i], commit);
        status = run_commit(import, batch, commit, receipt_ops, &again);
    }
    tarry_commit_free(commit);
    return status;
}

/* Cancels tasks whose items another client has taken at the server. A task that a consumer of Tarry already has cannot
 * be cancelled. */
static int import_withdraw(struct import *import, struct import_batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        struct import_item *item = &batch->items[i];
        if (item->fate != FATE_TAKEN || item->verdict != ITEM_CAME) continue;
        struct tarry_result result;
        int code = tarry_cancel(import->tool->client, &(struct tarry_ref){.id = item->task}, false, NULL, &result);
        if (code == TARRY_OK)
            import->taken++;
        else if (code == TARRY_NOT_DONE)
            import->doubled++;
        else
            return tool_refused(import->tool, code, result.message);
    }
    return 0;
}

/* ---- for origins */

#define ANSWER_SHOWN_MAX 60u

int import_lost(struct import *import) {
    tool_say("%s: %s", import->address, import->link.error);
    return EXIT_REFUSED;
}

int import_nonsense(struct import *import, const char *what, const char *answer, size_t size) {
    struct text text = {0};
    plain_add(&text, answer, size < ANSWER_SHOWN_MAX ? size : ANSWER_SHOWN_MAX);
    tool_say("%s: %s: %s", import->address, what, text_str(&text));
    text_deinit(&text);
    server_link_fail(&import->link, "%s", what);
    return EXIT_REFUSED;
}

void import_batch_clear(struct import_batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        free(batch->items[i].queue);
        free(batch->items[i].payload);
        free(batch->items[i].score);
    }
    batch->count = batch->bytes = 0;
}

struct import_item *import_batch_add(struct import_batch *batch) {
    struct import_item *item = &batch->items[batch->count++];
    *item = (struct import_item){.read_ms = steady_ms()};
    return item;
}

uint64_t import_hash(const void *bytes, size_t size) {
    return XXH3_64bits(bytes, size);
}

void import_digest(char out[ITEM_KEY_SIZE], const char *prefix, const void *const *parts, const size_t *sizes,
                   size_t count) {
    struct text all = {0};
    for (size_t i = 0; i < count; i++) {
        text_printf(&all, "%zu:", sizes[i]);
        text_add(&all, parts[i], sizes[i]);
    }
    const XXH128_hash_t hash = XXH3_128bits(all.data, all.size);
    snprintf(out, ITEM_KEY_SIZE, "%s:%016llx%016llx", prefix, (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    text_deinit(&all);
}

/* ---- the passes */

static void show_progress(struct import *import) {
    const uint64_t done = import->moved + import->copied + import->existed + import->refused + import->taken;
    progress_show(&import->progress, done, import->total, done);
}

static void tally(struct import *import, const struct import_batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        const struct import_item *item = &batch->items[i];
        const bool is_done = import->is_copy || item->fate == FATE_REMOVED;
        if (item->verdict == ITEM_HERE && is_done) import->existed++;
        if (item->verdict == ITEM_CAME && is_done) *(import->is_copy ? &import->copied : &import->moved) += 1;
    }
}

/* Removes items at the server after they are durable here, never before. */
static int take_batch(struct import *import, struct import_batch *batch) {
    int status = import_commit(import, batch);
    if (status == 0 && !import->is_copy) status = import->origin->remove(import, batch);
    if (status == 0 && !import->is_copy) status = import_withdraw(import, batch);
    if (status == 0) tally(import, batch);
    return status;
}

/* Imports batch after batch. `only`: the receipt of an unfinished import; then removes only the receipt's items, which
 * are in Tarry, from the server. NULL: imports all items. */
static int pass(struct import *import, const struct receipt *only) {
    struct import_batch batch = {.items = tool_alloc(BATCH_ITEMS_MAX * sizeof *batch.items)};
    int status = import->origin->start(import, only);
    while (status == 0 && !signals_ended()) {
        status = import->origin->next(import, &batch);
        if (status != 0 || batch.count == 0) break;
        status = take_batch(import, &batch);
        import_batch_clear(&batch);
        show_progress(import);
    }
    import_batch_clear(&batch);
    free(batch.items);
    if (status == 0 && signals_ended()) {
        progress_end(&import->progress);
        tool_say("interrupted; the jobs that were not imported stay at the source: repeat the import");
        status = EXIT_REFUSED;
    }
    return status;
}

/* Finishes an earlier, unfinished import: removes its items at the server. */
static int resolve(struct import *import) {
    struct receipt receipt;
    int status = import_receipt_find(import, &receipt);
    if (status == 0 && receipt.count > 0) {
        tool_say("an earlier import into this broker did not finish: this import first completes it");
        status = pass(import, &receipt);
    }
    receipt_deinit(&receipt);
    return status;
}

/* ---- output */

static void say_part(struct text *out, const char **gap, uint64_t count, const char *words) {
    if (count == 0) return;
    text_printf(out, "%s%llu %s", *gap, (unsigned long long)count, words);
    *gap = ", ";
}

static void summarize_words(const struct import *import, const struct counts *left) {
    char took[UNITS_TEXT_SIZE];
    struct text text = {0};
    const char *gap = "";
    say_part(&text, &gap, import->moved, "moved");
    say_part(&text, &gap, import->copied, "copied");
    say_part(&text, &gap, import->existed, "were already imported");
    say_part(&text, &gap, import->refused, "refused");
    say_part(&text, &gap, import->taken, "taken by other workers at the source meanwhile");
    if (text.size == 0) text_add_str(&text, "nothing to import");
    text_printf(&text, ", in %s", duration_format(steady_ms() - import->progress.started_ms, took));
    gap = "; still at the source: ";
    for (size_t i = 0; i < left->count; i++) say_part(&text, &gap, left->numbers[i], left->names[i]);
    tool_say("%s", text_str(&text));
    text_deinit(&text);
    if (import->doubled > 0)
        tool_say("%llu jobs were taken by a worker at the source while a consumer here already had them: both may "
                 "process them",
                 (unsigned long long)import->doubled);
}

static int summarize(const struct import *import, const struct counts *left, int status) {
    if (!import->tool->json) {
        summarize_words(import, left);
        return status;
    }
    struct text out = {0}, name = {0};
    out_begin(&out, '{');
    out_text(&out, "result", "imported");
    out_text(&out, "from", import->address);
    out_number(&out, "moved", import->moved);
    out_number(&out, "copied", import->copied);
    out_number(&out, "existed", import->existed);
    out_number(&out, "refused", import->refused);
    out_number(&out, "taken", import->taken);
    out_number(&out, "doubled", import->doubled);
    for (size_t i = 0; i < left->count; i++) {
        name.size = 0;
        text_printf(&name, "left_%s", left->names[i]);
        out_number(&out, text_str(&name), left->numbers[i]);
    }
    out_line_end(&out);
    status = output_flush(&out, status);
    text_deinit(&out);
    text_deinit(&name);
    return status;
}

/* ---- the import */

static uint64_t sum(const struct counts *counts) {
    uint64_t all = 0;
    for (size_t i = 0; i < counts->count; i++) all += counts->numbers[i];
    return all;
}

static int take_all(struct import *import) {
    struct counts left = {.count = 0};
    int status = tool_connect_lasting(import->tool);
    if (status != 0) return status;
    signals_graceful();
    progress_start(&import->progress, import->is_copy ? "copied" : "moved");
    import->total = sum(&import->before);
    if (!import->is_copy) status = resolve(import);
    if (status == 0) status = pass(import, NULL);
    if (status == 0) status = import_receipt_drop(import);
    progress_end(&import->progress);
    if (import->link.error[0] == 0 && import->origin->count(import, &left) != 0) left.count = 0;
    const bool is_left = !import->is_copy && sum(&left) > 0;
    return summarize(import, &left, status == 0 && (is_left || import->refused > 0) ? EXIT_REFUSED : status);
}

/* Runs the import; returns the exit status. */
static int import_run(struct import *import, bool is_dry) {
    int status = import->origin->begin(import);
    if (status == 0) status = is_dry ? import->origin->show(import) : take_all(import);
    import->origin->end(import);
    server_link_close(&import->link);
    return status;
}

/* ---- the command */

#define PASSWORD_SIZE 513u
#define TUBES_MAX 1024u
#define REDIS_DEFAULT "127.0.0.1"

static const struct arg_spec options[] = {
    {"beanstalkd", ARG_VALUE, "HOST[:PORT]", "beanstalkd whose jobs are imported [port 11300]"},
    {"tube", ARG_MANY, "T", "tube to import; may be repeated [all tubes]"},
    {"queue-prefix", ARG_VALUE, "P", "prefix of the queue names: tube T becomes queue PT"},
    {"redis-zset", ARG_VALUE, "KEY", "sorted set in Redis whose members are imported, each due at its score"},
    {"redis", ARG_VALUE, "HOST[:PORT]", "address of Redis [127.0.0.1:6379]"},
    {"redis-db", ARG_VALUE, "N", "number of the Redis database [0]"},
    {"redis-user", ARG_VALUE, "NAME", "Redis user, if Redis has users (ACL)"},
    {"redis-password-file", ARG_VALUE, "F", "file with the Redis password [$TARRY_REDIS_PASSWORD]"},
    {"score", ARG_VALUE, "s|ms", "unit of a score since 1970 [guessed from its size]"},
    {"member-key", ARG_FLAG, NULL, "use the member as the key of the task, too"},
    {"dry-run", ARG_FLAG, NULL, "only count the jobs or members"},
    {"copy", ARG_FLAG, NULL, "remove nothing from the other server"},
    {0},
};

static int run(struct tool *tool, const struct args *args);

const struct command command_import = {
    .name = "import",
    .usage = "--beanstalkd HOST[:PORT] [--tube T]… [OPTION]…\nQUEUE --redis-zset KEY [--redis HOST[:PORT]] [OPTION]…",
    .summary = "import the jobs of a beanstalkd, or of a sorted set in Redis",
    .text = "Imports the waiting jobs of another server. It schedules them here, waits until they are durable,\n"
            "and only then removes them there. If it is interrupted or killed, repeat it: nothing is lost, and\n"
            "nothing is imported twice. A task in queue tarry-import names the jobs that are being moved; it is\n"
            "written in the same atomic commit.\n\n"
            "beanstalkd: tube T becomes queue T. Ready jobs are ready, in the order of pri and id. Delayed jobs\n"
            "are due when their delay is over, or up to one second later, because beanstalkd reports whole\n"
            "seconds. Buried jobs become tasks of queue T.buried, where no consumer gets them by accident.\n"
            "Reserved jobs stay with their workers. Clients that use beanstalkd's protocol (tarryd --listen\n"
            "beanstalk://…) see pri and TTR of the jobs; other clients see them in the attribute 'beanstalk'.\n"
            "To find the highest job id, the command puts a job into tube tarry-import-probe and deletes it.\n\n"
            "Redis: a member becomes the payload of a task, and its score the due time; past times are due at\n"
            "once. Members that are due first are imported first. If a worker removes a member before the\n"
            "import does, the worker keeps it, and the task here is cancelled.\n\n"
            "Stop the old workers first, or make sure that a job may run twice: if the import is killed while\n"
            "they run, old and new workers may both process the last 1,024 ready jobs.\n\n"
            "The exit status is 1 if anything stays on the other server (refused, reserved or new): repeat the\n"
            "import. --json prints one object for each refused job and one at the end; with --dry-run, one for\n"
            "each tube. For RabbitMQ see docs/MOVING_IN.md.",
    .options = options,
    .positional_min = 0,
    .positional_max = 1,
    .examples = "tarry import --beanstalkd 10.0.0.5 --dry-run\n"
                "tarry import --beanstalkd 10.0.0.5:11300 --tube close-order\n"
                "tarry import close-order --redis-zset delayed-orders --redis 10.0.0.6 --member-key",
    .run = run,
};

/* Reads the first line of the file, or the environment variable. 0, or an exit status after an error message. */
static int take_password(const struct args *args, char out[PASSWORD_SIZE], const char **out_password) {
    const char *path = args_get(args, "redis-password-file");
    *out_password = getenv("TARRY_REDIS_PASSWORD");
    if (path == NULL) return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, out, PASSWORD_SIZE - 1) : -1;
    if (size < 0) tool_say("%s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    if (size < 0) return EXIT_USAGE;
    out[size] = 0;
    out[strcspn(out, "\r\n")] = 0;
    if (out[0] == 0) {
        tool_say("%s: the first line has no password", path);
        return EXIT_USAGE;
    }
    *out_password = out;
    return 0;
}

/* Refuses options that belong to the other kind of server (Redis or beanstalkd), because they would have no effect. */
static int refuse_others(const struct args *args, const char *const *others, const char *with) {
    for (; *others != NULL; others++)
        if (args_has(args, *others)) return tool_usage(args, "--%s cannot be used with --%s", *others, with);
    return 0;
}

static int from_beanstalkd(struct import *import, const struct args *args, bool is_dry) {
    static const char *const others[] = {"redis", "redis-db",   "redis-user", "redis-password-file",
                                         "score", "member-key", NULL};
    const char *tubes[TUBES_MAX];
    struct bean_options bean = {.tubes = tubes, .prefix = args_get(args, "queue-prefix")};
    int status = refuse_others(args, others, "beanstalkd");
    if (status != 0) return status;
    if (args->positional_count > 0)
        return tool_usage(args,
                          "unexpected QUEUE '%s': each tube becomes the queue of the same name (see --queue-prefix)",
                          args->positional[0]);
    if (args->many_count > TUBES_MAX)
        return tool_usage(args, "more than %u tubes: import them in several runs", TUBES_MAX);
    for (size_t i = 0; i < args->many_count; i++) tubes[bean.tube_count++] = args->many[i].value;
    for (size_t i = 0; i < bean.tube_count; i++)
        if (!bean_is_tube(tubes[i])) return tool_usage(args, "--tube: '%s' is not a valid tube name", tubes[i]);
    if (bean.prefix == NULL) bean.prefix = "";
    bean_origin(import, &bean);
    return import_run(import, is_dry);
}

static int from_redis(struct import *import, const struct args *args, bool is_dry) {
    static const char *const others[] = {"queue-prefix", NULL};
    char password[PASSWORD_SIZE];
    const char *score = args_get(args, "score");
    struct redis_options redis = {.zset = args_get(args, "redis-zset"),
                                  .user = args_get(args, "redis-user"),
                                  .member_key = args_has(args, "member-key")};
    int status = refuse_others(args, others, "redis-zset");
    if (status == 0) status = option_number(args, "redis-db", 0, INT32_MAX, &redis.database);
    if (status == 0) status = take_password(args, password, &redis.password);
    if (status != 0) return status;
    if (args->many_count > 0) return tool_usage(args, "--tube cannot be used with --redis-zset");
    if (args->positional_count == 0) return tool_usage(args, "missing queue: give QUEUE");
    if (score != NULL && strcmp(score, "s") != 0 && strcmp(score, "ms") != 0)
        return tool_usage(args, "--score: '%s' is not s or ms", score);
    if (redis.user != NULL && redis.password == NULL)
        return tool_usage(args, "--redis-user needs a password: --redis-password-file, or TARRY_REDIS_PASSWORD");
    if (score != NULL) redis.score_scale = strcmp(score, "s") == 0 ? 1000 : 1;
    redis.queue = args->positional[0];
    redis_origin(import, &redis);
    return import_run(import, is_dry);
}

static int run(struct tool *tool, const struct args *args) {
    const bool is_dry = args_has(args, "dry-run");
    const char *bean = args_get(args, "beanstalkd"), *zset = args_get(args, "redis-zset"),
               *redis = args_get(args, "redis");
    struct import import = {.tool = tool, .is_copy = args_has(args, "copy"), .link = {.fd = -1}};
    if ((bean != NULL) == (zset != NULL))
        return tool_usage(args, "missing source: give either --beanstalkd HOST or --redis-zset KEY");
    if (is_dry && import.is_copy) return tool_usage(args, "--dry-run and --copy exclude each other");
    import.address = bean != NULL ? bean : redis != NULL ? redis : REDIS_DEFAULT;
    return bean != NULL ? from_beanstalkd(&import, args, is_dry) : from_redis(&import, args, is_dry);
}
