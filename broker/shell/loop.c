/* loop.c: see loop.h. */
#include "loop.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "logfmt.h"
#include "secret.h"
#include "shell.h"
#include "stats.h"

/* The clocks are looked at at least this often, so that a step of the wall clock or a suspend of the machine is noticed
 * though nothing else happens. */
#define CLOCK_LOOK_NS 1000000000ull
/* Whoever was received so long before is heard, but nothing is leased meanwhile: what waits may be an ack. */
#define BEHIND_NS 100000000ull
/* How long requests may still be answered after the stop was asked for. */
#define DRAIN_MAX_MS 3000

static const char handing_over[] = "this broker hands over to the other one of the pair: try again in a moment";

static bool may_exist(const void *filter, uint64_t key_hash) {
    return index_filter_may_contain(filter, key_hash);
}

static struct instant look_at_clock(struct loop *loop) {
    bool held;
    struct instant now = clock_now(&loop->shell->clock, &held);
    if (held != loop->clock_held) {
        loop->clock_held = held;
        logfmt(held ? "clock_held" : "clock_released", "wall_ms=%" PRIu64 " action=\"absolute times %s\"",
               now.wall_ns / NS_PER_MS, held ? "wait until the wall clock is put right" : "go on");
    }
    return now;
}

/* What must not wait for the disk: endpoints, and reading ahead. */
static void run_errands(struct loop *loop) {
    struct shell *shell = loop->shell;
    struct core_effects *effects = &loop->batch->effects;
    for (size_t i = 0; i < effects->lanes.count; i++) {
        const struct core_lane *lane = &effects->lanes.items[i];
        if (lane->open)
            lanes_open(&shell->lanes, lane);
        else
            lanes_close(&shell->lanes, lane->lane, lane->session);
    }
    for (; loop->stamped < effects->deliveries.count; loop->stamped++) { /* after the lanes of the same step */
        struct core_delivery *delivery = &effects->deliveries.items[loop->stamped];
        delivery->turn = lanes_turn(&shell->lanes, delivery->lane);
        courier_decided(&shell->courier, delivery);
    }
    for (size_t i = 0; i < effects->windows.count; i++) indexer_window(&shell->indexer, &effects->windows.items[i]);
    for (size_t i = 0; i < effects->lows.count; i++) indexer_low(&shell->indexer, &effects->lows.items[i]);
    for (size_t i = 0; i < effects->pages.count; i++) {
        struct page_load *load = calloc(1, sizeof(*load));
        if (load == NULL) shell_fail("page_failed", -ENOMEM);
        shell_arena_init(&load->arena);
        load->errand.arena = &load->arena;
        load->errand.item.kind = ITEM_PAGE;
        load->errand.hold = -1;
        load->errand.event = (struct core_event){.kind = CORE_PAGE, .job = effects->pages.items[i].job};
        load->page = effects->pages.items[i];
        reader_post(&shell->reader, &load->errand);
    }
    effects->lanes.count = effects->windows.count = effects->lows.count = effects->pages.count = 0;
}

/* Logical time at loop->at_ns: an event is judged by when it was received, not by when the disk let it be handled, or a
 * lease would be over before the ack that came in time is looked at. The core takes the later of two times (TIME-2). */
static struct instant event_time(struct loop *loop, uint64_t *out_age_ns) {
    struct instant now = look_at_clock(loop);
    uint64_t real_ns = boottime_ns();
    uint64_t age_ns = real_ns > loop->at_ns ? real_ns - loop->at_ns : 0;
    *out_age_ns = age_ns;
    return stall_judge(now, age_ns);
}

static void judge_at(struct loop *loop, uint64_t at_ns, uint64_t late_ns) {
    loop->at_ns = at_ns;
    loop->late_ns = late_ns;
}

void loop_step(struct loop *loop, struct core_event *event) {
    uint64_t age_ns;
    event->now = event_time(loop, &age_ns);
    event->late_ns = loop->late_ns;
    bool is_tick = event->kind == CORE_TICK;
    event->behind = age_ns > BEHIND_NS && !(is_tick && loop->was_behind); /* every other tick delivers, however late */
    if (is_tick) loop->was_behind = event->behind;
    event->full = loop->was_full = courier_is_full(&loop->shell->courier);
    core_step(loop->shell->core, event, &loop->batch->effects);
    loop->batch->event_count++;
    run_errands(loop);
}

