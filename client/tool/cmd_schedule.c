/* cmd_schedule.c: tarry schedule, cancel and move. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "lines.h"
#include "output.h"
#include "progress.h"
#include "question.h"
#include "signals.h"
#include "tarry_limits.h"
#include "tool.h"
#include "units.h"

/* ---- tasks from a file */

/* Reads requests as NDJSON. Prints one answer for each line, in input order, as soon as the answer is durable.
 *
 * Three threads share a ring buffer of slots, one slot for each line. The reader (the caller's thread) adds slots at
 * the tail. Callbacks of the library mark slots as done. The printer prints done slots from the head. The number of
 * slots and the bytes of their lines are limited. At a limit the reader waits. So the input is read no faster than the
 * broker answers and the program behind our standard output reads. */

/* Limits of the lines that are read and not yet answered: number, and bytes of text. */
#define STREAM_LINES_MAX 65536u
#define STREAM_BYTES_MAX (32u << 20)

/* Maximum number of results per write, so that results appear while the command still works. */
#define PRINT_BATCH 1024u
/* While the reader waits for answers, it checks at this interval whether the command must end. */
#define ROOM_LOOK_MS 250u
#define ERRORS (TARRY_UNMATCHED + 1) /* index of the number of errors in counts[], after those of the outcomes */

struct slot {
    struct stream *stream;
    struct tarry_result *result; /* result of the line, owned; NULL: no result yet */
    uint64_t line;
    uint64_t id;
    char *names; /* queue and key of the line, each with a final 0, in one owned block; NULL: not known */
    uint32_t key_at;
    uint32_t key_size;
    uint32_t line_size;
    bool has_queue;
    bool done;
};

struct stream {
    struct tool *tool;
    enum verb verb;
    bool withdraw;
    struct lines lines;
    uint64_t input_size;            /* 0: unknown */
    atomic_uint_least64_t consumed; /* number of input bytes that were read */

    pthread_mutex_t lock;
    pthread_cond_t room;    /* signalled when the printer has freed a slot */
    pthread_cond_t printed; /* signalled when the slot at the head is done, or the input has ended */
    struct slot *slots;
    uint64_t head;
    uint64_t tail;
    size_t bytes;
    bool ended;         /* true: the input has ended */
    atomic_bool silent; /* true: no broker answered within the time of the option --timeout */

    /* Only the printer uses these fields until it has ended. */
    uint64_t counts[ERRORS + 1]; /* number of results for each outcome, and of errors */
    uint64_t refused;
    bool quiet; /* true: a terminal shows the progress bar, so only refusals are printed */
    struct progress progress;
};

static struct slot *slot_at(struct stream *stream, uint64_t number) {
    return &stream->slots[number % STREAM_LINES_MAX];
}

/* ---- completions (the library's thread, or the reader's for lines that are no request) */

static void slot_done(void *arg, const struct tarry_result *result) {
    struct slot *slot = arg;
    struct stream *stream = slot->stream;
    struct tarry_result *kept = tool_alloc(sizeof *kept);
    *kept = *result;
    pthread_mutex_lock(&stream->lock);
    assert(!slot->done);
    slot->result = kept;
    slot->done = true;
    const bool is_silence = exit_status_of(result->code) == EXIT_SILENCE && !stream->silent;
    if (is_silence) stream->silent = true;
    if (slot == slot_at(stream, stream->head)) pthread_cond_signal(&stream->printed);
    pthread_mutex_unlock(&stream->lock);
    /* Wakes the reader, which may wait for input. Release the lock first, because the function that wakes the reader
     * takes that lock. */
    if (is_silence) signals_end();
}

/* ---- the printer */

static void print_slot(struct stream *stream, const struct slot *slot, struct text *out) {
    struct answer answer = {.verb = stream->verb, .line = slot->line, .id = slot->id, .result = slot->result};
    if (slot->has_queue) answer.queue = slot->names;
    if (slot->key_size > 0) answer.key = slot->names + slot->key_at;
    answer.key_size = slot->key_size;
    bool refused = answer_refused(stream->verb, slot->result);
    bool error = strcmp(answer_word(slot->result), "error") == 0;
    if (refused) stream->refused++;
    stream->counts[error || slot->result->outcome > ERRORS ? ERRORS : slot->result->outcome]++;
    if (stream->tool->json) {
        answer_json(out, &answer);
    } else if (!stream->quiet || refused) {
        text_printf(out, "line %llu: ", (unsigned long long)slot->line);
        answer_words(out, &answer);
    }
}

