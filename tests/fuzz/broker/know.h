/* know.h: what a stranger has learned from the broker's answers: ids, tokens, secrets, cursors, positions, …
 *
 * An answer is taken apart message by message, by its descriptor; each message becomes a *fact*. A field of a
 * request is filled from a fact's field with the same name, or with an alias (know.c). So new messages and fields
 * are covered without a change here. Answers that name an honest client's queue are never learned. */
#ifndef TARRY_TESTS_FUZZ_BROKER_KNOW_H
#define TARRY_TESTS_FUZZ_BROKER_KNOW_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "random.h"

/* Part of the name of every honest client's queue; a stranger never sends it. */
#define HONEST_MARK "honest-"
/* A number that is higher than all ids, sessions, producers and positions of a short life. */
#define FAR ((uint64_t)1 << 40)

struct know;

struct know *know_new(struct random *random);
void know_free(struct know *know);
/* Learns from a packed message. Returns false if the bytes are not such a message. */
bool know_learn(struct know *know, const ProtobufCMessageDescriptor *descriptor, const void *data, size_t size);
/* Returns a fact that shares at least one name with the message. Returns NULL if no such fact is known, and sometimes
 * on purpose. The caller frees the fact. */
ProtobufCMessage *know_fact(struct know *know, const ProtobufCMessageDescriptor *about);
/* Finds the fact's value for this field. `*out_place` is its place in memory; its type is `field->type`. */
bool know_value(const ProtobufCMessage *fact, const ProtobufCFieldDescriptor *field, const void **out_place);
/* Returns whether an answer to a stranger has named this number as an id, session or producer. */
bool know_is_own(const struct know *know, const char *name, uint64_t number);
/* Returns a recent time of the broker's clock; 0: not known yet. */
uint64_t know_now_ms(const struct know *know);
/* Returns one of the stranger's producers, and its next sequence; 0: it has none yet. */
uint64_t know_producer(struct know *know, uint64_t *out_sequence);

#endif
