/* pushes.c: see pushes.h. */
#include "pushes.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "config.h"
#include "datadir.h"
#include "logfmt.h"
#include "private_file.h"
#include "push_secrets.h"
#include "pusher.h"

/* Webhook requests may use one in DESCRIPTORS_SHARE of this process's file descriptors. */
#define DESCRIPTORS_SHARE 16u
#define CA_FILE_MAX (1 << 20) /* maximum size in bytes; the error message below also names it */

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