/* Waits for done slots at the head; returns their number, 0 at the end. */
static size_t await_slots(struct stream *stream) {
    size_t count = 0;
    pthread_mutex_lock(&stream->lock);
    while (!(stream->head < stream->tail ? slot_at(stream, stream->head)->done : stream->ended))
        pthread_cond_wait(&stream->printed, &stream->lock);
    while (count < PRINT_BATCH && stream->head + count < stream->tail && slot_at(stream, stream->head + count)->done)
        count++;
    pthread_mutex_unlock(&stream->lock);
    return count;
}

static void give_back(struct stream *stream, size_t count) {
    pthread_mutex_lock(&stream->lock);
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = slot_at(stream, stream->head + i);
        stream->bytes -= slot->line_size;
        free(slot->names);
        free(slot->result);
        *slot = (struct slot){.stream = stream};
    }
    stream->head += count;
    pthread_cond_signal(&stream->room);
    pthread_mutex_unlock(&stream->lock);
}

static void *print_slots(void *argument) {
    struct stream *stream = argument;
    struct text out = {0};
    size_t count;
    while ((count = await_slots(stream)) > 0) {
        for (size_t i = 0; i < count; i++) print_slot(stream, slot_at(stream, stream->head + i), &out);
        if (out.size > 0) {
            if (!stream->tool->json) progress_end(&stream->progress);
            output_write(&out, false);
        }
        if (output_lost()) signals_end(); /* nobody reads the answers: stop reading input */
        give_back(stream, count);
        progress_show(&stream->progress, atomic_load(&stream->consumed), stream->input_size, stream->head);
    }
    progress_end(&stream->progress);
    text_deinit(&out);
    return NULL;
}

/* ---- the reader */

static void wake(void *argument) {
    struct stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    pthread_cond_signal(&stream->room);
    pthread_mutex_unlock(&stream->lock);
}

/* Waits for a free slot and takes it at the tail. NULL: the stream ends, and no slot is free. */
static struct slot *take_slot(struct stream *stream, size_t line_size) {
    pthread_mutex_lock(&stream->lock);
    bool is_full;
    while ((is_full = stream->tail - stream->head == STREAM_LINES_MAX ||
                      (stream->bytes > 0 && stream->bytes + line_size > STREAM_BYTES_MAX)) &&
           !signals_ended())
        pthread_cond_wait(&stream->room, &stream->lock);
    if (is_full) {
        pthread_mutex_unlock(&stream->lock);
        return NULL;
    }
    struct slot *slot = slot_at(stream, stream->tail);
    assert(!slot->done);
    slot->line = stream->lines.number;
    slot->line_size = (uint32_t)line_size;
    stream->bytes += line_size;
    stream->tail++;
    pthread_mutex_unlock(&stream->lock);
    return slot;
}

static void name_slot(struct slot *slot, const struct tarry_ref *ref) {
    size_t queue_size = ref->queue != NULL ? strlen(ref->queue) : 0;
    slot->id = ref->id;
    slot->has_queue = ref->queue != NULL;
    slot->key_at = (uint32_t)queue_size + 1;
    slot->key_size = ref->key != NULL ? (uint32_t)ref->key_size : 0;
    slot->names = tool_alloc(queue_size + 1 + slot->key_size + 1);
    if (queue_size > 0) memcpy(slot->names, ref->queue, queue_size);
    if (slot->key_size > 0) memcpy(slot->names + slot->key_at, ref->key, slot->key_size);
}

static void refuse_slot(struct slot *slot, int code, const char *message) {
    struct tarry_result refusal = {.code = code};
    if (message != NULL) snprintf(refusal.message, sizeof refusal.message, "%s", message);
    slot_done(slot, &refusal);
}

