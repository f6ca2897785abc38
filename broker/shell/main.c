/* main.c: starting and stopping.
 *
 * Order of starting: signals are blocked (every thread inherits that) → data directory → index, log, core → endpoints
 * (bound, not served) → threads → requests are received → ready. Stopping: new work is refused → the core stops and
 * drains → log synced → deliveries out → index caught up → answers sent, exit. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "beanstalk.h"
#include "config_tls.h"
#include "endpoints.h"
#include "gateways.h"
#include "http.h"
#include "http_server.h"
#include "listen.h"
#include "logfmt.h"
#include "notify.h"
#include "papers.h"
#include "peer_key.h"
#include "pusher.h"
#include "pushes.h"
#include "recovery.h"
#include "shell.h"
#include "stats.h"
#include "tls.h"

#define EXIT_USAGE 2
/* The ready line of a pair's node says which of the two it is, if that is known in this time. */
#define SETTLE_MAX_MS 2000
/* For files, and whatever else is no connection. */
#define DESCRIPTORS_RESERVED 256
/* What is answered already gets so long to leave. */
#define FLUSH_MAX_MS 1000
/* A few allocator arenas are enough for a few threads; each may keep as much as it once had. */
#define MALLOC_ARENAS 4
#define MALLOC_MMAP_BYTES (1 << 20)
#define MALLOC_TRIM_BYTES (4 << 20)

static struct shell shell;

static _Noreturn void refuse(const char *event, const char *sentence) {
    char quoted[LOGFMT_VALUE_SIZE];
    logfmt(event, "reason=%s", logfmt_quote(sentence, quoted));
    exit(EXIT_REFUSED);
}

static uint64_t monotonic_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000u + (uint64_t)time.tv_nsec / NS_PER_MS;
}

/* A page of the index that cannot be read is a signal, not an error: the disk failed, or somebody cut the file short
 * (F-8). Only what a handler may do: write and end. */
static void page_lost(int number) {
    static const char line[] =
        "event=index_unreadable reason=\"a page of a mapped file cannot be read: the disk failed, or "
        "the file was cut short; restore the data directory from a copy\" action=exit\n";
    ssize_t written = write(STDERR_FILENO, line, sizeof(line) - 1);
    (void)written; /* there is nobody else to tell */
    _exit(EXIT_STORAGE);
}

static void block_signals(sigset_t *out) {
    sigemptyset(out);
    sigaddset(out, SIGTERM);
    sigaddset(out, SIGINT);
    sigaddset(out, SIGHUP);
    pthread_sigmask(SIG_BLOCK, out, NULL);
    signal(SIGPIPE, SIG_IGN); /* a client gone is an error of write(2) */
    signal(SIGBUS, page_lost);
}

/* A connection is a descriptor. No more than are needed, for the library's tables are as long as there may be. */
static void raise_descriptors(void) {
    struct rlimit limit;
    const rlim_t wanted = DOOR_CONNECTIONS_MAX + DESCRIPTORS_RESERVED;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        logfmt("limit_unchanged", "what=descriptors reason=\"%s\"", strerror(errno));
}

static unsigned connections_max(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= 2 * DESCRIPTORS_RESERVED)
        return DESCRIPTORS_RESERVED / 4;
    rlim_t rest = limit.rlim_cur - DESCRIPTORS_RESERVED;
    return rest < DOOR_CONNECTIONS_MAX ? (unsigned)rest : DOOR_CONNECTIONS_MAX;
}

static void tune_allocator(void) {
    mallopt(M_ARENA_MAX, MALLOC_ARENAS);
    mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_BYTES);
    mallopt(M_TRIM_THRESHOLD, MALLOC_TRIM_BYTES);
}

/* Checks the addresses before anything is touched. */
static void parse_endpoints(void) {
    struct endpoints *endpoints = &shell.endpoints;
    char message[ENDPOINTS_MESSAGE_SIZE], url[LISTEN_URL_SIZE];
    const char *again = getenv(RESTART_URLS);
    bool starts_again = again != NULL && shell.config.peer[0] != '\0';
    if (endpoints_parse(endpoints, starts_again ? again : shell.config.listen, message) != 0) {
        fprintf(stderr, "tarryd: %s\n", message);
        exit(EXIT_USAGE);
    }
    for (unsigned i = 0; i < endpoints->count; i++) {
        const struct listen_address *address = &endpoints->addresses[i];
        if (address->loopback || address->scheme == LISTEN_WSS || shell.config.unsafe_no_tls) continue;
        listen_format(address, url, sizeof(url));
        snprintf(message, sizeof(message),
                 "%s is not a loopback address, and nothing enciphers what goes over the network: listen on wss:// "
                 "with --tls-cert and --tls-key, on 127.0.0.1, or say --unsafe-no-tls",
                 url);
        refuse("refused", message);
    }
}

