/* cmd_select.c: tarry select shift, cancel and resume: change all waiting tasks of a queue that match. A job has two
 * steps. First the tool lists the tasks and writes FILE: a line for each task, with its new due time. Then it sends the
 * changes in batches, and after each batch writes to FILE.at how many lines are done. `resume` continues an interrupted
 * job.
 *
 * No task is shifted twice. FILE gets its name only when the list is complete, and the tool never lists tasks after it
 * has begun to move them. A batch that is sent again moves its tasks to the same times. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "json_out.h"
#include "output.h"
#include "progress.h"
#include "rfc3339.h"
#include "signals.h"
#include "tarry_limits.h"
#include "tool.h"

#define BATCH_OPS 1000u  /* tasks per commit */
#define EXAMPLES_MAX 10u /* tasks that --dry-run prints */
#define PATH_MAX_SIZE 4096u
#define CLUSTER_WORD_MAX 64u

static int run_shift(struct tool *tool, const struct args *args);
static int run_cancel(struct tool *tool, const struct args *args);
static int run_resume(struct tool *tool, const struct args *args);

#define OPTIONS_SELECTION                                                                                              \
    {"job", ARG_VALUE, "FILE", "new file for the selected tasks, with which the job can be resumed"},                  \
        {"dry-run", ARG_FLAG, NULL, "change nothing: print how many tasks match, and the first 10"},                   \
        {"due-from", ARG_VALUE, "T", "only tasks that are due at T or later: RFC 3339, Unix ms, or +DUR from now"},    \
        {"due-to", ARG_VALUE, "T", "only tasks that are due before T"},                                                \
        {"prefix", ARG_VALUE, "P", "only tasks whose key starts with P"}, {                                            \
        "attr", ARG_MANY, "k=v", "only tasks that have this attribute; may be repeated; reads each task"               \
    }

static const struct arg_spec shift_options[] = {
    {"by", ARG_VALUE, "DUR", "how much later the tasks become due"},
    {"earlier", ARG_FLAG, NULL, "make them due earlier instead; a task with a past time is due at once"},
    OPTIONS_SELECTION,
    {0},
};

const struct command command_select_shift = {
    .name = "select shift",
    .usage = "QUEUE --by DUR [--earlier] [SELECTION]… (--job FILE | --dry-run)",
    .summary = "move all waiting tasks of a queue that match to later or earlier times",
    .text = "Moves the tasks of QUEUE that wait (pending and ready) and match. The tool first writes the tasks and\n"
            "their new times to FILE, and then moves them in batches, each of which is durable. If the job is\n"
            "interrupted, 'tarry select resume FILE' goes on with it. No task is shifted twice. A task that was\n"
            "delivered or has ended meanwhile is left as it is and counted; the exit status is then 1.\n\n"
            "A moved task has an absolute due time, as after 'tarry move --at'.",
    .options = shift_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "QUEUE",
    .examples = "tarry select shift mail --by 2h --due-to 'tomorrow 09:00' --dry-run\n"
                "tarry select shift mail --by 2h --due-to 'tomorrow 09:00' --job mail.job",
    .run = run_shift,
};

static const struct arg_spec cancel_options[] = {OPTIONS_SELECTION, {0}};

const struct command command_select_cancel = {
    .name = "select cancel",
    .usage = "QUEUE [SELECTION]… (--job FILE | --dry-run)",
    .summary = "cancel all waiting tasks of a queue that match",
    .text = "Cancels the tasks of QUEUE that wait (pending and ready) and match, as a job like that of\n"
            "'tarry select shift'. 'tarry queue purge' ends all tasks of a queue, and is faster.",
    .options = cancel_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "QUEUE",
    .examples = "tarry select cancel mail --prefix trial- --attr lang=de --dry-run\n"
                "tarry select cancel mail --prefix trial- --attr lang=de --job trial.job",
    .run = run_cancel,
};

static const struct arg_spec resume_options[] = {{0}};

const struct command command_select_resume = {
    .name = "select resume",
    .usage = "FILE",
    .summary = "go on with a job of 'tarry select' that was interrupted",
    .text = "Goes on after the last batch whose answer FILE.at records. If the job is complete, nothing is done.\n"
            "The tool refuses a job of another cluster.",
    .options = resume_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "FILE",
    .examples = "tarry select resume mail.job",
    .run = run_resume,
};

