/* answer.h: what is printed about one schedule, cancel or move: a JSON line, or a sentence. */
#ifndef TARRY_TOOL_ANSWER_H
#define TARRY_TOOL_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "fields.h"
#include "tarry.h"
#include "text.h"

struct answer {
    enum verb verb;
    uint64_t line;     /* of the stream, from 1; a single command is a stream of one line */
    const char *queue; /* NULL: not known */
    const char *key;   /* NULL: none */
    size_t key_size;
    uint64_t id; /* as asked for; the result's counts if it has one */
    const struct tarry_result *result;
};

/* "scheduled", "exists", "in_flight", …, or "error" when there is no outcome. */
const char *answer_word(const struct tarry_result *result);
/* The same in words: "in flight". */
void answer_word_words(struct text *out, const struct tarry_result *result);
/* Whether it counts as a refusal (exit status 1). */
bool answer_refused(enum verb verb, const struct tarry_result *result);
/* Members that say which consumer and when: deliveries, session, since_ms, ended_ms, known_since_ms, as far as they are
 * known. */
void answer_circumstances(struct text *out, const struct tarry_result *result);
void answer_json(struct text *out, const struct answer *answer);
/* One line for people, line feed included. */
void answer_words(struct text *out, const struct answer *answer);
/* "delivered 2 times, last to session 7 at …", "in flight since …": what the circumstances are in words. */
void answer_circumstances_words(struct text *out, const struct tarry_result *result);

#endif
