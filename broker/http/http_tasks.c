/* http_tasks.c: schedules, changes, leases and settles tasks. */
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "http_exchange.h"
#include "json_quick.h"

#define LINES_PER_COMMIT 1000u
/* Maximum weight (json_weigh) of the lines of one commit. A line that exceeds it has a commit of its own. */
#define LINES_WEIGHT_MAX (4u << 20)
/* Delays before the next lines are read: LINES_TURN_MS lets other requests run; LINES_BUSY_MS lets them free memory. */
#define LINES_TURN_MS 1u
#define LINES_BUSY_MS 100u
#define LEASE_DEFAULT_COUNT 1u

/* ---- commits */

/* Operations of a commit being built. */
struct ops {
    Tarry__Commit commit;
    const char **names;
    size_t capacity;
};

static struct ops *ops_new(struct http_exchange *exchange, size_t capacity) {
    struct ops *ops = http_make(exchange, sizeof(*ops));
    if (ops == NULL) return NULL;
    tarry__commit__init(&ops->commit);
    ops->commit.ops = arena_alloc(&exchange->arena, (capacity + 1) * sizeof(Tarry__Op *));
    ops->names = arena_alloc(&exchange->arena, (capacity + 1) * sizeof(char *));
    ops->capacity = capacity;
    if (ops->commit.ops != NULL && ops->names != NULL) return ops;
    http_refuse_memory(exchange);
    return NULL;
}

static void refuse_op(struct http_exchange *exchange, size_t index, bool is_single) {
    char sentence[JSON_PROBLEM_SIZE + 40];
    if (is_single)
        snprintf(sentence, sizeof(sentence), "%s", exchange->in.problem);
    else
        snprintf(sentence, sizeof(sentence), "element %zu: %s", index, exchange->in.problem);
    http_refuse(exchange, exchange->in.too_large ? 413 : 400, exchange->in.too_large ? "too_large" : "invalid",
                sentence);
}

static void write_result(struct text *out, const struct http_exchange *exchange, const Tarry__Reply *reply, size_t i) {
    /* The result of a request with an Idempotency-Key has no log position, because a repeated request must get the same
     * result, but its reply has another position. */
    const bool is_repeatable = exchange->head.fields[HEAD_FIELD_idempotency].text != NULL;
    const bool has_position = exchange->is_single && !is_repeatable;
    struct json_result result = {.name = exchange->names[i], .position = has_position ? reply->position : 0};
    json_result_of(&result, exchange->commit->ops[i], reply->commit->results[i]);
    json_write_result(out, &result);
}

static void on_single(struct http_exchange *exchange, const Tarry__Reply *reply) {
    const Tarry__OpResult *result = reply->commit->results[0];
    struct text out = HTTP_TEXT;
    unsigned status = http_status_of(result->code);
    bool is_new = exchange->commit->ops[0]->op_case == TARRY__OP__OP_SCHEDULE;
    /* An ack of a task that was acked already, usually by a repeated request. It counts as success, because the task is
     * acked. The member `code` still says that this request did not do it. */
    bool is_acked = exchange->commit->ops[0]->op_case == TARRY__OP__OP_ACK &&
                    result->code == TARRY__CODE__STALE_TOKEN && result->outcome == TARRY__OUTCOME__ACKED;
    if (result->code == TARRY__CODE__OK || is_acked) {
        write_result(&out, exchange, reply, 0);
        http_respond(exchange, is_new ? 201 : 200, &out);
        return;
    }
    /* The status is 404 if the path names a task that does not exist. */
    if (result->code == TARRY__CODE__NOT_DONE && result->outcome == TARRY__OUTCOME__UNKNOWN) status = 404;
    out_begin(&out, '{');
    out_key(&out, "type");
    text_add_str(&out, "\"urn:tarry:code:");
    text_add_str(&out, code_name(result->code));
    text_add_str(&out, "\"");
    out_number(&out, "status", status);
    out_text(&out, "code", code_name(result->code));
    out_text(&out, "title", code_sentence(result->code));
    out_text(&out, "detail", result->message[0] != '\0' ? result->message : code_sentence(result->code));
    out_key(&out, "result");
    write_result(&out, exchange, reply, 0);
    out_end(&out, '}');
    http_respond(exchange, status, &out);
}