static int submit(struct stream *stream, const struct fields *fields, struct slot *slot) {
    tarry_client *client = stream->tool->client;
    switch (stream->verb) {
    case VERB_SCHEDULE:
        return tarry_schedule_async(client, &fields->schedule, slot_done, slot);
    case VERB_CANCEL:
        return tarry_cancel_async(client, &fields->ref, stream->withdraw || fields->withdraw, NULL, slot_done, slot);
    default:
        return tarry_move_async(client, &fields->ref, fields->when, fields->when_ms, NULL, slot_done, slot);
    }
}

/* Submits a line. False: the stream ends, and the line was not taken. */
static bool take_line(struct stream *stream, const char *line, size_t size) {
    struct fields fields;
    int code = fields_parse(&fields, stream->verb, line, size);
    struct slot *slot = take_slot(stream, size);
    if (slot == NULL) {
        fields_deinit(&fields);
        return false;
    }
    name_slot(slot, &fields.ref);
    if (code != TARRY_OK) {
        refuse_slot(slot, code, fields.message);
    } else if (stream->silent) { /* no broker answered during the wait for a slot, so do not wait again */
        refuse_slot(slot, TARRY_E_NO_BROKER, NULL);
    } else {
        tarry_client *client = stream->tool->client;
        int drained = TARRY_OK;
        while ((code = submit(stream, &fields, slot)) == TARRY_E_FULL && drained != TARRY_E_CLOSED && !signals_ended())
            drained = tarry_drain(client, STREAM_LINES_MAX / 4, &(struct tarry_call){.timeout_ms = ROOM_LOOK_MS});
        if (code != TARRY_OK) refuse_slot(slot, code, NULL);
    }
    fields_deinit(&fields);
    return true;
}

/* Answers a line that is longer than LINE_SIZE_MAX with an error. Returns false if the stream ends, as take_line does.
 */
static bool take_too_long(struct stream *stream) {
    struct slot *slot = take_slot(stream, 0);
    if (slot != NULL) refuse_slot(slot, TARRY_TOO_LARGE, "the line is longer than 16 MiB");
    return slot != NULL;
}

/* Reads the input to its end. Returns 0, or an exit status after an error message. */
static int read_lines(struct stream *stream) {
    const char *line;
    size_t size;
    uint64_t taken = 0; /* number of the last input line that will be answered */
    while (!signals_ended()) {
        int result = lines_next(&stream->lines, &line, &size);
        atomic_store(&stream->consumed, stream->lines.consumed);
        if (result == LINES_END) return 0;
        if (result < 0) {
            tool_say("line %llu: %s", (unsigned long long)stream->lines.number + 1, strerror(-result));
            return EXIT_REFUSED;
        }
        if (result == LINES_TOO_LONG && !take_too_long(stream)) break;
        if (result == LINES_LINE && !take_line(stream, line, size)) break;
        taken = stream->lines.number;
    }
    if (!output_lost() && !stream->silent) tool_say("interrupted after line %llu", (unsigned long long)taken);
    return EXIT_REFUSED;
}

/* ---- the command */

static void summarize(const struct stream *stream) {
    char took[UNITS_TEXT_SIZE];
    uint64_t took_ms = steady_ms() - stream->progress.started_ms;
    struct text text = {0};
    text_printf(&text, "%llu line%s in %s", (unsigned long long)stream->head, stream->head == 1 ? "" : "s",
                duration_format(took_ms, took));
    const char *gap = ": ";
    for (size_t i = 0; i <= ERRORS; i++) {
        if (stream->counts[i] == 0) continue;
        const char *word = i == TARRY_LIVE ? "exists"
                           : i == ERRORS   ? (stream->counts[i] == 1 ? "error" : "errors")
                                           : tarry_outcome_name((enum tarry_outcome)i);
        text_printf(&text, "%s%llu %s", gap, (unsigned long long)stream->counts[i], word);
        gap = ", ";
    }
    tool_say("%s", text_str(&text));
    text_deinit(&text);
}

