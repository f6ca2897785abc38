/* authorizer_judge.c: decides whether a principal may make a request; see authorizer.h. This file checks the queues
 * that a request names. If a request names a task, a session or a producer only by number, the core checks the
 * principal's rights to it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "authorizer.h"
#include "logfmt.h"
#include "requests.h"

static const char denied_unsaid[] = "the request is denied, and the broker has too little memory to give the reason";

/* Copies the sentence into the arena. Equal refusals of one commit share one copy. */
static const char *keep(struct arena *arena, const char *sentence) {
    size_t size = strlen(sentence) + 1;
    char *kept = arena_alloc(arena, size);
    if (kept == NULL) return denied_unsaid;
    memcpy(kept, sentence, size);
    return kept;
}

static struct request_refusal deny(struct authorizer *authorizer, struct arena *arena, const char *sentence) {
    atomic_fetch_add(&authorizer->denied, 1);
    return (struct request_refusal){TARRY__CODE__DENIED, keep(arena, sentence)};
}

/* Records refusals of operations that only few principals may do: an auditor wants to know which others tried. */
static void note(struct authorizer *authorizer, const struct access_principal *principal,
                 const struct access_rule *rule, const char *peer, uint64_t count) {
    bool is_for_few = rule->roles != ROLES_NONE && (rule->roles & ~((unsigned)ROLE_admin | ROLE_peer)) == 0;
    if (!is_for_few || count == 0) return;
    pthread_mutex_lock(&authorizer->mutex);
    authorizer_note(authorizer, TARRY__ACCESS_REFUSED__WHY__ROLE_LACKS, peer != NULL ? peer : "",
                    access_record_name(principal), rule->name, count);
    pthread_mutex_unlock(&authorizer->mutex);
}

/* ---- operations */

/* Checks the operations of a commit. A malformed operation already has its error, and is not checked. */
static void judge_ops(struct authorizer *authorizer, const struct access_principal *principal, struct arena *arena,
                      const struct core_request *request) {
    /* The cast is safe: request_prepare made the contents. Only the core must not change them. */
    struct core_content *contents = (struct core_content *)request->commit.contents;
    const Tarry__Commit *commit = request->message->commit;
    const struct access_rule *noted = NULL;
    char sentence[ACCESS_SENTENCE_SIZE];
    const char *last = NULL;
    uint64_t count = 0;
    for (size_t i = 0; i < commit->n_ops; i++) {
        const struct access_rule *rule = access_rule_of_op(commit->ops[i]->op_case);
        if (contents[i].problem != NULL || rule == NULL) continue;
        if (access_may(principal, rule, op_queue(commit->ops[i]), sentence)) continue;
        if (last == NULL || strcmp(last, sentence) != 0) last = keep(arena, sentence);
        contents[i].problem = last;
        contents[i].code = TARRY__CODE__DENIED;
        atomic_fetch_add(&authorizer->denied, 1);
        if (rule != noted && noted != NULL) note(authorizer, principal, noted, request->peer, count);
        count = rule == noted ? count + 1 : 1;
        noted = rule;
    }
    if (noted != NULL) note(authorizer, principal, noted, request->peer, count);
}

/* ---- requests */

static const char *queue_or_all(const char *queue) {
    return queue[0] != '\0' ? queue : NULL;
}

/* Returns the queue that the request names, the first one of several; NULL: none. */
static const char *queue_of_request(const Tarry__Request *request) {
    switch (request->body_case) {
#define REQUEST(CASE, member, Message, class, answerer, roles, reach, queue, ...)                                      \
    case TARRY__REQUEST__BODY_##CASE: {                                                                                \
        const Tarry__##Message *m = request->member;                                                                   \
        (void)m;                                                                                                       \
        return queue;                                                                                                  \
    }
#include "requests.def"
        REQUEST_UNKNOWN
    }
    return NULL;
}

static bool may_request(const struct access_principal *principal, const struct access_rule *rule,
                        const Tarry__Request *request, char sentence[ACCESS_SENTENCE_SIZE]) {
    if (!access_may(principal, rule, queue_of_request(request), sentence)) return false;
    if (request->body_case != TARRY__REQUEST__BODY_SUBSCRIBE) return true;
    for (size_t i = 1; i < request->subscribe->n_queues; i++)
        if (!access_may(principal, rule, request->subscribe->queues[i], sentence)) return false;
    return true;
}

/* Returns whether the requester is the other node of the pair, which proves its identity by the pair's key (checked in
 * rpc.c). On this host, the proof is as good as a token with the role `peer`. Over the network, the node needs the
 * proof and the token. */