static void on_tls(void *argument, bool is_problem, const char *sentence) {
    char quoted[LOGFMT_VALUE_SIZE];
    (void)logfmt_quote(sentence, quoted);
    if (is_problem)
        logfmt_warning("tls_refused", "reason=%s", quoted);
    else
        logfmt("tls_renewed", "reason=%s", quoted);
}

static void read_certificates(void) {
    char message[TLS_SENTENCE_SIZE];
    const struct config *config = &shell.config;
    const struct tls_files files = {.certificate = config->tls_cert,
                                    .key = config->tls_key,
                                    .client_ca = config->tls_client_ca,
                                    .peer_ca = config->tls_peer_ca};
    if (!config_uses_tls(config)) return;
    if (tls_open(&shell.tls, &files, on_tls, NULL, message) != 0) refuse("refused", message);
}

/* Over the network a principal is somebody with a token or a certificate. */
static void check_network(void) {
    bool is_network = false;
    for (unsigned i = 0; i < shell.endpoints.count; i++) is_network |= !shell.endpoints.addresses[i].loopback;
    if (!is_network || authorizer_is_open(&shell.authorizer) || authorizer_has_rows(&shell.authorizer)) return;
    refuse("refused", "an address is not loopback, and the file of tokens lets nobody in from there: make a token with "
                      "'tarry token add', listen on 127.0.0.1 only, or say --unsafe-no-tokens");
}

static void add_listener(unsigned i) {
    enum listen_scheme scheme = shell.endpoints.addresses[i].scheme;
    const struct door_stream_calls *speaks = scheme == LISTEN_BEANSTALK ? beanstalk_calls(shell.beanstalk) : NULL;
    door_add(shell.door, shell.endpoints.sockets[i].fd, scheme == LISTEN_WSS, speaks);
}

static void bind_endpoints(void) {
    char message[ENDPOINTS_MESSAGE_SIZE], urls[ENDPOINTS_TEXT_SIZE];
    if (endpoints_open(&shell.endpoints, message) != 0) refuse("listen_failed", message);
    endpoints_format(&shell.endpoints, urls);
    restart_remember_urls(urls);
    listen_format(endpoints_main(&shell.endpoints), shell.run.url, sizeof(shell.run.url));
    const struct door_calls calls = http_calls(&shell);
    struct door_limits limits = {.request_max = REQUEST_SIZE_MAX,
                                 .held_max = MEMORY_SHARE_REQUESTS(shell.config.memory),
                                 .connections_max = connections_max(),
                                 .origins = shell.config.allow_origin,
                                 .tls = shell.tls};
    shell.gateway = gateways_new(&shell);
    shell.http = shell.gateway != NULL ? http_server_new(shell.gateway) : NULL;
    if (shell.http != NULL) limits.http = http_server_calls(shell.http);
    shell.door = shell.http != NULL ? door_new(&calls, &limits) : NULL;
    if (shell.door == NULL) refuse("listen_failed", "there is not enough memory");
    lanes_init(&shell.lanes, &shell.dir, &shell.inbox, shell.door);
    lone_init(&shell.lone, &shell.inbox, &shell.core_thread, &shell.sync, shell.door);
    gateway_serve(shell.gateway, shell.door);
    http_server_serve(shell.http, shell.door);
    shell.beanstalk = beanstalk_new(shell.gateway);
    if (shell.beanstalk == NULL) refuse("listen_failed", "there is not enough memory");
    beanstalk_serve(shell.beanstalk, shell.door);
    shell.push = pushes_new(&shell, message, sizeof(message));
    if (shell.push == NULL) refuse("refused", message);
    for (unsigned i = 0; i < shell.endpoints.count; i++) add_listener(i);
}

/* ---- what the pair's thread calls */

static void on_follower_durable(void *context, uint64_t position) {
    delivery_sender_durable(&shell.delivery_sender, position);
}