static void on_committed(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    if (reply->commit == NULL || reply->commit->n_results != exchange->commit->n_ops) {
        http_refuse(exchange, 500, "failed",
                    "the broker's reply does not match this request: this is a defect of the broker");
        return;
    }
    if (exchange->is_single) {
        on_single(exchange, reply);
        return;
    }
    out_begin(&out, '{');
    if (reply->position != 0) out_number(&out, "position", reply->position);
    out_bool(&out, "aborted", reply->commit->aborted != 0);
    out_key(&out, "results");
    out_begin(&out, '[');
    for (size_t i = 0; i < reply->commit->n_results; i++) {
        out_comma(&out);
        write_result(&out, exchange, reply, i);
    }
    out_end(&out, ']');
    out_end(&out, '}');
    http_respond(exchange, 200, &out);
}

static void send_ops(struct http_exchange *exchange, struct ops *ops, bool is_single) {
    exchange->names = (const char *const *)ops->names;
    exchange->is_single = is_single;
    exchange->commit = &ops->commit;
    if (!exchange->is_building) http_commit(exchange, &ops->commit, on_committed);
}

/* Commits the operation `name` for each object of the JSON array `elements`. If `elements` is an object, commits one
 * operation. */
static void commit_each(struct http_exchange *exchange, const char *name, json_t *elements, bool atomic) {
    bool is_single = json_is_object(elements);
    size_t count = is_single ? 1 : json_array_size(elements);
    if (!is_single && (!json_is_array(elements) || count == 0)) {
        http_refuse(exchange, 400, "invalid", "the body must be an object or a non-empty array of objects");
        return;
    }
    if (count > OPS_PER_COMMIT_MAX) {
        http_refuse(exchange, 413, "too_large", "a request may have at most 8192 operations; send more as JSON lines");
        return;
    }
    struct ops *ops = ops_new(exchange, count);
    if (ops == NULL) return;
    for (size_t i = 0; i < count; i++) {
        Tarry__Op *op = json_op_named(&exchange->in, name, is_single ? elements : json_array_get(elements, i));
        if (op == NULL) {
            refuse_op(exchange, i, is_single);
            return;
        }
        ops->names[ops->commit.n_ops] = NULL;
        ops->commit.ops[ops->commit.n_ops++] = op;
    }
    ops->commit.atomic = atomic;
    send_ops(exchange, ops, is_single);
}

/* Parses the body's schedules without building a tree of JSON values, which is faster, and commits them. Returns false
 * if the body needs the full parser: it is large, or its JSON is not plain. */
static bool commit_quickly(struct http_exchange *exchange, bool atomic) {
    const struct http_body *body = &exchange->body;
    bool is_single;
    if (body->size > JSON_QUICK_SIZE_MAX) return false;
    size_t most = exchange->scan.weight / JSON_OBJECT_WEIGHT; /* each task is an object */
    struct ops *ops = ops_new(exchange, most < OPS_PER_COMMIT_MAX ? most : OPS_PER_COMMIT_MAX);
    if (ops == NULL) return true; /* refused */
    ops->commit.n_ops =
        json_quick_schedules(&exchange->in, body->bytes, body->size, ops->commit.ops, ops->capacity, &is_single);
    if (ops->commit.n_ops == 0) return false;
    memset(ops->names, 0, ops->commit.n_ops * sizeof(*ops->names));
    ops->commit.atomic = atomic;
    send_ops(exchange, ops, is_single);
    return true;
}

void http_commit_one(struct http_exchange *exchange, const char *name) {
    commit_each(exchange, name, exchange->json, false);
}

