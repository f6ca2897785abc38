/* gateways.c: see gateways.h. All functions are called on the door's thread. */
#include "gateways.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "authorizer.h"
#include "config.h"
#include "datadir.h"
#include "lanes.h"
#include "logfmt.h"
#include "private_file.h"
#include "push_secrets.h"
#include "pusher.h"
#include "rpc.h"
#include "run.h"

static const struct gateways_needs *needs_of(void *argument) {
    return argument;
}

static bool on_request(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *request) {
    return rpc_request(needs_of(argument)->rpc, from, principal, peer, request);
}

static bool on_has_spare(void *argument, uint64_t principal, size_t size) {
    return rpc_has_spare(needs_of(argument)->rpc, principal_of(principal), size);
}

static uint64_t on_hold(void *argument, uint64_t principal) {
    return (uint64_t)(uintptr_t)access_hold(principal_of(principal));
}

static void on_release(void *argument, uint64_t principal) {
    access_release(principal_of(principal));
}

static const char *on_name(void *argument, uint64_t principal) {
    return access_record_name(principal_of(principal));
}

static void on_who(void *argument, uint64_t principal, struct gateway_who *out) {
    _Static_assert(GATEWAY_ROLES_SIZE >= ROLES_TEXT_SIZE, "roles fit");
    const struct access_principal *who = principal_of(principal);
    out->name = who->entry.name;
    const Tarry__Request stats = {.body_case = TARRY__REQUEST__BODY_STATS};
    roles_format(who->entry.roles, " ", out->roles);
    out->may_look = (who->entry.roles & access_rule_of_request(&stats)->roles) != 0;
    out->is_confined = access_is_confined(who);
}

static uint64_t on_own(void *argument) {
    return authorizer_own(needs_of(argument)->authorizer);
}

static Tarry__Code on_may_key(void *argument, uint64_t principal, const Tarry__Commit *commit,
                              char sentence[GATEWAY_SENTENCE_SIZE]) {
    const struct gateways_needs *needs = argument;
    return authorizer_judge_key(needs->authorizer, principal_of(principal), commit, sentence);
}

static Tarry__Code on_pay(void *argument, uint64_t principal, const struct gateway_deed *deed,
                          char sentence[GATEWAY_SENTENCE_SIZE]) {
    const struct gateways_needs *needs = argument;
    return authorizer_judge_deed(needs->authorizer, principal_of(principal), deed->leases, deed->operations, sentence);
}

static void on_unpay(void *argument, uint64_t principal) {
    (void)argument;
    access_give_rate(principal_of(principal), 1);
}

static Tarry__Code on_may_lease(void *argument, uint64_t principal, const char *const *queues, size_t queue_count,
                                char sentence[GATEWAY_SENTENCE_SIZE]) {
    _Static_assert(GATEWAY_SENTENCE_SIZE >= ACCESS_SENTENCE_SIZE, "a sentence fits");
    const struct gateways_needs *needs = argument;
    if (atomic_load(&needs->run->stopping)) return TARRY__CODE__STOPPING;
    return authorizer_judge_lease(needs->authorizer, principal_of(principal), queues, queue_count, sentence);
}

static bool on_may(void *argument, uint64_t principal, Tarry__Op__OpCase operation, const char *queue,
                   char sentence[GATEWAY_SENTENCE_SIZE]) {
    const struct gateways_needs *needs = argument;
    return authorizer_judge_op(needs->authorizer, principal_of(principal), operation, queue, sentence);
}

static uint32_t on_epoch(void *argument) {
    return atomic_load(&needs_of(argument)->run->epoch);
}

static bool on_lane_up(void *argument, uint32_t lane, uint64_t session, uint64_t id) {
    return lanes_up(needs_of(argument)->lanes, lane, session, id);
}

static void on_lane_sent(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp) {
    lanes_sent(needs_of(argument)->lanes, lane, turn, left, stamp);
}

static void on_lane_credit(void *argument, uint32_t lane, uint64_t session, uint32_t credit) {
    lanes_credit(needs_of(argument)->lanes, lane, session, credit);
}

struct gateway *gateways_new(const struct gateways_needs *needs) {
    const struct gateway_calls calls = {
        .argument = (void *)needs,
        .request = on_request,
        .has_spare = on_has_spare,
        .hold = on_hold,
        .release = on_release,
        .name = on_name,
        .who = on_who,
        .own = on_own,
        .may_key = on_may_key,
        .pay = on_pay,
        .unpay = on_unpay,
        .may_lease = on_may_lease,
        .may = on_may,
        .epoch = on_epoch,
        .lane_up = on_lane_up,
        .lane_sent = on_lane_sent,
        .lane_credit = on_lane_credit,
    };
    return gateway_new(&calls);
}