static void on_confirmed_audit(void *context, struct call *call) {
    auditor_post(&shell.auditor, call);
}

static void on_fresh_enough(void *context, struct call *call) {
    rpc_go_on(&shell.rpc, call);
}

static const char *other_problem(void *context, char *buffer, size_t size) {
    struct authorizer_numbers access;
    authorizer_numbers(&shell.authorizer, &access);
    snprintf(buffer, size, "%s", access.problem);
    return buffer[0] != '\0' ? buffer : NULL;
}

static void open_node(void) {
    char message[DATADIR_MESSAGE_SIZE];
    const struct node_needs needs = {.config = &shell.config,
                                     .dir = &shell.dir,
                                     .run = &shell.run,
                                     .clock = &shell.clock,
                                     .disk = &shell.disk,
                                     .hang = &shell.sync.hang,
                                     .fsync_us = &shell.fsync_us,
                                     .inbox = &shell.inbox,
                                     .releaser = &shell.releaser,
                                     .endpoints = &shell.endpoints,
                                     .tls = shell.tls,
                                     .peer_key = &shell.peer_key,
                                     .papers = &shell.papers,
                                     .signed_to = &shell.signer.told_position,
                                     .calls = {.durable = on_follower_durable,
                                               .audit = on_confirmed_audit,
                                               .go_on = on_fresh_enough,
                                               .problem = other_problem}};
    if (node_open(&shell.node, &needs, message) != 0) refuse("refused", message);
}

/* ---- who is told how far the log is durable wherever it must be; in this order */

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

static void init_releaser(void) {
    releaser_init(&shell.releaser, &shell.batches, core_position(shell.core));
    releaser_send_by(&shell.releaser, send_late, &shell.delivery_sender);
    releaser_subscribe(&shell.releaser, tell_sender, &shell.delivery_sender);
    releaser_subscribe(&shell.releaser, tell_inbox, &shell.inbox);
    releaser_subscribe(&shell.releaser, tell_indexer, &shell.indexer);
    releaser_subscribe(&shell.releaser, tell_auditor, &shell.auditor);
}

/* ---- starting */

/* Who minds how full the disk is, and where the archive is: before the log is opened. */
static void prepare_storage(void) {
    room_init(&shell.room, shell.dir.path, shell.config.segment_size, &shell.disk);
    const struct archivist_needs archivist = {.config = &shell.config,
                                              .dir = &shell.dir,
                                              .clock = &shell.clock,
                                              .room = &shell.room,
                                              .archived = indexer_wake,
                                              .context = &shell.indexer};
    if (archivist_init(&shell.archivist, &archivist) != 0)
        refuse("refused", "the name of the archive's directory is too long");
}

static void start_auditor(void) {
    auditor_start(&shell.auditor, &(struct auditor_needs){.source = {.log = shell.log,
                                                                     .index = shell.index,
                                                                     .archive = &shell.archivist.archive},
                                                          .node = &shell.node,
                                                          .run = &shell.run});
}

static void start_indexer(void) {
    signer_start(&shell.signer, shell.log);
    const struct indexer_needs needs = {.config = &shell.config,
                                        .dir = &shell.dir,
                                        .clock = &shell.clock,
                                        .disk = &shell.disk,
                                        .log = shell.log,
                                        .index = shell.index,
                                        .inbox = &shell.inbox,
                                        .signer = &shell.signer,
                                        .archivist = &shell.archivist,
                                        .node = &shell.node};
    indexer_start(&shell.indexer, &needs, core_position(shell.core));
}

static void start_backup(void) {
    backup_start(&shell.backup, &(struct backup_needs){.config = &shell.config,
                                                       .dir = &shell.dir,
                                                       .run = &shell.run,
                                                       .room = &shell.room,
                                                       .log = shell.log,
                                                       .index = shell.index,
                                                       .archivist = &shell.archivist,
                                                       .node = &shell.node});
}

static void start_sync(void) {
    sync_start(&shell.sync, &(struct sync_needs){.log = shell.log,
                                                 .batches = &shell.batches,
                                                 .releaser = &shell.releaser,
                                                 .delivery_sender = &shell.delivery_sender,
                                                 .locator = &shell.locator,
                                                 .node = &shell.node,
                                                 .door = shell.door,
                                                 .fsync_us = &shell.fsync_us});
}

