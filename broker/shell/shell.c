/* shell.c: connects the modules, and starts and stops them in order; see shell.h.
 *
 * Stop: new work is refused → the core stops and drains → log synced → deliveries sent → index caught up → replies
 * sent. */
#include "shell.h"

#include <inttypes.h>
#include <stdio.h>

#include "amqp.h"
#include "beanstalk.h"
#include "fatal.h"
#include "http_server.h"
#include "listen.h"
#include "logfmt.h"
#include "monotonic.h"
#include "pusher.h"
#include "pushes.h"
#include "recovery.h"
#include "restart.h"
#include "sharer.h"
#include "stats.h"
#include "tls.h"

/* Time limit for sending replies that are already packed. */
#define FLUSH_MAX_MS 1000

/* ---- callbacks of the pair's thread */

static void on_follower_durable(void *context, uint64_t position) {
    struct shell *shell = context;
    delivery_sender_durable(&shell->delivery_sender, position);
}

static void on_confirmed_audit(void *context, struct call *call) {
    struct shell *shell = context;
    auditor_post(&shell->auditor, call);
}

static void on_fresh_enough(void *context, struct call *call) {
    struct shell *shell = context;
    rpc_go_on(&shell->rpc, call);
}

static const char *other_problem(void *context, char *buffer, size_t size) {
    struct shell *shell = context;
    struct authorizer_numbers access;
    authorizer_numbers(&shell->authorizer, &access);
    snprintf(buffer, size, "%s", access.problem);
    return buffer[0] != '\0' ? buffer : NULL;
}

void shell_open_node(struct shell *shell) {
    char message[DATADIR_MESSAGE_SIZE];
    const struct node_needs needs = {.config = &shell->config,
                                     .dir = &shell->dir,
                                     .run = &shell->run,
                                     .clock = &shell->clock,
                                     .disk = &shell->disk,
                                     .hang = &shell->sync.hang,
                                     .fsync_us = &shell->fsync_us,
                                     .inbox = &shell->inbox,
                                     .releaser = &shell->releaser,
                                     .endpoints = &shell->endpoints,
                                     .tls = shell->tls,
                                     .peer_key = &shell->peer_key,
                                     .credentials = &shell->credentials,
                                     .signed_to = &shell->signer.told_position,
                                     .calls = {.context = shell,
                                               .durable = on_follower_durable,
                                               .audit = on_confirmed_audit,
                                               .go_on = on_fresh_enough,
                                               .problem = other_problem}};
    if (node_open(&shell->node, &needs, message) != 0) refuse_to_start("refused", message);
}

/* ---- subscribers of the durable position, in this order */

static void tell_sender(void *context, uint64_t position) {
    delivery_sender_durable(context, position);
}

static void tell_inbox(void *context, uint64_t position) {
    inbox_durable(context, position);
}

static void tell_indexer(void *context, uint64_t position) {
    indexer_durable(context, position);
}

static void tell_auditor(void *context, uint64_t position) {
    auditor_durable(context);
}

static void send_late(void *sender, struct batch *batch) {
    delivery_sender_post(sender, batch);
}

static void init_releaser(struct shell *shell) {
    releaser_init(&shell->releaser, &shell->batches, core_position(shell->core));
    releaser_send_by(&shell->releaser, send_late, &shell->delivery_sender);
    releaser_subscribe(&shell->releaser, tell_sender, &shell->delivery_sender);
    releaser_subscribe(&shell->releaser, tell_inbox, &shell->inbox);
    releaser_subscribe(&shell->releaser, tell_indexer, &shell->indexer);
    releaser_subscribe(&shell->releaser, tell_auditor, &shell->auditor);
}

/* ---- storage */

void shell_prepare_storage(struct shell *shell) {
    disk_space_init(&shell->disk_space, shell->dir.path, shell->config.segment_size, &shell->disk);
    const struct archivist_needs archivist = {.config = &shell->config,
                                              .dir = &shell->dir,
                                              .clock = &shell->clock,
                                              .disk_space = &shell->disk_space,
                                              .archived = indexer_wake,
                                              .context = &shell->indexer};
    if (archivist_init(&shell->archivist, &archivist) != 0)
        refuse_to_start("refused", "the path of the archive directory is too long");
}