/* What the shell knows and the core does not: whose data these are, and how large a payload may be. */
static struct message *pack_greeted(const struct shell *shell, const Tarry__Reply *reply) {
    Tarry__Reply copy = *reply;
    Tarry__HelloReply hello = *reply->hello;
    hello.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, (uint8_t *)shell->dir.cluster};
    hello.payload_max = (uint32_t)shell->config.payload_max;
    copy.hello = &hello;
    return reply_pack(&copy);
}

/* The session's secret is the shell's to make. */
static struct message *pack_subscribed(struct loop *loop, const Tarry__Reply *reply) {
    uint8_t secret[SESSION_SECRET_SIZE];
    char principal[PRINCIPAL_SIZE_MAX + 1];
    Tarry__Reply copy = *reply;
    Tarry__SubscribeReply subscribe = *reply->subscribe;
    if (!lanes_principal(&loop->shell->lanes, subscribe.lane, subscribe.session, principal)) principal[0] = '\0';
    secret_make(loop->shell->dir.secret, subscribe.session, principal, secret);
    subscribe.secret = (ProtobufCBinaryData){.data = secret, .len = sizeof(secret)};
    copy.subscribe = &subscribe;
    return reply_pack(&copy);
}

/* The courier reads what it lacks, which may take as long as a disk hangs. */
static void foretell_size(const struct core_reply *reply) {
    struct call *call = call_of(reply->ticket);
    if (reply->content == NULL || call->sized == NULL) return;
    call->sized(call, tarry__reply__get_packed_size(reply->reply) + reply->content->blob_size);
}

/* Packs the replies that need nothing read; the others are the courier's. */
static void pack_answers(struct loop *loop) {
    struct batch *batch = loop->batch;
    const struct core_effects *effects = &batch->effects;
    batch->courier = effects->deliveries.count > 0;
    batch->answers = arena_alloc(&batch->arena, (effects->replies.count + 1) * sizeof(*batch->answers));
    if (batch->answers == NULL) shell_fail("replies_failed", -ENOMEM);
    for (size_t i = 0; i < effects->replies.count; i++) {
        const struct core_reply *reply = &effects->replies.items[i];
        if (reply->ticket == 0) continue;
        assert(reply->after <= core_position(loop->shell->core)); /* LOG-1: covered by this batch's sync */
        struct message *message;
        if (reply->repeat_position != 0 || reply->content != NULL) {
            batch->courier = true;
            foretell_size(reply);
            continue;
        }
        if (reply->commit != NULL)
            message = reply_pack_commit(reply->commit, reply->commit_size, reply->after);
        else if (reply->reply->body_case == TARRY__REPLY__BODY_SUBSCRIBE)
            message = pack_subscribed(loop, reply->reply);
        else if (reply->reply->body_case == TARRY__REPLY__BODY_HELLO)
            message = pack_greeted(loop->shell, reply->reply);
        else if (reply->reply->follower)
            message = node_pack(&loop->shell->node, reply->reply);
        else
            message = reply_pack(reply->reply);
        batch->answers[batch->answer_count++] = (struct answer){call_of(reply->ticket), message};
    }
}

static void flush(struct loop *loop) {
    struct shell *shell = loop->shell;
    const struct core_effects *effects = &loop->batch->effects;
    if (effects->appends.count == 0 && effects->replies.count == 0 && effects->deliveries.count == 0) return;
    pack_answers(loop);
    const bool decides = !applier_is_on(&loop->applier);
    if (decides) loop->batch->end = core_position(shell->core);
    if (decides && shell->node.on) node_digest(&shell->node, loop->batch->end, core_digest(shell->core));
    sync_post(&shell->sync, loop->batch, !loop->is_lent);
    loop->batch = batch_take(&shell->batches);
    loop->stamped = 0;
}

/* What is redacted may have ended long ago: where it lies is looked for first. */
static void post_to_locator(struct loop *loop, struct errand *errand) {
    const Tarry__Commit *commit = errand->event.request->commit;
    errand->queue_numbers = arena_alloc(errand->arena, commit->n_ops * sizeof(*errand->queue_numbers));
    if (errand->queue_numbers == NULL) shell_fail("past_failed", -ENOMEM);
    for (size_t i = 0; i < commit->n_ops; i++) {
        const Tarry__Op *op = commit->ops[i];
        bool has_queue = op->op_case == TARRY__OP__OP_REDACT && op->redact->task != NULL;
        errand->queue_numbers[i] = has_queue ? core_queue_number(loop->shell->core, op->redact->task->queue) : 0;
    }
    errand->past_end = core_position(loop->shell->core);
    errand->past_id_end = core_id_end(loop->shell->core);
    locator_post(&loop->shell->locator, errand);
}