void handle_commit(struct http_exchange *exchange) {
    bool atomic = true;
    if (!http_parameters_only(exchange, "") || !http_read_json(exchange, false)) return;
    json_t *list = json_member(exchange->json, "ops");
    size_t count = json_array_size(list);
    bool is_good = json_only(&exchange->in, exchange->json, "ops atomic") &&
                   json_get_bool(&exchange->in, exchange->json, "atomic", &atomic);
    if (!is_good || count == 0 || count > OPS_PER_COMMIT_MAX) {
        http_refuse(exchange, 400, "invalid",
                    is_good ? "ops must be an array of 1 to 8192 operations" : exchange->in.problem);
        return;
    }
    struct ops *ops = ops_new(exchange, count);
    if (ops == NULL) return;
    for (size_t i = 0; i < count; i++) {
        json_t *element = json_array_get(list, i);
        Tarry__Op *op = json_op(&exchange->in, element);
        if (op == NULL) {
            refuse_op(exchange, i, false);
            return;
        }
        ops->names[ops->commit.n_ops] = json_object_iter_key(json_object_iter(element));
        ops->commit.ops[ops->commit.n_ops++] = op;
    }
    ops->commit.atomic = atomic;
    send_ops(exchange, ops, false);
}

/* POST /v1/ack, …, /v1/queues/Q/dead/requeue: {"tasks": [ … ], "atomic": …}, or a single task. */
void handle_settle(struct http_exchange *exchange) {
    const char *name = exchange->head.segments[exchange->head.segment_count - 1].text;
    bool atomic = false;
    if (!http_parameters_only(exchange, "") || !http_read_json(exchange, false)) return;
    json_t *tasks = json_member(exchange->json, "tasks");
    if (tasks != NULL && !(json_only(&exchange->in, exchange->json, "tasks atomic") &&
                           json_get_bool(&exchange->in, exchange->json, "atomic", &atomic))) {
        http_refuse(exchange, 400, "invalid", exchange->in.problem);
        return;
    }
    commit_each(exchange, name, tasks != NULL ? tasks : exchange->json, atomic);
}

/* ---- JSON lines: any number, with one commit for each LINES_PER_COMMIT lines */

static void write_line_problem(struct http_exchange *exchange, const char *code, const char *sentence) {
    struct text *out = &exchange->out;
    out_begin(out, '{');
    out_number(out, "line", exchange->line);
    out_text(out, "result", "error");
    out_text(out, "code", code);
    out_text(out, "message", sentence);
    text_add_str(out, "}\n");
}

static void lines_go_on(struct http_exchange *exchange);
static void lines_wait(struct http_exchange *exchange, uint64_t after_ms);

/* Sends the results of the lines, and continues with the next lines. With `waits`, other requests run first. */
static void end_lines(struct http_exchange *exchange, bool waits) {
    json_decref(exchange->json);
    exchange->json = NULL;
    arena_reset(&exchange->arena);
    if (!http_stream_write(exchange, &exchange->out))
        exchange->on_drained = lines_go_on;
    else if (waits)
        lines_wait(exchange, LINES_TURN_MS);
    else
        lines_go_on(exchange);
}

/* Writes the result of each line. If the commit was refused, each of its lines gets the refusal. */
static void on_lines(struct http_exchange *exchange, const Tarry__Reply *reply) {
    Tarry__OpResult refused = TARRY__OP_RESULT__INIT;
    const Tarry__Commit *commit = exchange->commit;
    bool is_ok = reply != NULL && reply->code == TARRY__CODE__OK && reply->commit != NULL &&
                 reply->commit->n_results == commit->n_ops;
    /* Without a reply, the commit may have been executed. */
    refused.code = reply != NULL ? reply->code : TARRY__CODE__FAILED;
    if (reply != NULL) refused.message = reply->message;
    for (size_t i = 0; i < commit->n_ops; i++) {
        struct json_result result = {.line = exchange->lines[i], .position = is_ok ? reply->position : 0};
        json_result_of(&result, commit->ops[i], is_ok ? reply->commit->results[i] : &refused);
        json_write_result(&exchange->out, &result);
        text_add_char(&exchange->out, '\n');
    }
    end_lines(exchange, false);
}

static void lines_later(void *argument) {
    struct http_exchange *exchange = argument;
    exchange->timer = 0;
    lines_go_on(exchange);
}

static void lines_wait(struct http_exchange *exchange, uint64_t after_ms) {
    exchange->timer = gateway_timer(exchange->server->gateway, after_ms, lines_later, exchange);
    if (exchange->timer == 0) door_stream_kill(exchange->server->door, exchange->id);
}

