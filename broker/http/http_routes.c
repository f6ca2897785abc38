/* http_routes.c: the table of paths, and the handler of each. tests/e2e/http_api_test.py compares it with the OpenAPI
 * document, which must contain every path. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "errors.h"
#include "http_exchange.h"

static const char no_path[] = "unknown path; /v1/openapi.json lists the paths";

/* Permission that a request's body needs: to lease tasks, or to commit at least one of these operations. */
#define LEASES                                                                                                         \
    { .leases = true }
#define COMMITS(ops)                                                                                                   \
    { .operations = (ops) }
#define OP(kind) (1u << TARRY__OP__OP_##kind)
#define ANY_OP 0xffffffffu
/* The operations on one task. */
#define TASK_OPS (OP(SCHEDULE) | OP(CANCEL) | OP(MOVE) | OP(ACK) | OP(NACK) | OP(EXTEND) | OP(RELEASE))

/* The rows of the table are read in this order. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct route {
    enum head_method method;
    const char *path; /* a * in the path matches any segment */
    void (*handle)(struct http_exchange *exchange);
    struct gateway_deed deed; /* the permission that is checked before a body is read; empty: the route reads no body */
    bool is_built;            /* true: `handle` needs the parsed JSON body, so http_build calls it after parsing */
    void (*handle_lines)(struct http_exchange *exchange); /* handles a body of JSON lines; NULL: not accepted */
};

static const struct route routes[] = {
    {HEAD_GET, "v1/openapi.json", handle_openapi},
    {HEAD_POST, "v1/tasks", handle_tasks_post, COMMITS(OP(SCHEDULE)), true, handle_lines},
    {HEAD_POST, "v1/queues/*/tasks", handle_tasks_post, COMMITS(OP(SCHEDULE)), true, handle_lines},
    {HEAD_GET, "v1/tasks/*", handle_task_get},
    {HEAD_GET, "v1/queues/*/tasks/*", handle_task_get},
    {HEAD_DELETE, "v1/tasks/*", handle_task_delete, COMMITS(OP(CANCEL))},
    {HEAD_DELETE, "v1/queues/*/tasks/*", handle_task_delete, COMMITS(OP(CANCEL))},
    {HEAD_PATCH, "v1/tasks/*", handle_task_patch, COMMITS(OP(MOVE)), true},
    {HEAD_PATCH, "v1/queues/*/tasks/*", handle_task_patch, COMMITS(OP(MOVE)), true},
    {HEAD_GET, "v1/tasks/*/history", handle_audit},
    {HEAD_GET, "v1/queues/*/tasks/*/history", handle_audit},
    {HEAD_GET, "v1/queues/*/tasks", handle_list},
    {HEAD_GET, "v1/queues/*/dead", handle_list},
    {HEAD_GET, "v1/queues/*/count", handle_count},
    {HEAD_POST, "v1/commit", handle_commit, COMMITS(ANY_OP), true},
    {HEAD_POST, "v1/ack", handle_settle, COMMITS(OP(ACK)), true},
    {HEAD_POST, "v1/nack", handle_settle, COMMITS(OP(NACK)), true},
    {HEAD_POST, "v1/extend", handle_settle, COMMITS(OP(EXTEND)), true},
    {HEAD_POST, "v1/release", handle_settle, COMMITS(OP(RELEASE)), true},
    {HEAD_POST, "v1/lease", handle_lease, LEASES, true},
    {HEAD_POST, "v1/queues/*/lease", handle_lease, LEASES, true},
    {HEAD_GET, "v1/queues", handle_queues},
    {HEAD_GET, "v1/queues/*", handle_queue_get},
    {HEAD_PATCH, "v1/queues/*", handle_queue_change, COMMITS(OP(QUEUE_SET)), true},
    {HEAD_DELETE, "v1/queues/*", handle_queue_change, COMMITS(OP(QUEUE_DELETE)), true},
    {HEAD_POST, "v1/queues/*/pause", handle_queue_change, COMMITS(OP(QUEUE_PAUSE)), true},
    {HEAD_POST, "v1/queues/*/resume", handle_queue_change, COMMITS(OP(QUEUE_PAUSE)), true},
    {HEAD_POST, "v1/queues/*/purge", handle_queue_change, COMMITS(OP(QUEUE_PURGE)), true},
    {HEAD_POST, "v1/queues/*/dead/requeue", handle_settle, COMMITS(OP(DEAD)), true},
    {HEAD_POST, "v1/queues/*/dead/drop", handle_settle, COMMITS(OP(DEAD)), true},
    {HEAD_GET, "v1/consumers", handle_consumers},
    {HEAD_GET, "v1/recurrences", handle_recurrences},
    {HEAD_GET, "v1/queues/*/recurrences", handle_recurrences},
    {HEAD_GET, "v1/queues/*/recurrences/*", handle_recurrence_get},
    {HEAD_PUT, "v1/queues/*/recurrences/*", handle_recurrence_change, COMMITS(OP(RECUR_SET)), true},
    {HEAD_DELETE, "v1/queues/*/recurrences/*", handle_recurrence_change, COMMITS(OP(RECUR_DO)), true},
    {HEAD_POST, "v1/queues/*/recurrences/*/pause", handle_recurrence_change, COMMITS(OP(RECUR_DO)), true},
    {HEAD_POST, "v1/queues/*/recurrences/*/resume", handle_recurrence_change, COMMITS(OP(RECUR_DO)), true},
    {HEAD_POST, "v1/queues/*/recurrences/*/trigger", handle_recurrence_change, COMMITS(OP(RECUR_DO)), true},
    {HEAD_GET, "v1/stats", handle_stats},
    {HEAD_GET, "v1/minutes", handle_minutes},
    {HEAD_GET, "v1/calendar", handle_calendar},
    {HEAD_GET, "v1/status", handle_status},
    {HEAD_GET, "v1/caller", handle_caller},
    {HEAD_GET, "v1/audit", handle_audit},
};