/* Waits until all lines are answered. After a signal that asks for the end, waits at most --timeout; lines that are
 * still unanswered fail with TARRY_E_CLOSED. */
static void end_interrupted(struct stream *stream) {
    while (tarry_drain(stream->tool->client, 0, &(struct tarry_call){.timeout_ms = ROOM_LOOK_MS}) == TARRY_E_TIMEOUT &&
           !signals_ended()) {
    }
    if (signals_ended() &&
        tarry_drain(stream->tool->client, 0, &(struct tarry_call){.timeout_ms = stream->tool->timeout_ms}) != TARRY_OK)
        tool_disconnect(stream->tool);
}

static int run_stream(struct stream *stream) {
    pthread_t printer;
    if (pthread_create(&printer, NULL, print_slots, stream) != 0) {
        tool_say("cannot start a thread: %s", strerror(errno));
        return EXIT_REFUSED;
    }
    signals_on_end(wake, stream);
    int status = read_lines(stream);
    signals_on_end(NULL, NULL);
    end_interrupted(stream);
    pthread_mutex_lock(&stream->lock);
    stream->ended = true;
    pthread_cond_signal(&stream->printed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(printer, NULL);
    summarize(stream);
    if (stream->silent) return tool_refused(stream->tool, TARRY_E_NO_BROKER, NULL);
    if (output_lost()) return EXIT_REFUSED;
    return status == 0 && stream->refused > 0 ? EXIT_REFUSED : status;
}

static int open_input(struct stream *stream, const char *path) {
    struct stat info;
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        tool_say("%s: %s", path, strerror(errno));
        return EXIT_USAGE;
    }
    if (S_ISDIR(info.st_mode)) {
        tool_say("%s: is a directory", path);
        close(fd);
        return EXIT_USAGE;
    }
    if (S_ISREG(info.st_mode)) stream->input_size = (uint64_t)info.st_size;
    lines_init(&stream->lines, fd, signals_fd());
    return 0;
}

/* Runs `verb` for each line of the file `path` ("-": standard input). `withdraw`: sets this option of each cancel.
 * Returns the exit status. */
static int stream_run(struct tool *tool, enum verb verb, const char *path, bool withdraw) {
    static const char *const done[] = {"scheduled", "cancelled", "moved"};
    struct stream stream = {.tool = tool, .verb = verb, .withdraw = withdraw};
    int status = open_input(&stream, path);
    if (status != 0) return status;
    status = tool_connect_lasting(tool);
    if (status != 0) goto out;
    signals_graceful();
    pthread_mutex_init(&stream.lock, NULL);
    pthread_cond_init(&stream.room, NULL);
    pthread_cond_init(&stream.printed, NULL);
    stream.slots = tool_alloc(sizeof *stream.slots * STREAM_LINES_MAX);
    for (size_t i = 0; i < STREAM_LINES_MAX; i++) stream.slots[i].stream = &stream;
    progress_start(&stream.progress, done[verb]);
    /* Shows no progress if a person types the input at a terminal. */
    if (isatty(STDIN_FILENO) == 1 && stream.input_size == 0) stream.progress.shown = false;
    stream.quiet = stream.progress.shown && isatty(STDOUT_FILENO) == 1 && stream.input_size > 0;
    if (isatty(STDOUT_FILENO) == 1 && !stream.quiet) stream.progress.shown = false;
    status = run_stream(&stream);
    free(stream.slots);
    pthread_cond_destroy(&stream.printed);
    pthread_cond_destroy(&stream.room);
    pthread_mutex_destroy(&stream.lock);
out:
    if (stream.lines.fd != STDIN_FILENO) close(stream.lines.fd);
    lines_deinit(&stream.lines);
    return status;
}

/* ---- tarry schedule */

