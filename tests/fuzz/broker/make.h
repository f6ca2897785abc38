/* make.h: requests made from the descriptors of tarry.proto.
 *
 * Every message and every field is covered because the descriptors name them, none because it is named here. What is
 * named here (make_values.c) only makes some values more useful than random ones: so that a broker accepts many
 * requests and comes to states worth disturbing. */
#ifndef TARRY_TESTS_FUZZ_BROKER_MAKE_H
#define TARRY_TESTS_FUZZ_BROKER_MAKE_H

#include <protobuf-c/protobuf-c.h>

#include "know.h"
#include "out.h"
#include "random.h"

struct maker {
    struct random *random;
    struct know *know;
    /* Of the request that is being made: */
    bool wild;       /* sometimes breaks the rules of protobuf and of the schema */
    bool edgy;       /* numbers are mostly those at the ends of ranges */
    unsigned blow;   /* when this many more fields have been made, the next one is repeated … */
    size_t blow_max; /* … so often; 0: never */
    const ProtobufCMessage *fact;
};

/* A packed Request, or something like it. */
void make_request(struct maker *maker, struct out *out);

/* Of the maker's insides: */
void make_message(struct maker *maker, const ProtobufCMessageDescriptor *descriptor, struct out *out);
/* A value of the field, tag included. */
void make_value(struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out);
uint64_t make_number(struct maker *maker, const ProtobufCFieldDescriptor *field);
/* On one side or the other of a limit, or of what a type can hold. */
uint64_t make_edge(struct maker *maker);
/* The bytes of a string or bytes field, without tag and length. */
void make_text(struct maker *maker, const ProtobufCFieldDescriptor *field, struct out *out);
/* True once in `of` times. */
static inline bool make_chance(struct maker *maker, uint64_t of) {
    return random_below(maker->random, of) == 0;
}

/* Changes packed bytes without knowing what they mean: bits, cuts, repeats. */
void make_damage(struct random *random, struct out *out);

#endif
