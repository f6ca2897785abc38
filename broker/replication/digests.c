/* digests.c: see digests.h (F-31). */
#include "digests.h"

#include <stdbool.h>

void digests_add(struct digests *digests, uint64_t position, uint64_t digest) {
    digests->points[digests->next++ % DIGEST_POINTS] = (struct digest_point){position, digest};
}

struct digest_point digests_below(const struct digests *digests, uint64_t end) {
    struct digest_point best = {0};
    for (size_t i = 0; i < DIGEST_POINTS; i++) {
        const struct digest_point *point = &digests->points[i];
        if (point->position <= end && point->position > best.position) best = *point;
    }
    return best;
}

static void note_same(struct digests *digests, uint64_t position, uint64_t digest, uint64_t now_ns) {
    digests->compared = (struct digest_point){position, digest};
    digests->compared_ns = now_ns;
    digests->count++;
}

enum digest_verdict digests_told(struct digests *digests, uint64_t position, uint64_t digest, uint64_t now_ns,
                                 uint64_t *out_own) {
    struct digest_point own = {0};
    for (size_t i = 0; i < DIGEST_POINTS && position != 0; i++)
        if (digests->points[i].position == position) own = digests->points[i];
    *out_own = own.digest;
    if (own.position == 0) return DIGEST_UNKNOWN;
    if (own.digest != digest) return DIGEST_DIFFERS;
    if (position > digests->compared.position) note_same(digests, position, digest, now_ns);
    return DIGEST_SAME;
}

void digests_expect(struct digests *digests, struct digest_point point, uint64_t applied) {
    if (point.position > applied && digests->expected.position == 0) digests->expected = point;
}

void digests_cut(struct digests *digests, uint64_t end) {
    if (digests->expected.position > end) digests->expected.position = 0;
}

enum digest_verdict digests_applied(struct digests *digests, uint64_t position, uint64_t digest, uint64_t now_ns,
                                    uint64_t *out_expected) {
    struct digest_point expected = digests->expected;
    *out_expected = expected.digest;
    if (expected.position == 0 || position < expected.position) return DIGEST_UNKNOWN;
    digests->expected.position = 0;
    if (position != expected.position)
        return DIGEST_UNKNOWN; /* this node has no frame that ends at the position of the leader's digest */
    if (digest != expected.digest) return DIGEST_DIFFERS;
    note_same(digests, position, digest, now_ns);
    return DIGEST_SAME;
}