struct job {
    const char *path;
    char at_path[PATH_MAX_SIZE]; /* FILE.at */
    bool cancels;
    FILE *file;
    uint64_t tasks;                     /* number of tasks in the file */
    uint64_t done;                      /* number of tasks of the file whose change was answered */
    uint64_t changed;                   /* of these, the tasks that were changed */
    uint64_t left;                      /* of these, the tasks whose change the broker refused */
    char cluster[CLUSTER_WORD_MAX + 1]; /* id of the cluster to which the tasks belong */
};

static int fail(const char *path) {
    tool_say("%s: %s", path, strerror(errno));
    return EXIT_REFUSED;
}

static int job_name(struct job *job, const char *path) {
    job->path = path;
    if (strlen(path) < sizeof job->at_path - 4) {
        snprintf(job->at_path, sizeof job->at_path, "%s.at", path);
        return 0;
    }
    tool_say("%s: the name is too long", path);
    return EXIT_USAGE;
}

static int ask_cluster(struct tool *tool, char out[CLUSTER_WORD_MAX + 1]) {
    struct tarry_pair_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    int code = tarry_pair_status(tool->client, NULL, &view, message);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
    snprintf(out, CLUSTER_WORD_MAX + 1, "%s", view->cluster);
    tarry_pair_free(view);
    return 0;
}

/* ---- the second step: the changes */

/* Line of the job's file that has the first task; the header is before it. */
#define FIRST_TASK_LINE 2u

/* Writes the progress to FILE.at, which is replaced as a whole. */
static int note_progress(const struct job *job) {
    char path[PATH_MAX_SIZE + 8];
    snprintf(path, sizeof path, "%s.new", job->at_path);
    FILE *file = fopen(path, "w");
    if (file == NULL) return fail(path);
    fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", job->done, job->changed, job->left);
    if (fclose(file) != 0 || rename(path, job->at_path) != 0) return fail(job->at_path);
    return 0;
}

/* Reads the next task of the file. Returns false at the end of the file, and if the line is damaged. A line without a
 * time is damaged, too: the space must follow the id, so the next line's id is not read as the time. */
static bool next_task(const struct job *job, uint64_t *id, uint64_t *due_ms) {
    return fscanf(job->file, "%" SCNu64 "%*1[ ]%" SCNu64, id, due_ms) == 2;
}

/* Adds the next tasks of the file to the commit. Returns their number; if it is below BATCH_OPS, the file ends
 * here or the next line is damaged. */
static size_t take_batch(struct job *job, tarry_commit *commit) {
    size_t count = 0;
    uint64_t id, due_ms;
    while (count < BATCH_OPS && next_task(job, &id, &due_ms)) {
        const struct tarry_ref ref = {.id = id};
        if (job->cancels)
            tarry_commit_cancel(commit, &ref, false);
        else
            tarry_commit_move(commit, &ref, TARRY_AT, due_ms);
        count++;
    }
    return count;
}

static void say_done(const struct tool *tool, const struct job *job) {
    const char *word = job->cancels ? "cancelled" : "moved";
    struct text out = {0};
    if (tool->json) {
        out_begin(&out, '{');
        out_text(&out, "result", job->done == job->tasks ? "done" : "interrupted");
        out_number(&out, "tasks", job->tasks);
        out_number(&out, word, job->changed);
        out_number(&out, "left", job->left);
        out_line_end(&out);
    } else {
        text_printf(&out, "%" PRIu64 " of %" PRIu64 " tasks %s, %" PRIu64 " left as they are\n", job->changed,
                    job->tasks, word, job->left);
    }
    (void)output_flush(&out, 0);
    text_deinit(&out);
}

/* Returns true if the code says what became of the task. With any other code, the broker did not decide about the task:
 * it was busy, did not answer or denied the request. */
static bool is_decided(int code) {
    return code == TARRY_OK || code == TARRY_NOT_DONE || code == TARRY_INVALID;
}

/* Sends one batch, and records the progress up to the first task about which the broker did not decide. Returns 0, or
 * an exit status after an error message. */