static bool is_peers(const struct access_principal *principal, enum authorizer_side side,
                     const Tarry__Request *request) {
    bool is_proved = side == SIDE_PEER;
    bool is_near = principal->entry.kind == KIND_LOOPBACK || principal->entry.kind == KIND_OWNER;
    bool is_role = is_near || (principal->entry.roles & ROLE_peer) != 0;
    if (request->body_case == TARRY__REQUEST__BODY_BACKUP)
        return is_role && is_proved; /* the other node uses Backup requests to fetch its snapshot */
    return is_role && request->body_case == TARRY__REQUEST__BODY_FOLLOW;
}

/* Checks only names that clients choose for themselves. The other node and the gateway use names from this program,
 * which may equal a principal's name. */
static bool is_anothers_name(struct authorizer *authorizer, const struct access_principal *principal,
                             enum authorizer_side side, const char *client) {
    if (side != SIDE_CLIENT) return false;
    pthread_mutex_lock(&authorizer->mutex);
    bool is_claimed = access_is_claimed(authorizer->set, principal, client);
    pthread_mutex_unlock(&authorizer->mutex);
    return is_claimed;
}

static uint64_t steady_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct request_refusal limit(struct authorizer *authorizer, const struct access_principal *principal,
                                    struct arena *arena, enum access_limit which) {
    char sentence[ACCESS_SENTENCE_SIZE];
    atomic_fetch_add(&authorizer->limited, 1);
    snprintf(sentence, sizeof(sentence), "%s has reached its limit %s=%" PRIu64 " (tarry token)", principal->entry.name,
             access_limit_name(which), principal->entry.limits[which]);
    return (struct request_refusal){TARRY__CODE__BUSY, keep(arena, sentence)};
}

/* Returns the principal's limit of queues; 0: none. A principal that may use all queues has none by default, because it
 * may also delete the queues of others. */
static uint64_t queues_max(const struct access_principal *principal) {
    const uint64_t limit = principal->entry.limits[LIMIT_queues];
    if (limit != 0) return limit;
    return access_is_confined(principal) ? QUEUES_OF_CONFINED_DEFAULT : 0;
}

struct request_refusal authorizer_look_at_rate(struct authorizer *authorizer, struct access_principal *principal,
                                               struct arena *arena) {
    if (access_has_rate(principal, 1, steady_ns())) return (struct request_refusal){TARRY__CODE__OK, NULL};
    return limit(authorizer, principal, arena, LIMIT_rate);
}

void authorizer_charge(struct access_principal *principal) {
    access_spend_rate(principal, 1, steady_ns());
}

static struct core_caller *caller_of(const struct access_principal *principal, struct arena *arena) {
    struct core_caller *caller = arena_alloc(arena, sizeof(*caller));
    if (caller == NULL) return NULL;
    *caller = (struct core_caller){
        .name = access_record_name(principal),
        .prefixes = principal->entry.prefixes,
        .prefix_count = principal->entry.prefix_count,
        .sessions_max = principal->entry.limits[LIMIT_sessions],
        .queues_max = queues_max(principal),
        .producers_max = principal->entry.limits[LIMIT_producers],
        .pending_max = principal->entry.limits[LIMIT_pending],
        .is_broker = principal->entry.kind == KIND_BROKER,
        .acts_for_all = (principal->entry.roles & ROLE_admin) != 0 && !access_is_confined(principal),
    };
    return caller;
}

struct request_refusal authorizer_judge(struct authorizer *authorizer, struct access_principal *principal,
                                        enum authorizer_side side, struct arena *arena, struct core_request *request) {
    const struct request_refusal fine = {TARRY__CODE__OK, NULL};
    const Tarry__Request *message = request->message;
    const struct access_rule *rule = access_rule_of_request(message);
    char sentence[ACCESS_SENTENCE_SIZE];
    bool is_commit = message->body_case == TARRY__REQUEST__BODY_COMMIT;
    if (rule == NULL) return deny(authorizer, arena, "no access rule allows this request");
    if (is_peers(principal, side, message)) return fine;
    if (!may_request(principal, rule, message, sentence)) {
        note(authorizer, principal, rule, request->peer, 1);
        return deny(authorizer, arena, sentence);
    }
    if (is_anothers_name(authorizer, principal, side, message->client)) {
        snprintf(sentence, sizeof(sentence),
                 "the client gives itself the name \"%.128s\", which belongs to another principal", message->client);
        return deny(authorizer, arena, sentence);
    }
    if (!access_take_rate(principal, is_commit ? message->commit->n_ops : 1, steady_ns()))
        return limit(authorizer, principal, arena, LIMIT_rate);
    request->caller = caller_of(principal, arena);
    if (request->caller == NULL) return (struct request_refusal){TARRY__CODE__BUSY, NULL};
    if (is_commit && request->commit.contents != NULL) judge_ops(authorizer, principal, arena, request);
    return fine;
}

