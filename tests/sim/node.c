/* node.c: see node.h. Carries out the effects of the pair's rules, silence, and the life of a node
 * (shell/pair/node.c). */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "client.h"
#include "hard_state_rules.h"
#include "model_disk.h"
#include "registrar.h"
#include "requests.h"
#include "world.h"

#define AGAIN_AFTER_NS (5 * NS_PER_MS) /* delay of an exec until the next run begins */

static const char pair_directory[] = "/data";

/* ---- state that survives the process */

static void make_id(struct world *world, uint8_t out[16]) {
    for (size_t i = 0; i < 16; i += 8) {
        uint64_t part = random_u64(&world->random);
        memcpy(out + i, &part, sizeof part);
    }
}

static struct model_disk *pair_disk_new(struct world *world) {
    struct model_disk *pair_disk = model_new(random_u64(&world->random));
    pair_disk->directory_exists = true;
    return pair_disk;
}

void node_make(struct world *world, bool joins) {
    struct node *node = world_alloc(world, sizeof *node);
    node->pair_disk = pair_disk_new(world);
    make_id(world, node->member);
    memset(node->cluster, 7, sizeof node->cluster);
    node->joins = joins;
    world->host->node = node;
}

void node_wipe(struct world *world) {
    struct host *host = world->host;
    MUST(host->state != HOST_UP);
    TRACE(world, "operator", "gives node %u a new, empty disk", host->number);
    uint64_t life = host->life;
    uint32_t starts = host->starts;
    struct instant stood = {host->stood_before_ns, host->stood_wall_ns};
    model_free(host->node->pair_disk);
    model_free(host->disk);
    host->node->pair_disk = pair_disk_new(world);
    make_id(world, host->node->member);
    host->node->joins = true;
    host->disk = model_new(random_u64(&world->random));
    host_room_begin(world);
    table_begin(&host->table);
    flat_init(&host->head);
    host->frame_count = 0;
    host->promised = LOG_POSITION_FIRST;
    host->noted_boot = 0;
    host->life = life + 1;
    host->starts = starts;
    host->stood_before_ns = stood.steady_ns;
    host->stood_wall_ns = stood.wall_ns;
}

void node_unmake(struct world *world) {
    if (world->host->node) model_free(world->host->node->pair_disk);
    world->host->node = NULL;
}

static void go_on(struct world *world) {
    struct node *node = world->host->node;
    if (node->ended || node->blocked) return;
    if (node->pair.handing != PAIR_KEEPING || node_disk_hangs(world)) node->handed_ns = world->now_ns;
    if (node->pair.role == PAIR_LEADING) lead_go_on(world);
    node_declare(world);
    if (alone_look(&node->alone, &node->pair, world->now_ns)) {
        TRACE(world, "broker", node->alone.is ? "serves alone" : "serves alone no more");
        host_turn(world);
    }
    node_wake(world);
}

static void item_arrives(struct world *world, void *argument, uint64_t number) {
    struct node_item *item = argument;
    struct node *node = world->host->node;
    if (item->life != world->host->life || world->host->state != HOST_UP || node->ended) return;
    if (node->blocked) {
        item->next = NULL;
        *node->items_last = item;
        node->items_last = &item->next;
        return;
    }
    node_check_sleep(world);
    item->run(world, item->argument);
    if (item->life == world->host->life && world->host->state == HOST_UP) go_on(world);
}

void node_post(struct world *world, void (*run)(struct world *world, void *argument), void *argument) {
    struct node_item *item = world_alloc(world, sizeof *item);
    *item = (struct node_item){.run = run, .argument = argument, .life = world->host->life};
    world_after(world, &world->options.wake, item_arrives, item, 0);
}

void node_unblock(struct world *world) {
    struct node *node = world->host->node;
    node->blocked = false;
    uint64_t life = world->host->life;
    node_check_sleep(world);
    while (!node->blocked && node->items) {
        struct node_item *item = node->items;
        node->items = item->next;
        if (!node->items) node->items_last = &node->items;
        item_arrives(world, item, 0);
        if (world->host->life != life) return;
    }
    go_on(world);
}