void shell_recover(struct shell *shell) {
    char message[DATADIR_MESSAGE_SIZE];
    struct recovery recovery = {.config = &shell->config,
                                .dir = &shell->dir,
                                .disk = &shell->disk,
                                .signer = &shell->signer,
                                .config_digest = shell->config_digest,
                                .is_pair = shell->node.on,
                                .clock = &shell->clock,
                                .run = &shell->run};
    if (recovery_run(&recovery, message, sizeof(message)) != 0) {
        if (recovery.is_damaged) refuse_damaged(shell->dir.path, shell->node.on, message);
        refuse_to_start("refused", message);
    }
    shell->log = recovery.log;
    shell->index = recovery.index;
    shell->core = recovery.core;
}

/* ---- the door */

static void open_rpc(struct shell *shell) {
    shell->pair_status = (struct pair_status){.dir = &shell->dir,
                                              .run = &shell->run,
                                              .clock = &shell->clock,
                                              .endpoints = &shell->endpoints,
                                              .tls = shell->tls,
                                              .hang = &shell->sync.hang,
                                              .log = shell->log,
                                              .node = &shell->node,
                                              .authorizer = &shell->authorizer};
    rpc_init(&shell->rpc, &(struct rpc_needs){.config = &shell->config,
                                              .dir = &shell->dir,
                                              .run = &shell->run,
                                              .peer_key = &shell->peer_key,
                                              .log = shell->log,
                                              .inbox = &shell->inbox,
                                              .lone = &shell->lone,
                                              .node = &shell->node,
                                              .auditor = &shell->auditor,
                                              .backup = &shell->backup,
                                              .authorizer = &shell->authorizer,
                                              .pair_status = &shell->pair_status,
                                              .door = shell->door,
                                              .calls_us = &shell->calls_us});
}

/* Sets the door's callbacks. */
static void furnish_door(struct shell *shell) {
    shell->gateways_needs = (struct gateways_needs){.run = &shell->run,
                                                    .rpc = &shell->rpc,
                                                    .authorizer = &shell->authorizer,
                                                    .lanes = &shell->lanes};
    shell->http_needs = (struct http_needs){.run = &shell->run,
                                            .inbox = &shell->inbox,
                                            .rpc = &shell->rpc,
                                            .authorizer = &shell->authorizer,
                                            .lanes = &shell->lanes,
                                            .lone = &shell->lone,
                                            .readiness = {.config = &shell->config,
                                                          .run = &shell->run,
                                                          .disk_space = &shell->disk_space,
                                                          .hang = &shell->sync.hang,
                                                          .node = &shell->node}};
}

static void add_listener(struct shell *shell, unsigned i) {
    enum listen_scheme scheme = shell->endpoints.addresses[i].scheme;
    const struct door_stream_calls *speaks = NULL;
    if (scheme == LISTEN_BEANSTALK) {
        speaks = beanstalk_calls(shell->beanstalk);
    } else if (scheme == LISTEN_AMQP || scheme == LISTEN_AMQPS) {
        speaks = amqp_calls(shell->amqp);
        amqp_is_heard(shell->amqp);
    } else if (!listen_is_for_clients(scheme)) {
        speaks = door_sp_calls(shell->door);
    }
    door_add(shell->door, shell->endpoints.sockets[i].fd, listen_is_tls(scheme), speaks);
}

void shell_open_door(struct shell *shell, unsigned connections_max) {
    char message[ENDPOINTS_MESSAGE_SIZE], urls[ENDPOINTS_TEXT_SIZE];
    if (endpoints_open(&shell->endpoints, message) != 0) refuse_to_start("listen_failed", message);
    endpoints_format(&shell->endpoints, urls);
    restart_remember_urls(urls);
    listen_format(endpoints_main(&shell->endpoints), shell->run.url, sizeof(shell->run.url));
    furnish_door(shell);
    const struct door_calls calls = http_calls(&shell->http_needs);
    struct door_limits limits = {.request_max = REQUEST_SIZE_MAX,
                                 .held_max = MEMORY_SHARE_REQUESTS(shell->config.memory),
                                 .connections_max = connections_max,
                                 .origins = shell->config.allow_origin,
                                 .tls = shell->tls};
    shell->gateway = gateways_new(&shell->gateways_needs);
    shell->http = shell->gateway != NULL ? http_server_new(shell->gateway) : NULL;
    if (shell->http != NULL) limits.http = http_server_calls(shell->http);
    shell->door = shell->http != NULL ? door_new(&calls, &limits) : NULL;
    if (shell->door == NULL) refuse_to_start("listen_failed", "out of memory");
    shell->http_needs.door = shell->door;
    shell->http_needs.gateway = shell->gateway;
    lanes_init(&shell->lanes, &shell->dir, &shell->inbox, shell->door);
    lone_init(&shell->lone, &shell->inbox, &shell->core_thread, &shell->sync, shell->door);
    open_rpc(shell);
    gateway_serve(shell->gateway, shell->door);
    http_server_serve(shell->http, shell->door);
    http_server_count_minutes(shell->http);
    shell->beanstalk = beanstalk_new(shell->gateway);
    if (shell->beanstalk == NULL) refuse_to_start("listen_failed", "out of memory");
    beanstalk_serve(shell->beanstalk, shell->door);
    shell->amqp = amqp_new(shell->gateway);
    if (shell->amqp == NULL) refuse_to_start("listen_failed", "out of memory");
    amqp_serve(shell->amqp, shell->door);
    shell->push = pushes_new(&shell->config, &shell->dir, shell->gateway, message, sizeof(message));
    if (shell->push == NULL) refuse_to_start("refused", message);
    shell->sharer = sharer_new(shell->gateway);
    if (shell->sharer == NULL) refuse_to_start("listen_failed", "out of memory");
    for (unsigned i = 0; i < shell->endpoints.count; i++) add_listener(shell, i);
}

