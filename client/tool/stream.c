/* stream.c: see stream.h.
 *
 * Invariants: head ≤ tail ≤ head + STREAM_LINES_MAX. A slot between them belongs to the library until it is done,
 * then to the printer. Slots become done in any order, and are printed in input order. The lock protects head, tail,
 * bytes and `done` of each slot. Signals and a closed output wake the reader through signals_fd. */
#include "stream.h"

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
#include "units.h"

/* Maximum number of results per write, so that the output of a long run is continuous. */
#define PRINT_BATCH 1024u
/* Interval of the check for an end, while the reader waits for answers. */
#define ROOM_LOOK_MS 250u
#define ERRORS (TARRY_UNMATCHED + 1) /* place of the errors in an array of counts, after the last outcome */

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
    atomic_bool silent; /* true: no broker answered for --timeout */

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
    /* Wakes the reader, which may wait for input. The lock is released first, because the wake function takes it. */
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

/* After a request to end, the stream waits for the broker only with a timeout; lines that are unanswered then fail
 * with TARRY_E_CLOSED. */
static void end_interrupted(struct stream *stream) {
    while (tarry_drain(stream->tool->client, 0, &(struct tarry_call){.timeout_ms = ROOM_LOOK_MS}) == TARRY_E_TIMEOUT &&
           !signals_ended()) {
    }
    if (signals_ended() &&
        tarry_drain(stream->tool->client, 0, &(struct tarry_call){.timeout_ms = stream->tool->timeout_ms}) != TARRY_OK)
        tool_disconnect(stream->tool);
}

static int run(struct stream *stream) {
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

int stream_run(struct tool *tool, const struct args *args, enum verb verb, const char *path, bool withdraw) {
    static const char *const done[] = {"scheduled", "cancelled", "moved"};
    struct stream stream = {.tool = tool, .verb = verb, .withdraw = withdraw};
    (void)args;
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
    if (isatty(STDIN_FILENO) == 1 && stream.input_size == 0)
        stream.progress.shown = false; /* a person types the input at a terminal */
    stream.quiet = stream.progress.shown && isatty(STDOUT_FILENO) == 1 && stream.input_size > 0;
    if (isatty(STDOUT_FILENO) == 1 && !stream.quiet) stream.progress.shown = false;
    status = run(&stream);
    free(stream.slots);
    pthread_cond_destroy(&stream.printed);
    pthread_cond_destroy(&stream.room);
    pthread_mutex_destroy(&stream.lock);
out:
    if (stream.lines.fd != STDIN_FILENO) close(stream.lines.fd);
    lines_deinit(&stream.lines);
    return status;
}
