/* main.c: starts and stops the broker.
 *
 * Start: signals are blocked (every thread inherits that) → data directory → index, log, core → endpoints (bound, not
 * served) → threads → requests are received → ready.
 *
 * Stop: new work is refused → the core stops and drains → log synced → deliveries sent → index caught up → replies
 * sent, exit. */
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

#include "clock.h"
#include "config.h"
#include "endpoints.h"
#include "fatal.h"
#include "lifecycle.h"
#include "listen.h"
#include "logfmt.h"
#include "node.h"
#include "peer_credentials.h"
#include "pusher.h"
#include "run.h"
#include "shell.h"
#include "tls.h"

#define EXIT_USAGE 2
/* A pair's node waits at most this long until it knows its role, which the ready line states. */
#define SETTLE_MAX_MS 2000
/* Number of file descriptors that are kept free for files and other uses, and are not available to connections. */
#define DESCRIPTORS_RESERVED 256
/* Settings of malloc. A few arenas are enough for a few threads, and an arena never becomes smaller than its largest
 * size so far. */
#define MALLOC_ARENAS 4
#define MALLOC_MMAP_BYTES (1 << 20)
#define MALLOC_TRIM_BYTES (4 << 20)

static struct shell shell;

/* Handler of SIGBUS: an LMDB page of the index cannot be read, because the disk failed or the file was cut short (F-8).
 * It may only call async-signal-safe functions: write and _exit. */
static void page_lost(int number) {
    static const char line[] =
        "event=index_unreadable reason=\"the kernel cannot read a memory-mapped file: the disk failed, or the file was "
        "truncated; restore the data directory from a copy\" action=exit\n";
    ssize_t written = write(STDERR_FILENO, line, sizeof(line) - 1);
    (void)written; /* a failed write cannot be reported anywhere */
    _exit(EXIT_STORAGE);
}

static void block_signals(sigset_t *out) {
    sigemptyset(out);
    sigaddset(out, SIGTERM);
    sigaddset(out, SIGINT);
    sigaddset(out, SIGHUP);
    pthread_sigmask(SIG_BLOCK, out, NULL);
    signal(SIGPIPE, SIG_IGN); /* With SIGPIPE ignored, write(2) returns an error when a client has disconnected. */
    signal(SIGBUS, page_lost);
}

/* Raises the limit of file descriptors to one per connection. Some libraries allocate tables with one entry per allowed
 * descriptor, so the limit is not higher than needed. */
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

/* Parses the addresses before anything is changed. */
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
        if (address->loopback || listen_is_tls(address->scheme) || shell.config.unsafe_no_tls) continue;
        listen_format(address, url, sizeof(url));
        snprintf(message, sizeof(message),
                 "%s is not a loopback address, and %.*s:// does not encrypt: listen on %s with --tls-cert and "
                 "--tls-key, or on 127.0.0.1, or allow it with --unsafe-no-tls",
                 url, (int)strcspn(url, ":"), url,
                 address->scheme == LISTEN_TCP    ? "tls+tcp://"
                 : address->scheme == LISTEN_AMQP ? "amqps://"
                                                  : "wss://");
        refuse_to_start("refused", message);
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
    if (tls_open(&shell.tls, &files, on_tls, NULL, message) != 0) refuse_to_start("refused", message);
}

/* Refuses to start if clients from the network could not be admitted: they need a token or a certificate. */
static void check_network(void) {
    bool is_network = false;
    for (unsigned i = 0; i < shell.endpoints.count; i++) is_network |= !shell.endpoints.addresses[i].loopback;
    if (!is_network || authorizer_is_open(&shell.authorizer) || authorizer_has_rows(&shell.authorizer)) return;
    refuse_to_start(
        "refused",
        "the broker listens on an address that is not loopback, but the file of tokens admits no client from there: "
        "make a token with 'tarry token add', or listen on 127.0.0.1 only, or allow it with --unsafe-no-tokens");
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
    uint64_t from_ms = monotonic_ns() / NS_PER_MS;
    restart_remember(argv);
    configure(argc, argv);
    block_signals(&signals);
    raise_descriptors();
    tune_allocator();
    if (sodium_init() < 0) refuse_to_start("start_failed", "the system provides no random numbers");
    parse_endpoints();
    read_certificates();
    system_user_name(getuid(), shell.run.started_by);
    if (!config_digest(&shell.config, shell.config_digest)) refuse_to_start("start_failed", "out of memory");
    if (node_check(&shell.config, &shell.endpoints, message) != 0) {
        fprintf(stderr, "tarryd: %s\n", message);
        exit(EXIT_USAGE);
    }
    bool is_pair = shell.config.replication != REPLICATION_NONE;
    if (is_pair && peer_key_read(&shell.peer_key, shell.config.peer_key, message, sizeof(message)) != 0)
        refuse_to_start("refused", message);
    if (is_pair && peer_credentials_open(&shell.credentials, &shell.config, shell.tls, message, sizeof(message)) != 0)
        refuse_to_start("refused", message);
    if (shell.config.joins && node_join(&shell.config, &shell.peer_key, &shell.credentials, message) != 0)
        refuse_to_start("refused", message);
    error = shell.config.inspect ? datadir_inspect(&shell.dir, shell.config.data, message)
                                 : datadir_open(&shell.dir, shell.config.data, message);
    if (error != 0) refuse_to_start("refused", message);
    shell_open_node(&shell);
    if (authorizer_open(&shell.authorizer, &shell.config, &shell.lanes, &shell.inbox, message, sizeof(message)) != 0)
        refuse_to_start("refused", message);
    check_network();
    if (signer_open(&shell.signer, &shell.config, &shell.dir, message, sizeof(message)) != 0)
        refuse_to_start("refused", message);
    shell_prepare_storage(&shell);
    inbox_init(&shell.inbox);
    batches_init(&shell.batches, &shell.inbox);
    shell_recover(&shell);
    shell.run.started_ms = instant_ms(clock_now(&shell.clock, NULL));
    int come = stop_open_signals(&signals);
    if (come < 0) refuse_to_start("start_failed", strerror(-come));
    shell_open_door(&shell, connections_max());
    uint64_t live = core_live(shell.core); /* number of live tasks; read before the core's thread owns the core */
    shell_start_threads(&shell);
    error = door_start(shell.door);
    if (error != 0) refuse_to_start("listen_failed", strerror(error));
    authorizer_start(&shell.authorizer, shell.door);
    if (shell.node.on) node_settle(&shell.node, SETTLE_MAX_MS);
    say_ready(live, monotonic_ns() / NS_PER_MS - from_ms);
    notify("READY=1");
    if (getenv(RESTART_URLS) != NULL) watchdog_resume();

    siginfo_t caught = {0};
    stop_wait(come, &signals, &caught);
    system_user_of_signal(&caught, shell.run.stopped_by);
    notify("STOPPING=1");
    logfmt("stopping", "url=%s", shell.run.url);
    push_stop(shell.push); /* the webhooks end before the core stops, so that tasks whose requests are running can still
                              be acked */
    if (shell.node.on) node_leave(&shell.node);
    shell_stop(&shell);
#ifdef __SANITIZE_ADDRESS__
    __lsan_do_leak_check(); /* _exit would skip the check for leaks; memory that is still in use is reachable, so it is
                               not reported */
#endif
    fflush(NULL);
    _exit(0);
}
