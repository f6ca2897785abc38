/* answer.h: output for one schedule, cancel or move: a JSON line, or a sentence. */
#ifndef TARRY_TOOL_ANSWER_H
#define TARRY_TOOL_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "fields.h"
#include "tarry.h"
#include "text.h"

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
