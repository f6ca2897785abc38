/* know.h: what a stranger has learned from the broker's answers: ids, tokens, secrets, cursors, positions, …
 *
 * An answer is taken apart message by message, by its descriptor; each becomes a *fact*. A request's field is filled
 * with what a fact calls by the same name, or by the name that stands for it (know.c). So a new message teaches, and a
 * new field is filled, without a word here. What belongs to an honest client, which its queues' names show, is never
 * learned. */
#ifndef TARRY_TESTS_FUZZ_BROKER_KNOW_H
#define TARRY_TESTS_FUZZ_BROKER_KNOW_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "random.h"

/* In the name of every queue of an honest client, and in nothing that a stranger says. */
#define HONEST_MARK "honest-"
/* No id, session, producer or position of a short life lies above. */
#define FAR ((uint64_t)1 << 40)

struct know;

struct know *know_new(struct random *random);
void know_free(struct know *know);
/* False: it is no such message. */
bool know_learn(struct know *know, const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size);
/* A fact that shares at least one name with the message; NULL: none is known, or not this time. Free it. */
ProtobufCMessage *know_fact(struct know *know, const ProtobufCMessageDescriptor *about);
/* The value of the field that goes by this field's name in the fact, in *out_place: where it is in memory, of the type
 * `field->type`. */
bool know_value(const ProtobufCMessage *fact, const ProtobufCFieldDescriptor *field, const void **out_place);
/* Whether an answer to a stranger has said this number under this name (id, session, producer). */
bool know_is_own(const struct know *know, const char *name, uint64_t number);
/* A time of the broker's clock, more or less now; 0: not heard yet. */
uint64_t know_now_ms(const struct know *know);
/* A producer of the stranger's and what its next sequence would be; 0: it has none yet. */
uint64_t know_producer(struct know *know, uint64_t *out_sequence);

#endif