static const struct arg_spec options[] = {
    {"key", ARG_VALUE, "KEY", "name of the task that you choose, unique among the live tasks of the queue"},
    {"in", ARG_VALUE, "DUR", "delay, counted from when the broker receives the request (30m, 1h30m, 2d)"},
    {"at", ARG_VALUE, "TIME", "due time: 2026-11-21T04:00:00+01:00, 2026-12-01, 'tomorrow 09:00'"},
    {"due-ms", ARG_VALUE, "N", "due time in Unix milliseconds; a task with a past time is due at once"},
    {"body", ARG_VALUE, "TEXT", "payload [empty]"},
    {"body-file", ARG_VALUE, "F", "file with the payload; - is standard input"},
    {"priority", ARG_VALUE, "N", "priority from 0 to 9; 9 is delivered first [0]"},
    {"attr", ARG_MANY, "k=v", "attribute; may be repeated"},
    {"serial", ARG_VALUE, "NAME",
     "serial name, such as a customer: of the queue's tasks with one name, at most one\nis in flight, in order"},
    {"max-attempts", ARG_VALUE, "N",
     "failed attempts before this task becomes a dead letter, 1 to 10000 [the queue's]"},
    {"backoff", ARG_VALUE, "DUR", "delay of this task after its first nack, at most 30 days [the queue's backoff_min]"},
    {"lease", ARG_VALUE, "DUR",
     "lease of each delivery of this task, 10 ms to 24 hours, for consumers that do not\nask for a lease duration [the "
     "queue's]"},
    {"expires", ARG_VALUE, "DUR",
     "time after the due time at which the task ends as expired and is no longer\ndelivered [never]"},
    {"on-conflict", ARG_VALUE, "WHAT",
     "action if a live task has the key: reject, replace, or keep the task that is\ndue earlier or later [reject]"},
    {"from", ARG_VALUE, "FILE", "file with many tasks, one JSON object a line; - is standard input"},
    {0},
};

static int run(struct tool *tool, const struct args *args);

const struct command command_schedule = {
    .name = "schedule",
    .usage = "QUEUE [--key K] (--in DUR | --at TIME | --due-ms N) [OPTION]…\n--from FILE|-",
    .summary = "create a task, or many from a file",
    .text =
        "Creates a task. The broker delivers the task to a consumer of QUEUE when it is due, never before.\n"
        "When the command returns, the task is on the broker's disk.\n\n"
        "If a live task has the same key, the answer is 'exists' with the id and the due time of that task,\n"
        "and the exit status is 1. So it is safe to repeat the command. With --on-conflict replace, the new\n"
        "task replaces the other one ('replaced'). With earlier or later, the task that is due earlier or\n"
        "later stays ('kept' or 'replaced').\n\n"
        "--from reads one JSON object a line; all members but the queue and the due time are optional:\n"
        "  {\"queue\",\"key\",\"in\"|\"delay_ms\"|\"at\"|\"due_ms\",\"body\"|\"body_base64\"|\"json\",\"priority\",\n"
        "   \"attributes\":{…},\"expires\"|\"expires_ms\",\"on_conflict\",\"serial\",\n"
        "   \"max_attempts\",\"backoff\"|\"backoff_ms\",\"lease\"|\"lease_ms\"}\n"
        "in, expires, backoff and lease are durations (\"30m\"), at is RFC 3339, due_ms is a Unix time; the\n"
        "lines are those of POST /v1/tasks. The tool handles each line as soon as it arrives, and answers\n"
        "each line once, in order, when the task is durable:\n"
        "  "
        "{\"line\":1,\"id\":\"…\",\"queue\":\"…\",\"key\":\"…\",\"result\":\"scheduled\",\"due_ms\":…,\"due\":\"…\"}\n"
        "The result is scheduled, replaced, kept, exists or error. An error has a code and a message, and\n"
        "the tool goes on with the next line. The exit status is 1 if any line was refused. While the\n"
        "broker is unreachable or busy (for example, its disk is full), the tool retries and says so on\n"
        "standard error. It retries without end, unless --timeout sets a timeout for each line.",
    .options = options,
    .positional_min = 0,
    .positional_max = 1,
    .examples = "tarry schedule close-order --key order-1 --in 30m --body '{\"order\":1}'\n"
                "tarry schedule reminders --at 2026-12-24T18:00:00+01:00 --attr lang=de --body 'Merry Christmas'\n"
                "tarry schedule coupons --key c-77 --in 365d --on-conflict later\n"
                "tarry schedule --from tasks.ndjson --json > answers.ndjson",
    .run = run,
};

