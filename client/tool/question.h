/* question.h: questions to a broker, jobs that it works on, and answers to operations. */
#ifndef TARRY_TOOL_QUESTION_H
#define TARRY_TOOL_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "json_map.h"
#include "lines.h"
#include "tarry.h"
#include "text.h"
#include "tool.h"

/* ---- sends a question to a broker; the answer is a message of tarry.proto, as /v1 returns it */

struct answer_of {
    Tarry__Reply *reply; /* owned reply; NULL: none */
    struct tarry_source source;
};

/* Sends the request and waits for the answer. Returns a code of tarry.h. After TARRY_OK the caller passes `out` to
 * answer_free. */
int question_ask(tarry_client *client, Tarry__Request *request, const struct tarry_call *call, struct answer_of *out,
                 char message[TARRY_MESSAGE_SIZE]);
/* Like question_ask, with the tool's client, and with the freshness that the command's options ask for (OPTIONS_FRESH).
 * Returns 0, or an exit status after an error message. After 0 the caller passes `out` to answer_free. */
int question_run(const struct tool *tool, Tarry__Request *request, struct answer_of *out);
/* Asks for the consumers of `queue` (NULL: of all queues); returns as question_ask. */
int question_consumers(tarry_client *client, const char *queue, const struct tarry_call *call, struct answer_of *out,
                       char message[TARRY_MESSAGE_SIZE]);
void answer_free(struct answer_of *answer);
/* Converts the reference to a message, which borrows its strings. */
void ref_to_message(const struct tarry_ref *ref, Tarry__Ref *out);
/* Appends the message as one JSON line, and marks the answer of a follower. */
void json_line(struct text *out, const ProtobufCMessage *message, const struct tarry_source *source);

/* ---- waits for a purge, requeue or drop. The broker answers first, and then works in bounded steps */

/* Waits until a job has ended, with a progress bar on a terminal. `started`: the reply that named the job. `what`: the
 * job's verb in the past ("purged"). Returns an exit status; after EXIT_FINE *out_view has the result. After a signal,
 * the function prints that the job continues at the broker, and returns EXIT_REFUSED. */
int job_follow(struct tool *tool, const char *queue, const struct tarry_result *started, const char *what,
               struct tarry_job_view *out_view);
/* Appends the JSON member "count"; null if unknown. */
void job_json_count(struct text *out, const struct tarry_job_view *view);
/* Appends for example ": 12 tasks" if the count is known. `noun` is the singular. */
void job_words_count(struct text *out, const struct tarry_job_view *view, const char *noun);

/* ---- output for one schedule, cancel or move: a JSON line, or a sentence */

struct answer {
    enum verb verb;
    uint64_t line;     /* line number in the stream, from 1; 0: a single command */
    const char *queue; /* NULL: unknown */
    const char *key;   /* NULL: none */
    size_t key_size;
    uint64_t id; /* id in the request; the id in the result takes precedence */
    const struct tarry_result *result;
};

/* Returns the word for the result's outcome: "scheduled", "exists", "in_flight", …; "error" if there is no outcome. */
const char *answer_word(const struct tarry_result *result);
/* Appends the outcome in words: "in flight". */
void answer_word_words(struct text *out, const struct tarry_result *result);
/* Returns whether the result is a refusal (exit status 1). */
bool answer_refused(enum verb verb, const struct tarry_result *result);
/* Appends the JSON object that /v1 returns for one operation, and a line feed. */
void answer_json(struct text *out, const struct answer *answer);
/* Appends one line for people, with its line feed. */
void answer_words(struct text *out, const struct answer *answer);
/* Appends the circumstances in words: "delivered 2 times, last to session 7 at …", "in flight since …". */
void answer_circumstances_words(struct text *out, const struct tarry_result *result);

#endif
