/* host_errands.c: requests come in, and what the core lacks is read from the index: late, and handed in later still
 * (shell/loop.c, reader.c; the windows are the indexer's). */
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

/* Pages are short, so that jobs and lists take several. */
#define PAGE_TASKS_MAX 5

static void unhold(struct world *world, struct errand *errand) {
    struct host *host = world->host;
    core_look_end(host->core, &errand->event);
    if (errand->hold >= 0) core_unhold(host->core, errand->hold);
    errand->hold = -1;
    if (host->node) host_wake(world); /* who follows may be waiting for that */
}

/* ---- reading, as the index is at this moment */

static void read_facts(struct world *world, struct errand *errand) {
    struct core_facts *facts = &errand->event.facts;
    struct table_rows rows = {0};
    table_lookup(&world->host->table, errand->wants, errand->want_count, &world->memory, &rows);
    struct row *all_rows = world_alloc(world, (facts->count + rows.count) * sizeof *all_rows);
    if (facts->count) memcpy(all_rows, facts->rows, facts->count * sizeof *all_rows);
    if (rows.count) memcpy(all_rows + facts->count, rows.rows, rows.count * sizeof *all_rows);
    struct want *all_wants = world_alloc(world, (facts->want_count + errand->want_count) * sizeof *all_wants);
    if (facts->want_count) memcpy(all_wants, facts->wants, facts->want_count * sizeof *all_wants);
    memcpy(all_wants + facts->want_count, errand->wants, errand->want_count * sizeof *all_wants);
    facts->rows = all_rows;
    facts->count += rows.count;
    facts->wants = all_wants;
    facts->want_count += errand->want_count;
    errand->want_count = 0;
}

static void read_pages(struct world *world, struct errand *errand) {
    const struct table *table = &world->host->table;
    struct core_event *event = &errand->event;
    struct table_rows rows = {0};
    size_t count_max = 1 + random_below(&world->random, PAGE_TASKS_MAX);
    if (errand->kind == ERRAND_WINDOW) {
        event->through = table_window(table, &errand->window, &world->memory, &rows);
        event->line = errand->window.line;
    } else if (errand->kind == ERRAND_PAGE) {
        event->next_id = table_page(table, &errand->page, count_max, &world->memory, &rows);
    } else {
        event->through = table_list(table, &errand->plan, count_max, &world->memory, &rows);
    }
    event->rows = rows.rows;
    event->row_count = rows.count;
    errand->filled = true;
}

static void handed_in(struct world *world, void *argument, uint64_t number) {
    struct errand *errand = argument;
    if (errand->life == world->host->life) host_take_errand(world, errand);
}

static void is_read(struct world *world, void *argument, uint64_t number) {
    struct errand *errand = argument;
    if (errand->life != world->host->life) return;
    if (errand->want_count) {
        read_facts(world, errand);
    } else {
        read_pages(world, errand);
    }
    world_after(world, &world->options.read, handed_in, errand, 0);
}

static void read_later(struct world *world, struct errand *errand) {
    world_after(world, &world->options.read, is_read, errand, 0);
}

void host_ask_window(struct world *world, const struct core_window *window) {
    struct errand *errand = world_alloc(world, sizeof *errand);
    *errand = (struct errand){.kind = ERRAND_WINDOW, .life = world->host->life, .window = *window, .hold = -1};
    errand->event.kind = CORE_WINDOW;
    read_later(world, errand);
}

void host_ask_page(struct world *world, const struct core_page *page) {
    struct errand *errand = world_alloc(world, sizeof *errand);
    *errand = (struct errand){.kind = ERRAND_PAGE, .life = world->host->life, .page = *page, .hold = -1};
    errand->event = (struct core_event){.kind = CORE_PAGE, .job = page->job};
    read_later(world, errand);
}

/* ---- taking */

#define PIECE_NS 50000u /* from one piece of a load to the next */

static void refuse(struct world *world, struct errand *errand, Tarry__Code code) {
    Tarry__Reply *reply = world_alloc(world, sizeof *reply);
    tarry__reply__init(reply);
    reply->code = code;
    host_answer(world, errand, world->host->number, reply, NULL, 0);
}