/* ---- effects */

static void start_again(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    host_kill(world, HOST_KILLED);
    (void)host_start(world, false);
}

void node_run_again(struct world *world) {
    struct node *node = world->host->node;
    node->leads = false;
    node->ended = true;
    world_after_ns(world, AGAIN_AFTER_NS, start_again, NULL, world->host->life);
}

/* Ends this run of the node. A former leader's process starts again (exec). Any other node refuses to work until an
 * operator intervenes. */
static void end_run(struct world *world, enum pair_role before, const char *reason) {
    struct node *node = world->host->node;
    bool led = before == PAIR_LEADING || before == PAIR_YIELDING;
    if (!led) {
        node_refuse(world, reason);
        return;
    }
    TRACE(world, "broker", "is deposed: %s", reason);
    node->deposed++;
    node_run_again(world);
}

static void refused(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    host_kill(world, HOST_KILLED);
    host->state = HOST_REFUSED;
    host->refusals++;
}

void node_refuse(struct world *world, const char *sentence) {
    struct host *host = world->host;
    TRACE(world, "broker", "refuses: %s", sentence);
    snprintf(host->message, sizeof host->message, "%s", sentence);
    MUST(host->node->may_refuse);
    host->node->ended = true;
    host->node->leads = false;
    world_after_ns(world, 0, refused, NULL, host->life);
}

void node_hard_state_write(struct world *world) {
    struct node *node = world->host->node;
    int error = hard_state_write(&node->pair_disk->disk, pair_directory, &node->hard_state);
    if (error) host_fail(world, "cannot write the hard state", error);
}

static void write_hard_state(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    hard_state_take(&node->hard_state, &node->pair, node->following.leader, node->leading.requester);
    node_hard_state_write(world);
    if (host->state != HOST_UP) return;
    struct pair_event event = {.kind = PAIR_STATE_WRITTEN, .end = log_durable(host->log)};
    node_step(world, &event, NULL);
}

static void cut(struct world *world, uint64_t end) {
    struct host *host = world->host;
    uint64_t life = host->life;
    follow_cut(world, end);
    if (host->life != life || host->node->ended) return;
    struct pair_event event = {.kind = PAIR_DURABLE, .end = log_durable(host->log)};
    node_step(world, &event, NULL);
}

static void tell_member(const struct node *node, struct record_member *out) {
    out->is_known = true;
    memcpy(out->id, node->member, MEMBER_ID_SIZE);
    snprintf(out->url, sizeof out->url, "sim://%u", node->pair.self);
}

static void swap(struct world *world, const struct pair_effect *effect) {
    struct node *node = world->host->node;
    struct record_member members[RECORD_NODES];
    memcpy(members, node->record_client.record.members, sizeof members);
    tell_member(node, &members[node->pair.self]);
    if (node->pair.role == PAIR_LEADING && hard_state_has_peer(&node->hard_state)) {
        struct record_member *other = &members[node->pair.other];
        other->is_known = true;
        memcpy(other->id, node->hard_state.peer, MEMBER_ID_SIZE);
        snprintf(other->url, sizeof other->url, "sim://%u", node->pair.other);
    }
    record_client_swap(&node->record_client, effect->version, &effect->record, members);
}