static void start_delivery_sender(void) {
    delivery_sender_start(&shell.delivery_sender, &(struct delivery_sender_needs){.log = shell.log,
                                                                                  .index = shell.index,
                                                                                  .clock = &shell.clock,
                                                                                  .batches = &shell.batches,
                                                                                  .inbox = &shell.inbox,
                                                                                  .lanes = &shell.lanes,
                                                                                  .node = &shell.node});
}

static Tarry__BrokerStats *on_stats(void *context, struct arena *arena, bool clock_held) {
    return stats_broker(&shell, arena, clock_held);
}

static bool is_busy(void *context) {
    return rpc_busy(&shell.rpc) > 0;
}

static void start_core(void) {
    const struct core_thread_needs needs = {.config = &shell.config,
                                            .dir = &shell.dir,
                                            .run = &shell.run,
                                            .clock = &shell.clock,
                                            .room = &shell.room,
                                            .log = shell.log,
                                            .index = shell.index,
                                            .core = shell.core,
                                            .inbox = &shell.inbox,
                                            .batches = &shell.batches,
                                            .sync = &shell.sync,
                                            .indexer = &shell.indexer,
                                            .reader = &shell.reader,
                                            .locator = &shell.locator,
                                            .delivery_sender = &shell.delivery_sender,
                                            .lanes = &shell.lanes,
                                            .push = shell.push,
                                            .node = &shell.node,
                                            .calls = {.stats = on_stats, .is_busy = is_busy}};
    core_thread_start(&shell.core_thread, &needs);
}

static void start_threads(void) {
    shell.inbox.durable = core_position(shell.core); /* of a follower not all is applied */
    shell.inbox.indexed = index_position(shell.index);
    shell.inbox.follow_to = core_position(shell.core);
    node_recovered(&shell.node, shell.log, shell.index); /* before anybody asks how far it may go */
    start_auditor();
    init_releaser();
    start_sync();
    start_delivery_sender();
    start_indexer();
    archivist_start(&shell.archivist, shell.log);
    reader_start(&shell.reader, shell.index, &shell.inbox);
    start_backup();
    locator_start(&shell.locator, shell.log, &shell.archivist.archive, &shell.inbox);
    start_core();
    if (shell.node.on) node_start(&shell.node);
}

/* Everything down, in the order in which work flows, so that nothing that was promised is left behind. */
static void stop(void) {
    uint64_t from_ms = monotonic_ms();
    atomic_store(&shell.run.stopping, true);
    authorizer_tell(&shell.authorizer, true); /* before the log's last record */
    auditor_stop(&shell.auditor);             /* before the core: those who wait for news get an answer now */
    inbox_stop(&shell.inbox);
    core_thread_join(&shell.core_thread);
    sync_stop(&shell.sync);
    node_stop(&shell.node);
    delivery_sender_stop(&shell.delivery_sender);
    reader_stop(&shell.reader);
    backup_stop(&shell.backup);
    archivist_stop(&shell.archivist);
    locator_stop(&shell.locator);
    indexer_stop(&shell.indexer);
    signer_stop(&shell.signer);
    authorizer_stop(&shell.authorizer);
    door_stop(shell.door, FLUSH_MAX_MS);
    beanstalk_free(shell.beanstalk);
    push_free(shell.push);
    gateway_free(shell.gateway);
    http_server_free(shell.http);
    endpoints_remove(&shell.endpoints);
    uint64_t position = index_position(shell.index);
    index_close(shell.index);
    log_close(shell.log);
    logfmt("stopped", "indexed=%" PRIu64 " took_ms=%" PRIu64, position, monotonic_ms() - from_ms);
}

static void configure(int argc, char **argv) {
    char message[CONFIG_MESSAGE_SIZE];
    if (config_load(&shell.config, argc, argv, message) != 0) {
        fprintf(stderr, "tarryd: %s\n", message);
        exit(EXIT_USAGE);
    }
    if (shell.config.help) {
        config_help(stdout);
        exit(0);
    }
    if (shell.config.version) {
        printf("tarryd %s\n", TARRY_VERSION);
        exit(0);
    }
    if (shell.config.print_config) {
        config_print(&shell.config, stdout);
        exit(0);
    }
}