/* True: the event lacks nothing and may be stepped. False: the errand is under way to the reader, or was refused. */
static bool has_facts(struct world *world, struct errand *errand) {
    struct core *core = world->host->core;
    bool is_call = errand->kind == ERRAND_CALL;
    if (is_call && host_redacts(errand->event.request) && !errand->event.past) {
        host_locate_later(world, errand);
        return false;
    }
    bool is_list = errand->event.kind == CORE_LIST;
    if (is_list && !errand->filled) {
        core_plan_list(core, errand->event.request->list, &errand->plan);
        if (!errand->plan.queue) return true;
    } else {
        core_may_exist *may_exist = world->options.filters ? host_may_exist : NULL;
        errand->want_count =
            is_list ? 0 : core_wants(core, &errand->event, &world->memory, may_exist, world->host, &errand->wants);
        if (!errand->want_count) {
            if (core_look(core, &errand->event)) return true;
            world_after(world, &world->options.wake, handed_in, errand, 0); /* a piece at a time */
            return false;
        }
    }
    if (errand->hold < 0) errand->hold = core_hold(core);
    if (errand->hold >= 0) {
        read_later(world, errand);
    } else if (errand->kind == ERRAND_CALL) {
        refuse(world, errand, TARRY__CODE__BUSY);
    } else {
        world_after_ns(world, NS_PER_MS, handed_in, errand, 0); /* holds come back */
    }
    return false;
}

static bool has_schedules(const Tarry__Request *request) {
    if (request->body_case != TARRY__REQUEST__BODY_COMMIT) return false;
    for (size_t i = 0; i < request->commit->n_ops; i++) {
        if (request->commit->ops[i]->op_case == TARRY__OP__OP_SCHEDULE) return true;
    }
    return false;
}

/* What time brings about comes first: then the prediction sees it. */
static void let_time_pass(struct world *world) {
    struct core *core = world->host->core;
    uint64_t late_ns;
    if (core_deadline(core) > host_event_time(world, &late_ns).steady_ns / NS_PER_MS) return;
    struct core_event event = {.kind = CORE_TICK};
    host_step(world, &event);
}

/* What the last step answered to it. */
static const Tarry__Reply *reply_of(const struct host *host, const struct errand *errand) {
    const struct core_effects *effects = &host->batches[host->filling]->effects;
    size_t i = effects->replies.count;
    while (i > 0 && effects->replies.items[i - 1].ticket != (uint64_t)(uintptr_t)errand) i--;
    MUST(i > 0 && effects->replies.items[i - 1].reply);
    return effects->replies.items[i - 1].reply;
}

static void take_call(struct world *world, struct errand *errand) {
    struct host *host = world->host;
    if (has_schedules(errand->event.request) && !host_has_room(world, errand->event.request)) {
        unhold(world, errand);
        refuse(world, errand, TARRY__CODE__BUSY);
        return;
    }
    let_time_pass(world);
    if (!has_facts(world, errand)) return;
    bool is_predicted = errand->event.kind == CORE_COMMIT || errand->event.kind == CORE_GET;
    errand->request->predictions[host->number].past = errand->event.past;
    if (is_predicted) ledger_predict(world, errand->request);
    if (errand->event.kind == CORE_STATS) {
        errand->event.broker = world_alloc(world, sizeof *errand->event.broker);
        tarry__broker_stats__init(errand->event.broker);
    }
    struct views *views = views_expect(world, errand->event.request);
    host_step(world, &errand->event);
    if (views) views_check(world, views, errand->event.request, reply_of(host, errand));
    unhold(world, errand);
}

/* A pair's leader that hands over looks, and decides nothing. */
static bool is_handed_over(struct world *world, struct errand *errand) {
    const struct node *node = world->host->node;
    if (!node || !node->core_paused) return false;
    if (node_admits(node, errand->event.request) == TARRY__CODE__OK) return false;
    unhold(world, errand);
    refuse(world, errand, TARRY__CODE__BUSY);
    return true;
}

/* In pieces, with what else comes in between; smaller ones than the shell's, or there would be one each. */
static void take_window(struct world *world, struct errand *errand) {
    struct core_event event = errand->event;
    uint32_t piece = world->options.core.work_max ? world->options.core.work_max : WINDOW_PIECE_MAX;
    event.more = event.row_count > piece;
    if (event.more) {
        event.row_count = piece;
        event.through = (struct due){event.rows[piece - 1].due_ms, event.rows[piece - 1].id};
        errand->event.rows += piece;
        errand->event.row_count -= piece;
    }
    host_step(world, &event);
    if (event.more) world_after_ns(world, PIECE_NS, handed_in, errand, 0);
}

