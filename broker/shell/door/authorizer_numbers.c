/* authorizer_numbers.c: counters of admitted and refused clients; see authorizer.h. */
#include <string.h>

#include "authorizer.h"

void authorizer_numbers(struct authorizer *authorizer, struct authorizer_numbers *out) {
    pthread_mutex_lock(&authorizer->mutex);
    out->tokens = authorizer->set->count;
    out->failures = authorizer->failures.total;
    memcpy(out->problem, authorizer->problem, sizeof(out->problem));
    pthread_mutex_unlock(&authorizer->mutex);
    out->denied = atomic_load(&authorizer->denied);
    out->limited = atomic_load(&authorizer->limited);
}
