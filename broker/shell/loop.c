/* loop.c: see loop.h. */
#include "loop.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "logfmt.h"
#include "pusher.h"
#include "secret.h"
#include "shell.h"
#include "stats.h"

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

static struct turn_now look(struct loop *loop) {
    return (struct turn_now){.logical = look_at_clock(loop),
                             .boot_ns = boottime_ns(),
                             .full = courier_is_full(&loop->shell->courier)};
}

/* Whoever follows, or is looked at, pushes nothing. */
static void tell_push(struct loop *loop, bool begins) {
    const uint64_t version = core_push_version(loop->shell->core);
    const bool leads = !loop->turn.follows && !loop->turn.inspects;
    if (!begins && (!leads || version == loop->push_version)) return;
    loop->push_version = version;
    push_changed(loop->shell->push);
}

void loop_step(struct loop *loop, struct core_event *event) {
    struct turn_now now = look(loop);
    core_turn_step(&loop->turn, event, &now);
    run_errands(loop);
    tell_push(loop, event->kind == CORE_START);
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

static void fill_batch(struct loop *loop) {
    loop->batch = batch_take(&loop->shell->batches);
    loop->stamped = 0;
    core_turn_fill(&loop->turn, &loop->batch->effects);
}

static void flush(struct loop *loop) {
    struct shell *shell = loop->shell;
    pack_answers(loop);
    const bool decides = !loop->turn.follows;
    if (decides) loop->batch->end = core_position(shell->core);
    if (decides && shell->node.on) node_digest(&shell->node, loop->batch->end, core_digest(shell->core));
    sync_post(&shell->sync, loop->batch, !loop->is_lent);
    fill_batch(loop);
}

static void refuse(struct call *call, Tarry__Code code, const char *sentence) {
    call->answer(call, reply_pack_refusal(code, sentence));
}

static void end_errand(struct loop *loop, struct errand *errand) {
    errand_end(errand, loop->shell->core);
}

/* F-4. True: it was refused, for the disk has no room for it. */
static bool refuse_for_room(struct loop *loop, struct errand *errand) {
    struct shell *shell = loop->shell;
    const char *refusal = room_refusal(&shell->room, shell->log, core_position(shell->core), errand->room);
    if (refusal == NULL) return false;
    end_errand(loop, errand);
    refuse((struct call *)errand, TARRY__CODE__BUSY, refusal);
    return true;
}

/* True: the event lacks nothing and may be stepped. False: the errand is under way, or was refused. */
static bool has_all(struct loop *loop, struct errand *errand) {
    struct shell *shell = loop->shell;
    enum errand_need need;
    while ((need = errand_next(errand, shell->core, may_exist, loop->filter)) == ERRAND_ROOM) {
        if (refuse_for_room(loop, errand)) return false;
    }
    switch (need) {
    case ERRAND_PAST:
        locator_post(&shell->locator, errand);
        break;
    case ERRAND_READ:
        reader_post(&shell->reader, errand);
        break;
    case ERRAND_TIME:
        inbox_post(&shell->inbox, &errand->item);
        break;
    case ERRAND_HOLD:
        core_turn_starve(&loop->turn, &errand->item);
        break;
    case ERRAND_REFUSED:
        refuse((struct call *)errand, TARRY__CODE__BUSY, NULL);
        break;
    case ERRAND_NO_MEMORY:
        shell_fail("errand_failed", -ENOMEM);
    case ERRAND_NONE:
    case ERRAND_ROOM:
        break;
    }
    return need == ERRAND_NONE;
}

static void take_call(struct loop *loop, struct call *call) {
    struct errand *errand = &call->errand;
    if (!has_all(loop, errand)) return;
    if (errand->event.kind == CORE_STATS) {
        errand->event.broker = stats_broker(loop->shell, errand->arena, loop->clock_held);
        if (errand->event.broker == NULL) shell_fail("stats_failed", -ENOMEM);
        if (loop->shell->node.on) node_stats(&loop->shell->node, errand->event.broker, errand->arena);
    }
    loop_step(loop, &errand->event);
    end_errand(loop, errand);
}

static void free_page(struct page_load *load) {
    arena_deinit(&load->arena);
    free(load);
}

static void take_page(struct loop *loop, struct page_load *load) {
    if (!has_all(loop, &load->errand)) return;
    loop_step(loop, &load->errand.event);
    end_errand(loop, &load->errand);
    free_page(load);
}

static void free_window(struct window_load *load) {
    arena_deinit(&load->arena);
    free(load);
}

static void take_window(struct loop *loop, struct window_load *load) {
    struct core_event event;
    bool more = window_next(&load->rows, WINDOW_PIECE_MAX, &event);
    loop_step(loop, &event);
    if (more)
        inbox_post(&loop->shell->inbox, &load->item);
    else
        free_window(load);
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
    bool may = !loop->turn.closed && !shell->config.inspect && !loop->turn.follows &&
               room_refusal(&shell->room, shell->log, at, REFUSALS_RECORDS_SIZE_MAX) == NULL;
    if (may) event.refusal_count = authorizer_refusals(told, loop->batch->effects.arena, &event.refusals);
    if (may) loop_step(loop, &event);
    authorizer_told(told, may);
}

/* What comes too late. Nobody is told anything that is not so: a caller hears that the broker stops. */
static void drop_item(struct loop *loop, struct item *item) {
    struct call *call = (struct call *)item;
    struct page_load *page = (struct page_load *)item;
    switch (item->kind) {
    case ITEM_CALL:
        end_errand(loop, &call->errand);
        refuse(call, TARRY__CODE__STOPPING, NULL);
        break;
    case ITEM_LANE:
        free(item);
        break;
    case ITEM_WINDOW:
        free_window((struct window_load *)item);
        break;
    case ITEM_PAGE:
        end_errand(loop, &page->errand);
        free_page(page);
        break;
    case ITEM_REFUSALS:
        take_refusals(loop, (struct refusals_told *)item);
        break;
    }
}

static void take_item(struct loop *loop, struct item *item) {
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

static void refuse_call(struct loop *loop, struct call *call) {
    end_errand(loop, &call->errand);
    refuse(call, TARRY__CODE__BUSY, handing_over);
}

static void begin(struct loop *loop, struct core_event event) {
    core_turn_begin(&loop->turn, boottime_ns());
    loop_step(loop, &event);
    if (core_turn_has_effects(&loop->turn)) flush(loop);
}

static void begin_run(struct loop *loop, enum core_event_kind kind) {
    struct shell *shell = loop->shell;
    begin(loop, (struct core_event){.kind = kind,
                                    .epoch = atomic_load(&shell->epoch),
                                    .before = shell->before,
                                    .who = shell->started_by,
                                    .clock_accepted = shell->clock.state.accepted});
}

/* A pair: what is committed is applied until this node leads. */
static void apply(struct loop *loop, uint64_t to) {
    struct shell *shell = loop->shell;
    bool more = applier_step(&loop->applier, to);
    /* LOG-3: of what a leader begins with some may never be acknowledged. */
    uint64_t may_index = atomic_load(&shell->node.may_index), position = core_position(shell->core);
    indexer_durable(&shell->indexer, may_index < position ? may_index : position);
    core_turn_applied(&loop->turn, more);
}

static void lead(struct loop *loop) {
    applier_end(&loop->applier);
    begin_run(loop, CORE_START);
    node_began(&loop->shell->node);
}

static void renew_filter(struct loop *loop) {
    index_filter_drop((struct index_filter *)loop->filter);
    loop->filter = index_filter_hold(loop->shell->index);
}

static void execute(struct loop *loop, enum turn_effect effect) {
    struct core_turn *turn = &loop->turn;
    struct turn_now now;
    switch (effect) {
    case TURN_STEP:
        loop_step(loop, &turn->event);
        break;
    case TURN_RENEW_FILTER:
        renew_filter(loop);
        break;
    case TURN_APPLY:
        apply(loop, turn->load.follow_to);
        break;
    case TURN_LEAD:
        lead(loop);
        break;
    case TURN_TAKE:
        take_item(loop, turn->item);
        break;
    case TURN_REFUSE:
        refuse_call(loop, (struct call *)turn->item);
        break;
    case TURN_DROP:
        drop_item(loop, turn->item);
        break;
    case TURN_ALONE:
        node_record_alone(&loop->shell->node, loop);
        break;
    case TURN_LOOK:
        now = look(loop);
        core_turn_look(turn, &now);
        break;
    case TURN_FLUSH:
        flush(loop);
        break;
    case TURN_PAUSED:
        node_paused(&loop->shell->node, turn->position);
        break;
    case TURN_DONE:
        break;
    }
}

/* Everything that was taken. True: there is more to do at once. */
static bool run_turn(struct loop *loop, const struct turn_load *load) {
    enum turn_effect effect;
    core_turn_take(&loop->turn, load);
    while ((effect = core_turn_next(&loop->turn)) != TURN_DONE) execute(loop, effect);
    return loop->turn.more;
}

/* How long the core has nothing to do, unless something comes. */
static uint64_t idle_ns(struct loop *loop) {
    struct turn_now now = look(loop);
    return core_turn_idle_ns(&loop->turn, &now);
}

void loop_stand_in(struct loop *loop, const struct turn_load *load) {
    loop->is_lent = true;
    bool more = run_turn(loop, load);
    loop->is_lent = false;
    inbox_give_back(&loop->shell->inbox, more ? 0 : idle_ns(loop));
}

/* True: the run is over. */
static bool has_ended(struct loop *loop) {
    struct shell *shell = loop->shell;
    if (!loop->turn.stopping) return false;
    uint64_t now_ms = look_at_clock(loop).steady_ns / NS_PER_MS;
    enum turn_end end = core_turn_end(&loop->turn, now_ms, rpc_busy(&shell->rpc) > 0);
    if (end == TURN_CLOSES) begin(loop, (struct core_event){.kind = CORE_CLOSE, .who = shell->stopped_by});
    return end == TURN_IS_OVER;
}

static void *loop_run(void *argument) {
    struct loop *loop = argument;
    struct shell *shell = loop->shell;
    prctl(PR_SET_TIMERSLACK, 1); /* a late wake-up is lateness of every task */
    begin_run(loop, shell->config.inspect ? CORE_INSPECT : shell->node.on ? CORE_FOLLOW : CORE_START);
    struct turn_load load = {0};
    bool more = false;
    do {
        uint64_t wait_ns = more ? 0 : idle_ns(loop);
        uint64_t feed_ns = watchdog_feed(&loop->watchdog);
        if (wait_ns > feed_ns) wait_ns = feed_ns;
        inbox_take(&shell->inbox, wait_ns, core_turn_may_lend(&loop->turn), &load);
        more = run_turn(loop, &load);
    } while (!has_ended(loop));
    return NULL;
}

void loop_start(struct loop *loop, struct shell *shell) {
    *loop = (struct loop){.shell = shell};
    core_turn_init(&loop->turn, shell->core, core_position(shell->core), index_position(shell->index));
    loop->turn.is_pair = loop->turn.follows = shell->node.on;
    loop->turn.inspects = shell->config.inspect;
    if (shell->node.on) applier_init(&loop->applier, shell);
    loop->filter = index_filter_hold(shell->index);
    fill_batch(loop);
    watchdog_init(&loop->watchdog);
    thread_start(&loop->thread, "tarry-core", loop_run, loop);
}

void loop_join(struct loop *loop) {
    pthread_join(loop->thread, NULL);
}
