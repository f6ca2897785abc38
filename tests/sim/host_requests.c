/* host_requests.c: incoming requests, and reads of the index for the core. A read ends after a delay, and the core gets
 * the rows after another delay. This file carries out the effects of engine/engine_request.h, as
 * shell/threads/core_thread.c and reader.c do; the indexer loads the windows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "client.h"
#include "host.h"
#include "node.h"
#include "ops.h"
#include "views.h"
#include "world.h"

/* Number of rows of a page. Pages are short, so that jobs and lists need several. */
#define PAGE_TASKS_MAX 5

static void end_request(struct world *world, struct engine_request *engine_request) {
    struct host *host = world->host;
    engine_request_end(engine_request, host->core);
    if (host->node) host_wake(world); /* wakes the pair's thread, because a follower may wait for this position */
}

/* ---- reads of the index as it is at this moment */

static void read_facts(struct world *world, struct engine_request *engine_request) {
    struct table_rows rows = {0};
    table_lookup(&world->host->table, engine_request->wants, engine_request->want_count, &world->memory, &rows);
    engine_request_add_rows(engine_request, rows.rows, rows.count, 0);
}

static void read_pages(struct world *world, struct asked *asked) {
    const struct table *table = &world->host->table;
    struct engine_request *engine_request = &asked->engine_request;
    struct core_paged *page = &engine_request->event.page;
    struct table_rows rows = {0};
    size_t count_max = 1 + random_below(&world->random, PAGE_TASKS_MAX);
    if (engine_request->item.kind == ITEM_WINDOW) {
        asked->rows.line = asked->window.line;
        asked->rows.through = table_window(table, &asked->window, &world->memory, &rows);
        asked->rows.rows = rows.rows;
        asked->rows.count = rows.count;
        return;
    }
    if (engine_request->item.kind != ITEM_PAGE) {
        struct due through = table_list(table, &engine_request->plan, count_max, &world->memory, &rows);
        engine_request_add_page(engine_request, rows.rows, rows.count, 0, through);
        return;
    }
    page->next_id = table_page(table, &asked->page, count_max, &world->memory, &rows);
    page->rows = rows.rows;
    page->row_count = rows.count;
}

static void handed_in(struct world *world, void *argument, uint64_t number) {
    struct asked *asked = argument;
    if (asked->life == world->host->life) host_take(world, &asked->engine_request.item);
}

static void is_read(struct world *world, void *argument, uint64_t number) {
    struct asked *asked = argument;
    if (asked->life != world->host->life) return;
    if (asked->engine_request.want_count) {
        read_facts(world, &asked->engine_request);
    } else {
        read_pages(world, asked);
    }
    world_after(world, &world->options.read, handed_in, asked, 0);
}

static void read_later(struct world *world, struct asked *asked) {
    world_after(world, &world->options.read, is_read, asked, 0);
}

static struct asked *asked_new(struct world *world, enum item_kind kind) {
    struct asked *asked = world_alloc(world, sizeof *asked);
    *asked = (struct asked){.engine_request.item.kind = kind,
                            .engine_request.arena = &world->memory,
                            .engine_request.hold = -1,
                            .life = world->host->life};
    return asked;
}

void host_ask_window(struct world *world, const struct core_window *window) {
    struct asked *asked = asked_new(world, ITEM_WINDOW);
    asked->window = *window;
    read_later(world, asked);
}

void host_ask_page(struct world *world, const struct core_page *page) {
    struct asked *asked = asked_new(world, ITEM_PAGE);
    asked->page = *page;
    asked->engine_request.event = (struct core_event){.kind = CORE_PAGE, .page.job = page->job};
    read_later(world, asked);
}

/* ---- requests that are ready for the core */

#define PIECE_NS 50000u /* delay in ns between two pieces of a window */

static void refuse_with(struct world *world, struct asked *asked, Tarry__Code code) {
    Tarry__Reply *reply = world_alloc(world, sizeof *reply);
    tarry__reply__init(reply);
    reply->code = code;
    host_answer(world, asked, world->host->number, reply, NULL, 0);
}

void host_refuse_asked(struct world *world, struct asked *asked) {
    end_request(world, &asked->engine_request);
    refuse_with(world, asked, TARRY__CODE__BUSY);
}

void host_drop_asked(struct world *world, struct asked *asked) {
    enum item_kind kind = asked->engine_request.item.kind;
    if (kind != ITEM_WINDOW) end_request(world, &asked->engine_request);
    if (kind == ITEM_CALL) refuse_with(world, asked, TARRY__CODE__STOPPING);
}