/* ---- the threads */

static void start_auditor(struct shell *shell) {
    auditor_start(&shell->auditor, &(struct auditor_needs){.source = {.log = shell->log,
                                                                      .index = shell->index,
                                                                      .archive = &shell->archivist.archive},
                                                           .node = &shell->node,
                                                           .run = &shell->run});
}

static void start_indexer(struct shell *shell) {
    signer_start(&shell->signer, shell->log);
    const struct indexer_needs needs = {.config = &shell->config,
                                        .dir = &shell->dir,
                                        .clock = &shell->clock,
                                        .disk = &shell->disk,
                                        .log = shell->log,
                                        .index = shell->index,
                                        .inbox = &shell->inbox,
                                        .signer = &shell->signer,
                                        .archivist = &shell->archivist,
                                        .node = &shell->node};
    indexer_start(&shell->indexer, &needs, core_position(shell->core));
}

/* Waits for the index. A follower may have applied records that its index may not include yet (LOG-3). The wait covers
 * only the records that the index may include. */
static bool await_index(void *context, uint64_t position, uint64_t wait_ns) {
    struct shell *shell = context;
    if (shell->node.on && !atomic_load(&shell->node.leads)) {
        uint64_t may_index = atomic_load(&shell->node.may_index);
        if (position > may_index) position = may_index;
    }
    return indexer_await(&shell->indexer, position, atomic_load(&shell->run.stopping) ? 0 : wait_ns);
}

static void start_calendar_reader(struct shell *shell) {
    const struct calendar_reader_needs needs = {.index = shell->index,
                                                .inbox = &shell->inbox,
                                                .await = shell->config.inspect ? NULL : await_index,
                                                .context = shell};
    calendar_reader_start(&shell->calendar_reader, &needs);
}

static void start_backup(struct shell *shell) {
    backup_start(&shell->backup, &(struct backup_needs){.config = &shell->config,
                                                        .dir = &shell->dir,
                                                        .run = &shell->run,
                                                        .disk_space = &shell->disk_space,
                                                        .log = shell->log,
                                                        .index = shell->index,
                                                        .archivist = &shell->archivist,
                                                        .node = &shell->node});
}

static void start_sync(struct shell *shell) {
    sync_start(&shell->sync, &(struct sync_needs){.log = shell->log,
                                                  .batches = &shell->batches,
                                                  .releaser = &shell->releaser,
                                                  .delivery_sender = &shell->delivery_sender,
                                                  .locator = &shell->locator,
                                                  .node = &shell->node,
                                                  .door = shell->door,
                                                  .fsync_us = &shell->fsync_us});
}

static void start_delivery_sender(struct shell *shell) {
    delivery_sender_start(&shell->delivery_sender, &(struct delivery_sender_needs){.log = shell->log,
                                                                                   .index = shell->index,
                                                                                   .clock = &shell->clock,
                                                                                   .batches = &shell->batches,
                                                                                   .inbox = &shell->inbox,
                                                                                   .lanes = &shell->lanes,
                                                                                   .door = shell->door,
                                                                                   .node = &shell->node});
}