static void take_errand(struct world *world, struct errand *errand) {
    if (world->host->closed) { /* too late (shell/loop.c) */
        unhold(world, errand);
        return;
    }
    if (errand->kind == ERRAND_PAGE && node_puts_off(world, handed_in, errand, 0)) return;
    if (errand->kind == ERRAND_CALL) {
        if (is_handed_over(world, errand)) return;
        take_call(world, errand);
    } else if (errand->kind == ERRAND_WINDOW) {
        take_window(world, errand);
    } else if (has_facts(world, errand)) {
        host_step(world, &errand->event);
        unhold(world, errand);
    }
}

void host_take_errand(struct world *world, struct errand *errand) {
    struct host *host = world->host;
    host_stamp(world, errand);
    host->taken = errand;
    take_errand(world, errand);
    host->taken = NULL;
}

static enum core_event_kind kind_of(const Tarry__Request *request) {
    switch (request->body_case) {
    case TARRY__REQUEST__BODY_HELLO:
        return CORE_HELLO;
    case TARRY__REQUEST__BODY_COMMIT:
        return CORE_COMMIT;
    case TARRY__REQUEST__BODY_GOODBYE:
        return CORE_GOODBYE;
    case TARRY__REQUEST__BODY_SUBSCRIBE:
        return CORE_SUBSCRIBE;
    case TARRY__REQUEST__BODY_HEARTBEAT:
        return CORE_HEARTBEAT;
    case TARRY__REQUEST__BODY_UNSUBSCRIBE:
        return CORE_UNSUBSCRIBE;
    case TARRY__REQUEST__BODY_GET:
        return CORE_GET;
    case TARRY__REQUEST__BODY_LIST:
        return CORE_LIST;
    case TARRY__REQUEST__BODY_QUEUES:
        return CORE_QUEUES;
    default:
        MUST(request->body_case == TARRY__REQUEST__BODY_STATS);
        return CORE_STATS;
    }
}

/* Its address, with a port of its own after every crash. */
static const char *peer_of(struct world *world, const struct client *client) {
    char *peer = world_alloc(world, PEER_SIZE_MAX + 1);
    snprintf(peer, PEER_SIZE_MAX + 1, "%s:%u", client->name, 1024 + (unsigned)(client->run % 60000));
    return peer;
}

static void receive(struct world *world, const struct unread *unread) {
    struct host *host = world->host;
    struct client *client = unread->client;
    struct request *request = unread->request;
    if (host->state != HOST_UP || host->closed) return;
    struct errand *errand = world_alloc(world, sizeof *errand);
    *errand = (struct errand){.kind = ERRAND_CALL,
                              .life = host->life,
                              .hold = -1,
                              .client = client,
                              .request = request,
                              .arrived_ns = unread->arrived_ns,
                              .known = world->truth.count};
    Tarry__Code code = host->node ? node_admits(host->node, request->body) : TARRY__CODE__OK;
    if (code != TARRY__CODE__OK) {
        refuse(world, errand, code);
        return;
    }
    errand->event = (struct core_event){.kind = kind_of(request->body),
                                        .ticket = (uint64_t)(uintptr_t)errand,
                                        .request = request->body,
                                        .peer = peer_of(world, client),
                                        .contents = request->contents};
    /* The session's secret is what lets it be resumed (shell/secret.c); here its number is. */
    if (errand->event.kind == CORE_SUBSCRIBE && request->body->subscribe->resume.len)
        memcpy(&errand->event.session, request->body->subscribe->resume.data, sizeof errand->event.session);
    host_take_errand(world, errand);
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
    if (unread->life != host->life) return; /* the process that it came to has ended */
    receive(world, unread);
    struct unread **at = &host->unread;
    while (*at && *at != unread) at = &(*at)->next;
    if (*at) *at = unread->next; /* it may have ended by that */
}

void host_answer(struct world *world, struct errand *errand, uint32_t node, Tarry__Reply *reply, const uint8_t *commit,
                 size_t commit_size) {
    struct answer answer = {.reply = reply, .packed_size = commit_size, .node = node};
    bool is_task = reply && reply->body_case == TARRY__REPLY__BODY_GET && reply->get->task;
    if (is_task) answer.content = world->host->origins[reply->get->task->id].content;
    if (commit) {
        answer.packed = world_copy(world, commit, commit_size);
        answer.commit = tarry__commit_reply__unpack(&world->memory.pb, commit_size, answer.packed);
        MUST(answer.commit);
    }
    network_answer(world, errand->client, errand->request, &answer);
}
