/* signer.c: see signer.h. */
#include "signer.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "fatal.h"
#include "log.h"
#include "logfmt.h"
#include "private_file.h"

#define NS_PER_S 1000000000ull
#define INTERVAL_NS (HEAD_INTERVAL_S * NS_PER_S)
/* Delay after a start, short because a crash may have left frames unsigned. */
#define SOON_NS NS_PER_S

static int refuse(char *message, size_t message_size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int refuse(char *message, size_t message_size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, message_size, format, arguments);
    va_end(arguments);
    return 1;
}
#define REFUSE(...) refuse(message, message_size, __VA_ARGS__)

/* ---- the key */

static const char *parse_key(void *out, const uint8_t *text, size_t size) {
    return sign_secret_parse((const char *)text, size, out);
}

/* Reads the key. A process that can read the file can sign in this broker's name. */
static int read_key(struct sign_secret *out, const char *path, char *message, size_t message_size) {
    const struct private_file file = {.what = "sign key",
                                      .path = path,
                                      .option = "sign-key",
                                      .remedy = "; 'tarry keygen' creates it"};
    return private_file_use(&file, SIGN_KEY_TEXT_SIZE, parse_key, out, message, message_size);
}

static int load_key(struct signer *signer, const char *path, char *message, size_t message_size) {
    /* This memory has guard pages, is locked, and is left out of core dumps. */
    signer->secret = sodium_malloc(sizeof(*signer->secret));
    if (signer->secret == NULL)
        return REFUSE(
            "there is no protected memory for the sign key: raise the limit of locked memory (LimitMEMLOCK=1M)");
    if (read_key(signer->secret, path, message, message_size) != 0) {
        sodium_free(signer->secret);
        signer->secret = NULL;
        return 1;
    }
    sodium_mprotect_readonly(signer->secret);
    return 0;
}

/* ---- the start */

static void tell(struct signer *signer) {
    atomic_store(&signer->told_position, signer->last.position);
    atomic_store(&signer->told_ms, signer->last.wall_ns / NS_PER_MS);
}

static int judge_last(struct signer *signer, char *message, size_t message_size) {
    const char *directory = signer->dir->path;
    uint64_t damaged;
    int result = heads_last(&signer->heads, signer->secret->public.id, &signer->last, &damaged);
    if (result < 0) return REFUSE("%s/" HEADS_NAME " cannot be read: %s", directory, strerror(-result));
    if (result == 1 && damaged != UINT64_MAX)
        return REFUSE("%s/" HEADS_NAME " is damaged at byte %" PRIu64
                      "; restore it from a copy, or move it away to start a new file",
                      directory, damaged * HEAD_SIZE);
    if (result == 1) {
        signer->last = (struct head){0};
        return 0;
    }
    bool is_ours = head_is_signed(&signer->last, &signer->secret->public) &&
                   memcmp(signer->last.cluster, signer->dir->cluster, HEAD_CLUSTER_SIZE) == 0;
    if (is_ours) return 0;
    return REFUSE("%s/" HEADS_NAME ": head %" PRIu64
                  " names this broker as its signer, but its signature is wrong; restore the file from a copy, or move "
                  "it away to start a new file",
                  directory, signer->last.number);
}

int signer_open(struct signer *signer, const struct config *config, const struct datadir *dir, char *message,
                size_t message_size) {
    *signer = (struct signer){.dir = dir, .heads = {.handle = -1}};
    if (config->inspect) return 0;
    int error = heads_open(&signer->heads, &disk_posix, dir->path);
    if (error != 0) return REFUSE("%s/" HEADS_NAME " cannot be read: %s", dir->path, strerror(-error));
    if (config->sign_key[0] == '\0') {
        if (signer->heads.count > 0)
            logfmt("unsigned",
                   "reason=\"the data directory has signed heads, but the option --sign-key is missing\" action=none");
        return 0;
    }
    if (load_key(signer, config->sign_key, message, message_size) != 0) return 1;
    if (signer->heads.torn_bytes > 0)
        logfmt("torn_head", "offset=%" PRIu64 " bytes=%" PRIu64 " action=\"the next head overwrites it\"",
               signer->heads.count * HEAD_SIZE, signer->heads.torn_bytes);
    if (judge_last(signer, message, message_size) != 0) return 1;
    tell(signer);
    char id[SIGN_KEY_ID_TEXT_SIZE];
    logfmt("signing", "key=%s heads=%" PRIu64 " signed_to=%" PRIu64, sign_key_id_format(signer->secret->public.id, id),
           signer->last.number, signer->last.position);
    return 0;
}