static int send_batch(struct tool *tool, struct job *job, tarry_commit *commit, struct progress *progress) {
    const struct tarry_result *results = NULL;
    size_t count = 0, decided = 0;
    const size_t expected = tarry_commit_count(commit);
    int code = tarry_commit_run(commit, NULL, &results, &count);
    for (; decided < count && is_decided(results[decided].code); decided++) {
        job->changed += results[decided].code == TARRY_OK;
        job->left += results[decided].code != TARRY_OK;
    }
    job->done += decided;
    int status = decided > 0 ? note_progress(job) : 0;
    progress_show(progress, job->done, job->tasks, job->done);
    if (status != 0 || decided == expected) return status;
    progress_end(progress);
    return decided < count ? tool_failed(tool, results[decided].code, results[decided].message)
                           : tool_failed(tool, code, NULL);
}

/* Sends the changes from job->done on. */
static int send_changes(struct tool *tool, struct job *job) {
    tarry_commit *commit;
    struct progress progress = {0};
    int status = 0;
    if (tarry_commit_new(tool->client, false, &commit) != TARRY_OK) tool_out_of_memory();
    progress_start(&progress, job->cancels ? "cancelled" : "moved");
    signals_graceful();
    for (size_t count = BATCH_OPS; status == 0 && count == BATCH_OPS && !signals_ended();) {
        count = take_batch(job, commit);
        if (count > 0) status = send_batch(tool, job, commit, &progress);
        tarry_commit_clear(commit);
    }
    progress_end(&progress);
    tarry_commit_free(commit);
    say_done(tool, job);
    if (status == 0 && job->done < job->tasks && !signals_ended()) {
        const char *remedy =
            job->cancels ? "restore the file, or delete it and select again"
                         : "restore the file; a new job would shift a second time the tasks that this job has shifted";
        tool_say("%s, line %" PRIu64 ": expected a task's id and a time in ms; %s", job->path,
                 job->done + FIRST_TASK_LINE, remedy);
        return EXIT_USAGE;
    }
    if (job->done < job->tasks) {
        tool_say("the job is not complete: run 'tarry select resume %s'", job->path);
        return status != 0 ? status : EXIT_REFUSED;
    }
    return status != 0 ? status : job->left > 0 ? EXIT_REFUSED : EXIT_FINE;
}

/* Opens the job's file at the task after the last one that is done. */
static int job_open(struct job *job) {
    char word[16];
    job->file = fopen(job->path, "r");
    if (job->file == NULL) return fail(job->path);
    if (fscanf(job->file, "tarry-select 1 %15s %64s %" SCNu64, word, job->cluster, &job->tasks) != 3 ||
        (strcmp(word, "shift") != 0 && strcmp(word, "cancel") != 0)) {
        tool_say("%s: this is no job of 'tarry select'", job->path);
        return EXIT_USAGE;
    }
    job->cancels = strcmp(word, "cancel") == 0;
    FILE *at = fopen(job->at_path, "r");
    if (at == NULL && errno != ENOENT) return fail(job->at_path);
    if (at != NULL && fscanf(at, "%" SCNu64 " %" SCNu64 " %" SCNu64, &job->done, &job->changed, &job->left) != 3)
        job->done = job->changed = job->left = 0;
    if (at != NULL) fclose(at);
    uint64_t id, due_ms;
    for (uint64_t i = 0; i < job->done; i++)
        if (!next_task(job, &id, &due_ms)) {
            tool_say("%s: the file has fewer tasks than %s says", job->path, job->at_path);
            return EXIT_USAGE;
        }
    return 0;
}

/* Runs the job from the position in FILE.at on. */
static int job_run(struct tool *tool, struct job *job) {
    char cluster[CLUSTER_WORD_MAX + 1];
    int status = job_open(job);
    if (status == 0) status = ask_cluster(tool, cluster);
    if (status == 0 && strcmp(cluster, job->cluster) != 0) {
        tool_say("%s: the job is for the cluster %s, and this broker belongs to %s", job->path, job->cluster, cluster);
        status = EXIT_USAGE;
    }
    if (status == 0) status = send_changes(tool, job);
    if (job->file != NULL) fclose(job->file);
    return status;
}

static int run_resume(struct tool *tool, const struct args *args) {
    struct job job = {0};
    int status = job_name(&job, args->positional[0]);
    if (status == 0) status = tool_connect(tool);
    return status == 0 ? job_run(tool, &job) : status;
}

/* ---- the first step: the selection */

