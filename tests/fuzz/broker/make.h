/* make.h: makes requests from the descriptors of tarry.proto.
 *
 * The descriptors name every message and every field, so all are covered without a list here. make_values.c lists
 * some names only to choose more useful values than random ones, so that a broker accepts many requests and reaches
 * interesting states. */
#ifndef TARRY_TESTS_FUZZ_BROKER_MAKE_H
#define TARRY_TESTS_FUZZ_BROKER_MAKE_H

#include <protobuf-c/protobuf-c.h>

#include "know.h"
#include "out.h"
#include "random.h"

struct maker {
    struct random *random;
    struct know *know;
    /* State of the current request: */
    bool wild;       /* sometimes breaks the rules of protobuf or of the schema */
    bool edgy;       /* most numbers are limits of their ranges */
    unsigned blow;   /* number of fields before the field that is repeated `blow_max` times */
    size_t blow_max; /* number of repetitions of that field; 0: no field is repeated often */
    const ProtobufCMessage *fact;
};

/* Makes a packed Request, possibly wrong. */
void make_request(struct maker *maker, struct out *out);

/* Internal: */
void make_message(struct maker *maker, const ProtobufCMessageDescriptor *descriptor, struct out *out);
/* Writes a value of the field, including its tag. */
void make_value(struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out);
uint64_t make_number(struct maker *maker, const ProtobufCFieldDescriptor *field);
/* Returns a number next to a limit of the product, or of a type. */
uint64_t make_edge(struct maker *maker);
/* Writes the bytes of a string or bytes field, without tag and length. */
void make_text(struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out);
/* Returns true once in `of` times. */
static inline bool make_chance(struct maker *maker, uint64_t of) {
    return random_below(maker->random, of) == 0;
}

/* Changes packed bytes without parsing them: flips bits, removes and repeats pieces. */
void make_damage(struct random *random, struct out *out);

#endif