uint64_t signer_known(const struct signer *signer) {
    return signer->last.position;
}

void signer_told(const struct signer *signer, uint64_t *out_position, uint64_t *out_ms) {
    *out_position = atomic_load(&signer->told_position);
    *out_ms = atomic_load(&signer->told_ms);
}

/* Returns false if the last head is at `position`, but has another chain hash than `chain`. */
static bool signer_agrees(const struct signer *signer, uint64_t position, const uint8_t chain[FRAME_CHAIN_SIZE]) {
    return signer->last.position != position || memcmp(signer->last.chain, chain, FRAME_CHAIN_SIZE) == 0;
}

/* ---- the run */

void signer_start(struct signer *signer, struct log *log) {
    signer->log = log;
}

/* Signs and stores `next`. */
static void sign(struct signer *signer) {
    struct head head = signer->next;
    head.number = signer->last.number + 1;
    head_sign(&head, signer->secret);
    int error = heads_append(&signer->heads, &head);
    uint64_t now_ns = monotonic_ns();
    if (error != 0) {
        logfmt("head_failed", "position=%" PRIu64 " reason=\"%s\" action=\"the broker tries again in a minute\"",
               head.position, strerror(-error));
        signer->due_ns = now_ns + INTERVAL_NS;
        return;
    }
    signer->last = head;
    tell(signer);
    signer->signed_ns = now_ns;
    signer->due_ns = 0;
}

void signer_take(struct signer *signer, uint64_t segment, const struct frame_header *header) {
    if (signer->secret == NULL) return;
    if (signer->due_ns != 0 && signer->next.segment != segment) sign(signer);
    uint64_t end = header->position + frame_size(header->body_size, header->blob_size);
    if (!signer_agrees(signer, end, header->chain)) fatal("log_differs_from_its_signed_head", LOG_DAMAGED);
    signer->next = (struct head){
        .position = end,
        .segment = segment,
        .kept_from = log_start(signer->log),
        .steady_ns = header->steady_ns,
        .wall_ns = header->wall_ns,
        .epoch = header->epoch,
    };
    memcpy(signer->next.cluster, signer->dir->cluster, HEAD_CLUSTER_SIZE);
    memcpy(signer->next.chain, header->chain, FRAME_CHAIN_SIZE);
    if (signer->due_ns != 0 || end <= signer->last.position) return;
    signer->due_ns = monotonic_ns() + (signer->signed_ns == 0 ? SOON_NS : INTERVAL_NS);
}

uint64_t signer_wait_ns(const struct signer *signer) {
    if (signer->due_ns == 0) return UINT64_MAX;
    uint64_t now_ns = monotonic_ns();
    return signer->due_ns > now_ns ? signer->due_ns - now_ns : 0;
}

void signer_step(struct signer *signer) {
    if (signer_wait_ns(signer) == 0) sign(signer);
}

void signer_retire(struct signer *signer, uint64_t kept_from) {
    if (signer->secret == NULL || signer->next.position <= signer->last.position) {
        /* The log has no new frames to sign, so sign the last head again; the start of the log in it is new. */
        if (signer->secret == NULL || signer->last.number == 0) return;
        signer->next = signer->last;
    }
    signer->next.kept_from = kept_from;
    sign(signer);
}

void signer_stop(struct signer *signer) {
    if (signer->due_ns != 0) sign(signer);
    heads_close(&signer->heads);
    sodium_free(signer->secret); /* this wipes the key; NULL is allowed */
    signer->secret = NULL;
}