static void say_ready(uint64_t live, uint64_t took_ms) {
    char inspects[64] = "", urls[ENDPOINTS_TEXT_SIZE + 16] = "", member[MEMBER_TEXT_SIZE];
    size_t at = 0;
    if (shell.endpoints.count > 1) {
        at = (size_t)snprintf(urls, sizeof(urls), " urls=\"");
        endpoints_format(&shell.endpoints, urls + at);
        at += strlen(urls + at);
        snprintf(urls + at, sizeof(urls) - at, "\"");
    }
    if (shell.node.on)
        snprintf(inspects, sizeof(inspects), " node=%u role=%s", shell.node.pair.self, node_role(&shell.node));
    if (shell.config.inspect)
        snprintf(inspects, sizeof(inspects), " mode=inspect as_of_ms=%" PRIu64, shell.run.started_ms);
    member_format(shell.dir.member.id, member);
    logfmt("ready", "url=%s%s version=%s epoch=%u member=%s recovered_tasks=%" PRIu64 " took_ms=%" PRIu64 "%s",
           shell.run.url, urls, TARRY_VERSION, atomic_load(&shell.run.epoch), member, live, took_ms, inspects);
}

int main(int argc, char **argv) {
    sigset_t signals;
    char message[DATADIR_MESSAGE_SIZE];
    int error;
    uint64_t from_ms = monotonic_ms();
    restart_remember(argv);
    configure(argc, argv);
    block_signals(&signals);
    raise_descriptors();
    tune_allocator();
    if (sodium_init() < 0) refuse("start_failed", "the system gives no random numbers");
    parse_endpoints();
    read_certificates();
    who_is(getuid(), shell.run.started_by);
    if (!config_digest(&shell.config, shell.config_digest)) refuse("start_failed", "there is not enough memory");
    if (node_check(&shell.config, &shell.endpoints, message) != 0) {
        fprintf(stderr, "tarryd: %s\n", message);
        exit(EXIT_USAGE);
    }
    bool is_pair = shell.config.replication != REPLICATION_NONE;
    if (is_pair && peer_key_read(&shell.peer_key, shell.config.peer_key, message, sizeof(message)) != 0)
        refuse("refused", message);
    if (is_pair && papers_open(&shell.papers, &shell.config, shell.tls, message, sizeof(message)) != 0)
        refuse("refused", message);
    if (shell.config.joins && node_join(&shell.config, &shell.peer_key, &shell.papers, message) != 0)
        refuse("refused", message);
    error = shell.config.inspect ? datadir_inspect(&shell.dir, shell.config.data, message)
                                 : datadir_open(&shell.dir, shell.config.data, message);
    if (error != 0) refuse("refused", message);
    open_node();
    if (authorizer_open(&shell.authorizer, &shell, message, sizeof(message)) != 0) refuse("refused", message);
    check_network();
    if (signer_open(&shell.signer, &shell.config, &shell.dir, message, sizeof(message)) != 0)
        refuse("refused", message);
    prepare_storage();
    inbox_init(&shell.inbox);
    batches_init(&shell.batches);
    rpc_init(&shell.rpc, &shell);
    if (recovery_run(&shell, message, sizeof(message)) != 0) refuse("refused", message);
    shell.run.started_ms = instant_ms(clock_now(&shell.clock, NULL));
    int come = stop_open_signals(&signals);
    if (come < 0) refuse("start_failed", strerror(-come));
    bind_endpoints();
    uint64_t live = core_live(shell.core); /* before the core is its thread's */
    start_threads();
    error = door_start(shell.door);
    if (error != 0) refuse("listen_failed", strerror(error));
    authorizer_start(&shell.authorizer);
    if (shell.node.on) node_settle(&shell.node, SETTLE_MAX_MS);
    say_ready(live, monotonic_ms() - from_ms);
    notify("READY=1");
    if (getenv(RESTART_URLS) != NULL) watchdog_resume();

    siginfo_t caught = {0};
    stop_wait(come, &signals, &caught);
    who_sent(&caught, shell.run.stopped_by);
    notify("STOPPING=1");
    logfmt("stopping", "url=%s", shell.run.url);
    push_stop(shell.push); /* while what it has under way can still be acked */
    if (shell.node.on) node_leave(&shell.node);
    stop();
#ifdef __SANITIZE_ADDRESS__
    __lsan_do_leak_check(); /* _exit would skip it; what is still in use is reachable, and no leak */
#endif
    fflush(NULL);
    _exit(0);
}