static const char *line_end(const struct http_exchange *exchange, const char *at) {
    const char *end = exchange->body.bytes + exchange->body.size;
    const char *found = memchr(at, '\n', (size_t)(end - at));
    return found != NULL ? found + 1 : end;
}

/* Finds the lines of the next commit, and their weight. Called by the door's thread or by the thread that parses
 * bodies. */
static void find_lines(struct http_exchange *exchange) {
    const char *end = exchange->body.bytes + exchange->body.size, *at = exchange->line_at;
    exchange->lines_weight = 0;
    for (size_t count = 0; at < end && count < LINES_PER_COMMIT; count++) {
        const char *next = line_end(exchange, at);
        size_t more = json_weigh(at, (size_t)(next - at));
        /* Weight 0: the line is too large and will not be parsed. */
        more = more > JSON_WEIGHT_MAX ? 0 : more + (size_t)(next - at);
        if (count > 0 && exchange->lines_weight + more > LINES_WEIGHT_MAX) break;
        exchange->lines_weight += more;
        at = next;
    }
    exchange->lines_end = at;
}

/* Parses the next line. NULL: the line is invalid, and its error is written. */
static Tarry__Op *read_line(struct http_exchange *exchange) {
    const char *at = exchange->line_at, *end = line_end(exchange, at);
    exchange->line_at = end;
    exchange->line++;
    size_t size = (size_t)(end - at);
    if (size > 0 && at[size - 1] == '\n') size--;
    if (size > 0 && at[size - 1] == '\r') size--;
    Tarry__Op *quick;
    bool is_single;
    if (json_quick_schedules(&exchange->in, at, size, &quick, 1, &is_single) == 1 && is_single) return quick;
    json_t *value = json_read(&exchange->in, at, size);
    bool is_kept = value != NULL && json_array_append_new(exchange->json, value) == 0;
    Tarry__Op *op = is_kept ? json_op_named(&exchange->in, "schedule", value) : NULL;
    if (value != NULL && !is_kept)
        snprintf(exchange->in.problem, sizeof(exchange->in.problem),
                 "the broker has too little memory for this line: try again in a moment");
    if (op == NULL)
        write_line_problem(exchange, exchange->in.too_large ? "too_large" : "invalid", exchange->in.problem);
    return op;
}

/* Parses the found lines into exchange->commit, or sets it to NULL when out of memory. Called by the door's thread or
 * by the thread that parses bodies. */
static void read_lines(struct http_exchange *exchange) {
    exchange->commit = NULL;
    Tarry__Commit *commit = arena_alloc(&exchange->arena, sizeof(*commit));
    exchange->lines = arena_alloc(&exchange->arena, LINES_PER_COMMIT * sizeof(uint64_t));
    Tarry__Op **ops = arena_alloc(&exchange->arena, LINES_PER_COMMIT * sizeof(*ops));
    exchange->json = json_array();
    if (commit == NULL || exchange->lines == NULL || ops == NULL || exchange->json == NULL) return;
    tarry__commit__init(commit);
    commit->ops = ops;
    while (exchange->line_at < exchange->lines_end) {
        Tarry__Op *op = read_line(exchange);
        if (op == NULL) continue;
        exchange->lines[commit->n_ops] = exchange->line;
        ops[commit->n_ops++] = op;
    }
    exchange->commit = commit;
}

static void lines_read(struct http_exchange *exchange) {
    if (exchange->commit == NULL)
        door_stream_kill(exchange->server->door, exchange->id);
    else if (exchange->commit->n_ops > 0)
        http_commit(exchange, exchange->commit, on_lines);
    else
        end_lines(exchange, true);
}

static void lines_found(struct http_exchange *exchange) {
    if (http_hold(exchange, exchange->lines_weight))
        http_build(exchange, read_lines, lines_read);
    else
        lines_wait(exchange, LINES_BUSY_MS);
}

/* Handles at most LINES_PER_COMMIT lines, valid or invalid, so that other requests run in between. */
static void lines_go_on(struct http_exchange *exchange) {
    if (exchange->line_at == exchange->body.bytes + exchange->body.size)
        http_stream_end(exchange);
    else
        http_build(exchange, find_lines, lines_found);
}