struct selection {
    struct tarry_list_options list;
    const struct args *args;
    bool cancels, earlier, dry_run;
    uint64_t by_ms;
    FILE *file;       /* NULL with --dry-run */
    const char *path; /* name of the job, for error messages */
    uint64_t count;
    struct text examples;
};

static bool has_attribute(const struct tarry_view *view, const char *wanted) {
    const char *equals = strchr(wanted, '=');
    const size_t size = (size_t)(equals - wanted);
    for (size_t i = 0; i < view->attribute_count; i++) {
        const struct tarry_attribute *one = &view->attributes[i];
        if (strlen(one->name) == size && memcmp(one->name, wanted, size) == 0 && strcmp(one->value, equals + 1) == 0)
            return true;
    }
    return false;
}

/* Reads the task's attributes and compares them with --attr. A task that has ended meanwhile does not match. Returns an
 * exit status, and the result in *out. */
static int matches(struct tool *tool, const struct selection *selection, uint64_t id, bool *out) {
    const struct args *args = selection->args;
    struct tarry_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    *out = true;
    if (args->many_count == 0) return 0;
    int code = tarry_get(tool->client, &(struct tarry_ref){.id = id}, true, NULL, &view, message);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
    *out = view->has_content;
    for (size_t i = 0; *out && i < args->many_count; i++) *out = has_attribute(view, args->many[i].value);
    tarry_view_free(view);
    return 0;
}

/* Returns the time to which the task moves. `spread_ms` is the random delay that the queue added to the due time. It is
 * subtracted, because the queue will add a new one. */
static uint64_t target_ms(const struct selection *selection, const struct tarry_view *task) {
    const uint64_t asked_ms = task->due_ms - task->spread_ms;
    if (selection->cancels) return 0;
    if (!selection->earlier) return asked_ms + selection->by_ms;
    return asked_ms > selection->by_ms ? asked_ms - selection->by_ms : 1;
}

static void take_example(const struct tool *tool, struct selection *selection, const struct tarry_view *task) {
    char due[RFC3339_TEXT_SIZE], moved[RFC3339_TEXT_SIZE];
    struct text *out = &selection->examples;
    if (!selection->dry_run || selection->count > EXAMPLES_MAX) return;
    if (tool->json) {
        out_begin(out, '{');
        out_id(out, "id", task->id);
        if (task->key != NULL) out_text(out, "key", task->key);
        out_time(out, "due", task->due_ms);
        if (!selection->cancels) out_time(out, "new_due", target_ms(selection, task));
        out_line_end(out);
        return;
    }
    text_printf(out, "%" PRIu64 " %s due %s", task->id, task->key != NULL ? task->key : "(no key)",
                rfc3339_format(task->due_ms, due));
    if (!selection->cancels) text_printf(out, ", then %s", rfc3339_format(target_ms(selection, task), moved));
    text_add_char(out, '\n');
}

static int take_all(struct tool *tool, struct selection *selection) {
    tarry_list *list;
    const struct tarry_view *task;
    char message[TARRY_MESSAGE_SIZE] = "";
    struct progress progress = {0};
    int status = 0, code = tarry_list_open(tool->client, &selection->list, &list);
    if (code != TARRY_OK) return tool_failed(tool, code, NULL);
    progress_start(&progress, "selected");
    while (status == 0 && (code = tarry_list_next(list, &task, message)) == TARRY_OK) {
        bool is_match;
        status = matches(tool, selection, task->id, &is_match);
        if (status != 0 || !is_match) continue;
        selection->count++;
        take_example(tool, selection, task);
        if (selection->file != NULL &&
            fprintf(selection->file, "%" PRIu64 " %" PRIu64 "\n", task->id, target_ms(selection, task)) < 0)
            status = fail(selection->path);
        progress_show(&progress, 0, 0, selection->count);
    }
    progress_end(&progress);
    tarry_list_close(list);
    return status != 0 || code == TARRY_E_END ? status : tool_failed(tool, code, message);
}

static void say_dry(const struct tool *tool, struct selection *selection) {
    struct text *out = &selection->examples;
    if (tool->json) {
        out_begin(out, '{');
        out_text(out, "result", "dry_run");
        out_number(out, "tasks", selection->count);
        out_line_end(out);
    } else {
        text_printf(out, "%" PRIu64 " tasks match; nothing was changed\n", selection->count);
    }
    (void)output_flush(out, 0);
}

