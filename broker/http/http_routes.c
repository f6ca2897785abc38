/* http_routes.c: which request is whose: the one table of paths. tests/e2e/http_api_test.py compares it with the
 * OpenAPI document, which names every one of them. */
#include <string.h>

#include "http_exchange.h"

struct route {
    enum head_method method;
    const char *path; /* a * is any segment */
    void (*handle)(struct http_exchange *exchange);
};

static const struct route routes[] = {
    {HEAD_GET, "v1/openapi.json", handle_openapi},
    {HEAD_POST, "v1/tasks", handle_tasks_post},
    {HEAD_POST, "v1/queues/*/tasks", handle_tasks_post},
    {HEAD_GET, "v1/tasks/*", handle_task_get},
    {HEAD_GET, "v1/queues/*/tasks/*", handle_task_get},
    {HEAD_DELETE, "v1/tasks/*", handle_task_delete},
    {HEAD_DELETE, "v1/queues/*/tasks/*", handle_task_delete},
    {HEAD_PATCH, "v1/tasks/*", handle_task_patch},
    {HEAD_PATCH, "v1/queues/*/tasks/*", handle_task_patch},
    {HEAD_GET, "v1/tasks/*/history", handle_audit},
    {HEAD_GET, "v1/queues/*/tasks/*/history", handle_audit},
    {HEAD_GET, "v1/queues/*/tasks", handle_list},
    {HEAD_GET, "v1/queues/*/dead", handle_list},
    {HEAD_GET, "v1/queues/*/count", handle_count},
    {HEAD_POST, "v1/commit", handle_commit},
    {HEAD_POST, "v1/ack", handle_settle},
    {HEAD_POST, "v1/nack", handle_settle},
    {HEAD_POST, "v1/extend", handle_settle},
    {HEAD_POST, "v1/release", handle_settle},
    {HEAD_POST, "v1/lease", handle_lease},
    {HEAD_POST, "v1/queues/*/lease", handle_lease},
    {HEAD_GET, "v1/queues", handle_queues},
    {HEAD_GET, "v1/queues/*", handle_queue_get},
    {HEAD_PATCH, "v1/queues/*", handle_queue_change},
    {HEAD_DELETE, "v1/queues/*", handle_queue_change},
    {HEAD_POST, "v1/queues/*/pause", handle_queue_change},
    {HEAD_POST, "v1/queues/*/resume", handle_queue_change},
    {HEAD_POST, "v1/queues/*/purge", handle_queue_change},
    {HEAD_POST, "v1/queues/*/dead/requeue", handle_settle},
    {HEAD_POST, "v1/queues/*/dead/drop", handle_settle},
    {HEAD_GET, "v1/stats", handle_stats},
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

void http_route(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    enum head_method method = head->method == HEAD_HEAD ? HEAD_GET : head->method;
    bool is_known = false;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (!is_path(head, routes[i].path)) continue;
        is_known = true;
        if (routes[i].method != method) continue;
        if (head->segment_count > 2 && strcmp(head->segments[1].text, "queues") == 0)
            exchange->in.queue = head->segments[2].text;
        routes[i].handle(exchange);
        return;
    }
    bool is_v1 = head->segment_count > 0 && strcmp(head->segments[0].text, "v1") == 0;
    char path[HEAD_PATH_SIZE];
    if (is_known)
        http_refuse(exchange, 405, "invalid", "this path takes other methods (/v1/openapi.json)");
    else if (is_v1 || method != HEAD_GET ||
             !door_stream_page(exchange->server->door, exchange->id, head_path(head, path)))
        http_refuse(exchange, 404, "invalid", "there is no such path; /v1/openapi.json names those that there are");
}