/* A long question is looked into in pieces, with what else waits in between. */
static bool has_looked(struct loop *loop, struct errand *errand) {
    if (core_look(loop->shell->core, &errand->event)) return true;
    inbox_post(&loop->shell->inbox, &errand->item);
    return false;
}

/* True: the event lacks nothing and may be stepped. False: the errand is under way to the reader, or was refused. */
static bool has_facts(struct loop *loop, struct errand *errand) {
    struct core *core = loop->shell->core;
    if (errand->redacts && errand->event.past == NULL) {
        post_to_locator(loop, errand);
        return false;
    }
    bool is_list = errand->event.kind == CORE_LIST;
    if (is_list && !errand->filled) {
        core_plan_list(core, errand->event.request->list, &errand->plan);
        if (errand->plan.queue == 0) return true;
    } else {
        errand->want_count =
            is_list ? 0 : core_wants(core, &errand->event, errand->arena, may_exist, loop->filter, &errand->wants);
        if (errand->want_count == 0) return has_looked(loop, errand);
    }
    if (errand->hold < 0) errand->hold = core_hold(core);
    if (errand->hold >= 0) {
        reader_post(&loop->shell->reader, errand);
    } else if (errand->item.kind == ITEM_PAGE) {
        errand->item.next = loop->starved;
        loop->starved = &errand->item;
    } else {
        struct call *call = (struct call *)errand;
        call->answer(call, reply_pack_refusal(TARRY__CODE__BUSY, NULL));
    }
    return false;
}

static void unhold(struct loop *loop, struct errand *errand) {
    core_look_end(loop->shell->core, &errand->event);
    if (errand->hold >= 0) core_unhold(loop->shell->core, errand->hold);
    errand->hold = -1;
}

/* F-4: new tasks are what is refused first: NULL, or why. */
static const char *room_lacks(struct loop *loop, const struct errand *errand) {
    if (!errand->schedules) return NULL;
    uint64_t log_size = disk_commit_size(errand->size, errand->event.request->commit->n_ops);
    return room_refusal(&loop->shell->room, loop->shell->log, core_position(loop->shell->core), log_size);
}

static void take_call(struct loop *loop, struct call *call) {
    struct errand *errand = &call->errand;
    const char *refusal = room_lacks(loop, errand);
    if (refusal != NULL) {
        unhold(loop, errand);
        call->answer(call, reply_pack_refusal(TARRY__CODE__BUSY, refusal));
        return;
    }
    if (!has_facts(loop, errand)) return;
    if (errand->event.kind == CORE_STATS) {
        errand->event.broker = stats_broker(loop->shell, errand->arena, loop->clock_held);
        if (errand->event.broker == NULL) shell_fail("stats_failed", -ENOMEM);
        if (loop->shell->node.on) node_stats(&loop->shell->node, errand->event.broker, errand->arena);
    }
    loop_step(loop, &errand->event);
    unhold(loop, errand);
}

/* A page is read under a hold too: what is not in the index any more must still be in memory. */
static void take_page(struct loop *loop, struct page_load *load) {
    struct errand *errand = &load->errand;
    if (!has_facts(loop, errand)) return;
    loop_step(loop, &errand->event);
    unhold(loop, errand);
    arena_deinit(&load->arena);
    free(load);
}

/* In pieces, with what else waits in between. */
static void take_window(struct loop *loop, struct window_load *load) {
    size_t left = load->row_count - load->taken;
    bool more = left > WINDOW_PIECE_MAX;
    struct core_event event = {
        .kind = CORE_WINDOW,
        .rows = load->rows + load->taken,
        .row_count = more ? WINDOW_PIECE_MAX : left,
        .through = load->through,
        .line = load->window.line,
        .more = more,
    };
    if (more) {
        const struct row *last = &event.rows[event.row_count - 1];
        event.through = (struct due){last->due_ms, last->id};
    }
    load->taken += event.row_count;
    loop_step(loop, &event);
    if (more) {
        inbox_post(&loop->shell->inbox, &load->item);
        return;
    }
    arena_deinit(&load->arena);
    free(load);
}