#define READ_SIZE 65536u

static int read_body(const char *path, struct text *out) {
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int status = fd < 0 ? EXIT_USAGE : 0;
    while (status == 0 && out->size <= PAYLOAD_SIZE_MAX_LIMIT) { /* stops after a block that exceeds the payload limit;
                                                                    the broker refuses such a payload */
        char *at = text_reserve(out, READ_SIZE);
        if (at == NULL) tool_out_of_memory();
        ssize_t count = read(fd, at, READ_SIZE);
        if (count == 0) break;
        if (count > 0)
            out->size += (size_t)count;
        else if (errno != EINTR)
            status = EXIT_USAGE;
    }
    if (status != 0) tool_say("%s: %s", path, strerror(errno));
    if (fd > STDIN_FILENO) close(fd);
    return status;
}

static int take_body(const struct args *args, struct tarry_schedule_options *schedule, struct text *file) {
    const char *body = args_get(args, "body"), *path = args_get(args, "body-file");
    if (body != NULL && path != NULL) return tool_usage(args, "--body and --body-file exclude each other");
    if (path != NULL) {
        int status = read_body(path, file);
        if (status != 0) return status;
        schedule->payload = file->data;
        schedule->payload_size = file->size;
    } else if (body != NULL) {
        schedule->payload = body;
        schedule->payload_size = strlen(body);
    }
    return 0;
}

static int take_conflict(const struct args *args, struct tarry_schedule_options *schedule) {
    static const char *const names[] = {"reject", "replace", "earlier", "later"}; /* enum tarry_on_conflict */
    const char *text = args_get(args, "on-conflict");
    for (size_t i = 0; text != NULL; i++) {
        if (i == 4) return tool_usage(args, "--on-conflict: '%s' is not reject, replace, earlier or later", text);
        if (strcmp(text, names[i]) != 0) continue;
        schedule->on_conflict = (enum tarry_on_conflict)i;
        break;
    }
    return 0;
}

static int schedule_one(struct tool *tool, const struct tarry_schedule_options *schedule) {
    struct tarry_result result = {0};
    struct text out = {0};
    int status = tool_connect(tool);
    if (status != 0) return status;
    int code = tarry_schedule(tool->client, schedule, &result);
    struct answer answer = {.verb = VERB_SCHEDULE,
                            .queue = schedule->queue,
                            .key = schedule->key,
                            .key_size = schedule->key != NULL ? strlen(schedule->key) : 0,
                            .result = &result};
    bool error = strcmp(answer_word(&result), "error") == 0;
    if (tool->json)
        answer_json(&out, &answer);
    else if (!error)
        answer_words(&out, &answer);
    status = error ? tool_refused(tool, code, result.message) : exit_status_of(code);
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}

static int run_from(struct tool *tool, const struct args *args, const char *path) {
    bool other = args->positional_count > 0 || args->many_count > 0;
    for (size_t i = 0; options[i].name != NULL; i++)
        if (args->values[i] != NULL && strcmp(options[i].name, "from") != 0) other = true;
    if (other)
        return tool_usage(args,
                          "--from allows no QUEUE and no other option: each line has its own queue, time and body");
    return stream_run(tool, VERB_SCHEDULE, path, false);
}

/* Parses the task's own settings. */
static int take_own(const struct args *args, struct tarry_own_policy *own) {
    uint64_t max_attempts = 0;
    int status = option_number(args, "max-attempts", 1, TASK_ATTEMPTS_MAX, &max_attempts);
    if (status == 0) status = option_duration_positive(args, "backoff", &own->backoff_ms);
    if (status == 0) status = option_duration_positive(args, "lease", &own->lease_ms);
    own->max_attempts = (uint32_t)max_attempts;
    return status;
}