/* Writes the selection to FILE, under another name until it is complete. Afterwards FILE is durable, because without it
 * a new job would shift tasks that this one has shifted already. The head has a fixed size, because it contains
 * the number of tasks. */
static int job_write(struct tool *tool, struct job *job, struct selection *selection) {
    char path[PATH_MAX_SIZE + 8];
    snprintf(path, sizeof path, "%s.new", job->at_path);
    int status = ask_cluster(tool, job->cluster);
    if (status != 0) return status;
    selection->path = job->path;
    selection->file = fopen(path, "w");
    if (selection->file == NULL) return fail(path);
    const char *word = selection->cancels ? "cancel" : "shift";
    fprintf(selection->file, "tarry-select 1 %s %s %20" PRIu64 "\n", word, job->cluster, (uint64_t)0);
    status = take_all(tool, selection);
    if (status == 0 && fflush(selection->file) != 0) status = fail(path);
    rewind(selection->file); /* forgets a failed write, so these were checked before */
    fprintf(selection->file, "tarry-select 1 %s %s %20" PRIu64 "\n", word, job->cluster, selection->count);
    bool is_written = fflush(selection->file) == 0 && !ferror(selection->file) && fsync(fileno(selection->file)) == 0;
    is_written = fclose(selection->file) == 0 && is_written;
    if (status == 0 && (!is_written || rename(path, job->path) != 0)) status = fail(path);
    if (status == 0 && (errno = sync_parent(job->path)) != 0) status = fail(job->path);
    if (status != 0) unlink(path);
    return status;
}

static int take_shift(const struct args *args, struct selection *selection) {
    if (!args_has(args, "by")) return tool_usage(args, "--by is missing: how much later the tasks become due");
    int status = option_duration_positive(args, "by", &selection->by_ms);
    if (status == 0 && selection->by_ms > DUE_AHEAD_MAX_MS)
        status = tool_usage(args, "--by is longer than ten years (3653 days)");
    selection->earlier = args_has(args, "earlier");
    return status;
}

static int take_options(const struct args *args, struct selection *selection) {
    struct tarry_list_options *list = &selection->list;
    int status = 0;
    selection->args = args;
    selection->dry_run = args_has(args, "dry-run");
    list->queue = args->positional[0];
    list->states = TARRY_STATE_PENDING | TARRY_STATE_READY;
    list->prefix = args_get(args, "prefix");
    status = option_time(args, "due-from", &list->due_from_ms);
    if (status == 0) status = option_time(args, "due-to", &list->due_to_ms);
    if (status == 0 && args_has(args, "due-to") && list->due_to_ms == 0)
        status = tool_usage(args, "--due-to: T must be later than 1970-01-01T00:00:00Z");
    for (size_t i = 0; status == 0 && i < args->many_count; i++)
        if (option_attribute(args, args->many[i].value) == NULL) status = EXIT_USAGE;
    if (status == 0 && !selection->cancels) status = take_shift(args, selection);
    if (status == 0 && selection->dry_run == args_has(args, "job"))
        status = tool_usage(args, "give either --job FILE or --dry-run");
    return status;
}

static int run_selection(struct tool *tool, const struct args *args, struct selection *selection) {
    struct job job = {0};
    int status = take_options(args, selection);
    if (status == 0 && !selection->dry_run) status = job_name(&job, args_get(args, "job"));
    if (status == 0 && !selection->dry_run && access(job.path, F_OK) == 0)
        status = tool_usage(args, "--job: %s exists: 'tarry select resume' goes on with it; a new job needs a new file",
                            job.path);
    if (status == 0) status = tool_connect(tool);
    if (status == 0 && selection->dry_run) {
        status = take_all(tool, selection);
        if (status == 0) say_dry(tool, selection);
    } else if (status == 0) {
        unlink(job.at_path);
        status = job_write(tool, &job, selection);
        if (status == 0) status = job_run(tool, &job);
    }
    text_deinit(&selection->examples);
    return status;
}

static int run_shift(struct tool *tool, const struct args *args) {
    struct selection selection = {0};
    return run_selection(tool, args, &selection);
}

static int run_cancel(struct tool *tool, const struct args *args) {
    struct selection selection = {.cancels = true};
    return run_selection(tool, args, &selection);
}