static void take_news(struct loop *loop, struct lane_news *news) {
    static const enum core_event_kind kinds[] = {CORE_LANE_UP, CORE_LANE_GONE, CORE_LANE_SENT, CORE_CREDIT};
    struct core_event event = {.kind = kinds[news->event],
                               .session = news->session,
                               .ok = news->ok,
                               .credit = news->credit,
                               .delivered_ns = news->delivered_ns};
    loop_step(loop, &event);
    free(news);
}

/* For the audit, if this node may write, and a full disk has room (F-4). Otherwise it is offered again. */
static void take_refusals(struct loop *loop, struct refusals_told *told) {
    struct shell *shell = loop->shell;
    struct core_event event = {.kind = CORE_REFUSED};
    uint64_t at = core_position(shell->core);
    bool may = !loop->closed && !shell->config.inspect && !applier_is_on(&loop->applier) &&
               room_refusal(&shell->room, shell->log, at, REFUSALS_RECORDS_SIZE_MAX) == NULL;
    if (may) event.refusal_count = authorizer_refusals(told, loop->batch->effects.arena, &event.refusals);
    if (may) loop_step(loop, &event);
    authorizer_told(told, may);
}

/* What comes too late. Nobody is told anything that is not so: a caller hears that the broker stops. */
static void drop_item(struct loop *loop, struct item *item) {
    struct call *call = (struct call *)item;
    struct page_load *page = (struct page_load *)item;
    struct window_load *window = (struct window_load *)item;
    switch (item->kind) {
    case ITEM_CALL:
        unhold(loop, &call->errand);
        call->answer(call, reply_pack_refusal(TARRY__CODE__STOPPING, NULL));
        break;
    case ITEM_LANE:
        free(item);
        break;
    case ITEM_WINDOW:
        arena_deinit(&window->arena);
        free(window);
        break;
    case ITEM_PAGE:
        unhold(loop, &page->errand);
        arena_deinit(&page->arena);
        free(page);
        break;
    case ITEM_REFUSALS:
        take_refusals(loop, (struct refusals_told *)item);
        break;
    }
}

/* A pair's leader that hands over looks, and decides nothing. */
static bool put_off(struct loop *loop, struct item *item) {
    if (!loop->paused || item->kind == ITEM_WINDOW) return false;
    if (item->kind == ITEM_CALL) {
        struct call *call = (struct call *)item;
        enum core_event_kind kind = call->errand.event.kind;
        if (kind == CORE_GET || kind == CORE_LIST || kind == CORE_QUEUES || kind == CORE_STATS) return false;
        unhold(loop, &call->errand);
        call->answer(call, reply_pack_refusal(TARRY__CODE__BUSY, handing_over));
        return true;
    }
    item->next = NULL;
    *loop->put_off_last = item;
    loop->put_off_last = &item->next;
    return true;
}

static void take_item(struct loop *loop, struct item *item) {
    if (loop->closed) {
        drop_item(loop, item);
        return;
    }
    if (put_off(loop, item)) return;
    switch (item->kind) {
    case ITEM_CALL:
        take_call(loop, (struct call *)item);
        break;
    case ITEM_LANE:
        take_news(loop, (struct lane_news *)item);
        break;
    case ITEM_WINDOW:
        take_window(loop, (struct window_load *)item);
        break;
    case ITEM_PAGE:
        take_page(loop, (struct page_load *)item);
        break;
    case ITEM_REFUSALS:
        take_refusals(loop, (struct refusals_told *)item);
        break;
    }
}

static void take_positions(struct loop *loop, const struct inbox_load *load) {
    if (load->durable > loop->durable) {
        loop->durable = load->durable;
        struct core_event event = {.kind = CORE_DURABLE, .position = load->durable};
        loop_step(loop, &event);
    }
    enum index_news_effect effect;
    while ((effect = index_news_next(&loop->index_news, load->indexed)) != INDEX_NEWS_NONE) {
        if (effect == INDEX_NEWS_RENEW_FILTER) {
            index_filter_drop((struct index_filter *)loop->filter);
            loop->filter = index_filter_hold(loop->shell->index);
        } else {
            struct core_event event = {.kind = CORE_INDEXED, .position = load->indexed};
            loop_step(loop, &event);
        }
    }
}