static int run(struct tool *tool, const struct args *args) {
    const char *path = args_get(args, "from");
    if (path != NULL) return run_from(tool, args, path);
    struct tarry_own_policy own = {0};
    struct tarry_attribute attributes[ATTRIBUTES_MAX] = {0};
    struct tarry_schedule_options schedule = {.own = &own, .attributes = attributes};
    struct text file = {0};
    uint64_t priority = 0;
    int status = args->positional_count == 1 ? 0 : tool_usage(args, "missing queue: give QUEUE, or --from FILE");
    const char *key = args_get(args, "key");
    if (status == 0 && key != NULL && key[0] == 0)
        status = tool_usage(args, "--key: the key is empty; omit --key for a task without a key");
    schedule.serial = args_get(args, "serial");
    if (status == 0 && schedule.serial != NULL && schedule.serial[0] == 0)
        status = tool_usage(args, "--serial: the name is empty; omit --serial for a task without a serial name");
    if (status == 0) status = option_when(args, &schedule.when, &schedule.when_ms);
    if (status == 0) status = option_number(args, "priority", 0, PRIORITY_COUNT - 1, &priority);
    if (status == 0) status = option_duration_positive(args, "expires", &schedule.expires_ms);
    if (status == 0) status = take_own(args, &own);
    if (status == 0) status = take_conflict(args, &schedule);
    if (status == 0) status = option_attributes(args, attributes, &schedule.attribute_count);
    if (status == 0) status = take_body(args, &schedule, &file);
    if (status == 0) {
        schedule.queue = args->positional[0];
        schedule.key = key;
        schedule.priority = (uint32_t)priority;
        status = schedule_one(tool, &schedule);
    }
    for (size_t i = 0; i < schedule.attribute_count; i++) free((char *)attributes[i].name);
    text_deinit(&file);
    return status;
}

/* ---- tarry cancel and tarry move; both refer to a task and have the same results */

static int run_cancel(struct tool *tool, const struct args *args);
static int run_move(struct tool *tool, const struct args *args);

static const struct arg_spec cancel_options[] = {
    {"id", ARG_VALUE, "ID", "id of the task, instead of QUEUE and KEY"},
    {"withdraw", ARG_FLAG, NULL,
     "also end a task that is in flight; the answer to its consumer's ack then\nsays that the task is cancelled (a "
     "dead letter is left to 'tarry dead')"},
    {"from", ARG_VALUE, "FILE", "file with many tasks, one JSON object a line; - is standard input"},
    {0},
};

const struct command command_cancel = {
    .name = "cancel",
    .usage = "QUEUE KEY [--withdraw]\n--id ID [--withdraw]\n--from FILE|- [--withdraw]",
    .summary = "withdraw a task before it is delivered",
    .text = "Ends a task before it is delivered, and prints exactly one of these results:\n"
            "  cancelled          the task has ended; with its earlier deliveries (0: no consumer has seen it)\n"
            "  already_cancelled  the task was cancelled before\n"
            "  in_flight          a consumer has the task: which session, since when\n"
            "  dead               the task is a dead letter\n"
            "  acked              a consumer has acked the task: when\n"
            "  expired            the task has expired: when\n"
            "  unknown            the task is not live and has not ended since known_since_ms\n"
            "The exit status is 0 for the first two and 1 for the others.\n\n"
            "--from reads {\"queue\",\"key\"} or {\"id\"} from each line, and answers each line once, in order:\n"
            "  {\"line\":1,\"id\":\"…\",\"queue\":\"…\",\"key\":\"…\",\"result\":\"cancelled\",\"deliveries\":0}",
    .options = cancel_options,
    .positional_min = 0,
    .positional_max = 2,
    .examples = "tarry cancel close-order order-1\n"
                "tarry cancel --id 4711 --withdraw\n"
                "tarry list close-order --prefix test- --json | tarry cancel --from -",
    .run = run_cancel,
};

static const struct arg_spec move_options[] = {
    {"id", ARG_VALUE, "ID", "id of the task, instead of QUEUE and KEY"},
    {"in", ARG_VALUE, "DUR", "delay, counted from when the broker receives the request"},
    {"at", ARG_VALUE, "RFC3339", "due time, such as 2026-11-21T04:00:00+01:00"},
    {"due-ms", ARG_VALUE, "N", "due time in Unix milliseconds"},
    {"from", ARG_VALUE, "FILE", "file with many tasks, one JSON object a line; - is standard input"},
    {0},
};