static void perform(struct world *world, enum pair_role before, const struct pair_effect *effect,
                    struct pair_message *out_answer) {
    struct node *node = world->host->node;
    switch (effect->kind) {
    case PAIR_WRITE_STATE:
        write_hard_state(world);
        break;
    case PAIR_READ:
        if (record_reads_ask(&node->reads, effect->presence, world->now_ns)) node_read_record(world);
        break;
    case PAIR_SWAP:
        swap(world, effect);
        break;
    case PAIR_ASK:
        follow_ask(world, &effect->message);
        break;
    case PAIR_ANSWER:
        if (out_answer) *out_answer = effect->message;
        break;
    case PAIR_LEAD:
        lead_begin(world);
        break;
    case PAIR_CUT:
        cut(world, effect->end);
        break;
    case PAIR_FETCH:
        follow_fetch(world, effect->end);
        break;
    case PAIR_END:
        end_run(world, before, effect->reason);
        break;
    case PAIR_STOP_WRITES:
        node->paused = true;
        lead_pause_core(world);
        break;
    case PAIR_TAKE_WRITES:
        node->paused = false;
        lead_pause_core(world);
        break;
    case PAIR_SAY:
        if (effect->reason != node->said && effect->epoch != 0)
            TRACE(world, "broker", "says: the other node leads epoch %u: %s", effect->epoch, effect->reason);
        else if (effect->reason != node->said)
            TRACE(world, "broker", "says: %s", effect->reason);
        node->said = effect->reason;
        break;
    }
}

static const char *role_name(enum pair_role role) {
    static const char *const names[] = {
        [PAIR_LOOKING] = "looks", [PAIR_FOLLOWING] = "follows", [PAIR_FENCING] = "fences", [PAIR_CANDIDATE] = "claims",
        [PAIR_LEADING] = "leads", [PAIR_ENDED] = "has ended",   [PAIR_YIELDING] = "yields"};
    return names[role];
}

void node_step(struct world *world, const struct pair_event *event, struct pair_message *out_answer) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct pair_effects effects = {0};
    enum pair_role before = node->pair.role;
    uint64_t life = host->life;
    pair_step(&node->pair, event, &effects);
    if (before == PAIR_FOLLOWING && node->pair.role == PAIR_FENCING) node_check_claim(world);
    if (node->pair.role != before) TRACE(world, "broker", "%s, epoch %u", role_name(node->pair.role), node->pair.epoch);
    for (size_t i = 0; i < effects.count; i++) {
        perform(world, before, &effects.items[i], out_answer);
        if (host->life != life || node->ended) return;
    }
}

bool node_is_leading(const struct host *host) {
    return host->state == HOST_UP && host->node->leads && host->node->pair.role == PAIR_LEADING;
}

/* ---- timers */

static void check_timers(struct world *world) {
    struct node *node = world->host->node;
    uint64_t life = world->host->life;
    if (record_reads_due(&node->reads, world->now_ns)) node_read_record(world);
    node_check_silence(world);
    if (world->host->life != life || node->ended) return;
    if (node->pair.role == PAIR_FOLLOWING) follow_check(world);
}

static void alarm_comes(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    struct node *node = host->node;
    if (node->alarm_ns > world->now_ns) return;
    node->alarm_ns = UINT64_MAX;
    if (node->ended || node->blocked)
        return; /* an alarm that comes while the node is blocked has no effect; node_unblock checks again */
    node_check_sleep(world);
    check_timers(world);
    if (host->life == life && host->state == HOST_UP) go_on(world);
}

void node_wake(struct world *world) {
    struct node *node = world->host->node;
    uint64_t next_ns = node_silence_timer(world);
    if (node->reads.again_ns < next_ns) next_ns = node->reads.again_ns;
    uint64_t other_ns = UINT64_MAX;
    if (node->pair.role == PAIR_LEADING) other_ns = leader_half_timer(&node->leading.half);
    if (node->pair.role == PAIR_FOLLOWING) other_ns = node->following.half.again_ns;
    if (other_ns < next_ns) next_ns = other_ns;
    uint64_t declare_ns = world->now_ns + node->record_client.presence_ms * NS_PER_MS / 2;
    bool is_declaring = leader_half_declares(&node->leading.half, &node->pair);
    if (is_declaring && declare_ns < next_ns) next_ns = declare_ns;
    next_ns = silence_plan(&node->silence, world->now_ns, next_ns);
    if (node->alarm_ns <= next_ns) return;
    node->alarm_ns = next_ns;
    world_after_ns(world, next_ns - world->now_ns, alarm_comes, NULL, world->host->life);
}

/* ---- the pair's record */