static bool is_due(struct loop *loop, uint64_t *out_wait_ns) {
    uint64_t deadline_ms = core_deadline(loop->shell->core);
    struct instant now = look_at_clock(loop);
    *out_wait_ns = CLOCK_LOOK_NS;
    if (deadline_ms >= UINT64_MAX / NS_PER_MS) return false;
    uint64_t deadline_ns = deadline_ms * NS_PER_MS;
    if (deadline_ns <= now.steady_ns) return true;
    if (deadline_ns - now.steady_ns < *out_wait_ns) *out_wait_ns = deadline_ns - now.steady_ns;
    return false;
}

/* What is due by loop->at_ns, for all that was received before has been handled. */
static void tick_if_due(struct loop *loop) {
    uint64_t age_ns;
    uint64_t deadline_ms = core_deadline(loop->shell->core);
    bool is_free = loop->was_full && !courier_is_full(&loop->shell->courier);
    if (!is_free && deadline_ms > event_time(loop, &age_ns).steady_ns / NS_PER_MS) return;
    struct core_event event = {.kind = CORE_TICK};
    loop_step(loop, &event);
}

/* Everything that was posted, in order, each at the time when it was received; the core runs timers in between. */
static void take_items(struct loop *loop, struct item *item) {
    while (item != NULL) {
        struct item *next = item->next;
        judge_at(loop, item->received_ns, item->late_ns);
        take_item(loop, item);
        if (loop->batch->event_count >= BATCH_EVENTS_MAX || loop->batch->arena.used >= BATCH_BYTES_MAX) flush(loop);
        item = next;
    }
}

static void take_starved(struct loop *loop) {
    struct item *item = loop->starved;
    loop->starved = NULL;
    take_items(loop, item);
}

/* A pair: the leader is to hand over, or not after all. */
static void pause_or_resume(struct loop *loop, bool pause) {
    if (pause == loop->paused || loop->stopping) return;
    loop->paused = pause;
    loop->pause_told = false;
    struct core_event event = {.kind = pause ? CORE_STOP : CORE_RESUME};
    loop_step(loop, &event);
    if (pause) return;
    struct item *items = loop->put_off;
    loop->put_off = NULL;
    loop->put_off_last = &loop->put_off;
    take_items(loop, items);
}

/* Once everything is committed, the seal included. */
static void tell_pause(struct loop *loop) {
    uint64_t position = core_position(loop->shell->core);
    if (!loop->paused || loop->pause_told || loop->durable < position) return;
    loop->pause_told = true;
    node_paused(&loop->shell->node, position);
}

static void stop(struct loop *loop) {
    if (loop->stopping) return;
    loop->stopping = true;
    struct core_event event = {.kind = CORE_STOP};
    loop_step(loop, &event);
}

/* Nothing is under way any more, or it takes too long: the last record. */
static void close_log(struct loop *loop) {
    loop->closed = true;
    judge_at(loop, boottime_ns(), 0);
    struct core_event event = {.kind = CORE_CLOSE, .who = loop->shell->stopped_by};
    loop_step(loop, &event);
    flush(loop);
}

/* True: all that was promised is durable, and the log says that it ends here. */
static bool is_over(struct loop *loop, uint64_t stopping_ms) {
    bool settled = loop->durable == core_position(loop->shell->core);
    bool quiet = settled && rpc_busy(&loop->shell->rpc) == 0;
    if (loop->closed) return settled || stopping_ms > 2 * DRAIN_MAX_MS;
    if (!quiet && stopping_ms <= DRAIN_MAX_MS) return false;
    if (loop->shell->config.inspect || applier_is_on(&loop->applier)) return true;
    close_log(loop);
    return false;
}

static void begin(struct loop *loop, enum core_event_kind kind) {
    struct shell *shell = loop->shell;
    struct core_event start = {.kind = kind,
                               .epoch = atomic_load(&shell->epoch),
                               .before = shell->before,
                               .who = shell->started_by,
                               .clock_accepted = shell->clock.state.accepted};
    judge_at(loop, boottime_ns(), 0);
    loop_step(loop, &start);
    flush(loop);
}

