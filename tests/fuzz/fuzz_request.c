/* fuzz_request.c: a request from the wire: unpacked into a bounded arena, each operation checked. A refusal has a
 * code and a sentence; an accepted request can be packed again, and its contents can be unpacked. */
#include <assert.h>
#include <string.h>

#include "arena.h"
#include "check.h"
#include "fuzz.h"
#include "tarry_limits.h"

/* For a byte on the wire, tens of bytes of memory may be needed (an empty operation has two bytes). The arena limits
 * the sum. */
#define ARENA_SIZE_MAX (64u << 20)

static void try_op(const Tarry__Op *op, struct arena *arena) {
    Tarry__Code code = TARRY__CODE__OK;
    const char *problem = check_op(op, PAYLOAD_SIZE_MAX_DEFAULT, &code);
    assert((problem == NULL) == (code == TARRY__CODE__OK));
    if (problem != NULL) {
        size_t size = strlen(problem);
        assert(size > 0 && problem[size - 1] != '.');
        return;
    }
    if (op->op_case != TARRY__OP__OP_SCHEDULE) return;
    const Tarry__Schedule *schedule = op->schedule;
    assert(schedule->key.len <= KEY_SIZE_MAX && strlen(schedule->queue) <= QUEUE_NAME_SIZE_MAX);
    const Tarry__Content *content = tarry__content__unpack(&arena->pb, schedule->content.len, schedule->content.data);
    assert(content != NULL && content->n_attributes <= ATTRIBUTES_MAX);
    assert(content->payload.len <= PAYLOAD_SIZE_MAX_DEFAULT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1u << 16) return 0; /* skips larger requests, which test nothing more */
    static struct arena arena;     /* static, so that its large first block is kept between inputs */
    if (arena.size_max == 0) arena_init(&arena, ARENA_SIZE_MAX);
    const Tarry__Request *request = tarry__request__unpack(&arena.pb, size, data);
    if (request != NULL && request->body_case == TARRY__REQUEST__BODY_COMMIT) {
        for (size_t i = 0; i < request->commit->n_ops; i++) try_op(request->commit->ops[i], &arena);
        size_t packed_size = tarry__request__get_packed_size(request);
        uint8_t *packed = arena_alloc(&arena, packed_size);
        /* Do not unpack the packed request again. protobuf-c accepts an unknown field 0 with a tag that is longer than
         * necessary, but packs it with a short tag, and refuses the short tag. */
        assert(packed != NULL && tarry__request__pack(request, packed) == packed_size);
    }
    assert(arena.used <= ARENA_SIZE_MAX);
    arena_reset(&arena);
    return 0;
}