const struct command command_move = {
    .name = "move",
    .usage = "QUEUE KEY (--in DUR | --at TIME | --due-ms N)\n--id ID (--in DUR | --at TIME | --due-ms N)\n--from "
             "FILE|-",
    .summary = "change when a task is due",
    .text =
        "Changes the due time of a live task. The result is 'moved' with the new due time. If the task\n"
        "cannot be moved, the result says why, as for 'tarry cancel', and the exit status is 1.\n\n"
        "--from reads {\"queue\",\"key\"} or {\"id\"}, with \"delay_ms\" or \"due_ms\", from each line, and answers\n"
        "each line once, in order.",
    .options = move_options,
    .positional_min = 0,
    .positional_max = 2,
    .examples = "tarry move close-order order-1 --in 1h\n"
                "tarry move --id 4711 --at 2026-12-01T09:00:00Z\n"
                "tarry move --from moves.ndjson --json",
    .run = run_move,
};

/* Prints the result of a command. With --id, first asks the broker for the task's queue and key, to print them. */
static int conclude(struct tool *tool, enum verb verb, const struct tarry_ref *ref, const struct tarry_result *result) {
    struct text out = {0};
    struct tarry_view *view = NULL;
    struct answer answer = {.verb = verb,
                            .queue = ref->queue,
                            .key = ref->key,
                            .key_size = ref->key != NULL ? strlen(ref->key) : 0,
                            .id = ref->id,
                            .result = result};
    bool error = strcmp(answer_word(result), "error") == 0;
    int status = answer_refused(verb, result) ? exit_status_of(result->code) : EXIT_FINE;
    if (ref->id != 0 && !error && result->outcome != TARRY_UNKNOWN &&
        tarry_get(tool->client, ref, false, NULL, &view, NULL) == TARRY_OK && view->outcome != TARRY_UNKNOWN) {
        answer.queue = view->queue;
        answer.key = view->key;
        answer.key_size = view->key_size;
    }
    if (tool->json)
        answer_json(&out, &answer);
    else if (!error)
        answer_words(&out, &answer);
    if (error) status = tool_refused(tool, result->code, result->message);
    status = output_flush(&out, status);
    text_deinit(&out);
    tarry_view_free(view);
    return status;
}

/* Returns whether --from is used without any other argument except those in `allowed`. */
static bool from_alone(const struct args *args, const char *allowed) {
    for (size_t i = 0; args->command->options[i].name != NULL; i++) {
        const char *name = args->command->options[i].name;
        if (args->values[i] != NULL && strcmp(name, "from") != 0 && strcmp(name, allowed) != 0) return false;
    }
    return args->positional_count == 0;
}

static int run_cancel(struct tool *tool, const struct args *args) {
    struct tarry_ref ref;
    struct tarry_result result = {0};
    bool withdraw = args_has(args, "withdraw");
    if (args_has(args, "from")) {
        if (!from_alone(args, "withdraw"))
            return tool_usage(args, "--from allows no task and no other option but --withdraw");
        return stream_run(tool, VERB_CANCEL, args_get(args, "from"), withdraw);
    }
    int status = option_ref(args, &ref);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    tarry_cancel(tool->client, &ref, withdraw, NULL, &result);
    return conclude(tool, VERB_CANCEL, &ref, &result);
}

static int run_move(struct tool *tool, const struct args *args) {
    struct tarry_ref ref;
    struct tarry_result result = {0};
    enum tarry_when when;
    uint64_t when_ms;
    if (args_has(args, "from")) {
        if (!from_alone(args, ""))
            return tool_usage(args, "--from allows no task and no other option: each line has its own task and time");
        return stream_run(tool, VERB_MOVE, args_get(args, "from"), false);
    }
    int status = option_ref(args, &ref);
    if (status == 0) status = option_when(args, &when, &when_ms);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    tarry_move(tool->client, &ref, when, when_ms, NULL, &result);
    return conclude(tool, VERB_MOVE, &ref, &result);
}