/* A pair: what is committed is applied until this node leads. True: there is more to do at once. */
static bool follow(struct loop *loop, const struct inbox_load *load) {
    if (!applier_is_on(&loop->applier) || loop->stopping) return false;
    struct core *core = loop->shell->core;
    uint64_t before = core_position(core);
    bool more = applier_step(&loop->applier, load->follow_to);
    if (core_position(core) > before) {
        loop->durable = core_position(core);
        struct core_event event = {.kind = CORE_DURABLE, .position = loop->durable};
        loop_step(loop, &event);
    }
    /* LOG-3: of what a leader begins with some may never be acknowledged. */
    uint64_t may_index = atomic_load(&loop->shell->node.may_index);
    indexer_durable(&loop->shell->indexer, may_index < loop->durable ? may_index : loop->durable);
    if (!load->lead || core_position(core) < load->follow_to) return more;
    applier_end(&loop->applier);
    begin(loop, CORE_START);
    node_began(&loop->shell->node);
    return true;
}

/* How long the core has nothing to do, unless something comes. */
static uint64_t idle_ns(struct loop *loop, const struct inbox_load *load) {
    uint64_t wait_ns;
    if (is_due(loop, &wait_ns)) wait_ns = 0;
    if (load->settle_ns > 0 && load->settle_ns <= SETTLE_NS) wait_ns = load->settle_ns; /* nothing is due before */
    bool behind = loop->durable < core_position(loop->shell->core);
    return behind && wait_ns > INBOX_DURABLE_NS ? INBOX_DURABLE_NS : wait_ns;
}

/* Everything that was taken. True: there is more to do at once. */
static bool turn(struct loop *loop, const struct inbox_load *load) {
    judge_at(loop, load->first != NULL ? load->first->received_ns : load->taken_ns, 0);
    take_positions(loop, load);
    bool more = follow(loop, load);
    take_items(loop, load->first);
    judge_at(loop, load->taken_ns, load->late_ns);
    take_starved(loop);
    judge_at(loop, load->taken_ns, load->late_ns);
    pause_or_resume(loop, load->pause);
    if (loop->shell->node.on) node_record_alone(&loop->shell->node, loop);
    judge_at(loop, load->taken_ns, load->late_ns);
    if (load->stop) stop(loop);
    tick_if_due(loop);
    flush(loop);
    tell_pause(loop);
    return more;
}

void loop_stand_in(struct loop *loop, const struct inbox_load *load) {
    loop->is_lent = true;
    bool more = turn(loop, load);
    loop->is_lent = false;
    inbox_give_back(&loop->shell->inbox, more ? 0 : idle_ns(loop, load));
}

/* What a thread that stands in is not to be bothered with. */
static bool may_lend(const struct loop *loop) {
    return !loop->stopping && !loop->paused && loop->starved == NULL && !loop->shell->node.on;
}

static void *loop_run(void *argument) {
    struct loop *loop = argument;
    struct shell *shell = loop->shell;
    prctl(PR_SET_TIMERSLACK, 1); /* a late wake-up is lateness of every task */
    begin(loop, shell->config.inspect ? CORE_INSPECT : shell->node.on ? CORE_FOLLOW : CORE_START);
    struct inbox_load load = {0};
    bool more = false;
    uint64_t stop_ms = 0;
    for (;;) {
        uint64_t wait_ns = more ? 0 : idle_ns(loop, &load);
        uint64_t feed_ns = watchdog_feed(&loop->watchdog);
        if (wait_ns > feed_ns) wait_ns = feed_ns;
        inbox_take(&shell->inbox, wait_ns, may_lend(loop), &load);
        more = turn(loop, &load);
        if (!loop->stopping) continue;
        uint64_t now_ms = look_at_clock(loop).steady_ns / NS_PER_MS;
        if (stop_ms == 0) stop_ms = now_ms;
        if (is_over(loop, now_ms - stop_ms)) break;
    }
    return NULL;
}

void loop_start(struct loop *loop, struct shell *shell) {
    *loop = (struct loop){.shell = shell,
                          .durable = core_position(shell->core),
                          .index_news.told = index_position(shell->index)};
    loop->put_off_last = &loop->put_off;
    if (shell->node.on) applier_init(&loop->applier, shell);
    loop->filter = index_filter_hold(shell->index);
    loop->batch = batch_take(&shell->batches);
    watchdog_init(&loop->watchdog);
    thread_start(&loop->thread, "tarry-core", loop_run, loop);
}

void loop_join(struct loop *loop) {
    pthread_join(loop->thread, NULL);
}