static void take_kept(struct world *world, void *argument) {
    struct node *node = world->host->node;
    struct pair_event event = {0};
    char message[COORDINATOR_MESSAGE_SIZE];
    if (record_client_take(&node->record_client, node->pair.hard_state.recorded, &event, message)) {
        node_refuse(world, message);
        return;
    }
    if (record_reads_is_copied(&node->pair, &event)) {
        node_refuse(world, "a copy of this data directory leads");
        return;
    }
    node_take_presence(world, &event);
    (void)record_reads_took(&node->reads, &node->pair, &event);
    node_step(world, &event, NULL);
}

static void take_changed(struct world *world, void *argument) {
    struct pair_event event = {.kind = PAIR_CHANGED};
    node_step(world, &event, NULL);
}

/* Handles the registrar's result. The registrar calls this in the node's context. */
static void on_kept(void *argument) {
    node_post(argument, take_kept, NULL);
}

static void on_changed(void *argument) {
    node_post(argument, take_changed, NULL);
}

/* ---- life */

static void begin_hard_state(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct log_point last;
    MUST(log_point(host->log, log_durable(host->log), &last) == 0);
    const struct hard_state_start start = {.is_new = node->is_new,
                                           .joins = node->joins,
                                           .coordinated = !world->options.pair.by_operator,
                                           .last_epoch = last.epoch};
    hard_state_begin(&node->hard_state, &start);
    node_hard_state_write(world);
}

static void make_rules(struct world *world) {
    struct node *node = world->host->node;
    const struct pair_options *options = &world->options.pair;
    struct log_point last;
    MUST(log_point(world->host->log, log_durable(world->host->log), &last) == 0);
    node->pair = (struct pair){
        .self = node->hard_state.node,
        .other = (uint8_t)(1 - node->hard_state.node),
        .founds = node->hard_state.node == 0 && !node->joins,
        .may_lead_alone = options->solo_after_ms != UINT64_MAX,
        .by_operator = options->by_operator,
        .is_async = options->is_async,
        .run = node->hard_state.runs,
        .serial = world_real_ns(world) / 1000000000u,
        .committed = world->host->table.flat.position, /* LOG-3: the index has absorbed only committed records */
        .heard = last.epoch,
    };
}

static void open_record_client(struct world *world) {
    struct node *node = world->host->node;
    char url[16], message[COORDINATOR_MESSAGE_SIZE];
    uint64_t failover_ms = world->options.pair.failover_after_ms;
    uint32_t presence_ms = failover_ms < COORDINATOR_PRESENCE_MS ? (uint32_t)failover_ms : COORDINATOR_PRESENCE_MS;
    if (world->options.pair.presence_ms != 0) presence_ms = world->options.pair.presence_ms;
    node->record_client = (struct record_client){
        .done = on_kept, .changed = on_changed, .argument = world, .self = node->pair.self, .presence_ms = presence_ms};
    memcpy(node->record_client.cluster, node->cluster, CLUSTER_ID_SIZE);
    memcpy(node->record_client.member, node->member, MEMBER_ID_SIZE);
    snprintf(url, sizeof url, "%u", world->host->number);
    MUST(record_client_open(&node->record_client, &(struct record_client_access){.url = url}, message) == 0);
}

/* Resets the state of an earlier life. */
static void forget_life(struct world *world) {
    struct node *node = world->host->node;
    const struct pair_options *options = &world->options.pair;
    const struct pair_times times = {.failover_after_ms = options->failover_after_ms,
                                     .solo_after_ms = options->solo_after_ms,
                                     .keep_ms = options->keep_ms};
    node->pair = (struct pair){0};
    node->words = node->words_told = 0;
    node->said = NULL;
    node->ended = node->blocked = false;
    node->alarm_ns = UINT64_MAX;
    record_reads_init(&node->reads);
    node->digests = (struct digests){0};
    node->silence = (struct silence){0};
    node->items = NULL;
    node->items_last = &node->items;
    node->leading = (struct node_leading){0};
    node->alone = (struct alone){0};
    leader_half_init(&node->leading.half, &times);
    node->following = (struct node_following){0};
    follower_half_init(&node->following.half, &times);
    node->writes = node->leads = node->paused = false;
    node->committed = node->may_index = world->host->inbox.follow_to = world->host->table.flat.position;
    node->claimed = UINT64_MAX;
    node->applying = node->may_apply = false;
}

