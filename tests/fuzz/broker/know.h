/* know.h: what a stranger (a fuzzing client) has learned from the broker's answers: ids, tokens, secrets, cursors,
 * positions, …
 *
 * The code splits an answer into its nested messages, by protobuf descriptors, and keeps each message as a *fact*. To
 * fill a request's field, it uses a fact's field with the same name, or with an alias (know.c). So new messages and
 * fields are covered without a change here. Answers that name an honest client's queue are never learned. */
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
/* Returns a fact (a learned message) that has at least one field name in common with the message `about`. Returns NULL
 * if no such fact is known, and sometimes at random. The caller frees the fact. */
ProtobufCMessage *know_fact(struct know *know, const ProtobufCMessageDescriptor *about);
/* Finds the value of `field` in the fact. `*out_place` is the address of the value; its type is `field->type`. */
bool know_value(const ProtobufCMessage *fact, const ProtobufCFieldDescriptor *field, const void **out_place);
/* Returns whether an answer to a stranger has named this number as an id, session or producer. */
bool know_is_own(const struct know *know, const char *name, uint64_t number);
/* Returns a recent time of the broker's clock; 0: not known yet. */
uint64_t know_now_ms(const struct know *know);
/* Returns one of the stranger's producers, and its next sequence; 0: it has none yet. */
uint64_t know_producer(struct know *know, uint64_t *out_sequence);

#endif
