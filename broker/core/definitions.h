/* definitions.h: small named values, called definitions, that the broker's doors keep in the log, such as the exchanges
 * and bindings of AMQP.
 *
 * Each door has a space, and each definition belongs to a space. Only the broker itself changes or reads definitions.
 * All definitions are in memory, in chunks of a table of fixed size, so a record that fits on one node fits on every
 * node (LOG-2). In each space, definitions are sorted by name. */
#ifndef TARRY_CORE_DEFINITIONS_H
#define TARRY_CORE_DEFINITIONS_H

#include "core.h"

struct definitions;

/* Returns NULL if memory is exhausted. */
struct definitions *definitions_new(void);
void definitions_free(struct definitions *definitions); /* frees the definitions; NULL is allowed */

struct definition_key {
    const char *space;
    const uint8_t *name;
    size_t name_size;
};

struct definition_state {
    uint64_t version; /* position of the frame that set the definition; 0: it does not exist */
    uint64_t hash;    /* result of definition_hash; 0: the definition does not exist */
};
struct definition_state definitions_find(const struct definitions *definitions, const struct definition_key *key);

/* Number of definitions of a space, and the bytes that they use; zeros if the space has none. */
struct definition_use {
    uint64_t count;
    uint64_t size;
};
struct definition_use definitions_use(const struct definitions *definitions, const char *space);
/* Returns the bytes that a definition uses. */
uint64_t definition_size(size_t name_size, size_t value_size);
/* Returns true if the space has definitions, or may become one of the DEFINITION_SPACES_MAX spaces. */
bool definitions_admit(const struct definitions *definitions, const char *space);

/* Applies a record. Returns 0 or CORE_NONSENSE. */
int definitions_apply(struct definitions *definitions, const Tarry__DefinitionPut *put);

/* Answers a Definitions request; the answer is allocated in the arena. */
void definitions_list(const struct definitions *definitions, const Tarry__Definitions *request, struct arena *arena,
                      Tarry__DefinitionsReply *out);
/* Asserts every invariant. */
void definitions_check(const struct definitions *definitions);

#endif