/* ---- webhooks */

/* Webhook requests may use 1/DESCRIPTORS_SHARE of this process's file descriptors. */
#define DESCRIPTORS_SHARE 16u
#define CA_FILE_MAX (1 << 20) /* maximum size of the file of CAs, in bytes; the error message also names it */

static int on_read_secrets(void *argument, char *out, size_t size, size_t *out_size, char *message,
                           size_t message_size) {
    const struct config *config = argument;
    const struct private_file file = {.what = "push secrets",
                                      .path = config->push_secrets,
                                      .option = "push-secrets",
                                      .remedy = "; docs/WEBHOOKS.md describes its content"};
    *out_size = 0;
    if (file.path[0] == '\0') return 0;
    return private_file_read(&file, out, size, out_size, message, message_size);
}

static void on_say(void *argument, const char *queue, const char *sentence) {
    char quoted[2][LOGFMT_VALUE_SIZE];
    (void)argument;
    if (sentence == NULL)
        logfmt("push_goes_on", "queue=%s", logfmt_quote(queue, quoted[0]));
    else
        logfmt_warning("push_fails", "queue=%s reason=%s", logfmt_quote(queue, quoted[0]),
                       logfmt_quote(sentence, quoted[1]));
}

static int check_secrets(const struct config *config, char *message, size_t message_size) {
    struct push_secrets secrets = {0};
    char problem[PUSH_SECRETS_MESSAGE_SIZE] = "the file is larger than 256 KiB";
    size_t size = 0;
    char *text = malloc(PUSH_SECRETS_FILE_MAX + 1);
    snprintf(message, message_size, "out of memory");
    if (text == NULL) return 1;
    int result = on_read_secrets((void *)config, text, PUSH_SECRETS_FILE_MAX + 1, &size, message, message_size);
    if (result == 0 && (size > PUSH_SECRETS_FILE_MAX || push_secrets_parse(text, size, &secrets, problem) != 0)) {
        snprintf(message, message_size, "push secrets %s: %s", config->push_secrets, problem);
        result = 1;
    }
    push_secrets_deinit(&secrets);
    sodium_memzero(text, PUSH_SECRETS_FILE_MAX + 1);
    free(text);
    return result;
}

/* Checks the file of CAs. libcurl reads it whole for each connection, so a file that never ends (/dev/zero) would block
 * all webhooks. */
static int check_ca(const struct config *config, char *message, size_t message_size) {
    struct stat status;
    if (config->push_ca[0] == '\0' || stat(config->push_ca, &status) != 0) return 0;
    if (S_ISREG(status.st_mode) && status.st_size <= CA_FILE_MAX) return 0;
    snprintf(message, message_size, "push-ca %s is not a PEM file of at most 1 MiB", config->push_ca);
    return 1;
}

/* Returns --push-requests, or the number that the file descriptors allow. */
static unsigned requests_of(const struct config *config) {
    struct rlimit limit;
    rlim_t share = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) share = limit.rlim_cur / DESCRIPTORS_SHARE;
    if (share == 0) share = 1;
    if (share >= config->push_requests) return (unsigned)config->push_requests;
    if (config->push_requests != PUSH_REQUESTS_DEFAULT)
        logfmt_warning("push_requests_fewer", "asked=%" PRIu64 " granted=%u descriptors=%" PRIu64,
                       config->push_requests, (unsigned)share, (uint64_t)limit.rlim_cur);
    return (unsigned)share;
}

struct push *pushes_new(const struct config *config, const struct datadir *dir, struct gateway *gateway, char *message,
                        size_t message_size) {
    struct push_options options = {.allow = config->push_allow,
                                   .ca = config->push_ca,
                                   .version = TARRY_VERSION,
                                   .limits = {.requests = requests_of(config),
                                              .host_requests = (unsigned)config->push_host_requests,
                                              .queue_requests = (unsigned)config->push_queue_requests,
                                              .time_ms = config->push_timeout_ms,
                                              .connect_ms = config->push_connect_timeout_ms,
                                              .rest_ms = config->push_rest_ms},
                                   .argument = (void *)config,
                                   .read_secrets = on_read_secrets,
                                   .say = on_say};
    if (check_ca(config, message, message_size) != 0) return NULL;
    if (check_secrets(config, message, message_size) != 0) return NULL;
    memcpy(options.cluster, dir->cluster, sizeof(options.cluster));
    struct push *push = push_new(gateway, &options);
    if (push == NULL) snprintf(message, message_size, "out of memory");
    return push;
}
