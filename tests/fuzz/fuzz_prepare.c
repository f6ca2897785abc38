/* fuzz_prepare.c: the broker's first checks of a request: request_peek, which counts a packed request's parts without
 * unpacking, and the event made for the core. request_peek agrees with protobuf-c on every request that protobuf-c can
 * unpack. A refusal has a code and a sentence. Accepted contents are in the arena, salted, with the checksum for the
 * log. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "request.h"
#include "requests.h"
#include "tarry_limits.h"

#define ARENA_SIZE_MAX (64u << 20)

static void peek_agrees(const uint8_t *data, size_t size) {
    static struct arena arena; /* static, so that its large first block is kept between inputs */
    struct request_peek peek;
    if (arena.size_max == 0) arena_init(&arena, ARENA_SIZE_MAX);
    bool is_message = request_peek(data, size, &peek);
    const Tarry__Request *request = tarry__request__unpack(&arena.pb, size, data);
    if (request != NULL && request->body_case == TARRY__REQUEST__BODY_COMMIT) {
        /* request_peek may count too many operations: it includes a commit that a later body replaces, but such a
         * request is refused anyway. If it counted too few operations, a request could exceed the limit. */
        assert(is_message && peek.body_count > 0 && peek.op_count >= request->commit->n_ops);
    }
    if (request != NULL && request->body_case == TARRY__REQUEST__BODY_SUBSCRIBE)
        assert(is_message && peek.queue_count >= request->subscribe->n_queues);
    if (request != NULL) assert(is_message && (peek.body_count > 0) == (request->body_case != 0));
    arena_reset(&arena);
}

static void accepted_is_right(const struct core_request *request) {
    assert(request->message != NULL);
    bool is_audit = request->message->body_case == TARRY__REQUEST__BODY_AUDIT;
    bool is_backup = request->message->body_case == TARRY__REQUEST__BODY_BACKUP;
    bool is_pair = request->message->body_case == TARRY__REQUEST__BODY_PAIR;
    bool is_follow = request->message->body_case == TARRY__REQUEST__BODY_FOLLOW;
    assert((request_answerer(request->message) != BY_CORE) == (is_audit || is_backup || is_pair || is_follow));
    if (is_follow) {
        assert(request->message->follow->wait_ms <= FOLLOW_WAIT_MAX_MS);
        assert(request->message->follow->n_epochs <= FOLLOW_EPOCHS_MAX);
        assert(request->message->follow->n_epochs == request->message->follow->n_epoch_starts);
    }
    if (is_pair) {
        const Tarry__Pair *pair = request->message->pair;
        bool promotes = pair->what == TARRY__PAIR__WHAT__PROMOTE;
        assert(promotes || !pair->force);
        assert(promotes || pair->what == TARRY__PAIR__WHAT__WRITE_RECORD || !pair->peer_is_stopped);
        assert(!pair->peer_is_stopped || !pair->force);
    }
    if (is_audit) assert(request->message->audit->wait_ms <= AUDIT_WAIT_MAX_MS);
    if (is_backup) {
        const Tarry__Backup *backup = request->message->backup;
        assert((backup->what == TARRY__BACKUP__WHAT__BEGIN) == (backup->backup == 0));
        assert(backup->what != TARRY__BACKUP__WHAT__READ || backup->size <= BACKUP_READ_MAX);
    }
    if (request->message->body_case != TARRY__REQUEST__BODY_COMMIT) return;
    const Tarry__Commit *commit = request->message->commit;
    uint64_t total = 0;
    assert((commit->n_ops == 0) == (bool)commit->ask && commit->n_ops <= OPS_PER_COMMIT_MAX);
    for (size_t i = 0; i < commit->n_ops; i++) {
        const struct core_content *content = &request->commit.contents[i];
        assert(content->problem == NULL || content->code != TARRY__CODE__OK);
        bool has_content = content->problem == NULL && commit->ops[i]->op_case == TARRY__OP__OP_SCHEDULE;
        assert(has_content == (content->size != 0));
        total += content->size;
        if (!has_content) continue;
        const ProtobufCBinaryData *packed = &commit->ops[i]->schedule->content;
        assert(content->size == BLOB_SALT_SIZE + packed->len);
        assert(packed->len == 0 ||
               memcmp((const uint8_t *)content->data + BLOB_SALT_SIZE, packed->data, packed->len) == 0);
        assert(content->sum == frame_sum(content->data, content->size));
    }
    assert(total <= FRAME_BLOB_SIZE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t secret[IDENTITY_SECRET_SIZE] = "a secret of the broker";
    if (size > 1u << 16) return 0;
    peek_agrees(data, size);
    static struct arena arena; /* static, so that its large first block is kept between inputs */
    struct core_request prepared = {0};
    struct request_refusal refusal = {TARRY__CODE__OK, NULL};
    if (arena.size_max == 0) arena_init(&arena, ARENA_SIZE_MAX);
    const struct request_setting setting = {.secret = secret, .principal = "", .payload_max = PAYLOAD_SIZE_MAX_DEFAULT};
    if (request_prepare(&arena, data, size, &setting, &prepared, &refusal)) {
        accepted_is_right(&prepared);
    } else {
        assert(refusal.code != TARRY__CODE__OK && refusal.sentence != NULL && refusal.sentence[0] != '\0');
    }
    arena_reset(&arena);
    return 0;
}