static enum engine_request_need next_need(struct world *world, struct engine_request *engine_request) {
    const struct core_filter filter = {.may_exist = host_may_exist, .keys = world->host};
    return engine_request_next(engine_request, world->host->core, world->options.filters ? &filter : NULL);
}

/* Returns true if the core has all facts for the event, so that the event may be stepped. Returns false if the request
 * waits for facts or was refused. */
static bool has_all(struct world *world, struct asked *asked) {
    struct engine_request *engine_request = &asked->engine_request;
    enum engine_request_need need;
    while ((need = next_need(world, engine_request)) == ENGINE_REQUEST_ROOM) {
        if (host_has_room(world, engine_request->room)) continue;
        host_refuse_asked(world, asked);
        return false;
    }
    switch (need) {
    case ENGINE_REQUEST_PAST:
        host_locate_later(world, asked);
        break;
    case ENGINE_REQUEST_READ:
        read_later(world, asked);
        break;
    case ENGINE_REQUEST_TIME:
        world_after(world, &world->options.wake, handed_in, asked, 0);
        break;
    case ENGINE_REQUEST_COUNT:
        MUST(!"nobody asks for the calendar");
    case ENGINE_REQUEST_HOLD:
        core_turn_starve(&world->host->turn, &engine_request->item);
        break;
    case ENGINE_REQUEST_REFUSED:
        end_request(world, engine_request);
        refuse_with(world, asked, engine_request->refusal.code);
        break;
    case ENGINE_REQUEST_ROOM:
        MUST(!"there is memory, and room was asked for");
    case ENGINE_REQUEST_NONE:
        break;
    }
    return need == ENGINE_REQUEST_NONE;
}

static bool has_schedules(const Tarry__Request *request) {
    if (request->body_case != TARRY__REQUEST__BODY_COMMIT) return false;
    for (size_t i = 0; i < request->commit->n_ops; i++) {
        if (request->commit->ops[i]->op_case == TARRY__OP__OP_SCHEDULE) return true;
    }
    return false;
}

/* Lets due timers fire before the test predicts the reply, so that the prediction includes their effects. */
static void let_time_pass(struct world *world) {
    if (core_deadline(world->host->core) > host_event_time(world).steady_ns / NS_PER_MS) return;
    struct core_event event = {.kind = CORE_TICK};
    host_step(world, &event);
}

/* Returns the reply of the last step to this request. */
static const Tarry__Reply *reply_of(const struct host *host, const struct asked *asked) {
    const struct core_effects *effects = &host->batch->effects;
    size_t i = effects->replies.count;
    while (i > 0 && effects->replies.items[i - 1].ticket != (uint64_t)(uintptr_t)asked) i--;
    MUST(i > 0 && effects->replies.items[i - 1].reply);
    return effects->replies.items[i - 1].reply;
}

/* Lets occurrences fall due before the request is predicted, because the prediction describes the state that the
 * request finds. Must be called before has_all: between the core's last check of its facts and the request's step, no
 * other event may be stepped. Returns true if a recurrence fell due. */
static bool settle_recurrences(struct world *world) {
    const struct instant now = host_answers_at(world);
    struct core_event tick = {.kind = CORE_TICK};
    if (!core_recurs(world->host->core, &now)) return false;
    host_step(world, &tick);
    return true;
}

static void take_call(struct world *world, struct asked *asked) {
    struct host *host = world->host;
    struct engine_request *engine_request = &asked->engine_request;
    let_time_pass(world);
    asked->has_recurred |= settle_recurrences(world);
    if (!has_all(world, asked)) return;
    struct core_request *request = &engine_request->event.request;
    const Tarry__Request__BodyCase body = request->message->body_case;
    bool is_predicted = body == TARRY__REQUEST__BODY_COMMIT || body == TARRY__REQUEST__BODY_GET;
    asked->request->predictions[host->number].past = body == TARRY__REQUEST__BODY_COMMIT ? request->commit.past : NULL;
    if (is_predicted) ledger_predict(world, asked->request);
    if (body == TARRY__REQUEST__BODY_STATS) {
        request->broker = world_alloc(world, sizeof *request->broker);
        tarry__broker_stats__init(request->broker);
    }
    /* The core reads the numbers of Stats before the step (stats_look), so the reply may lack the latest occurrences.
     */
    const bool is_exact = !asked->has_recurred || body != TARRY__REQUEST__BODY_STATS;
    struct views *views = is_exact ? views_expect(world, request->message) : NULL;
    host_step(world, &engine_request->event);
    if (views) views_check(world, views, request->message, reply_of(host, asked));
    end_request(world, engine_request);
}

/* Gives the core the next piece of a window. The pieces are smaller than in the product, where nearly every window has
 * one piece. */