/* Charges one operation that has no request. Returns OK or BUSY. */
static Tarry__Code take_one(struct authorizer *authorizer, struct access_principal *principal,
                            char sentence[ACCESS_SENTENCE_SIZE]) {
    if (access_take_rate(principal, 1, steady_ns())) return TARRY__CODE__OK;
    atomic_fetch_add(&authorizer->limited, 1);
    snprintf(sentence, ACCESS_SENTENCE_SIZE, "%s has reached its limit of operations per second (rate=, tarry token)",
             principal->entry.name);
    return TARRY__CODE__BUSY;
}

static bool may_any(const struct access_principal *principal, uint32_t operations,
                    char sentence[ACCESS_SENTENCE_SIZE]) {
    for (unsigned op = TARRY__OP__OP__NOT_SET + 1; op < 32; op++) {
        const struct access_rule *rule = (operations & 1u << op) != 0 ? access_rule_of_op((Tarry__Op__OpCase)op) : NULL;
        if (rule != NULL && access_may(principal, rule, NULL, sentence)) return true;
    }
    return false;
}

Tarry__Code authorizer_judge_deed(struct authorizer *authorizer, struct access_principal *principal, bool leases,
                                  uint32_t operations, char sentence[ACCESS_SENTENCE_SIZE]) {
    const Tarry__Request subscribe = {.body_case = TARRY__REQUEST__BODY_SUBSCRIBE};
    bool may = leases ? access_may(principal, access_rule_of_request(&subscribe), NULL, sentence)
                      : may_any(principal, operations, sentence);
    if (may) return take_one(authorizer, principal, sentence);
    atomic_fetch_add(&authorizer->denied, 1);
    return TARRY__CODE__DENIED;
}

Tarry__Code authorizer_judge_key(struct authorizer *authorizer, struct access_principal *principal,
                                 const Tarry__Commit *commit, char sentence[ACCESS_SENTENCE_SIZE]) {
    bool may = false;
    for (size_t i = 0; !may && i < commit->n_ops; i++) {
        const struct access_rule *rule = access_rule_of_op(commit->ops[i]->op_case);
        may = rule != NULL && access_may(principal, rule, op_queue(commit->ops[i]), sentence);
    }
    if (may) return take_one(authorizer, principal, sentence);
    atomic_fetch_add(&authorizer->denied, 1);
    return TARRY__CODE__DENIED;
}

Tarry__Code authorizer_judge_lease(struct authorizer *authorizer, struct access_principal *principal,
                                   const char *const *queues, size_t queue_count, char sentence[ACCESS_SENTENCE_SIZE]) {
    const Tarry__Request request = {.body_case = TARRY__REQUEST__BODY_SUBSCRIBE};
    const struct access_rule *rule = access_rule_of_request(&request);
    bool may = true;
    for (size_t i = 0; may && i < queue_count; i++) may = access_may(principal, rule, queues[i], sentence);
    if (!may) {
        atomic_fetch_add(&authorizer->denied, 1);
        return TARRY__CODE__DENIED;
    }
    return take_one(authorizer, principal, sentence);
}

bool authorizer_judge_op(struct authorizer *authorizer, const struct access_principal *principal,
                         Tarry__Op__OpCase operation, const char *queue, char sentence[ACCESS_SENTENCE_SIZE]) {
    const struct access_rule *rule = access_rule_of_op(operation);
    if (rule != NULL && access_may(principal, rule, queue, sentence)) return true;
    atomic_fetch_add(&authorizer->denied, 1);
    return false;
}

uint64_t authorizer_own(struct authorizer *authorizer) {
    pthread_mutex_lock(&authorizer->mutex);
    struct access_principal *own = access_hold(authorizer->set->broker);
    pthread_mutex_unlock(&authorizer->mutex);
    return (uint64_t)(uintptr_t)own;
}

bool authorizer_take_bytes(struct authorizer *authorizer, struct access_principal *principal, uint64_t before,
                           uint64_t after) {
    uint64_t most = principal->entry.limits[LIMIT_bytes];
    uint64_t others = atomic_fetch_add(&principal->usage.bytes, after - before) -
                      before; /* a negative difference wraps around: addition is modulo 2^64 */
    if (most == 0 || after <= before || others == 0 || others + after <= most) return true;
    atomic_fetch_sub(&principal->usage.bytes, after - before);
    atomic_fetch_add(&authorizer->limited, 1);
    return false;
}

void authorizer_give_bytes(struct access_principal *principal, uint64_t bytes) {
    atomic_fetch_sub(&principal->usage.bytes, bytes);
}