static bool is_path(const struct head *head, const char *path) {
    for (size_t i = 0; i < head->segment_count; i++) {
        size_t size = strcspn(path, "/");
        const struct head_text *segment = &head->segments[i];
        bool is_any = size == 1 && path[0] == '*';
        if (is_any ? segment->size == 0 : segment->size != size || memcmp(segment->text, path, size) != 0) return false;
        path += size;
        if (*path == '\0') return i + 1 == head->segment_count;
        path++;
    }
    return false;
}

/* Stores a refusal in exchange->refusal. If `code` is NULL, the status determines the code. */
static void refuse(struct http_exchange *exchange, unsigned status, const char *code, const char *sentence) {
    struct http_refusal *refusal = &exchange->refusal;
    refusal->status = status;
    refusal->code = code != NULL ? code : http_code_of(status);
    if (sentence != refusal->sentence) snprintf(refusal->sentence, sizeof(refusal->sentence), "%s", sentence);
}

/* Checks the permission, and charges one operation of the rate before a body is read. The charge is given back when
 * the broker charges the request's own operations. */
static void judge(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    const struct gateway_deed *deed = &exchange->route->deed;
    char *sentence = exchange->refusal.sentence;
    if ((!head->is_chunked && head->length == 0) || (!deed->leases && deed->operations == 0)) return;
    Tarry__Code code = gateway_pay(exchange->server->gateway, &exchange->caller, deed, sentence);
    exchange->has_paid = code == TARRY__CODE__OK;
    if (!exchange->has_paid) refuse(exchange, http_status_of(code), code_name(code), sentence);
}

/* Finds the route for the request's path and method. Returns true if some route has this path, even if for another
 * method. */
static bool find(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    enum head_method method = head->method == HEAD_HEAD ? HEAD_GET : head->method;
    bool is_known = exchange->route != NULL;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]) && exchange->route == NULL; i++) {
        if (!is_path(head, routes[i].path)) continue;
        is_known = true;
        if (routes[i].method == method) exchange->route = &routes[i];
    }
    return is_known;
}

void http_route_find(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    bool is_known = find(exchange);
    if (exchange->route != NULL) {
        if (head->segment_count > 2 && strcmp(head->segments[1].text, "queues") == 0)
            exchange->in.queue = head->segments[2].text;
        judge(exchange);
        return;
    }
    bool is_v1 = head->segment_count > 0 && strcmp(head->segments[0].text, "v1") == 0;
    if (is_known)
        refuse(exchange, 405, NULL, "this path does not allow the method; /v1/openapi.json lists the methods");
    else if (is_v1)
        refuse(exchange, 404, NULL, no_path);
}

static void answer_with_page(struct http_exchange *exchange) {
    char path[HEAD_PATH_SIZE];
    if (!door_stream_page(exchange->server->door, exchange->id, head_path(&exchange->head, path)))
        http_refuse(exchange, 404, http_code_of(404),
                    "there is no such page; there are /, /healthz, /readyz, /metrics and /v1");
}

static bool is_lines(const struct http_exchange *exchange) {
    const char *type = exchange->head.fields[HEAD_FIELD_type].text;
    return exchange->route->handle_lines != NULL && type != NULL && strncasecmp(type, "application/x-ndjson", 20) == 0;
}

bool http_route_changes_tasks(struct http_exchange *exchange) {
    (void)find(exchange);
    const uint32_t operations = exchange->route != NULL ? exchange->route->deed.operations : 0;
    return operations != 0 && (operations & ~TASK_OPS) == 0 && !is_lines(exchange);
}

void http_route(struct http_exchange *exchange) {
    const struct http_refusal *refusal = &exchange->refusal;
    const struct route *route = exchange->route;
    size_t weight = exchange->scan.weight;
    if (refusal->status != 0)
        http_refuse(exchange, refusal->status, refusal->code, refusal->sentence);
    else if (route == NULL)
        answer_with_page(exchange);
    else if (is_lines(exchange))
        route->handle_lines(exchange);
    else if (!route->is_built)
        route->handle(exchange);
    else if (weight <= JSON_WEIGHT_MAX &&
             !http_hold(exchange, weight)) /* a body that would need more than JSON_WEIGHT_MAX bytes of memory is
                                              refused later, without parsing */
        http_refuse_memory(exchange);
    else
        http_build(exchange, route->handle, http_built);
}
