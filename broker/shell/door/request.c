/* request.c: see request.h. */
#include "request.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "listen.h"
#include "requests.h"
#include "secret.h"
#include "tarry.pb-c.h"
#include "wire.h"

/* ---- the outer levels of a packed Request; see request.h */

#define FIELD_REQUEST_COMMIT 11
#define FIELD_REQUEST_SUBSCRIBE 13
#define FIELD_COMMIT_OPS 5
#define FIELD_OP_SCHEDULE 1
#define FIELD_SUBSCRIBE_QUEUES 1

struct walk {
    const uint8_t *at;
    const uint8_t *end;
};

static bool walk_varint(struct walk *walk, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && walk->at < walk->end; shift += 7) {
        uint8_t byte = *walk->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* Reads the next field. `*out_inner` is its bytes if it is length-delimited, otherwise empty. */
static bool walk_field(struct walk *walk, uint64_t *out_field, struct walk *out_inner) {
    uint64_t tag, value = 0;
    if (!walk_varint(walk, &tag)) return false;
    *out_field = tag >> 3;
    *out_inner = (struct walk){walk->at, walk->at};
    switch (tag & 7) {
    case 0:
        return walk_varint(walk, &value);
    case 1:
        value = 8;
        break;
    case 2:
        if (!walk_varint(walk, &value)) return false;
        break;
    case 5:
        value = 4;
        break;
    default:
        return false;
    }
    if (value > (uint64_t)(walk->end - walk->at)) return false;
    if ((tag & 7) == 2) *out_inner = (struct walk){walk->at, walk->at + value};
    walk->at += value;
    return true;
}

/* Returns whether the field belongs to the message's oneof. (Request and Op have only one oneof.) */
static bool is_body(const ProtobufCMessageDescriptor *message, uint64_t field) {
    if (field > UINT32_MAX) return false;
    const ProtobufCFieldDescriptor *known = protobuf_c_message_descriptor_get_field(message, (unsigned)field);
    return known != NULL && (known->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* Counts the bodies of an operation. Unknown fields of a newer client are allowed beside the body. */
static bool peek_op(struct walk op, struct request_peek *out) {
    size_t body_count = 0;
    while (op.at < op.end) {
        uint64_t field;
        struct walk inner;
        if (!walk_field(&op, &field, &inner)) return false;
        if (field == FIELD_OP_SCHEDULE) out->schedules = true;
        if (is_body(&tarry__op__descriptor, field)) body_count++;
    }
    if (body_count > out->op_bodies_max) out->op_bodies_max = body_count;
    return true;
}

static bool peek_commit(struct walk commit, struct request_peek *out) {
    while (commit.at < commit.end) {
        uint64_t field;
        struct walk op;
        if (!walk_field(&commit, &field, &op)) return false;
        if (field != FIELD_COMMIT_OPS) continue;
        out->op_count++;
        if (!peek_op(op, out)) return false;
    }
    return true;
}

static bool peek_subscribe(struct walk subscribe, struct request_peek *out) {
    while (subscribe.at < subscribe.end) {
        uint64_t field;
        struct walk queue;
        if (!walk_field(&subscribe, &field, &queue)) return false;
        if (field == FIELD_SUBSCRIBE_QUEUES) out->queue_count++;
    }
    return true;
}

bool request_peek(const uint8_t *data, size_t size, struct request_peek *out) {
    *out = (struct request_peek){0};
    struct walk request = {data, data + size};
    while (request.at < request.end) {
        uint64_t field;
        struct walk inner;
        if (!walk_field(&request, &field, &inner)) return false;
        if (is_body(&tarry__request__descriptor, field)) out->body_count++;
        if (field == FIELD_REQUEST_SUBSCRIBE && !peek_subscribe(inner, out)) return false;
        if (field == FIELD_REQUEST_COMMIT && !peek_commit(inner, out)) return false;
    }
    return true;
}

/* NUMBER(limit) is the limit as text. The limit must be defined without a suffix such as u. */
#define DIGITS(limit) #limit
#define NUMBER(limit) DIGITS(limit)

_Static_assert(DEFINITION_NAME_SIZE_MAX == 255 && DEFINITIONS_LIMIT_MAX == 1000 && CALENDAR_SPANS_MAX == 10080 &&
                   FOLLOW_EPOCHS_MAX == 64 && LEASE_MIN_MS == 10 && FOLLOW_WAIT_MAX_MS == 10000 &&
                   AUDIT_SIZE_MAX == 1048576,
               "the messages below state these limits");
_Static_assert(AUDIT_WAIT_MAX_MS == 10000 && BACKUP_READ_MAX == 1048576 && FAN_OUTS_PER_COMMIT_MAX == 256 &&
                   RECUR_NAME_SIZE_MAX == 128 && RECUR_TIMES_MAX == 100,
               "the messages below state these limits");
_Static_assert(RECURRENCES_LIMIT_MAX == 256, "the messages below state this limit");

static const char out_of_memory[] = "decoding the request needs more memory than is allowed: split it";
static const char frame_too_large[] =
    "the contents of the commit are together larger than a log frame may be: split the commit";
static const char too_many_redactions[] = "a commit has more than " NUMBER(REDACT_OPS_MAX) " redact operations";
static const char too_many_fan_outs[] = "a commit has more than 256 fan-outs";
static const char too_many_ops[] = "the commit has more than " NUMBER(OPS_PER_COMMIT_MAX) " operations";
static const char too_many_bodies[] = "the request has more than one body: send one request for each";
static const char too_many_op_bodies[] =
    "an operation has more than one body (schedule, cancel, …): send one operation for each";
static const char body_unknown[] = "this broker does not know the request; the client may be newer than the broker";
static const char too_many_queues[] = "more than " NUMBER(QUEUES_PER_SUBSCRIBE_MAX) " queues are named";

static bool refuse_message(struct request_refusal *out, Tarry__Code code, const char *sentence) {
    *out = (struct request_refusal){code, sentence};
    return false;
}

/* Refuses a request for which memory is missing. BUSY: the system has no memory now (F-11). TOO_LARGE: the request is
 * too large for its arena. */
static bool refuse_memory(const struct arena *arena, struct request_refusal *out) {
    if (arena->starved) return refuse_message(out, TARRY__CODE__BUSY, NULL);
    return refuse_message(out, TARRY__CODE__TOO_LARGE, out_of_memory);
}

/* Adds the size and the limit to an error about size. Without memory for that: returns `problem`. */
static const char *with_sizes(struct arena *arena, const char *problem, Tarry__Code code, const Tarry__Op *op,
                              uint32_t payload_max) {
    enum { SENTENCE_SIZE = 200 };
    bool is_long = op->op_case == TARRY__OP__OP_SCHEDULE && op->schedule->content.len > payload_max;
    if (problem == NULL || code != TARRY__CODE__TOO_LARGE || !is_long) return problem;
    char *sentence = arena_alloc(arena, SENTENCE_SIZE);
    if (sentence == NULL) return problem;
    snprintf(sentence, SENTENCE_SIZE,
             "%s: payload and attributes have %zu bytes, but the limit is %u (tarryd --payload-max)", problem,
             op->schedule->content.len, payload_max);
    return sentence;
}

/* Returns the content that the operation stores; NULL: none. */
static const ProtobufCBinaryData *content_of(const Tarry__Op *op) {
    if (op->op_case == TARRY__OP__OP_SCHEDULE) return &op->schedule->content;
    return op->op_case == TARRY__OP__OP_FAN_OUT ? &op->fan_out->content : NULL;
}

/* Checks every operation. Returns the total size of the accepted contents, salts included. */
static uint64_t check_ops(struct arena *arena, const Tarry__Commit *commit, uint32_t payload_max,
                          struct core_content *contents) {
    uint64_t total = 0;
    for (size_t i = 0; i < commit->n_ops; i++) {
        contents[i] = (struct core_content){0};
        const char *problem = check_op(commit->ops[i], payload_max, &contents[i].code);
        contents[i].problem = with_sizes(arena, problem, contents[i].code, commit->ops[i], payload_max);
        const ProtobufCBinaryData *content = content_of(commit->ops[i]);
        if (contents[i].problem == NULL && content != NULL) total += BLOB_SALT_SIZE + content->len;
    }
    return total;
}

bool request_has_op(const Tarry__Request *request, Tarry__Op__OpCase op_case) {
    if (request->body_case != TARRY__REQUEST__BODY_COMMIT) return false;
    const Tarry__Commit *commit = request->commit;
    size_t i = 0;
    while (i < commit->n_ops && commit->ops[i]->op_case != op_case) i++;
    return i < commit->n_ops;
}

static size_t count_ops(const Tarry__Commit *commit, Tarry__Op__OpCase op_case) {
    size_t count = 0;
    for (size_t i = 0; i < commit->n_ops; i++) count += commit->ops[i]->op_case == op_case;
    return count;
}

/* Number of random bytes for salts that one seed from the kernel yields. A call of getrandom(2) for each commit took
 * about as long as all other work for the commit's salts. */
#define SALTS_SIZE 4096u
static _Thread_local struct {
    uint8_t bytes[SALTS_SIZE];
    size_t left; /* the last `left` bytes are unused; the used ones are erased */
} salts_of_thread;

static void generate_salts(uint8_t *out, size_t size) {
    uint8_t seed[randombytes_SEEDBYTES];
    randombytes_buf(seed, sizeof(seed));
    randombytes_buf_deterministic(out, size, seed);
    sodium_memzero(seed, sizeof(seed));
}

static void take_salts(uint8_t *out, size_t size) {
    if (size > SALTS_SIZE) {
        generate_salts(out, size);
        return;
    }
    if (size > salts_of_thread.left) {
        generate_salts(salts_of_thread.bytes, SALTS_SIZE);
        salts_of_thread.left = SALTS_SIZE;
    }
    uint8_t *from = salts_of_thread.bytes + SALTS_SIZE - salts_of_thread.left;
    memcpy(out, from, size);
    sodium_memzero(from, size);
    salts_of_thread.left -= size;
}

/* Writes each operation's salt and content one after the other into one block of memory. */
static bool salt_contents(struct arena *arena, const Tarry__Commit *commit, uint64_t total,
                          struct core_content *contents) {
    uint8_t *blob = arena_alloc(arena, total);
    uint8_t *salts = arena_alloc(arena, commit->n_ops * BLOB_SALT_SIZE);
    if (blob == NULL || salts == NULL) return false;
    take_salts(salts, commit->n_ops * BLOB_SALT_SIZE);
    for (size_t i = 0; i < commit->n_ops; i++) {
        const ProtobufCBinaryData *content = content_of(commit->ops[i]);
        if (contents[i].problem != NULL || content == NULL) continue;
        memcpy(blob, salts + i * BLOB_SALT_SIZE, BLOB_SALT_SIZE);
        if (content->len > 0) memcpy(blob + BLOB_SALT_SIZE, content->data, content->len);
        contents[i].data = blob;
        contents[i].size = (uint32_t)(BLOB_SALT_SIZE + content->len);
        contents[i].sum = frame_sum(blob, contents[i].size);
        content_hash(blob, contents[i].size, contents[i].hash);
        blob += contents[i].size;
    }
    return true;
}

/* Fills in one content for each operation of a well-formed commit. */
static bool prepare_contents(struct arena *arena, const Tarry__Commit *commit, uint32_t payload_max,
                             struct core_request *out, struct request_refusal *out_refusal) {
    if (commit->ask) return true;
    struct core_content *contents = arena_alloc(arena, commit->n_ops * sizeof(*contents));
    if (contents == NULL) return refuse_memory(arena, out_refusal);
    uint64_t total = check_ops(arena, commit, payload_max, contents);
    if (total > FRAME_BLOB_SIZE_MAX) return refuse_message(out_refusal, TARRY__CODE__TOO_LARGE, frame_too_large);
    if (total > 0 && !salt_contents(arena, commit, total, contents)) return refuse_memory(arena, out_refusal);
    out->commit.contents = contents;
    return true;
}

static bool prepare_resume(const Tarry__Subscribe *subscribe, const struct request_setting *setting,
                           struct core_request *out, struct request_refusal *out_refusal) {
    if (subscribe->resume.len == 0) return true;
    out->resumed = secret_check(setting->secret, setting->principal, subscribe->resume.data, subscribe->resume.len);
    if (out->resumed != 0) return true;
    return refuse_message(out_refusal, TARRY__CODE__NO_SUCH_SESSION,
                          "this broker does not know the session's secret: subscribe again");
}

/* ---- checks, by requests.def */

static const char *check_commit(const Tarry__Commit *commit) {
    if (commit->producer == 0) return "producer is missing";
    if (commit->sequence == 0) return "sequence is missing";
    if (commit->oldest_unanswered == 0 || commit->oldest_unanswered > commit->sequence)
        return "oldest_unanswered must be from 1 to sequence";
    if (commit->ask) return commit->n_ops == 0 ? NULL : "a commit with ask must not have operations";
    if (commit->n_ops == 0) return "the commit has no operations";
    if (commit->n_ops > OPS_PER_COMMIT_MAX) return too_many_ops;
    const size_t fan_outs = count_ops(commit, TARRY__OP__OP_FAN_OUT);
    if (fan_outs > FAN_OUTS_PER_COMMIT_MAX) return too_many_fan_outs;
    /* The fan-outs must be the first operations of a commit, because the core then need not search all operations for
     * them. */
    for (size_t i = 0; i < fan_outs; i++)
        if (commit->ops[i]->op_case != TARRY__OP__OP_FAN_OUT) return "the fan-outs of a commit must come first";
    return count_ops(commit, TARRY__OP__OP_REDACT) <= REDACT_OPS_MAX ? NULL : too_many_redactions;
}

static const char *check_subscribe(const Tarry__Subscribe *subscribe) {
    const char *problem = NULL;
    if (subscribe->n_queues == 0 && !subscribe->mover && !subscribe->sharer) return "the list of queues is empty";
    if (subscribe->n_queues > QUEUES_PER_SUBSCRIBE_MAX) return too_many_queues;
    for (size_t i = 0; problem == NULL && i < subscribe->n_queues; i++)
        problem = check_queue_name(subscribe->queues[i]);
    if (problem != NULL) return problem;
    if (subscribe->prefetch > PREFETCH_MAX) return "prefetch must be at most " NUMBER(PREFETCH_MAX);
    if (subscribe->max_batch > BATCH_MAX) return "max_batch must be at most " NUMBER(BATCH_MAX);
    if (subscribe->lease_ms != 0 && subscribe->lease_ms < LEASE_MIN_MS) return "lease_ms must be at least 10 ms";
    return subscribe->lease_ms <= LEASE_MAX_MS ? NULL : "lease_ms must be at most 24 hours";
}

static const char *check_attach(const Tarry__Attach *attach) {
    if (attach->ticket.len == 0) return "ticket is missing";
    return attach->secret.len != 0 ? NULL : "secret is missing";
}

static const char *check_unsubscribe(const Tarry__Unsubscribe *unsubscribe) {
    return unsubscribe->n_seen <= LEASES_MAX ? NULL
                                             : "unsubscribe: the field `seen` has more tasks than can be in flight";
}

static const char *check_list(const Tarry__List *list) {
    const char *problem = check_queue_name(list->queue);
    if (problem == NULL) problem = check_key(list->prefix.data, list->prefix.len);
    if (problem != NULL) return problem;
    if (list->limit > LIST_LIMIT_MAX) return "limit must be at most " NUMBER(LIST_LIMIT_MAX);
    if ((list->states & ~15u) != 0) return "states has a bit that is unknown to this broker";
    return list->cursor.len == 0 || list->cursor.len == 16
               ? NULL
               : "invalid cursor: use the cursor of an earlier result page of this broker";
}

static const char *check_queue_or_all(const char *queue) {
    return queue[0] != '\0' ? check_queue_name(queue) : NULL;
}

static const char *check_definitions(const Tarry__Definitions *definitions) {
    const char *problem = check_space(definitions->space);
    if (problem != NULL) return problem;
    if (definitions->prefix.len > DEFINITION_NAME_SIZE_MAX || definitions->after.len > DEFINITION_NAME_SIZE_MAX)
        return "prefix and after must be at most 255 bytes";
    return definitions->limit <= DEFINITIONS_LIMIT_MAX ? NULL : "limit must be at most 1000";
}

static const char *check_recurrences(const Tarry__Recurrences *question) {
    const char *problem = check_queue_or_all(question->queue);
    if (problem != NULL) return problem;
    if (question->name[0] != '\0' && question->queue[0] == '\0') return "a recurrence's name needs its queue";
    if (strnlen(question->name, RECUR_NAME_SIZE_MAX + 1) > RECUR_NAME_SIZE_MAX) return "name is longer than 128 bytes";
    if (question->times > RECUR_TIMES_MAX) return "times must be at most 100";
    if (question->limit > RECURRENCES_LIMIT_MAX) return "limit must be at most 256";
    return question->cursor <= RECURRENCES_MAX ? NULL : "invalid cursor: use next of an earlier result page";
}

static const char *check_calendar(const Tarry__Calendar *calendar) {
    const char *problem = check_queue_or_all(calendar->queue);
    if (problem != NULL) return problem;
    if (calendar->from_ms % CALENDAR_UNIT_MS != 0) return "from_ms must be a whole minute";
    if (calendar->step_ms == 0 || calendar->step_ms % CALENDAR_UNIT_MS != 0)
        return "step_ms must be a number of whole minutes above 0";
    if (calendar->step_ms > CALENDAR_STEP_MAX_MS) return "step_ms must be at most 366 days";
    if (calendar->spans == 0) return "spans is missing";
    if (calendar->spans > CALENDAR_SPANS_MAX) return "spans must be at most 10080";
    bool goes_far = calendar->from_ms > CALENDAR_TIME_MAX_MS ||
                    calendar->step_ms * calendar->spans > CALENDAR_TIME_MAX_MS - calendar->from_ms;
    return goes_far ? "the spans after from_ms must end before the year 10000" : NULL;
}

static const char *check_audit(const Tarry__Audit *audit) {
    if (audit->at_end && audit->position != 0) return "position and at_end exclude each other";
    if (audit->position % FRAME_ALIGN != 0) return "position is not the position of a frame";
    if (audit->position != 0 && audit->position < LOG_POSITION_FIRST) return "position is not the position of a frame";
    if (audit->to_ms != 0 && audit->to_ms <= audit->from_ms) return "to_ms must be later than from_ms";
    if (audit->frames_max > AUDIT_FRAMES_MAX) return "frames_max must be at most " NUMBER(AUDIT_FRAMES_MAX);
    if (audit->size_max > AUDIT_SIZE_MAX) return "size_max must be at most 1 MiB";
    if (audit->wait_ms > AUDIT_WAIT_MAX_MS) return "wait_ms must be at most 10 s";
    return audit->task != NULL ? check_ref(audit->task) : NULL;
}

static const char *check_backup(const Tarry__Backup *backup) {
    if (backup->what > TARRY__BACKUP__WHAT__END) return "the field what must be begin, status, list, read or end";
    bool is_begin = backup->what == TARRY__BACKUP__WHAT__BEGIN;
    if (is_begin != (backup->backup == 0))
        return is_begin ? "the request that begins a backup must not have a backup number" : "backup is missing";
    if (backup->what != TARRY__BACKUP__WHAT__READ) return NULL;
    if (backup->size == 0 || backup->size > BACKUP_READ_MAX) return "size must be from 1 byte to 1 MiB";
    return NULL;
}

static const char *check_follow(const Tarry__Follow *follow) {
    if (follow->wait_ms > FOLLOW_WAIT_MAX_MS) return "wait_ms must be at most 10 s";
    if (strlen(follow->url) > URL_SIZE_MAX) return "url must be at most " NUMBER(URL_SIZE_MAX) " bytes";
    if (follow->n_epochs > FOLLOW_EPOCHS_MAX) return "epochs may have at most 64 elements";
    if (follow->n_epochs != follow->n_epoch_starts)
        return "epochs and epoch_starts must have the same number of elements";
    /* A node that joins does not know the cluster's id yet, so its other fields are not checked. */
    if (follow->cluster.len == 0) return NULL;
    struct listen_address address;
    const char *problem;
    if (!listen_parse_peer(follow->url, &address, &problem)) return "url is not the address of a broker";
    if (follow->end < LOG_POSITION_FIRST || follow->end % FRAME_ALIGN != 0)
        return "follow: the field `end` is not a position at which a frame of the log ends";
    return NULL;
}

static const char *check_wish(const Tarry__Request *request) {
    bool has_wish = request->at_least != 0 || request->staleness_ms != 0;
    if (has_wish && !request_is_question(request)) return "at_least and staleness_ms are allowed only in queries";
    _Static_assert(FRESH_WAIT_MAX_MS == 2000, "the message below states this limit");
    if (has_wish && request->wait_ms > FRESH_WAIT_MAX_MS) return "wait_ms must be at most 2 s";
    return NULL;
}

static const char *check_body(const Tarry__Request *request) {
    switch (request->body_case) {
#define REQUEST(CASE, member, Message, class, answerer, roles, reach, queue, check, ...)                               \
    case TARRY__REQUEST__BODY_##CASE: {                                                                                \
        const Tarry__##Message *m = request->member;                                                                   \
        (void)m;                                                                                                       \
        return check;                                                                                                  \
    }
#include "requests.def"
        REQUEST_UNKNOWN
    }
    return body_unknown;
}

static Tarry__Code code_of(const char *problem) {
    if (problem == body_unknown) return TARRY__CODE__UNSUPPORTED;
    bool is_size = problem == too_many_ops || problem == too_many_redactions;
    return is_size ? TARRY__CODE__TOO_LARGE : TARRY__CODE__INVALID;
}

static bool prepare_body(struct arena *arena, const Tarry__Request *request, const struct request_setting *setting,
                         struct core_request *out, struct request_refusal *out_refusal) {
    const char *problem = check_body(request);
    if (problem != NULL) return refuse_message(out_refusal, code_of(problem), problem);
    if (request->body_case == TARRY__REQUEST__BODY_COMMIT)
        return prepare_contents(arena, request->commit, setting->payload_max, out, out_refusal);
    if (request->body_case == TARRY__REQUEST__BODY_SUBSCRIBE)
        return prepare_resume(request->subscribe, setting, out, out_refusal);
    return true;
}

/* Refuses requests before they use memory. */
static bool check_counts(const struct request_peek *counts, struct request_refusal *out_refusal) {
    if (counts->body_count > 1) return refuse_message(out_refusal, TARRY__CODE__INVALID, too_many_bodies);
    if (counts->op_bodies_max > 1) return refuse_message(out_refusal, TARRY__CODE__INVALID, too_many_op_bodies);
    if (counts->op_count > OPS_PER_COMMIT_MAX) return refuse_message(out_refusal, TARRY__CODE__TOO_LARGE, too_many_ops);
    if (counts->queue_count > QUEUES_PER_SUBSCRIBE_MAX)
        return refuse_message(out_refusal, TARRY__CODE__INVALID, too_many_queues);
    return true;
}

bool request_prepare(struct arena *arena, const uint8_t *data, size_t size, const struct request_setting *setting,
                     struct core_request *out, struct request_refusal *out_refusal) {
    struct request_peek counts;
    if (!request_peek(data, size, &counts))
        return refuse_message(out_refusal, TARRY__CODE__INVALID, "the request is not a protobuf message");
    if (!check_counts(&counts, out_refusal)) return false;
    Tarry__Request *request = request_unpack(arena, size, data);
    if (request == NULL) {
        if (arena->starved || arena->used > arena->size_max / 2) return refuse_memory(arena, out_refusal);
        return refuse_message(out_refusal, TARRY__CODE__INVALID, "the request is malformed");
    }
    if (request->version == 0)
        return refuse_message(out_refusal, TARRY__CODE__INVALID, "the protocol version is missing");
    if (request->version > WIRE_VERSION)
        return refuse_message(out_refusal, TARRY__CODE__UNSUPPORTED,
                              "the protocol version is newer than this broker's");
    size_t name_size = strlen(request->client);
    if (name_size > CLIENT_NAME_SIZE_MAX)
        return refuse_message(out_refusal, TARRY__CODE__INVALID, "the client's name is longer than 128 bytes");
    if (!is_utf8(request->client, name_size))
        return refuse_message(out_refusal, TARRY__CODE__INVALID, "the client's name is not UTF-8");
    *out = (struct core_request){.message = request};
    const char *problem = check_wish(request);
    if (problem != NULL) return refuse_message(out_refusal, TARRY__CODE__INVALID, problem);
    return prepare_body(arena, request, setting, out, out_refusal);
}