static void take_window(struct world *world, struct asked *asked) {
    struct core_event event;
    uint32_t piece = world->options.core.work_max ? world->options.core.work_max : WINDOW_PIECE_MAX;
    bool more = window_next(&asked->rows, piece, &event);
    host_step(world, &event);
    if (more) world_after_ns(world, PIECE_NS, handed_in, asked, 0);
}

static void take_page(struct world *world, struct asked *asked) {
    if (!has_all(world, asked)) return;
    host_step(world, &asked->engine_request.event);
    end_request(world, &asked->engine_request);
}

void host_take_asked(struct world *world, struct asked *asked) {
    if (asked->engine_request.item.kind == ITEM_WINDOW) {
        take_window(world, asked);
    } else if (asked->engine_request.item.kind == ITEM_PAGE) {
        take_page(world, asked);
    } else {
        world->host->taken = asked;
        take_call(world, asked);
        world->host->taken = NULL;
    }
}

/* Returns the client's address; the port changes after every crash. */
static const char *peer_of(struct world *world, const struct client *client) {
    char *peer = world_alloc(world, PEER_SIZE_MAX + 1);
    snprintf(peer, PEER_SIZE_MAX + 1, "%s:%u", client->name, 1024 + (unsigned)(client->run % 60000));
    return peer;
}

static void receive(struct world *world, const struct unread *unread) {
    struct host *host = world->host;
    struct client *client = unread->client;
    struct request *request = unread->request;
    if (host->state != HOST_UP || host->turn.closed) return;
    struct asked *asked = asked_new(world, ITEM_CALL);
    struct engine_request *engine_request = &asked->engine_request;
    asked->client = client;
    asked->request = request;
    asked->arrived_ns = unread->arrived_ns;
    asked->known = world->truth.count;
    if (host->node) asked->proved = node_proved(world);
    Tarry__Code code = host->node ? node_admits(host->node, request->body) : TARRY__CODE__OK;
    if (code != TARRY__CODE__OK) {
        refuse_with(world, asked, code);
        return;
    }
    engine_request->schedules = has_schedules(request->body);
    engine_request->redacts = host_redacts(request->body);
    engine_request->size = tarry__request__get_packed_size(request->body);
    engine_request->event.kind = CORE_REQUEST;
    engine_request->event.request = (struct core_request){.ticket = (uint64_t)(uintptr_t)asked,
                                                          .message = request->body,
                                                          .peer = peer_of(world, client)};
    struct core_request *prepared = &engine_request->event.request;
    if (request->body->body_case == TARRY__REQUEST__BODY_COMMIT) prepared->commit.contents = request->contents;
    if (request->body->body_case == TARRY__REQUEST__BODY_SUBSCRIBE) {
        /* A client needs a session's secret to resume the session (shell/process/secret.c). The simulator uses the
         * session's number as its secret. */
        const ProtobufCBinaryData *resume = &request->body->subscribe->resume;
        if (resume->len) memcpy(&prepared->resumed, resume->data, sizeof prepared->resumed);
        prepared->pooled = client->pooled;
    }
    host_take(world, &engine_request->item);
}

struct unread *host_reached(struct world *world, struct client *client, struct request *request) {
    struct host *host = world->host;
    if (host->state != HOST_UP) return NULL;
    struct unread *unread = world_alloc(world, sizeof *unread);
    *unread = (struct unread){
        .next = host->unread, .client = client, .request = request, .life = host->life, .arrived_ns = world->now_ns};
    host->unread = unread;
    return unread;
}

void host_read(struct world *world, struct unread *unread) {
    struct host *host = world->host;
    if (unread->life != host->life) return; /* nothing to do: the process that got the request has ended */
    receive(world, unread);
    struct unread **at = &host->unread;
    while (*at && *at != unread) at = &(*at)->next;
    if (*at) *at = unread->next; /* if the request has ended the process, the list of unread requests is empty */
}

void host_answer(struct world *world, struct asked *asked, uint32_t node, Tarry__Reply *reply, const uint8_t *commit,
                 size_t commit_size) {
    struct answer answer = {.reply = reply, .packed_size = commit_size, .node = node};
    bool is_task = reply && reply->body_case == TARRY__REPLY__BODY_GET && reply->get->task;
    if (is_task) answer.content = world->host->origins[reply->get->task->id].content;
    if (commit) {
        answer.packed = world_copy(world, commit, commit_size);
        answer.commit = tarry__commit_reply__unpack(&world->memory.pb, commit_size, answer.packed);
        MUST(answer.commit);
    }
    network_answer(world, asked->client, asked->request, &answer);
}