static Tarry__BrokerStats *on_stats(void *context, struct arena *arena, bool clock_held) {
    struct shell *shell = context;
    const struct stats_needs needs = {.dir = &shell->dir,
                                      .run = &shell->run,
                                      .clock = &shell->clock,
                                      .disk_space = &shell->disk_space,
                                      .log = shell->log,
                                      .index = shell->index,
                                      .fsync_us = &shell->fsync_us,
                                      .calls_us = &shell->calls_us,
                                      .archivist = &shell->archivist,
                                      .signer = &shell->signer,
                                      .authorizer = &shell->authorizer,
                                      .push = shell->push,
                                      .amqp = amqp_counts(shell->amqp)};
    return stats_broker(&needs, arena, clock_held);
}

static void on_groups(void *context, bool wanted) {
    const struct shell *shell = context;
    sharer_wanted(shell->sharer, wanted);
}

static bool is_busy(void *context) {
    struct shell *shell = context;
    return rpc_busy(&shell->rpc) > 0;
}

static void start_core(struct shell *shell) {
    const struct core_thread_needs needs = {
        .config = &shell->config,
        .dir = &shell->dir,
        .run = &shell->run,
        .clock = &shell->clock,
        .disk_space = &shell->disk_space,
        .log = shell->log,
        .index = shell->index,
        .core = shell->core,
        .inbox = &shell->inbox,
        .batches = &shell->batches,
        .sync = &shell->sync,
        .indexer = &shell->indexer,
        .reader = &shell->reader,
        .calendar_reader = &shell->calendar_reader,
        .locator = &shell->locator,
        .delivery_sender = &shell->delivery_sender,
        .lanes = &shell->lanes,
        .push = shell->push,
        .node = &shell->node,
        .calls = {.context = shell, .stats = on_stats, .is_busy = is_busy, .groups = on_groups}};
    core_thread_start(&shell->core_thread, &needs);
}

void shell_start_threads(struct shell *shell) {
    shell->inbox.durable =
        core_position(shell->core); /* the core's position, because a follower may not have applied the whole log */
    shell->inbox.indexed = index_position(shell->index);
    shell->inbox.follow_to = core_position(shell->core);
    node_recovered(&shell->node, shell->log,
                   shell->index); /* call this before any thread asks how far it may index or retire */
    start_auditor(shell);
    init_releaser(shell);
    start_sync(shell);
    start_delivery_sender(shell);
    start_indexer(shell);
    archivist_start(&shell->archivist, shell->log);
    reader_start(&shell->reader, shell->index, &shell->inbox, MEMORY_SHARE_FACTS(shell->config.memory));
    start_calendar_reader(shell);
    start_backup(shell);
    locator_start(&shell->locator, shell->log, shell->index, &shell->archivist.archive, &shell->inbox);
    start_core(shell);
    filter_reader_start(&shell->filter_reader, shell->index); /* no thread waits for the filters */
    if (shell->node.on) node_start(&shell->node);
}

void shell_stop(struct shell *shell) {
    uint64_t from_ms = monotonic_ns() / NS_PER_MS;
    atomic_store(&shell->run.stopping, true);
    authorizer_tell(&shell->authorizer, true); /* record the refusals before the log's last record is written */
    auditor_stop(&shell->auditor);             /* stop it before the core, so that long polls get their reply at once */
    inbox_stop(&shell->inbox);
    batches_stop(&shell->batches);
    core_thread_join(&shell->core_thread);
    sync_stop(&shell->sync);
    node_stop(&shell->node);
    delivery_sender_stop(&shell->delivery_sender);
    reader_stop(&shell->reader);
    calendar_reader_stop(&shell->calendar_reader);
    backup_stop(&shell->backup);
    archivist_stop(&shell->archivist);
    locator_stop(&shell->locator);
    filter_reader_stop(&shell->filter_reader);
    indexer_stop(&shell->indexer);
    signer_stop(&shell->signer);
    authorizer_stop(&shell->authorizer);
    door_stop(shell->door, FLUSH_MAX_MS);
    beanstalk_free(shell->beanstalk);
    amqp_free(shell->amqp);
    push_free(shell->push);
    sharer_free(shell->sharer);
    http_server_free(shell->http); /* free it before the gateway, because the HTTP server's worker wakes the gateway */
    gateway_free(shell->gateway);
    endpoints_remove(&shell->endpoints);
    uint64_t position = index_position(shell->index);
    index_close(shell->index);
    log_close(shell->log);
    logfmt("stopped", "indexed=%" PRIu64 " took_ms=%" PRIu64, position, monotonic_ns() / NS_PER_MS - from_ms);
}