void handle_lines(struct http_exchange *exchange) {
    bool atomic = false;
    if (!http_parameters_only(exchange, "atomic") || !http_parameter_bool(exchange, "atomic", &atomic)) return;
    if (exchange->head.fields[HEAD_FIELD_idempotency].text != NULL) {
        http_refuse(exchange, 400, "invalid",
                    "Idempotency-Key cannot be used with JSON lines, because they are several commits: give each task "
                    "a key instead");
        return;
    }
    exchange->line_at = exchange->body.bytes;
    /* Stop counting the bytes of the body against the principal's limit, because from now on the bytes of each commit
     * count. */
    (void)door_stream_count(exchange->server->door, exchange->id, 0);
    http_stream_begin(exchange, "application/x-ndjson");
    if (exchange->body.size == 0)
        http_stream_end(exchange);
    else
        lines_go_on(exchange);
}

void handle_tasks_post(struct http_exchange *exchange) {
    bool atomic = false;
    if (!http_parameters_only(exchange, "atomic") || !http_parameter_bool(exchange, "atomic", &atomic)) return;
    if (!http_has_json(exchange) || commit_quickly(exchange, atomic)) return;
    if (http_read_json(exchange, false)) commit_each(exchange, "schedule", exchange->json, atomic);
}

/* ---- one task */

static json_t *members_of_path(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    json_t *members = json_object();
    bool is_by_id = head->segment_count == 3;
    const struct head_text *name = &head->segments[is_by_id ? 2 : 4];
    json_t *value = json_stringn(name->text, name->size);
    if (members == NULL || value == NULL || json_object_set_new(members, is_by_id ? "id" : "key", value) != 0) {
        json_decref(members);
        http_refuse(exchange, 400, "invalid", "the key in the path is not UTF-8");
        return NULL;
    }
    return members;
}

static void change_one(struct http_exchange *exchange, const char *name, json_t *members) {
    if (members == NULL) return;
    json_decref(exchange->json);
    exchange->json = members;
    commit_each(exchange, name, members, false);
}

void handle_task_delete(struct http_exchange *exchange) {
    bool withdraw = false;
    if (!http_parameters_only(exchange, "withdraw") || !http_parameter_bool(exchange, "withdraw", &withdraw)) return;
    json_t *members = members_of_path(exchange);
    if (members != NULL && withdraw) json_object_set_new(members, "withdraw", json_true());
    change_one(exchange, "cancel", members);
}

void handle_task_patch(struct http_exchange *exchange) {
    if (!http_parameters_only(exchange, "") || !http_read_json(exchange, false)) return;
    if (!json_only(&exchange->in, exchange->json, "in in_ms delay_ms at due_ms")) {
        http_refuse(exchange, 400, "invalid", exchange->in.problem);
        return;
    }
    json_t *members = members_of_path(exchange);
    if (members != NULL) json_object_update(members, exchange->json);
    change_one(exchange, "move", members);
}

static void on_got(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    char sentence[120];
    if (http_refused(exchange, reply)) return;
    if (reply->get->task == NULL || reply->get->outcome == TARRY__OUTCOME__UNKNOWN) {
        snprintf(sentence, sizeof(sentence), "the task does not exist, and no such task has ended since %llu (Unix ms)",
                 (unsigned long long)reply->get->known_since_ms);
        http_refuse(exchange, 404, "not_done", sentence);
        return;
    }
    if (http_answered_by_head(exchange)) return;
    json_message(&out, &reply->get->task->base);
    http_respond(exchange, 200, &out);
}

void handle_task_get(struct http_exchange *exchange) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Get get = TARRY__GET__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    if (!http_parameters_only(exchange, "")) return;
    json_t *members = members_of_path(exchange);
    if (members == NULL) return;
    exchange->json = members;
    json_t *id = json_object_get(members, "id"), *key = json_object_get(members, "key");
    if (id != NULL && !json_id_parse(id, &ref.id)) {
        http_refuse(exchange, 400, "invalid", "invalid task id in the path: it must be a whole number from 1");
        return;
    }
    if (key != NULL) {
        ref.queue = (char *)exchange->in.queue;
        ref.key = (ProtobufCBinaryData){.len = json_string_length(key), .data = (uint8_t *)json_string_value(key)};
    }
    get.task = &ref;
    get.with_content = exchange->head.method != HEAD_HEAD;
    request.body_case = TARRY__REQUEST__BODY_GET;
    request.get = &get;
    http_ask(exchange, &request, on_got);
}