static bool read_hard_state(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    char message[IDENTITY_MESSAGE_SIZE] = "";
    int error = hard_state_read(&node->pair_disk->disk, pair_directory, &node->hard_state, message);
    node->is_new = error == -ENOENT;
    if (node->is_new) {
        node->hard_state = (struct hard_state){.node = (uint8_t)host->number};
        if (node->joins) memcpy(node->hard_state.peer, world->hosts[1 - host->number].node->member, MEMBER_ID_SIZE);
    }
    if (error && !node->is_new) snprintf(host->message, sizeof host->message, "%.400s (%d)", message, error);
    return !error || node->is_new;
}

bool node_start(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    uint64_t life = host->life;
    forget_life(world);
    if (!read_hard_state(world)) return false;
    begin_hard_state(world);
    if (host->life != life) return false;
    make_rules(world);
    summons_init(&node->summons, node->pair.run);
    MUST(log_cursor_open(&node->applier, host->log, core_position(host->core), false) == 0);
    if (!node->pair.by_operator) open_record_client(world);
    node_heard(world);
    struct pair_hard_state hard_state = hard_state_for_rules(&node->hard_state);
    struct pair_effects effects = {0};
    pair_start(&node->pair, &hard_state, log_durable(host->log), &effects);
    for (size_t i = 0; i < effects.count && host->life == life && !node->ended; i++)
        perform(world, PAIR_LOOKING, &effects.items[i], NULL);
    if (host->life == life) go_on(world);
    return host->life == life;
}

void node_end(struct world *world) {
    struct node *node = world->host->node;
    registrar_forget(world, world->host->number);
    log_cursor_close(node->applier);
    node->applier = NULL;
    node->writes = node->leads = false;
    lead_end(world);
}

/* ---- queries by other parts of the rig */

Tarry__Code node_admits(const struct node *node, const Tarry__Request *request) {
    if (node->leads) {
        bool is_handing_over = node->paused && !request_is_question(request);
        return node->leading.half.stalled_ns != 0 || is_handing_over ? TARRY__CODE__BUSY : TARRY__CODE__OK;
    }
    return request_is_question(request) && !node->writes ? TARRY__CODE__OK : TARRY__CODE__NOT_PRIMARY;
}

struct word {
    enum pair_word word;
};

static void take_word(struct world *world, void *argument) {
    struct pair_event event = {.kind = PAIR_TOLD, .word = ((struct word *)argument)->word};
    world->host->node->words++;
    if (event.word == PAIR_SOLO) lead_forget_question(world);
    alone_because(&world->host->node->alone, TARRY__ALONE_PUT__WHY__TOLD);
    node_step(world, &event, NULL);
}

void node_word(struct world *world, enum pair_word word) {
    static const char *const names[] = {[PAIR_PROMOTE] = "promote",
                                        [PAIR_ASSERT] = "promote, the other is stopped",
                                        [PAIR_FORCE] = "promote by force",
                                        [PAIR_SOLO] = "serve alone",
                                        [PAIR_HAND_OVER] = "hand over",
                                        [PAIR_RESUME] = "go on",
                                        [PAIR_YIELD] = "give up what it served alone"};
    struct host *host = world->host;
    if (host->state != HOST_UP) return;
    TRACE(world, "operator", "tells node %u: %s", host->number, names[word]);
    struct word *told = world_alloc(world, sizeof *told);
    told->word = word;
    host->node->words_told++;
    node_post(world, take_word, told);
}

void node_tell(struct world *world, uint32_t node, enum pair_word word) {
    world_enter(world, node);
    node_word(world, word);
    world_enter(world, WORLD_OUTSIDE);
}