/* ---- leases */

static void on_leased(struct http_exchange *exchange, const struct gateway_leased *leased) {
    struct text out = HTTP_TEXT;
    if (leased->code != TARRY__CODE__OK) {
        http_refuse_code(exchange, leased->code, leased->message, leased->primary);
        return;
    }
    out_begin(&out, '{');
    out_key(&out, "tasks");
    out_begin(&out, '[');
    for (size_t i = 0; i < leased->count; i++) {
        out_comma(&out);
        json_message(&out, &leased->tasks[i]->base);
    }
    out_end(&out, ']');
    out_time(&out, "delivered", leased->delivered_ms);
    out_end(&out, '}');
    if (leased->count > 0)
        http_respond_leased(exchange, &out);
    else
        http_respond(exchange, 200, &out);
}

/* Returns the names of the queues. NULL: the request is refused. */
static const char **read_queues(struct http_exchange *exchange, size_t *out_count) {
    json_t *list = json_member(exchange->json, "queues"), *value;
    size_t i, count = exchange->in.queue != NULL ? 1 : json_array_size(list);
    const char **queues =
        count > 0 && count <= QUEUES_PER_SUBSCRIBE_MAX ? arena_alloc(&exchange->arena, count * sizeof(char *)) : NULL;
    bool is_good = queues != NULL && (exchange->in.queue == NULL) == (list != NULL);
    if (is_good && exchange->in.queue != NULL) queues[0] = exchange->in.queue;
    for (i = 0; is_good && list != NULL && i < count; i++) {
        value = json_array_get(list, i);
        is_good = json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
        queues[i] = json_string_value(value);
    }
    *out_count = count;
    if (is_good) return queues;
    http_refuse(exchange, 400, "invalid", "queues must be an array of 1 to 256 names, unless the path names a queue");
    return NULL;
}

void handle_lease(struct http_exchange *exchange) {
    struct gateway_lease_options options = {.max = 0};
    uint64_t max = LEASE_DEFAULT_COUNT;
    if (!http_parameters_only(exchange, "") || !http_read_json(exchange, true)) return;
    json_t *json = exchange->json;
    struct json_in *in = &exchange->in;
    if (!json_only(in, json, "queues max wait wait_ms lease lease_ms") ||
        !json_get_u64(in, json, "max", GATEWAY_LEASE_TASKS_MAX, &max) ||
        !json_get_duration(in, json, "wait", &options.wait_ms) ||
        !json_get_duration(in, json, "lease", &options.lease_ms)) {
        http_refuse(exchange, 400, "invalid", in->problem);
        return;
    }
    if (max == 0 || options.wait_ms > GATEWAY_WAIT_MAX_MS) {
        http_refuse(exchange, 400, "invalid", "max must be from 1 to 4096, and wait at most 10m");
        return;
    }
    options.queues = read_queues(exchange, &options.queue_count);
    if (options.queues == NULL) return;
    options.max = (uint32_t)max;
    exchange->lease = options;
}

/* ---- after a body is parsed */

void http_built(struct http_exchange *exchange) {
    const struct http_refusal *refusal = &exchange->refusal;
    if (refusal->status != 0) {
        http_refuse(exchange, refusal->status, refusal->code, refusal->sentence);
        return;
    }
    size_t size = exchange->body.size;
    body_deinit(&exchange->body);
    /* Reserve memory for the parsed values plus the size of the body's text, because the values and operations contain
     * copies of the text. */
    (void)http_hold(exchange, exchange->scan.weight + size);
    if (exchange->commit != NULL)
        http_commit(exchange, exchange->commit, on_committed);
    else
        http_lease(exchange, &exchange->lease, on_leased);
}
